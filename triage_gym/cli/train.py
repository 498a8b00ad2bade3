"""``triage-gym train``: one run, or a comparison of credit rules over seeds."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triage_gym.cli.flags import Flags
from triage_gym.cli.output import say
from triage_gym.errors import InputError
from triage_gym.trainers.config import TrainConfig

if TYPE_CHECKING:
    from triage_gym.cli.parsing import Base


@dataclass(frozen=True, kw_only=True, slots=True)
class Train:
    """Train a policy, or compare credit rules over seeds, and write report.html."""

    credits: tuple[str, ...] = ()
    """Credit rules to compare, such as grpo grpo+whiten scalar triage; one run each and seed. Instead of --credit."""
    seeds: tuple[int, ...] = ()
    """Seeds to compare over. Instead of --seed."""
    baseline: str = "grpo+whiten"
    """Credit rule that the others of a comparison are paired with."""
    run_dir: Path | None = None
    """Where everything is written; runs/CREDIT-sSEED or runs/comparison by default."""
    resume: bool = False
    """Go on with the run or comparison in --run-dir (the latest below runs/ without it); its settings are kept."""
    config: Path | None = None
    """TOML or JSON file with any of these settings; flags go before it. A run's config.json is one."""
    start: Path | None = None
    """Checkpoint to start from (made by pretrain), instead of demonstrations. For a single run."""
    workers: int | None = None
    """Runs of a comparison at the same time; one a core by default."""
    no_report: bool = False
    """Do not write report.html."""
    quiet: bool = False
    """No progress, only warnings and the result."""
    print_config: bool = False
    """Print the settings as JSON, good for --config, and leave."""
    dry_run: bool = False
    """Check the settings, say what would be done, and leave."""
    debug: bool = False
    """Show the traceback of an error."""
    training: Flags = field(default_factory=Flags)

    @classmethod
    def over(cls, base: Base) -> Train:
        """The command whose flags are laid over ``base``."""
        return cls(
            credits=base.credits,
            seeds=base.seeds,
            baseline=base.baseline or "grpo+whiten",
            training=Flags.of(base.training),
        )

    @property
    def _is_comparison(self) -> bool:
        return len(self.credits) > 1 or len(self.seeds) > 1

    def _settings(self) -> dict[str, Any]:
        """What ``--config`` reads back."""
        settings = self._single().resolved().to_json()
        if self._is_comparison:
            settings |= {"credits": list(self._credits()), "seeds": list(self._seeds()), "baseline": self.baseline}
        return settings

    def _credits(self) -> tuple[str, ...]:
        return self.credits or (self.training.credit,)

    def _seeds(self) -> tuple[int, ...]:
        return self.seeds or (self.training.seed,)

    def _single(self) -> TrainConfig:
        return replace(self.training.checked(), credit=self._credits()[0], seed=self._seeds()[0])

    def _directory(self) -> Path:
        from triage_gym.cli.parsing import latest_run

        if self.run_dir is not None:
            return self.run_dir
        if self.resume and (latest := latest_run()) is not None:
            return latest
        if self._is_comparison:
            return Path("runs/comparison")
        config = self._single()
        return Path("runs") / f"{config.credit.replace(':', '.')}-s{config.seed}"

    def _check(self) -> None:
        """Find what is wrong before anything is written."""
        from triage_gym import registry
        from triage_gym.credit import make

        config = self.training.checked()
        for name, values in (("credits", self._credits()), ("seeds", self._seeds())):
            if len(set(values)) < len(values):
                raise InputError(f"Expected each of --{name} once, got {' '.join(map(str, values))}")
        for credit in self._credits():
            make(credit, lam=config.lam, **config.credit_kwargs)
        registry.factory("judges", config.judge)
        if self.workers is not None and self.workers < 1:
            raise InputError(f"Expected --workers to be at least 1, got {self.workers}")
        if self._is_comparison and self.start is not None:
            raise InputError("Expected --start with a single run; a comparison makes one start for each seed itself")
        path = self._directory()
        begun = [name for name in ("comparison.json", "config.json") if (path / name).exists()]
        if begun and not self.resume:
            raise InputError(
                f"Expected a new directory, got {path}, which holds {begun[0]}; "
                "add --resume to go on with it, or choose another --run-dir"
            )
        if self.resume and not begun:
            raise InputError(f"Expected a run or a comparison to resume in {path}, found none")

    def run(self) -> int:
        """Train or compare; write the page and print the table.

        Returns:
            1 when a run of a comparison failed, else 0.
        """
        if self.print_config:
            say(json.dumps(self._settings(), indent=1))
            return 0
        self._check()
        path = self._directory()
        if self.dry_run:
            runs = len(self._credits()) * len(self._seeds())
            say(f"{runs} run{'s' if runs > 1 else ''} of {self.training.turns} turns into {path}")
            say(f"credit: {' '.join(self._credits())}   seeds: {' '.join(map(str, self._seeds()))}")
            return 0
        status = self._compare(path) if self._is_comparison else self._train(path)
        if not self.no_report:
            from triage_gym.cli.report import show

            show(path)
        return status

    def _train(self, path: Path) -> int:
        from triage_gym.cli.progress import Progress
        from triage_gym.trainers import train

        with Progress(1, self.quiet) as progress:
            train(self._single(), path, start=self.start, resume=self.resume, progress=progress)
        return 0

    def _compare(self, path: Path) -> int:
        from triage_gym.cli.progress import Progress
        from triage_gym.trainers import compare

        path.mkdir(parents=True, exist_ok=True)
        (path / "config.json").write_text(json.dumps(self._settings(), indent=1) + "\n", encoding="utf-8")
        credits, seeds = self._credits(), self._seeds()
        with Progress(len(credits) * len(seeds), self.quiet) as progress:
            found = compare(
                self._single(),
                credits,
                seeds,
                path,
                workers=self.workers or _cores(),
                baseline=self.baseline,
                progress=progress,
            )
        return 1 if any(run["status"] == "failed" for run in found["runs"]) else 0


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
