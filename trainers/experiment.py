"""Arms × seeds in a few worker processes, and what comes of it: ``comparison.json``.

All arms of a seed share one start policy, task order and evaluation tasks. An arm that fails is reported and leaves the
others alone; a comparison that was interrupted goes on where its arms stopped when it is called again. Workers are
processes of their own, each with the config's torch threads, so a plug-in must be importable there: name it by its
``module:attr`` path.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from triage_gym.errors import InputError
from triage_gym.trainers.comparison import arm_config, arm_name, check_options, is_finished, summarise
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.probing import probe
from triage_gym.trainers.progress import Progress, update_of
from triage_gym.trainers.run_dir import write_json
from triage_gym.trainers.signals import Signals

DEFAULT_CREDITS: Final = ("grpo", "grpo+whiten", "scalar", "triage", "triage-shuffled", "roles-only")
DEFAULT_BASELINE: Final = "grpo+whiten"
_BOOT: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from triage_gym.trainers.arm_worker import main; main()"
)
"""What a worker runs: it finds the modules that its parent finds, whichever way the parent was started."""
_LOOK_S: Final = 0.5
"""Seconds between looks for a signal while no message comes."""


@dataclass(frozen=True, slots=True)
class Job:
    """Something for a worker to do."""

    name: str
    """Name of the directory it writes."""
    message: dict[str, Any]
    start: str = ""
    """Name of the job that must have been done before; empty for none."""


def compare(
    config: TrainConfig,
    credits: Sequence[str] = DEFAULT_CREDITS,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    run_dir: str | os.PathLike[str] = "runs/comparison",
    *,
    workers: int = 2,
    baseline: str = DEFAULT_BASELINE,
    progress: Progress | None = None,
    on_signal: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Train every credit rule with every seed and compare them.

    Args:
        config: The arms' config; its ``credit`` and ``seed`` are replaced.
        credits: The arms.
        seeds: At least two, for intervals.
        run_dir: Where to write; arms that are finished there are kept and not trained again.
        workers: Processes side by side; more than there are cores only slows them down.
        baseline: The arm that the others are held against.
        progress: Called after each update of each arm.
        on_signal: Called with the number of the first SIGTERM or SIGINT as it comes; running updates go on to their end.

    Returns:
        The content of ``comparison.json`` (described in :mod:`triage_gym.trainers.run_dir`); runs that failed are in
        it with their error.

    Raises:
        InputError: For no arms, arms or seeds given twice, options of rules that none of them has, or an environment that
            cannot be trained on.
        Interrupted: (a SystemExit) after SIGTERM or SIGINT, when every running arm was saved.
    """
    for name, given in (("credits", credits), ("seeds", seeds)):
        if not given or isinstance(given, str) or len(set(given)) != len(given):
            raise InputError(f"Expected `{name}` to be different values, at least one, got {given!r}")
    if workers < 1:
        raise InputError(f"Expected `workers` to be at least 1, got {workers}")
    check_options(config, credits)
    config = config.for_arms(credits)
    probe(config)
    path = Path(run_dir)
    path.mkdir(parents=True, exist_ok=True)
    configs = {arm_name(c, s): arm_config(config, c, s) for s in seeds for c in credits}
    open_arms = {name: arm for name, arm in configs.items() if not is_finished(path / name, arm)}
    starts = [_start_job(path, config, s) for s in seeds if any(a.seed == s for a in open_arms.values())]
    starts = [job for job in starts if not (path / job.name / "pretrain.json").exists()]
    with Signals(on_signal) as signals:
        errors = run_jobs(starts, workers, None, signals)
        arms = [_arm_job(path, name, arm) for name, arm in open_arms.items()]
        startless = {job.name for job in arms if job.start in errors}
        errors |= {job.name: errors[job.start] for job in arms if job.name in startless}
        if signals.caught is None:
            errors |= run_jobs([job for job in arms if job.name not in startless], workers, progress, signals)
        found = summarise(path, config, credits, seeds, baseline, errors)
        write_json(path / "comparison.json", found)
        signals.leave_if_caught()
    return found


def _start_job(path: Path, config: TrainConfig, seed: int) -> Job:
    name = f"starts/s{seed}"
    arm = arm_config(config, config.credit, seed)
    return Job(name, {"job": "start", "config": arm.to_json(), "dir": str(path / name)})


def _arm_job(path: Path, name: str, arm: TrainConfig) -> Job:
    start = f"starts/s{arm.seed}"
    message = {"job": "arm", "config": arm.to_json(), "dir": str(path / name), "start": str(path / start)}
    return Job(name, message, start)


def run_jobs(
    jobs: Sequence[Job], workers: int, progress: Progress | None, signals: Signals, until: float | None = None
) -> dict[str, str]:
    """Do ``jobs`` in worker processes; why some of them failed, by name.

    Args:
        jobs: In the order in which they are begun.
        workers: Processes side by side.
        progress: Called after each update of each job.
        signals: What is caught of them ends the jobs that run.
        until: Time of :func:`time.monotonic` from which on none is begun; None for no end.
    """
    if not jobs:
        return {}
    todo: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in jobs:
        todo.put(job)
    messages: queue.SimpleQueue[tuple[str, dict[str, Any]]] = queue.SimpleQueue()
    tell = messages.put
    crew = [_Worker(todo, lambda *message: tell(message), until) for _ in range(min(workers, len(jobs)))]
    errors: dict[str, str] = {}
    told = False
    try:
        while any(worker.is_alive() for worker in crew) or not messages.empty():
            if signals.caught is not None and not told:
                told = True
                for worker in crew:
                    worker.stop()
            try:
                name, message = messages.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            if message["kind"] == "failed":
                errors[name] = message["error"]
            elif message["kind"] == "update" and progress is not None:
                progress(update_of(message))
    except BaseException:
        for worker in crew:
            worker.kill()
        raise
    return errors


class _Worker(threading.Thread):
    """Feeds one worker process, and starts another when it dies.

    Args:
        todo: Jobs that wait.
        tell: Told the name of a job and each message of it.
        until: When it begins no more.
    """

    def __init__(
        self, todo: queue.SimpleQueue[Job], tell: Callable[[str, dict[str, Any]], None], until: float | None = None
    ) -> None:
        super().__init__(daemon=True)
        self._todo, self._tell, self._until = todo, tell, until
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False
        self.start()

    def run(self) -> None:
        """Do jobs until there are none."""
        while not self._stopped and (self._until is None or time.monotonic() < self._until):
            try:
                job = self._todo.get_nowait()
            except queue.Empty:
                break
            self._do(job)
        if self._process is not None:
            _end(self._process)

    def _do(self, job: Job) -> None:
        process = self._process = self._process or _spawn()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(job.message) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                message = json.loads(line)
                self._tell(job.name, message)
                if message["kind"] in ("done", "failed"):
                    return
        except BrokenPipeError:
            pass
        code = _end(process)
        self._process = None
        if not self._stopped:
            self._tell(job.name, {"kind": "failed", "error": f"its process ended with {_ending(code)}"})

    def stop(self) -> None:
        """Let the running job save and leave; begin no other."""
        self._stopped = True
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process now."""
        self._stopped = True
        if self._process is not None:
            self._process.kill()


def _end(process: subprocess.Popen[str]) -> int:
    """Tell a worker that nothing more comes, wait for it and close its pipes; its exit status."""
    with contextlib.suppress(BrokenPipeError):
        assert process.stdin is not None
        process.stdin.close()
    code = process.wait()
    assert process.stdout is not None
    process.stdout.close()
    return code


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"


def _spawn() -> subprocess.Popen[str]:
    # A session of its own: Ctrl-C reaches the parent alone, which then asks each worker once.
    return subprocess.Popen(
        [sys.executable, "-c", _BOOT, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
