"""Role constants from counterfactual rows."""

from __future__ import annotations

import numpy as np
import pytest
from test_lab_counterfactual import many, row

from triage_gym.audit.counterfactual import said_by, table_of
from triage_gym.audit.fitting import Fit, Held, fit, fit_constants, fold_of
from triage_gym.audit.lab_text import fitted
from triage_gym.audit.labels import LabelledWindow
from triage_gym.errors import InputError
from triage_gym.records import ROLES
from triage_gym.statistics import Interval


def test_a_fit_finds_what_is_there() -> None:
    """y = 0.5 A_i + β with β = 0.4, 0.2, 0, -0.2 over a scale of 0.5: λ c = β / 0.5 / 0.5."""
    rng = np.random.default_rng(1)
    rows = []
    for k in range(8000):
        role, advantage = ROLES[k % 4], float(rng.choice([-1.0, 1.0]))
        star = 0.25 * advantage + {"D": 0.05, "E": 0.02, "N": 0.0, "R": -0.04}[role] + 0.05 * rng.normal()
        rows.append(row(k, role, star, advantage))
    table = table_of(rows)
    found = fit_constants(table, said_by(rows, "j"))
    assert found.slope == pytest.approx(0.5, abs=0.01)
    level = 0.2 * 0.9 / 4 - 0.03  # the prior's mean less theirs, the roles being equally frequent
    there = np.array([0.2, 0.08, 0.0, -0.16]) + level
    assert found.measured == pytest.approx(there, abs=0.02)
    assert found.lam * np.array(found.constants) == pytest.approx(there, abs=0.02)
    assert found.counts == (2000,) * 4


def test_a_fit_is_judged_on_tasks_it_has_not_seen() -> None:
    found, held = fit(many(1.0, 0.2), "j")
    assert held is not None
    assert held.gain is not None
    assert held.gain.low > 0.0
    assert found.constants[0] == 1.0
    _, empty = fit([*many(1.0, 0.2)[:1], row(9, "E", 0.1, -1.0, task="t0")], "j")
    assert empty is None
    assert {fold_of(f"t{k}") for k in range(20)} == {0, 1}


def test_what_cannot_be_fitted_is_refused() -> None:
    with pytest.raises(InputError, match="outcomes differ"):
        fit([row(k, "D", 0.1, 0.0) for k in range(4)], "j")
    with pytest.raises(InputError, match="outcomes differ"):
        fit([row(k, None, 0.1, float(k)) for k in range(4)], "j")


def test_the_level_of_constants_is_the_priors() -> None:
    """Whitening takes it off: the same rows with another mean of A_i, as where successes are short, are fitted alike."""
    rng = np.random.default_rng(2)
    rows, moved = [], []
    for k in range(400):
        role, advantage = ROLES[k % 4], float(rng.choice([-1.0, 1.0]))
        star = 0.2 * advantage + {"D": 0.1, "E": 0.05, "N": 0.0, "R": -0.1}[role] + 0.1 * rng.normal()
        rows.append(row(k, role, star, advantage))
        moved.append(row(k, role, star, advantage + 0.7))
    first, second = (fit_constants(table_of(these), said_by(these, "j")) for these in (rows, moved))
    assert first.constants == pytest.approx(second.constants)
    assert (first.slope, first.lam) == (pytest.approx(second.slope), pytest.approx(second.lam))
    assert first.measured == pytest.approx(second.measured)
    assert first.errors == pytest.approx(second.errors)
    assert np.mean(first.measured) == pytest.approx(0.2 * 0.9 / 4)


def test_errors_take_tasks_for_units() -> None:
    """Four turns of the same task tell no more than one does."""
    spread = [0.1, 0.3, 0.2, 0.4, 0.0, 0.5, 0.3, 0.1]

    def one_of(number: int, k: int) -> LabelledWindow:
        return row(number, "DE"[k % 2], spread[k], [1.0, -1.0][k // 2 % 2], task=f"t{k // 2}")

    apart = [one_of(k, k) for k in range(8)]
    repeated = [one_of(8 * j + k, k) for k in range(8) for j in range(4)]
    one, four = (fit_constants(table_of(rows), said_by(rows, "j")) for rows in (apart, repeated))
    assert one.errors[:2] == pytest.approx(four.errors[:2])
    assert 0.0 < one.errors[0] < np.inf
    assert one.errors[2:] == (np.inf, np.inf)


def test_errors_take_in_that_the_slope_is_measured_too() -> None:
    """Against leaving out one task after the other, which refits all of it."""
    rng = np.random.default_rng(3)
    rows = []
    for k in range(400):
        role, advantage = ROLES[int(rng.integers(4))], float(rng.choice([-1.0, 1.0]))
        star = 0.1 * advantage + {"D": 0.3, "E": 0.1, "N": 0.0, "R": -0.2}[role] + 0.3 * rng.normal()
        rows.append(row(k, role, 0.5 * star, advantage, task=f"t{k % 40}"))
    whole = fit_constants(table_of(rows), said_by(rows, "j"))
    without = []
    for task in range(40):
        rest = [r for k, r in enumerate(rows) if k % 40 != task]
        without.append(fit_constants(table_of(rest), said_by(rest, "j")).measured)
    moved = np.array(without) - np.mean(without, axis=0)
    jackknife = np.sqrt((moved**2).sum(axis=0) * 39 / 40)
    assert whole.errors == pytest.approx(jackknife, rel=0.15)


@pytest.mark.parametrize(
    ("over", "gain", "told"),
    [
        ((0.1, 0.2), (0.1, 0.2), "tell more of A* than the paper's"),
        ((-0.2, -0.1), (0.1, 0.2), "keep those"),
        ((-0.1, 0.1), (0.1, 0.2), "nothing was found that the paper's constants do not have"),
        ((-0.1, 0.1), (-0.1, 0.1), "nor do they tell more than the outcome alone"),
    ],
)
def test_a_fit_ends_with_what_it_is_good_for(over: tuple[float, float], gain: tuple[float, float], told: str) -> None:
    def about(low: float, high: float) -> Interval:
        return Interval((low + high) / 2, low, high, 20, "bootstrap")

    found = Fit((1.0, 0.5, -0.1, -0.5), 0.2, 1.0, (0.2, 0.1, 0.0, -0.1), (0.1,) * 4, (5, 5, 5, 5))  # type: ignore[arg-type]
    held = Held(about(0, 1), about(0, 1), about(0, 1), about(*gain), about(*over))
    assert told in fitted("mine", found, held).splitlines()[-1]
