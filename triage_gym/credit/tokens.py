"""From segment advantages to token advantages: every generated token gets its own segment's number, no other any.

For policies that write their actions as tokens. Prompt and observation tokens get 0 and mask False, and so do the tokens
of excluded rollouts and of segments that a retry copied.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from triage_gym.errors import InputError
from triage_gym.records import EpisodeRecord

Span = tuple[int, int]
"""First and last+1 token that were generated for a segment."""


def broadcast(
    record: EpisodeRecord, advantages: NDArray[np.floating], spans: Sequence[Span], length: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Token advantages and loss mask of one rollout.

    Args:
        record: The rollout; its ``error`` and ``prefix_length`` decide what is masked.
        advantages: Shape ``(segments,)``.
        spans: The generated tokens of each segment, in order; they must not overlap. An empty span is allowed.
        length: Tokens of the sequence, padding included.

    Returns:
        Advantages (float64, 0 where masked) and mask (True where the loss counts), both of shape ``(length,)``.

    Raises:
        InputError: When numbers of segments differ, or a span leaves the sequence, is out of order or overlaps.
    """
    n = len(record.segments)
    if len(advantages) != n or len(spans) != n:
        raise InputError(
            f"Expected an advantage and a span for each of the {n} segments of {record.group_id!r}, "
            f"got {len(advantages)} advantages and {len(spans)} spans"
        )
    values, mask = np.zeros(length), np.zeros(length, dtype=bool)
    end = 0
    for k, (start, stop) in enumerate(spans):
        if not end <= start <= stop <= length:
            raise InputError(
                f"Expected span {k} of {record.group_id!r} in [{end}, {length}], in order and not overlapping, "
                f"got ({start}, {stop})"
            )
        end = stop
        if record.error is None and k >= record.prefix_length:
            values[start:stop] = advantages[k]
            mask[start:stop] = True
    return values, mask


def broadcast_batch(
    records: Sequence[EpisodeRecord],
    advantages: Sequence[NDArray[np.floating]],
    spans: Sequence[Sequence[Span]],
    length: int,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """:func:`broadcast` of a batch, padded on the right.

    Returns:
        Advantages and mask, both of shape ``(records, length)``.

    Raises:
        InputError: As :func:`broadcast`, or when the three sequences differ in length.
    """
    if not len(records) == len(advantages) == len(spans):
        raise InputError(
            f"Expected as many advantages and spans as records, got {len(records)}, {len(advantages)}, {len(spans)}"
        )
    rows = [broadcast(r, a, s, length) for r, a, s in zip(records, advantages, spans, strict=True)]
    if not rows:
        return np.zeros((0, length)), np.zeros((0, length), dtype=bool)
    return np.stack([v for v, _ in rows]), np.stack([m for _, m in rows])
