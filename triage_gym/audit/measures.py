"""Precision, recall and F1 of a judge, role by role and cell by cell (role × outcome).

A label that is missing is never a wrong role: it lowers recall, which is over all segments of the role, and leaves
precision, which is over the labels that were given, alone. The recall among the segments that got a label is stated
beside it. F1 is 2·TP / (labels given + segments of the role). Intervals: :mod:`triage_gym.audit.resampling`, and where
all is right or all is wrong Wilson's, for F1 through TP / (TP + FP + FN), of which it is a monotone function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from triage_gym.audit.resampling import Resampler, Sums, of_share
from triage_gym.records import ROLES, Role
from triage_gym.statistics import Interval

Codes = NDArray[np.int64]
"""Roles as their place in ROLES; :data:`NOTHING` where there is none."""
NOTHING: Final = -1
Mask = NDArray[np.bool_]


def codes(roles: Sequence[Role | None]) -> Codes:
    """Roles as numbers, shape ``(segments,)``."""
    return np.array([NOTHING if role is None else ROLES.index(role) for role in roles], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Score:
    """How well one role is told; None where a share has nothing under it."""

    role: Role
    support: int
    """Segments that have the role."""
    given: int
    """Segments that the judge gave the role."""
    right: int
    precision: Interval | None
    """Of the labels given, the share that is right."""
    recall: Interval | None
    """Of all segments of the role, the share that is told, unlabelled ones being missed."""
    recall_judged: float | None
    """The same among the segments that got a label."""
    f1: Interval | None
    """Harmonic mean of precision and recall over all; None where no segment has the role."""


def confusion(gold: Codes, said: Codes) -> NDArray[np.int64]:
    """How often each was said of each, shape ``(4, 5)``: rows are gold roles, the last column is no label.

    Segments without a gold role are left out.
    """
    known = gold != NOTHING
    column = np.where(said == NOTHING, len(ROLES), said)
    counts = np.zeros((len(ROLES), len(ROLES) + 1), dtype=np.int64)
    np.add.at(counts, (gold[known], column[known]), 1)
    return counts


def ratio(over: Sums, under: Sums) -> Sums:
    """``over / under``, NaN where there is nothing under it."""
    shares: Sums = np.divide(over, under, out=np.full(np.shape(over), np.nan), where=under != 0)
    return shares


def centred(values: NDArray[np.float64], among: Mask) -> NDArray[np.float64]:
    """``values`` less their mean over ``among``, so that sums of squares do not cancel to less than they round."""
    found: NDArray[np.float64] = values - values[among].mean() if among.any() else values
    return found


def score(gold: Codes, said: Codes, role: Role, resampler: Resampler, among: Mask | None = None) -> Score:
    """How well ``role`` is told.

    Args:
        gold: Settled roles; segments without one count nowhere.
        said: The judge's.
        role: Which.
        resampler: Made for the same segments.
        among: The segments to look at; all by default.

    Example:
        Gold R R R N, said R R None R: two of three labels R are right (precision 2/3), two of the three segments
        R are told (recall 2/3), of the two that got a label both (1.0); F1 = 2·2 / (3 + 3) = 2/3.
    """
    at = ROLES.index(role)
    known = gold != NOTHING if among is None else (gold != NOTHING) & among
    is_role, is_given = known & (gold == at), known & (said == at)
    right = is_role & is_given
    judged = is_role & (said != NOTHING)
    columns = np.stack([right, is_given, is_role], axis=1).astype(np.float64)
    tp, given, support = (int(column.sum()) for column in (right, is_given, is_role))
    confidence = resampler.confidence
    precision, recall, f1 = resampler.intervals(
        columns,
        [
            lambda s: ratio(s[:, 0], s[:, 1]),
            lambda s: ratio(s[:, 0], s[:, 2]),
            lambda s: ratio(2 * s[:, 0], s[:, 1] + s[:, 2]),
        ],
    )
    return Score(
        role,
        support,
        given,
        tp,
        of_share(tp, given, precision, confidence),
        of_share(tp, support, recall, confidence),
        tp / int(judged.sum()) if judged.any() else None,
        _f1_of_union(of_share(tp, given + support - tp, f1, confidence)) if support else None,
    )


def _f1_of_union(interval: Interval | None) -> Interval | None:
    """Wilson's interval of TP / (TP + FP + FN) as one of F1; any other is one of F1 already."""
    if interval is None or interval.method != "Wilson":
        return interval
    low, high = (2 * share / (1 + share) for share in (interval.low, interval.high))
    return replace(interval, low=low, high=high)


def accuracy(gold: Codes, said: Codes, resampler: Resampler, among: Mask | None = None) -> Interval | None:
    """The share of the labels given that is right, over segments with a gold role."""
    known = (gold != NOTHING) & (said != NOTHING)
    known = known if among is None else known & among
    right = known & (gold == said)
    columns = np.stack([right, known], axis=1).astype(np.float64)
    interval = resampler.interval(columns, lambda s: ratio(s[:, 0], s[:, 1]))
    return of_share(int(right.sum()), int(known.sum()), interval, resampler.confidence)


def macro_f1(scores: Sequence[Score]) -> float | None:
    """Mean F1 of the roles that occur, each as heavy as the others."""
    found = [s.f1.estimate for s in scores if s.f1 is not None]
    return float(np.mean(found)) if found else None


def interval_json(interval: Interval | None) -> dict[str, Any] | None:
    """An interval as JSON values."""
    if interval is None:
        return None
    return {
        "estimate": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "n": interval.n,
        "method": interval.method,
    }


def score_json(found: Score) -> dict[str, Any]:
    """A score as JSON values."""
    return {
        "role": found.role,
        "support": found.support,
        "given": found.given,
        "right": found.right,
        "precision": interval_json(found.precision),
        "recall": interval_json(found.recall),
        "recall_judged": found.recall_judged,
        "f1": interval_json(found.f1),
    }
