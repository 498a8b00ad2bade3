"""Intervals from few units."""

from __future__ import annotations

import numpy as np
import pytest

from triage_gym.audit.resampling import Resampler


def test_percentiles_of_few_units_lie_further_out() -> None:
    """Φ(-sqrt(n / (n - 1)) t): of eight units t is 2.3646, so 0.0057 in the place of 0.025."""
    expanded = Resampler(range(8), expanded=True)
    assert expanded._tail(8) == pytest.approx(0.00574, abs=1e-5)
    assert expanded._tail(2000) == pytest.approx(0.025, abs=1e-4)
    assert Resampler(range(8))._tail(8) == pytest.approx(0.025)


def test_an_expanded_interval_holds_the_other_and_says_so() -> None:
    values = np.random.default_rng(0).normal(size=(12, 1))
    columns = np.concatenate([values, np.ones((12, 1))], axis=1)
    plain, wide = (
        Resampler(range(12), expanded=expanded, of="tasks").interval(columns, lambda s: s[:, 0] / s[:, 1])
        for expanded in (False, True)
    )
    assert plain is not None
    assert wide is not None
    assert wide.low < plain.low < plain.estimate == wide.estimate < plain.high < wide.high
    assert wide.method == "expanded percentile bootstrap over tasks, 2000 resamples"
