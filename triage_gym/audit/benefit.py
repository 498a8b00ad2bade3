"""What a judge's labels would do to credit, foretold where A* was measured (TRIAGE, arXiv:2606.32017).

``delta = A* - A_i`` is what the outcome's advantage A_i misses of a segment's own, and ``c`` the constant of the role
that was said, 0 without one. Correcting by λ·c changes the mean squared error by λ²·E[c²] - 2λ·Cov(c, δ): it helps for
0 < λ < 2·Cov / E[c²], most at λ* = Cov / E[c²]. The formula takes E[δ] to be 0, which whitening sees to; E[δ] is stated.
The best correction by role alone is g*(role) = E[δ | role].

Cov(c, δ) > 0 has failed where training gained, because D sits in successes that the outcome credits too much already;
corr(c, A*) > corr(A_i, A*) has foretold gain or none. Both are reported, the verdict goes by the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from triage_gym.audit.measures import NOTHING, Codes, centred, interval_json, ratio
from triage_gym.audit.resampling import Resampler, Sums
from triage_gym.credit.rules import CONSTANTS
from triage_gym.records import ROLES, Role
from triage_gym.statistics import Interval

WEIGHTS: Final = (0.1, 0.2, 0.4, 1.0)
"""λ for which the change of the error is stated, beside λ*."""


@dataclass(frozen=True, slots=True)
class RoleGain:
    """g*(role), the mean of δ over the segments that the judge gave the role."""

    role: Role
    n: int
    gain: Interval | None


@dataclass(frozen=True, slots=True)
class Benefit:
    """What correcting by the judge's roles would bring; intervals are None where a measure is undefined."""

    n: int
    """Segments with δ."""
    mean_delta: float
    covariance: Interval | None
    """Cov(c, δ)."""
    best_weight: float | None
    """λ*; correcting does not help when it is not above 0."""
    change: tuple[tuple[float, float], ...]
    """(λ, change of the mean squared error), λ* last when it is above 0."""
    gains: tuple[RoleGain, ...]
    monotone: bool | None
    """Whether g* falls from D over E and N to R, over the roles that were said; None for fewer than two."""
    correction_corr: Interval | None
    """corr(c, A*), over segments whose A_i is known too."""
    outcome_corr: Interval | None
    """corr(A_i, A*) of the same segments."""

    @property
    def foretold(self) -> bool | None:
        """Whether gain is foretold: corr(c, A*) > corr(A_i, A*); None where that is not known."""
        if self.correction_corr is None or self.outcome_corr is None:
            return None
        return self.correction_corr.estimate > self.outcome_corr.estimate

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "n": self.n,
            "mean_delta": self.mean_delta,
            "covariance": interval_json(self.covariance),
            "best_lambda": self.best_weight,
            "change_of_mse": [{"lambda": weight, "change": change} for weight, change in self.change],
            "gain_by_role": [{"role": g.role, "n": g.n, "gain": interval_json(g.gain)} for g in self.gains],
            "monotone": self.monotone,
            "corr_c_a_star": interval_json(self.correction_corr),
            "corr_outcome_a_star": interval_json(self.outcome_corr),
            "gain_foretold": self.foretold,
        }


def change_of_error(weight: float, square: float, covariance: float) -> float:
    """λ²·E[c²] - 2λ·Cov(c, δ): by how much the mean squared error changes; below 0 is better.

    Example:
        E[c²] 0.5, Cov 0.1: λ* is 0.2 and changes it by 0.02 - 0.04 = -0.02; 0.4 changes nothing, 1 makes it worse by 0.3.
    """
    return weight * weight * square - 2.0 * weight * covariance


def benefit(
    said: Codes,
    delta: NDArray[np.float64],
    advantage: NDArray[np.float64],
    resampler: Resampler,
    constants: Sequence[float] = CONSTANTS,
) -> Benefit | None:
    """What the roles that were said would bring; None without any δ.

    Args:
        said: The judge's roles.
        delta: δ of each segment, NaN where it was not measured.
        advantage: A_i of each segment, NaN where it is not known.
        resampler: Made for the same segments.
        constants: c of D, E, N, R.
    """
    known = np.isfinite(delta)
    if not known.any():
        return None
    correction = np.array([*constants, 0.0])[np.where(said == NOTHING, len(ROLES), said)]
    missed = np.where(known, delta, 0.0)
    c, n = correction[known], int(known.sum())
    square = float((c * c).mean())
    cov = float((c * delta[known]).mean() - c.mean() * delta[known].mean())
    best = cov / square if square else None
    weights = [*WEIGHTS, *([best] if best is not None and best > 0 else [])]
    gains = tuple(_gain(role, known & (said == at), missed, resampler) for at, role in enumerate(ROLES))
    found = [g.gain.estimate for g in gains if g.gain is not None]
    own = known & np.isfinite(advantage)
    outcome = np.where(own, advantage, 0.0)
    star = outcome + np.where(own, missed, 0.0)
    return Benefit(
        n,
        float(delta[known].mean()),
        resampler.interval(_moments(correction, missed, known), _covariance),
        best,
        tuple((float(weight), change_of_error(weight, square, cov)) for weight in weights),
        gains,
        all(a >= b for a, b in pairwise(found)) if len(found) > 1 else None,
        resampler.interval(_moments(correction, star, own), _correlation),
        resampler.interval(_moments(outcome, star, own), _correlation),
    )


def _gain(role: Role, among: NDArray[np.bool_], delta: NDArray[np.float64], resampler: Resampler) -> RoleGain:
    columns = np.stack([np.where(among, delta, 0.0), among], axis=1).astype(np.float64)
    return RoleGain(role, int(among.sum()), resampler.interval(columns, lambda s: ratio(s[:, 0], s[:, 1])))


def _moments(x: NDArray[np.float64], y: NDArray[np.float64], among: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What each segment adds to n, Σx, Σy, Σxy, Σx², Σy², with x and y less their means: one that never differs is 0."""
    x, y = centred(x, among), centred(y, among)
    columns: NDArray[np.float64] = np.stack([np.ones_like(x), x, y, x * y, x * x, y * y], axis=1) * among[:, None]
    return columns


def _covariance(sums: Sums) -> Sums:
    n, x, y, xy = (sums[:, k] for k in range(4))
    return ratio(xy, n) - ratio(x, n) * ratio(y, n)


def _correlation(sums: Sums) -> Sums:
    """Pearson's, NaN where one of the two never differs."""
    n, x, y, _, xx, yy = (sums[:, k] for k in range(6))
    spread = (ratio(xx, n) - ratio(x, n) ** 2) * (ratio(yy, n) - ratio(y, n) ** 2)
    return ratio(_covariance(sums), np.sqrt(np.where(spread > 1e-18, spread, 0.0)))
