"""Intervals of what is computed from counts and sums: a percentile bootstrap that draws whole attempts.

Segments of one attempt are no independent draws, so attempts are drawn, and everything measured is a function of sums
over attempts; one matrix product gives these sums in every resample. The same seed gives the same draws to every
measure, so judges are compared on the same resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from math import sqrt
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from triage_gym.errors import InputError
from triage_gym.statistics import Interval, t_quantile, wilson

Sums = NDArray[np.float64]
"""Shape ``(..., columns)``: sums over attempts of what a measure needs."""
_BLOCK: Final = 4_000_000
"""Numbers drawn at a time, which bounds the memory (32 MB)."""
_KEEP: Final = 30_000_000
"""Most numbers that are kept for the next measure (60 MB)."""


class Resampler:
    """Draws attempts with replacement.

    Args:
        units: For each segment the attempt it belongs to, by any name.
        resamples: How many times to draw.
        seed: The same seed gives the same draws.
        confidence: Probability that intervals are meant to cover.
        expanded: Widen the percentiles as Student's t widens a normal interval, since resamples of few units spread too
            little: Φ(-sqrt(n / (n - 1)) t) in the place of 2.5 % (Hesterberg, 2015, arXiv:1411.5279).
        of: What the units are, in words.

    Raises:
        InputError: For fewer than one resample, or a confidence outside of (0, 1).
    """

    def __init__(
        self,
        units: Sequence[Hashable],
        resamples: int = 2000,
        seed: int = 0,
        confidence: float = 0.95,
        *,
        expanded: bool = False,
        of: str = "attempts",
    ) -> None:
        if resamples < 1 or not 0.0 < confidence < 1.0:
            raise InputError(
                f"Expected at least 1 resample and a confidence between 0 and 1, got {resamples} and {confidence}"
            )
        places: dict[Hashable, int] = {}
        self.unit = np.array([places.setdefault(name, len(places)) for name in units], dtype=np.int64)
        """Number of each segment's attempt."""
        self.units = len(places)
        self.confidence, self.method = (
            confidence,
            f"{'expanded ' * expanded}percentile bootstrap over {of}, {resamples} resamples",
        )
        self._resamples, self._seed, self._expanded = resamples, seed, expanded
        self._kept: list[NDArray[np.uint16]] | None = None

    def interval(self, columns: NDArray[np.float64], measure: Callable[[Sums], Sums]) -> Interval | None:
        """The measure of all segments, with its interval.

        Args:
            columns: Shape ``(segments, columns)``: what each segment adds to the sums; zeros for one that has no part.
            measure: Of sums, shape ``(resamples, columns)``, to one number each; NaN where there is none.

        Returns:
            None where the measure of all segments is undefined. ``n`` is the number of attempts that have a part.
        """
        return self.intervals(columns, [measure])[0]

    def intervals(
        self, columns: NDArray[np.float64], measures: Sequence[Callable[[Sums], Sums]]
    ) -> list[Interval | None]:
        """As :meth:`interval`, several measures of the same sums at the price of one."""
        sums = self.sums(columns)
        whole = sums.sum(axis=0)[None]
        drawn = [[measure(block) for measure in measures] for block in self._drawn(sums)]
        taking_part = int(np.any(sums != 0.0, axis=1).sum())
        tail = self._tail(taking_part)
        out: list[Interval | None] = []
        for at, measure in enumerate(measures):
            estimate = float(measure(whole)[0])
            found = np.concatenate([block[at] for block in drawn] or [np.zeros(0)])
            found = found[~np.isnan(found)]
            if np.isnan(estimate):
                out.append(None)
                continue
            low, high = np.quantile(found, [tail, 1 - tail]) if found.size else (estimate, estimate)
            out.append(Interval(estimate, float(low), float(high), taking_part, self.method))
        return out

    def _tail(self, n: int) -> float:
        """The share of resamples beyond each end of an interval from ``n`` units."""
        tail = (1 - self.confidence) / 2
        if not self._expanded or n < 2:
            return tail
        return NormalDist().cdf(-sqrt(n / (n - 1)) * t_quantile(1 - tail, n - 1))

    def sums(self, columns: NDArray[np.float64]) -> Sums:
        """What each attempt adds, shape ``(attempts, columns)``."""
        total = np.zeros((self.units, columns.shape[1]))
        np.add.at(total, self.unit, columns)
        return total

    def _drawn(self, sums: Sums) -> Iterator[Sums]:
        """The sums of each resample, a block at a time."""
        blocks = self._blocks() if self._kept is None else self._kept
        if self._kept is None and self._resamples * self.units <= _KEEP:
            blocks = self._kept = list(blocks)
        for times in blocks:
            yield times.astype(np.float64) @ sums

    def _blocks(self) -> Iterator[NDArray[np.uint16]]:
        """How many times each attempt is drawn, shape ``(some resamples, attempts)``."""
        if not self.units:
            return
        rng = np.random.default_rng(self._seed)
        at_once = max(1, _BLOCK // self.units)
        for first in range(0, self._resamples, at_once):
            size = (min(at_once, self._resamples - first), self.units)
            rows = np.arange(size[0])[:, None] * self.units
            places = (rows + rng.integers(self.units, size=size)).ravel()
            yield np.bincount(places, minlength=size[0] * self.units).reshape(size).astype(np.uint16)


def of_share(hits: float, n: float, interval: Interval | None, confidence: float) -> Interval | None:
    """``interval`` of the share ``hits / n``, or Wilson's where resampling shows no spread because all n are alike."""
    if interval is None or interval.low != interval.high or n < 1:
        return interval
    return wilson(round(hits), round(n), confidence)
