"""Statistics for comparing runs: means with honest intervals, over seeds and over tasks. numpy only.

Student-t intervals for a mean over few seeds, Wilson intervals for a success rate, stratified percentile bootstrap for
anything else (interquartile mean and the like, after Agarwal et al., arXiv:2108.13264), paired differences of the same
seed, probability of improvement. Everything random takes a seed and repeats. State n and the method beside each number;
nothing here corrects for looking at many comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triage_gym.errors import InputError

Statistic = Callable[[NDArray[np.float64]], float]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its confidence interval."""

    estimate: float
    low: float
    high: float
    n: int
    """Independent units: seeds, runs or trials."""
    method: str


@dataclass(frozen=True, slots=True)
class Paired:
    """Mean difference of pairs that share a seed."""

    mean: float
    half_width: float | None
    """Half of the Student-t interval; None for fewer than two pairs."""
    n: int
    positive: int
    """Pairs whose difference is above zero."""
    values: tuple[float, ...]
    """Each pair's difference, in order."""

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of zero."""
        return self.half_width is not None and abs(self.mean) > self.half_width


def _values(values: ArrayLike, name: str = "values", least: int = 1) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64).ravel()
    if array.size < least:
        raise InputError(f"Expected at least {least} {name}, got {array.size}")
    if not np.isfinite(array).all():
        raise InputError(f"Expected finite {name}, got {array[~np.isfinite(array)][0]}; leave out what failed")
    return array


def _check(confidence: float, resamples: int = 1) -> None:
    if not 0.0 < confidence < 1.0:
        raise InputError(f"Expected `confidence` between 0 and 1, got {confidence!r}")
    if resamples < 1:
        raise InputError(f"Expected `resamples` to be at least 1, got {resamples}")


def mean(values: ArrayLike) -> float:
    """Arithmetic mean."""
    return float(_values(values).mean())


def median(values: ArrayLike) -> float:
    """Middle value."""
    return float(np.median(_values(values)))


def iqm(values: ArrayLike) -> float:
    """Interquartile mean: the mean without the lowest and the highest quarter (each rounded down to whole values)."""
    ordered = np.sort(_values(values))
    cut = ordered.size // 4
    return float(ordered[cut : ordered.size - cut].mean())


def t_interval(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float | None]:
    """Mean and half-width of its Student-t interval; the half-width is None for fewer than two values.

    Raises:
        InputError: For no values, or one that is not finite.
    """
    _check(confidence)
    array = _values(values)
    n = array.size
    if n < 2:
        return float(array.mean()), None
    error = float(array.std(ddof=1)) / math.sqrt(n)
    return float(array.mean()), t_quantile(0.5 + confidence / 2, n - 1) * error


def paired_difference(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Paired:
    """``a - b``, pair by pair (same seed, same start, same tasks), with the Student-t interval of the mean.

    Raises:
        InputError: For sequences of different length, none, or values that are not finite.
    """
    first, second = _values(a, "values of a"), _values(b, "values of b")
    if first.size != second.size:
        raise InputError(f"Expected pairs, got {first.size} and {second.size} values; leave out what has no partner")
    difference = first - second
    middle, half = t_interval(difference, confidence)
    return Paired(middle, half, first.size, int((difference > 0).sum()), tuple(difference.tolist()))


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a success rate: right for few trials and at 0 or 1, where the normal one is not.

    Raises:
        InputError: Unless ``0 <= successes <= n`` and ``n >= 1``.
    """
    _check(confidence)
    if n < 1 or not 0 <= successes <= n:
        raise InputError(f"Expected 0 <= successes <= n with n >= 1, got {successes} and {n}")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate, z2 = successes / n, z * z
    centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n))
    low, high = (0.0 if successes == 0 else centre - half), (1.0 if successes == n else centre + half)
    return Interval(rate, low, high, n, "Wilson")


def bootstrap_interval(
    strata: Sequence[ArrayLike],
    statistic: Statistic = iqm,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Stratified percentile bootstrap: values are drawn anew within each stratum, the statistic is of all together.

    Args:
        strata: One sequence of values a stratum (a task, a task type). One stratum is the plain bootstrap.
        statistic: Of a flat float64 array.
        confidence: Probability that the interval is meant to cover.
        resamples: How many times to draw.
        seed: The same seed gives the same interval.

    Raises:
        InputError: For no strata, an empty one, values that are not finite, or fewer than one resample.
    """
    _check(confidence, resamples)
    arrays = [_values(stratum, f"values in stratum {i}") for i, stratum in enumerate(strata)]
    if not arrays:
        raise InputError("Expected at least one stratum, got none")
    rng = np.random.default_rng(seed)
    drawn = np.concatenate([a[rng.integers(a.size, size=(resamples, a.size))] for a in arrays], axis=1)
    found = np.array([statistic(row) for row in drawn])
    tail = (1 - confidence) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    flat = np.concatenate(arrays)
    method = f"stratified percentile bootstrap, {resamples} resamples"
    return Interval(statistic(flat), float(low), float(high), flat.size, method)


def probability_of_improvement(a: ArrayLike, b: ArrayLike) -> float:
    """Probability that a random value of ``a`` is above one of ``b``; ties count half (Mann-Whitney)."""
    first, second = _values(a, "values of a"), np.sort(_values(b, "values of b"))
    below = np.searchsorted(second, first, side="left")
    ties = np.searchsorted(second, first, side="right") - below
    return float((below + 0.5 * ties).sum() / (first.size * second.size))


def improvement_interval(
    a: ArrayLike, b: ArrayLike, *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """:func:`probability_of_improvement` with a percentile bootstrap interval, both sides drawn anew."""
    _check(confidence, resamples)
    first, second = _values(a, "values of a"), _values(b, "values of b")
    rng = np.random.default_rng(seed)
    found = [
        probability_of_improvement(rng.choice(first, first.size), rng.choice(second, second.size))
        for _ in range(resamples)
    ]
    tail = (1 - confidence) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    method = f"percentile bootstrap, {resamples} resamples"
    estimate = probability_of_improvement(first, second)
    return Interval(estimate, float(low), float(high), min(first.size, second.size), method)


def t_quantile(p: float, df: float) -> float:
    """The value that Student's t with ``df`` degrees of freedom stays below with probability ``p``.

    By bisection on the distribution function, to 1e-8 absolute and, away from the middle, 1e-9 relative.

    Raises:
        InputError: Unless ``0 < p < 1`` and ``df > 0``.
    """
    if not 0.0 < p < 1.0 or not df > 0.0 or not math.isfinite(df):
        raise InputError(f"Expected 0 < p < 1 and df > 0, got {p!r} and {df!r}")
    if p == 0.5:
        return 0.0
    tail = min(p, 1.0 - p)
    low, high = 0.0, 1.0
    while t_tail(high, df) > tail:
        low, high = high, 2.0 * high
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if t_tail(middle, df) > tail else (low, middle)
    value = 0.5 * (low + high)
    return value if p > 0.5 else -value


def t_tail(t: float, df: float) -> float:
    """Probability that Student's t with ``df`` degrees of freedom is above ``t >= 0``."""
    squared = t * t
    if squared < 1.0:  # near the middle this form does not cancel, further out the other one
        return 0.5 - 0.5 * regularised_beta(squared / (df + squared), 0.5, df / 2)
    return 0.5 * regularised_beta(df / (df + squared), df / 2, 0.5)


def regularised_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction (Abramowitz & Stegun 26.5.8)."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly, its mirror image converges fast
        return 1.0 - regularised_beta(1.0 - x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(scale) / (a * _beta_fraction(x, a, b))


def _beta_fraction(x: float, a: float, b: float) -> float:
    """1 + d1/(1 + d2/(1 + …)), evaluated forward by Lentz's method."""
    tiny = 1e-300
    value, c, d = 1.0, 1.0, 0.0
    for m in range(1, 10_000):
        half, odd = m // 2, m % 2
        if odd:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        d = 1.0 / (1.0 + term * d or tiny)
        c = 1.0 + term / c or tiny
        value *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return value
