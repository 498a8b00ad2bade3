"""Whitening: advantages of a batch brought to mean 0 and standard deviation 1, each segment weighing the same."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

ROUNDING: Final = 1e-12
"""Advantages closer than this, relative to their size, are the same number computed in another order."""


def whiten(values: NDArray[np.float64], counted: NDArray[np.bool_], eps: float) -> NDArray[np.float64]:
    """Standardise the counted values by their own mean and population standard deviation (TRIAGE, arXiv:2606.32017).

    Args:
        values: Advantages, shape ``(segments,)``.
        counted: Which of them take part, same shape. The others are returned as they came and move nothing.
        eps: Least standard deviation to divide by. Values that are equal up to rounding become 0.
    """
    out = values.copy()
    if counted.any():
        chosen = values[counted]
        low, high = float(chosen.min()), float(chosen.max())
        # Divided by eps, the rounding of equal advantages would look like a difference, and depend on their order.
        if high - low <= ROUNDING * max(1.0, abs(low), abs(high)):
            out[counted] = 0.0
        else:
            out[counted] = (chosen - chosen.mean()) / max(float(chosen.std()), eps)
    return out
