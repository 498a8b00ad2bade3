"""TRIAGE with constants that were measured for the environment and the judge, not taken from the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from triage_gym.credit.batch import Segments
from triage_gym.credit.rules import OutcomeAndRoleOptions, Triage
from triage_gym.credit.terms import Raw
from triage_gym.errors import InputError


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TriageAudited(Triage):
    """Triage with ``constants`` (and ``lam``) from ``triage-gym credit fit``; it has none of its own.

    In a training run without constants the trainer measures them first, on the start policy
    (:mod:`triage_gym.trainers.auditing`), in turns that count as the run's.
    """

    constants: tuple[float, float, float, float] = ()  # type: ignore[assignment]  # nothing is a mark, no default
    """Worth of D, E, N, R."""

    def __post_init__(self) -> None:
        if self.is_fitted:
            Triage.__post_init__(self)
        else:
            OutcomeAndRoleOptions.__post_init__(self)

    @property
    def is_fitted(self) -> bool:
        """Whether there are constants."""
        return self.constants is None or len(tuple(self.constants)) > 0

    def raw(self, segments: Segments) -> Raw:
        """As TRIAGE.

        Raises:
            InputError: Without constants.
        """
        if not self.is_fitted:
            raise InputError(
                "Expected `constants` for triage-audited, got none: fit some (triage-gym credit counterfactual --out ROWS, "
                "then triage-gym credit fit ROWS), or let the trainer measure them (triage-gym train --credit triage-audited)"
            )
        return Triage.raw(self, segments)
