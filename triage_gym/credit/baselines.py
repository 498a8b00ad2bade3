"""Values of turns against a baseline: that of their group's rollouts, of their anchor, or of their batch.

One operation, :func:`standardise`, over different buckets and weights. Excluded rollouts and copied prefixes are in no
bucket: they get 0 and move nothing.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from triage_gym.credit.batch import Segments
from triage_gym.credit.whitening import ROUNDING

Norm = Literal["mean_std", "mean"]


def standardise(
    values: NDArray[np.float64],
    bucket: NDArray[np.int64],
    norm: Norm,
    eps: float,
    weight: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Each value less the weighted mean of its bucket, over the bucket's population deviation.

    Args:
        values: Shape ``(n,)``.
        bucket: Number of each value's bucket, -1 for a value that counts nowhere and gets 0; same shape.
        norm: ``mean_std``, or ``mean`` to leave out the division.
        eps: Least deviation to divide by.
        weight: Above 0, same shape; None for equal weights.

    Returns:
        Shape ``(n,)``; 0 where all values of a bucket are the same number up to rounding.
    """
    out, chosen = np.zeros(len(values)), bucket >= 0
    if not chosen.any():
        return out
    x, b = values[chosen], bucket[chosen]
    w = np.ones(len(x)) if weight is None else weight[chosen]
    count = int(b.max()) + 1
    total = np.bincount(b, w, count)
    total[total == 0.0] = 1.0
    centred = x - (np.bincount(b, w * x, count) / total)[b]
    if norm == "mean_std":
        std = np.sqrt(np.bincount(b, w * centred**2, count) / total)
        centred = centred / np.maximum(std, eps)[b]
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, b, x)
    np.maximum.at(high, b, x)
    # Divided by eps, the rounding of equal values would look like a difference, and depend on their order.
    same = high - low <= ROUNDING * np.maximum(1.0, np.maximum(np.abs(low), np.abs(high)))
    out[chosen] = np.where(same[b], 0.0, centred) + 0.0
    return out


def against_rollouts(values: NDArray[np.float64], segments: Segments, norm: Norm, eps: float) -> NDArray[np.float64]:
    """Each turn's value against its group, in which every rollout weighs the same, however long it is.

    A rollout's turns share its weight. So the mean is the mean over rollouts of each rollout's own mean, and the
    deviation goes with it. A group with one rollout has nothing to compare and gets 0.

    Args:
        values: Shape ``(segments,)``.
        segments: The batch.
        norm: As :func:`standardise`.
        eps: Least deviation to divide by.
    """
    group, count, trained = segments.group, segments.groups, segments.trained
    length = np.bincount(segments.owner[trained], minlength=len(segments))
    rollouts = np.bincount(group[length > 0], minlength=count)
    compared = (length > 0) & (rollouts[group] > 1) if count else np.zeros(len(group), dtype=bool)
    bucket = np.where(trained, np.where(compared, group, -1)[segments.owner], -1)
    return standardise(values, bucket, norm, eps, 1.0 / np.maximum(length, 1)[segments.owner])


def against_anchors(
    values: NDArray[np.float64],
    anchor: NDArray[np.int64],
    trained: NDArray[np.bool_],
    norm: Norm,
    eps: float,
) -> NDArray[np.float64]:
    """Each turn's value against the turns of its group that began at the same observation (GiGPO, arXiv:2505.10978).

    Turns weigh equally, as in the paper: a rollout that comes back to an observation counts there again. A turn whose
    observation no other turn had gets 0.

    Args:
        values: Shape ``(segments,)``.
        anchor: Number of each turn's observation in its group, same shape.
        trained: Which turns take part, same shape.
        norm: As :func:`standardise`.
        eps: Least deviation to divide by.
    """
    return standardise(values, np.where(trained, anchor, -1), norm, eps)
