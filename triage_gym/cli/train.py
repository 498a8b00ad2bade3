"""``triage-gym train``: one run, or a comparison of credit rules over seeds."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triage_gym import registry
from triage_gym.cli.flags import Flags
from triage_gym.cli.output import say
from triage_gym.display import sanitize_line
from triage_gym.errors import InputError, JudgeOutage
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
    baseline: str | None = None
    """Credit rule that the others of a comparison are paired with; grpo+whiten, or else the first of --credits."""
    run_dir: Path | None = None
    """Where everything is written; by default runs/CREDIT-sSEED or runs/comparison, with ENV- before it but for ALFWorld."""
    resume: bool = False
    """Go on with the run or comparison in --run-dir (the latest below runs/ without it); its settings are kept."""
    config: Path | None = None
    """TOML or JSON file with any of these settings; flags win over it. A run's config.json is one."""
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
            baseline=base.baseline,
            training=Flags.of(base.training),
        )

    @property
    def _is_comparison(self) -> bool:
        return len(self.credits) > 1 or len(self.seeds) > 1

    def _settings(self) -> dict[str, Any]:
        """What ``--config`` reads back."""
        settings = self._shared().to_json()
        if self._is_comparison:
            settings |= {"credits": list(self._credits()), "seeds": list(self._seeds()), "baseline": self._baseline()}
        return settings

    def _credits(self) -> tuple[str, ...]:
        return self.credits or (self.training.credit,)

    def _seeds(self) -> tuple[int, ...]:
        return self.seeds or (self.training.seed,)

    def _baseline(self) -> str:
        if self.baseline is not None:
            return self.baseline
        return "grpo+whiten" if "grpo+whiten" in self._credits() else self._credits()[0]

    def _single(self) -> TrainConfig:
        return replace(self.training.checked(), credit=self._credits()[0], seed=self._seeds()[0])

    def _shared(self) -> TrainConfig:
        """The settings of the run, or what the runs of a comparison share."""
        return self._single().for_arms(self._credits()) if self._is_comparison else self._single().resolved()

    def _directory(self) -> Path:
        from triage_gym.cli.parsing import latest_run

        if self.run_dir is not None:
            return self.run_dir
        if self.resume and (latest := latest_run()) is not None:
            return latest
        config = self._single()
        env = "" if config.is_alfworld else f"{registry.env_name(config.env).replace('/', '.').replace(':', '.')}-"
        if self._is_comparison:
            return Path("runs") / f"{env}comparison"
        return Path("runs") / f"{env}{config.credit.replace(':', '.')}-s{config.seed}"

    def _check(self) -> None:
        """Find what is wrong before anything is written."""
        self._check_words()
        self._check_directory()
        self._check_parts()

    def _check_words(self) -> None:
        """What the flags say of each other."""
        config = self.training.checked()
        for name, values in (("credits", self._credits()), ("seeds", self._seeds())):
            if len(set(values)) < len(values):
                raise InputError(f"Expected each of --{name} once, got {' '.join(map(str, values))}")
        if self.workers is not None and self.workers < 1:
            raise InputError(f"Expected --workers to be at least 1, got {self.workers}")
        if self._is_comparison and self.start is not None:
            raise InputError("Expected --start with a single run; a comparison makes one start for each seed itself")
        if self.resume:
            return  # what follows was found good, or let pass, when the run began
        late = [at for at in config.eval_at if at > config.turns]
        if late and config.eval_at != TrainConfig().eval_at:
            raise InputError(
                f"Expected --eval-at to be at most the {config.turns} of --turns, got {' '.join(map(str, late))}; "
                "the end of the run is evaluated in any case"
            )
        if self._is_comparison and self._baseline() not in self._credits():
            raise InputError(
                f"Expected --baseline to be one of the compared {' '.join(self._credits())}, got {self._baseline()}; "
                "add it to --credits"
            )

    def _check_directory(self) -> None:
        """Whether the directory is new, or one of these settings when the run goes on."""
        path = self._directory()
        begun = [name for name in ("comparison.json", "config.json") if (path / name).exists()]
        if begun and not self.resume:
            raise InputError(
                f"Expected a new directory, got {path}, which holds the {begun[0]} of an earlier run; "
                f"add --resume --run-dir {path} to go on with that one, or --run-dir {_free(path)} to keep both"
            )
        if self.resume and not begun:
            raise InputError(f"Expected a run or a comparison to resume in {path}, found none")
        if self.resume:
            self._check_same(path)

    def _check_same(self, path: Path) -> None:
        from triage_gym.cli.parsing import saved
        from triage_gym.trainers import resuming

        mine = self._shared()
        settings = saved(path).training
        if self._is_comparison:
            settings = replace(settings, credit=mine.credit, seed=mine.seed).for_arms(self._credits())
        changed = resuming.refused(settings if self._is_comparison else settings.resolved(), mine)
        if changed:
            hint = f" ({resuming.HINT})" if "judge" in changed else ""
            flags = " ".join(f"--{name.replace('_', '-')}" for name in changed)
            raise InputError(
                f"Expected the settings of the run in {path}, got other values of {flags}{hint}; leave them out to go on with "
                "the settings it has, or begin another run: without --resume, with another --run-dir"
            )

    def _check_parts(self) -> None:
        """Whether everything that is named is there and can be built."""
        from triage_gym.trainers.comparison import check_options
        from triage_gym.trainers.probing import probe, probe_retries

        if self._is_comparison:
            check_options(self.training.checked(), self._credits())
        config, *others = self._arms()
        for arm in (config, *others):
            arm.credit_rule()
        registry.make("judges", config.judge)
        if self.start is not None and not self.resume:
            from triage_gym.trainers import checkpoint

            checkpoint.find(self.start)
        probe(config)
        for arm in others:
            most = max(arm.attempts or 1, arm.eval_attempts or 1)
            probe_retries(arm, arm.split, most)

    def _arms(self) -> list[TrainConfig]:
        """The config of the run, or of each credit rule's run with the first of the seeds."""
        from triage_gym.trainers.comparison import arm_config

        if not self._is_comparison:
            return [self._single().resolved()]
        return [arm_config(self._shared(), credit, self._seeds()[0]) for credit in self._credits()]

    def run(self) -> int:
        """Train or compare; write the page and print the table.

        Returns:
            1 when a run of a comparison failed, else 0. A single run whose judge failed ends with 75, see JudgeOutage.
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
        from triage_gym.cli.making import need_trainer

        need_trainer()  # before anything is written; the runs of a comparison would each find out by themselves
        status = self._compare(path) if self._is_comparison else self._train(path)
        if not self.no_report:
            from triage_gym.cli.report import show

            show(path)
        return status

    def _train(self, path: Path) -> int:
        from triage_gym.cli.progress import Progress
        from triage_gym.trainers import checkpoint, train
        from triage_gym.trainers.signals import Interrupted

        config = self._single()
        try:
            with Progress(1, self.quiet) as progress:
                train(
                    config,
                    path,
                    start=self.start,
                    resume=self.resume,
                    progress=progress,
                    on_signal=progress.stopping,
                )
        except Interrupted:
            saved = checkpoint.newest(path / "checkpoints")
            if saved is None:
                print("stopped before anything was saved; run the same command again", file=sys.stderr)
            else:
                _say_stopped(f"at {saved.state['turns']} of {config.turns} turns", path)
            raise
        except JudgeOutage:
            _say_stopped("since the judge failed", path)
            raise
        return 0

    def _compare(self, path: Path) -> int:
        from triage_gym.cli.progress import Progress
        from triage_gym.trainers import compare
        from triage_gym.trainers.signals import Interrupted

        path.mkdir(parents=True, exist_ok=True)
        (path / "config.json").write_text(json.dumps(self._settings(), indent=1) + "\n", encoding="utf-8")
        credits, seeds = self._credits(), self._seeds()
        runs = len(credits) * len(seeds)
        try:
            with Progress(runs, self.quiet) as progress:
                found = compare(
                    self._single(),
                    credits,
                    seeds,
                    path,
                    workers=self.workers or cores(),
                    baseline=self._baseline(),
                    progress=progress,
                    on_signal=progress.stopping,
                )
        except Interrupted:
            done = sum(self._is_finished(path, credit, seed) for credit in credits for seed in seeds)
            _say_stopped(f"with {done} of {runs} runs done", path)
            raise
        return 1 if any(run["status"] == "failed" for run in found["runs"]) else 0

    def _is_finished(self, path: Path, credit: str, seed: int) -> bool:
        from triage_gym.trainers.comparison import arm_config, arm_name, is_finished

        return is_finished(path / arm_name(credit, seed), arm_config(self._shared(), credit, seed))


def _free(path: Path) -> Path:
    """The first of ``path-2``, ``path-3``, … that is not there."""
    return next(p for n in itertools.count(2) if not (p := path.with_name(f"{path.name}-{n}")).exists())


def _say_stopped(where: str, path: Path) -> None:
    command = shlex.join(["triage-gym", "train", "--resume", "--run-dir", str(path)])
    print(sanitize_line(f"stopped {where}; go on with: {command}"), file=sys.stderr)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
