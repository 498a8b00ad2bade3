"""From what roles were measured to be worth to the constants of a credit rule: in order, bounded, shrunk to the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from triage_gym.credit.rules import CONSTANTS

PRIOR_LAM: Final = 0.2
"""λ of the prior, whose constants are TRIAGE's (arXiv:2606.32017)."""
LAM_BOUNDS: Final = (0.05, 0.4)
"""Least and largest λ; the paper's largest is 0.4."""
PRIOR_SPREAD: Final = 0.1
"""Standard deviation of the prior of λ c around TRIAGE's: half of what D is worth there."""
Numbers = Sequence[float] | NDArray[np.float64]


def isotonic(values: Numbers, weights: Numbers) -> NDArray[np.float64]:
    """The falling sequence nearest to ``values`` in weighted squares, by pooling adjacent violators.

    Args:
        values: In the order in which they must not rise.
        weights: At least 0, one each; a value of weight 0 takes that of its neighbours where it stands in their way.

    Example:
        1, 3, 0 with weights 1, 1, 1 becomes 2, 2, 0.
    """
    blocks: list[list[float]] = []  # value, weight, count
    for value, weight in zip(values, weights, strict=True):
        blocks.append([float(value), float(weight), 1])
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            last, before = blocks.pop(), blocks[-1]
            total = before[1] + last[1]
            share = last[1] / total if total else 0.5
            before[0] += share * (last[0] - before[0])
            before[1], before[2] = total, before[2] + last[2]
    return np.array([value for value, _, count in blocks for _ in range(int(count))])


def shrunk(
    measured: NDArray[np.float64],
    errors: NDArray[np.float64],
    *,
    spread: float = PRIOR_SPREAD,
    prior: Sequence[float] = CONSTANTS,
    prior_lam: float = PRIOR_LAM,
) -> tuple[NDArray[np.float64], float]:
    """Constants of at most 1 in size, and λ, from measured λ c with their standard errors.

    Args:
        measured: λ c of D, E, N, R.
        errors: Their standard errors; infinite where nothing was measured, which leaves the prior.
        spread: Standard deviation of the prior.
        prior: Its constants.
        prior_lam: Its λ.

    Example:
        Errors as large as the spread give the mean of measured and prior: D measured 0.4, prior 0.2, comes to 0.3.
    """
    known = np.isfinite(errors)
    trust = np.where(known, spread**2 / (spread**2 + np.where(known, errors, 0.0) ** 2), 0.0)
    mean = trust * measured + (1.0 - trust) * prior_lam * np.asarray(prior, dtype=np.float64)
    ordered = isotonic(mean, 1.0 / (spread**2 * np.maximum(1.0 - trust, 1e-9)))
    lam = float(np.clip(np.abs(ordered).max(), *LAM_BOUNDS))
    return np.clip(ordered / lam, -1.0, 1.0), lam
