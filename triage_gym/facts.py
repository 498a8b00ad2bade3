"""What the environment itself says of a turn: did its state change, was something learnt, is the goal nearer.

Facts are for oracles and for checks of what a judge says (:class:`~triage_gym.protocols.Facts`). They are measured on the
live environment, between two steps, and travel with the segment in ``info["state_facts"]``. An environment says what it
can by methods of its own, all optional, looked for through the wrappers:

- ``task_state()``: the state of the task as JSON values, clock and generator left out; without it ``changed`` is unknown.
- ``belief()``: what the agent has been shown of what was hidden, as JSON values that only change when it learns something;
  without it an observation that the attempt has not shown before counts as news.
- ``expert_distance()`` or ``expert_action()``: see :mod:`triage_gym.reflection.expert`.

What it leaves to you: that those methods tell the truth. Nothing measured here is ever put into a prompt.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, Literal, get_args

import gymnasium as gym

from triage_gym.errors import InputError
from triage_gym.protocols import OUT_OF_REACH, Facts
from triage_gym.reflection.expert import expert_distance, why_no_distance

FactName = Literal["changed", "learnt", "distance"]
"""``distance`` stands for both ``before`` and ``after``."""
FACT_NAMES: Final[tuple[FactName, ...]] = get_args(FactName)


class FactsMeter:
    """Measures the facts of each turn of an environment.

    Args:
        env: The environment, with wrappers or without. It is never stepped; an expert's way is walked and undone.
        names: What to measure.

    Raises:
        InputError: For an unknown name, or ``distance`` of an environment without an expert.
    """

    def __init__(self, env: gym.Env[Any, Any], names: Collection[FactName] = FACT_NAMES) -> None:
        unknown = sorted(set(names) - set(FACT_NAMES))
        if unknown or isinstance(names, str):
            raise InputError(f"Expected facts out of {FACT_NAMES}, got {names!r}")
        problem = why_no_distance(env) if "distance" in names else ""
        if problem:
            raise InputError(f"Expected an environment whose expert tells the way to the goal, but {problem}")
        self._env, self._names = env, frozenset(names)
        self._state: Any = None
        self._belief: Any = None
        self._distance: int | None = None
        self._seen: list[str] = []

    def begin(self, observation: str, prefix: int = 0) -> None:
        """Take up a reset.

        Args:
            observation: The first one, or that at the end of the prefix.
            prefix: Turns that a retry kept of the attempt before.
        """
        self._seen = self._seen[: prefix + 1] if prefix else [observation]
        self._measure()

    def step(self, observation: str) -> Facts:
        """The facts of the turn that led to ``observation``."""
        state, belief, before = self._state, self._belief, self._distance
        known = observation in self._seen
        self._seen.append(observation)
        self._measure()
        changed = None if state is None or self._state is None else self._state != state
        learnt: bool | None = None
        if "learnt" in self._names:
            learnt = not known if belief is None else self._belief != belief
        return Facts(changed, learnt, before, self._distance)

    def _measure(self) -> None:
        if "changed" in self._names:
            self._state = self._said("task_state")
        if "learnt" in self._names:
            self._belief = self._said("belief")
        if "distance" in self._names:
            distance = expert_distance(self._env)
            self._distance = OUT_OF_REACH if distance is None else distance

    def _said(self, method: str) -> Any:
        """What the environment says when it is asked; None when it has no such method."""
        if not self._env.has_wrapper_attr(method):
            return None
        return self._env.get_wrapper_attr(method)()
