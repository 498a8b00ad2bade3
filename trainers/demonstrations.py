"""Demonstrations of any environment whose own expert can be asked: successful episodes of it under random actions.

An environment has an expert when it has ``expert_action() -> str | None``: the command that the expert would send now. A
policy can only imitate what it can see itself, so an expert should know no more than an agent is shown; those of the built-in
environments do not, but for TextWorld's, and the environment's attribute ``expert_knows`` says which it is
(:func:`knowledge_of`). ALFWorld's own expert is an oracle: the trainer takes :mod:`triage_gym.envs.alfworld.searching` there.

A demonstration holds admissible commands only, since a policy chooses among these: where the expert would send another
one, or none, an admissible one is drawn. No torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import gymnasium as gym
import numpy as np

from triage_gym.envs.alfworld.searching import Demonstration, Turn
from triage_gym.errors import InputError
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.tasks import Start, Tasks, make_env

SHOWN: Final = "what it was shown"
MORE: Final = "more than it was shown"
UNTOLD: Final = "not said by the environment"


def expert_of(name: str, env: gym.Env[Any, Any]) -> Callable[[], Any]:
    """What says the expert's command in ``env``.

    Args:
        name: What the config calls the environment.
        env: The environment, wrapped or not.

    Raises:
        InputError: When it has no expert.
    """
    found: Callable[[], Any] | None = getattr(env.unwrapped, "expert_action", None)
    if not callable(found):
        raise InputError(
            f"Expected an environment with a method expert_action() for `demos` above 0, got {name!r}, which has no "
            "expert to imitate; give it one that says the next command, or leave `demos` at 0"
        )
    return found


def knowledge_of(env: gym.Env[Any, Any]) -> str:
    """What the expert of ``env`` knows: :data:`SHOWN`, :data:`MORE`, or :data:`UNTOLD` where the environment does not say."""
    return str(getattr(env.unwrapped, "expert_knows", UNTOLD))


def demonstrate(config: TrainConfig, rng: np.random.Generator) -> list[Demonstration]:
    """Collect ``demos`` successful episodes of the environment's expert, each on a training task; failed ones are dropped.

    Args:
        config: The run, resolved. Each command is drawn evenly from the admissible ones with chance ``demo_noise``.
        rng: Draws the tasks and the noise.

    Raises:
        InputError: When the environment has no expert, or ``20 * demos + 20`` episodes did not hold enough successes.
    """
    count = config.demos or 0
    tasks = Tasks(config, config.split, config.tasks)
    limit = 20 * count + 20
    found: list[Demonstration] = []
    asked = unlisted = 0
    env = make_env(config, config.split)
    try:
        expert = expert_of(config.env, env)
        for _ in range(limit):
            played = _play(env, expert, tasks.start(int(rng.integers(len(tasks)))), rng, config.demo_noise)
            asked += played.asked
            unlisted += played.unlisted
            if played.success:
                found.append(played.demonstration)
            if len(found) == count:
                return found
    finally:
        env.close()
    raise InputError(
        f"Expected {count} successful demonstrations in {config.env}, got {len(found)} in {limit} episodes, in which "
        f"{unlisted} of {asked} of the expert's commands were not admissible; ask for fewer `demos`, give more turns "
        "(`limit`) or less `demo_noise`, or list in admissible_commands what the expert sends"
    )


@dataclass(frozen=True, slots=True)
class _Played:
    """An episode."""

    demonstration: Demonstration
    success: bool
    asked: int
    """Turns in which the expert was asked."""
    unlisted: int
    """Those in which its command was not admissible."""


def _play(
    env: gym.Env[Any, Any], expert: Callable[[], Any], start: Start, rng: np.random.Generator, noise: float
) -> _Played:
    """One episode from ``start``."""
    seed, options = start
    observation, began = env.reset(seed=seed, options=options or None)
    info: dict[str, Any] = began
    turns: list[Turn] = []
    asked = unlisted = 0
    terminated = truncated = False
    while not (terminated or truncated):
        admissible: tuple[str, ...] = tuple(info["admissible_commands"])
        advice = None
        if rng.random() >= noise:
            asked += 1
            advice = expert()
            if advice not in admissible:
                unlisted += 1
                advice = None
        command = admissible[int(rng.integers(len(admissible)))] if advice is None else advice
        answer, _, terminated, truncated, info = env.step(command)
        turns.append(Turn(observation, admissible, command, advice is not None, answer))
        observation = answer
    told = {
        name: str(began.get(name, default)) for name, default in (("task_id", seed), ("task", ""), ("task_type", ""))
    }
    return _Played(Demonstration(**told, turns=tuple(turns)), bool(info.get("success", False)), asked, unlisted)
