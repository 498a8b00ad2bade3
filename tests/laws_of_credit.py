"""What the two files of credit laws share: how many examples a law has, and what it is held to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import settings

from triage_gym.credit.tokens import broadcast_batch
from triage_gym.protocols import CreditRule
from triage_gym.records import EpisodeRecord

law = settings(max_examples=int(os.environ.get("LAW_EXAMPLES", "1000")), deadline=None, derandomize=True)


def close(a: Sequence[Any], b: Sequence[Any], tolerance: float = 1e-9) -> bool:
    """Whether two lists of arrays agree in shape and, to ``tolerance``, in value."""
    return len(a) == len(b) and all(
        x.shape == y.shape and bool(np.all(np.abs(x - y) <= tolerance)) for x, y in zip(a, b, strict=True)
    )


def check_padding(rule: CreditRule, batch: Sequence[EpisodeRecord], padding: int) -> None:
    """Hold token advantages to be the same, and nothing beyond, in a longer sequence."""
    advantages = rule(batch)
    spans = [[(2 * k, 2 * k + 1) for k in range(len(r))] for r in batch]
    length = max([2 * len(r) for r in batch], default=0)
    tight, mask = broadcast_batch(batch, advantages, spans, length)
    padded, padded_mask = broadcast_batch(batch, advantages, spans, length + padding)
    assert np.array_equal(padded[:, :length], tight), rule
    assert np.array_equal(padded_mask[:, :length], mask), rule
    assert not padded[:, length:].any(), rule
    assert not padded_mask[:, length:].any(), rule
