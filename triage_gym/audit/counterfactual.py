"""What counterfactual rows say of a judge: will roles help here, and what is each of them worth?

A counterfactual row is a row of a label file (:mod:`triage_gym.audit.labels`) of a turn whose A* was measured by going back
and playing on (``triage-gym credit counterfactual``): ``origin`` holds ``a_star`` and its standard error ``error`` in units
of the outcome, ``scale`` that brings them into the units of A_i, the outcomes of each continuation (``own`` began with the
action, ``drawn`` with one of the policy's, beside it), and the advantage A_i; ``delta`` is A*/scale - A_i.

The gate is corr(c, A*) against corr(A_i, A*): whether the role's constant tells what an action is worth better than the
outcome's advantage does. It foretold gain or none where the paper's Cov(c, δ) > 0 (TRIAGE, arXiv:2606.32017) did not, since
D sits in successes that the outcome credits too much already; both are shown. Noise in A* brings both correlations down by
the same factor, so it widens the intervals of their difference and does not move its sign. Intervals draw whole tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from triage_gym.audit.benefit import Benefit, benefit
from triage_gym.audit.labels import LabelledWindow
from triage_gym.audit.measures import Codes, centred, codes, interval_json, ratio
from triage_gym.audit.resampling import Resampler, Sums, of_share
from triage_gym.credit.rules import CONSTANTS
from triage_gym.errors import InputError
from triage_gym.records import ROLES, Role
from triage_gym.statistics import Interval

Answer = Literal["yes", "no", "cannot tell"]
Outcome = Literal["all", "success", "failure"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("all", "success", "failure")
LAM: Final = 0.2
"""The weight that corr(A_i + λ c, A*) is stated for unless told otherwise."""
LEAST_TASKS: Final = 8
"""Fewest tasks for a verdict: intervals from fewer cover too seldom, however they are made."""
FIELDS: Final = ("a_star", "error", "scale", "advantage", "own", "drawn")
"""What the origin of a counterfactual row must hold."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A* of the turns that got a role, among the episodes with an outcome."""

    role: Role
    outcome: Outcome
    n: int
    worth: Interval | None
    """E[A* | role, outcome], in units of the outcome."""


@dataclass(frozen=True, slots=True)
class Necessity:
    """What replacing the action of turns called D costs; over those where the policy also tried another one."""

    n: int
    cost: Interval | None
    """Mean of Q(s, a) - Q(s, another action of the policy)."""
    unneeded: Interval | None
    """Share of them where the other actions did at least as well. Noise in Q draws small costs towards one half."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What counterfactual rows say of one judge."""

    judge: str
    n: int
    """Turns that it gave a role."""
    cells: tuple[Cell, ...]
    role_corr: Interval | None
    """corr(c, A*)."""
    outcome_corr: Interval | None
    """corr(A_i, A*) of the same turns."""
    difference: Interval | None
    """corr(c, A*) - corr(A_i, A*), on the same resamples."""
    sum_difference: Interval | None
    """corr(A_i + λ c, A*) - corr(A_i, A*)."""
    necessity: Necessity
    benefit: Benefit | None
    """The paper's measures: Cov(c, δ), λ*, change of the mean squared error, g*."""

    @property
    def foretold(self) -> bool | None:
        """Whether the estimates foretell gain: corr(c, A*) > corr(A_i, A*) and > 0; None where they are undefined."""
        if self.difference is None or self.role_corr is None:
            return None
        return self.difference.estimate > 0.0 and self.role_corr.estimate > 0.0

    @property
    def answer(self) -> Answer:
        """Whether roles will help here with this judge, as far as the interval tells."""
        if self.difference is None or self.role_corr is None or self.difference.n < LEAST_TASKS:
            return "cannot tell"
        if self.difference.low > 0.0 and self.role_corr.low > 0.0:
            return "yes"
        return "no" if self.difference.high < 0.0 or self.role_corr.high < 0.0 else "cannot tell"

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "judge": self.judge,
            "n": self.n,
            "answer": self.answer,
            "foretold": self.foretold,
            "corr_role": interval_json(self.role_corr),
            "corr_outcome": interval_json(self.outcome_corr),
            "difference": interval_json(self.difference),
            "sum_difference": interval_json(self.sum_difference),
            "worth": [
                {"role": c.role, "outcome": c.outcome, "n": c.n, "a_star": interval_json(c.worth)} for c in self.cells
            ],
            "necessity": {
                "n": self.necessity.n,
                "cost": interval_json(self.necessity.cost),
                "unneeded": interval_json(self.necessity.unneeded),
            },
            "benefit": None if self.benefit is None else self.benefit.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Table:
    """Counterfactual rows as arrays, each of shape ``(rows,)``."""

    a_star: NDArray[np.float64]
    error: NDArray[np.float64]
    scale: NDArray[np.float64]
    advantage: NDArray[np.float64]
    success: NDArray[np.bool_]
    cost: NDArray[np.float64]
    """Q of the own action less that of the others; NaN where none was tried."""
    task: tuple[str, ...]

    @property
    def standard(self) -> NDArray[np.float64]:
        """A* in the units of A_i."""
        return self.a_star / self.scale

    @property
    def reliability(self) -> float | None:
        """Share of the variance of the measured A* that is no noise of the continuations; None without variance."""
        total = float(self.a_star.var())
        return max(0.0, 1.0 - float((self.error**2).mean()) / total) if total > 0.0 else None


def table_of(rows: Sequence[LabelledWindow]) -> Table:
    """The numbers of counterfactual rows.

    Raises:
        InputError: Without rows, or for one that is not of that kind.
    """
    if not rows:
        raise InputError("Expected counterfactual rows, got none")
    for row in rows:
        missing = [name for name in FIELDS if row.origin.get(name) is None]
        if missing:
            raise InputError(
                f"Expected counterfactual rows, got {row.id!r:.80} without {missing[0]!r} in its origin; "
                "triage-gym credit counterfactual makes such rows"
            )
    try:
        numbers = {
            name: np.array([float(row.origin[name]) for row in rows], dtype=np.float64)
            for name in ("a_star", "error", "scale", "advantage")
        }
        cost = np.array([_cost(row) for row in rows], dtype=np.float64)
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise InputError(f"Expected numbers in the origins of counterfactual rows, got: {error}") from error
    if not all(np.isfinite(values).all() for values in numbers.values()) or (numbers["scale"] <= 0.0).any():
        raise InputError("Expected finite numbers and scales above 0 in the origins of counterfactual rows, got others")
    success = np.array([row.success is True for row in rows], dtype=np.bool_)
    task = tuple(str(row.origin.get("task_id") or row.origin.get("episode") or row.id) for row in rows)
    return Table(**numbers, success=success, cost=cost, task=task)


def _cost(row: LabelledWindow) -> float:
    others = [float(outcome) for action, outcome in row.origin["drawn"] if action != row.window.action]
    own = [float(outcome) for outcome in row.origin["own"]]
    return float(np.mean(own) - np.mean(others)) if others and own else float("nan")


def look(
    rows: Sequence[LabelledWindow],
    judges: Sequence[str] | None = None,
    *,
    constants: Sequence[float] = CONSTANTS,
    lam: float = LAM,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Finding]:
    """What counterfactual rows say of each judge whose labels they hold.

    Args:
        rows: With labels.
        judges: Which; None for all that labelled, in order of name.
        constants: c of D, E, N, R.
        lam: λ of corr(A_i + λ c, A*).
        resamples: Draws of the bootstrap.
        seed: Of these draws.

    Raises:
        InputError: For rows of another kind, a judge that labelled none of them, or a constant or λ that is no number.
    """
    if len(constants) != len(ROLES) or not np.isfinite([*constants, lam]).all():
        raise InputError(
            f"Expected a finite constant for each of {', '.join(ROLES)} and a finite λ, got {list(constants)} and {lam}"
        )
    table = table_of(rows)
    there = sorted({name for row in rows for name in row.labels})
    chosen = there if judges is None else list(judges)
    if not chosen or (unknown := [name for name in chosen if name not in there]):
        raise InputError(
            f"Expected labels of {unknown[0] if chosen else 'a judge'!r} in the rows, got those of {there}"
        )
    resampler = resampler_of(table, resamples, seed)
    return [_finding(name, rows, table, resampler, constants, lam) for name in chosen]


def resampler_of(table: Table, resamples: int, seed: int) -> Resampler:
    """Draws whole tasks: turns of one episode, and episodes of one task, are no independent draws."""
    return Resampler(table.task, resamples, seed, expanded=True, of="tasks")


def said_by(rows: Sequence[LabelledWindow], judge: str) -> Codes:
    """The roles that a judge gave the rows."""
    return codes([None if (label := row.labels.get(judge)) is None else label.role for row in rows])


def _finding(
    judge: str,
    rows: Sequence[LabelledWindow],
    table: Table,
    resampler: Resampler,
    constants: Sequence[float],
    lam: float,
) -> Finding:
    said = said_by(rows, judge)
    judged = said >= 0
    c = np.where(judged, np.asarray(constants, dtype=np.float64)[np.maximum(said, 0)], 0.0)
    c, star, outcome = (centred(x, judged) for x in (c, table.standard, table.advantage))
    both = np.stack([np.ones(len(c)), star, c, outcome, outcome + lam * c], axis=1) * judged[:, None]
    squares = np.stack([star, c, outcome, outcome + lam * c], axis=1) ** 2 * judged[:, None]
    crossed = np.stack([c, outcome, outcome + lam * c], axis=1) * star[:, None] * judged[:, None]
    sums = np.concatenate([both, squares, crossed], axis=1)

    def corr(s: Sums, which: int) -> Sums:
        n = s[:, 0]
        x, y = ratio(s[:, 2 + which], n), ratio(s[:, 1], n)
        spread = (ratio(s[:, 6 + which], n) - x * x) * (ratio(s[:, 5], n) - y * y)
        return ratio(ratio(s[:, 9 + which], n) - x * y, np.sqrt(np.where(spread > 1e-18, spread, 0.0)))

    role_corr, outcome_corr, difference, more = resampler.intervals(
        sums,
        [
            lambda s: corr(s, 0),
            lambda s: corr(s, 1),
            lambda s: corr(s, 0) - corr(s, 1),
            lambda s: corr(s, 2) - corr(s, 1),
        ],
    )
    masks: Mapping[Outcome, NDArray[np.bool_]] = {
        "all": judged,
        "success": judged & table.success,
        "failure": judged & ~table.success,
    }
    cells = tuple(
        Cell(role, name, int((mask & (said == at)).sum()), _mean(table.a_star, mask & (said == at), resampler))
        for name, mask in masks.items()
        for at, role in enumerate(ROLES)
    )
    decisive = (said == ROLES.index("D")) & np.isfinite(table.cost)
    cost = np.where(decisive, table.cost, 0.0)
    free = decisive & (cost <= 0.0)
    share = _mean(free.astype(np.float64), decisive, resampler)
    n = int(decisive.sum())
    needed = Necessity(n, _mean(cost, decisive, resampler), of_share(int(free.sum()), n, share, resampler.confidence))
    delta = np.where(judged, table.standard - table.advantage, np.nan)
    paper = benefit(said, delta, np.where(judged, table.advantage, np.nan), resampler, constants)
    return Finding(judge, int(judged.sum()), cells, role_corr, outcome_corr, difference, more, needed, paper)


def _mean(values: NDArray[np.float64], among: NDArray[np.bool_], resampler: Resampler) -> Interval | None:
    columns = np.stack([np.where(among, values, 0.0), among.astype(np.float64)], axis=1)
    return resampler.interval(columns, lambda s: ratio(s[:, 0], s[:, 1]))


def verdict(found: Finding, spent: int | None = None) -> str:
    """Whether roles will help here with this judge, in words.

    Args:
        found: What the rows say of it.
        spent: Turns that the rows cost, to say how many would tell; None leaves that out.
    """
    if found.difference is None or found.role_corr is None or found.outcome_corr is None:
        return f"{found.judge}: cannot tell. {_why_undefined(found)}"
    numbers = (
        f"the role's constant goes with A* by {found.role_corr.estimate:+.3f}, the outcome's advantage by "
        f"{found.outcome_corr.estimate:+.3f}; difference {found.difference.estimate:+.3f} "
        f"[{found.difference.low:+.3f}, {found.difference.high:+.3f}]"
    )
    if found.answer == "yes":
        return f"{found.judge}: yes, roles should help here with this judge: {numbers}"
    if found.answer == "no":
        why = "goes against A*" if found.role_corr.high < 0.0 else "tells less than the outcome alone"
        return f"{found.judge}: no, roles should not help here, since what this judge says {why}: {numbers}"
    leaning = "gain" if found.foretold else "no gain"
    half = (found.difference.high - found.difference.low) / 2
    more = ""
    tasks = found.difference.n
    if tasks < LEAST_TASKS:
        more = f"; that is of {tasks} task{'s' * (tasks != 1)}, measure at least {LEAST_TASKS}"
    elif spent is not None and (ratio := abs(found.difference.estimate) / half if half else 0.0) > 1e-3:
        # Near the verdict the intervals of the two correlations decide, not that of their difference: as much again.
        needed = _round(max(spent / ratio**2, 2.0 * spent))
        more = f"; if this difference is right, some {needed:,} turns would tell"
    return f"{found.judge}: cannot tell yet, leaning to {leaning}: {numbers}{more}"


def _why_undefined(found: Finding) -> str:
    """Why a finding has no difference of correlations, and what can be done."""
    if not found.n:
        return "It gave no turn a role"
    if found.role_corr is None and found.outcome_corr is not None:
        return "It says the same of every turn, or what is worth the same, so its roles change nothing"
    if found.role_corr is None:
        return (
            "Nothing differs: no action was worth more than another. A start that sometimes succeeds is needed to measure "
            "(triage-gym pretrain)"
        )
    return (
        "The outcomes of no group differ, so there is no advantage to hold roles against. A start that sometimes succeeds "
        "is needed to measure (triage-gym pretrain)"
    )


def _round(value: float) -> int:
    """To two digits."""
    digits = 10 ** max(0, len(str(int(value))) - 2)
    return int(round(value / digits) * digits)
