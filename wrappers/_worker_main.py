"""The worker's side of a vector: a process that holds some environments and does what it is told, one job at a time.

An exception of an environment is a reply, not the end of the worker. The worker ends when it is told to, when its
socket closes, or when its parent is gone, even if an environment hangs at that moment; what the environments
themselves started dies with it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import math
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import wait
from typing import Any, Final

import gymnasium

from triage_gym.errors import RestoreError
from triage_gym.wrappers import _worker_wire as wire
from triage_gym.wrappers._worker_local import close_quietly
from triage_gym.wrappers._worker_source import build, describe_error

_HEARTBEAT: Final = 5.0
_GRACE: Final = 2.0


class WorkerEnvs:
    """The environments of one worker, by member index; each is built by its first job.

    Args:
        sources: Encoded source of each member.
    """

    def __init__(self, sources: Mapping[int, bytes]) -> None:
        self._sources = sources
        self._envs: dict[int, gymnasium.Env[Any, Any]] = {}

    def answer(self, question: wire.Frame, job: wire.Job) -> bytes:
        """The packed reply to a job; a failed environment is thrown away and built anew by its next job."""
        reply = question._replace(member=job.member)
        try:
            return wire.pack(reply._replace(payload=self._do(job)))
        except BaseException as error:  # noqa: BLE001 - even sys.exit() is the parent's to know, not the worker's to die of
            self._discard(job.member)
            return wire.pack(reply._replace(payload=wire.Failure(describe_error(error))))

    def _do(self, job: wire.Job) -> Any:
        env = self._envs.get(job.member)
        if env is None:
            env = build(wire.decode(self._sources[job.member]), self._envs.values())
            self._envs[job.member] = env
        if job.replay is not None:
            _play(env, job.replay)
        if job.operation == "step":
            return wire.step_result(env.step(job.action))
        if job.operation == "reset":
            return wire.reset_result(env.reset(seed=job.seed, options=job.options))
        return env.observation_space, env.action_space, dict(env.metadata)

    def _discard(self, member: int) -> None:
        env = self._envs.pop(member, None)
        if env is not None:
            close_quietly(env, member)

    def close(self) -> None:
        """Close every environment."""
        for member in list(self._envs):
            self._discard(member)


def _play(env: gymnasium.Env[Any, Any], replay: wire.Replay) -> None:
    trail = 0
    for episode in replay.episodes:
        options = None if episode.options is None else dict(episode.options)
        observation, _ = env.reset(seed=episode.seed, options=options)
        trail = wire.follow(trail, observation)
        for action in episode.actions:
            observation = env.step(action)[0]
            trail = wire.follow(trail, observation)
    if trail != replay.trail:
        raise RestoreError(
            "Expected the replay of seed, options and actions to give the observations of the lost environment, got "
            "others; the environment is not a function of its seed and actions"
        )


def serve(sock: socket.socket, worker: int, generation: int, sources: Mapping[int, bytes], patience: float) -> None:
    """Run a worker until its socket closes.

    Args:
        sock: This end of the pair; the parent has the other.
        worker: Id of the worker.
        generation: How many processes the worker had before this one.
        sources: Encoded source of each member.
        patience: Seconds after which even a job that lets no Python run is given up, if the parent did not before.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "setsid"):
        os.setsid()
    threading.Thread(target=_watch_parent, args=(os.getppid(), patience), daemon=True).start()
    envs = WorkerEnvs(sources)
    stream = sock.makefile("rb")
    with contextlib.suppress(OSError):
        sock.sendall(wire.pack(wire.Frame(worker, generation, 0, wire.HELLO, None)))
        while (question := wire.read(stream)) is not None and question.payload is not None:
            sock.sendall(wire.pack(question._replace(member=wire.TURNED, payload=None)))
            for job in question.payload:
                sock.sendall(envs.answer(question, job))
    envs.close()


def _watch_parent(parent: int, patience: float) -> None:
    """End this process, and what it started, as soon as its parent is gone.

    The pipe's end tells that to an idle worker only; this thread tells it to one whose environment hangs. While an
    environment holds the interpreter lock even this thread stands still, so it keeps winding a clock that does not
    need the lock.
    """
    process = multiprocessing.parent_process()
    sentinels = [] if process is None else [process.sentinel]
    while True:
        if math.isfinite(patience):
            faulthandler.dump_traceback_later(patience + 2 * _HEARTBEAT, exit=True)
        if wait(sentinels, _HEARTBEAT) or os.getppid() != parent:
            break
    # An idle worker has seen the end of its socket and is closing its environments; it ends before this does.
    time.sleep(_GRACE)
    if hasattr(os, "killpg"):
        os.killpg(os.getpgid(0), signal.SIGKILL)
    os._exit(1)
