"""Cohen's kappa: how far two who label agree beyond what their own mixes of roles would give by chance.

Only segments that both labelled count. 1 is full agreement, 0 is chance; undefined (None) where both gave one and the
same role throughout, because chance alone would agree then as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triage_gym.audit.measures import NOTHING, Codes, interval_json, ratio
from triage_gym.audit.resampling import Resampler, Sums
from triage_gym.records import ROLES
from triage_gym.statistics import Interval

_K = len(ROLES)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two agree."""

    first: str
    second: str
    n: int
    """Segments that both labelled."""
    share: float | None
    """Of these, the share on which they agree."""
    kappa: Interval | None

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "first": self.first,
            "second": self.second,
            "n": self.n,
            "agree": self.share,
            "kappa": interval_json(self.kappa),
        }


def kappa(counts: Sums) -> Sums:
    """Cohen's kappa of tables of two labellers, NaN where it is undefined.

    Args:
        counts: Shape ``(tables, 16)``: row-major 4 × 4, how often the first said one role and the second another.

    Example:
        Agreeing on 20 D and 15 N, with D/N 5 times and N/D 10 times: 0.7 observed, 0.5 by chance, kappa 0.4.
    """
    table = counts.reshape(-1, _K, _K).astype(np.float64)
    n = table.sum(axis=(1, 2))
    observed = ratio(np.einsum("tkk->t", table), n)
    chance = ratio((table.sum(axis=1) * table.sum(axis=2)).sum(axis=1), n * n)
    alone = np.isclose(chance, 1.0, rtol=0.0, atol=1e-12)
    return ratio(observed - chance, np.where(alone, 0.0, 1.0 - chance))


def agreement(first: tuple[str, Codes], second: tuple[str, Codes], resampler: Resampler) -> Agreement:
    """How far two labellers, each a name with its roles, agree."""
    (a_name, a), (b_name, b) = first, second
    both = (a != NOTHING) & (b != NOTHING)
    columns = np.zeros((a.size, _K * _K))
    at = np.flatnonzero(both)
    columns[at, a[at] * _K + b[at]] = 1.0
    n = int(both.sum())
    share = float((a[both] == b[both]).mean()) if n else None
    return Agreement(a_name, b_name, n, share, resampler.interval(columns, kappa))
