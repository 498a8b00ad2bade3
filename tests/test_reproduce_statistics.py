"""What tables say of runs, against computations that share no code with it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
stats = pytest.importorskip("scipy.stats")

from triage_gym.trainers.reproduce.measures import over_envs, paired, paired_over_envs, summary

DRAW = np.random.default_rng(7)
VALUES = {(env, arm): DRAW.random(n) for env, n in (("x", 5), ("y", 5)) for arm in ("a", "b")}
RESULTS: dict[tuple[str, str, int], Any] = {
    (env, arm, seed): {"metrics": {"success": float(v)}}
    for (env, arm), values in VALUES.items()
    for seed, v in enumerate(values)
}


@pytest.mark.parametrize("n", range(2, 10))
def test_means_and_interquartile_means_are_scipys(n: int) -> None:
    own = DRAW.random(n)
    found = summary({("x", "a", s): {"metrics": {"success": float(v)}} for s, v in enumerate(own)}, "x", "a", "success")
    assert found is not None
    assert found["iqm"] == pytest.approx(stats.trim_mean(own, 0.25))
    low, high = stats.t.interval(0.95, n - 1, loc=own.mean(), scale=stats.sem(own))
    assert (found["mean"] - found["half_width"], found["mean"] + found["half_width"]) == pytest.approx((low, high))


def test_differences_are_those_of_a_paired_t_test() -> None:
    found = paired(RESULTS, "x", "a", "b", "success")
    assert found is not None
    assert found.half_width is not None
    expected = stats.ttest_rel(VALUES["x", "a"], VALUES["x", "b"]).confidence_interval(0.95)
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx(
        (expected.low, expected.high)
    )


def test_over_environments_a_seed_is_one_unit() -> None:
    """Seeds of the environments are paired up first: five units, not ten."""
    found = paired_over_envs(RESULTS, ("x", "y"), "a", "b")
    assert found is not None
    assert found.half_width is not None
    first = (VALUES["x", "a"] + VALUES["y", "a"]) / 2
    second = (VALUES["x", "b"] + VALUES["y", "b"]) / 2
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx(
        (expected.low, expected.high)
    )
    assert found.n == 5


def test_the_stratified_bootstrap_is_near_all_resamples_there_are() -> None:
    strata = [np.array([0.11, 0.17, 0.42, 0.45]), np.array([0.6, 0.63, 0.71, 0.9])]
    results = {
        (env, "a", seed): {"metrics": {"success": float(v)}}
        for env, values in zip("xy", strata, strict=True)
        for seed, v in enumerate(values)
    }
    each = [np.array(list(itertools.product(values, repeat=4))) for values in strata]
    pairs = [np.repeat(each[0], len(each[1]), axis=0), np.tile(each[1], (len(each[0]), 1))]
    every = stats.trim_mean(np.concatenate(pairs, axis=1), 0.25, axis=1)
    assert every.shape == (4**8,)
    found = over_envs(results, ("x", "y"), "a")
    assert found is not None
    assert found.n == 8
    assert found.low == pytest.approx(np.quantile(every, 0.025), abs=0.01)
    assert found.high == pytest.approx(np.quantile(every, 0.975), abs=0.01)
