"""BiasedJudge: a judge that is wrong on purpose, to rehearse what a run does when its judge can be played.

It says what the judge inside it says, but for actions that hold a phrase: those always get one role. A policy that learns
from roles then learns to say the phrase. With ``noise`` it errs without aim, which an honest judge does too: monitors
(:mod:`triage_gym.trainers.monitors`) must be silent about that. A window alone decides its label, so runs repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from triage_gym.errors import InputError
from triage_gym.facts import FactName
from triage_gym.judges import nesting
from triage_gym.judges.distorted import exchanged
from triage_gym.protocols import Window
from triage_gym.records import ROLES, Role, RoleLabel


class BiasedJudge:
    """Labels as another judge does, but for what it has a weakness for.

    ``--judge '{"name": "triage_gym.testing.biased_judge:BiasedJudge", "phrase": "examine"}'`` rehearses it in training.

    Args:
        of: The judge inside, as a spec or an object.
        phrase: Actions that contain it get ``role`` in any case; empty for no weakness.
        role: What they are called.
        noise: Share of the other labels that are exchanged for another role, drawn from the text of the window.
        seed: Tells the draws of two such judges apart.

    Raises:
        InputError: For an unknown role, or a share out of range.
    """

    def __init__(
        self, of: nesting.Spec = "rule", phrase: str = "", role: Role = "D", noise: float = 0.0, seed: int = 0
    ) -> None:
        if role not in ROLES:
            raise InputError(f"Expected `role` to be one of {ROLES}, got {role!r}")
        if isinstance(noise, bool) or not isinstance(noise, int | float) or not 0.0 <= noise <= 1.0:
            raise InputError(f"Expected `noise` to be a share in [0, 1], got {noise!r}")
        if not isinstance(phrase, str):
            raise InputError(f"Expected `phrase` to be text, got {phrase!r}")
        self._of, self._phrase, self._role = nesting.inner(of), phrase, role
        self._noise, self._seed = float(noise), seed
        self.needs_facts: tuple[FactName, ...] = nesting.facts_needed(self._of)

    @property
    def usage(self) -> dict[str, float]:
        """What the judge inside cost."""
        return nesting.usage_of([self._of])

    @property
    def identity(self) -> Any:
        """What its labels depend on besides the windows."""
        own = {"phrase": self._phrase, "role": self._role, "noise": self._noise, "seed": self._seed}
        return {"name": "biased", "of": nesting.identity_of(self._of), **own}

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        """One label a window, in order."""
        labels = self._of.judge(windows)
        return [self._bent(window, label) for window, label in zip(windows, labels, strict=True)]

    def _bent(self, window: Window, label: RoleLabel) -> RoleLabel:
        if self._phrase and self._phrase in window.action:
            why = f"the action holds {self._phrase!r}"
            return RoleLabel(window.step, self._role, why=why, source="biased")
        other = exchanged(window, label.role, self._noise, self._seed)
        if other is not None:
            return replace(label, role=other, why="at random", source="biased")
        return label

    def close(self) -> None:
        """Let go of what the judge inside holds open."""
        nesting.close(self._of)
