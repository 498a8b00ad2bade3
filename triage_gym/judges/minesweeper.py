"""Roles of Minesweeper turns by rule: what the board before the turn lets an attentive player know.

- **D**: opens a cell that is certain to be no mine.
- **E**: a guess where no closed cell is certain, with what it brings to light.
- **R**: opens a cell that is certain to be a mine; guesses although a cell is certain, whether that goes well or not; an
  open cell, or an action that names none, in vain for the second time in the window.
- **N**: an open cell, or none, for the first time.

What came of the turn is not looked at, except that a repeated answer is known: a guess is as good as the knowledge behind
it. What these rules cannot know: certainty in areas that take too long to count out (:mod:`triage_gym.domains.minesweeper`;
such a guess is E), and which of several guesses is the least risky.
"""

from __future__ import annotations

from itertools import pairwise

from triage_gym.domains.minesweeper import Field, at_a_glance, known, mines_of, parse_cell, parse_field
from triage_gym.protocols import Window
from triage_gym.records import Role

Verdict = tuple[Role, str]


class MinesweeperRules:
    """Judges windows one by one; what a board tells is worked out once."""

    def verdict(self, window: Window) -> Verdict | None:
        """Role and reason, or None when the agent saw no board."""
        field = parse_field(window.observation)
        if field is None:
            return None
        cell = parse_cell(window.action, field)
        if cell is None:
            return _in_vain(window, field, None, "names no cell of the board")
        if not field.closed >> cell & 1:
            return _in_vain(window, field, cell, f"{field.name(cell)} is open already")
        told = at_a_glance(field)
        if not (told.safe | told.mines) >> cell & 1:
            told = known(field, mines_of(window.task))
        if told.mines >> cell & 1:
            return "R", f"{field.name(cell)} is certain to be a mine"
        if told.safe >> cell & 1:
            return "D", f"{field.name(cell)} is certain to be no mine"
        if told.safe:
            sure = (told.safe & -told.safe).bit_length() - 1
            return "R", f"guesses {field.name(cell)}, although {field.name(sure)} is certain to be no mine"
        return "E", f"guesses {field.name(cell)}: no cell is certain"


def _in_vain(window: Window, field: Field, cell: int | None, why: str) -> Verdict:
    """An action that opens nothing: N, and R from the second such one in the window on."""
    for before, pair in pairwise(window.past):
        same = pair.action == window.action or parse_cell(pair.action, field) == cell
        if same and pair.observation == before.observation:
            return "R", f"again: {why}"
    return ("R", f"again: {why}") if (window.action, window.next_observation) in window.past else ("N", why)
