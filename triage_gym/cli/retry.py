"""``triage-gym retry``: what retries bring and cost, from the pivot against full restarts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from triage_gym.cli.output import say
from triage_gym.errors import InputError

if TYPE_CHECKING:
    from triage_gym.cli.trial_play import Clock, Setting
    from triage_gym.trials import Trial, TrialSummary


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """Measure retries: pass@k, turns generated and replayed, pivots; from the pivot against full restarts."""

    env: str | None = None
    """A registered name, a Gymnasium id or a module:attr path; the run's own for a checkpoint, needed for others."""
    policy: str = "expert"
    """Who plays: ``expert``, ``random``, the module:attr path of a function (observation, info, rng) -> action, or a run
    directory or checkpoint."""
    noise: float = 0.3
    """Share of random commands of ``--policy expert``: an expert that never errs has nothing to retry."""
    reflector: str | Mapping[str, Any] | None = None
    """Who names the earliest wrong turn: ``role``, ``oracle``, ``random``, ``restart``, ``llm``, a path, or a JSON object
    of one and its arguments; for a checkpoint also ``policy``, ``entropy`` and ``value``. By default a checkpoint's own when
    it was trained with retries, ``role`` for others."""
    attempts: int = 3
    """Most attempts at a task."""
    tasks: int = 200
    """How many tasks."""
    retry_from: Literal["pivot", "start", "both"] = "both"
    """Where a retry begins: at the pivot, at the start with the same reflection, or one after the other to compare."""
    verify: str | Mapping[str, Any] | None = None
    """How a pivot is tested before it is used: ``oracle``, ``rollouts``, or a JSON object. ``none``: as a checkpoint was
    trained, not at all for others."""
    limit: int | None = None
    """Turns of an attempt; the run's own for a checkpoint, 30 for others. An environment's own limit counts too."""
    split: str | None = None
    """Tasks to play: train, valid_seen, valid_unseen for ALFWorld, train, val, test for the others; the held-out ones by
    default."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the environment, such as size=[7,7]: JSON values, or text."""
    mode: Literal["sampled", "greedy"] = "sampled"
    """Of a checkpoint: draw commands from the policy, or take the likeliest."""
    seed: int = 0
    """Seed of all chance in playing; it does not choose the tasks."""
    save: Path | None = None
    """File for all numbers, as JSON."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> int:
        """Play, and print the tables."""
        from triage_gym.cli import trial_text

        self._check()
        found = self._learned() if self._is_checkpoint else self._played()
        say(found.title)
        say()
        say(trial_text.measures(found.summaries))
        for way, summary in found.summaries.items():
            if way == "pivot" and summary.gain is not None and not summary.gain.kept:
                say(
                    f"\nnote: {_spec(self._reflector)} named the first turn, or none, in every failure, so each retry was a "
                    "full restart; `role` needs a judge with rules for the environment"
                )
        if len(found.trials) > 1:
            say(
                "\nSolved within so many generated turns a trial, % (95 %); one without attempts left stays unsolved:\n"
            )
            say(trial_text.equal_turns(found.trials))
            say()
            for line in trial_text.against(found.trials["pivot"], found.trials["start"], self.attempts):
                say(line)
        if found.clocks:
            say()
            say(trial_text.times(found.clocks))
        if self.save is not None:
            _write(self.save, {"settings": self._settings(), **found.to_json()})
            say(f"\nsaved: {self.save}")
        return 0

    def _settings(self) -> dict[str, Any]:
        out = asdict(self)
        return {k: str(v) if isinstance(v, Path) else v for k, v in out.items() if k not in ("debug", "save")}

    @property
    def _is_checkpoint(self) -> bool:
        return self.policy not in ("random", "expert") and ":" not in self.policy

    @property
    def _reflector(self) -> str | Mapping[str, Any]:
        """The reflector asked for, or what stands for none."""
        if self.reflector is not None:
            return self.reflector
        if self._is_checkpoint:
            from triage_gym.trainers import checkpoint
            from triage_gym.trainers.config import TrainConfig

            own = TrainConfig.from_json(checkpoint.find(Path(self.policy)).state.get("config")).resolved()
            if (own.attempts or 1) > 1:
                return own.reflector
        return "role"

    @property
    def _ways(self) -> tuple[str, ...]:
        return ("pivot", "start") if self.retry_from == "both" else (self.retry_from,)

    def _check(self) -> None:
        from triage_gym.trainers.config import TrainConfig

        for name, value in (("attempts", self.attempts), ("tasks", self.tasks)):
            if value < 1:
                raise InputError(f"Expected --{name} to be at least 1, got {value}")
        if self.seed < 0:
            raise InputError(f"Expected --seed to be at least 0, got {self.seed}")
        if self.limit is not None and self.limit < 1:
            raise InputError(f"Expected --limit to be at least 1, got {self.limit}")
        if not 0.0 <= self.noise <= 1.0:
            raise InputError(f"Expected --noise in [0, 1], got {self.noise}")
        if self.env is None and not self._is_checkpoint:
            raise InputError(f"Expected --env with --policy {self.policy}; name an environment, such as minesweeper")
        if not self._is_checkpoint and TrainConfig(reflector=self._reflector).signals:
            raise InputError(
                f"Expected a checkpoint as --policy for the reflector {self._reflector!r}, which asks the policy itself, got "
                f"{self.policy}; choose role, oracle, random or restart"
            )
        if self.save is not None and (self.save.is_dir() or not self.save.parent.is_dir()):
            raise InputError(f"Expected --save to be a file in a folder that is there, got {self.save}")

    def _played(self) -> Found:
        """Play with a player that needs no torch."""
        from triage_gym.cli import trial_play

        make = trial_play.player_of(self.policy, self.noise)
        setting = self._setting()
        found = Found(self._title(setting.split, setting.limit))
        for way in self._ways:
            played = trial_play.play_trials(setting, make, way)
            found.add(way, played.trials, self.attempts, checks=played.checks)
            clock = trial_play.clock(setting, make, played.trials)
            if clock is not None:
                found.clocks[way] = clock
        return found

    def _setting(self) -> Setting:
        from triage_gym import registry
        from triage_gym.cli.trial_play import Setting
        from triage_gym.trainers.config import HELD_OUT

        assert self.env is not None
        return Setting(
            env=self.env,
            env_kwargs=self.env_kwargs,
            split=self.split or HELD_OUT.get(registry.env_name(self.env)),
            limit=30 if self.limit is None else self.limit,
            tasks=self.tasks,
            attempts=self.attempts,
            reflector=self._reflector,
            verify=self.verify,
            seed=self.seed,
        )

    def _title(self, split: str | None, limit: int) -> str:
        who = f"expert with {100 * self.noise:g} % random commands" if self.policy == "expert" else self.policy
        verify = "" if self.verify is None else f", pivots tested by {_spec(self.verify)}"
        reads = (
            ""
            if self._is_checkpoint
            else "\nThis player reads no remark: only where a retry begins makes it another one."
        )
        return (
            f"{self.env}, {split or 'its own tasks'}: {self.tasks} tasks, at most {self.attempts} attempts of "
            f"{limit} turns; policy: {who}; reflector: {_spec(self._reflector)}{verify}{reads}"
        )

    def _learned(self) -> Found:
        """Play with a checkpoint's policy."""
        from triage_gym.cli.making import need_trainer, run_env
        from triage_gym.trials import trials_of

        need_trainer()
        path = Path(self.policy)
        name, _ = run_env(path, self.env)
        if self.env_kwargs:
            raise InputError(
                f"Expected no --env-kwargs with a checkpoint, which has its own, got {sorted(self.env_kwargs)}"
            )
        from triage_gym.trainers import evaluate
        from triage_gym.trials import TrialSummary

        found: Found | None = None
        for way in self._ways:
            evaluation = evaluate(
                path,
                tasks=self.tasks,
                split=self.split,
                limit=self.limit,
                mode=self.mode,
                seed=self.seed,
                judge=None,
                keep_records=True,
                attempts=self.attempts,
                reflector=self._reflector,
                retry_from=way,  # type: ignore[arg-type]
                verify=None if way == "start" else self.verify,  # there is no pivot to test
            )
            if found is None:
                found = Found(
                    f"{name}, {evaluation.split or 'its own tasks'}: {len(evaluation.tasks)} tasks, at most "
                    f"{self.attempts} attempts of {evaluation.limit} turns; policy: {path}, {self.mode}, after "
                    f"{evaluation.turns} turns of training; reflector: {_spec(self._reflector)}"
                )
            found.trials[way] = trials_of(evaluation.records)
            # The evaluation knows more than its records: what remarks changed in the policy, in bits.
            own = evaluation.trials
            if own is None:
                found.add(way, found.trials[way], self.attempts)
            else:
                found.summaries[way] = TrialSummary.from_json(own)
        assert found is not None
        return found


class Found:
    """What was played, by the way retries began.

    Args:
        title: What was played, in words.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.trials: dict[str, list[Trial]] = {}
        self.summaries: dict[str, TrialSummary] = {}
        self.clocks: dict[str, Clock] = {}

    def add(self, way: str, trials: list[Trial], attempts: int, **noted: Any) -> None:
        """Take in the trials of one way."""
        from triage_gym.trials import summary

        self.trials[way] = trials
        self.summaries[way] = summary(trials, attempts, **noted)

    def to_json(self) -> dict[str, Any]:
        """Every number, as a JSON object by the way retries began."""
        from triage_gym.cli.trial_text import budgets
        from triage_gym.trials import solved_within

        limits = budgets(self.trials)
        within = {
            way: [asdict(interval) for interval in solved_within(trials, limits)] for way, trials in self.trials.items()
        }
        return {
            "title": self.title,
            "summaries": {way: s.to_json() for way, s in self.summaries.items()},
            "budgets": limits,
            "solved_within": within,
            "clocks": {way: asdict(c) for way, c in self.clocks.items()},
        }


def _spec(given: str | Mapping[str, Any]) -> str:
    return given if isinstance(given, str) else json.dumps(dict(given))


def _write(path: Path, data: Mapping[str, Any]) -> None:
    try:
        path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"Expected to write the numbers to {path}, got: {error}") from error
