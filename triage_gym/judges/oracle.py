"""The oracle judge: roles from what the environment itself says of a turn, the distance to the goal among it.

It knows the outcome: a distance is that of an expert with full knowledge. So it is for audits (it labels sets that other
judges are held against), for controls and for experiments that are named after it, and never for a claim about judges
that only read. It reads :class:`~triage_gym.protocols.Facts`, and of the text only whether an inspection is repeated.

In this order: **R** when the goal gets out of reach; **D** when the expert's distance falls; **E** when something hidden
was shown for the first time; **R** when the distance grows, or when the window holds the same action with the same
answer; **N** otherwise. A turn that left the state of the task as it was brings nothing nearer, whatever the expert says.

Where the state is hidden, a distance knows more than any agent: the first look into the right cabinet is the nearest way,
and by the definition of the roles it is exploration. ``explore_first=True`` calls every turn that shows something new E,
unless it loses the goal.

What it leaves to you: an expert whose distances are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from triage_gym.errors import InputError
from triage_gym.facts import FactName
from triage_gym.judges.labelling import failed_labels
from triage_gym.protocols import OUT_OF_REACH, Window
from triage_gym.records import Role, RoleLabel

VERSION: Final = 1
"""Changes with whatever makes the same window another label."""
SOURCE: Final = "oracle"
_NO_FACTS: Final = (
    "the window carries no facts: put StateFactsWrapper around the environment, or let RoleJudgeWrapper or the trainer "
    "make the oracle, which then measure what it needs"
)
_CUT: Final = "the turn limit cut the attempt off here, and this environment's expert cannot walk on from there"


@dataclass(frozen=True, slots=True)
class OracleJudge:
    """Labels windows by their facts. It knows the outcome: for audits, controls, and experiments named after it.

    Raises:
        InputError: If ``explore_first`` is no boolean.
    """

    needs_facts: ClassVar[tuple[FactName, ...]] = ("changed", "learnt", "distance")

    explore_first: bool = False
    """Whether a turn that shows something new is E even where it shortens the way: in hidden states the way was not known."""

    def __post_init__(self) -> None:
        if type(self.explore_first) is not bool:
            raise InputError(f"Expected explore_first to be True or False, got {self.explore_first!r}")

    @property
    def identity(self) -> dict[str, Any]:
        """All that its labels depend on."""
        return {"name": SOURCE, "version": VERSION, "explore_first": self.explore_first}

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        """One label a window, in order.

        Failed where a window carries no facts, unsure where a turn limit kept its last distance from being measured.
        """
        return [self._label(window) for window in windows]

    def _label(self, window: Window) -> RoleLabel:
        facts = window.facts
        if facts is None or facts.before is None or facts.learnt is None:
            return failed_labels([window], _NO_FACTS, SOURCE)[0]
        if facts.after is None:
            return RoleLabel(window.step, None, why=_CUT, source=SOURCE, status="unsure")
        role, why = self._verdict(window, facts.before, facts.after, learnt=facts.learnt, changed=facts.changed)
        return RoleLabel(window.step, role, why=why, source=SOURCE)

    def _verdict(
        self, window: Window, before: int, after: int, *, learnt: bool, changed: bool | None
    ) -> tuple[Role, str]:
        """Role and reason; ``changed`` is None where the environment cannot tell."""
        news = "shows what was hidden"
        if after == OUT_OF_REACH != before:
            return "R", "the goal is out of reach now"
        if learnt and self.explore_first:
            return "E", news
        moved = changed is not False
        if moved and after != OUT_OF_REACH and (after < before or before == OUT_OF_REACH):
            return "D", f"the goal is {_turns(after)} away, it was {_turns(before)}"
        if learnt:
            return "E", news
        if moved and after > before:
            return "R", f"the goal is {_turns(after)} away, it was {_turns(before)}"
        if (window.action, window.next_observation) in window.past:
            return "R", "repeated: the answer was known"
        return "N", "brings nothing nearer and shows nothing new"


def _turns(distance: int) -> str:
    if distance == OUT_OF_REACH:
        return "out of reach"
    return f"{distance} turn{'' if distance == 1 else 's'}"
