"""What a credit rule must answer, held against what it answered, before any of it reaches the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triage_gym.errors import InputError
from triage_gym.records import EpisodeRecord


def checked(name: str, advantages: Any, records: Sequence[EpisodeRecord]) -> list[NDArray[Any]]:
    """The advantages as arrays, unchanged: one array a record, one finite number a segment.

    Args:
        name: The credit rule, for the message.
        advantages: Its answer.
        records: What it was asked about.

    Raises:
        InputError: When the answer has another form.
    """
    if not isinstance(advantages, Sequence | np.ndarray) or len(advantages) != len(records):
        got = len(advantages) if isinstance(advantages, Sequence | np.ndarray) else type(advantages).__name__
        raise InputError(
            f"Expected {len(records)} arrays of advantages from the credit rule {name!r}, one a record, got {got}"
        )
    return [
        _checked(name, own, record, number)
        for number, (own, record) in enumerate(zip(advantages, records, strict=True))
    ]


def _checked(name: str, own: Any, record: EpisodeRecord, number: int) -> NDArray[Any]:
    where = f"from the credit rule {name!r} for record {number} (group {record.group_id!r})"
    try:
        array = np.asarray(own)
        with np.errstate(over="ignore"):
            finite = bool(np.isfinite(array.astype(np.float32)).all())
    except (TypeError, ValueError) as error:
        raise InputError(f"Expected an array of numbers {where}, got: {error}") from error
    if array.shape != (len(record),):
        raise InputError(f"Expected {len(record)} advantages {where}, one a segment, got the shape {array.shape}")
    if not finite:
        raise InputError(f"Expected finite advantages {where}, got {array.tolist()!r:.120}")
    return array


def newly_acted(advantages: Sequence[NDArray[Any]], records: Sequence[EpisodeRecord]) -> NDArray[Any]:
    """The advantages of the segments that were acted in their own attempt, laid end to end.

    What a retry copied was acted, and is trained, in the attempt it was copied from.
    """
    return np.concatenate([own[record.prefix_length :] for own, record in zip(advantages, records, strict=True)])
