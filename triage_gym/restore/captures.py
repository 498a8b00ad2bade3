"""Two ways of taking a whole stack's state and putting it back: the environment's own, and a copy.

Both leave every layer the object it was (only its contents change), so that references held elsewhere stay good, and
both bring the environment's generator back in place.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final, Protocol

import gymnasium as gym
from gymnasium.utils import EzPickle

from triage_gym.protocols import Restorable
from triage_gym.records import RestoreStrategy
from triage_gym.restore.stack import (
    episode_attributes,
    layers,
    put_layer,
    put_rng,
    take_layer,
    take_rng,
    unknown_wrappers,
)
from triage_gym.restore.values import Kept

_KEPT: Final = ("env", "_cached_spec")


class Capture(Protocol):
    """Takes the state of a stack and puts it back."""

    name: RestoreStrategy

    def take(self) -> Any:
        """The state now, independent of the stack."""
        ...

    def put(self, payload: Any) -> None:
        """Go back to a state of :meth:`take`; the payload stays good for another time."""
        ...

    def agrees(self, payload: Any) -> bool:
        """Whether the environment, asked for its state, says what ``payload`` says."""
        ...


def why_not_native(env: gym.Env[Any, Any]) -> str:
    """Why the stack has no native state; empty when it has one."""
    if not isinstance(env.unwrapped, Restorable):
        return f"{type(env.unwrapped).__qualname__} has no get_state and set_state"
    unknown = unknown_wrappers(env)
    if unknown:
        return f"the state of {', '.join(unknown)} is unknown (give it get_state and set_state)"
    return ""


def why_not_copy(env: gym.Env[Any, Any]) -> str:
    """Why the stack must not be copied; empty when it may be tried."""
    for layer in layers(env):
        kind = type(layer)
        if hasattr(layer, "__deepcopy__") or kind.__reduce_ex__ is not object.__reduce_ex__:
            return f"{kind.__qualname__} decides itself how it is copied"
        held = [type(x).__qualname__ for x in (layer, *vars(layer).values()) if isinstance(x, EzPickle)]
        if held:
            return f"{held[0]} is an EzPickle, whose copies lose their state"
    return ""


class NativeCapture:
    """The environment's own ``get_state`` and ``set_state``, with the state of the wrappers between."""

    name: RestoreStrategy = "native"

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = env
        # An outer layer first: a wrapper whose state covers the layers below is corrected by theirs.
        self._layers = [layer for layer in layers(env) if episode_attributes(layer) != ()]

    def take(self) -> Any:
        """The states of all layers, outermost first, and of the generator."""
        return [Kept(take_layer(layer)) for layer in self._layers], take_rng(self._env)

    def put(self, payload: Any) -> None:
        """Set every layer, then the generator."""
        states, rng = payload
        for layer, state in zip(self._layers, states, strict=True):
            put_layer(layer, state.value(), fresh=True)
        put_rng(self._env, rng)

    def agrees(self, payload: Any) -> bool:
        """Whether ``get_state`` of the bare environment gives back what was recorded."""
        kept: Kept = payload[0][-1]
        return kept.same_as(take_layer(self._layers[-1]))


class CopyCapture:
    """Deep copies of what each layer holds, made with one memo, so that what layers share stays shared.

    A layer with a ``__getstate__`` and ``__setstate__`` of its own says itself what it holds.
    """

    name: RestoreStrategy = "copy"

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = env
        self._layers = list(layers(env))

    def take(self) -> Any:
        """Copies of all layers' contents and the state of the generator."""
        return deepcopy([self._contents(layer) for layer in self._layers], self._memo()), take_rng(self._env)

    def put(self, payload: Any) -> None:
        """Fill every layer with a copy of the recorded contents."""
        contents, rng = payload
        for layer, own in zip(self._layers, deepcopy(contents, self._memo()), strict=True):
            held = vars(layer)
            if _says_itself(layer):
                layer.__setstate__(own)  # type: ignore[attr-defined]
                continue
            if episode_attributes(layer) is None:
                for name in [name for name in held if name not in _KEPT and name not in own]:
                    del held[name]
            held.update(own)
        put_rng(self._env, rng)

    def agrees(self, payload: Any) -> bool:
        """Nothing can be asked of an environment without ``get_state``; the replayed turns decide."""
        return True

    @staticmethod
    def _contents(layer: gym.Env[Any, Any]) -> Any:
        names = episode_attributes(layer)
        if _says_itself(layer):
            return layer.__getstate__()
        held = vars(layer)
        if names is None:
            return {name: value for name, value in held.items() if name not in _KEPT}
        return {name: held[name] for name in names if name in held}

    def _memo(self) -> dict[int, Any]:
        """What must stay the same object: the layers, the action spaces and the generator."""
        kept: list[Any] = list(self._layers)
        for layer in self._layers:
            kept += [layer.spec, vars(layer).get("action_space"), vars(layer).get("_action_space")]
        kept.append(self._env.unwrapped._np_random)
        return {id(x): x for x in kept if x is not None}


def _says_itself(layer: gym.Env[Any, Any]) -> bool:
    return type(layer).__getstate__ is not object.__getstate__ and hasattr(layer, "__setstate__")
