"""Where the environments of a vector come from: specs that travel to other processes, or functions.

A *source* is whatever can make one environment: a Gymnasium id (``"triage/ALFWorld-v0"``), a name of our registry
(``"alfworld"``), a ``"module:attr"`` path, a config dict (``{"name": …, **keyword arguments}``), a
:class:`gymnasium.envs.registration.EnvSpec` or a function without arguments. A live environment is not a source: it
could be neither sent to a worker nor built anew after a failure.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
from gymnasium.envs.registration import EnvSpec

from triage_gym import registry
from triage_gym.errors import InputError

EnvSource: TypeAlias = "str | Mapping[str, Any] | EnvSpec | Callable[[], gymnasium.Env[Any, Any]]"

_VERSIONED = re.compile(r"-v\d+$")


def _is_gymnasium_id(name: str) -> bool:
    # Neither "/" nor "-v0" can be part of a module:attr path, and names of our registry have no version.
    return "/" in name or _VERSIONED.search(name) is not None or name in gymnasium.registry


def build(source: EnvSource, others: Iterable[gymnasium.Env[Any, Any] | None] = ()) -> gymnasium.Env[Any, Any]:
    """A new environment from its source.

    Args:
        source: What makes it.
        others: Environments that it must not be, nor wrap: members that shared one would step each other's episodes.

    Raises:
        InputError: If the source is of no known form, names nothing, or makes something that is no environment or one
            of ``others``.
        Exception: Whatever the environment's own constructor raises.
    """
    env: Any
    if isinstance(source, EnvSpec):
        env = gymnasium.make(source)
    elif isinstance(source, str):
        env = gymnasium.make(source) if _is_gymnasium_id(source) else registry.make("envs", source)
    elif isinstance(source, Mapping):
        name = source.get("name")
        if isinstance(name, str) and _is_gymnasium_id(name):
            env = gymnasium.make(name, **{key: value for key, value in source.items() if key != "name"})
        else:
            env = registry.make("envs", source)
    elif callable(source):
        env = source()
    else:
        raise InputError(_expected(source))
    if not isinstance(env, gymnasium.Env):
        raise InputError(f"Expected {source!r} to make a gymnasium.Env, got {type(env).__name__}")
    if any(other is not None and other.unwrapped is env.unwrapped for other in others):
        raise InputError(f"Expected {source!r} to make a new environment each time, got one that another member has")
    return env


def as_sources(env: EnvSource | Sequence[EnvSource], num_envs: int | None) -> tuple[EnvSource, ...]:
    """One source a member, from one source and a number or from a sequence of sources.

    Raises:
        InputError: If the number is missing, not positive or contradicts the sequence, or for a live environment.
    """
    if isinstance(env, Sequence) and not isinstance(env, str):
        sources = tuple(env)
        if num_envs is not None and num_envs != len(sources):
            raise InputError(
                f"Expected `num_envs` to be {len(sources)}, the number of sources, got {num_envs}; drop it"
            )
    else:
        if num_envs is None:
            raise InputError("Expected `num_envs` with a single source, got None; say how many environments to make")
        sources = (env,) * num_envs
    if not sources:
        raise InputError(f"Expected at least one environment, got {num_envs if num_envs is not None else 'no source'}")
    for source in sources:
        if isinstance(source, gymnasium.Env) or not (isinstance(source, str | Mapping | EnvSpec) or callable(source)):
            raise InputError(_expected(source))
    return sources


def _expected(source: object) -> str:
    hint = "; pass a function that makes it" if isinstance(source, gymnasium.Env) else ""
    return (
        "Expected an environment id, a registered name, a module:attr path, a config dict, an EnvSpec or a function "
        f"that makes an environment, got {type(source).__name__}{hint}"
    )


def describe_error(error: BaseException) -> str:
    """Type, message and place of an exception on one line, the same in every process; raises nothing itself."""
    frames = traceback.extract_tb(error.__traceback__)
    place = ""
    if frames:
        file = frames[-1].filename.replace("\\", "/").rsplit("/", 1)[-1]
        place = f" ({file}:{frames[-1].lineno} in {frames[-1].name})"
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - some exceptions cannot say what they are
        message = "(no message: its own __str__ failed)"
    return f"{type(error).__name__}: {message}{place}"
