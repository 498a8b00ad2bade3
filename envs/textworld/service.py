"""What plays games for an environment: requests in, answers out, both JSON-able; in the worker process or in this one.

:class:`Service` keeps the interpreters, a few of them warm for the next game of the same file. :func:`main` is the worker
process: JSON lines through its standard input and output, nothing else; what a library prints cannot get between them.
It ends when its input ends, and when its parent is gone, even while the interpreter hangs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from triage_gym.envs.textworld import making
from triage_gym.envs.textworld.engine import Interpreter
from triage_gym.envs.textworld.packages import load
from triage_gym.errors import EnvironmentFailure, MissingDependency, StateError, TriageGymError

WARM: Final = 4
"""Most interpreters without a game that are kept, two or three megabytes each."""
_WATCH_EVERY: Final = 1.0


class Service:
    """Games by session number."""

    def __init__(self) -> None:
        self._playing: dict[int, tuple[str, Interpreter]] = {}
        self._warm: list[tuple[str, Interpreter]] = []
        self._sessions = 0

    def handle(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one request.

        Raises:
            EnvironmentFailure: For what neither TextWorld nor jericho was expected to raise.
            TriageGymError: What the request itself asks for wrongly.
        """
        for session in request.get("forget", ()):
            self._forget(session)
        try:
            answer: dict[str, Any] = getattr(self, f"_{request['do']}")(request)
        except TriageGymError:
            raise
        except Exception as error:
            raise EnvironmentFailure(
                f"Expected TextWorld to {request['do']}, got {type(error).__name__}: {error!s:.300}; reset() goes on"
            ) from error
        return answer

    def _make(self, request: Mapping[str, Any]) -> dict[str, Any]:
        names = ("challenge", "arguments", "split", "number", "attempt")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path, why = making.prepared(Path(request["cache"]), *(request[name] for name in names))
        return {"path": None if path is None else str(path), "why": why}

    def _compile(self, request: Mapping[str, Any]) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {"path": str(making.compiled(Path(request["cache"]), Path(request["path"])))}

    def _open(self, request: Mapping[str, Any]) -> dict[str, Any]:
        interpreter = self._borrow(request["path"])
        text = interpreter.restart()
        return {"text": text, **self._begun(request["path"], interpreter)}

    def _restore(self, request: Mapping[str, Any]) -> dict[str, Any]:
        path, state = request["path"], request["state"]
        interpreter = self._borrow(path)
        try:
            if state.get("story") == interpreter.story:
                interpreter.set_state(state)
            else:
                _replay(interpreter, state, request["commands"])
        except StateError:
            self._keep(path, interpreter)
            raise
        return self._begun(path, interpreter)

    def _act(self, request: Mapping[str, Any]) -> dict[str, Any]:
        interpreter = self._playing[request["session"]][1]
        text, understood = interpreter.step(request["command"])
        return {"text": text, "understood": understood, **_standing(interpreter)}

    def _state(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"state": self._playing[request["session"]][1].get_state()}

    def _advise(self, request: Mapping[str, Any]) -> dict[str, Any]:
        command, left = self._playing[request["session"]][1].advice()
        return {"command": command, "left": left}

    def _look(self, request: Mapping[str, Any]) -> dict[str, Any]:
        interpreter = self._playing[request["session"]][1]
        return {"facts": interpreter.facts(), "seen": interpreter.in_sight()}

    def _begun(self, path: str, interpreter: Interpreter) -> dict[str, Any]:
        self._sessions += 1
        self._playing[self._sessions] = path, interpreter
        facts = {"task": interpreter.game.objective, "world": interpreter.world, "max_score": interpreter.max_score}
        return {"session": self._sessions, **facts, **_standing(interpreter)}

    def _borrow(self, path: str) -> Interpreter:
        for place, (kept, interpreter) in enumerate(self._warm):
            if kept == path:
                del self._warm[place]
                return interpreter
        return Interpreter(Path(path))

    def _keep(self, path: str, interpreter: Interpreter) -> None:
        self._warm = [*self._warm, (path, interpreter)][-WARM:]

    def _forget(self, session: int) -> None:
        played = self._playing.pop(session, None)
        if played is not None:
            self._keep(*played)


def _standing(interpreter: Interpreter) -> dict[str, Any]:
    return {
        "score": interpreter.score,
        "won": interpreter.won,
        "lost": interpreter.lost,
        "commands": interpreter.commands,
    }


def _replay(interpreter: Interpreter, state: Mapping[str, Any], commands: list[str]) -> None:
    """Bring a state of another compilation of the same game here, by its commands; checked by what they changed."""
    interpreter.restart()
    for command in commands:
        interpreter.step(command)
    here = interpreter.get_state()
    differs = [key for key in ("events", "score", "won", "lost") if here[key] != state.get(key)]
    if differs:
        raise StateError(f"Expected a state of this game, got one whose commands lead elsewhere here: {differs}")


def main() -> None:
    """The worker process; its argument is the folder that it takes along when it ends."""
    scratch = sys.argv[1]
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    threading.Thread(target=_watch, args=(os.getppid(), scratch), daemon=True).start()
    with contextlib.suppress(MissingDependency):  # the first request will say so
        load("textworld")
    service = Service()
    _send(answers, {"ready": True})
    for line in sys.stdin.buffer:
        try:
            answer = service.handle(json.loads(line))
        except TriageGymError as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        _send(answers, answer)
    shutil.rmtree(scratch, ignore_errors=True)


def _send(answers: BinaryIO, answer: Mapping[str, Any]) -> None:
    try:
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()
    except BrokenPipeError:
        return  # nobody listens any more, so the requests end too


def _watch(parent: int, scratch: str) -> None:
    """End this process when it has another parent than at its start: its own one is gone."""
    while os.getppid() == parent:
        time.sleep(_WATCH_EVERY)
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
