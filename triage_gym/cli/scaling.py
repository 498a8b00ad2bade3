"""``triage-gym scaling``: what more attempts bring, in the test and in training, as curves with their figure.

*Test time*: pass@k of a trained policy, for k attempts at a task. *Training time*: how good a policy becomes that was
trained with N attempts a task, at equal generated turns. Each once for retries from the pivot (PivoARL) and once for full
restarts (MetaRL, as LaMer), or with the credit rules that are named: two methods differ in both, the place where a retry
begins and the credit, and with the same rule twice in the place alone. An arm that is finished in the directory is kept, one that was stopped goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from triage_gym.cli.output import say
from triage_gym.cli.trial_text import LABELS
from triage_gym.display import table
from triage_gym.errors import InputError

if TYPE_CHECKING:
    from triage_gym.cli.progress import Progress
    from triage_gym.trainers import TrainConfig

WAYS: Final = ("pivot", "start")
"""The two ways to retry."""
ALIKE: Final = {"pivoarl", "metarl"}
"""Rules that are the same where nothing is retried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaling:
    """Draw test-time and training-time scaling: pass@k, and training with N attempts, from the pivot and from the start."""

    env: str = "minesweeper"
    """Environment: a registered name, a Gymnasium id or a module:attr path."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the environment, such as size=[7,7]: JSON values, or text."""
    credits: tuple[str, str] = ("pivoarl", "metarl")
    """Credit rules of retries from the pivot and of full restarts."""
    reflector: str | Mapping[str, Any] = "policy"
    """Who names the earliest wrong turn, in training and in the test."""
    attempts: int = 8
    """The test-time curve goes from 1 to so many attempts."""
    train_attempts: tuple[int, ...] = (1, 2, 3, 4)
    """Attempts a task in training, an arm each."""
    test_with: int = 3
    """The test-time curve is of the policies trained with so many attempts."""
    measured: int = 3
    """Besides pass@1, the training-time curve shows the share solved within so many attempts."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of training, a run each; intervals are over them."""
    turns: int = 6000
    """Generated turns that each run is trained for."""
    limit: int = 30
    """Turns of an attempt."""
    tasks: int = 300
    """Held-out tasks."""
    run_dir: Path = Path("runs/scaling")
    """Where everything is written: the runs, scaling.json, scaling.html."""
    quiet: bool = False
    """No progress, only warnings and the result."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> int:
        """Train what is missing, measure, and write curves and figure."""
        from triage_gym import credit
        from triage_gym.cli.making import need_trainer
        from triage_gym.cli.progress import Progress
        from triage_gym.trainers.probing import probe

        self._check()
        need_trainer()
        arms = self._arms()
        for config in arms.values():
            credit.make(config.credit)
        probe(next(iter(arms.values())).resolved())
        with Progress(len(arms), self.quiet) as progress:
            for name, config in arms.items():
                self._train(name, config, progress)
        found = self._curves(arms)
        self._write(found)
        say(_tables(found))
        say(f"\nnumbers: {self.run_dir / 'scaling.json'}\nfigure:  {self.run_dir / 'scaling.html'}")
        return 0

    def _check(self) -> None:
        for name, values in (("train-attempts", self.train_attempts), ("seeds", self.seeds)):
            if not values or len(set(values)) < len(values):
                raise InputError(f"Expected --{name} to be different numbers, at least one, got {values}")
        if self.test_with not in self.train_attempts:
            raise InputError(
                f"Expected --test-with to be one of --train-attempts {' '.join(map(str, self.train_attempts))}, "
                f"got {self.test_with}"
            )
        if self._asks_a_head and self.test_with < 2:
            raise InputError(
                f"Expected --test-with of at least 2 for the reflector {self.reflector!r}, which is learnt in retries, got 1"
            )
        if self.attempts < 1 or self.measured < 1:
            raise InputError(
                f"Expected --attempts and --measured to be at least 1, got {self.attempts} and {self.measured}"
            )

    @property
    def _asks_a_head(self) -> bool:
        from triage_gym.trainers.config import TrainConfig

        return bool(TrainConfig(reflector=self.reflector).heads)

    def _arm(self, way: str, attempts: int, seed: int) -> str:
        """Name of a run. With one attempt nothing is retried, and where the rules then are the same one run is enough."""
        rules = set(self.credits)
        once = attempts == 1 and (len(rules) == 1 or rules <= ALIKE)
        return f"{'once' if once else way}-n{attempts}-s{seed}"

    def _arms(self) -> dict[str, TrainConfig]:
        """The runs by name."""
        from triage_gym.trainers.config import TrainConfig

        found: dict[str, TrainConfig] = {}
        for seed in self.seeds:
            for n in self.train_attempts:
                for way, credit in zip(WAYS, self.credits, strict=True):
                    name = self._arm(way, n, seed)
                    found[name] = found.get(name) or TrainConfig(
                        env=self.env,
                        env_kwargs=self.env_kwargs,
                        limit=self.limit,
                        turns=self.turns,
                        seed=seed,
                        credit=credit,
                        attempts=n,
                        retry_from=way,  # type: ignore[arg-type]
                        reflector=self.reflector,
                        eval_at=(),
                        eval_tasks=self.tasks,
                        eval_attempts=1,
                    )
        return found

    def _train(self, name: str, config: TrainConfig, progress: Progress) -> None:
        from triage_gym.trainers import checkpoint, train
        from triage_gym.trainers.comparison import is_finished

        path = self.run_dir / name
        if is_finished(path, config.resolved()):
            return
        begun = checkpoint.newest(path / "checkpoints") is not None
        train(config, path, resume=begun, progress=progress, on_signal=progress.stopping)

    def _solved(self, arm: str, way: str, attempts: int) -> list[float]:
        """pass@1 … pass@``attempts`` of an arm; kept in its directory."""
        from triage_gym.trainers import evaluate
        from triage_gym.trainers.run_dir import write_json

        asked = {"way": way, "attempts": attempts, "reflector": self.reflector, "tasks": self.tasks}
        file = self.run_dir / arm / f"pass-{way}-{attempts}.json"
        kept = _kept(file, asked)
        if kept is not None:
            return kept
        evaluation = evaluate(
            self.run_dir / arm,
            tasks=self.tasks,
            attempts=attempts,
            reflector=self.reflector,
            retry_from=way,  # type: ignore[arg-type]
            judge=None,
            measure=False,
        )
        solved = [evaluation.pass_at(k) for k in range(1, attempts + 1)]
        write_json(file, {"asked": asked, "solved": solved})
        return solved

    def _curves(self, arms: Mapping[str, TrainConfig]) -> dict[str, Any]:
        """The content of ``scaling.json``."""
        test, training = {}, {}
        for way in WAYS:
            runs = [self._solved(self._arm(way, self.test_with, s), way, self.attempts) for s in self.seeds]
            test[way] = {
                "k": list(range(1, self.attempts + 1)),
                "points": [self._point([run[k] for run in runs]) for k in range(self.attempts)],
            }
            training[way] = self._in_training(way)
        return {
            "schema": 1,
            "env": self.env,
            "credits": dict(zip(WAYS, self.credits, strict=True)),
            "reflector": self.reflector if isinstance(self.reflector, str) else json.dumps(dict(self.reflector)),
            "tasks": self.tasks,
            "turns": self.turns,
            "limit": self.limit,
            "seeds": list(self.seeds),
            "test_with": self.test_with,
            "runs": list(arms),
            "test_time": test,
            "training_time": training,
        }

    def _in_training(self, way: str) -> dict[str, Any]:
        """pass@1 and pass@``measured`` against N."""
        found: dict[str, Any] = {}
        for measure in sorted({1, self.measured}):
            # A policy trained without retries has learnt no head to reflect with.
            least = 2 if measure > 1 and self._asks_a_head else 1
            numbers = sorted(n for n in self.train_attempts if n >= least)
            points = []
            for n in numbers:
                runs = [
                    self._solved(self._arm(way, n, s), way, self.measured if n >= 2 else measure) for s in self.seeds
                ]
                points.append(self._point([run[measure - 1] for run in runs]))
            if points:
                found[f"pass@{measure}"] = {"n": numbers, "points": points}
        return found

    def _point(self, values: Sequence[float]) -> dict[str, Any]:
        """A mean with its interval: over seeds, or over tasks where there is one seed."""
        from triage_gym.statistics import t_interval, wilson

        mean, half = t_interval(values)
        if half is None:
            interval = wilson(round(mean * self.tasks), self.tasks)
            return {"mean": mean, "low": interval.low, "high": interval.high, "values": list(values)}
        return {"mean": mean, "low": max(0.0, mean - half), "high": min(1.0, mean + half), "values": list(values)}

    def _write(self, found: Mapping[str, Any]) -> None:
        from triage_gym.report.scaling import render

        try:
            self.run_dir.mkdir(parents=True, exist_ok=True)
            (self.run_dir / "scaling.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            (self.run_dir / "scaling.html").write_text(render(found), encoding="utf-8")
        except OSError as error:
            raise InputError(f"Expected to write into {self.run_dir}, got: {error}") from error


def _kept(file: Path, asked: Mapping[str, Any]) -> list[float] | None:
    """What was measured before, when the same was asked; None where nothing was, or the file is not ours."""
    from triage_gym.trainers.run_dir import read_json

    try:
        kept = read_json(file)
    except InputError:
        return None
    if not isinstance(kept, dict) or kept.get("asked") != asked or not isinstance(kept.get("solved"), list):
        return None
    solved = [x for x in kept["solved"] if isinstance(x, float)]
    return solved if len(solved) == asked["attempts"] else None


def _tables(found: Mapping[str, Any]) -> str:
    """The curves as text."""
    seeds = len(found["seeds"])
    over = f"{seeds} seeds" if seeds > 1 else "tasks"
    text = [f"{found['env']}: in the test, policies trained with {found['test_with']} attempts, % (95 % over {over})\n"]
    text.append(_curves_as_table(found["test_time"], found["credits"], "k", "pass@"))
    for measure in sorted({m for way in found["training_time"].values() for m in way}):
        text.append(f"\nin training, {found['turns']} generated turns: {measure}, % (95 % over {over})\n")
        curves = {way: c[measure] for way, c in found["training_time"].items() if measure in c}
        text.append(_curves_as_table(curves, found["credits"], "n", "trained with N="))
    return "\n".join(text)


def _curves_as_table(curves: Mapping[str, Any], credits: Mapping[str, str], x: str, name: str) -> str:
    at = sorted({n for curve in curves.values() for n in curve[x]})

    def cell(curve: Mapping[str, Any], n: int) -> str:
        if n not in curve[x]:
            return "–"
        point = curve["points"][curve[x].index(n)]
        return f"{100 * point['mean']:.1f} ({100 * point['low']:.1f}–{100 * point['high']:.1f})"

    head = [f"{LABELS[way]}, {credits[way]}" for way in curves]
    rows = [[f"{name}{n}", *(cell(curve, n) for curve in curves.values())] for n in at]
    return table(["", *head], rows)
