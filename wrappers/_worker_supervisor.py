"""One worker under supervision: what is asked of it, what it owes, and what to do when it is lost.

Three things go wrong with processes. A worker *dies*: its environments are brought back in a new one by replaying
seed, options and actions, checked against what was observed, and the open questions are asked again. A worker
*hangs*: the environment it was at has failed, the others are brought back. An environment *raises*: it has failed, its
neighbours never notice. A failed environment costs its own episode and nothing else.

The environment to blame is the one that the worker was at: it says when it turns to a request, and answers in the order
of the jobs. A worker that is lost before it turned to anything is nobody's fault.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final

from triage_gym.wrappers import _worker_wire as wire
from triage_gym.wrappers._worker_failures import FailureCount
from triage_gym.wrappers._worker_process import WorkerProcess
from triage_gym.wrappers._worker_source import describe_error

logger = logging.getLogger(__name__)

BOOT_TIMEOUT: Final = 120.0
"""Seconds for a new process to come up, before any environment is built."""
REPLAY_LIMIT: Final = 10_000
"""Turns since the last seeded reset that are kept for a replay; beyond them an environment is not brought back."""
_MOST_VAIN: Final = 3


class History:
    """What must be replayed to bring an environment back: everything since its last seeded reset.

    An unseeded reset goes on with the environment's random stream (and a retry with its failed attempt), so it only
    continues the history.
    """

    def __init__(self) -> None:
        self.replay: wire.Replay | None = None
        """The way back, or None when there is none."""
        self.begun = False
        """Whether the environment has been reset since it was built."""
        self._turns = 0

    def forget(self, begun: bool = False) -> None:
        """There is no way back any more: the environment failed, or too much would have to be replayed."""
        self.replay, self.begun = None, begun

    def record(self, job: wire.Job, observation: Any) -> None:
        """A job was done and this was observed."""
        if job.operation == "reset":
            self.begun = True
            episode = wire.Episode(job.seed, job.options, [])
            if job.seed is not None:
                self.replay, self._turns = wire.Replay([episode], wire.follow(0, observation)), 0
                return
        if self.replay is None:
            return
        if job.operation == "reset":
            self.replay.episodes.append(episode)
        else:
            self.replay.episodes[-1].actions.append(job.action)
        self._turns += 1
        if self._turns > REPLAY_LIMIT:
            self.forget(begun=True)
        else:
            self.replay = self.replay._replace(trail=wire.follow(self.replay.trail, observation))


class SupervisedWorker:
    """One worker's place: the process that fills it now, the members it holds and the questions that are open.

    Args:
        worker: Id of the worker.
        sources: Encoded source of each of its members.
        step_timeout: Seconds for a step of one member.
        reset_timeout: Seconds for a reset of one member, and as many again to build it or bring it back.
        failures: Says whether the member whose answer was due when its worker died may be tried again.
    """

    def __init__(
        self,
        worker: int,
        sources: Mapping[int, bytes],
        step_timeout: float,
        reset_timeout: float,
        failures: FailureCount,
    ) -> None:
        self._id = worker
        self._sources = sources
        self._step_timeout = step_timeout
        self._reset_timeout = reset_timeout
        self._failures = failures
        self._history = {member: History() for member in sources}
        self._absent = set(sources)
        self._generation = self._request = self._vain = 0
        self._up = self._turned = False
        self._began = 0.0
        self.process: WorkerProcess | None = None
        self.open: dict[int, wire.Job] = {}
        self.discarded = 0

    def ask(self, jobs: Mapping[int, wire.Job]) -> list[tuple[int, wire.Failure]]:
        """Open questions; those that cannot be asked fail at once.

        A job that needs the member's earlier life in a process that has lost it is sent with the replay.
        """
        if self.process is not None and self.process.exited():
            self._bury()
        if self.process is None:
            self._generation += 1
            self._up = False
            patience = self._step_timeout + 2 * self._reset_timeout
            self.process = WorkerProcess(self._id, self._generation, self._sources, patience)
        failed: list[tuple[int, wire.Failure]] = []
        self.open = {}
        for member, job in jobs.items():
            prepared = self._prepare(job)
            if isinstance(prepared, wire.Failure):
                failed.append((member, prepared))
            else:
                self.open[member] = prepared
        self._request += 1
        self._turned = False
        self._began = time.monotonic()
        if self.open:
            question = wire.Frame(self._id, self._generation, self._request, 0, list(self.open.values()))
            self.process.send(question)
        return failed

    def _prepare(self, job: wire.Job) -> wire.Job | wire.Failure:
        history = self._history[job.member]
        absent = job.member in self._absent
        if job.operation == "step" and absent and history.replay is None:
            return wire.Failure(
                f"its worker was lost more than {REPLAY_LIMIT} turns after the last seeded reset, too many to replay; "
                "reset with a seed more often"
            )
        if job.operation == "reset" and job.seed is None and history.replay is None and (absent or not history.begun):
            # A fresh environment would seed itself from the machine's entropy; so do we, but we can repeat it.
            return job._replace(seed=secrets.randbits(31))
        needed = absent and job.seed is None and job.operation != "build"
        return job._replace(replay=history.replay if needed else None)

    @property
    def deadline(self) -> float:
        """When the answer that is due now is overdue."""
        if not self._up:
            return self._began + BOOT_TIMEOUT
        job = next(iter(self.open.values()))
        allowance = self._step_timeout if job.operation == "step" else self._reset_timeout
        return self._began + allowance + (self._reset_timeout if job.member in self._absent else 0.0)

    def attend(self) -> list[tuple[int, Any]]:
        """Take what has arrived and look after the process; the members that are answered, with results or failures."""
        assert self.process is not None
        self.process.flush()
        frames, alive = self.process.receive()
        answered = [answer for frame in frames for answer in self._take(frame)]
        if self.open and not alive:
            answered += self._lost("died", hung=False)
        elif self.open and time.monotonic() >= self.deadline:
            answered += self._lost("gave no answer in time", hung=True)
        return answered

    def _take(self, frame: wire.Frame) -> list[tuple[int, Any]]:
        if (frame.worker, frame.generation) != (self._id, self._generation):
            self.discarded += 1
            return []
        if frame.member == wire.HELLO:
            self._up, self._began = True, time.monotonic()
            return []
        if frame.member == wire.TURNED and frame.request == self._request:
            self._turned, self._began = True, time.monotonic()
            return []
        if frame.request != self._request or frame.member not in self.open:
            self.discarded += 1
            return []
        job = self.open.pop(frame.member)
        self._vain = 0
        self._began = time.monotonic()
        try:
            result = wire.decode(frame.payload)
        except Exception as error:  # noqa: BLE001 - a result that cannot be read is a failure of its member alone
            result = wire.Failure(f"its result cannot be read in this process: {describe_error(error)}")
        if isinstance(result, wire.Failure):
            # The worker has thrown the environment away, or will: it must be built anew in any case.
            self._history[frame.member].forget()
            self._absent.add(frame.member)
        else:
            self._absent.discard(frame.member)
            if job.operation != "build":
                self._history[frame.member].record(job, result[0])
        return [(frame.member, result)]

    def _lost(self, what: str, hung: bool) -> list[tuple[int, wire.Failure]]:
        blamed = next(iter(self.open)) if self._turned else None
        code = self._bury()
        hint = "" if self._up else '; a script that uses workers must begin its work under `if __name__ == "__main__":`'
        detail = f"worker {self._id} {what}" + ("" if hung else f" (exit code {code})")
        logger.warning("%s; members %s are brought back in a new one", detail.capitalize(), sorted(self._sources))
        failed: list[tuple[int, wire.Failure]] = []
        if blamed is None:
            self._vain += 1
            if self._vain > _MOST_VAIN:
                reason = wire.Failure(f"{detail} before it did anything, {self._vain} times in a row{hint}")
                failed += [(member, reason) for member in self.open]
                self.open = {}
        elif hung or not self._failures.may_restart(blamed):
            del self.open[blamed]
            failed.append((blamed, wire.Failure(detail)))
        for member, _ in failed:
            self._history[member].forget()
        return failed + self.ask(self.open) if self.open else failed

    def _bury(self) -> int | None:
        code = self.process.kill() if self.process is not None else None
        self.process = None
        self._absent = set(self._sources)
        return code

    def abandon(self) -> None:
        """Forget the questions that are open, with the process that may still answer them."""
        if self.open:
            for member in self.open:
                self._history[member].forget()
            self.open = {}
            self._bury()
