"""``comparison.json`` as the report needs it. The statistics in it are taken as they are, none is computed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triage_gym.errors import InputError
from triage_gym.report import files
from triage_gym.report.arms import order
from triage_gym.report.model import Curve, Difference, Estimate, Row
from triage_gym.report.runs import BANDED, Run, read_run


class Comparison:
    """Arms and seeds, read from their directory.

    Args:
        path: The directory with ``comparison.json``.

    Raises:
        InputError: If the file is not the trainer's.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._where = path, str(path / "comparison.json")
        data = files.read_json(path / "comparison.json")
        self.config: Mapping[str, Any] = files.need(data, "config", dict, self._where)
        self.credits = order([str(c) for c in files.need(data, "credits", list, self._where)])
        self.seeds = [self._integer(s) for s in files.need(data, "seeds", list, self._where)]
        self._milestones = [self._integer(m) for m in files.need(data, "milestones", list, self._where)]
        self._entries = self._objects(data, "runs")
        self._summary, self._paired = self._objects(data, "summary"), self._objects(data, "paired")
        reference = data.get("baseline")
        self.reference = reference if reference in self.credits else None

    def _objects(self, data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
        return [files.mapping(x, f"{self._where}.{key}") for x in files.need(data, key, list, self._where)]

    def _integer(self, value: Any) -> int:
        if type(value) is not int:
            raise InputError(f"Expected an integer in {self._where}, got {value!r}")
        return value

    @property
    def _final(self) -> str:
        return f"success@{self._milestones[-1]}" if self._milestones else "success"

    @property
    def _retried(self) -> str:
        """Name of the measure of all attempts; one that nothing measured where there is one attempt."""
        return f"pass@{self.config.get('eval_attempts') or 1}"

    def runs(self) -> list[Run]:
        """Every run that has begun, in the order of the arms."""
        found = []
        for credit in self.credits:
            for entry in self._entries:
                if entry.get("credit") == credit and entry.get("status") != "missing":
                    path = files.inside(self._path, str(files.need(entry, "dir", str, self._where)))
                    found.append(read_run(path, credit, files.need(entry, "seed", int, self._where)))
        return found

    def _line(self, lines: list[Mapping[str, Any]], credit: str, metric: str) -> tuple[Mapping[str, Any], float] | None:
        """The line of ``credit`` and ``metric`` with its mean, or None when there is none or it measured nothing."""
        for line in lines:
            if line.get("credit") == credit and line.get("metric") == metric:
                mean = files.number(line, "mean", self._where)
                return None if mean is None else (line, mean)
        return None

    def estimate(self, credit: str, metric: str) -> Estimate | None:
        """The mean of a metric over the seeds of an arm."""
        found = self._line(self._summary, credit, metric)
        if found is None:
            return None
        values = []
        for entry in self._entries:
            if entry.get("credit") == credit and isinstance(entry.get("metrics"), Mapping):
                value = files.number(entry["metrics"], metric, self._where)
                if value is not None:
                    values.append((files.need(entry, "seed", int, self._where), value))
        return Estimate(found[1], files.number(found[0], "half_width", self._where), tuple(sorted(values)))

    def difference(self, credit: str, metric: str) -> Estimate | None:
        """The mean difference of a metric against the reference, seed by seed."""
        found = self._line(self._paired, credit, metric)
        if found is None or self.reference is None:
            return None
        raw = files.need(found[0], "values", dict, self._where)
        values = []
        for seed in raw:
            value = files.number(raw, seed, self._where)
            if not seed.lstrip("-").isdecimal():
                raise InputError(f"Expected seeds as keys of `values` in {self._where}, got {seed!r}")
            if value is not None:
                values.append((int(seed), value))
        return Estimate(found[1], files.number(found[0], "half_width", self._where), tuple(sorted(values)))

    def rows(self) -> tuple[Row, ...]:
        """The final result of each arm."""
        metrics = (self._final, "success_greedy", "length_success", "r_per_success", self._retried)
        return tuple(Row(credit, *(self.estimate(credit, m) for m in metrics)) for credit in self.credits)

    def differences(self) -> tuple[Difference, ...]:
        """Each arm against the reference; arms without any common seed are left out."""
        metrics = (self._final, "length_both_solved", "r_per_success", self._retried)
        every = [Difference(c, *(self.difference(c, m) for m in metrics)) for c in self.credits]
        return tuple(d for d in every if d.success or d.length_percent or d.regressions)

    def held_out(self) -> tuple[Curve, ...]:
        """Held-out success of each arm at the start and at the milestones."""
        marks = [(0, "start"), *((m, f"success@{m}") for m in self._milestones)]
        curves = []
        for credit in self.credits:
            points = [(float(turns), e) for turns, name in marks if (e := self.estimate(credit, name)) is not None]
            if len(points) < 2:
                continue
            halves = [e.half_width or 0.0 for _, e in points]
            curves.append(
                Curve(
                    credit,
                    turns=tuple(turns for turns, _ in points),
                    mean=tuple(e.mean for _, e in points),
                    low=tuple(max(0.0, e.mean - h) for (_, e), h in zip(points, halves, strict=True)),
                    high=tuple(min(1.0, e.mean + h) for (_, e), h in zip(points, halves, strict=True)),
                    runs=max(len(e.values) for _, e in points),
                    seeds=_seeds(points),
                )
            )
        return tuple(curves)

    def warnings(self) -> tuple[str, ...]:
        """What is missing from the numbers."""
        missing = sum(entry.get("status") != "done" for entry in self._entries)
        out = []
        if missing:
            out.append(f"{missing} of {len(self._entries)} runs are not finished; the numbers cover the others.")
        for entry in self._entries:
            if entry.get("status") == "failed":
                out.append(f"{entry.get('credit')}, seed {entry.get('seed')} failed: {entry.get('error')}")
        return tuple(out)


def _seeds(points: Sequence[tuple[float, Estimate]]) -> tuple[tuple[tuple[float, float], ...], ...]:
    """The curve of each seed, where they are too few for a band."""
    seeds = sorted({seed for _, e in points for seed, _ in e.values})
    if not 1 < len(seeds) < BANDED:
        return ()
    return tuple(tuple((turns, v) for turns, e in points for s, v in e.values if s == seed) for seed in seeds)
