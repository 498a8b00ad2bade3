"""What an attempt leaves behind: how it began and what each turn answered. Enough to walk it again and to compare.

The portable form, :class:`Portable`, is the task, the seed and the commands as JSON: replaying is deterministic, so it
brings any process to the same point. Native states are only a cache of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import gymnasium as gym
import numpy as np

from triage_gym.errors import InputError, RestoreError
from triage_gym.records import SCHEMA, Snapshot
from triage_gym.restore.stack import put_rng
from triage_gym.restore.values import fingerprint

Reset: TypeAlias = tuple[Any, dict[str, Any]]
_OUTCOME: Final = ("success", "is_success", "score")
_FIELDS: Final = ("schema", "task_id", "seed", "commands", "options", "rng")


@dataclass(slots=True)
class Start:
    """How an attempt's first turn came about."""

    seed: int | None
    options: dict[str, Any] | None
    rng: dict[str, Any] | None
    """State of the environment's generator before a reset without a seed."""
    observation: Any
    info: dict[str, Any]
    rng_after: dict[str, Any] | None
    """State of the generator after that reset."""
    carried: list[tuple[gym.Env[Any, Any], Any]]
    """Gymnasium's wrappers that remember something, each with its state before the reset."""

    @property
    def task_id(self) -> str:
        """The environment's name of the task instance, or an empty string."""
        found = self.info.get("task_id", "")
        return found if isinstance(found, str) else ""


@dataclass(slots=True)
class Turn:
    """One step: what was done and everything about the answer that a replay is held against."""

    action: Any
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    admissible: tuple[Any, ...] | None
    """``info["admissible_commands"]``, when the environment gives them."""
    invalid: bool | None
    """``info["invalid_action"]``, when the environment gives it."""
    outcome: tuple[str, ...] = ()
    """What the info told of the outcome, see :func:`outcome_of`."""


def admissible_of(info: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The admissible commands of an info as a tuple of its own, None when there are none in it."""
    commands = info.get("admissible_commands")
    return None if commands is None else tuple(commands)


def invalid_of(info: Mapping[str, Any]) -> bool | None:
    """``info["invalid_action"]``, None when there is none."""
    return bool(info["invalid_action"]) if "invalid_action" in info else None


def outcome_of(info: Mapping[str, Any]) -> tuple[str, ...]:
    """What an info tells of the outcome (``success``, ``is_success``, ``score``), in a form that is compared exactly."""
    return tuple(f"{key}={_number(info[key])}" for key in _OUTCOME if key in info)


def _number(value: Any) -> str:
    return repr(float(value)) if isinstance(value, bool | int | float | np.generic) else repr(value)


@dataclass(frozen=True, slots=True)
class Portable:
    """A point of an episode in a form that any process can read: the task, the seed and the commands so far."""

    task_id: str = ""
    seed: int | None = None
    commands: tuple[str | int, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the reset that began the episode."""
    rng: Mapping[str, Any] | None = None
    """State of the environment's generator before that reset, when it had no seed."""

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads back."""
        return {
            "schema": SCHEMA,
            "task_id": self.task_id,
            "seed": self.seed,
            "commands": list(self.commands),
            "options": dict(self.options),
            "rng": None if self.rng is None else dict(self.rng),
        }

    @classmethod
    def from_json(cls, data: Any) -> Portable:
        """The point written by :meth:`to_json`.

        Raises:
            InputError: For anything else; the message names the field.
        """
        if not isinstance(data, Mapping) or sorted(data) != sorted(_FIELDS) or data["schema"] != SCHEMA:
            raise InputError(f'Expected a point with the fields {_FIELDS} and "schema": {SCHEMA}, got {data!r}')
        seed, commands = data["seed"], data["commands"]
        if not isinstance(data["task_id"], str):
            raise InputError(f"Expected point.task_id to be text, got {data['task_id']!r}")
        if not (seed is None or (isinstance(seed, int) and not isinstance(seed, bool))):
            raise InputError(f"Expected point.seed to be a whole number or null, got {seed!r}")
        if not isinstance(commands, list) or not all(type(c) in (str, int) for c in commands):
            raise InputError(f"Expected point.commands to be a list of text or whole numbers, got {commands!r}")
        if not isinstance(data["options"], Mapping) or not isinstance(data["rng"], Mapping | None):
            raise InputError("Expected point.options to be an object and point.rng to be an object or null")
        return cls(data["task_id"], seed, tuple(commands), dict(data["options"]), data["rng"])

    def replay(self, env: gym.Env[Any, Any]) -> Reset:
        """Begin ``env`` anew and walk to this point.

        Returns:
            The observation and the info that stand at the point.

        Raises:
            RestoreError: If an episode of ``env`` ends on the way.
        """
        if self.seed is None and self.rng is not None:
            put_rng(env, dict(self.rng))
        observation, info = env.reset(seed=self.seed, options=dict(self.options) or None)
        for number, command in enumerate(self.commands):
            observation, _, terminated, truncated, info = env.step(command)
            if (terminated or truncated) and number + 1 < len(self.commands):
                raise RestoreError(
                    f"Expected {len(self.commands)} commands to fit in one episode of {env}, but it ended after "
                    f"{number + 1}; the environment or its time limit is not the one that the point was taken from"
                )
        return observation, info


def portable(start: Start, turns: list[Turn]) -> Portable:
    """The portable form of the point after ``turns``.

    Raises:
        InputError: If an action is neither text nor a whole number.
    """
    commands: list[str | int] = []
    for turn in turns:
        action = int(turn.action) if isinstance(turn.action, np.integer) else turn.action
        if type(action) not in (str, int):
            raise InputError(f"Expected actions that are text or whole numbers, got {type(action).__name__}")
        commands.append(action)
    return Portable(start.task_id, start.seed, tuple(commands), dict(start.options or {}), start.rng)


def observed_state(env: gym.Env[Any, Any]) -> Any:
    """What the bare environment says of its state, or None when it offers none."""
    get_state = getattr(env.unwrapped, "get_state", None)
    return get_state() if callable(get_state) else None


def restore(env: gym.Env[Any, Any], snapshot: Snapshot) -> Reset:
    """Bring ``env``, in any process, to the point of a snapshot with a portable payload, and check that it is there.

    Args:
        env: The same stack that the snapshot was taken from, or one made in the same way.
        snapshot: As taken by :meth:`triage_gym.restore.restorer.Restorer.snapshot`.

    Returns:
        The observation and the info at the point.

    Raises:
        InputError: If the payload is not a portable point.
        RestoreError: If the point that was reached is not the recorded one.
    """
    observation, info = Portable.from_json(snapshot.payload).replay(env)
    found = fingerprint(observation, observed_state(env))
    if found != snapshot.fingerprint:
        raise RestoreError(
            f"Expected the point {snapshot.fingerprint}, but replaying its commands in {env} led to {found}; "
            "the environment is not deterministic, or not the one that the snapshot was taken from"
        )
    return observation, info
