"""The outcome term: what a rollout's result is worth against the other rollouts of its group.

One value a rollout, whatever its length; rollouts with an ``error`` neither get one nor move the others'. The division
guards with ``max(std, eps)`` rather than ``std + eps``, so that scores 1, 1, 0, 0 give exactly +1, +1, -1, -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from triage_gym.errors import InputError
from triage_gym.records import EpisodeRecord

Norm = Literal["mean_std", "mean", "leave_one_out"]
NORMS: Final[tuple[Norm, ...]] = get_args(Norm)
EPS: Final = 1e-8
MAX_SCORE: Final = 1e100
"""Larger scores are refused: their squares would overflow to infinite deviations."""


def outcome_advantages(
    records: Sequence[EpisodeRecord], norm: Norm = "mean_std", eps: float = EPS
) -> NDArray[np.float64]:
    """Each rollout's score against its group's.

    Args:
        records: Rollouts of one or more groups, in any order.
        norm: ``mean_std``: less the mean, over the population standard deviation (GRPO, arXiv:2402.03300). ``mean``:
            less the mean (Dr. GRPO, arXiv:2503.20783). ``leave_one_out``: less the mean of the others (RLOO).
        eps: Least standard deviation to divide by.

    Returns:
        Float64 array of shape ``(records,)``; 0 for a group of one, for equal outcomes and for rollouts with an error.

    Raises:
        InputError: For a score that is not finite or beyond :data:`MAX_SCORE`, or an unknown ``norm``.
    """
    if norm not in NORMS:
        raise InputError(f"Expected `norm` to be one of {NORMS}, got {norm!r}")
    return against_group(*grouped(records), norm, eps)


def against_group(
    scores: NDArray[np.float64], group: NDArray[np.int64], count: int, norm: Norm, eps: float
) -> NDArray[np.float64]:
    """As :func:`outcome_advantages`, of scores and numbers of groups, -1 for an excluded rollout."""
    out = np.zeros(len(scores))
    included = group >= 0
    if not included.any():
        return out
    score, member = scores[included], group[included]
    size = np.maximum(np.bincount(member, minlength=count), 1)
    centred = score - (np.bincount(member, score, count) / size)[member]
    if norm == "mean_std":
        std = np.sqrt(np.bincount(member, centred**2, count) / size)
        centred = centred / np.maximum(std, eps)[member]
    elif norm == "leave_one_out":
        centred = centred * (size / np.maximum(size - 1, 1))[member]
    # A mean that rounds would leave a residue where all are equal; adding 0.0 turns -0.0 into 0.0.
    out[included] = np.where(differ(score, member, count)[member], centred, 0.0) + 0.0
    return out


def deviations(scores: NDArray[np.float64], group: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Population deviation of each group's scores, of numbers of groups as in :func:`grouped`; shape ``(count,)``.

    Exactly 0 where all are equal, whatever their mean rounds to, and for an empty group.
    """
    inside = group >= 0
    member, score = group[inside], scores[inside]
    size = np.maximum(np.bincount(member, minlength=count), 1)
    centred = score - (np.bincount(member, score, count) / size)[member]
    return np.where(differ(score, member, count), np.sqrt(np.bincount(member, centred**2, count) / size), 0.0)


def outcome_varies(records: Sequence[EpisodeRecord]) -> NDArray[np.bool_]:
    """Whether the outcomes of each rollout's group differ, shape ``(records,)``; False for rollouts with an error."""
    scores, group, count = grouped(records)
    out = np.zeros(len(records), dtype=bool)
    included = group >= 0
    if included.any():
        out[included] = differ(scores[included], group[included], count)[group[included]]
    return out


def grouped(records: Sequence[EpisodeRecord]) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
    """Scores, the number of each record's group (-1 when excluded) and how many groups there are.

    Raises:
        InputError: For a score that is not finite or beyond :data:`MAX_SCORE`.
    """
    numbers: dict[str, int] = {}
    group = np.full(len(records), -1, dtype=np.int64)
    scores = np.zeros(len(records))
    for i, record in enumerate(records):
        if record.error is not None:
            continue
        if not abs(record.score) <= MAX_SCORE:
            raise InputError(
                f"Expected a finite score within ±{MAX_SCORE:g} in group {record.group_id!r}, got {record.score}; "
                "set `error` on an attempt that must not be trained"
            )
        group[i] = numbers.setdefault(record.group_id, len(numbers))
        scores[i] = record.score
    return scores, group, len(numbers)


def differ(score: NDArray[np.float64], member: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Whether the scores of each group differ, shape ``(count,)``."""
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, member, score)
    np.maximum.at(high, member, score)
    return low < high
