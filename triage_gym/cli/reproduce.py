"""``triage-gym reproduce``: the papers' tables with the small policy, cell by cell."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from triage_gym.cli.output import say
from triage_gym.display import sanitize_line
from triage_gym.errors import InputError

if TYPE_CHECKING:
    from triage_gym.trainers.reproduce.cells import Cell

_UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, kw_only=True, slots=True)
class Reproduce:
    """Train the arms of a paper's table with the small policy, and say which of its claims hold here."""

    table: Literal["main", "ablation", "judge", "pivot", "pass_k", "length"] = "main"
    """main: rules and controls; ablation: constants and judges; judge: role types against a scalar of the same judge;
    pivot and pass_k: retries; length: turns of a success."""
    envs: str | None = None
    """Environments, with commas between; the table's own by default."""
    arms: str | None = None
    """Arms of the table, with commas between; all by default."""
    seeds: str = "5"
    """How many seeds, or with commas between which ones."""
    budget: str | None = None
    """Wall time after which no further run begins, such as 10min or 1h; those that run go on to their end."""
    run_dir: Path | None = None
    """Where everything is written; runs/reproduce-TABLE by default. Finished runs in it are kept."""
    turns: int | None = None
    """Turns of every run, instead of each environment's own."""
    eval_tasks: int | None = None
    """Held-out tasks; 200 by default."""
    gate_turns: int = 250_000
    """Turns that the gate of the ablation table is measured with; 0 leaves it out."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Runs at the same time; one a core by default."""
    dry_run: bool = False
    """Say what would be run, and leave."""
    quiet: bool = False
    """No progress, only warnings and the result."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> int:
        """Run what is missing, print the tables; status 1 when a run failed."""
        from triage_gym.cli.making import need_trainer
        from triage_gym.cli.progress import Progress
        from triage_gym.cli.train import cores

        need_trainer()
        from triage_gym.trainers.reproduce import Study, reproduce
        from triage_gym.trainers.reproduce.tables import as_text

        study = Study(
            table=self.table,
            envs=_words("envs", self.envs),
            arms=_words("arms", self.arms),
            seeds=seeds_of(self.seeds),
            turns=self.turns,
            eval_tasks=self.eval_tasks,
            gate_turns=self.gate_turns,
        )
        path = self.run_dir or Path("runs") / f"reproduce-{self.table}"
        seconds = None if self.budget is None else seconds_of(self.budget)
        cells = study.plan().cells()
        left = announced(cells, path)
        if self.dry_run:
            return 0
        with told_when_stopped(path), Progress(left + 1, self.quiet) as progress:
            found = reproduce(
                study,
                path,
                workers=cores() if self.workers is None else self.workers,
                seconds=seconds,
                progress=progress,
                on_signal=progress.stopping,
            )
        say(as_text(found))
        say(f"\ntable: {path / 'table.md'}\nfigure: {path / 'reproduce.html'}\nnumbers: {path / 'reproduce.json'}")
        return 1 if found["failed"] else 0


def announced(cells: Sequence[Cell], path: Path) -> int:
    """Say how much is to be run.

    Returns:
        Cells that are not done.

    Raises:
        InputError: For runs in ``path`` that were made with other settings.
    """
    from triage_gym.trainers.comparison import is_finished
    from triage_gym.trainers.reproduce.cells import refuse_others

    refuse_others(cells, path)
    left = [cell for cell in cells if not is_finished(path / cell.name, cell.config)]
    turns = sum(cell.config.turns for cell in left)
    say(f"{len(cells)} runs, {len(cells) - len(left)} of them done; {turns:,} turns to go, into {path}")
    return len(left)


@contextmanager
def told_when_stopped(path: Path) -> Iterator[None]:
    """Say how to go on when a signal ends what is done within."""
    from triage_gym.trainers.signals import Interrupted

    try:
        yield
    except Interrupted:
        print(sanitize_line(f"stopped; what is done is in {path}, and the same command goes on"), file=sys.stderr)
        raise


def _words(name: str, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    words = tuple(word for word in re.split(r"[,\s]+", text.strip()) if word)
    if not words:
        raise InputError(f"Expected --{name} to be names with commas between, got {text!r}")
    return words


def seeds_of(text: str) -> tuple[int, ...]:
    """The seeds of ``5`` (0 to 4) or ``0,7``.

    Raises:
        InputError: For anything else.
    """
    try:
        numbers = tuple(int(word) for word in re.split(r"[,\s]+", text.strip()))
    except ValueError as error:
        raise InputError(f"Expected --seeds to be a number, or numbers with commas between, got {text!r}") from error
    seeds = tuple(range(numbers[0])) if len(numbers) == 1 else numbers
    if not seeds or min(seeds) < 0:
        raise InputError(f"Expected --seeds to be at least 1, or seeds of at least 0, got {text!r}")
    return seeds


def seconds_of(text: str) -> float:
    """The seconds of ``90``, ``90s``, ``10min`` or ``1.5h``.

    Raises:
        InputError: For anything else.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?", text.strip())
    if found is None:
        raise InputError(f"Expected --budget to be a time such as 90s, 10min or 1.5h, got {text!r}")
    return float(found[1]) * _UNITS[found[2] or ""]
