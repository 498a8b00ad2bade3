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
    OracleReflector,
    RandomReflector,
    RestartReflector,
    RoleReflector,
    parse_reflection,
)


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


def test_a_reflection_is_parsed_with_its_source() -> None:
    assert parse_reflection('{"pivot": 2, "remark": "é"}') == Reflection("é", 2, "policy")
    assert parse_reflection('{"pivot": 2}') is None
