"""One run of a run directory as the report needs it: its updates in stretches of turns, and its episodes.

The files are those that the trainer documents: ``config.json``, ``metrics.jsonl``, ``eval.json``, ``traces.jsonl``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from triage_gym.domains import alfworld
from triage_gym.errors import InputError
from triage_gym.records import ROLES, EpisodeRecord
from triage_gym.report import files
from triage_gym.report.model import Curve, Episode, RoleMix
from triage_gym.statistics import t_interval
from triage_gym.traces import Trace

STRETCHES: Final = 40
"""Most points of a training curve: each is the mean of the updates in one stretch of turns."""

BANDED: Final = 3
"""Seeds that it takes for a band; the t interval of two is twelve times as wide as their spread."""


@dataclass(frozen=True, slots=True)
class Run:
    """One arm with one seed."""

    arm: str
    seed: int
    path: Path
    updates: tuple[Mapping[str, Any], ...]
    """Lines of ``metrics.jsonl``, in order."""

    @property
    def turns(self) -> float:
        """Environment turns so far."""
        return _turns(self.updates[-1]) if self.updates else 0.0

    def warnings(self) -> Iterator[tuple[int, str]]:
        """``(update, what began)``."""
        for update in self.updates:
            names = update.get("warnings") or []
            if not isinstance(names, list):
                raise InputError(
                    f"Expected `warnings` to be a list in {self.path / 'metrics.jsonl'}, got {names!r:.80}"
                )
            for name in names:
                yield int(update["update"]), str(name)


def read_run(path: Path, arm: str, seed: int) -> Run:
    """The run in ``path``; one that has not logged an update yet has none.

    Raises:
        InputError: For a log that is not the trainer's.
    """
    where = str(path / "metrics.jsonl")
    updates = []
    for _, line in files.read_lines(path / "metrics.jsonl"):
        if files.number(line, "turns", where) is None or files.number(line, "update", where) is None:
            raise InputError(f"Expected `update` and `turns` in every line of {where}, got {sorted(line)}")
        updates.append(line)
    return Run(arm, seed, path, tuple(updates))


def _turns(update: Mapping[str, Any]) -> float:
    return float(update["turns"])


class Stretches:
    """Turns cut into equal stretches, the same for all arms, each long enough to hold an update of every run.

    Args:
        runs: All runs that are shown side by side.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        updates = min((len(run.updates) for run in runs if run.updates), default=0)
        # Updates differ in turns, so a stretch of two holds one of each run; alone, every update can be a point.
        self.count = max(1, min(STRETCHES, updates if len(runs) == 1 else updates // 2))
        self._width = max(1.0, max((run.turns for run in runs), default=0.0) / self.count)

    def end(self, index: int) -> float:
        """Turns at the end of a stretch."""
        return (index + 1) * self._width

    def values(self, runs: Sequence[Run], key: str) -> list[list[float]]:
        """For each stretch the mean of ``key`` in each of ``runs`` that measured it there."""
        out: list[list[float]] = [[] for _ in range(self.count)]
        for run in runs:
            found: dict[int, list[float]] = {}
            for update in run.updates:
                value = files.number(update, key, str(run.path / "metrics.jsonl"))
                if value is not None:
                    index = min(int((_turns(update) - 1) // self._width), self.count - 1)
                    found.setdefault(index, []).append(value)
            for index, values in found.items():
                out[index].append(sum(values) / len(values))
        return out


def curve(arm: str, runs: Sequence[Run], key: str, stretches: Stretches) -> Curve | None:
    """``key`` of ``metrics.jsonl`` over turns, its mean and 95 % interval over ``runs``; None if never measured.

    A stretch that only some of the runs measured shows these; with a single one it has no interval.
    """
    points = [(stretches.end(i), values) for i, values in enumerate(stretches.values(runs, key)) if values]
    if not points:
        return None
    intervals = [t_interval(values) for _, values in points]
    alone = [[(stretches.end(i), v[0]) for i, v in enumerate(stretches.values([run], key)) if v] for run in runs]
    return Curve(
        arm,
        turns=tuple(turns for turns, _ in points),
        mean=tuple(mean for mean, _ in intervals),
        low=tuple(mean - (half or 0.0) for mean, half in intervals),
        high=tuple(mean + (half or 0.0) for mean, half in intervals),
        runs=max(len(values) for _, values in points),
        seeds=tuple(tuple(seed) for seed in alone if seed) if 1 < len(runs) < BANDED else (),
    )


def role_mix(arm: str, runs: Sequence[Run], stretches: Stretches) -> RoleMix | None:
    """Shares of the four roles among the judged segments over turns, mean over ``runs``; None if nothing was judged."""
    measured = {role: stretches.values(runs, f"role_{role}") for role in ROLES}
    turns: list[float] = []
    shares: dict[str, list[float]] = {role: [] for role in ROLES}
    for index in range(stretches.count):
        means = {role: sum(v) / len(v) if (v := measured[role][index]) else 0.0 for role in ROLES}
        total = sum(means.values())
        if total > 0:
            turns.append(stretches.end(index))
            for role in ROLES:
                shares[role].append(means[role] / total)
    if not turns:
        return None
    return RoleMix(arm, tuple(turns), {role: tuple(values) for role, values in shares.items()})


@dataclass(frozen=True, slots=True)
class Found:
    """Where an episode stands, without its text."""

    run: Run
    offset: int
    success: bool


def find_episodes(run: Run) -> list[Found]:
    """Every finished line of the run's ``traces.jsonl``, in order of training."""
    path = run.path / "traces.jsonl"
    return [Found(run, offset, bool(line.get("success"))) for offset, line in files.read_lines(path)]


def read_episode(found: Found) -> Episode:
    """The episode itself.

    Raises:
        InputError: For a line that is no trace.
    """
    path = found.run.path / "traces.jsonl"
    try:
        trace = Trace.from_json(files.read_line(path, found.offset))
    except InputError as error:
        raise InputError(f"In {path}, at byte {found.offset}: {error}") from error
    return Episode(
        arm=found.run.arm,
        seed=found.run.seed,
        record=trace.record,
        advantages=trace.advantages,
        update=trace.update,
        turns=_turns_at(found.run, trace.update),
        task_type=_task_type(trace.record),
    )


def _turns_at(run: Run, update: int) -> int | None:
    return next((int(_turns(u)) for u in run.updates if u["update"] == update), None)


def _task_type(record: EpisodeRecord) -> str:
    if record.domain != "alfworld":
        return ""
    goal = alfworld.parse_task(record.task)
    return goal.task_type if goal else ""
