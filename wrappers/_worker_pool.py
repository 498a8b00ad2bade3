"""The worker processes of a vector: one call at a time goes out to all of them, and always comes back."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from multiprocessing.connection import wait
from multiprocessing.util import Finalize
from typing import Any, Final

from triage_gym.errors import InputError
from triage_gym.wrappers import _worker_wire as wire
from triage_gym.wrappers._worker_failures import FailureCount
from triage_gym.wrappers._worker_local import Start
from triage_gym.wrappers._worker_process import dismiss
from triage_gym.wrappers._worker_source import EnvSource
from triage_gym.wrappers._worker_supervisor import SupervisedWorker

CLOSE_TIMEOUT: Final = 5.0
"""Seconds for idle workers to close their environments."""
_POLL: Final = 1.0
_UNSENT_POLL: Final = 0.01


class WorkerPool:
    """The workers of a vector, and one call at a time over all of them.

    Args:
        sources: Source of each member; member i lives in worker ``i % workers``.
        workers: Number of processes.
        step_timeout: Seconds for a step of one member.
        reset_timeout: Seconds for a reset of one member, and as many again to build it or bring it back.
        failures: Says whether the member whose answer was due when its worker died may be tried again.

    Raises:
        InputError: If a source cannot be sent to another process.
    """

    def __init__(
        self,
        sources: tuple[EnvSource, ...],
        workers: int,
        step_timeout: float,
        reset_timeout: float,
        failures: FailureCount,
    ) -> None:
        encoded = {member: _encode_source(source) for member, source in enumerate(sources)}
        self._workers = [
            SupervisedWorker(
                worker,
                {member: data for member, data in encoded.items() if member % workers == worker},
                step_timeout,
                reset_timeout,
                failures,
            )
            for worker in range(workers)
        ]
        # With the priority, this runs before multiprocessing waits for its children when the interpreter ends.
        self._close = Finalize(self, _dismiss_all, args=(self._workers,), exitpriority=10)

    @property
    def discarded(self) -> int:
        """How many late or foreign replies were dropped."""
        return sum(worker.discarded for worker in self._workers)

    def reset(self, requests: Mapping[int, Start]) -> dict[int, Any]:
        """Reset members; ``(observation, info)`` or a Failure of each."""
        jobs = {}
        for member, (seed, options) in requests.items():
            # The history must not change when the caller goes on using its dict.
            own = None if options is None else copy.deepcopy(dict(options))
            jobs[member] = wire.Job(member, "reset", seed=seed, options=own)
        return self.call(jobs)

    def step(self, actions: Mapping[int, Any]) -> dict[int, Any]:
        """Step members; the five results of a step or a Failure of each."""
        return self.call({member: wire.Job(member, "step", action=action) for member, action in actions.items()})

    def call(self, jobs: Mapping[int, wire.Job]) -> dict[int, Any]:
        """Do jobs, those of different workers at the same time; a result or a Failure of each.

        Interrupted (by the keyboard, say), it leaves the members whose answers were due without an episode.

        Raises:
            InputError: If an action or options cannot be sent to another process; nothing was done then.
        """
        for job in jobs.values():
            _check_transport(job)
        answers: dict[int, Any] = {}
        number = len(self._workers)
        try:
            for worker_id, worker in enumerate(self._workers):
                mine = {member: job for member, job in jobs.items() if member % number == worker_id}
                if mine:
                    answers.update(worker.ask(mine))
            while busy := [worker for worker in self._workers if worker.open]:
                _wait(busy)
                for worker in busy:
                    answers.update(worker.attend())
        except BaseException:
            for worker in self._workers:
                worker.abandon()
            raise
        return answers

    def close(self) -> None:
        """End all workers; repeating it is safe."""
        self._close()


def _wait(busy: list[SupervisedWorker]) -> None:
    """Sleep until a worker says something, ends or is overdue; never long, for an end that no one reports."""
    processes = [worker.process for worker in busy if worker.process is not None]
    left = min(worker.deadline for worker in busy) - time.monotonic()
    longest = _UNSENT_POLL if any(process.unsent for process in processes) else _POLL
    wait([w for process in processes for w in process.waitables], max(0.0, min(left, longest)))


def _dismiss_all(workers: list[SupervisedWorker]) -> None:
    dismiss([worker.process for worker in workers if worker.process is not None], CLOSE_TIMEOUT)


def _check_transport(job: wire.Job) -> None:
    if job.options is None and isinstance(job.action, str | int | None):
        return
    try:
        wire.encode(job)
    except Exception as error:
        what = "an action" if job.operation == "step" else "options"
        raise InputError(
            f"Expected {what} for environment {job.member} that can be sent to a worker process, got "
            f"{job.action if job.operation == 'step' else job.options!r}: {error}"
        ) from error


def _encode_source(source: EnvSource) -> bytes:
    try:
        return wire.encode(source)
    except Exception as error:
        raise InputError(
            "Expected sources that can be sent to a worker process (an id, a module:attr path, a config dict, an "
            f"EnvSpec or a function at the top of a module), got {source!r}: {error}"
        ) from error
