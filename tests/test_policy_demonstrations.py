"""Demonstrations by an environment's own expert: admissible, successful, on training tasks, repeatable."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from triage_gym import registry
from triage_gym.errors import InputError
from triage_gym.spaces import UnicodeText
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.demonstrations import demonstrate, expert_of
from triage_gym.trainers.pretraining import make_start
from triage_gym.trainers.randomness import stream


def run(**changes: Any) -> TrainConfig:
    plain: dict[str, Any] = {"env": "minesweeper", "tasks": 20, "demos": 6, "width": 8, "credit": "grpo"}
    return TrainConfig(**{**plain, **changes}).resolved()


def demonstrations(config: TrainConfig) -> Any:
    return demonstrate(config, stream(config.seed, "demonstrations"))


@pytest.mark.parametrize("env", ["minesweeper", "sokoban", "webshop"])
def test_demonstrations_are_successes_that_a_policy_could_play(env: str) -> None:
    config = run(env=env)
    found = demonstrations(config)
    assert len(found) == 6
    shares = [turn.expert for d in found for turn in d.turns]
    assert 0.3 < np.mean(shares) < 1
    game = registry.make("envs", {"name": env, "split": "train"})
    for demonstration in found:
        observation, info = game.reset(options={"task_id": demonstration.task_id})
        assert info["task"] == demonstration.task
        for turn in demonstration.turns:
            assert (turn.observation, list(turn.admissible)) == (observation, list(info["admissible_commands"]))
            assert turn.command in turn.admissible
            observation, _, _, _, info = game.step(turn.command)
            assert turn.next_observation == observation
        assert info["success"]
    game.close()


def test_they_are_of_training_tasks_and_come_again_with_the_seed() -> None:
    config = run(tasks=8, demos=10)
    found = demonstrations(config)
    assert found == demonstrations(config)
    assert found != demonstrations(run(tasks=8, demos=10, seed=1))
    game = registry.make("envs", {"name": "minesweeper", "split": "train"})
    tasks = {game.reset(seed=seed)[1]["task_id"] for seed in range(8)}
    assert {d.task_id for d in found} <= tasks
    assert len({d.task_id for d in found}) > 2


def test_a_start_policy_is_cloned_from_them() -> None:
    _, facts = make_start(run(demos=12))
    assert facts["demos"] == len(facts["tasks"]) == 12
    assert facts["turns"] > 12
    assert facts["loss"][-1] < facts["loss"][0]
    _, random = make_start(run(demos=0))
    assert random["loss"] == []


class Quiz(gym.Env[str, str]):
    """Two doors; the expert names one that is not on the list, or nothing."""

    expert: Any = "the window"

    def __init__(self) -> None:
        self.observation_space = self.action_space = UnicodeText(100)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return "A hall.", {"admissible_commands": ["left", "right"]}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        won = action == "left"
        return "A hall.", float(won), True, False, {"admissible_commands": ["left", "right"], "success": won}

    def expert_action(self) -> Any:
        return self.expert


class Mute(Quiz):
    """An expert that knows nothing."""

    expert = None


class Hopeless(Quiz):
    """No door is the right one."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return super().step("right")


@pytest.mark.parametrize("kind", ["Quiz", "Mute"])
def test_where_the_expert_has_no_admissible_command_one_is_drawn(kind: str) -> None:
    found = demonstrations(run(env=f"{__name__}:{kind}", demos=5, demo_noise=0.0))
    assert [[(t.command, t.expert) for t in d.turns] for d in found] == [[("left", False)]] * 5


def test_an_expert_that_never_wins_is_told_with_the_reason() -> None:
    with pytest.raises(InputError, match=r"got 0 in 60 episodes, in which 60 of 60 of the expert's commands were not"):
        demonstrations(run(env=f"{__name__}:Hopeless", demos=2, demo_noise=0.0))


def test_an_environment_without_expert_is_named() -> None:
    with pytest.raises(InputError, match=r"got 'cellar', which has no expert to imitate"):
        expert_of("cellar", registry.make("envs", {"name": "triage_gym.testing.broken:Cellar"}))
    with pytest.raises(InputError, match="has no expert"):
        make_start(run(env="triage_gym.testing.broken:Cellar"))
