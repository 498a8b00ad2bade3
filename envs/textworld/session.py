"""TextWorldGame: one episode of one TextWorld game, as :class:`~triage_gym.envs.task_env.TaskEnv` plays it."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, Final

from triage_gym.envs.task_env import Turn
from triage_gym.envs.textworld.commands import plain
from triage_gym.envs.textworld.links import Link
from triage_gym.errors import StateError

REFUSED: Final = "That is not a command of this game."
"""Answer to what never reaches the interpreter."""
_CLOSE_LOOKS: Final = ("examine ", "read ")
_NO_OBJECTIVE: Final = "Explore the world and raise your score as far as it goes."


class TextWorldGame:
    """One running game behind a link.

    Args:
        link: Where it is played.
        task_id: Its name.
        task_type: Its challenge.
        path: Its story.
        state: A state to go to; None for the beginning.

    Raises:
        StateError: If ``state`` is none of this game.
    """

    def __init__(
        self, link: Link, task_id: str, task_type: str, path: str, state: Mapping[str, Any] | None = None
    ) -> None:
        self.task_id, self.task_type = task_id, task_type
        self._link = link
        self._sent: list[str] = []
        if state is None:
            answer = link.begin({"do": "open", "path": path})
        else:
            self._sent = _checked(state)
            answer = link.begin({"do": "restore", "path": path, "state": state["interpreter"], "commands": self._sent})
        self._generation, self._session = link.generation, answer["session"]
        # Of an environment that is dropped without close(), while others use its worker.
        weakref.finalize(self, link.forget, self._generation, self._session).atexit = False
        self._first: str = answer.get("text", "")
        self.task: str = (answer["task"] or "").strip() or _NO_OBJECTIVE
        self.fingerprint: str = answer["world"]
        self.max_score: int = answer["max_score"]
        self._stand(answer)

    def _stand(self, answer: Mapping[str, Any]) -> None:
        self._score: int = answer["score"]
        self._won: bool = answer["won"]
        self._ended: bool = answer["won"] or answer["lost"]
        self._commands: list[str] = answer["commands"]

    def start(self) -> str:
        """The text of the beginning."""
        return self._first

    def act(self, action: str) -> Turn:
        """Play one command; the reward is the gain in points."""
        command = plain(action)
        if command is None:
            return Turn(REFUSED, invalid=True)
        before = self._score
        answer = self._ask({"do": "act", "command": command})
        self._sent.append(command)
        self._stand(answer)
        return Turn(answer["text"], float(self._score - before), self._ended, not answer["understood"])

    def advice(self) -> str | None:
        """The next command of TextWorld's winning policy, None when it has none."""
        answer = None if self._ended else self._ask({"do": "advise"})["command"]
        return None if answer is None else str(answer)

    def distance(self) -> int | None:
        """Commands of the winning policy; 0 when won, None when there is none."""
        if self._ended:
            return 0 if self._won else None
        left = self._ask({"do": "advise"})["left"]
        return None if left is None else int(left)

    def world(self) -> dict[str, Any]:
        """The facts of the world, and the end."""
        return {"facts": self._ask({"do": "look"})["facts"], "won": self._won, "ended": self._ended}

    def in_sight(self, text: str) -> list[list[str]]:
        """The room and what is in sight in it; and ``text``, when that is what a close look has just told."""
        seen = [[str(word) for word in entry] for entry in self._ask({"do": "look"})["seen"]]
        # At what is not there nobody looks closely: the command is none of those that are possible.
        close = bool(self._sent) and self._sent[-1].startswith(_CLOSE_LOOKS) and self._sent[-1] in self._commands
        return [*seen, ["told", text.strip()]] if close else seen

    def outcome(self) -> tuple[bool, float]:
        """Won or not, and the share of the points."""
        if self.max_score <= 0:
            return self._won, float(self._won)
        return self._won, min(max(self._score / self.max_score, 0.0), 1.0)

    def commands(self) -> list[str]:
        """Every admissible command, sorted."""
        return list(self._commands)

    def templates(self) -> list[str]:
        """None: all admissible commands are listed."""
        return []

    def get_state(self) -> dict[str, Any]:
        """The interpreter's state, and the commands that led to it."""
        return {"interpreter": self._ask({"do": "state"})["state"], "commands": list(self._sent)}

    def close(self) -> None:
        """Leave the interpreter to the next game."""
        self._link.forget(self._generation, self._session)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._link.ask(self._generation, {**request, "session": self._session})


def _checked(state: Mapping[str, Any]) -> list[str]:
    """The commands of a state."""
    commands = state.get("commands")
    if not isinstance(state.get("interpreter"), dict) or not isinstance(commands, list):
        raise StateError(f"Expected the state of a TextWorld game, got {str(state)[:80]}")
    if any(not isinstance(command, str) or plain(command) != command for command in commands):
        raise StateError(f"Expected commands of the game in its state, got {str(commands)[:80]}")
    return list(commands)
