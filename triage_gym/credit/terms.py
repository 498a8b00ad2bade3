"""From the outcome term of rollouts and the role term of segments to advantages, with every exception in one place.

- A rollout with an ``error`` gets zeros and counts nowhere.
- A segment that a retry copied (``index < prefix_length``) gets zeros and counts nowhere: it is trained once, where it
  was acted.
- An unjudged segment gets its outcome term only, is not whitened and does not move the whitening of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from triage_gym.credit.whitening import whiten
from triage_gym.errors import InputError
from triage_gym.protocols import Advantages, CreditRule
from triage_gym.records import EpisodeRecord, Role

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


class Segments:
    """The segments of a batch laid end to end.

    Args:
        records: The batch.
    """

    def __init__(self, records: Sequence[EpisodeRecord]) -> None:
        self.records = records
        lengths = np.array([len(r.segments) for r in records], dtype=np.int64)
        ends = np.cumsum(lengths, dtype=np.int64)
        self.bounds = list(zip((ends - lengths).tolist(), ends.tolist(), strict=True))
        """First and last+1 position of each record."""
        self.owner = np.repeat(np.arange(len(records)), lengths)
        """Record of each segment, shape ``(segments,)``."""
        self.trained = np.ones(len(self.owner), dtype=bool)
        """False for segments of excluded rollouts and for copied prefixes."""
        for record, (start, stop) in zip(records, self.bounds, strict=True):
            if record.error is not None:
                self.trained[start:stop] = False
            elif record.prefix_length:
                self.trained[start : start + record.prefix_length] = False

    def roles(self) -> list[Role | None]:
        """The role of each segment."""
        return [role for record in self.records for role in record.roles]


def role_values(roles: Sequence[Role | None], worth: Mapping[Role, float]) -> NDArray[np.float64]:
    """What each role is worth, shape ``(segments,)``; NaN where there is no label."""
    return np.array([np.nan if role is None else worth[role] for role in roles], dtype=np.float64)


def combine(
    segments: Segments,
    outcome: NDArray[np.float64],
    worth: NDArray[np.float64] | None = None,
    *,
    lam: float = 0.0,
    live: NDArray[np.bool_] | None = None,
    whitened: bool = False,
    eps: float,
    dtype: DType = "float64",
) -> list[CreditTerms]:
    """Advantages of a batch.

    Args:
        segments: The batch, laid end to end.
        outcome: Outcome term a segment, shape ``(segments,)``.
        worth: Worth of each segment's role, NaN for unjudged ones, shape ``(segments,)``; None for no role term.
        lam: Weight of the role term; with 0 nothing depends on labels.
        live: Records whose roles count, shape ``(records,)``; None for all.
        whitened: Whether to whiten over the trained, judged segments.
        eps: Least standard deviation to divide by.
        dtype: Type of the returned arrays. Everything is computed in float64.
    """
    trained = segments.trained
    outcome_term = np.where(trained, outcome, 0.0)
    role_term, counted = np.zeros(len(trained)), trained
    if worth is not None and lam != 0.0:
        judged = ~np.isnan(worth)
        counted = trained & judged
        paid = counted if live is None else counted & live[segments.owner]
        role_term[paid] = lam * worth[paid]
    advantage = outcome_term + role_term
    if whitened:
        advantage = whiten(advantage, counted, eps)
    # The protocol speaks of float64; float32 is what the caller asked for instead.
    arrays = [cast("NDArray[np.float64]", a.astype(dtype)) for a in (outcome_term, role_term, advantage)]
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
