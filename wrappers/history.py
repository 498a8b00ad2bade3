"""HistoryWrapper: the task, the last turns and the remark as one text, which is what a language model is asked with.

What it leaves to you: the order. Outermost, it changes only what the agent sees; judges and records below keep the
environment's own observations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, SupportsFloat

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
        Remark on attempt 1: Turn 4 was a step back.

        > go to sinkbasin 1
        You arrive at sinkbasin 1. …

    The task is ``info["task"]`` of the reset, or the first observation; a remark is ``info["reflection"]`` of a retry, and
    those of all retries of the trial are shown (as LaMer, arXiv:2512.16848, does it) until a fresh attempt begins. The
    first observation stands before the turns as long as all of them are shown. Where the prompt would be longer than
    ``max_characters``, the oldest turns are left out; the task and the remarks get at most half, the oldest remarks
    yielding first, and the newest observation is cut only when it does not fit beside the first quarter of what is left
    for its action.

    Args:
        env: Any environment whose observations and actions have a text form.
        turns: Most turns (action and answer) to show.
        max_characters: Longest prompt, in code points.
        show_remark: False leaves remarks out: what a policy sees that is to act as well without them (R3L,
            arXiv:2601.03715, distils so).
        remarks: ``"all"`` of the trial, or only the ``"last"``.

    Raises:
        InputError: If ``turns`` is not positive, ``max_characters`` is below 80 or ``remarks`` is neither.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        turns: int = 5,
        max_characters: int = 8000,
        show_remark: bool = True,
        remarks: Literal["all", "last"] = "all",
    ) -> None:
        if turns < 1:
            raise InputError(f"Expected at least 1 turn, got {turns}")
        if max_characters < LEAST:
            raise InputError(f"Expected `max_characters` to be at least {LEAST}, got {max_characters}")
        if remarks not in ("all", "last"):
            raise InputError(f'Expected `remarks` to be "all" or "last", got {remarks!r}')
        RecordConstructorArgs.__init__(
            self, turns=turns, max_characters=max_characters, show_remark=show_remark, remarks=remarks
        )
        gym.Wrapper.__init__(self, env)
        self.observation_space = UnicodeText(max_characters)
        self._most, self._room = turns, max_characters
        self._shown = 0 if not show_remark else None if remarks == "all" else 1
        self._task = self._start = ""
        self._remarks: list[str] = []
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
        attempt = int(facts.get("attempt", 0))
        remark = text_in(facts, "reflection")
        if attempt == 0:
            self._remarks = []
        elif remark:
            self._remarks.append(f"Remark on attempt {attempt}: {remark}\n")
        return self._prompt(), info

    def step(self, action: Any) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; the observation is the prompt with this turn at its end."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._turns.append((text_of(action), text_of(observation)))
        return self._prompt(), reward, terminated, truncated, info

    def get_layer_state(self) -> dict[str, Any]:
        """What prompts are made of."""
        held = {"remarks": list(self._remarks), "turns": list(self._turns)}
        return {"task": self._task, "start": self._start, **held}

    def set_layer_state(self, state: Mapping[str, Any]) -> None:
        """Go back to a state of :meth:`get_layer_state`."""
        self._task, self._start, self._remarks = state["task"], state["start"], list(state["remarks"])
        self._turns = [(action, observation) for action, observation in state["turns"]]

    def _prompt(self) -> str:
        head = self._head(self._room // 2)
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

    def _head(self, room: int) -> str:
        """The task and as many of the newest remarks as there is room for; the last one is cut rather than left out."""
        task = f"Task: {self._task}\n"
        shown = self._remarks if self._shown is None else self._remarks[len(self._remarks) - self._shown :]
        while len(shown) > 1 and len(task) + sum(map(len, shown)) > room:
            shown = shown[1:]
        return _cut(task + "".join(shown), room)


def _turn(action: str, observation: str, room: int) -> str:
    """A turn in at most ``room`` characters: a long action yields to its observation, down to a quarter."""
    for_action = max(room - len("\n> \n") - len(observation), room // 4)
    return _cut(f"\n> {_cut(action, for_action)}\n{observation}", room)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + _CUT
