"""A stack of wrappers over an environment: walking it, and taking its state out and in, layer by layer.

Only what belongs to the running episode is taken: a time limit's counter, the frames of a frame stack, running
statistics that shape what the agent sees. What counts over episodes (the queues of ``RecordEpisodeStatistics``) and the
action space (its generator belongs to whoever samples from it) stay as they are.

Gymnasium's wrappers are known by name, so that none is imported for it. A wrapper is asked when it has
``get_layer_state`` and ``set_layer_state``, or ``get_state`` and ``set_state``; the first pair does not hide the
environment's own ``get_state`` from ``get_wrapper_attr``. Any other wrapper is unknown, and the stack has no native state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import TimeLimit

from triage_gym.errors import InputError
from triage_gym.restore.values import independent

_STATELESS: Final = (
    "AddRenderObservation", "ArrayConversion", "ClipAction", "ClipReward", "DiscretizeAction", "DiscretizeObservation",
    "DtypeObservation", "FilterObservation", "FlattenObservation", "GrayscaleObservation", "HumanRendering",
    "JaxToNumpy", "JaxToTorch", "MaxAndSkipObservation", "NumpyToTorch", "PassiveEnvChecker", "RepeatAction",
    "RescaleAction", "RescaleObservation", "ReshapeObservation", "ResizeObservation", "TransformAction",
    "TransformObservation", "TransformReward",
)  # fmt: skip
EPISODE_ATTRIBUTES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(_STATELESS, ()),
    "DelayObservation": ("observation_queue",),
    "FrameStackObservation": ("obs_queue", "padding_value"),
    "NormalizeObservation": ("obs_rms",),
    "NormalizeReward": ("return_rms", "discounted_reward"),
    "OrderEnforcing": ("_has_reset",),
    "RecordEpisodeStatistics": ("episode_returns", "episode_lengths"),
    "RenderCollection": ("frame_list",),
    "StickyAction": ("last_action", "is_sticky_actions", "num_repeats", "repeats_taken"),
    "TimeAwareObservation": ("timesteps",),
    "TimeLimit": ("_elapsed_steps",),
}
"""Attributes of Gymnasium's own wrappers that belong to the running episode."""


def layers(env: gym.Env[Any, Any]) -> Iterator[gym.Env[Any, Any]]:
    """Every layer of the stack, outermost first; the last one is the bare environment."""
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env
    yield env


def has_time_limit(env: gym.Env[Any, Any]) -> bool:
    """Whether the stack ends its episodes by itself.

    By a ``TimeLimit`` inside, by a limit that its spec declares, or by one of the environment's own: ``max_turns``.
    """
    if any(isinstance(layer, TimeLimit) for layer in layers(env)):
        return True
    if getattr(env.unwrapped, "max_turns", None) is not None:
        return True
    return env.spec is not None and env.spec.max_episode_steps is not None


def episode_attributes(layer: gym.Env[Any, Any]) -> tuple[str, ...] | None:
    """The attributes of one of Gymnasium's wrappers that belong to the episode; None when the wrapper is unknown."""
    kind = type(layer)
    if not kind.__module__.startswith("gymnasium.wrappers."):
        return None
    return EPISODE_ATTRIBUTES.get(kind.__qualname__)


def unknown_wrappers(env: gym.Env[Any, Any]) -> list[str]:
    """Names of the wrappers of the stack whose state cannot be taken without copying them whole."""
    return [
        type(layer).__qualname__
        for layer in layers(env)
        if isinstance(layer, gym.Wrapper) and episode_attributes(layer) is None and _doors(layer) is None
    ]


def take_layer(layer: gym.Env[Any, Any]) -> Any:
    """The state of one layer, independent of it.

    Raises:
        InputError: If the layer is unknown.
    """
    names = episode_attributes(layer)
    if names is None:
        return _open(layer)[0]()
    return {name: independent(getattr(layer, name)) for name in names if hasattr(layer, name)}


def put_layer(layer: gym.Env[Any, Any], state: Any, *, fresh: bool = False) -> None:
    """Bring one layer back to a state of :func:`take_layer`, which stays good for another time unless it is ``fresh``.

    Raises:
        InputError: If the layer is unknown.
    """
    if not fresh:
        state = independent(state)
    if episode_attributes(layer) is None:
        _open(layer)[1](state)
        return
    for name, value in state.items():
        setattr(layer, name, value)


def _doors(layer: gym.Env[Any, Any]) -> tuple[Callable[[], Any], Callable[[Any], None]] | None:
    """How the layer gives and takes its own state, when it does."""
    for get, put in (("get_layer_state", "set_layer_state"), ("get_state", "set_state")):
        door_out, door_in = getattr(layer, get, None), getattr(layer, put, None)
        if callable(door_out) and callable(door_in):
            return door_out, door_in
    return None


def _open(layer: gym.Env[Any, Any]) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    doors = _doors(layer)
    if doors is None:
        raise InputError(
            f"Expected {type(layer).__qualname__} to have get_layer_state and set_layer_state, got a layer whose state "
            "is unknown; add them"
        )
    return doors


def take_rng(env: gym.Env[Any, Any]) -> dict[str, Any] | None:
    """The state of the environment's generator, JSON-able; None when it has none yet."""
    generator = env.unwrapped._np_random
    return None if generator is None else dict(generator.bit_generator.state)


def put_rng(env: gym.Env[Any, Any], state: dict[str, Any] | None) -> None:
    """Bring the environment's generator back in place, so that whoever holds it (and its seed) keeps the right one."""
    if state is not None:
        bits = env.unwrapped.np_random.bit_generator
        # Most environments draw at a reset only. Other generators than Gymnasium's hold arrays, which compare otherwise.
        if not isinstance(bits, np.random.PCG64) or bits.state != state:
            bits.state = independent(state)
