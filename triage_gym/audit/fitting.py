"""Role constants from counterfactual rows: bounded, in order D ≥ E ≥ N ≥ R, shrunk to the paper's where little is known.

With y = A*/scale, A_i the outcome's advantage and ρ the role, the weighted least squares of::

    y ≈ a A_i + β[ρ]        with β[D] ≥ β[E] ≥ β[N] ≥ β[R]

say what a turn is worth from what credit knows of it. Whitening makes the size of advantages immaterial, so what counts
is λ c[ρ] = β[ρ] / a, and that up to its level: whitening takes the mean off, and where successes are shorter A_i is not 0
in the mean over turns, which β takes up. So the level is made that of the prior, in the mean over turns. Each is shrunk to the prior λ₀ c₀ (TRIAGE's constants at λ = 0.2) by its standard error, held in
order, and split into constants of at most 1 and a λ in bounds (:mod:`triage_gym.credit.constants`). A fit is judged on tasks that it has not seen:
two halves, each scored by the fit of the other.

It says where roles help. It should not be trusted with the size of E: a measure of single actions does not see that
exploring is what a policy lacks that solves little (on ALFWorld constants that shrank E so lost to the paper's).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from triage_gym.audit.counterfactual import LAM, Table, resampler_of, said_by, table_of
from triage_gym.audit.labels import LabelledWindow
from triage_gym.audit.measures import Codes, centred, interval_json
from triage_gym.audit.resampling import Resampler
from triage_gym.credit.constants import isotonic, shrunk
from triage_gym.credit.rules import CONSTANTS
from triage_gym.errors import InputError
from triage_gym.records import ROLES
from triage_gym.statistics import Interval

LEAST_SLOPE: Final = 0.05
"""Least weight a of the outcome: below it λ c = β / a would be anything."""
_SWEEPS: Final = 200


@dataclass(frozen=True, slots=True)
class Fit:
    """Constants for a judge in an environment."""

    constants: tuple[float, float, float, float]
    """Worth of D, E, N, R, at most 1 in size."""
    lam: float
    slope: float
    """a, the weight of the outcome's advantage."""
    measured: tuple[float, float, float, float]
    """λ c of each role as measured, before shrinking and ordering; NaN for one that was never said."""
    errors: tuple[float, float, float, float]
    """Standard errors of ``measured``, over tasks, that of the slope included; infinite for a role that was said in fewer
    than two tasks."""
    counts: tuple[int, int, int, int]
    """Turns of each role."""

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "constants": list(self.constants),
            "lam": self.lam,
            "slope": self.slope,
            "measured": [_finite(x) for x in self.measured],
            "errors": [_finite(x) for x in self.errors],
            "counts": list(self.counts),
        }


def _finite(x: float) -> float | None:
    return x if np.isfinite(x) else None


class NothingToFit(InputError):
    """Rows without what constants could be fitted to: no role, or no group whose outcomes differ."""


def fit_constants(table: Table, said: Codes) -> Fit:
    """Fit to all of ``table``; see the head of this module.

    Raises:
        NothingToFit: When the judge gave no role, or no outcome differs.
    """
    judged = said >= 0
    y, outcome, role = table.standard[judged], table.advantage[judged], said[judged]
    if not judged.any() or not (outcome != outcome[0]).any():
        raise NothingToFit(
            "Expected turns with roles, from episodes whose outcomes differ, to fit constants to; got none. Measure more "
            "turns, or from a start that sometimes succeeds (triage-gym pretrain)"
        )
    counts = np.bincount(role, minlength=len(ROLES)).astype(np.float64)
    slope, beta = 1.0, np.zeros(len(ROLES))
    for _ in range(_SWEEPS):  # block coordinate descent on a convex problem
        means = np.bincount(role, y - slope * outcome, len(ROLES)) / np.maximum(counts, 1.0)
        beta = isotonic(means, counts)
        slope = max(LEAST_SLOPE, float(((y - beta[role]) * outcome).sum() / (outcome * outcome).sum()))
    raw = np.bincount(role, y - slope * outcome, len(ROLES)) / np.maximum(counts, 1.0) / slope
    share = counts / counts.sum()
    level = float(share @ (raw - LAM * np.asarray(CONSTANTS)))
    tasks = [name for name, there in zip(table.task, judged.tolist(), strict=True) if there]
    errors = _errors(y - slope * outcome - slope * raw[role], outcome, role, tasks, slope, raw, share)
    worth, lam = shrunk(np.where(counts > 0, raw - level, 0.0), errors)
    measured = np.where(counts > 0, raw - level, np.nan)
    return Fit(_four(worth), lam, slope, _four(measured), _four(errors), tuple(int(n) for n in counts))  # type: ignore[arg-type]


def _errors(
    residual: NDArray[np.float64],
    outcome: NDArray[np.float64],
    role: NDArray[np.int64],
    tasks: Sequence[str],
    slope: float,
    raw: NDArray[np.float64],
    share: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Standard errors of β[ρ] / a less its mean over turns, by the delta method, tasks being the units.

    With z = (A_i, 1[ρ = D], …) and e the residual, task t moves (a, β) by (Σ z zᵀ)⁻¹ Σ_t z e, and so β[ρ] / a by
    (its part of β[ρ] - β[ρ] / a · its part of a) / a (Liang and Zeger, 1986).
    """
    numbers: dict[str, int] = {}
    unit = np.array([numbers.setdefault(name, len(numbers)) for name in tasks])
    z = np.column_stack([outcome, role[:, None] == np.arange(len(ROLES))]).astype(np.float64)
    scores = np.zeros((len(numbers), z.shape[1]))
    np.add.at(scores, unit, z * residual[:, None])
    moves = scores @ np.linalg.pinv(z.T @ z)
    own = (moves[:, 1:] - raw * moves[:, :1]) / slope
    own -= (own @ share)[:, None]
    out = np.full(len(ROLES), np.inf)
    for at in range(len(ROLES)):
        units = len(set(unit[role == at].tolist()))
        if units >= 2:
            out[at] = float(np.sqrt((own[:, at] ** 2).sum() * units / (units - 1)))
    return out


def _four(values: NDArray[np.float64]) -> tuple[float, float, float, float]:
    d, e, n, r = (float(x) for x in values)
    return d, e, n, r


@dataclass(frozen=True, slots=True)
class Held:
    """How credit goes with A* on tasks that the fit has not seen: corr(A_i + λ c, A*)."""

    fitted: Interval | None
    paper: Interval | None
    outcome: Interval | None
    gain: Interval | None
    """Fitted less outcome alone."""
    over_paper: Interval | None
    """Fitted less the paper's constants."""

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {name: interval_json(getattr(self, name)) for name in self.__dataclass_fields__}


def fold_of(task: str) -> int:
    """Which half of the tasks one belongs to, by its name alone."""
    return hashlib.sha256(task.encode(errors="backslashreplace")).digest()[0] % 2


def fit(rows: Sequence[LabelledWindow], judge: str, *, resamples: int = 2000, seed: int = 0) -> tuple[Fit, Held | None]:
    """Constants from all rows, and what such a fit is worth on tasks that it has not seen.

    Args:
        rows: Counterfactual rows with the judge's labels.
        judge: Whose.
        resamples: Draws of the bootstrap.
        seed: Of these draws.

    Returns:
        The fit, and how fits of one half did on the other; None where a half is too small to be fitted.

    Raises:
        NothingToFit: For rows that constants cannot be fitted to.
    """
    table, said = table_of(rows), said_by(rows, judge)
    whole = fit_constants(table, said)
    fold = np.array([fold_of(task) for task in table.task])
    credit = np.zeros(len(said))
    for half in (0, 1):
        there = fold == half
        try:
            found = fit_constants(_part(table, ~there), said[~there])
        except (InputError, IndexError):
            return whole, None
        credit[there] = found.lam * _constants_of(said, found.constants)[there]
    return whole, _held(table, said, credit, resampler_of(table, resamples, seed))


def _part(table: Table, chosen: NDArray[np.bool_]) -> Table:
    task = tuple(name for name, there in zip(table.task, chosen.tolist(), strict=True) if there)
    return Table(
        table.a_star[chosen],
        table.error[chosen],
        table.scale[chosen],
        table.advantage[chosen],
        table.success[chosen],
        table.cost[chosen],
        task,
    )


def _constants_of(said: Codes, constants: Sequence[float]) -> NDArray[np.float64]:
    return np.where(said >= 0, np.asarray(constants, dtype=np.float64)[np.maximum(said, 0)], 0.0)


def _held(table: Table, said: Codes, credit: NDArray[np.float64], resampler: Resampler) -> Held:
    every = np.ones(len(said), dtype=np.bool_)
    star, outcome = centred(table.standard, every), table.advantage
    options = [centred(x, every) for x in (outcome + credit, outcome + LAM * _constants_of(said, CONSTANTS), outcome)]
    columns = [np.ones(len(star)), star, star * star]
    for x in options:
        columns += [x, x * x, x * star]
    sums = np.stack(columns, axis=1)

    def corr(s: NDArray[np.float64], which: int) -> NDArray[np.float64]:
        n, y, yy = s[:, 0], s[:, 1] / s[:, 0], s[:, 2] / s[:, 0]
        x, xx, xy = (s[:, 3 + 3 * which + k] / n for k in range(3))
        spread = (xx - x * x) * (yy - y * y)
        with np.errstate(divide="ignore", invalid="ignore"):
            found: NDArray[np.float64] = (xy - x * y) / np.sqrt(np.where(spread > 1e-18, spread, np.nan))
        return found

    found = resampler.intervals(
        sums,
        [
            lambda s: corr(s, 0),
            lambda s: corr(s, 1),
            lambda s: corr(s, 2),
            lambda s: corr(s, 0) - corr(s, 2),
            lambda s: corr(s, 0) - corr(s, 1),
        ],
    )
    return Held(*found)
