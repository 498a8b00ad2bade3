"""Statistics against scipy, against known numbers and, for coverage, against simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from triage_gym.errors import InputError
from triage_gym.statistics import (
    bootstrap_interval,
    improvement_interval,
    iqm,
    mean,
    median,
    paired_difference,
    probability_of_improvement,
    regularised_beta,
    t_interval,
    t_quantile,
    wilson,
)

samples = st.lists(st.floats(-100, 100), min_size=1, max_size=40)


@given(samples)
def test_centres_agree_with_scipy(values: list[float]) -> None:
    assert mean(values) == pytest.approx(np.mean(values), abs=1e-9)
    assert median(values) == pytest.approx(np.median(values), abs=1e-9)
    assert iqm(values) == pytest.approx(stats.trim_mean(values, 0.25), abs=1e-9)


def test_iqm_leaves_out_the_outer_quarters() -> None:
    assert iqm([0, 1, 2, 3, 4, 5, 6, 1000]) == 3.5
    assert iqm([5]) == 5


@pytest.mark.parametrize("df", [1, 2, 2.5, 3, 4, 5, 9, 10, 29, 30, 100, 1000, 1e5])
def test_t_quantiles_agree_with_scipy(df: float) -> None:
    for p in (1e-6, 0.005, 0.025, 0.05, 0.3, 0.5, 0.500000001, 0.5001, 0.6, 0.9, 0.95, 0.975, 0.995, 0.9999):
        assert t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-9, abs=1e-8)


@given(st.floats(0, 1), st.floats(0.1, 200), st.floats(0.1, 200))
def test_the_beta_function_agrees_with_scipy(x: float, a: float, b: float) -> None:
    assert regularised_beta(x, a, b) == pytest.approx(stats.beta.cdf(x, a, b), abs=1e-10)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=20), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_the_t_interval_agrees_with_scipy(values: list[float], confidence: float) -> None:
    middle, half = t_interval(values, confidence)
    assert half is not None
    spread = stats.sem(values)
    assert middle == pytest.approx(np.mean(values), abs=1e-9)
    assert half == pytest.approx(stats.t.ppf(0.5 + confidence / 2, len(values) - 1) * spread, rel=1e-9, abs=1e-9)


def test_one_value_has_no_interval() -> None:
    assert t_interval([3.0]) == (3.0, None)
    assert t_interval([2.0, 2.0]) == (2.0, 0.0)


def test_paired_differences() -> None:
    paired = paired_difference([0.9, 0.8, 0.7], [0.5, 0.9, 0.2])
    assert paired.values == pytest.approx((0.4, -0.1, 0.5))
    assert (paired.n, paired.positive) == (3, 2)
    assert paired.mean == pytest.approx(0.8 / 3)
    test = stats.ttest_rel([0.9, 0.8, 0.7], [0.5, 0.9, 0.2]).confidence_interval(0.95)
    assert paired.half_width is not None
    assert paired.mean - paired.half_width == pytest.approx(test.low)
    assert not paired.excludes_zero
    assert paired_difference([1, 1.1], [0, 0]).excludes_zero
    assert not paired_difference([1], [0]).excludes_zero
    with pytest.raises(InputError, match="pairs"):
        paired_difference([1, 2], [1])


@given(st.integers(1, 200), st.data())
def test_wilson_agrees_with_scipy(n: int, data: Any) -> None:
    k = data.draw(st.integers(0, n))
    own, its = wilson(k, n), stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert (own.low, own.high) == pytest.approx((its.low, its.high), abs=1e-9)
    assert own.estimate == k / n
    assert 0 <= own.low <= own.estimate <= own.high <= 1


@pytest.mark.parametrize("statistic", [iqm, mean, median], ids=["iqm", "mean", "median"])
def test_the_bootstrap_agrees_with_scipy(statistic: Any) -> None:
    values = np.random.default_rng(3).beta(4, 2, size=60)
    own = bootstrap_interval([values], statistic, resamples=5000, seed=1)
    its = stats.bootstrap(
        (values,), statistic, n_resamples=5000, method="percentile", vectorized=False, rng=np.random.default_rng(2)
    ).confidence_interval
    assert (own.low, own.high) == pytest.approx((its.low, its.high), abs=0.01)
    assert own.estimate == statistic(values)
    assert own.n == 60
    assert "5000" in own.method


def test_the_bootstrap_stays_within_strata_and_repeats() -> None:
    fixed = bootstrap_interval([[0.0, 0.0], [1.0, 1.0, 1.0]], mean)
    assert (fixed.low, fixed.estimate, fixed.high) == (0.6, 0.6, 0.6)
    strata = [[0.1, 0.5, 0.9], [0.3, 0.2]]
    assert bootstrap_interval(strata, seed=5) == bootstrap_interval(strata, seed=5)
    assert bootstrap_interval(strata, mean, seed=5) != bootstrap_interval(strata, mean, seed=6)
    pooled = bootstrap_interval([[0.0] * 10 + [1.0] * 10], mean)
    split = bootstrap_interval([[0.0] * 10, [1.0] * 10], mean)
    assert split.high - split.low < pooled.high - pooled.low


@given(samples, samples)
def test_probability_of_improvement_agrees_with_mann_whitney(a: list[float], b: list[float]) -> None:
    u = stats.mannwhitneyu(a, b, method="asymptotic").statistic if len({*a, *b}) > 1 else len(a) * len(b) / 2
    assert probability_of_improvement(a, b) == pytest.approx(u / (len(a) * len(b)))


def test_improvement_interval() -> None:
    clear = improvement_interval([5, 6, 7], [1, 2, 3])
    assert (clear.low, clear.estimate, clear.high) == (1, 1, 1)
    even = improvement_interval(list(range(10)), list(range(10)))
    assert even.low < even.estimate == 0.5 < even.high
    assert even == improvement_interval(list(range(10)), list(range(10)))


def test_a_95_percent_interval_covers_95_percent() -> None:
    rng, covered = np.random.default_rng(0), 0
    for _ in range(2000):
        middle, half = t_interval(rng.normal(2, 3, size=10))
        covered += abs(middle - 2) <= (half or 0)
    assert 0.93 <= covered / 2000 <= 0.97


@pytest.mark.parametrize(
    "call",
    [
        lambda: mean([]),
        lambda: iqm([1.0, math.nan]),
        lambda: t_interval([]),
        lambda: t_interval([1, 2], confidence=1.0),
        lambda: wilson(3, 2),
        lambda: wilson(0, 0),
        lambda: wilson(-1, 3),
        lambda: bootstrap_interval([]),
        lambda: bootstrap_interval([[1.0], []]),
        lambda: bootstrap_interval([[1.0]], resamples=0),
        lambda: t_quantile(1.0, 3),
        lambda: t_quantile(0.5, 0),
        lambda: improvement_interval([1], [2], resamples=0),
    ],
)
def test_bad_input_is_refused(call: Any) -> None:
    with pytest.raises(InputError):
        call()
