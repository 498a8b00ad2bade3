"""From measured worths to constants: pooling, shrinking, bounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage_gym.credit.constants import LAM_BOUNDS, isotonic, shrunk


def test_pooling_by_hand() -> None:
    assert isotonic([1, 3, 0], [1, 1, 1]).tolist() == [2, 2, 0]
    assert isotonic([3, 2, 1], [1, 1, 1]).tolist() == [3, 2, 1]
    assert isotonic([0, 3], [1, 3]).tolist() == [2.25, 2.25]
    assert isotonic([5, 7, 1], [0, 2, 1]).tolist() == [7, 7, 1]
    assert isotonic([1, 2, 6], [1, 1, 2]).tolist() == [3.75, 3.75, 3.75]  # pooled twice, weights added up
    assert isotonic([1, 3, 2, 2], [0, 0, 1, 3]).tolist() == [2, 2, 2, 2]  # without weight: the middle, then the others'
    assert isotonic([2, 4, 9], [0, 0, 0]).tolist() == [6, 6, 6]
    assert isotonic([], []).tolist() == []
    with pytest.raises(ValueError, match="zip"):
        isotonic([1, 2], [1])


values = st.lists(st.integers(-20, 20), min_size=4, max_size=4)
weights = st.lists(st.integers(1, 5), min_size=4, max_size=4)


@settings(max_examples=500, deadline=None)
@given(values, weights)
def test_pooling_is_the_best_falling_sequence(y: list[int], w: list[int]) -> None:
    """Against brute force: the optimum is constant on blocks, each with its mean."""
    found = isotonic([float(v) for v in y], [float(v) for v in w])
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(found))
    best = np.inf
    for cuts in itertools.product([False, True], repeat=3):
        blocks, start = [], 0
        for k, cut in enumerate([*cuts, True], 1):
            if cut:
                blocks.append(range(start, k))
                start = k
        means = [sum(w[i] * y[i] for i in b) / sum(w[i] for i in b) for b in blocks]
        if all(a >= b for a, b in itertools.pairwise(means)):
            best = min(best, sum(w[i] * (y[i] - m) ** 2 for b, m in zip(blocks, means, strict=True) for i in b))
    assert float((np.array(w) * (np.array(y) - found) ** 2).sum()) == pytest.approx(best, abs=1e-6)


def test_shrinking_by_hand() -> None:
    nothing = np.full(4, np.inf)
    constants, lam = shrunk(np.zeros(4), nothing)
    assert lam == pytest.approx(0.2)
    assert constants.tolist() == pytest.approx([1.0, 0.5, -0.1, -0.5])
    half, lam = shrunk(np.array([0.4, 0.1, -0.02, -0.1]), np.full(4, 0.1))
    assert lam == pytest.approx(0.3)
    assert (half * lam).tolist() == pytest.approx([0.3, 0.1, -0.02, -0.1])
    # A quarter of the spread: 16/17 of what was measured and 1/17 of the prior .2, .1, -.02, -.1.
    sure, lam = shrunk(np.array([0.37, 0.2, 0.01, -0.1]), np.full(4, 0.025))
    assert (sure * lam).tolist() == pytest.approx([6.12 / 17, 3.3 / 17, 0.14 / 17, -0.1])
    # Of a prior of one's own: half of D .3 and of .6 * (.5, .25, 0, -.25).
    own, lam = shrunk(np.array([0.3, 0.15, 0.0, -0.15]), np.full(4, 0.2), spread=0.2, prior=(0.5, 0.25, 0, -0.25), prior_lam=0.6)  # fmt: skip
    assert (lam, (own * lam).tolist()) == (pytest.approx(0.3), pytest.approx([0.3, 0.15, 0.0, -0.15]))


def test_what_is_out_of_order_is_pooled_by_how_sure_it_is() -> None:
    """D 0 with error .1 is half the prior: .1 at precision 1/(.01 · .5) = 200. E .5 with error .05 is .8 · .5 + .2 · .1 = .42
    at 1/(.01 · .2) = 500. So both come to (200 · .1 + 500 · .42) / 700."""
    constants, lam = shrunk(np.array([0.0, 0.5, -0.02, -0.1]), np.array([0.1, 0.05, np.inf, np.inf]))
    pooled = (200 * 0.1 + 500 * 0.42) / 700
    assert (constants * lam).tolist() == pytest.approx([pooled, pooled, -0.02, -0.1])
    # As good as certain: the weight stays finite, and the prior of N is 1e9 times lighter.
    found, lam = shrunk(np.array([0.3, 0.0, 0.2, -0.1]), np.array([1e-9, np.inf, 1e-9, np.inf]))
    assert (found * lam).tolist() == pytest.approx([0.3, 0.2, 0.2, -0.1])


def test_lambda_and_constants_stay_in_bounds() -> None:
    large, lam = shrunk(np.array([3.0, 0.2, -0.4, -5.0]), np.full(4, 1e-6))
    assert lam == 0.4
    assert large.tolist() == pytest.approx([1.0, 0.5, -1.0, -1.0])
    small, lam = shrunk(np.array([0.02, 0.01, 0.0, -0.01]), np.full(4, 1e-6))
    assert lam == 0.05
    assert small.tolist() == pytest.approx([0.4, 0.2, 0.0, -0.2], abs=1e-6)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.floats(-5, 5), min_size=4, max_size=4),
    st.lists(st.floats(0.001, 5) | st.just(float("inf")), min_size=4, max_size=4),
)
def test_constants_are_bounded_and_in_order(measured: list[float], errors: list[float]) -> None:
    constants, lam = shrunk(np.array(measured), np.array(errors))
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(constants))
    assert np.abs(constants).max() <= 1.0
    assert LAM_BOUNDS[0] <= lam <= LAM_BOUNDS[1]
