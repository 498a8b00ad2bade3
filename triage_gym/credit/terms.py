"""From the outcome term of rollouts and the role term of segments to advantages, with every exception in one place.

- A rollout with an ``error`` gets zeros and counts nowhere.
- A segment that a retry copied (``index < prefix_length``) gets zeros and counts nowhere: it is trained once, where it
  was acted.
- An unjudged segment gets its outcome term only, is not whitened and does not move the whitening of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from triage_gym.credit.batch import Segments
from triage_gym.credit.whitening import ROUNDING, whiten
from triage_gym.errors import InputError
from triage_gym.protocols import Advantages, CreditRule
from triage_gym.records import EpisodeRecord

DType = Literal["float64", "float32"]


@dataclass(frozen=True, slots=True)
class CreditTerms:
    """How the advantages of one rollout came about; every array has shape ``(segments,)``.

    Without whitening ``advantage == outcome + role``.
    """

    outcome: NDArray[np.float64]
    """Part from results: the same for every trained segment of a rollout, or the turn's own in rules that credit turns."""
    role: NDArray[np.float64]
    """Part from the segment's role, weight included."""
    advantage: NDArray[np.float64]
    """What the segment is trained with."""


@runtime_checkable
class ExplainedRule(Protocol):
    """A credit rule that can say how its advantages came about."""

    def __call__(self, records: Sequence[EpisodeRecord]) -> Advantages:
        """Advantages, as :class:`~triage_gym.protocols.CreditRule`."""
        ...

    def terms(self, records: Sequence[EpisodeRecord]) -> list[CreditTerms]:
        """One :class:`CreditTerms` a record."""
        ...


def explain(rule: CreditRule, records: Sequence[EpisodeRecord]) -> list[CreditTerms]:
    """Outcome term, role term and advantage of every segment.

    Raises:
        InputError: For a rule without a ``terms`` method.
    """
    if not isinstance(rule, ExplainedRule):
        raise InputError(
            f"Expected a credit rule with a `terms` method, got {type(rule).__name__}; add one to explain it"
        )
    return rule.terms(records)


@dataclass(frozen=True, slots=True)
class Raw:
    """What a rule makes of a batch before whitening; every array has shape ``(segments,)``."""

    outcome: NDArray[np.float64]
    """Credit before roles."""
    worth: NDArray[np.float64] | None = None
    """Worth of each segment's role, NaN for unjudged ones; None for a rule without roles."""
    lam: float = 0.0
    """Weight of the role term; with 0 nothing depends on labels."""
    live: NDArray[np.bool_] | None = None
    """Rollouts whose roles count, shape ``(rollouts,)``; None for all."""
    trained: NDArray[np.bool_] | None = None
    """Segments that are trained, where the rule leaves out more than the batch does."""
    after_whitening: bool = False
    """Whether the outcome is whitened alone, and the role term added then."""
    sign_guard: bool = False
    """Whether roles may not lift a segment above 0 whose outcome term is below."""


def combine(
    segments: Segments, raw: Raw, *, whitened: bool = False, eps: float, dtype: DType = "float64"
) -> CreditTerms:
    """Advantages of a batch, its segments laid end to end.

    Args:
        segments: The batch.
        raw: What the rule makes of it.
        whitened: Whether to whiten over the trained segments, the judged ones where roles count.
        eps: Least standard deviation to divide by.
        dtype: Type of the returned arrays. Everything is computed in float64.
    """
    trained = segments.trained if raw.trained is None else raw.trained
    outcome = np.where(trained, raw.outcome, 0.0)
    role, counted = np.zeros(len(trained)), trained
    if raw.worth is not None and raw.lam != 0.0:
        judged = ~np.isnan(raw.worth)
        counted = trained & judged
        paid = counted if raw.live is None else counted & segments.on_segments(raw.live)
        role = np.where(paid, raw.lam * raw.worth, 0.0)
    if whitened and raw.after_whitening:
        outcome = whiten(outcome, counted, eps)
    if raw.sign_guard:
        # What is left of a bonus: as much as brings the segment to 0. A mean's rounding is no failure.
        role = np.where((outcome < -ROUNDING) & (role > -outcome), -outcome, role)
    advantage = outcome + role
    if whitened and not raw.after_whitening:
        advantage = whiten(advantage, counted, eps)
    # The protocol speaks of float64; float32 is what the caller asked for instead.
    found = [cast("NDArray[np.float64]", a.astype(dtype, copy=False)) for a in (outcome, role, advantage)]
    return CreditTerms(*found)


def split(terms: CreditTerms, segments: Segments) -> list[CreditTerms]:
    """The terms of each rollout."""
    arrays = (terms.outcome, terms.role, terms.advantage)
    return [CreditTerms(*(a[start:stop].copy() for a in arrays)) for start, stop in segments.bounds]


def check_number(
    name: str, value: Any, *, least: float = -np.inf, above: float = -np.inf, most: float = np.inf
) -> None:
    """Raise InputError unless ``value`` is a finite number, in [``least``, ``most``] and above ``above``."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
    if not number or value < least or value <= above or value > most:
        bound = f" above {above}" if above > -np.inf else f" of at least {least}" if least > -np.inf else ""
        bound = f" in [{least}, {most}]" if most < np.inf else bound
        raise InputError(f"Expected `{name}` to be a finite number{bound}, got {value!r}")
