"""StateFactsWrapper: what the environment itself says of each turn, in ``info["state_facts"]``.

For records that are labelled after they are whole, by a judge that needs facts; RoleJudgeWrapper measures what its judge
needs by itself. It goes outside of PivotRetryWrapper, so that a retry is measured from its pivot on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from triage_gym.facts import FACT_NAMES, FactName, FactsMeter
from triage_gym.reflection.expert import succeeded
from triage_gym.restore.values import text_of
from triage_gym.windows import FACTS
from triage_gym.wrappers._attempt import kept_prefix, retry_facts


class StateFactsWrapper(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Adds ``info["state_facts"]`` to every step: ``changed``, ``learnt``, ``before``, ``after`` (:mod:`triage_gym.facts`).

    Nothing else is touched, and every value is a plain one: booleans, turns, or None for what is not measured or not known.
    Distances tell the outcome: do not show them to an agent or to a judge of text.

    Args:
        env: The environment.
        facts: What to measure, out of ``changed``, ``learnt`` and ``distance``.

    Raises:
        InputError: For an unknown name, or ``distance`` of an environment without an expert.
    """

    def __init__(self, env: gym.Env[Any, Any], facts: Sequence[FactName] = FACT_NAMES) -> None:
        RecordConstructorArgs.__init__(self, facts=list(facts))
        gym.Wrapper.__init__(self, env)
        self._meter = FactsMeter(env, facts)
        self._turns = 0
        self._total_reward = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an attempt, or a retry of the last one from its pivot."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._turns = kept_prefix(retry_facts(info), self._turns)
        self._total_reward = 0.0
        self._meter.begin(text_of(observation), self._turns)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and measure."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._turns += 1
        self._total_reward += float(reward)
        won = succeeded(info, self._total_reward, terminated=True) if terminated else None
        facts = self._meter.step(text_of(observation), cut=bool(truncated) and not terminated, won=won)
        return observation, reward, terminated, truncated, {**info, FACTS: facts._asdict()}
