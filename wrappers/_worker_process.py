"""The parent's handle on one worker process: start it, talk to it without ever blocking, make sure that it is gone."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Iterable, Mapping
from multiprocessing.connection import wait
from typing import Any, Final

from triage_gym.wrappers import _worker_main
from triage_gym.wrappers import _worker_wire as wire

_CHUNK: Final = 1 << 16


class WorkerProcess:
    """One started process and its socket.

    Spawned, not forked: a fork would copy the threads' locks of torch and of the parent's own code in whatever state
    they are. The process is its own process group, so that what an environment started goes with it.

    Args:
        worker: Id of the worker.
        generation: How many processes the worker had before this one.
        sources: Encoded source of each member.
        patience: See :func:`triage_gym.wrappers._worker_main.serve`.
    """

    def __init__(self, worker: int, generation: int, sources: Mapping[int, bytes], patience: float) -> None:
        self.worker = worker
        self.generation = generation
        self._assembler = wire.Assembler()
        self._unsent = b""
        self._sock, theirs = socket.socketpair()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_worker_main.serve,
            args=(theirs, worker, generation, sources, patience),
            name=f"triage_gym vector worker {worker}",
            daemon=False,
        )
        try:
            self._process.start()
        except BaseException:
            self._sock.close()
            raise
        finally:
            theirs.close()
        self._sock.setblocking(False)

    @property
    def pid(self) -> int:
        """Id of the process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def waitables(self) -> list[Any]:
        """What :func:`multiprocessing.connection.wait` can wait on: a message, or the end of the process."""
        return [self._sock, self._process.sentinel]

    @property
    def unsent(self) -> bool:
        """Whether a message waits for the worker to read."""
        return bool(self._unsent)

    def send(self, frame: wire.Frame) -> None:
        """Hand over a message; what the worker does not take at once goes with :meth:`flush`."""
        self._unsent += wire.pack(frame)
        self.flush()

    def flush(self) -> None:
        """Pass on what is unsent, as far as the worker takes it; a broken socket shows when it is read."""
        with contextlib.suppress(OSError):
            while self._unsent:
                self._unsent = self._unsent[self._sock.send(self._unsent) :]

    def receive(self) -> tuple[list[wire.Frame], bool]:
        """The messages that have arrived, payloads still encoded, and whether more may come."""
        frames: list[wire.Frame] = []
        try:
            while data := self._sock.recv(_CHUNK):
                frames += self._assembler.feed(data)
        except BlockingIOError:
            return frames, not self.exited()
        except (OSError, ValueError):
            pass
        return frames, False

    def exited(self) -> bool:
        """Whether the process has ended, asked without reaping it."""
        if not hasattr(os, "waitid"):
            return not self._process.is_alive()
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def kill(self) -> int | None:
        """End the process and all that it started, now; the exit code as far as it is known. Repeating it is safe."""
        self._kill_group()
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.join(timeout=5.0)
        self._sock.close()
        return self._process.exitcode

    def _kill_group(self) -> None:
        # As long as the process is not reaped its number cannot belong to anyone else; afterwards it may.
        if hasattr(os, "waitid") and hasattr(os, "killpg"):
            with contextlib.suppress(ChildProcessError, ProcessLookupError, PermissionError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                os.killpg(self.pid, signal.SIGKILL)


def dismiss(processes: Iterable[WorkerProcess], timeout: float) -> None:
    """Let idle workers close their environments and end; kill those that have not by the time limit.

    What they still send is read and dropped: a worker that cannot write would never come to its end.

    Args:
        processes: The workers; none of them is used again.
        timeout: Seconds for all of them together.
    """
    deadline = time.monotonic() + timeout
    waiting = list(processes)
    for process in waiting:
        process.send(wire.Frame(process.worker, process.generation, 0, 0, None))
    while waiting and (left := deadline - time.monotonic()) > 0:
        wait([w for process in waiting for w in process.waitables], min(left, 0.2))
        for process in list(waiting):
            process.flush()
            if not process.receive()[1]:
                process.kill()
                waiting.remove(process)
    for process in waiting:
        process.kill()
