"""Whether a judge is right as often as it is sure: reliability curve, expected calibration error, Brier score.

How sure it is: the probability it gives to the role it says, or else its stated confidence. Bins have equal width on
[0, 1]; a confidence on a border belongs to the upper bin, 1.0 to the last. The expected calibration error is the mean
over labels of |share right in the bin - mean confidence in the bin| (it depends on the bins, so their number is stated).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triage_gym.audit.measures import NOTHING, Codes, codes, interval_json, ratio
from triage_gym.audit.resampling import Resampler, Sums
from triage_gym.records import ROLES, RoleLabel
from triage_gym.statistics import Interval, wilson


@dataclass(frozen=True, slots=True)
class Bin:
    """The labels of about one confidence."""

    low: float
    high: float
    n: int
    confidence: float
    """Mean of the bin."""
    right: Interval
    """Share of the bin that is right, with Wilson's interval."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How well confidence tells what is right."""

    n: int
    """Labels given to segments with a gold role."""
    bins: tuple[Bin, ...]
    """Those that hold labels, from low to high."""
    ece: Interval | None
    brier: float | None
    """Mean squared distance of the four probabilities from the gold role, in [0, 2]; None unless all labels have them."""
    stated: bool
    """Whether confidence differs between labels at all; where it does not there is nothing to calibrate."""

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "n": self.n,
            "ece": interval_json(self.ece),
            "brier": self.brier,
            "stated": self.stated,
            "bins": [
                {"low": b.low, "high": b.high, "n": b.n, "confidence": b.confidence, "right": interval_json(b.right)}
                for b in self.bins
            ],
        }


def sureness(labels: Sequence[RoleLabel]) -> NDArray[np.float64]:
    """How sure each label is of its role, shape ``(labels,)``; NaN without a role."""
    found = []
    for label in labels:
        if label.role is None:
            found.append(np.nan)
        elif label.probabilities is None:
            found.append(label.confidence)
        else:
            found.append(label.probabilities[ROLES.index(label.role)])
    return np.array(found, dtype=np.float64)


def calibration(gold: Codes, labels: Sequence[RoleLabel], resampler: Resampler, bins: int = 10) -> Calibration:
    """The reliability curve and its errors.

    Args:
        gold: Settled roles.
        labels: The judge's, one a segment.
        resampler: Made for the same segments.
        bins: How many of equal width.

    Example:
        Two labels at 0.9, one right, and two at 0.6, both right: an error of (2·|0.5 - 0.9| + 2·|1 - 0.6|) / 4 = 0.4.
    """
    said, sure = codes([label.role for label in labels]), sureness(labels)
    known = (gold != NOTHING) & (said != NOTHING)
    place = np.minimum(np.floor(np.where(known, sure, 0.0) * bins + 1e-9).astype(np.int64), bins - 1)
    columns = np.zeros((gold.size, 3 * bins))
    at = np.flatnonzero(known)
    columns[at, place[at]] = 1.0
    columns[at, bins + place[at]] = sure[at]
    columns[at, 2 * bins + place[at]] = gold[at] == said[at]

    def error(sums: Sums) -> Sums:
        n, confident, correct = sums[:, :bins], sums[:, bins : 2 * bins], sums[:, 2 * bins :]
        return ratio(np.abs(correct - confident).sum(axis=1), n.sum(axis=1))

    total = columns.sum(axis=0)
    curve = [
        Bin(
            k / bins,
            (k + 1) / bins,
            int(total[k]),
            float(total[bins + k] / total[k]),
            wilson(int(total[2 * bins + k]), int(total[k]), resampler.confidence),
        )
        for k in range(bins)
        if total[k]
    ]
    stated = at.size > 0 and float(np.ptp(sure[at])) > 0.0
    return Calibration(int(at.size), tuple(curve), resampler.interval(columns, error), brier(gold, labels), stated)


def brier(gold: Codes, labels: Sequence[RoleLabel]) -> float | None:
    """Brier score of the labels given to segments with a gold role; None unless all of them have probabilities.

    Example:
        (0.7, 0.1, 0.1, 0.1) for a D: 0.3² + 3·0.1² = 0.12.
    """
    pairs = [(g, x.probabilities) for g, x in zip(gold, labels, strict=True) if g != NOTHING and x.role is not None]
    given = np.array([p for _, p in pairs if p is not None], dtype=np.float64).reshape(-1, len(ROLES))
    if not pairs or len(given) < len(pairs):
        return None
    wanted = np.eye(len(ROLES))[[g for g, _ in pairs]]
    return float(((given - wanted) ** 2).sum(axis=1).mean())
