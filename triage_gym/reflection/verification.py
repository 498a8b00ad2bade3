"""Whether a pivot is worth going back to: tested from the restored point, before a retry begins there.

A pivot may be named too late: the harm is done, and whatever the retry does, it fails. A *check* asks, at the restored
point, whether the goal can still be reached: of the environment's expert (:class:`OracleCheck`), or by a few cheap
rollouts (:class:`RolloutCheck`). :func:`settle_pivot` moves a pivot that fails earlier, by half of the way to the start
each time.

Who retries (PivotRetryWrapper) builds a :class:`PivotPoint` for a turn and owns the way back. A check may step the
environment below the point's ``env`` as it likes; ``again()`` brings it back, as often as it is called, and whoever
asked goes back once more after a check whose ``moves`` is not False. Turns that a check plays are no turns of an
attempt; ``turns`` counts them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import TimeLimit

from triage_gym import registry
from triage_gym.errors import InputError
from triage_gym.reflection.expert import expert_distance, why_no_distance
from triage_gym.restore.stack import layers

Verdict = Literal["none", "passed", "moved", "failed"]
"""``none``: nothing was tested. ``passed``: the pivot as it was named. ``moved``: an earlier one. ``failed``: none."""
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)
Player = Callable[[Any, Mapping[str, Any], np.random.Generator], Any]
"""Gives an action for an observation and its info; what is left to chance comes from the generator."""


@dataclass(frozen=True, slots=True)
class PivotPoint:
    """A turn of a failed attempt that a stack of environment and wrappers has just been brought back to."""

    env: gym.Env[Any, Any]
    """The stack, standing at the point: what a check steps."""
    pivot: int
    """Number of turns before the point."""
    again: Callable[[], tuple[Any, dict[str, Any]]]
    """Brings ``env`` back to the point; gives the observation and the info there."""
    succeeded: Callable[[Mapping[str, Any], float, bool], bool]
    """Whether an attempt that went on from here was a success: of its last info, the sum of its rewards *from the point
    on*, and ``terminated``."""
    turns_left: int | None = None
    """Turns until a time limit ends the attempt; None where no limit is known."""
    name: str = ""
    """Tells the attempt apart from others, so that chance is the same in every process."""


@runtime_checkable
class PivotCheck(Protocol):
    """Says whether a retry from a point can still succeed.

    ``moves`` (optional attribute, True without it) is False for a check that leaves the environment where it is;
    ``turns`` (optional attribute) counts the turns that it has played. ``prepare(env)`` (optional method) raises InputError
    for an environment that it can tell nothing of, before anything is played there.
    """

    def passes(self, point: PivotPoint) -> bool:
        """Whether the goal can be reached from ``point``; raises InputError when it cannot be told here at all."""
        ...


class OracleCheck:
    """The environment's expert reaches the goal from the point within the turns that are left.

    Its distance counts without a limit, so it is held against the limit here.
    """

    moves: Final = False

    def prepare(self, env: gym.Env[Any, Any]) -> None:
        """Refuse an environment without an expert that tells the way, with an InputError."""
        problem = why_no_distance(env)
        if problem:
            raise InputError(f'Expected an expert to ask for verify="oracle", but {problem}; or choose another check')

    def passes(self, point: PivotPoint) -> bool:
        """Whether the expert has a way to the goal that is short enough.

        Raises:
            InputError: If the environment has no expert that tells the way (:func:`~triage_gym.reflection.expert_distance`).
        """
        distance = expert_distance(point.env)
        return distance is not None and (point.turns_left is None or distance <= point.turns_left)


class RolloutCheck:
    """At least one of a few rollouts from the point is a success.

    A restored point has the same chance in it each time, so rollouts differ by their player alone: one that draws
    nothing from its generator is asked for one rollout, since the others would be the same.

    Args:
        k: Most rollouts; the first success ends them.
        player: ``"expert"`` (the environment's ``expert_action()``), ``"random"`` (any valid action), a path
            ``"module:attr"`` to a :data:`Player` or to a class that makes one, or a player.
        max_turns: Most turns of a rollout; None for as many as are left to the attempt.
        seed: Another seed, other chance.

    Raises:
        InputError: For numbers below 1, or a player that cannot be called.
    """

    moves: Final = True

    def __init__(
        self, k: int = 3, player: str | Player = "expert", max_turns: int | None = None, seed: int = 0
    ) -> None:
        for name, value in (("k", k), ("max_turns", 1 if max_turns is None else max_turns)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"Expected `{name}` of the check to be a whole number of at least 1, got {value!r}")
        if player not in ("expert", "random"):
            player = _loaded(player)
        self._k, self._player, self._max_turns, self._seed = k, player, max_turns, seed
        self.turns = 0
        """Turns played since construction."""

    def prepare(self, env: gym.Env[Any, Any]) -> None:
        """Refuse an environment without a limit, or without what the player needs, with an InputError."""
        self._limit(turns_left(env, 0))
        self._of(env)

    def passes(self, point: PivotPoint) -> bool:
        """Whether a rollout from ``point`` succeeds.

        Raises:
            InputError: If neither the check nor the attempt has a turn limit, or the player does not fit the environment.
        """
        limit, play = self._limit(point.turns_left), self._of(point.env)
        for number in range(self._k):
            rng = _generator(point, self._seed, number)
            before = rng.bit_generator.state
            if self._rollout(point, play, rng, limit):
                return True
            if rng.bit_generator.state == before:
                return False
        return False

    def _limit(self, left: int | None) -> int:
        limits = [limit for limit in (self._max_turns, left) if limit is not None]
        if not limits:
            raise InputError(
                "Expected a limit for rollouts from a pivot, got an environment without a time limit; put one inside or "
                "give the check `max_turns`"
            )
        return min(limits)

    def _rollout(self, point: PivotPoint, play: Player, rng: np.random.Generator, most: int) -> bool:
        observation, info = point.again()
        total = 0.0
        for _ in range(most):
            action = play(observation, info, rng)
            if action is None:
                return False
            observation, reward, terminated, truncated, info = point.env.step(action)
            self.turns += 1
            total += float(reward)
            if terminated or truncated:
                return point.succeeded(info, total, bool(terminated))
        return False

    def _of(self, env: gym.Env[Any, Any]) -> Player:
        if self._player == "expert":
            return _expert(env)
        return _random(env) if isinstance(self._player, str) else self._player


def turns_left(env: gym.Env[Any, Any], played: int) -> int | None:
    """Turns until a time limit of the stack ends an attempt that has made ``played`` turns; None without one.

    Read are Gymnasium's ``TimeLimit`` and an environment's own ``max_turns``.
    """
    limits = [int(layer._max_episode_steps) for layer in layers(env) if isinstance(layer, TimeLimit)]
    own = getattr(env.unwrapped, "max_turns", None)
    if isinstance(own, int):
        limits.append(own)
    return max(min(limits) - played, 0) if limits else None


def earlier_pivots(pivot: int) -> Iterator[int]:
    """``pivot``, then half of it, half of that …; the start, 0, comes last."""
    while pivot > 0:
        yield pivot
        pivot //= 2
    yield 0


def settle_pivot(
    check: PivotCheck, pivot: int, go_to: Callable[[int], PivotPoint | None]
) -> tuple[int, Literal["passed", "moved", "failed"]]:
    """The first of ``pivot`` and earlier turns that passes the check, and how it came about.

    Where none passes it is ``pivot`` after all: a check that refuses everything says more about itself.

    Args:
        check: The check.
        pivot: The turn that a reflection named.
        go_to: Brings the stack to a turn; None when that turn cannot be reached, which does not pass. Turns are asked
            for from late to early.

    Returns:
        The turn, and ``"passed"``, ``"moved"`` or ``"failed"``. The stack stands at the turn that was tested last, or
        wherever a check that moves has left it.
    """
    for turn in earlier_pivots(pivot):
        point = go_to(turn)
        if point is not None and check.passes(point):
            return turn, "passed" if turn == pivot else "moved"
    return pivot, "failed"


def _generator(point: PivotPoint, seed: int, number: int) -> np.random.Generator:
    name = json.dumps([point.name, point.pivot]).encode()
    digest = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest())
    return np.random.default_rng([seed, number, digest])


def _loaded(player: Any) -> Player:
    found = registry.load(player) if isinstance(player, str) else player
    made = found() if isinstance(found, type) else found
    if not callable(made):
        raise InputError(
            f'Expected the player of rollouts to be "expert", "random", a path or a function, got {player!r}'
        )
    return made  # type: ignore[no-any-return]


def _expert(env: gym.Env[Any, Any]) -> Player:
    """The environment's expert, its text turned into an index where the stack's actions are numbers."""
    ask = getattr(env.unwrapped, "expert_action", None)
    if not callable(ask):
        raise InputError(
            f'Expected an environment with expert_action() for rollouts of the "expert", got {env.unwrapped}; '
            'choose player="random" or one of your own'
        )

    def play(observation: Any, info: Mapping[str, Any], rng: np.random.Generator) -> Any:
        action = ask()
        commands = list(info.get("admissible_commands", ()))
        if action is None or action in env.action_space:
            return action
        if "action_mask" in info and action in commands:
            return commands.index(action)
        raise InputError(f"Expected the expert's action to be one of {env.action_space}, got {action!r:.80}")

    return play


def _random(env: gym.Env[Any, Any]) -> Player:
    """Any action that the info calls valid, else any of the space."""
    space = deepcopy(env.action_space)  # its generator belongs to whoever samples from the environment's

    def play(observation: Any, info: Mapping[str, Any], rng: np.random.Generator) -> Any:
        if "action_mask" in info:
            valid = np.flatnonzero(info["action_mask"])
            return int(rng.choice(valid)) if len(valid) else None
        commands = info.get("admissible_commands")
        if commands:
            return commands[int(rng.integers(len(commands)))]
        space.seed(int(rng.integers(2**31)))
        return space.sample()

    return play
