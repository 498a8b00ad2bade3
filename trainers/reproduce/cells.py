"""Cells: one run each, of an environment, an arm and a seed; run side by side, kept when done, gone on with when stopped.

A directory of cells holds ``ENV/starts/s<seed>`` (the cloned start that all arms of a seed share) and ``ENV/ARM-s<seed>``.
Cells are run seed by seed, all environments and arms of a seed before the next, so that a table of part of them is
balanced. A cell that fails is told with its error and leaves the others alone. What stands in a cell's place but was made
with other settings is refused before anything is run or written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from triage_gym.errors import InputError
from triage_gym.files import replacing
from triage_gym.trainers.comparison import is_finished
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.experiment import Job, run_jobs
from triage_gym.trainers.probing import probe
from triage_gym.trainers.progress import Progress
from triage_gym.trainers.reproduce.arms import Arm
from triage_gym.trainers.resuming import refused
from triage_gym.trainers.run_dir import read_json, write_json
from triage_gym.trainers.setups import setup_of
from triage_gym.trainers.signals import Interrupted, Signals

_OF_START: Final = (
    "env",
    "env_kwargs",
    "split",
    "task_types",
    "limit",
    "policy",
    "width",
    "demos",
    "demo_noise",
    "bc_epochs",
    "bc_minibatch",
    "seed",
)
"""What a start is made by; in all else the arms that share it may differ."""
_NOT_OF_START: Final = tuple(f.name for f in fields(TrainConfig) if f.name not in _OF_START)


@dataclass(frozen=True, slots=True)
class Cell:
    """One run."""

    env: str
    arm: str
    seed: int
    config: TrainConfig

    @property
    def name(self) -> str:
        """Its directory below that of all cells."""
        return f"{self.env}/{directory_of(self.arm)}-s{self.seed}"

    @property
    def start(self) -> str:
        """Directory of the start that it shares."""
        return f"{self.env}/starts/s{self.seed}"


def directory_of(arm: str) -> str:
    """An arm's name as part of a path."""
    return "".join(c if c.isalnum() or c in "+-_@.=," else "_" for c in arm)


@dataclass(frozen=True, slots=True)
class Plan:
    """Cells of an experiment."""

    envs: tuple[str, ...]
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings of all cells, over those of the environment; an arm's own go over both."""

    def cells(self) -> list[Cell]:
        """All of them, seed by seed.

        Raises:
            InputError: For arms, seeds or environments given twice, none of them, or settings that cannot be trained with.
        """
        for what, given in (("envs", self.envs), ("seeds", self.seeds), ("arms", [arm.name for arm in self.arms])):
            if not given or len(set(given)) != len(given):
                raise InputError(f"Expected `{what}` to be different ones, at least one, got {tuple(given)}")
        return [
            Cell(env, arm.name, seed, self.config(env, arm, seed))
            for seed in self.seeds
            for env in self.envs
            for arm in self.arms
        ]

    def config(self, env: str, arm: Arm, seed: int) -> TrainConfig:
        """The settings of one cell, resolved."""
        plain = {"eval_at": (), "trace_every": 0, "eval_tasks": 200, "checkpoint_every": 1_000_000}
        settings = {**plain, **setup_of(env), **self.changes, **arm.changes, "seed": seed}
        return TrainConfig.from_json(
            {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}
        ).resolved()


def run_cells(
    cells: Sequence[Cell],
    run_dir: Path,
    *,
    workers: int = 2,
    seconds: float | None = None,
    progress: Progress | None = None,
    on_signal: Callable[[int], None] | None = None,
) -> dict[str, str]:
    """Run the cells that are not finished in ``run_dir``.

    Args:
        cells: In the order in which they are begun.
        run_dir: Where to write.
        workers: Processes side by side.
        seconds: Wall seconds after which no further cell is begun; those that run go on to their end. None for no end.
        progress: Called after each update of each cell.
        on_signal: Called with the number of the first SIGTERM or SIGINT as it comes.

    Returns:
        Why cells failed, by their name.

    Raises:
        InputError: For runs or starts in ``run_dir`` that were made with other settings.
        Interrupted: (a SystemExit) after SIGTERM or SIGINT, when every running cell was saved.
    """
    if workers < 1:
        raise InputError(f"Expected `workers` to be at least 1, got {workers}")
    until = None if seconds is None else time.monotonic() + seconds
    refuse_others(cells, run_dir)
    left = [cell for cell in cells if not is_finished(run_dir / cell.name, cell.config)]
    for env in dict.fromkeys(cell.env for cell in left):
        probe(replace(next(cell.config for cell in left if cell.env == env), judge="rule"))
    errors: dict[str, str] = {}
    with Signals(on_signal) as signals:
        # A start only just before its cells, so that a short budget is not spent on starts alone.
        for seed in dict.fromkeys(cell.seed for cell in left):
            if signals.caught is not None or (until is not None and time.monotonic() >= until):
                break
            own = [cell for cell in left if cell.seed == seed]
            starts = _starts(own, run_dir)
            failed = run_jobs(starts, workers, None, signals)
            errors |= {cell.name: failed[cell.start] for cell in own if cell.start in failed}
            jobs = [_job(cell, run_dir) for cell in own if cell.start not in failed]
            errors |= run_jobs(jobs, workers, progress, signals, until)
        signals.leave_if_caught()
    return errors


def run_and_tell(
    cells: Sequence[Cell], tell: Callable[[Mapping[str, str]], dict[str, Any]], run_dir: Path, **how: Any
) -> dict[str, Any]:
    """Run cells as :func:`run_cells`, and ``tell`` of what is done by then whatever ends it, a signal too.

    Args:
        cells: In the order in which they are begun.
        tell: Reads the cells and writes what they say, given why some failed.
        run_dir: Where to write.
        **how: The rest of what :func:`run_cells` takes.
    """
    try:
        errors = run_cells(cells, run_dir, **how)
    except Interrupted:
        tell({})
        raise
    return tell(errors)


def write_found(found: Mapping[str, Any], run_dir: Path, texts: Mapping[str, str], name: str) -> None:
    """Write what cells say: the numbers into ``name``, and ``texts`` into files of their names."""
    run_dir.mkdir(parents=True, exist_ok=True)
    write_json(run_dir / name, found)
    for file, text in texts.items():
        with replacing(run_dir / file) as out:
            out.write(text.encode())


def refuse_others(cells: Sequence[Cell], run_dir: Path) -> None:
    """See that nothing in the place of a cell, or of its start, is of other settings.

    Raises:
        InputError: For the first that is, with the settings that differ.
    """
    for cell in cells:
        for place, allow in ((cell.name, ()), (cell.start, _NOT_OF_START)):
            path = run_dir / place
            made = path / ("config.json" if place == cell.name else "pretrain.json")
            if not made.exists():
                continue
            old = TrainConfig.from_json(read_json(path / "config.json")).resolved()
            if changed := refused(old, cell.config, allow):
                said = ", ".join(f"{n} {getattr(old, n)!r} and not {getattr(cell.config, n)!r}" for n in changed)
                raise InputError(
                    f"Expected {path} to be of the settings asked for, got {said}; ask for those, choose another "
                    "--run-dir, or remove it"
                )


def _starts(cells: Sequence[Cell], run_dir: Path) -> list[Job]:
    found: dict[str, Job] = {}
    for cell in cells:
        path = run_dir / cell.start
        if cell.start not in found and not (path / "pretrain.json").exists():
            found[cell.start] = Job(cell.start, {"job": "start", "config": cell.config.to_json(), "dir": str(path)})
    return list(found.values())


def _job(cell: Cell, run_dir: Path) -> Job:
    message = {
        "job": "arm",
        "config": cell.config.to_json(),
        "dir": str(run_dir / cell.name),
        "start": str(run_dir / cell.start),
    }
    return Job(cell.name, message, cell.start)
