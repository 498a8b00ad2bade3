"""The state of an environment's random generator, checked before anything is changed by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding

from triage_gym.errors import StateError

KEYS = frozenset({"np_random", "np_random_seed"})


def get(env: gymnasium.Env[Any, Any]) -> dict[str, Any]:
    """Generator and seed of ``env`` as JSON-able data, under the names of :data:`KEYS`."""
    rng = env._np_random
    return {
        "np_random": None if rng is None else dict(rng.bit_generator.state),
        "np_random_seed": env._np_random_seed,
    }


def check(state: Mapping[str, Any], env: gymnasium.Env[Any, Any] | None = None) -> np.random.Generator | None:
    """A generator in the state that :func:`get` wrote; None for None.

    Args:
        state: What holds it.
        env: Whose generator is the answer when it is in that state already, which saves making one.

    Raises:
        StateError: If the two entries are no state of a generator of Gymnasium.
    """
    seed = state["np_random_seed"]
    if seed is not None and type(seed) is not int:
        raise StateError(f"Expected np_random_seed of the state to be an integer or None, got {seed!r:.80}")
    if state["np_random"] is None:
        return None
    running = None if env is None else env._np_random
    if running is not None and _is_in(running, state["np_random"]):
        return running
    rng, _ = seeding.np_random(0)
    try:
        rng.bit_generator.state = state["np_random"]
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise StateError(
            f"Expected the state of a PCG64 generator as np_random, got {str(state['np_random'])[:80]}"
        ) from error
    return rng


def _is_in(rng: np.random.Generator, state: Any) -> bool:
    return isinstance(rng.bit_generator, np.random.PCG64) and rng.bit_generator.state == state


def put(env: gymnasium.Env[Any, Any], rng: np.random.Generator | None, seed: int | None) -> None:
    """Make ``rng`` the generator of ``env``, in place: whoever else holds the generator keeps the one that is used."""
    if rng is None:
        env._np_random = None
    elif env._np_random is None:
        env._np_random = rng
    elif env._np_random is not rng:
        env._np_random.bit_generator.state = rng.bit_generator.state
    env._np_random_seed = seed
