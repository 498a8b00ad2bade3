"""From a config to environments and tasks: which stack is stepped, and how a task is named to its reset.

Every way of playing (rollouts, demonstrations, evaluation) goes through the same stack,
``SegmentCredit(StateFacts(PivotRetry(TimeLimit(env))))``, the facts being there for a judge that needs them and the retry
where more than one attempt is made. No judge stands in it: records are labelled when they are whole. ALFWorld tasks are named by task id, those of other environments by seed; evaluation seeds and
training seeds never meet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import gymnasium as gym
from gymnasium.wrappers import TimeLimit

from triage_gym import registry
from triage_gym.envs.alfworld.env import ALFWorldEnv
from triage_gym.envs.alfworld.pool import GamePool
from triage_gym.envs.alfworld.world import world_of
from triage_gym.errors import InputError, TriageGymError
from triage_gym.facts import FactName
from triage_gym.origin import described, users_line
from triage_gym.reflection.expert import why_no_distance
from triage_gym.trainers.config import TrainConfig
from triage_gym.wrappers import PivotRetryWrapper, SegmentCreditWrapper, StateFactsWrapper

Start = tuple[int | None, dict[str, Any]]
"""Seed and options of a reset."""
EVAL_SEED: Final = 1_000_000
"""First evaluation seed of environments whose tasks are named by seed; training seeds count from 0."""


def env_arguments(config: TrainConfig, split: str | None) -> dict[str, Any]:
    """Keyword arguments of the environment for ``split``."""
    out: dict[str, Any] = dict(config.env_kwargs)
    if split is not None:
        out["split"] = split
    if config.task_types is not None:
        out["task_types"] = list(config.task_types)
    return out


def make_env(config: TrainConfig, split: str | None) -> gym.Env[Any, Any]:
    """The environment with its time limit and nothing else.

    Raises:
        InputError: When there is no such environment, or its constructor refuses the arguments.
    """
    arguments = env_arguments(config, split)
    name = registry.env_name(config.env)
    if not _is_gymnasium_id(name):
        env: gym.Env[Any, Any] = registry.make("envs", {"name": name, **arguments})
        if not isinstance(env, gym.Env):
            raise InputError(
                f"Expected {name!r} to make a gymnasium.Env, got {type(env).__name__}; derive the class from gymnasium.Env"
            )
        return TimeLimit(env, config.limit)
    try:
        # The checker looks at every step anew and the limit of the registration is not the limit of the run.
        return gym.make(config.env, max_episode_steps=config.limit, disable_env_checker=True, **arguments)
    except TypeError as error:
        raise InputError(f"Could not build the environment {config.env!r} with {sorted(arguments)}: {error}") from error
    except (gym.error.Error, ModuleNotFoundError) as error:
        raise InputError(
            f"Expected a registered environment, got {config.env!r}: {error}. A name is one of "
            f"{registry.names('envs')}, a Gymnasium id (Name-v0, namespace/Name-v0, or module:Name-v0 for one that "
            "its module registers) or the module:attr path of a class"
        ) from error
    except TriageGymError:
        raise
    except Exception as error:
        if users_line(error) is None:
            raise
        raise InputError(
            f"Could not build the environment {config.env!r} with {sorted(arguments)}: {described(error)}"
        ) from error


def _is_gymnasium_id(name: str) -> bool:
    """Whether the name is for ``gymnasium.make``: known there, or of a form that no path of a class has."""
    if name in registry.names("envs"):
        return False
    return "/" in name or name in gym.registry or re.search(r"-v\d+$", name) is not None


def stack(
    config: TrainConfig,
    split: str | None,
    facts: Sequence[FactName] = (),
    attempts: int = 1,
    *,
    measure: bool = False,
    pairs: bool = False,
) -> Callable[[], gym.Env[Any, Any]]:
    """A function that makes the whole stack.

    Args:
        config: The run, resolved.
        split: Split of the tasks.
        facts: What to measure of each turn, for a judge that needs it of the records.
        attempts: Most attempts at a task; with 1 nothing is retried and no state is kept.
        measure: Whether to ask the environment's expert, where it has one, for the pivots that it would have named.
        pairs: Whether an attempt, a success too, may be gone back into once (:mod:`triage_gym.trainers.online`).
    """

    def make() -> gym.Env[Any, Any]:
        env = make_env(config, split)
        if attempts > 1:
            env = retrying(config, env, attempts, measure=measure)
        elif pairs:
            env = PivotRetryWrapper(env, max_attempts=2, after="any")
        if facts:
            env = StateFactsWrapper(env, facts)
        return SegmentCreditWrapper(env, credit="grpo")

    return make


def retrying(config: TrainConfig, env: gym.Env[Any, Any], attempts: int, *, measure: bool = False) -> PivotRetryWrapper:
    """``env`` with the retries that the config asks for; see :func:`stack`."""
    return PivotRetryWrapper(
        env,
        reflector_of(config),
        attempts,
        retry_from=config.retry_from or "pivot",
        verify=config.verify,
        measure_oracle=measure and not why_no_distance(env),
    )


def reflector_of(config: TrainConfig) -> str | dict[str, Any]:
    """The reflector as the environment is given it: ``role`` asks the run's own judge unless it names another."""
    spec = registry.config("reflectors", config.reflector)
    if spec["name"] == "role":
        spec.setdefault("judge", config.judge)
    return spec


class Tasks:
    """The tasks of one split, by number.

    Args:
        config: The run.
        split: Split of the games, None where the environment knows no splits.
        count: How many tasks; fewer when there are fewer games.
        first_seed: Seed of task 0, for tasks that are named by seed.

    Raises:
        InputError: When there are no games.
    """

    def __init__(self, config: TrainConfig, split: str | None, count: int, first_seed: int = 0) -> None:
        self._first_seed = first_seed
        self._count = count
        self._pool: GamePool | None = None
        if config.is_alfworld:
            self._pool = ALFWorldEnv(**env_arguments(config, split), num_games=count).pool
            self._count = len(self._pool)

    def __len__(self) -> int:
        return self._count

    def start(self, number: int) -> Start:
        """What reset is told to begin task ``number``."""
        if self._pool is not None:
            return None, {"task_id": self._pool.name(number)}
        return self._first_seed + number, {}

    def prepare(self, numbers: Sequence[int]) -> None:
        """Make the games of these tasks now, so that the clock of the rollouts does not pay for them."""
        if self._pool is not None:
            for number in numbers:
                world_of(self._pool.get(self._pool.name(number)))
