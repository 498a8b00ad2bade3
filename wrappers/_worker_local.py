"""The environments of a vector that live in the caller's own process, and what any home of environments offers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

import gymnasium

from triage_gym.wrappers._worker_source import EnvSource, build, describe_error
from triage_gym.wrappers._worker_wire import Failure, ResetResult, StepResult, reset_result, step_result

logger = logging.getLogger(__name__)

Start = tuple[int | None, Mapping[str, Any] | None]
"""Seed and options of one reset."""


class Backend(Protocol):
    """Where environments live. Every member that is asked gets a result or a Failure; their exceptions stay inside."""

    def reset(self, requests: Mapping[int, Start]) -> dict[int, ResetResult | Failure]:
        """Reset members, each with its seed and options."""
        ...

    def step(self, actions: Mapping[int, Any]) -> dict[int, StepResult | Failure]:
        """Step members, each with its action."""
        ...

    def close(self) -> None:
        """Close every environment."""
        ...


class LocalEnvs:
    """Environments in this process: nothing stands between the caller and them but the isolation of exceptions.

    Args:
        sources: Source of each member; all are built at once.

    Raises:
        Exception: Whatever building an environment raises; those that were built are closed.
    """

    def __init__(self, sources: tuple[EnvSource, ...]) -> None:
        self._sources = sources
        self.envs: list[gymnasium.Env[Any, Any] | None] = []
        try:
            for source in sources:
                self.envs.append(build(source, self.envs))
        except BaseException:
            self.close()
            raise

    def reset(self, requests: Mapping[int, Start]) -> dict[int, ResetResult | Failure]:
        """Reset members; one that failed before is built anew."""
        results: dict[int, ResetResult | Failure] = {}
        for index, (seed, options) in requests.items():
            try:
                env = self.envs[index]
                if env is None:
                    env = self.envs[index] = build(self._sources[index], self.envs)
                answer = env.reset(seed=seed, options=None if options is None else dict(options))
                results[index] = reset_result(answer)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not reach the other members
                results[index] = self._discard(index, error)
        return results

    def step(self, actions: Mapping[int, Any]) -> dict[int, StepResult | Failure]:
        """Step members that were reset."""
        results: dict[int, StepResult | Failure] = {}
        for index, action in actions.items():
            try:
                results[index] = step_result(self.envs[index].step(action))  # type: ignore[union-attr]
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not reach the other members
                results[index] = self._discard(index, error)
        return results

    def _discard(self, index: int, error: Exception) -> Failure:
        env, self.envs[index] = self.envs[index], None
        if env is not None:
            close_quietly(env, index)
        return Failure(describe_error(error))

    def close(self) -> None:
        """Close every environment."""
        for index, env in enumerate(self.envs):
            if env is not None:
                close_quietly(env, index)
        self.envs = []


def close_quietly(env: gymnasium.Env[Any, Any], member: int) -> None:
    """Close an environment that nobody needs any more; its complaints go to the log."""
    try:
        env.close()
    except Exception as error:  # noqa: BLE001 - closing one must not keep the others from being closed
        logger.warning("Environment %d could not be closed: %s", member, describe_error(error))
