"""HistoryWrapper: the task, the last turns and the remark as one text, which is what a language model is asked with.

What it leaves to you: the order. Outermost, it changes only what the agent sees; judges and records below keep the
environment's own observations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, SupportsFloat

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from triage_gym.errors import InputError
from triage_gym.restore.values import text_of
from triage_gym.spaces import UnicodeText
from triage_gym.wrappers._attempt import kept_prefix, retry_facts, text_in

_CUT: Final = "…"
LEAST: Final = 80
"""Fewest characters that a prompt may be limited to."""


class HistoryWrapper(gym.Wrapper[str, Any, Any, Any], RecordConstructorArgs):
    """Makes each observation a prompt: the task, a remark if there is one, and the last turns.

    ::

        Task: Put a clean mug in the coffeemachine.
        Remark on an earlier attempt: Turn 4 was a step back.

        > go to sinkbasin 1
        You arrive at sinkbasin 1. …

    The task is ``info["task"]`` of the reset, or the first observation; the remark is ``info["reflection"]`` of a
    retry. The first observation stands before the turns as long as all of them are shown. Where the prompt would be
    longer than ``max_characters``, the oldest turns are left out; the task and the remark get at most half, and the
    newest observation is cut only when it does not fit beside the first quarter of what is left for its action.

    Args:
        env: Any environment whose observations and actions have a text form.
        turns: Most turns (action and answer) to show.
        max_characters: Longest prompt, in code points.

    Raises:
        InputError: If ``turns`` is not positive or ``max_characters`` is below 80.
    """

    def __init__(self, env: gym.Env[Any, Any], turns: int = 5, max_characters: int = 8000) -> None:
        if turns < 1:
            raise InputError(f"Expected at least 1 turn, got {turns}")
        if max_characters < LEAST:
            raise InputError(f"Expected `max_characters` to be at least {LEAST}, got {max_characters}")
        RecordConstructorArgs.__init__(self, turns=turns, max_characters=max_characters)
        gym.Wrapper.__init__(self, env)
        self.observation_space = UnicodeText(max_characters)
        self._most, self._room = turns, max_characters
        self._task = self._remark = self._start = ""
        self._turns: list[tuple[str, str]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Reset; after a retry the turns of the prefix are shown."""
        observation, info = self.env.reset(seed=seed, options=options)
        facts = retry_facts(info)
        prefix = kept_prefix(facts, len(self._turns))
        del self._turns[prefix:]
        if not prefix:
            self._start = text_of(observation)
        self._task = text_in(info, "task") or self._start
        self._remark = text_in(facts, "reflection")
        return self._prompt(), info

    def step(self, action: Any) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; the observation is the prompt with this turn at its end."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._turns.append((text_of(action), text_of(observation)))
        return self._prompt(), reward, terminated, truncated, info

    def get_layer_state(self) -> dict[str, Any]:
        """What prompts are made of."""
        return {"task": self._task, "remark": self._remark, "start": self._start, "turns": list(self._turns)}

    def set_layer_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a state of :meth:`get_layer_state`."""
        self._task, self._remark, self._start = state["task"], state["remark"], state["start"]
        self._turns = [(action, observation) for action, observation in state["turns"]]

    def _prompt(self) -> str:
        head = f"Task: {self._task}\n"
        if self._remark:
            head += f"Remark on an earlier attempt: {self._remark}\n"
        head = _cut(head, self._room // 2)
        room = self._room - len(head)
        parts = [_turn(action, observation, room) for action, observation in self._turns[-self._most :]]
        if len(self._turns) <= self._most:
            parts.insert(0, _cut(f"\n{self._start}", room))
        shown = [parts.pop()]
        room -= len(shown[0])
        while parts and len(parts[-1]) < room:
            # One character of the room is the line break between two turns.
            room -= len(parts[-1]) + 1
            shown.append(parts.pop())
        return head + "\n".join(reversed(shown))


def _turn(action: str, observation: str, room: int) -> str:
    """A turn in at most ``room`` characters: a long action yields to its observation, down to a quarter."""
    for_action = max(room - len("\n> \n") - len(observation), room // 4)
    return _cut(f"\n> {_cut(action, for_action)}\n{observation}", room)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + _CUT
