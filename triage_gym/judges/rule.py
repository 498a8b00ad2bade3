"""The rule judge: free, immediate, repeatable, and as good as its rules know the domain.

Windows of the domain ``alfworld`` go to :mod:`triage_gym.judges.alfworld`; all others, and ALFWorld tasks in words that
are not ALFRED's, to :mod:`triage_gym.judges.generic`. A window alone decides its label: judging an attempt at once or
window by window gives the same, at once being cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from triage_gym.errors import InputError
from triage_gym.judges import generic
from triage_gym.judges.alfworld import ALFWorldRules
from triage_gym.protocols import Window
from triage_gym.records import RoleLabel

DOMAINS: Final = ("alfworld", "generic")


@dataclass(frozen=True, slots=True)
class RuleJudge:
    """Labels windows by rules on their text.

    Raises:
        InputError: For a ``domain`` without rules.
    """

    domain: str | None = None
    """Use these rules for every window; None goes by ``window.domain``. ``generic`` on ALFWorld is a task-blind judge."""

    def __post_init__(self) -> None:
        if self.domain is not None and self.domain not in DOMAINS:
            raise InputError(f"Expected `domain` to be one of {DOMAINS} or None, got {self.domain!r}")

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        """One label a window, in order, each with its reason in ``why`` and ``"rule"`` as source."""
        alfworld = ALFWorldRules()
        labels = []
        for window in windows:
            verdict = alfworld.verdict(window) if (self.domain or window.domain) == "alfworld" else None
            role, why = generic.verdict(window) if verdict is None else verdict
            labels.append(RoleLabel(window.step, role, 1.0, None, why, "rule"))
        return labels
