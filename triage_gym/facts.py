"""What the environment itself says of a turn: did its state change, was something learnt, is the goal nearer.

Facts are for oracles and for checks of what a judge says (:class:`~triage_gym.protocols.Facts`). They are measured on the
live environment, between two steps, and travel with the segment in ``info["state_facts"]``. An environment says what it
can by methods of its own, all optional, looked for through the wrappers:

- ``task_state()``: the state of the task as JSON values without clock, generator, counters and text, so that what does
  nothing leaves it equal; None where it cannot be told. Without it ``changed`` is unknown.
- ``belief()``: a list of JSON values, one for each piece of what was hidden and is shown now, or has been shown by now.
  A turn that shows a piece which the attempt has not shown before has taught something. An empty list is an
  environment that hides nothing; without the method an observation in new words counts as news.
- ``expert_distance()`` or ``expert_action()``: see :mod:`triage_gym.reflection.expert`. Of one that has only the latter,
  the last turn before its own limit is not measured: its episode cannot be walked on.

Both must follow from what ``get_state`` gives, so that they come back with ``set_state``; what the last observation shows
does, where the observation is part of the state. Nothing is asked that nobody measures.

What it leaves to you: that those methods tell the truth. Nothing measured here is ever put into a prompt.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Final, Literal, get_args

import gymnasium as gym

from triage_gym.errors import InputError
from triage_gym.protocols import OUT_OF_REACH, Facts
from triage_gym.reflection.expert import expert_distance, method_of, why_no_distance

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
        unknown = sorted(set(map(str, names)) - set(FACT_NAMES))
        if unknown or isinstance(names, str):
            raise InputError(f"Expected facts out of {FACT_NAMES}, got {names!r}")
        problem = why_no_distance(env) if "distance" in names else ""
        if problem:
            raise InputError(f"Expected an environment whose expert tells the way to the goal, but {problem}")
        self._env, self._names = env, frozenset(names)
        self._turn = 0
        self._state: str | None = None
        self._distance: int | None = None
        self._shown: dict[str, int] = {}
        """By piece of what was hidden, the turn that showed it first."""

    def begin(self, observation: str, prefix: int = 0) -> None:
        """Take up a reset.

        Args:
            observation: The first one, or that at the end of the prefix.
            prefix: Turns that a retry kept of the attempt before: what they had shown stays known.
        """
        self._shown = {piece: turn for piece, turn in self._shown.items() if turn <= prefix} if prefix else {}
        self._turn = prefix
        self._look(observation)
        self._measure(cut=False)

    def step(self, observation: str, *, cut: bool = False, won: bool | None = None) -> Facts:
        """The facts of the turn that led to ``observation``.

        Args:
            observation: The answer to the action.
            cut: Whether a turn limit has ended the attempt here.
            won: Whether the environment has ended it here with success; None while it has not ended it. An expert that
                has only ``expert_action()`` cannot walk on from an end.

        Raises:
            InputError: When a method of the environment gives something else than it should.
            StateError: When the environment did not come back from a walk of its expert.
        """
        state, before = self._state, self._distance
        self._turn += 1
        learnt = self._look(observation)
        self._measure(cut=cut, won=won)
        changed = None if state is None or self._state is None else self._state != state
        return Facts(changed, learnt, before, self._distance)

    def _look(self, observation: str) -> bool | None:
        """Whether the environment shows what the attempt had not shown before; None when nobody asks."""
        if "learnt" not in self._names:
            return None
        belief = self._said("belief")
        if belief is not None and not isinstance(belief, list | tuple):
            raise InputError(f"Expected belief() to give a list of JSON values, got {belief!r:.120}")
        pieces = {observation} if belief is None else {_text(piece, "belief") for piece in belief}
        new = pieces - self._shown.keys()
        self._shown.update(dict.fromkeys(new, self._turn))
        return bool(new)

    def _measure(self, *, cut: bool, won: bool | None = None) -> None:
        if "changed" in self._names:
            state = self._said("task_state")
            self._state = None if state is None else _text(state, "task_state")
        if "distance" in self._names:
            walks = method_of(self._env, "expert_distance") is None
            if walks and won is not None:
                self._distance = 0 if won else OUT_OF_REACH
                return
            found = expert_distance(self._env)
            unknown = found is None and cut and walks
            self._distance = OUT_OF_REACH if found is None and not unknown else found

    def _said(self, method: str) -> Any:
        """What the environment says when it is asked; None when it has no such method."""
        asked = method_of(self._env, method)
        return None if asked is None else asked()


def _text(value: Any, method: str) -> str:
    """JSON values as text that is equal when they are, and no longer changes with them."""
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"Expected {method}() to give JSON values, got {value!r:.120} ({error})") from error
