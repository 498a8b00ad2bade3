"""Dr. GRPO, soft TRIAGE, the value rule, sums, guards, similar anchors and batches of arrays: worked examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from triage_gym import credit
from triage_gym.credit.rules import GRPO, DrGRPO, Triage, TriageSoft
from triage_gym.credit.sums import Sum
from triage_gym.credit.trials import GiGPO
from triage_gym.credit.value import Value
from triage_gym.errors import InputError
from triage_gym.records import EpisodeRecord, RoleLabel, Segment


def record(roles: str, score: float, group: str = "g", values: Any = (), seen: Any = (), **more: Any) -> EpisodeRecord:
    infos = [{"value": v} for v in values] or [{} for _ in roles]
    texts = list(seen) or [f"{group}{score}{k}" for k in range(len(roles))]
    segments = tuple(Segment(k, texts[k], f"a{k}", "", info=infos[k]) for k in range(len(roles)))
    labels = tuple(RoleLabel(k, None if r == "-" else r) for k, r in enumerate(roles))  # type: ignore[arg-type]
    return EpisodeRecord(group, segments=segments, labels=labels, score=score, success=score > 0, **more)


def lists(arrays: Any) -> list[list[float]]:
    return [[round(float(x), 9) for x in a] for a in arrays]


def test_dr_grpo_does_not_divide() -> None:
    batch = [record("DE", 1.0), record("N", 0.0), record("N", 0.0), record("R", 0.0)]
    assert lists(DrGRPO()(batch)) == [[0.75, 0.75], [-0.25], [-0.25], [-0.25]]
    assert lists(DrGRPO()(batch)) == lists(GRPO(norm="mean")(batch))
    assert lists(DrGRPO()([record("DE", 1.0)])) == [[0.0, 0.0]]


def test_soft_triage_is_triage_with_soft() -> None:
    soft = RoleLabel(0, "D", probabilities=(0.5, 0.5, 0.0, 0.0))
    batch = [record("D", 1.0).with_labels([soft]), record("R", 0.0)]
    assert lists(TriageSoft(whiten=False)(batch)) == [[1.15], [-1.1]]  # .2 * (.5 * 1 + .5 * .5)
    assert credit.make("triage-soft") == TriageSoft()
    assert lists(TriageSoft()(batch)) == lists(Triage(soft=True)(batch))


# The value rule ---------------------------------------------------------------------------------------------------------


def test_gae_by_hand() -> None:
    """γ = 1, κ = .5, outcome 1, V = .2, .6: δ = .4 and .4; A = .4 + .5 · .4 and .4."""
    rule = Value(whiten=False, kappa=0.5)
    assert lists(rule([record("EE", 1.0, values=(0.2, 0.6))])) == [[0.6, 0.4]]
    discounted = Value(whiten=False, gamma=0.5, kappa=1.0)
    assert lists(discounted([record("EE", 1.0, values=(0.2, 0.6))])) == [[0.3, 0.4]]  # .5·.6 - .2 + .5·.4


def test_kappa_one_is_the_outcome_less_the_value_and_zero_is_one_step() -> None:
    batch = [record("EEE", 1.0, values=(0.5, 0.2, 0.9)), record("E", 0.0, values=(0.4,))]
    assert lists(Value(whiten=False, kappa=1.0)(batch)) == [[0.5, 0.8, 0.1], [-0.4]]
    assert lists(Value(whiten=False, kappa=0.0)(batch)) == [[-0.3, 0.7, 0.1], [-0.4]]


def test_copied_turns_and_excluded_rollouts_need_no_value() -> None:
    retried = record("EEE", 1.0, values=(0.5, 0.2, 0.9), prefix_length=1, pivot=1)
    bare = Segment(0, "o", "a", "")
    retried = EpisodeRecord(
        "g", segments=(bare, *retried.segments[1:]), labels=retried.labels, score=1.0, prefix_length=1, pivot=1
    )
    broken = record("E", 3.0, error="x")
    assert lists(Value(whiten=False, kappa=1.0)([retried, broken])) == [[0.0, 0.8, 0.1], [0.0]]


def test_values_must_be_there() -> None:
    with pytest.raises(InputError, match=r'info\["value"\]'):
        Value()([record("E", 1.0)])
    with pytest.raises(InputError, match="kappa"):
        Value(kappa=1.5)
    assert credit.needs_values(Value())
    assert credit.needs_values(credit.make("triage+value"))
    assert not credit.needs_values(Triage())


# Sums -------------------------------------------------------------------------------------------------------------------

PAIR = [record("DE", 1.0, seen=("s", "t")), record("RN", 0.0, seen=("s", "u"))]


def test_a_sum_has_one_outcome_term() -> None:
    rule = credit.make({"name": "triage+gigpo", "whiten": False})
    anchors = np.subtract(GiGPO()(PAIR), GRPO()(PAIR))
    roles = np.subtract(Triage(whiten=False)(PAIR), GRPO()(PAIR))
    assert np.allclose(rule(PAIR), np.asarray(GRPO()(PAIR)) + anchors + roles)
    assert anchors.any()
    assert roles.any()


def test_a_sum_is_whitened_once_over_all_of_it() -> None:
    whole = np.concatenate(credit.make("triage+gigpo")(PAIR))
    assert whole.mean() == pytest.approx(0.0)
    assert whole.std() == pytest.approx(1.0)
    plain = np.concatenate(credit.make({"name": "triage+gigpo", "whiten": False})(PAIR))
    assert np.allclose(whole, (plain - plain.mean()) / plain.std())


def test_with_a_value_rule_its_surprises_are_added() -> None:
    batch = [record("DE", 1.0, values=(0.2, 0.6)), record("RN", 0.0, values=(0.4, 0.1))]
    rule = credit.make({"name": "triage+value", "whiten": False})
    expected = np.asarray(Triage(whiten=False)(batch)) + np.asarray(Value(whiten=False)(batch))
    assert np.allclose(rule(batch), expected)


def test_suffixes_are_options_first_and_rules_then() -> None:
    assert credit.make("gigpo+triage") == GiGPO(triage=True)
    assert isinstance(credit.make("triage+gigpo"), Sum)
    guarded = credit.make({"name": "triage+guard+gigpo", "lam": 0.4})
    assert isinstance(guarded, Sum)
    assert guarded.rules[0] == Triage(guard=True, lam=0.4)
    assert (guarded.lam, guarded.constants, guarded.whiten) == (0.4, Triage().constants, True)
    assert credit.make("triage+gigpo", lam=0.3).rules[0].lam == 0.3  # type: ignore[attr-defined]
    assert credit.needs_labels(guarded)
    weighed = credit.make({"name": "triage+gigpo", "lam": 0.3, "omega": 0.5})
    assert (weighed.rules[0].lam, weighed.rules[1].omega, weighed.rules[1].lam) == (0.3, 0.5, GiGPO().lam)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="it has no option 'nothing'"):
        credit.make({"name": "triage+gigpo", "nothing": 1})
    known = {
        name: credit.options_of(name) or frozenset()
        for name in ("triage+gigpo", "triage", "gigpo", "sum", "grpo+whiten")
    }
    assert known["triage+gigpo"] == known["triage"] | known["gigpo"] | known["sum"]
    assert "constants" not in known["grpo+whiten"]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("triage+nothing", "one of its options"),
        ("triage+scalar", "at most one rule with roles"),
        ("triage+grpo", "besides their outcome term"),
        ("grpo+pivoarl", "besides their outcome term"),
        ({"name": "sum", "rules": ["grpo"]}, "at least two"),
    ],
)
def test_what_cannot_be_added_up_is_refused(spec: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        credit.make(spec)


# Guards -----------------------------------------------------------------------------------------------------------------


def test_role_credit_after_whitening_keeps_its_size() -> None:
    failed = [record("EE", 0.0), record("RN", 0.0)]
    assert lists(Triage(after_whitening=True)(failed)) == [[0.1, 0.1], [-0.1, -0.02]]
    tenth = lists(Triage(after_whitening=True, lam=0.02)(failed))
    assert tenth == [[0.01, 0.01], [-0.01, -0.002]]
    assert lists(Triage(lam=0.02)(failed)) == lists(Triage(lam=0.2)(failed)), "whitened afterwards λ cancels"
    with pytest.raises(InputError, match="after_whitening"):
        Triage(after_whitening=True, whiten=False)


def test_the_sign_guard_keeps_failures_below_zero() -> None:
    batch = [record("DE", 1.0), record("DR", 0.0)]
    rule = Triage(whiten=False, lam=2.0, sign_guard=True)
    assert lists(rule(batch)) == [[3.0, 2.0], [0.0, -2.0]]
    assert lists(Triage(whiten=False, lam=2.0)(batch))[1] == [1.0, -2.0]
    after = rule.terms(batch)[1]
    assert np.allclose(after.advantage, after.outcome + after.role)
    middle = [record("D", x) for x in (0.1, 0.2, 0.3, 0.2)]  # the mean rounds, and 0.2 is no failure
    assert lists(rule(middle))[1] == [2.0]


# Similar anchors --------------------------------------------------------------------------------------------------------


def test_observations_that_are_alike_are_compared() -> None:
    batch = [
        record("E", 1.0, seen=("the room is dark and cold 1",)),
        record("E", 0.0, seen=("the room is dark and cold 2",)),
    ]
    assert lists(GiGPO()(batch)) == [[1.0], [-1.0]]
    assert lists(GiGPO(anchor="similar")(batch)) == [[2.0], [-2.0]]
    assert lists(GiGPO(anchor="similar", similarity=0.99)(batch)) == [[1.0], [-1.0]]
    assert lists(GiGPO(anchor="similar")(batch[::-1])) == [[-2.0], [2.0]]
    with pytest.raises(InputError, match="similarity"):
        GiGPO(similarity=0.0)
