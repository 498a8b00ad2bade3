"""An audit: judges are asked about the windows of a label file, and held against its settled roles and each other.

Judges see windows and nothing else of a row. Each is asked once about all windows together, every window standing for
itself, and what it costs is measured around that call. A judge that fails is counted as failing, never as wrong; one that
lacks a package is not asked on.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from triage_gym.audit.agreement import Agreement, agreement
from triage_gym.audit.annotating import annotators_of, people_of
from triage_gym.audit.benefit import Benefit, benefit
from triage_gym.audit.calibration import Calibration, calibration
from triage_gym.audit.labels import GOLD, LabelledWindow
from triage_gym.audit.measures import (
    NOTHING,
    Codes,
    Mask,
    Score,
    accuracy,
    codes,
    confusion,
    interval_json,
    macro_f1,
    score,
    score_json,
)
from triage_gym.audit.resampling import Resampler
from triage_gym.errors import InputError, MissingDependency
from triage_gym.judges.labelling import failed_labels, judge_attempts
from triage_gym.protocols import Judge, Window
from triage_gym.records import LABEL_STATUSES, ROLES, Role, RoleLabel
from triage_gym.statistics import Interval

Outcome = Literal["all", "success", "failure"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("all", "success", "failure")
KEY_CELLS: Final[tuple[tuple[Role, Outcome], ...]] = (("R", "success"), ("E", "failure"), ("D", "success"))
"""The cells that the paper's audit names, and training stands or falls with."""
ORACLE: Final = "oracle"
"""The annotator that ``triage-gym judge collect`` writes, which knows the outcome."""
Scores = Mapping[Outcome, tuple[Score, ...]]


@dataclass(frozen=True, slots=True)
class Cost:
    """What labelling the file cost."""

    segments: int
    seconds: float
    """On the wall, of the one call."""
    usage: Mapping[str, float]
    """What the judge counted meanwhile (:mod:`triage_gym.judges.nesting`)."""

    def per_thousand(self) -> dict[str, float]:
        """Everything for 1,000 segments."""
        share = 1000.0 / self.segments if self.segments else 0.0
        return {"wall_seconds": share * self.seconds, **{name: share * value for name, value in self.usage.items()}}


@dataclass(frozen=True, slots=True)
class Rater:
    """A judge, or an annotator of the file, and how well it labels."""

    name: str
    judge: bool
    """False for an annotator."""
    labels: tuple[RoleLabel, ...]
    """One a row, in order."""
    statuses: Mapping[str, int]
    """How many labels of each status; those not ``judged`` have no role and count as none."""
    right: Interval | None
    """Share of the labels given that agrees with gold."""
    macro_f1: float | None
    scores: Scores
    """By outcome, one a role."""
    families: Mapping[str, Scores]
    """The same by family of environment."""
    confusion: NDArray[np.int64]
    """Shape ``(4, 5)``: rows are gold roles, the last column is no label."""
    calibration: Calibration | None
    """None for annotators, who state no confidence."""
    cost: Cost | None
    benefit: Benefit | None

    @property
    def mute(self) -> bool:
        """Whether it is a judge that gave no label because all that it was asked failed."""
        counts = self.statuses
        return self.judge and counts["failed"] > 0 and not counts["judged"] and not counts["unsure"]

    def cell(self, role: Role, outcome: Outcome, family: str | None = None) -> Score:
        """How well ``role`` is told among the attempts with ``outcome``."""
        scores = self.scores if family is None else self.families[family]
        return scores[outcome][ROLES.index(role)]

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values, label by label."""
        return {
            "name": self.name,
            "kind": "judge" if self.judge else "annotator",
            "statuses": dict(self.statuses),
            "right": interval_json(self.right),
            "macro_f1": self.macro_f1,
            "scores": _scores_json(self.scores),
            "families": {family: _scores_json(scores) for family, scores in self.families.items()},
            "confusion": self.confusion.tolist(),
            "calibration": None if self.calibration is None else self.calibration.to_json(),
            "cost_per_1000": None if self.cost is None else self.cost.per_thousand(),
            "benefit": None if self.benefit is None else self.benefit.to_json(),
            "labels": [label.to_json() for label in self.labels],
        }


def _scores_json(scores: Scores) -> dict[str, Any]:
    return {outcome: [score_json(found) for found in row] for outcome, row in scores.items()}


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found."""

    source: str
    """Where the rows come from."""
    rows: tuple[LabelledWindow, ...]
    settled: int
    """Rows with a gold role."""
    attempts: int
    """Attempts that the rows come from; a row whose origin names no ``episode`` counts as one."""
    method: str
    """How intervals were made."""
    confidence: float
    raters: tuple[Rater, ...]
    """Judges first, then the annotators of the file."""
    agreements: tuple[Agreement, ...]
    """Of each with gold, then of each pair."""

    @property
    def mute(self) -> tuple[Rater, ...]:
        """The judges that gave no label because all that they were asked failed."""
        return tuple(rater for rater in self.raters if rater.mute)

    @property
    def families(self) -> tuple[str, ...]:
        """The families of environments, by name."""
        return tuple(sorted({row.window.domain for row in self.rows}))

    def with_gold(self, name: str) -> Agreement:
        """How far a rater agrees with gold."""
        return next(a for a in self.agreements if (a.first, a.second) == (name, GOLD))

    def disagreements(self) -> list[int]:
        """Rows where a rater's role differs from gold, or from another's where there is no gold."""
        found = []
        for k, row in enumerate(self.rows):
            said = {rater.labels[k].role for rater in self.raters} - {None}
            if len(said | ({row.gold} if row.gold else set())) > 1:
                found.append(k)
        return found

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values; rows by their id."""
        return {
            "schema": 1,
            "source": self.source,
            "segments": len(self.rows),
            "settled": self.settled,
            "attempts": self.attempts,
            "intervals": {"method": self.method, "confidence": self.confidence},
            "ids": [row.id for row in self.rows],
            "gold": [row.gold for row in self.rows],
            "raters": [rater.to_json() for rater in self.raters],
            "agreements": [a.to_json() for a in self.agreements],
        }


def unit(row: LabelledWindow) -> str:
    """The attempt that a row belongs to: ``episode`` of its origin, or itself."""
    episode = row.origin.get("episode")
    return f"id {row.id}" if episode is None else f"episode {episode}"


def audit(
    rows: Sequence[LabelledWindow],
    judges: Mapping[str, Judge],
    *,
    source: str = "",
    resamples: int = 2000,
    seed: int = 0,
    bins: int = 10,
) -> Audit:
    """Hold ``judges``, and the annotators of the rows, against the gold roles and each other.

    Args:
        rows: Of a label file.
        judges: By the name that is to be shown.
        source: Where the rows come from, for the reader.
        resamples: Draws of the bootstrap.
        seed: Of these draws.
        bins: Of the reliability curve.

    Raises:
        InputError: Without rows, or without anybody to hold against anything.
    """
    if not rows:
        raise InputError("Expected label rows to audit, got none")
    annotators = sorted({name for row in rows for name in row.labels})
    if not judges and not annotators:
        raise InputError("Expected a judge, or labels of annotators in the file, got neither; name one with --judge")
    resampler = Resampler([unit(row) for row in rows], resamples, seed)
    asked = [(name, *ask(judge, rows)) for name, judge in judges.items()]
    raters = [_rater(name, labels, cost, rows, resampler, bins) for name, labels, cost in asked]
    for name in annotators:
        shown = f"{name} (in the file)" if judges else name
        raters.append(_rater(shown, _given(name, rows), None, rows, resampler, bins))
    everyone = [(rater.name, codes([label.role for label in rater.labels])) for rater in raters]
    gold = (GOLD, codes([row.gold for row in rows]))
    pairs = [*((rater, gold) for rater in everyone), *combinations(everyone, 2)]
    return Audit(
        source,
        tuple(rows),
        sum(row.gold is not None for row in rows),
        resampler.units,
        resampler.method,
        resampler.confidence,
        tuple(raters),
        tuple(agreement(a, b, resampler) for a, b in pairs),
    )


def against(rows: Sequence[LabelledWindow], annotator: str) -> list[LabelledWindow]:
    """The rows with an annotator's labels in the place of gold, and out of the annotators.

    Raises:
        InputError: When the annotator labelled none.
    """
    if not any(annotator in row.labels for row in rows):
        raise InputError(f"Expected one of the annotators {annotators_of(rows)}, got {annotator!r}")
    found = []
    for row in rows:
        labels = dict(row.labels)
        said = labels.pop(annotator, None)
        found.append(replace(row, labels=labels, gold=None if said is None else said.role))
    return found


def natural_reference(rows: Sequence[LabelledWindow]) -> str | None:
    """Whose labels stand for gold where nobody settled any: the one person's who labelled; without people, the oracle's.

    None where there is gold, or where several people labelled.
    """
    people = people_of(rows)
    if any(row.gold is not None for row in rows) or len(people) > 1:
        return None
    return people[0] if people else ORACLE if ORACLE in annotators_of(rows) else None


class _Asked:
    """A judge that is left alone once it has said that a package is missing: no other window will bring it."""

    def __init__(self, judge: Judge) -> None:
        self._judge, self._lacks = judge, ""

    def judge(self, windows: Sequence[Window]) -> Sequence[RoleLabel]:
        if not self._lacks:
            try:
                return self._judge.judge(windows)
            except MissingDependency as error:
                self._lacks = str(error)
        return failed_labels(windows, self._lacks, type(self).__name__)


def _asked(judge: Judge) -> Judge:
    """The judge as :class:`_Asked`, by its own name, which reasons of failures begin with."""
    made: Judge = type(type(judge).__name__, (_Asked,), {})(judge)
    return made


def ask(judge: Judge, rows: Sequence[LabelledWindow]) -> tuple[list[RoleLabel], Cost]:
    """A judge's label of each row, and what they cost."""
    before = dict(getattr(judge, "usage", {}))
    start = time.perf_counter()
    labels = [answer[0] for answer in judge_attempts(_asked(judge), [[row.window] for row in rows])]
    seconds = time.perf_counter() - start
    usage = {name: value - before.get(name, 0) for name, value in getattr(judge, "usage", {}).items()}
    return labels, Cost(len(rows), seconds, {name: float(value) for name, value in sorted(usage.items())})


def _given(annotator: str, rows: Sequence[LabelledWindow]) -> list[RoleLabel]:
    """An annotator's labels in the form of a judge's."""
    found = []
    for row in rows:
        said = row.labels.get(annotator)
        if said is None or said.role is None:
            found.append(RoleLabel(row.window.step, None, source=annotator, status="unjudged"))
        else:
            found.append(RoleLabel(row.window.step, said.role, why=said.why, source=annotator))
    return found


def _rater(
    name: str,
    labels: Sequence[RoleLabel],
    cost: Cost | None,
    rows: Sequence[LabelledWindow],
    resampler: Resampler,
    bins: int,
) -> Rater:
    gold, said = codes([row.gold for row in rows]), codes([label.role for label in labels])
    counted = Counter(label.status for label in labels)
    domains = np.array([row.window.domain for row in rows])
    everywhere = np.ones(len(rows), dtype=np.bool_)
    scores = _scores(gold, said, rows, resampler, everywhere)
    return Rater(
        name,
        cost is not None,
        tuple(labels),
        {status: counted[status] for status in LABEL_STATUSES},
        accuracy(gold, said, resampler),
        macro_f1(scores["all"]),
        scores,
        {domain: _scores(gold, said, rows, resampler, domains == domain) for domain in sorted(set(domains.tolist()))},
        confusion(gold, said),
        calibration(gold, labels, resampler, bins) if cost is not None and (gold != NOTHING).any() else None,
        cost,
        benefit(said, _numbers([row.delta for row in rows]), _numbers([row.advantage for row in rows]), resampler),
    )


def _numbers(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _scores(
    gold: Codes, said: Codes, rows: Sequence[LabelledWindow], resampler: Resampler, among: Mask
) -> dict[Outcome, tuple[Score, ...]]:
    strata: dict[Outcome, Mask] = {
        "all": among,
        "success": among & np.array([row.success is True for row in rows], dtype=np.bool_),
        "failure": among & np.array([row.success is False for row in rows], dtype=np.bool_),
    }
    return {
        outcome: tuple(score(gold, said, role, resampler, mask) for role in ROLES) for outcome, mask in strata.items()
    }
