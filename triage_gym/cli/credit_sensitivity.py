"""``triage-gym credit sensitivity``: a grid over one or two settings, as a table and a heat map."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from triage_gym.cli.output import say
from triage_gym.cli.reproduce import announced, seconds_of, seeds_of, told_when_stopped


@dataclass(frozen=True, kw_only=True, slots=True)
class CreditSensitivity:
    """Train TRIAGE over a grid of λ, constants, window, judge noise or group size, against grpo+whiten."""

    over: tuple[str, ...] = ("lam=0,0.1,0.2,0.4", "noise=0,0.3")
    """One or two axes: lam=…, constants=paper,no-D,no-E,no-R,shrunk,good-bad, window=…, noise=…, group-size=…"""
    env: str = "alfworld"
    """Environment, out of those that reproduce knows."""
    seeds: str = "3"
    """How many seeds, or with commas between which ones."""
    turns: int | None = 30_000
    """Turns of every run."""
    eval_tasks: int | None = None
    """Held-out tasks; 200 by default."""
    budget: str | None = None
    """Wall time after which no further run begins, such as 10min."""
    run_dir: Path = Path("runs/sensitivity")
    """Where everything is written; finished runs in it are kept."""
    workers: int | None = None
    """Runs at the same time; one a core by default."""
    dry_run: bool = False
    """Say what would be run, and leave."""
    quiet: bool = False
    """No progress, only warnings and the result."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> int:
        """Run what is missing, print the grid; status 1 when a run failed."""
        from triage_gym.cli.making import need_trainer
        from triage_gym.cli.progress import Progress
        from triage_gym.cli.train import cores

        need_trainer()
        from triage_gym.trainers.reproduce.heat import as_text
        from triage_gym.trainers.reproduce.sensitivity import Grid, axis_of, sensitivity

        grid = Grid(
            axes=tuple(axis_of(text) for text in self.over),
            env=self.env,
            seeds=seeds_of(self.seeds),
            turns=self.turns,
            eval_tasks=self.eval_tasks,
        )
        seconds = None if self.budget is None else seconds_of(self.budget)
        cells = grid.plan().cells()
        left = announced(cells, self.run_dir)
        if self.dry_run:
            return 0
        with told_when_stopped(self.run_dir), Progress(left + 1, self.quiet) as progress:
            found = sensitivity(
                grid,
                self.run_dir,
                workers=cores() if self.workers is None else self.workers,
                seconds=seconds,
                progress=progress,
                on_signal=progress.stopping,
            )
        say(as_text(found))
        say(f"\nheat map: {self.run_dir / 'sensitivity.html'}\nnumbers: {self.run_dir / 'sensitivity.json'}")
        return 1 if found["failed"] else 0
