"""Reflectors: who names the earliest wrong turn, from a record alone."""

from __future__ import annotations

from typing import Any

import pytest
from envs_for_tests import LeftIsRegression

from triage_gym import registry
from triage_gym.errors import InputError
from triage_gym.records import EpisodeRecord, Reflection, RoleLabel, Segment
from triage_gym.reflection import (
    CallableReflector,
    EntropyReflector,
    OracleReflector,
    PolicyReflector,
    RandomReflector,
    RestartReflector,
    RoleReflector,
    ValueReflector,
)
from triage_gym.reflection.reflectors import as_reflector


def record(actions: list[str], distances: list[Any] | None = None, **fields: Any) -> EpisodeRecord:
    segments = []
    for k, action in enumerate(actions):
        info = (
            {} if distances is None else {"expert_distance_before": distances[k], "expert_distance": distances[k + 1]}
        )
        segments.append(Segment(k, f"before {k}", action, f"after {k}", 0.0, info))
    return EpisodeRecord("g", segments=tuple(segments), **fields)


def test_names_in_the_registry_make_them() -> None:
    for name, kind in (
        ("role", RoleReflector),
        ("random", RandomReflector),
        ("restart", RestartReflector),
        ("oracle", OracleReflector),
        ("policy", PolicyReflector),
        ("entropy", EntropyReflector),
        ("value", ValueReflector),
    ):
        assert isinstance(registry.make("reflectors", name), kind)


def test_role_takes_the_earliest_r_in_the_prefix_too_and_labels_that_are_there() -> None:
    reflector = RoleReflector(LeftIsRegression())
    actions = ["go right", "go left", "look", "go left"]
    assert reflector.reflect(record(actions)).pivot == 1
    assert reflector.reflect(record(actions, attempt=1, prefix_length=2)).pivot == 1
    labels = tuple(RoleLabel(k, role) for k, role in enumerate(["D", "E", "R", "R"]))  # type: ignore[arg-type]
    assert reflector.reflect(record(actions, labels=labels)) == Reflection(
        'Turn 3, "look", was a step back.', 2, "role"
    )
    assert reflector.reflect(record(["look", "wait"])) == Reflection("", 0, "role")


def test_random_depends_on_the_attempt_alone_and_reaches_every_turn() -> None:
    one = record(["a", "b", "c", "d"], seed=3)
    assert RandomReflector(1).reflect(one) == RandomReflector(1).reflect(record(["a", "b", "c", "d"], seed=3))
    pivots = {RandomReflector(seed).reflect(one).pivot for seed in range(60)}
    assert pivots == {0, 1, 2, 3}
    assert RandomReflector(7).reflect(record(["a"])).pivot == 0


def test_restart_is_always_the_start() -> None:
    assert RestartReflector().reflect(record(["a", "b"])) == Reflection("", 0, "restart")


@pytest.mark.parametrize(
    ("distances", "pivot"),
    [
        ([4, 3, 4, 5], 1),
        ([4, 3, None, None], 1),
        ([4, 3, 3, 2], 1),
        ([4, 3, 3, 4], 2),
        ([4, 3, 2, 1], 0),
        ([None, None, None, None], 0),
    ],
)
def test_the_oracle_reads_distances(distances: list[Any], pivot: int) -> None:
    assert OracleReflector().reflect(record(["a", "b", "c"], distances)).pivot == pivot


def test_the_oracle_says_what_it_misses() -> None:
    with pytest.raises(InputError, match="expert_distance"):
        OracleReflector().reflect(record(["a"]))


def test_a_function_may_give_a_turn_or_a_reflection() -> None:
    assert CallableReflector(lambda r: len(r) - 1).reflect(record(["a", "b"])).pivot == 1
    assert CallableReflector(lambda r: Reflection("x", 0)).reflect(record(["a"])) == Reflection("x", 0)
    with pytest.raises(InputError, match="Reflection or a turn"):
        CallableReflector(lambda r: None).reflect(record(["a"]))


def test_the_policy_reflects_itself_or_says_where_its_words_go() -> None:
    with pytest.raises(InputError, match=r'reset\(options=\{"reflection": text\}\)'):
        PolicyReflector().reflect(record(["a"]))
    assert PolicyReflector.needs_words


@pytest.mark.parametrize(
    ("distances", "tolerance", "pivot", "told"),
    [
        ([4, 4, 3, 3, 2], 0, 0, "did not help."),
        ([4, 4, 3, 3, 2], 1, 2, "did not help."),
        ([4, 4, 3, 3, 2], 2, 0, "did not help."),  # nothing exceeds it: what a tolerance of 0 says
        ([4, 5, 4, 3, 2], 1, 0, "led away from the goal: 5 turns are left instead of 4."),
        ([4, 5, 4, 5, 4], 2, 2, "led away from the goal: 5 turns are left instead of 4."),
        ([4, 3, None, None, None], 9, 1, "put the goal out of reach."),
        ([4, 5, 4, 3, None], 3, 3, "put the goal out of reach."),
    ],
)
def test_the_oracle_forgives_some_waste(distances: list[Any], tolerance: int, pivot: int, told: str) -> None:
    actions = ["a", "b", "c", "d"]
    found = OracleReflector(tolerance).reflect(record(actions, distances, terminated=True))
    assert found == Reflection(f'Turn {pivot + 1}, "{actions[pivot]}", {told}', pivot, "oracle")


def test_the_oracle_does_not_blame_the_last_turn_for_the_end_of_time() -> None:
    cut_off = [3, 2, 2, 1, None]
    for ends, pivot in (({"truncated": True}, 1), ({"terminated": True}, 3)):
        assert OracleReflector().reflect(record(["a", "b", "c", "d"], cut_off, **ends)).pivot == pivot
    out_of_reach = [3, 2, None, None, None]
    assert OracleReflector().reflect(record(["a", "b", "c", "d"], out_of_reach, truncated=True)).pivot == 1


@pytest.mark.parametrize("tolerance", [-1, True, 1.0])
def test_a_tolerance_is_a_number_of_turns(tolerance: Any) -> None:
    with pytest.raises(InputError, match="tolerance"):
        OracleReflector(tolerance)


def with_facts(key: str, numbers: list[Any], **fields: Any) -> EpisodeRecord:
    segments = [Segment(k, "", f"go {k}", "", 0.0, {key: number}) for k, number in enumerate(numbers)]
    return EpisodeRecord("g", segments=tuple(segments), **fields)


def test_entropy_takes_the_turn_of_most_doubt_in_the_prefix_too() -> None:
    found = EntropyReflector().reflect(with_facts("entropy", [0.5, 1.25, 1, 1.25], prefix_length=2))
    assert found == Reflection('Turn 2, "go 1", was the least sure one (entropy 1.25).', 1, "entropy")


@pytest.mark.parametrize(
    ("values", "fields", "pivot"),
    [
        ([0.5, 0.75, 0.25, 0.5], {"truncated": True}, 1),
        ([0.5, 0.75, 0.25, 0.5], {"terminated": True, "score": 0.25}, 1),
        ([0.5, 0.75, 0.5, 0.75], {"terminated": True, "score": 0.25}, 3),
        ([0.5, 0.75, 0.5, 0.75], {"truncated": True, "score": 0.25}, 1),
        ([0.5, 0.5, 0.75], {"truncated": True}, 0),
        ([0.5], {"truncated": True}, 0),
        ([0.0, 0.5], {"terminated": True}, 1),
    ],
)
def test_value_takes_the_turn_that_cost_most(values: list[Any], fields: dict[str, Any], pivot: int) -> None:
    assert ValueReflector().reflect(with_facts("value", values, **fields)).pivot == pivot


def test_value_quotes_the_turn_and_says_nothing_of_a_start_that_is_not_at_fault() -> None:
    found = ValueReflector().reflect(with_facts("value", [0.75, 0.25], truncated=True))
    assert found.remark == 'Turn 1, "go 0", cost most: the value fell from 0.75 to 0.25.'
    assert ValueReflector().reflect(with_facts("value", [0.25, 0.75], truncated=True)) == Reflection("", 0, "value")


@pytest.mark.parametrize("wrong", [None, True, "1", float("nan"), float("inf")])
@pytest.mark.parametrize(("key", "made"), [("entropy", EntropyReflector()), ("value", ValueReflector())])
def test_numbers_that_are_missing_are_asked_for(key: str, made: Any, wrong: Any) -> None:
    assert made.needs_facts == (key,)
    with pytest.raises(InputError, match="turn_facts"):
        made.reflect(with_facts(key, [1.0, wrong]))
    with pytest.raises(InputError, match="turn"):
        made.reflect(with_facts(key, []))


def checked(other: Any) -> RoleReflector:
    return RoleReflector(LeftIsRegression(), checks=other)


def test_role_moves_another_pivot_earlier_and_never_later() -> None:
    one = record(["go right", "go left", "look", "wait"])
    moved = checked(lambda r: Reflection("Look less.", 3, "me", "words", "")).reflect(one)
    assert moved == Reflection(
        'Turn 2, "go left", was a step back: further from the exit. Look less.', 1, "role", "words"
    )
    for turn in (0, 1):
        assert checked(lambda r, turn=turn: Reflection("x", turn, "me")).reflect(one) == Reflection("x", turn, "me")
    assert checked("restart").reflect(one) == Reflection("", 0, "restart")
    none_wrong = record(["look", "wait"])
    assert checked(lambda r: 1).reflect(none_wrong).pivot == 1


def test_role_asks_for_what_the_other_needs() -> None:
    assert checked("oracle").needs_distance
    assert checked({"name": "value"}).needs_facts == ("value",)
    guided = checked("policy")
    assert (guided.needs_words, guided.needs_distance, guided.needs_facts) == (True, False, ())
    one = record(["go right", "go left", "look"])
    assert guided.guide(one, Reflection("x", 2, "policy", "words")).pivot == 1
    with pytest.raises(InputError, match="policy"):
        guided.reflect(one)
    assert not RoleReflector().needs_words


def test_role_passes_on_what_must_be_hidden() -> None:
    inner = RoleReflector(LeftIsRegression())
    inner.outcome_text = ("You won!",)
    outer = checked(inner)
    outer.outcome_text = ("You lost!",)
    outer.reflect(record(["look"]))
    assert set(inner.outcome_text) == {"You won!", "You lost!"}


def test_role_checks_by_spec() -> None:
    spec = {"name": "role", "judge": "envs_for_tests:LeftIsRegression", "checks": {"name": "random", "seed": 3}}
    one = record(["go left", "look", "look"])
    assert registry.make("reflectors", spec).reflect(one).pivot == 0
    assert isinstance(as_reflector("restart"), RestartReflector)
    with pytest.raises(InputError, match="did you mean"):
        RoleReflector(checks="randm")
