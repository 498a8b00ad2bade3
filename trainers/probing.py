"""Whether a run can begin at all: one environment is built and reset once, before anything is written.

It promises that what an environment of one's own most often lacks (admissible commands, observations of text, a
constructor that takes the config's arguments) is an :class:`~triage_gym.errors.InputError` that names it, instead of a
traceback from the middle of a run. It leaves steps alone, and touches no random number that a run draws. No torch,
except to look for a device other than the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from triage_gym import registry
from triage_gym.errors import InputError, TriageGymError
from triage_gym.facts import FactName, FactsMeter
from triage_gym.judges import nesting
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.demonstrations import expert_of
from triage_gym.trainers.tasks import EVAL_SEED, make_env, retrying
from triage_gym.trainers.waiting import leaves


def probe(config: TrainConfig) -> None:
    """Build and reset an environment of the training tasks and one of the evaluation tasks, and look for the device.

    Args:
        config: The run, resolved.

    Raises:
        InputError: When the environment cannot be built or reset, does not say what a policy needs, or has no expert
            for the demonstrations asked for or for the retries, which a reflector or a check of pivots may ask; or
            there is no such device; or a judge cannot be built, has no key, or needs facts that the environment lacks.
        MissingDependency: When a judge needs an extra that is not installed.
    """
    if config.device != "cpu":
        check_device(config.device)
    specs = [config.judge, *([] if config.second_judge is None else [config.second_judge])]
    facts = _check_judges(specs)
    first_seeds = {config.eval_split: EVAL_SEED} | {config.split: 0}
    for split, seed in first_seeds.items():
        env = make_env(config, split)
        try:
            _check_reset(config.env, env, seed)
            attempts = (config.attempts if split == config.split else 1) or 1
            if split == config.eval_split:
                attempts = max(attempts, config.eval_attempts or 1)
            _check_retries(config, env, attempts)
            if split == config.split:
                FactsMeter(env, facts)
            if config.demos and not config.is_alfworld:
                expert_of(config.env, env)
        finally:
            env.close()


def probe_retries(config: TrainConfig, split: str | None, attempts: int) -> None:
    """Look whether failures can be retried as the config says, in an environment of ``split``; nothing is reset.

    Raises:
        InputError: When the reflector or the check of pivots cannot be built, or asks an expert that is not there.
    """
    if attempts > 1:
        env = make_env(config, split)
        try:
            _check_retries(config, env, attempts)
        finally:
            env.close()


def _check_judges(specs: list[str | Mapping[str, Any]]) -> tuple[FactName, ...]:
    """Whether judges can be asked at all; the facts that they need."""
    for leaf in (leaf for spec in specs for leaf in leaves(spec)):
        judge = registry.make("judges", leaf)
        opening = getattr(judge, "open", None)
        if callable(opening):
            opening()
        nesting.close(judge)
    judges = [nesting.inner(spec) for spec in specs]
    try:
        return nesting.facts_needed(*judges)
    finally:
        nesting.close(*judges)


def _check_retries(config: TrainConfig, env: gym.Env[Any, Any], attempts: int) -> None:
    if attempts > 1:
        retrying(config, env, attempts).check_ready()


def _check_reset(name: str, env: gym.Env[Any, Any], seed: int) -> None:
    try:
        observation, info = env.reset(seed=seed)
    except TriageGymError:
        raise
    except Exception as error:
        raise InputError(
            f"Expected {name} to reset to (observation, info), got {type(error).__name__}: {error}; "
            "the fault is the environment's"
        ) from error
    keys = sorted(map(str, info)) if isinstance(info, Mapping) else type(info).__name__
    commands = info.get("admissible_commands") if isinstance(info, Mapping) else None
    is_list = isinstance(commands, list | tuple) and all(isinstance(c, str) for c in commands)
    if not is_list or not commands:
        got = f"the keys {keys}" if commands is None else f"{commands!r:.100} there"
        raise InputError(
            f'Expected info["admissible_commands"] (a list of str, not empty) from {name}\'s reset, got {got}; '
            "list there what can be done now, after reset and after every step: the policy chooses among it"
        )
    if not isinstance(observation, str):
        raise InputError(
            f"Expected an observation of text (str) from {name}'s reset, got {type(observation).__name__}; "
            "the built-in policies read words"
        )
    for space in ("observation_space", "action_space"):
        if not hasattr(env, space):
            raise InputError(
                f"Expected {name} to have an {space}, got none; set self.{space} = triage_gym.spaces.UnicodeText()"
            )


def check_device(device: str) -> None:
    """Look for a torch device.

    Raises:
        InputError: When this machine or this build of torch does not have it.
    """
    import torch

    try:
        torch.zeros(1, device=torch.device(device)).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"Expected `device` to be one that torch can use here, got {device!r}: {reason}; use cpu, "
            "on which these small policies are fastest, or install a build of torch for that device"
        ) from error
