"""How far the goal is, by the environment's own expert, without disturbing the episode that runs.

An environment may have ``expert_distance()`` (turns to the goal, None when it is out of reach), which is asked; or only
``expert_action()`` (the next good action, None when there is none), and then the expert's way is walked from the state
where the episode stands and the state is put back, generator included. Either counts without a turn limit.

What it leaves to you: an expert that is good. A distance is that of *its* way, and one that needs chance to help may call
a goal out of reach that is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import gymnasium as gym
from gymnasium.error import ResetNeeded

from triage_gym.errors import InputError, StateError
from triage_gym.protocols import Restorable, TellsOutcome
from triage_gym.restore.stack import put_rng, take_rng
from triage_gym.restore.values import same_state

MOST_TURNS: Final = 100
"""Longest way of an expert that is walked."""


def expert_distance(env: gym.Env[Any, Any], most: int = MOST_TURNS) -> int | None:
    """Turns that the environment's expert needs to the goal from where the episode stands.

    0 when it is reached; None when it is out of reach, or when the expert has no way of at most ``most`` turns. Wrappers
    are left alone: a time limit outside of the environment does not count, nor does its own ``max_turns``. Where there
    is only an ``expert_action``, an episode that the environment has ended cannot be walked on: that is 0 when its
    ``outcome()`` tells a success, else None.

    Args:
        env: The environment, with wrappers or without.
        most: Longest way that is walked where there is no ``expert_distance()``.

    Raises:
        InputError: If the environment has no expert, or one without a state to go back to; or ``most`` is negative.
        StateError: If the state did not come back from a walk.
        ResetNeeded: Before the first reset.
    """
    if most < 0:
        raise InputError(f"Expected `most` to be at least 0, got {most}")
    tells = method_of(env, "expert_distance")
    if tells is not None:
        found = tells()
        if found is not None and (isinstance(found, bool) or int(found) != found or found < 0):
            raise InputError(f"Expected expert_distance() to tell turns of 0 or more, or None, got {found!r}")
        return None if found is None else int(found)
    problem = why_no_distance(env)
    if problem:
        raise InputError(f"Expected an environment whose expert tells the way to the goal, but {problem}")
    return _walked(env.unwrapped, most)


def why_no_distance(env: gym.Env[Any, Any]) -> str:
    """Why :func:`expert_distance` cannot be asked of this environment; empty when it can."""
    if method_of(env, "expert_distance") is not None:
        return ""
    base = env.unwrapped
    if not callable(getattr(base, "expert_action", None)):
        return f"{base} has neither expert_distance() nor expert_action(); add one of them"
    if not isinstance(base, Restorable):
        return f"{base} has expert_action(), but no get_state() and set_state() to come back from its way; add them"
    return ""


def method_of(env: gym.Env[Any, Any], name: str) -> Callable[[], Any] | None:
    """The method that an environment may have under ``name``, looked for through the wrappers; None without."""
    found = env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
    return found if callable(found) else None


def _walked(base: Any, most: int) -> int | None:
    """Length of the expert's way, walked on the bare environment, which then stands where it stood."""
    if isinstance(base, TellsOutcome) and base.outcome()[0]:
        return 0
    # A state may leave the generator to whoever keeps it.
    state, rng = base.get_state(), take_rng(base)
    limit = getattr(base, "max_turns", None)
    try:
        if limit is not None:
            base.max_turns = None
        return _to_the_goal(base, most)
    finally:
        if limit is not None:
            base.max_turns = limit
        base.set_state(state)
        put_rng(base, rng)
        if not same_state(base.get_state(), state):
            raise StateError(f"Expected {base} to come back to its state after a walk of its expert, got another state")


def _to_the_goal(base: Any, most: int) -> int | None:
    total = 0.0
    for turns in range(1, most + 1):
        action = base.expert_action()
        if action is None:
            return None
        try:
            _, reward, terminated, truncated, info = base.step(action)
        except ResetNeeded:  # the episode is over
            return None
        total += float(reward)
        if terminated or truncated:
            return turns if succeeded(info, total, terminated=bool(terminated)) else None
    return None


def succeeded(info: Mapping[str, Any], total_reward: float, *, terminated: bool) -> bool:
    """Whether a last step ended its episode well; an environment that tells no success is read by its rewards."""
    told = info.get("success", info.get("is_success"))
    return terminated and total_reward > 0 if told is None else bool(told)
