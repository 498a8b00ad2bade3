"""What options of rules may be, by the name that an error tells; what rules say of themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_credit_sums import lists, record

from triage_gym import credit
from triage_gym.credit.batch import Segments
from triage_gym.credit.controls import RolesOnly, ShuffledTriage, shuffled
from triage_gym.credit.returns import cross_attempt_returns
from triage_gym.credit.rules import CONSTANTS, GRPO, RLOO, DrGRPO, Scalar, Triage, worth_of
from triage_gym.credit.tokens import broadcast_batch
from triage_gym.credit.trials import R3L, GiGPO, MetaRL, PivoARL
from triage_gym.credit.value import Value
from triage_gym.credit.whitening import ROUNDING, whiten
from triage_gym.credit.worth import segment_worths
from triage_gym.errors import InputError
from triage_gym.records import POLICY, Reflection, RoleLabel, Segment

NUMBERS = [
    ("grpo", "eps", (1e-9, 2), (0.0, -1.0)),
    ("gigpo", "lam", (0, 2), (-0.01,)),
    ("gigpo", "gamma_step", (0, 1), (-0.01, 1.01)),
    ("gigpo", "omega", (0, 7), (-0.01,)),
    ("gigpo", "similarity", (0.01, 1), (0.0, -0.1, 1.01)),
    ("pivoarl", "gamma_traj", (0, 1), (-0.01, 1.01)),
    ("r3l", "alpha", (0, 0.5, 9), (-0.01,)),
    ("scalar", "good", (-1, 3), ("1", None)),
    ("scalar", "bad", (-3, 1), (float("inf"),)),
    ("triage", "lam", (0, 3), (-0.01,)),
    ("triage-online", "share", (0, 1), (-0.01, 1.01)),
    ("triage-online", "keep", (0.01, 1), (0.0, -0.1, 1.01)),
    ("triage-online", "spread", (0.001, 9), (0.0, -0.1)),
    ("value", "gamma", (0, 1), (-0.01, 1.01)),
    ("value", "kappa", (0, 1), (-0.01, 1.01)),
]
CHOICES = [
    ("gigpo", "anchor"),
    ("gigpo", "norm"),
    ("gigpo", "returns"),
    ("grpo", "norm"),
    ("metarl", "reflection_baseline"),
    ("metarl", "reflection_return"),
    ("metarl", "variant"),
    ("pivoarl", "base"),
    ("r3l", "variant"),
]


@pytest.mark.parametrize(("name", "option", "good", "bad"), NUMBERS, ids=lambda x: x if isinstance(x, str) else "")
def test_bounds_of_numbers_are_those_that_are_told(name: str, option: str, good: Any, bad: Any) -> None:
    for value in good:
        assert getattr(credit.make({"name": name, option: value}), option) == value
    for value in bad:
        with pytest.raises(InputError, match=f"`{option}` to be a finite number"):
            credit.make({"name": name, option: value})


@pytest.mark.parametrize(("name", "option"), CHOICES)
def test_choices_are_told(name: str, option: str) -> None:
    with pytest.raises(InputError, match=f"`{option}` to be one of .*got 'other'"):
        credit.make({"name": name, option: "other"})


@pytest.mark.parametrize(
    ("name", "option"),
    [
        *(
            ("triage", option)
            for option in ("whiten", "guard", "soft", "magnitude", "capped", "after_whitening", "sign_guard")
        ),
        *(("gigpo", option) for option in ("whiten", "triage", "soft", "magnitude", "capped")),
    ],
)
def test_switches_are_on_or_off(name: str, option: str) -> None:
    with pytest.raises(InputError, match=f"`{option}` to be True or False, got 1"):
        credit.make({"name": name, option: 1})


@pytest.mark.parametrize("constants", [3, {"D": 1}, (1.0, 0.5, 0.0), (1.0, 0.5, 0.0, "R"), "DENR"])
def test_constants_are_four_numbers(constants: Any) -> None:
    for name in ("triage", "gigpo", "roles-only"):
        with pytest.raises(InputError, match="constants"):
            credit.make({"name": name, "constants": constants})


def test_a_rule_without_constants_is_checked_as_others_are() -> None:
    with pytest.raises(InputError, match="lam"):
        credit.make({"name": "triage-audited", "lam": -1.0})
    with pytest.raises(InputError, match="constants"):
        credit.make({"name": "triage-audited", "constants": None})


# What rules say of themselves -----------------------------------------------------------------------------------------


class Own:
    """A rule of a user's own that says nothing of itself."""

    def __call__(self, records: Any) -> Any:
        return [np.zeros(len(r)) for r in records]


class Reader(Own):
    needs_labels = True
    needs_values = True
    constants = (2.0, 1.0, 0.0, -1.0)


class Blind(Own):
    needs_labels = False


def test_who_reads_labels_and_values() -> None:
    reading = {"triage": True, "scalar": True, "roles-only": True, "gigpo+triage": True, "grpo": False, "gigpo": False, "value": False}  # fmt: skip
    for name, expected in reading.items():
        rule = credit.make(name)
        assert credit.needs_labels(rule) is credit.may_read_labels(rule) is expected, name
        assert credit.needs_values(rule) is (name == "value")
    assert (credit.needs_labels(Reader()), credit.may_read_labels(Reader()), credit.needs_values(Reader())) == (True, True, True)  # fmt: skip
    assert (credit.needs_labels(Own()), credit.may_read_labels(Own()), credit.needs_values(Own())) == (False, True, False)  # fmt: skip
    assert (credit.needs_labels(Blind()), credit.may_read_labels(Blind())) == (False, False)


def test_what_roles_are_worth_to_a_rule() -> None:
    assert credit.worths(Triage(constants=(1, 0.4, 0, -1))) == {"D": 1.0, "E": 0.4, "N": 0.0, "R": -1.0}
    assert credit.worths(Scalar(good=2.0, bad=-3.0)) == {"D": 2.0, "E": 2.0, "N": -3.0, "R": -3.0}
    assert credit.worths(Reader()) == {"D": 2.0, "E": 1.0, "N": 0.0, "R": -1.0}
    for plain in (GRPO(), Own(), credit.make("triage-audited")):
        assert credit.worths(plain) == {"D": 1.0, "E": 0.5, "N": -0.1, "R": -0.5}  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="zip"):
        worth_of((1.0, 0.5))  # type: ignore[arg-type]


def test_specs_that_are_objects_paths_or_sums() -> None:
    rule = f"{__name__}:Own"
    assert type(credit.make(rule)).__name__ == "Own"
    of_objects = credit.make({"name": "sum", "rules": [Triage(lam=0.3), "gigpo"]}, lam=0.1)
    assert of_objects.rules[0] == Triage(lam=0.3)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="at least two"):
        credit.make("sum")
    with pytest.raises(InputError, match="built-in rules"):
        credit.make({"name": "sum", "rules": [Own(), "gigpo"]})
    with pytest.raises(InputError, match="built-in rules"):
        credit.make({"name": "sum", "rules": ["triage+gigpo", "value"]})
    with pytest.raises(InputError, match=r"\+odd behind 'triage'"):
        credit.make("triage+odd")


# Rules by hand --------------------------------------------------------------------------------------------------------


def test_rules_that_do_not_divide_take_any_eps() -> None:
    batch = [record("DE", 0.25), record("N", 0.0)]
    assert lists(DrGRPO(eps=9.0)(batch)) == [[0.125, 0.125], [-0.125]]
    assert lists(RLOO(eps=9.0)(batch)) == [[0.25, 0.25], [-0.25]]
    assert lists(GRPO(eps=9.0)(batch)) == [[round(0.125 / 9, 9)] * 2, [round(-0.125 / 9, 9)]]


def test_r3l_divides_when_told_to() -> None:
    """Scores 0, 1, 2, 3, 4: less their mean; a rollout above the mean is amplified, one at it is not, the best gets α."""
    batch = [record("D", float(x)) for x in range(5)]
    assert lists(R3L()(batch)) == [[-2.0], [-1.0], [0.0], [3.0], [3.0]]
    assert lists(R3L(norm="mean_std", alpha=2.0)(batch))[3] == [round(2 / np.sqrt(2), 9)]
    assert lists(R3L(norm="mean_std", alpha=2.0)(batch))[0] == [round(-2 / np.sqrt(2), 9)]


def test_r3l_pays_only_reflections_that_led_to_more() -> None:
    own = Reflection("again", 0, POLICY)
    first = record("D", 1.0, trial="t")
    for score, paid in ((1.0, 0.0), (2.0, 1.0)):
        after = record("D", score, trial="t", attempt=1, parent=0, pivot=0, reflection=own)
        found = R3L(dtype="float32").reflections([first, after])
        assert found.tolist() == [0.0, paid]
        assert found.dtype == np.float32


def test_reflections_are_compared_over_the_batch_or_within_their_group() -> None:
    """Rewards 1, 0 in one group and 1, 1 in another: the batch's mean is 3/4, the first group's 1/2."""
    own = Reflection("again", 0, POLICY)

    def trial(score: float, group: str, name: str) -> list[Any]:
        rest: dict[str, Any] = {"trial": name, "attempt": 1, "parent": 0, "pivot": 0, "reflection": own}
        return [record("D", 0.0, group, trial=name), record("D", score, group, **rest)]

    batch = [*trial(1.0, "g", "a"), *trial(0.0, "g", "b"), *trial(1.0, "h", "c"), *trial(1.0, "h", "d")]
    alike: dict[str, Any] = {"reflection_return": "attempt", "norm": "mean"}
    assert PivoARL(**alike).reflections(batch).tolist() == [0, 0.25, 0, -0.75, 0, 0.25, 0, 0.25]
    assert PivoARL(**alike, reflection_baseline="group").reflections(batch).tolist() == [0, 0.5, 0, -0.5, 0, 0, 0, 0]
    assert PivoARL(dtype="float32").reflections(batch).dtype == np.float32


def test_defaults_of_returns_are_the_papers() -> None:
    """1 at the end of three turns, and of a retry from turn 1 that comes to 1: .95 a turn, .6 an attempt."""
    lost, won = (
        record("DEN", 0.0, trial="t"),
        record("DEN", 1.0, trial="t", attempt=1, parent=0, pivot=1, prefix_length=1),
    )
    told = cross_attempt_returns([lost, won])
    assert lists(told)[1][2] == 1.0
    assert lists(told) == lists(cross_attempt_returns([lost, won], "pivoarl", 0.95, 0.6, "paper"))
    assert lists(told)[0][0] == pytest.approx(0.6 * 0.95**2, abs=0.06)
    assert lists(told)[0][1:] == [0.0, 0.0]


def test_value_of_the_turn_after_and_nothing_of_the_next_rollout() -> None:
    """An empty rollout between two others ends nothing, and the last turn of all is followed by nothing."""
    batch = [record("D", 1.0, values=(0.25,)), record("", 0.0), record("EN", 0.0, values=(0.5, 0.75))]
    found = Value(whiten=False, gamma=1.0, kappa=0.0)(batch)
    assert lists(found) == [[0.75], [], [0.25, -0.75]]
    copied = record("EN", 1.0, values=(0.5, 0.75), prefix_length=1)
    assert lists(Value(whiten=False, gamma=1.0, kappa=1.0)([copied])) == [[0.0, 0.25]]


def test_turn_rules_weigh_roles_by_probabilities_and_magnitude_only_when_told() -> None:
    """D at .5 with E at .5 and magnitude .5: worth 1; .75 soft; .5 with magnitude; .375 with both."""
    label = RoleLabel(0, "D", probabilities=(0.5, 0.5, 0.0, 0.0), magnitude=0.5)
    batch = [record("D", 1.0).with_labels([label]), record("N", 0.0)]
    for rule in (
        {"name": "gigpo", "triage": True},
        {"name": "pivoarl", "triage": True},
        {"name": "triage", "whiten": False},
    ):
        plain = lists(credit.make({**rule, "lam": 0.0})(batch))[0][0]
        for options, worth in (({}, 1.0), ({"soft": True}, 0.75), ({"magnitude": True}, 0.5), ({"soft": True, "magnitude": True}, 0.375)):  # fmt: skip
            found = lists(credit.make({**rule, **options, "lam": 1.0})(batch))[0][0]
            assert found - plain == pytest.approx(worth), (rule, options)
    assert segment_worths(Segments(batch), CONSTANTS).tolist() == pytest.approx([1.0, -0.1])


def test_turns_are_paid_by_rewards_when_told_to() -> None:
    first, second = (Segment(0, "s", "a", "", reward=reward) for reward in (2.0, 0.0))
    batch = [replace(record("D", score), segments=(turn,)) for score, turn in ((0.0, first), (1.0, second))]
    assert lists(GiGPO(norm="mean")(batch)) == [[-1.0], [1.0]]
    assert lists(GiGPO(norm="mean", returns="rewards")(batch)) == [[0.5], [-0.5]]
    for rule in (PivoARL, MetaRL):
        assert lists(rule(norm="mean")(batch)) == [[-0.5], [0.5]]
        assert lists(rule(norm="mean", returns="rewards")(batch)) == [[1.0], [-1.0]]


def test_what_rounds_is_no_difference_and_what_is_small_is_one() -> None:
    every = np.ones(3, dtype=bool)
    assert whiten(np.array([-1e9, -1e9 - 1e-7, -1e9]), every, 1e-30).tolist() == [0.0, 0.0, 0.0]
    assert whiten(np.array([1e9, 1e9 + 1e-7, 1e9]), every, 1e-30).tolist() == [0.0, 0.0, 0.0]
    assert whiten(np.array([0.0, 1e-15, 0.0]), every, 1e-30).tolist() == [0.0, 0.0, 0.0]
    found = whiten(np.array([0.0, 3 * ROUNDING / 2, 0.0]), every, 1e-30)
    assert found.tolist() == pytest.approx([-np.sqrt(0.5), np.sqrt(2.0), -np.sqrt(0.5)])


# Sums -------------------------------------------------------------------------------------------------------------------


def test_a_sum_keeps_what_its_rules_leave_out_and_how_roles_count() -> None:
    lost = record("DE", 0.0, seen=("s", "t"), trial="t")
    won = record("DR", 1.0, seen=("s", "u"), trial="t", attempt=1, parent=0, pivot=1, prefix_length=1)
    other = record("RN", 0.0, seen=("s", "v"), trial="z")
    batch = [lost, won, other]
    kept = credit.make({"name": "sum", "rules": [R3L(base="grpo"), Triage()], "whiten": False})
    trained = [[x != 0.0 for x in own] for own in lists(kept(batch))]
    assert trained == [[False, True], [False, True], [True, True]], (
        "turns that one of the rules leaves out, none trains"
    )
    for option in ("after_whitening", "sign_guard"):
        alone = Triage(lam=2.0, **{option: True})
        both = credit.make({"name": "sum", "rules": [alone, GiGPO(omega=0.0)], "whiten": True})
        assert lists(both(batch)) == lists(alone(batch)), option
    guarded = credit.make(
        {"name": "sum", "rules": [Triage(guard=True, whiten=False), GiGPO(omega=0.0)], "whiten": False}
    )
    equal = [record("DE", 1.0), record("NR", 1.0)]
    assert not np.concatenate(guarded(equal)).any()
    with_trials = credit.make({"name": "sum", "rules": [GRPO(), GiGPO(triage=True)], "whiten": False})
    assert credit.needs_labels(with_trials)
    assert with_trials.lam == GiGPO().lam  # type: ignore[attr-defined]
    assert not credit.needs_labels(credit.make({"name": "sum", "rules": [GRPO(), GiGPO()]}))


# Controls ---------------------------------------------------------------------------------------------------------------


def test_keys_order_the_roles_of_each_rollout() -> None:
    """Keys -3, 5, 1 put the third before the second; a rollout of copies and gaps keeps what it has."""
    batch = Segments.of_arrays(
        [3, 3, 2], [0, 0, 0], [1.0, 0.0, 0.0], prefix=[0, 1, 0], role=[0, 1, 2, 3, 0, 1, -1, 2], shuffle=[-3, 5, 1, 9, 7, 6, 0, 0]
    )  # fmt: skip
    assert shuffled(batch, 0).tolist() == [0, 2, 1, 3, 1, 0, -1, 2]
    same = Segments.of_arrays([2, 1], [0, 0], [1.0, 0.0], role=[0, 3, 1], shuffle=[4.0, 4.0, 4.0])
    assert shuffled(same, 0).tolist() == [0, 3, 1]
    none = Segments.of_arrays([1, 1], [0, 0], [1.0, 0.0], role=[-1, -1], shuffle=[0.0, 1.0])
    assert shuffled(none, 0).tolist() == [-1, -1]


def test_another_seed_is_another_order_and_odd_texts_have_one() -> None:
    batch = [record("DERNDERN", 1.0), record("RNDE", 0.0)]
    first, second = (ShuffledTriage(whiten=False, lam=1.0, seed=seed)(batch) for seed in (0, 1))
    assert lists(first) != lists(second)
    assert sorted(lists(first)[0]) == pytest.approx(sorted(lists(second)[0]))
    odd = record("DERN", 1.0, task_id="\udcff")
    assert len(ShuffledTriage()([odd, batch[1]])[0]) == 4
    assert lists(RolesOnly(whiten=False, lam=1.0)(batch))[1] == [-0.5, -0.1, 1.0, 0.5]


def test_batches_of_tokens_must_fit() -> None:
    tokens, mask = broadcast_batch([], [], [], 5)
    assert (tokens.shape, mask.shape, mask.dtype) == ((0, 5), (0, 5), np.bool_)
    batch = [record("D", 1.0), record("E", 0.0)]
    with pytest.raises(InputError, match="as many advantages and spans as records, got 2, 1, 2"):
        broadcast_batch(batch, [np.ones(1)], [[(0, 1)], [(0, 1)]], 3)
    assert MetaRL().retry_from == "start"
