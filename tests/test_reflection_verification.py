"""Pivots tested before use: by the expert, by rollouts, and how a pivot that fails is moved."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from envs_for_tests import Corridor
from gymnasium.wrappers import TimeLimit
from hypothesis import given
from hypothesis import strategies as st

import triage_gym  # noqa: F401 - registers the environments
from triage_gym import registry
from triage_gym.errors import InputError
from triage_gym.reflection.verification import (
    OracleCheck,
    PivotCheck,
    PivotPoint,
    RolloutCheck,
    earlier_pivots,
    settle_pivot,
    turns_left,
)
from triage_gym.restore.restorer import Restorer
from triage_gym.wrappers import AdmissibleActionWrapper


class Guided(Corridor):
    def expert_action(self) -> str:
        return "go right"


def succeeded(info: Mapping[str, Any], total: float, terminated: bool) -> bool:
    return bool(info.get("success", False))


class Played:
    """A failed attempt in a corridor of five doors with ten turns, and the way to any of its turns."""

    def __init__(self, actions: list[str], env: gym.Env[Any, Any] | None = None, limit: int = 10) -> None:
        self.restorer = Restorer(TimeLimit(env or Guided(), limit))
        self.restorer.reset(seed=None, options={"task_id": "corridor-5"})
        for action in actions:
            self.restorer.step(action)
        self.asked: list[int] = []

    def go_to(self, turn: int) -> PivotPoint:
        self.asked.append(turn)

        def again() -> tuple[Any, dict[str, Any]]:
            rewound = self.restorer.rewind(turn)
            assert (rewound.status, rewound.prefix_length) == ("verified", turn)
            return rewound.observation, rewound.info

        again()
        left = turns_left(self.restorer.env, turn)
        return PivotPoint(self.restorer.env, turn, again, succeeded, left, "corridor-5/0")


WASTED = ["go right", *["wait"] * 9]


def test_they_are_plugins_by_name() -> None:
    assert registry.names("checks") == ["oracle", "rollouts"]
    assert isinstance(registry.make("checks", "oracle"), OracleCheck)
    made = registry.make("checks", {"name": "rollouts", "k": 2, "player": "random", "max_turns": 4, "seed": 1})
    assert isinstance(made, RolloutCheck)
    assert isinstance(made, PivotCheck)


@pytest.mark.parametrize("check", [OracleCheck(), RolloutCheck()])
def test_a_pivot_passes_while_the_turns_that_are_left_suffice(check: Any) -> None:
    # At turn 6 four turns are left and the exit is four doors away; at turn 7 it is too late.
    for turn, passes in ((8, False), (7, False), (6, True), (1, True), (0, True)):
        assert check.passes(Played(WASTED).go_to(turn)) is passes, turn


@pytest.mark.parametrize("check", [OracleCheck(), RolloutCheck(k=1)])
def test_a_pivot_is_moved_by_halves_until_it_passes(check: Any) -> None:
    for pivot, found, asked in ((9, (4, "moved"), [9, 4]), (5, (5, "passed"), [5]), (0, (0, "passed"), [0])):
        played = Played(WASTED)
        assert settle_pivot(check, pivot, played.go_to) == found
        assert played.asked == asked


def test_where_none_passes_the_pivot_stays() -> None:
    played = Played(["wait"] * 4, limit=4)
    assert settle_pivot(OracleCheck(), 3, played.go_to) == (3, "failed")
    assert played.asked == [3, 1, 0]


def test_a_turn_that_cannot_be_reached_does_not_pass() -> None:
    played = Played(WASTED)
    assert settle_pivot(OracleCheck(), 5, lambda turn: None if turn else played.go_to(0)) == (0, "moved")


@given(st.integers(0, 10**6))
def test_earlier_pivots_halve_down_to_the_start(pivot: int) -> None:
    found = list(earlier_pivots(pivot))
    assert (found[0], found[-1]) == (pivot, 0)
    assert all(later // 2 == earlier for later, earlier in pairwise(found))
    assert len(found) <= 21


def test_rollouts_end_at_the_first_success_and_their_turns_are_counted() -> None:
    check = RolloutCheck()
    assert check.passes(Played(WASTED).go_to(2))
    assert check.turns == 4
    assert not check.passes(Played(WASTED).go_to(7))
    assert check.turns == 4 + 3, "an expert draws nothing, so one rollout says it all"


def test_rollouts_leave_the_point_as_it_was() -> None:
    played = Played(WASTED)
    point = played.go_to(2)
    before = point.env.unwrapped.get_state()  # type: ignore[attr-defined]
    RolloutCheck(player="random").passes(point)
    point.again()
    assert point.env.unwrapped.get_state() == before  # type: ignore[attr-defined]
    assert played.restorer.step("go right")[0].startswith("You are at door 2.")


class Counting:
    """A player that draws, never succeeds, and remembers what it drew."""

    drawn: list[int] = []  # noqa: RUF012

    def __call__(self, observation: Any, info: Mapping[str, Any], rng: np.random.Generator) -> Any:
        assert "admissible_commands" in info
        self.drawn.append(int(rng.integers(10**9)))
        return "wait"


def test_a_player_gets_other_chance_in_each_rollout_and_the_same_in_each_run() -> None:
    Counting.drawn.clear()
    for seed in (0, 0, 1):
        check = RolloutCheck(k=2, player=Counting(), seed=seed)
        assert not check.passes(Played(WASTED).go_to(8))
        assert check.turns == 4
    first, second, third = Counting.drawn[:4], Counting.drawn[4:8], Counting.drawn[8:]
    assert first == second != third
    assert len(set(first)) == 4


def test_a_player_is_found_at_its_path() -> None:
    for path in ("triage_gym.reflection.verification:turns_left", "triage_gym.registry:names"):
        assert RolloutCheck(player=path)._player is registry.load(path)
    with pytest.raises(InputError, match="player"):
        RolloutCheck(player="triage_gym.reflection.verification:VERDICTS")


def test_any_player_of_a_world_of_numbers() -> None:
    env = AdmissibleActionWrapper(Guided())
    played = Played([], env)  # type: ignore[arg-type]
    for action in (1, 3, 3, 3, 3):
        played.restorer.step(action)
    assert RolloutCheck().passes(played.go_to(3))
    assert RolloutCheck(k=60, player="random", max_turns=9).passes(played.go_to(1)), "60 walks by chance"

    lake = TimeLimit(gym.make("FrozenLake-v1", is_slippery=False).unwrapped, 20)
    lake.reset(seed=1)
    point = PivotPoint(lake, 0, lambda: lake.reset(seed=1), lambda info, total, end: end and total > 0, 20)
    state = lake.action_space.np_random.bit_generator.state
    found = [RolloutCheck(k=200, player="random").passes(point) for _ in range(2)]
    assert found == [True, True]
    assert lake.action_space.np_random.bit_generator.state == state, "the space's generator belongs to its user"
    with pytest.raises(InputError, match="expert_action"):
        RolloutCheck().passes(point)


def test_turns_left_takes_the_nearest_limit() -> None:
    limited = gym.make("triage/WebShop-v0")
    own = limited.unwrapped.max_turns  # type: ignore[attr-defined]
    assert turns_left(limited, 3) == own - 3
    assert turns_left(TimeLimit(limited, 4), 3) == 1
    assert turns_left(TimeLimit(limited, 4), 9) == 0
    assert turns_left(Guided(), 3) is None
    limited.close()


def test_what_cannot_be_tested_says_why() -> None:
    env = Guided()
    env.reset(seed=1)
    endless = PivotPoint(env, 0, lambda: env.reset(seed=1), succeeded)
    with pytest.raises(InputError, match="max_turns"):
        RolloutCheck().passes(endless)
    assert RolloutCheck(max_turns=20).passes(endless)
    assert OracleCheck().passes(endless)
    env.expert_distance = None  # type: ignore[assignment,method-assign]
    env.expert_action = None  # type: ignore[assignment,method-assign]
    with pytest.raises(InputError, match="neither"):
        OracleCheck().passes(endless)
    for wrong in ({"k": 0}, {"k": True}, {"max_turns": 0}, {"player": 3}, {"player": "nobody"}):
        with pytest.raises(InputError, match="Expected"):
            RolloutCheck(**wrong)  # type: ignore[arg-type]
