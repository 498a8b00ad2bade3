"""Credit rules: the worked example, every decision where the source is silent, options, names and specs."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from triage_gym import credit, registry
from triage_gym.credit.controls import RolesOnly, ShuffledTriage, shuffled_roles
from triage_gym.credit.outcome import deviations, outcome_advantages, outcome_varies
from triage_gym.credit.rules import GRPO, RLOO, Scalar, Triage
from triage_gym.credit.whitening import whiten
from triage_gym.errors import InputError
from triage_gym.protocols import Advantages
from triage_gym.records import EpisodeRecord, RoleLabel, Segment


def rollout(score: float, roles: str, group: str = "g", **fields: Any) -> EpisodeRecord:
    """A record with one segment a letter; ``-`` is an unjudged segment."""
    return EpisodeRecord(
        group,
        score=score,
        segments=tuple(Segment(k, "", f"act {k}", "") for k in range(len(roles))),
        labels=tuple(RoleLabel(k, None if r == "-" else r) for k, r in enumerate(roles)),  # type: ignore[arg-type]
        **fields,
    )


EXAMPLE = [rollout(1, "EDRN"), rollout(1, "N"), rollout(0, "E"), rollout(0, "N")]


def test_the_worked_example_comes_out_to_1e_12() -> None:
    assert outcome_advantages(EXAMPLE).tolist() == pytest.approx([1, 1, -1, -1], abs=1e-12)
    rule = Triage(lam=0.2, whiten=False)
    terms = rule.terms(EXAMPLE)
    assert terms[0].role.tolist() == pytest.approx([0.1, 0.2, -0.1, -0.02], abs=1e-12)
    assert rule(EXAMPLE)[0].tolist() == pytest.approx([1.1, 1.2, 0.9, 0.98], abs=1e-12)
    assert rule(EXAMPLE)[2].tolist() == pytest.approx([-0.9], abs=1e-12)


def test_whitening_keeps_the_order_and_standardises_over_segments() -> None:
    plain = np.concatenate(Triage(whiten=False)(EXAMPLE))
    white = np.concatenate(Triage()(EXAMPLE))
    assert np.argsort(plain, kind="stable").tolist() == np.argsort(white, kind="stable").tolist()
    assert white.mean() == pytest.approx(0, abs=1e-12)
    assert white.std() == pytest.approx(1, abs=1e-12)
    assert white.tolist() == pytest.approx(((plain - plain.mean()) / plain.std()).tolist(), abs=1e-12)


def test_norms() -> None:
    batch = [rollout(3, "D"), rollout(1, "D"), rollout(2, "D"), rollout(2, "D")]
    assert np.concatenate(GRPO(norm="mean")(batch)).tolist() == [1, -1, 0, 0]
    root = math.sqrt(2)
    assert np.concatenate(GRPO()(batch)).tolist() == pytest.approx([root, -root, 0, 0], abs=1e-12)
    assert np.concatenate(RLOO()(batch)).tolist() == pytest.approx([4 / 3, -4 / 3, 0, 0], abs=1e-12)


def test_leave_one_out_of_two_is_the_difference() -> None:
    assert np.concatenate(RLOO()([rollout(3, "D"), rollout(1, "D")])).tolist() == [2, -2]


def test_a_zero_advantage_has_no_sign() -> None:
    zero = outcome_advantages([rollout(-0.0, "D"), rollout(1, "D"), rollout(-1, "D")])[0]
    assert math.copysign(1, zero) == 1


def test_outcomes_vary_among_sound_rollouts_only() -> None:
    broken = rollout(1, "D", error="crashed")
    assert outcome_varies([broken, rollout(0, "D"), rollout(0, "D")]).tolist() == [False, False, False]
    assert outcome_varies([broken, rollout(0, "D"), rollout(2, "D")]).tolist() == [False, True, True]
    assert outcome_varies([]).tolist() == outcome_varies([broken])[:0].tolist() == []


def test_scalar_is_good_or_bad() -> None:
    [good_and_bad] = Scalar(lam=0.2, whiten=False)([rollout(1, "DENR")])
    assert good_and_bad.tolist() == pytest.approx([0.1, 0.1, -0.1, -0.1], abs=1e-12)


def test_equal_outcomes_teach_by_roles_alone_and_the_guard_stops_it() -> None:
    failed = [rollout(0, "ER"), rollout(0, "NN")]
    assert not outcome_varies(failed).any()
    assert Triage(whiten=False)(failed)[0].tolist() == pytest.approx([0.1, -0.1])
    assert not np.concatenate(Triage(whiten=False, guard=True)(failed)).any()
    mixed = [*failed, rollout(1, "D", "h"), rollout(0, "R", "h")]
    guarded = Triage(whiten=False, guard=True)(mixed)
    assert not np.concatenate(guarded[:2]).any()
    assert np.concatenate(guarded[2:]).tolist() == pytest.approx([1.2, -1.1])


def test_deviations_are_of_each_group_and_nothing_where_all_are_equal() -> None:
    """1, 0, 0, 1 deviate by 1/2; 3, 7 by 2; three times .1, whose mean is not .1, by nothing; a group without members too."""
    scores = np.array([1.0, 3.0, 0.0, 9.0, 0.0, 7.0, 1.0, 0.1, 0.1, 0.1])
    group = np.array([0, 1, 0, -1, 0, 1, 0, 2, 2, 2])
    assert deviations(scores, group, 4).tolist() == [0.5, 2.0, 0.0, 0.0]
    assert deviations(np.zeros(0), np.zeros(0, dtype=np.int64), 0).tolist() == []


def test_equal_outcomes_that_round_are_exactly_zero() -> None:
    assert not outcome_advantages([rollout(0.1, "D")] * 3).any()


def test_a_group_of_one_has_no_outcome_term() -> None:
    assert Triage(whiten=False)([rollout(7, "D")])[0].tolist() == [0.2]


def test_an_excluded_rollout_is_out_of_baseline_and_whitening_even_with_a_broken_score() -> None:
    broken = replace(rollout(0, "RR"), score=math.nan, error="crashed")
    with_it, without = Triage()([*EXAMPLE, broken]), Triage()(EXAMPLE)
    assert [a.tolist() for a in with_it] == [*(a.tolist() for a in without), [0.0, 0.0]]


def test_a_score_that_is_not_finite_is_refused() -> None:
    with pytest.raises(InputError, match="finite score"):
        GRPO()([replace(rollout(0, "D"), score=math.inf)])
    for rule in (GRPO(), RLOO(), Triage()):
        with pytest.raises(InputError, match="within"):  # its square is no float
            rule([replace(rollout(0, "D"), score=1e160), rollout(0, "D")])
        large = rule([replace(rollout(0, "D"), score=1e100), rollout(-1, "D")])
        assert all(np.isfinite(a).all() for a in large)


def test_a_copied_prefix_is_neither_trained_nor_counted() -> None:
    retry = rollout(1, "RRRD", prefix_length=3, attempt=1, pivot=3)
    fresh = rollout(1, "D")
    other = rollout(0, "E")
    for rule in (Triage(), Triage(whiten=False), GRPO(whiten=True), RolesOnly(), ShuffledTriage(), Scalar(), RLOO()):
        a, b = rule([retry, other]), rule([fresh, other])
        assert a[0].tolist() == [0.0, 0.0, 0.0, *b[0].tolist()]
        assert a[1].tolist() == b[1].tolist()


def test_an_unjudged_segment_gets_the_outcome_term_only() -> None:
    batch = [rollout(1, "D-R"), rollout(0, "NE")]
    terms = Triage().terms(batch)[0]
    assert terms.advantage[1] == terms.outcome[1] == pytest.approx(1)
    assert terms.role[1] == 0
    judged = [rollout(1, "DR"), rollout(0, "NE")]
    assert np.delete(terms.advantage, 1).tolist() == Triage()(judged)[0].tolist()
    unlabelled = [replace(r, labels=()) for r in batch]
    assert [a.tolist() for a in Triage()(unlabelled)] == [a.tolist() for a in GRPO()(batch)]


def test_roles_only_has_no_outcome() -> None:
    terms = RolesOnly(whiten=False).terms([rollout(1, "D-"), rollout(0, "R")])
    assert [t.outcome.tolist() for t in terms] == [[0, 0], [0]]
    assert [t.advantage.tolist() for t in terms] == [[0.2, 0], [-0.1]]


def test_shuffled_roles_keep_the_mix_and_repeat() -> None:
    record = rollout(1, "DDEENNRR-E", prefix_length=1)
    mixed = shuffled_roles(record, 0)
    assert mixed != list(record.roles)
    assert sorted(map(str, mixed)) == sorted(map(str, record.roles))
    assert mixed[0] == "D"
    assert mixed[8] is None
    assert shuffled_roles(record, 0) == mixed
    assert shuffled_roles(record, 1) != mixed
    assert "".join(r or "-" for r in mixed) == "DRDENNEE-R"  # the same in every process


def test_shuffled_triage_differs_from_triage_in_assignment_only() -> None:
    batch = [rollout(1, "DENRDENR"), rollout(0, "RRNNEEDD")]
    for mixed, straight in zip(ShuffledTriage(whiten=False)(batch), Triage(whiten=False)(batch), strict=True):
        assert mixed.tolist() != straight.tolist()
        assert sorted(mixed.tolist()) == pytest.approx(sorted(straight.tolist()))


def test_explain_gives_the_terms_and_refuses_rules_without() -> None:
    [terms, _] = credit.explain(Triage(whiten=False), [rollout(1, "D"), rollout(0, "R")])
    assert (terms.outcome + terms.role).tolist() == terms.advantage.tolist()

    class Bare:
        def __call__(self, records: Any) -> Advantages:
            return [np.zeros(len(r)) for r in records]

    with pytest.raises(InputError, match="terms"):
        credit.explain(Bare(), [])


def test_results_are_the_callers_own() -> None:
    first = Triage()(EXAMPLE)
    first[0][:] = 99
    assert Triage()(EXAMPLE)[0].max() < 99
    assert Triage()(EXAMPLE)[1].base is None


def test_whiten_leaves_out_what_does_not_count() -> None:
    values = np.array([1.0, 3.0, 100.0])
    assert whiten(values, np.array([True, True, False]), 1e-8).tolist() == [-1.0, 1.0, 100.0]
    assert whiten(values, np.zeros(3, dtype=bool), 1e-8).tolist() == values.tolist()
    assert whiten(np.full(3, 0.1), np.ones(3, dtype=bool), 1e-8).tolist() == [0, 0, 0]
    assert whiten(np.array([1e6, 1e6 + 1e-7]), np.ones(2, dtype=bool), 1e-8).tolist() == [0, 0]
    assert whiten(np.array([1.0, 1.0 + 1e-9]), np.ones(2, dtype=bool), 1e-12).tolist() == pytest.approx([-1, 1])
    tiny = whiten(np.array([0.0, 1e-11]), np.ones(2, dtype=bool), 1e-8)
    assert 0 < np.abs(tiny).max() < 1e-3


@pytest.mark.parametrize(
    "options",
    [
        {"lam": -0.1},
        {"lam": math.nan},
        {"lam": True},
        {"lam": "0.2"},
        {"eps": 0.0},
        {"whiten": 1},
        {"guard": "yes"},
        {"norm": "std"},
        {"dtype": "float16"},
        {"constants": (1.0, 0.5, -0.1)},
        {"constants": (1.0, 0.5, -0.1, math.inf)},
        {"constants": "DENR"},
    ],
    ids=repr,
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    [option] = options
    having = [rule for rule in (GRPO, RLOO, Scalar, Triage, ShuffledTriage, RolesOnly) if hasattr(rule, option)]
    assert Triage in having
    for rule in having:
        with pytest.raises(InputError, match=option):
            rule(**options)


def test_roles_alone_have_no_outcome_to_normalise() -> None:
    for make in (registry.make, lambda kind, spec: credit.make(spec)):
        with pytest.raises(InputError, match="norm"):
            make("credit", {"name": "roles-only", "norm": "mean"})
    with pytest.raises(InputError, match="finite score"):
        RolesOnly()([replace(rollout(0, "D"), score=math.nan)])


def test_bad_scalar_and_norm() -> None:
    with pytest.raises(InputError, match="good"):
        Scalar(good=math.inf)
    with pytest.raises(InputError, match="bad"):
        Scalar(bad=math.nan)
    with pytest.raises(InputError, match="norm"):
        outcome_advantages([], "nonsense")  # type: ignore[arg-type]


def test_rules_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Triage().lam = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("name", registry.names("credit"))
def test_every_name_makes_a_rule(name: str) -> None:
    needed: dict[str, dict[str, Any]] = {
        "triage-audited": {"constants": (1.0, 0.1, 0.0, -0.3)},
        "sum": {"rules": ("triage", "gigpo")},
    }
    given = needed.get(name, {})
    rule = credit.make({"name": name, **given}, lam=0.3)
    valued = [replace(r, segments=tuple(replace(s, info={"value": 0.5}) for s in r.segments)) for r in EXAMPLE]
    assert [a.shape for a in rule(valued)] == [(4,), (1,), (1,), (1,)]
    assert getattr(rule, "lam", 0.3) == 0.3
    assert type(registry.make("credit", {"name": name, **given})) is type(rule)


def test_specs() -> None:
    assert credit.parse("grpo+whiten") == {"name": "grpo", "whiten": True}
    assert credit.parse({"name": "triage+guard", "lam": 0.4}) == {"name": "triage", "lam": 0.4, "guard": True}
    assert credit.make("grpo+whiten") == GRPO(whiten=True) == registry.make("credit", "grpo+whiten")
    assert credit.make("triage+whiten+guard") == Triage(whiten=True, guard=True)
    assert credit.make({"name": "triage", "lam": 0.4, "whiten": False}, lam=0.2) == Triage(lam=0.4, whiten=False)
    assert credit.make("triage_gym.credit.rules:Triage+guard") == Triage(guard=True)
    from_json = json.loads(json.dumps({"name": "triage", "constants": [1, 0.1, 0, -0.3], "whiten": False}))
    assert credit.make(from_json)([rollout(1, "DENR")])[0].tolist() == pytest.approx([0.2, 0.02, 0, -0.06])


@pytest.mark.parametrize("spec", ["grpo+guard", "triage+nonsense", "tiage", "triage+", "+whiten", {"lam": 1}, 3])
def test_bad_specs_are_refused(spec: Any) -> None:
    with pytest.raises(InputError):
        credit.make(spec)


def test_a_callable_with_any_options_gets_the_defaults() -> None:
    registry.register("credit", "test-any", _any)
    assert credit.make("test-any", lam=0.7)([rollout(1, "DD")])[0].tolist() == [0.7, 0.7]


def _any(**options: Any) -> Any:
    return lambda records: [np.full(len(r), options["lam"]) for r in records]
