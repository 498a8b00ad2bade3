"""The expert's distance: worked ways, what it refuses, and that an episode goes on as if nobody had asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from envs_for_tests import Corridor, StatelessCorridor
from gymnasium.wrappers import TimeLimit
from needs import require
from webshop_shop import LittleShop

import triage_gym  # noqa: F401 - registers the environments
from triage_gym.envs.webshop import WebShopEnv
from triage_gym.errors import InputError, StateError
from triage_gym.reflection.expert import expert_distance, why_no_distance

Make = Callable[[], gym.Env[Any, Any]]


class Guided(Corridor):
    """A corridor with an expert that knows its next step only, and a generator that its steps draw from."""

    expert_distance = None  # type: ignore[assignment]
    max_turns: int | None = None

    def expert_action(self) -> str | None:
        return None if self.position < 0 else "go right"

    def outcome(self) -> tuple[bool, float]:
        return self.position >= self.exit, float(self.position >= self.exit)


class Shopping(WebShopEnv):
    """A shop whose expert knows its next action only."""

    expert_distance = None  # type: ignore[assignment]


class Wandering(Guided):
    def expert_action(self) -> str | None:
        return "look"


class Forgetful(Guided):
    """A state that leaves the furthest door out, and so does not come back."""

    def set_state(self, state: Any) -> None:
        super().set_state({**state, "furthest": self.furthest})


class WithoutGenerator(Guided):
    """A state that leaves the generator to whoever keeps it."""

    def get_state(self) -> dict[str, Any]:
        state = super().get_state()
        del state["rng"]
        return state

    def set_state(self, state: Any) -> None:
        super().set_state({**state, "rng": self.np_random.bit_generator.state})


class Stateless(StatelessCorridor):
    expert_distance = None  # type: ignore[assignment]

    def expert_action(self) -> str:
        return "go right"


def test_a_walk_counts_the_turns_to_the_goal() -> None:
    env = TimeLimit(Guided(), 2)
    env.reset(options={"task_id": "corridor-4"})
    assert expert_distance(env) == 4, "a limit outside does not count"
    env.step("go right")
    assert (expert_distance(env), expert_distance(env, 3), expert_distance(env, 2)) == (3, 3, None)
    assert env.step("wait")[3], "nor did the walks use it up"
    assert Wandering().unwrapped.expert_action() == "look"


def test_no_way_is_none() -> None:
    lost, wandering = Guided(pit=-2), Wandering()
    for env in (lost, wandering):
        env.reset(seed=1)
    lost.step("go left")
    assert (expert_distance(lost), expert_distance(wandering, 5)) == (None, None)


@pytest.mark.parametrize("told", [3, np.int64(3), 3.0, None])
def test_what_the_environment_tells_is_taken(told: Any) -> None:
    env = Guided()
    env.expert_distance = lambda: told  # type: ignore[assignment,method-assign]
    found = expert_distance(TimeLimit(env, 3))
    assert found == told
    assert found is None or type(found) is int


@pytest.mark.parametrize("told", [-1, True, 1.5])
def test_a_distance_is_a_number_of_turns(told: Any) -> None:
    env = Guided()
    env.expert_distance = lambda: told  # type: ignore[assignment,method-assign]
    with pytest.raises(InputError, match="turns of 0 or more"):
        expert_distance(env)


def test_an_environment_without_an_expert_or_a_state_says_what_to_add() -> None:
    env = Guided()
    env.expert_action = None  # type: ignore[assignment,method-assign]
    for made, told in ((env, "neither"), (Stateless(), "get_state")):
        made.reset(seed=1)
        assert told in why_no_distance(made)
        with pytest.raises(InputError, match=told):
            expert_distance(made)
    assert why_no_distance(Guided()) == ""
    with pytest.raises(InputError, match="most"):
        expert_distance(Guided(), -1)


def test_a_state_that_does_not_come_back_is_noticed() -> None:
    env = Forgetful()
    env.reset(seed=1)
    with pytest.raises(StateError, match="come back"):
        expert_distance(env)


def textworld() -> gym.Env[Any, Any]:
    require("textworld")
    import textworld_games

    return textworld_games.make(num_games=2)


ENVS: dict[str, Make] = {
    "guided": Guided,
    "without generator": WithoutGenerator,
    "alfworld": lambda: gym.make("triage/ALFWorld-v0").unwrapped,
    "minesweeper": lambda: gym.make("triage/Minesweeper-v0").unwrapped,
    "sokoban": lambda: gym.make("triage/Sokoban-v0").unwrapped,
    "searchqa": lambda: gym.make("triage/SearchQA-v0").unwrapped,
    "webshop": lambda: Shopping(LittleShop(), nouns="heuristic"),
}
EACH = pytest.mark.parametrize(
    "make",
    [
        *(pytest.param(made, id=name) for name, made in ENVS.items()),
        pytest.param(textworld, id="textworld", marks=pytest.mark.textworld),
    ],
)


def _plain(answer: Any) -> str:
    return json.dumps(answer, sort_keys=True, default=str)


@EACH
def test_asking_disturbs_nothing(make: Make) -> None:
    asked, left_alone = make(), make()
    try:
        for seed in range(1 if make is textworld else 3):
            answers: list[Any] = [(*env.reset(seed=seed),) for env in (asked, left_alone)]
            rng = np.random.default_rng(seed)
            for turn in range(12):
                before = asked.unwrapped.get_state()  # type: ignore[attr-defined]
                distance = expert_distance(asked)
                assert expert_distance(asked) == distance
                assert _plain(asked.unwrapped.get_state()) == _plain(before)  # type: ignore[attr-defined]
                assert _plain(answers[0]) == _plain(answers[1])
                if turn and (answers[0][2] or answers[0][3]):
                    break
                commands = answers[0][-1]["admissible_commands"]
                expert = left_alone.unwrapped.expert_action()  # type: ignore[attr-defined]
                action = expert if expert and (not commands or rng.random() < 0.5) else rng.choice(commands)
                answers = [env.step(str(action)) for env in (asked, left_alone)]
            # A fresh episode drawn by the generator shows whether that was left alone too.
            assert _plain(asked.reset()) == _plain(left_alone.reset())
    finally:
        asked.close()
        left_alone.close()


@pytest.mark.parametrize("name", [name for name in ENVS if name != "minesweeper"])
def test_following_the_expert_brings_the_goal_nearer_turn_by_turn(name: str) -> None:
    # Minesweeper's expert_action sees less than its expert_distance.
    env = ENVS[name]()
    try:
        env.reset(seed=5)
        distance = expert_distance(env)
        assert distance
        for left in range(distance - 1, -1, -1):
            answer = env.step(env.unwrapped.expert_action())  # type: ignore[attr-defined]
            assert expert_distance(env) == left
        assert answer[4]["success"]
        assert answer[2]
    finally:
        env.close()


def test_an_own_limit_of_the_environment_does_not_count_until_it_ends_the_episode() -> None:
    env = Shopping(LittleShop(), nouns="heuristic", max_turns=2)
    env.reset(seed=1)
    distance = expert_distance(env)
    assert distance is not None
    assert distance > 2
    assert env.max_turns == 2
    env.step("click[nothing]")
    assert expert_distance(env) == distance
    assert env.step("click[nothing]")[3]
    assert expert_distance(env) is None
