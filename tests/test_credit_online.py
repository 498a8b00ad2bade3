"""Constants measured by retries: unbiased pairs, their statistics, and what the rule makes of them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from counterfactual_probe import NEEDED, TURNS, known

from triage_gym.credit import make
from triage_gym.credit.online import (
    Pair,
    RoleWorths,
    TriageOnline,
    drawn_turn,
    inverse_chance,
    paired,
    pairs_of,
)
from triage_gym.errors import CheckpointError, InputError
from triage_gym.records import ROLES, EpisodeRecord, Role, RoleLabel, Segment


def record(roles: str, score: float, group: str = "g", trial: str = "0", **more: Any) -> EpisodeRecord:
    segments = tuple(Segment(k, f"o{k}", f"a{k}", f"o{k + 1}") for k in range(len(roles)))
    labels = tuple(RoleLabel(k, None if r == "-" else r) for k, r in enumerate(roles))  # type: ignore[arg-type]
    return EpisodeRecord(group, trial=trial, segments=segments, labels=labels, score=score, success=score > 0, **more)


def retry(roles: str, score: float, pivot: int, **more: Any) -> EpisodeRecord:
    return record(roles, score, attempt=1, parent=0, pivot=pivot, prefix_length=pivot, **more)


# Pairs -----------------------------------------------------------------------------------------------------------------


def test_pairs_by_hand() -> None:
    batch = [record("DE", 1.0, trial="0"), record("RN", 0.0, trial="1"), retry("DR", 0.0, 1, trial="0")]
    batch += [retry("RD", 1.0, 0, trial="1"), record("D", 1.0, group="h")]
    assert paired(batch) == [(2, 0), (3, 1)]
    assert pairs_of(batch) == [Pair("E", 1.0, 0.5, 2.0), Pair("R", -1.0, 0.5, 2.0)]
    assert inverse_chance(["E", "E", "D", None], 0) == 4.0
    assert inverse_chance(["E", "E", "D", None], 2) == 2.0


def test_the_spread_of_a_pair_is_that_of_first_attempts() -> None:
    """1 and 0 deviate by 1/2; with the retry's 4 they would deviate by more. What is no pair hides none after it."""
    batch = [record("-E", 1.0, trial="0"), record("RN", 0.0, trial="1")]
    batch += [retry("-E", 4.0, 0, trial="0"), retry("RN", 4.0, 1, trial="1")]
    assert pairs_of(batch) == [Pair("N", -4.0, 0.5, 2.0)]
    batch[2] = retry("-E", 4.0, 2, trial="0")
    assert pairs_of(batch) == [Pair("N", -4.0, 0.5, 2.0)], "no turn stands behind the last"


def test_what_is_no_pair_is_left_out() -> None:
    first = record("D-", 1.0)
    broken = record("DE", 0.0, error="x")
    assert pairs_of([first, retry("D-", 0.0, 1)]) == [], "the turn has no role"
    assert pairs_of([broken, retry("DE", 0.0, 1)]) == []
    assert pairs_of([first, retry("D-", 0.0, 0, error="x")]) == []
    elsewhere = record("DE", 0.0, attempt=1, parent=0, pivot=1, prefix_length=0)
    assert pairs_of([record("DE", 1.0), elsewhere]) == [], "it did not come back to the turn"
    assert pairs_of([retry("DE", 0.0, 1)]) == []


def test_turns_are_drawn_by_roles_alone() -> None:
    rng = np.random.default_rng(0)
    roles: list[Role | None] = ["E", "E", "E", "D", None, "R"]
    drawn = [drawn_turn(roles, rng) for _ in range(6000)]
    counts = np.bincount([k for k in drawn if k is not None], minlength=6) / 6000
    assert counts == pytest.approx([1 / 9, 1 / 9, 1 / 9, 1 / 3, 0, 1 / 3], abs=0.03)
    assert drawn_turn([None, None], rng) is None


def truth_of(role: str) -> float:
    """E[A* | role] over the turns of the even player in the probe, "left" being D and "right" R."""
    action = "left" if role == "D" else "right"
    values = [
        np.subtract(*known(sent, action))
        for turn in range(TURNS)
        for sent in itertools.product(("left", "right"), repeat=turn)
        for _ in range(2 ** (TURNS - turn))
    ]
    return float(np.mean(values))


def simulate(pairs: int, only_failures: bool) -> dict[str, list[Pair]]:
    """Pairs of the even player in the probe by role."""
    rng = np.random.default_rng(3)
    found: dict[str, list[Pair]] = {"D": [], "R": []}
    while min(map(len, found.values())) < pairs:
        sent = ["left" if rng.random() < 0.5 else "right" for _ in range(TURNS)]
        first = float(sent.count("left") >= NEEDED)
        if only_failures and first:
            continue
        roles: list[Role | None] = ["D" if action == "left" else "R" for action in sent]
        turn = drawn_turn(roles, rng)
        assert turn is not None
        again = sent[:turn] + ["left" if rng.random() < 0.5 else "right" for _ in range(TURNS - turn)]
        role = roles[turn]
        assert role is not None
        found[role].append(Pair(role, first - float(again.count("left") >= NEEDED), 0.5, inverse_chance(roles, turn)))
    return found


def test_pairs_whatever_came_of_the_attempt_are_unbiased_and_pairs_of_failures_are_not() -> None:
    for role, found in simulate(6000, only_failures=False).items():
        worths = RoleWorths(TriageOnline(keep=1.0))
        worths.add(found)
        mean, error, _ = worths.estimates()
        at = "DENR".index(role)
        # A scale of 0.5: worths are in units of the groups' deviation.
        assert abs(mean[at] - truth_of(role) / 0.5) <= 2 * error[at]
        even = np.mean([pair.difference for pair in found])
        assert abs(even - truth_of(role)) > 4 * 0.5 / len(found) ** 0.5, "without weights the test could not fail"
    assert truth_of("D") > 0.1
    naive = simulate(2000, only_failures=True)
    assert np.mean([pair.difference for pair in naive["D"]]) < -0.1, "after failures D looks like damage"


# Worths ----------------------------------------------------------------------------------------------------------------


def test_worths_by_hand() -> None:
    worths = RoleWorths(TriageOnline(keep=1.0))
    worths.add([Pair("D", 1.0, 0.5), Pair("D", 0.0, 0.5)])
    mean, error, count = worths.estimates()
    assert (mean[0], error[0], count[0]) == pytest.approx((1.0, 1.0, 2.0))
    assert error[1:].tolist() == [np.inf] * 3
    told = worths.metrics()
    assert told["online_worth_D"] == pytest.approx(1.0)
    assert told["online_worth_E"] is None
    assert told["online_pairs_D"] == pytest.approx(2.0)


def test_nothing_measured_leaves_the_papers_constants() -> None:
    rule = RoleWorths(TriageOnline()).rule()
    assert rule.lam == pytest.approx(0.2)
    assert rule.constants == pytest.approx((1.0, 0.5, -0.1, -0.5))


def test_shrinking_by_hand() -> None:
    """An error as large as the prior's deviation: half of the way from the prior to what was measured."""
    worths = RoleWorths(TriageOnline(keep=1.0, spread=1.0))
    worths.add([Pair("D", 1.0, 0.5), Pair("D", 0.0, 0.5)])
    rule = worths.rule()
    assert rule.lam == 0.4  # half of 1 + .2 is .6: bounded
    assert rule.constants[0] == 1.0


def test_old_pairs_weigh_less() -> None:
    worths = RoleWorths(TriageOnline(keep=0.5))
    worths.add([Pair("R", -1.0, 0.5)])
    worths.add([Pair("R", 0.0, 0.0)])
    mean, _, count = worths.estimates()
    assert mean[3] == pytest.approx(-0.5 / 1.5 / 0.5)
    assert count[3] == pytest.approx(1.5**2 / (1 + 0.25))
    for _ in range(40):
        worths.add([])
    assert worths.estimates()[2][3] == pytest.approx(1.5**2 / 1.25)


def test_pairs_weigh_by_their_weight_and_fade() -> None:
    """Weights 3 and 1 of d 1 and 0: mean 3/4, variance 3/16, 16/10 pairs. Half of that and a pair of d 1 of weight 1:
    sums 2 + 1, squares of weights 10/4 + 1, of d 3/2 + 1; spread² (1/4 + 1/4)/2 + 1 over (2/2 + 1)."""
    worths = RoleWorths(TriageOnline(keep=0.5))
    worths.add([Pair("D", 1.0, 0.5, 3.0), Pair("D", 0.0, 0.5, 1.0)])
    mean, error, count = worths.estimates()
    assert worths.scale == 0.5
    assert (mean[0], count[0]) == pytest.approx((0.75 / 0.5, 1.6))
    assert error[0] == pytest.approx(np.sqrt((3 / 16) / 0.6) / 0.5)
    assert (mean[1:].tolist(), count[1:].tolist()) == ([0.0] * 3, [0.0] * 3)
    worths.add([Pair("D", 1.0, 1.0, 1.0)])
    mean, _, count = worths.estimates()
    assert worths.scale == pytest.approx(np.sqrt((0.25 + 1.0) / 2.0))
    assert mean[0] == pytest.approx(2.5 / 3 / worths.scale)
    assert count[0] == pytest.approx(9 / (10 / 4 + 1))
    told = worths.metrics()
    assert set(told) == {"online_lam"} | {f"online_{w}_{r}" for w in ("c", "worth", "error", "pairs") for r in ROLES}
    assert told["online_error_D"] == pytest.approx(worths.estimates()[1][0])
    assert told["online_error_E"] is None


def test_what_never_differed_has_the_error_of_half_a_pair() -> None:
    """Four pairs of d 1 in groups of spread 1/2: 1/4 / 4 · 1/4 over 3, in units of the spread."""
    worths = RoleWorths(TriageOnline(keep=1.0))
    worths.add([Pair("E", 1.0, 0.5)] * 4)
    assert worths.estimates()[1][1] == pytest.approx(np.sqrt(0.25 / 4 * 0.25 / 3) / 0.5)
    one = RoleWorths(TriageOnline(keep=1.0))
    one.add([Pair("E", 1.0, 0.5)])
    assert one.estimates()[1][1] == np.inf


def test_the_prior_is_the_rules_own() -> None:
    own = TriageOnline(constants=(0.8, 0.4, 0.0, -0.8), lam=0.25, keep=1.0, spread=0.2)
    assert RoleWorths(own).rule().constants == pytest.approx((1.0, 0.5, 0.0, -1.0))
    assert RoleWorths(own).rule().lam == pytest.approx(0.2)  # λ c as it was, the largest constant 1
    worths = RoleWorths(own)
    worths.add([Pair("D", 1.0, 1.0), Pair("D", -0.4, 1.0)])
    mean, error, _ = worths.estimates()
    trust = 0.04 / (0.04 + error[0] ** 2)
    found = worths.rule()
    assert found.lam * found.constants[0] == pytest.approx(trust * mean[0] + (1 - trust) * 0.2)


def test_constants_keep_their_order_and_bounds() -> None:
    rng = np.random.default_rng(5)
    worths = RoleWorths(TriageOnline())
    for _ in range(50):
        worths.add([Pair(ROLES[int(rng.integers(4))], float(rng.integers(-1, 2)), 0.4) for _ in range(8)])
        rule = worths.rule()
        assert all(a >= b for a, b in itertools.pairwise(rule.constants))
        assert max(map(abs, rule.constants)) <= 1.0
        assert 0.05 <= rule.lam <= 0.4


def test_pairs_that_never_differ_are_not_trusted_without_end() -> None:
    worths = RoleWorths(TriageOnline(keep=1.0))
    worths.add([Pair("D", 0.0, 0.5)] * 4)
    assert worths.estimates()[1][0] > 0.1


def test_worths_go_through_a_checkpoint() -> None:
    worths, again = RoleWorths(TriageOnline()), RoleWorths(TriageOnline())
    worths.add([Pair("D", 1.0, 0.5), Pair("E", -1.0, 0.3), Pair("E", 0.0, 0.0)])
    again.go_to(worths.to_json())
    assert again.metrics() == worths.metrics()
    for bad in (None, {}, {**worths.to_json(), "total": [1.0]}):
        with pytest.raises(CheckpointError):
            again.go_to(bad)


# The rule --------------------------------------------------------------------------------------------------------------


def test_a_retry_is_compared_with_its_pair_and_moves_no_first_attempt() -> None:
    firsts = [record("EE", 1.0, trial="0"), record("EE", 0.0, trial="1")]
    rule = TriageOnline(whiten=False, lam=0.0)
    alone = rule(firsts)
    batch = [*firsts, retry("EE", 1.0, 1, trial="1")]
    found = rule(batch)
    assert [a.tolist() for a in found[:2]] == [a.tolist() for a in alone] == [[1.0, 1.0], [-1.0, -1.0]]
    assert found[2].tolist() == [0.0, 2.0]  # the copied turn is not trained; (1 - 0) / .5


def test_a_group_without_differences_takes_the_others_spread() -> None:
    batch = [record("E", 0.0, trial="0"), record("E", 0.0, trial="1"), retry("E", 1.0, 0, trial="1")]
    rule = TriageOnline(whiten=False, lam=0.0)
    assert rule(batch)[2].tolist() == [1.0]
    other = [record("E", 1.0, group="h", trial="0"), record("E", 0.0, group="h", trial="1")]
    assert rule([*batch, *other])[2].tolist() == [2.0]


def test_pairs_are_compared_on_the_scale_of_their_group() -> None:
    """Scores 3 and 1 deviate by 1: 2 less 1 is 1; .4 and 0 by .2: .4 less 0 is 2. Neither is divided under ``mean``."""
    batch = [record("E", 3.0, trial="0"), record("E", 1.0, trial="1"), retry("E", 2.0, 0, trial="1")]
    batch += [record("E", 0.4, group="h", trial="0"), record("E", 0.0, group="h", trial="1")]
    batch += [retry("E", 0.4, 0, group="h", trial="1")]
    divided = TriageOnline(whiten=False, lam=0.0)(batch)
    assert [float(a[0]) for a in divided] == pytest.approx([1.0, -1.0, 1.0, 1.0, -1.0, 2.0])
    plain = TriageOnline(whiten=False, lam=0.0, norm="mean")(batch)
    assert [float(a[0]) for a in plain] == pytest.approx([1.0, -1.0, 1.0, 0.2, -0.2, 0.4])


def test_without_pairs_it_is_triage() -> None:
    batch = [record("DEN", 1.0, trial="0"), record("RNE", 0.0, trial="1")]
    assert [a.tolist() for a in make("triage-online")(batch)] == [a.tolist() for a in make("triage")(batch)]


@pytest.mark.parametrize("bad", [{"share": 1.5}, {"keep": 0.0}, {"keep": 2.0}, {"spread": 0.0}, {"share": -0.1}])
def test_bad_options_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        TriageOnline(**bad)
