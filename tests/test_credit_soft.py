"""What labelled segments are worth with probabilities, magnitudes and caps: by hand, and as laws against farming."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from envs_for_tests import Corridor
from gymnasium.wrappers import TimeLimit
from hypothesis import given
from hypothesis import strategies as st
from laws_of_credit import law

from triage_gym import credit
from triage_gym.credit.batch import Segments
from triage_gym.credit.rules import Triage
from triage_gym.credit.trials import PivoARL
from triage_gym.credit.worth import CAPS, capped, segment_worths
from triage_gym.errors import InputError
from triage_gym.records import EpisodeRecord, RoleLabel, Segment
from triage_gym.wrappers import SegmentCreditWrapper

C = {"D": 1.0, "E": 0.5, "N": -0.1, "R": -0.5}


def attempt(roles: str, number: int = 0, score: float = 0.0, prefix: int = 0, **label: Any) -> EpisodeRecord:
    segments = tuple(Segment(k, f"o{k}", f"a{k}", f"o{k + 1}") for k in range(len(roles)))
    labels = tuple(
        RoleLabel(k, None, status="unsure") if r == "-" else RoleLabel(k, r, **label)  # type: ignore[arg-type]
        for k, r in enumerate(roles)
    )
    return EpisodeRecord("g", attempt=number, segments=segments, labels=labels, score=score, prefix_length=prefix)


def worths(roles: str, caps: Any = CAPS) -> list[float]:
    return capped(np.array([C.get(r, np.nan) for r in roles]), [None if r == "-" else r for r in roles], caps).tolist()  # type: ignore[misc]


def role_terms(rule: Any, *records: EpisodeRecord) -> list[list[float]]:
    return [t.role.tolist() for t in rule.terms(records)]


def test_soft_roles_weigh_all_four_by_their_probabilities() -> None:
    record = attempt("EE-", probabilities=(0.2, 0.6, 0.1, 0.1))
    [terms] = role_terms(Triage(lam=0.2, whiten=False, soft=True), record)
    # .2 · 1 + .6 · .5 - .1 · .1 - .1 · .5 = .44
    assert terms == pytest.approx([0.088, 0.088, 0.0])
    assert role_terms(Triage(lam=0.2, whiten=False), record) == [[0.1, 0.1, 0.0]]
    unsummed = attempt("E", probabilities=(0.4, 1.0, 0.2, 0.2))
    # 0.4 + .5 - .02 - .1 = .78, over 1.8
    assert role_terms(Triage(lam=1.0, whiten=False, soft=True), unsummed)[0] == pytest.approx([0.78 / 1.8])
    nothing = attempt("ER", probabilities=(0.0, 0.0, 0.0, 0.0))
    assert role_terms(Triage(lam=1.0, whiten=False, soft=True), nothing, attempt("ER")) == [[0.5, -0.5], [0.5, -0.5]]


@pytest.mark.parametrize("p", [(5e-324,) * 4, (5e-324, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1e-320), (1.0,) * 4])
def test_soft_roles_stay_within_the_constants_whatever_the_probabilities(p: tuple[float, ...]) -> None:
    constants = (1.6, 0.7, -0.3, -1.6)
    label = RoleLabel(0, "D", probabilities=p)  # type: ignore[arg-type]
    record = attempt("D").with_labels([label])
    found = segment_worths(Segments([record]), constants, soft=True)[0]
    assert found == pytest.approx(np.average(constants, weights=np.array(p) / sum(p)))


def test_magnitude_multiplies_soft_or_not() -> None:
    record = attempt("DR", magnitude=0.25, probabilities=(0.5, 0.5, 0.0, 0.0))
    assert role_terms(Triage(lam=1.0, whiten=False, magnitude=True), record) == [[0.25, -0.125]]
    assert role_terms(Triage(lam=1.0, whiten=False, magnitude=True, soft=True), record) == [[0.1875, 0.1875]]
    assert role_terms(Triage(lam=1.0, whiten=False), record) == [[1.0, -0.5]]


def test_caps_by_hand() -> None:
    assert worths("DDDD") == [1.0] * 4
    assert worths("DDDDD") == pytest.approx([0.8] * 5)
    assert worths("EEEEEE") == pytest.approx([1 / 3] * 6)
    assert worths("R" * 10) == pytest.approx([-0.2] * 10)
    assert worths("N" * 50) == [-0.1] * 50
    assert worths("RDRDD") == [-0.5, 0.5, -0.5, 0.5, 1.0]
    assert worths("DRD") == [1.0, -0.5, 0.5]
    assert worths("DR") == [1.0, -0.5]
    # Eight errors more than the cap holds, one of them made up for: nothing is left to pay that with.
    assert worths("R" * 9 + "D")[-1] == 0.0
    np.testing.assert_equal(worths("E-D"), [0.5, np.nan, 1.0])


def test_a_retry_counts_what_it_acted_itself() -> None:
    rule = Triage(lam=1.0, whiten=False, capped=True, caps=(1.0, 1.0, 1.0))
    assert role_terms(rule, attempt("RDDD", prefix=2)) == [[0.0, 0.0, 0.5, 0.5]]


def test_the_options_are_off_by_default_and_go_by_name() -> None:
    labelled = [attempt("EDRN", probabilities=(0.1, 0.2, 0.3, 0.4), magnitude=0.5), attempt("DDDDDD", 1, 1.0)]
    bare = [r.with_labels([RoleLabel(x.step, x.role) for x in r.labels]) for r in labelled]
    for rule in (Triage(), Triage(whiten=False), PivoARL(triage=True)):
        assert [a.tobytes() for a in rule(labelled)] == [a.tobytes() for a in rule(bare)]
        assert (rule.soft, rule.magnitude, rule.capped) == (False, False, False)
    assert credit.make("triage+soft+magnitude+capped") == Triage(soft=True, magnitude=True, capped=True)
    rule = credit.make({"name": "pivoarl+triage+capped", "caps": [1.0, 1.0, 1.0], "lam": 1.0})
    assert role_terms(rule, attempt("DD"), attempt("EE", 1)) == [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize(
    "bad",
    [
        {"soft": 1},
        {"magnitude": "yes"},
        {"capped": None},
        {"caps": (1.0, 1.0)},
        {"caps": (1.0, 0.0, 1.0)},
        {"caps": 3.0},
    ],
)
def test_bad_options_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        Triage(**bad)
    with pytest.raises(InputError):
        PivoARL(triage=True, **bad)


def test_options_of_roles_need_roles() -> None:
    with pytest.raises(InputError, match="triage"):
        PivoARL(soft=True)


letters = st.text("DENR-", max_size=12)
caps = st.tuples(*[st.sampled_from([0.3, 0.5, 1.0, 1.7, 2.0, 4.0, 100.0])] * 3)


@law
@given(letters, caps)
def test_no_attempt_collects_more_than_its_caps(roles: str, most: tuple[float, float, float]) -> None:
    found = worths(roles, most)
    for role, cap in zip("DER", most, strict=True):
        assert sum(abs(w) for w, r in zip(found, roles, strict=True) if r == role) <= cap + 1e-12
    for w, r in zip(found, roles, strict=True):
        assert np.isnan(w) if r == "-" else 0.0 <= w * np.sign(C[r]) <= abs(C[r])


@law
@given(letters, caps, st.data())
def test_an_error_made_to_be_undone_never_pays(
    roles: str, most: tuple[float, float, float], data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, len(roles)))
    second = data.draw(st.integers(first, len(roles)))
    farmed = f"{roles[:first]}R{roles[first:second]}D{roles[second:]}"
    assert np.nansum(worths(farmed, most)) <= np.nansum(worths(roles, most)) + 1e-9


sizes = st.sampled_from([0.1, 0.3, 0.5, 1.0, 3.0])


@law
@given(st.text("DRN", max_size=12), caps, sizes, sizes, st.data())
def test_errors_pay_at_no_constants(
    roles: str, most: tuple[float, float, float], done: float, error: float, data: st.DataObject
) -> None:
    def total(played: str) -> float:
        worth = {"D": done, "N": -0.1, "R": -error}
        return float(capped(np.array([worth[role] for role in played], dtype=float), list(played), most).sum())  # type: ignore[arg-type]

    first = data.draw(st.integers(0, len(roles)))
    second = data.draw(st.integers(first, len(roles)))
    before, between, after = roles[:first], roles[first:second], roles[second:]
    assert total(f"{before}R{between}D{after}") <= total(roles) + 1e-9
    assert total(f"{before}R{between}{after}") <= total(roles) + 1e-9


def test_errors_beyond_the_cap_do_not_pay_for_what_makes_up_for_them() -> None:
    # R D costs 0.9 and gives 0.3. Of two the cap leaves 1.0 of 1.8, and 1.2 was never made up for.
    found = capped(np.array([-0.9, 0.3, -0.9, 0.3]), ["R", "D", "R", "D"], (1.0, 1.0, 1.0))
    np.testing.assert_allclose(found, [-0.5, 0.0, -0.5, 0.0])


@pytest.mark.parametrize(
    ("roles", "before", "after"),
    [
        ("RRRDDD", [-0.2, -0.6, -0.9, 1.0, 1.0, 1.0], [-0.2, -0.6, -0.9, 0.2, 0.6, 0.9]),  # first come, first served
        ("RRD", [-0.2, -0.6, 1.0], [-0.175, -0.525, 0.1]),  # .6 of .7 was never made up for
        ("RD", [0.3, 1.0], [0.3, 1.0]),  # an R that costs nothing is no error
        ("ED", [-0.4, 1.0], [-0.4, 1.0]),  # nor is what is no R
        ("RD", [-0.5, -0.3], [-0.5, -0.3]),  # a D that brings nothing makes up for nothing
        ("RDD", [-0.5, 0.0, 1.0], [-0.5, 0.0, 0.5]),
        ("RED", [-0.5, 0.4, 1.0], [-0.5, 0.4, 0.5]),
    ],
)
def test_which_d_makes_up_for_which_error(roles: str, before: list[float], after: list[float]) -> None:
    found = capped(np.array(before), list(roles), (9.0, 9.0, 0.7 if roles == "RRD" else 9.0))  # type: ignore[arg-type]
    np.testing.assert_allclose(found, after)


@law
@given(letters, caps, st.integers(0, 12))
def test_unjudged_segments_move_no_worth(roles: str, most: tuple[float, float, float], at: int) -> None:
    with_it = worths(f"{roles[:at]}-{roles[at:]}", most)
    del with_it[min(at, len(roles))]
    np.testing.assert_equal(with_it, worths(roles, most))


def test_attempts_do_not_share_caps() -> None:
    rule, one, other = Triage(lam=1.0, whiten=False, capped=True), attempt("EEEEEE"), attempt("EERD", 1, 1.0)
    assert role_terms(rule, one, other) == [*role_terms(rule, one), *role_terms(rule, other)]
    assert role_terms(rule, one, one) == role_terms(rule, one) * 2


@pytest.mark.parametrize("option", ["soft", "magnitude", "capped", "guard"])
def test_rewards_of_single_roles_cannot_have_what_depends_on_more(option: str) -> None:
    env = TimeLimit(Corridor(), 5)
    with pytest.raises(InputError, match=option):
        SegmentCreditWrapper(env, credit=f"triage+{option}", as_reward=True)
    SegmentCreditWrapper(env, credit=f"triage+{option}")
