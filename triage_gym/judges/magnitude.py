"""A second level inside the role: how much of it a turn is, in [0, 1], from a fixed table and nothing else.

By the text of the window (``rubric="text"``):

====  =====================================================================  =========
role  level                                                                  magnitude
====  =====================================================================  =========
D     the observation is another one, and the action names a word of the     1.0
      task
D     the observation is another one                                         0.75
D     the observation is the same as before                                  0.25
E     at least half of the answer's words are new to the window              1.0
E     at least a quarter                                                     0.75
E     at least one word                                                      0.5
E     none                                                                   0.25
N     the answer refuses the action, or is the observation before it         1.0
N     anything else                                                          0.5
R     no repetition (something was damaged), or the third one or later       1.0
R     the second repetition of the same action with the same answer          0.75
R     the first                                                              0.5
====  =====================================================================  =========

By the facts (``rubric="facts"``, where the distances of a turn were measured; else, and for E and N, by the text): D is the
share of the distance to the goal that the turn removed, 1.0 for reaching it and 0.0 for coming no nearer; R is 1.0 when the
goal was lost, the share of the distance that was added when it grew (1.0 at most), 0.25 when it did not grow.

What this is worth is not known: nobody has shown that levels help. A credit rule reads them only with ``magnitude=True``. It
replaces what the judge within says of magnitude; a language model that sizes its own labels needs no wrapper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal, final, get_args

from triage_gym.errors import InputError
from triage_gym.facts import FactName
from triage_gym.judges.nesting import Nested, Spec, ask
from triage_gym.judges.plain import is_refused, is_repeated, is_unchanged, new_words, words
from triage_gym.protocols import OUT_OF_REACH, Window
from triage_gym.records import Role, RoleLabel

Rubric = Literal["text", "facts"]


@final
class MagnitudeJudge(Nested):
    """Labels of the judge within, each with a magnitude from the table above. ``usage`` counts them as ``sized``.

    Args:
        of: The judge to ask.
        rubric: ``text``, or ``facts`` where the environment has an expert.

    Raises:
        InputError: For an unknown rubric.
    """

    name: ClassVar[str] = "magnitude"

    def __init__(self, of: Spec, rubric: Rubric = "text") -> None:
        if rubric not in get_args(Rubric):
            raise InputError(f"Expected `rubric` to be one of {get_args(Rubric)}, got {rubric!r}")
        super().__init__([of], {"rubric": rubric}, ("sized",))
        self._rubric = rubric

    @property
    def needs_facts(self) -> tuple[FactName, ...]:
        """What the judge within needs, and ``distance`` for the rubric by facts."""
        within = super().needs_facts
        return within if self._rubric == "text" or "distance" in within else (*within, "distance")

    def labels(self, windows: Sequence[Window], sample: int) -> list[RoleLabel]:
        """One label a window, in order."""
        answers = ask(self.judges[0], windows, sample)
        return [self._sized(window, label) for window, label in zip(windows, answers, strict=True)]

    def _sized(self, window: Window, label: RoleLabel) -> RoleLabel:
        if label.role is None:
            return label
        self.count("sized")
        size = by_facts(window, label.role) if self._rubric == "facts" else None
        return replace(label, magnitude=by_text(window, label.role) if size is None else size)


def by_text(window: Window, role: Role) -> float:
    """Magnitude of ``role`` for the turn, by its text."""
    if role == "D":
        if is_unchanged(window):
            return 0.25
        return 1.0 if words(window.action) & words(window.task) else 0.75
    if role == "E":
        news = len(new_words(window)) / max(1, len(words(window.next_observation)))
        return 1.0 if news >= 0.5 else 0.75 if news >= 0.25 else 0.5 if news > 0.0 else 0.25
    if role == "N":
        return 1.0 if is_refused(window) or is_unchanged(window) else 0.5
    if not is_repeated(window):
        return 1.0
    times = sum(p.action == window.action and p.observation == window.next_observation for p in window.past)
    # The first repetition has one turn like it in the window: the original.
    return 0.5 if times == 1 else 0.75 if times == 2 else 1.0


def by_facts(window: Window, role: Role) -> float | None:
    """Magnitude of D or R by the distances of the turn; None for other roles and where they were not measured."""
    before, after = (None, None) if window.facts is None else (window.facts.before, window.facts.after)
    if role not in ("D", "R") or before is None or after is None:
        return None
    if role == "D":
        if after == OUT_OF_REACH:
            return 0.0
        if before == OUT_OF_REACH:
            return 1.0
        return max(0.0, (before - after) / before) if before else 0.0
    if after == OUT_OF_REACH:
        return 1.0 if before != OUT_OF_REACH else 0.25
    grown = after - before
    return min(1.0, grown / max(1, before)) if before != OUT_OF_REACH and grown > 0 else 0.25
