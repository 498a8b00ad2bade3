"""Whitening: advantages of a batch brought to mean 0 and standard deviation 1, each segment weighing the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def whiten(values: NDArray[np.float64], counted: NDArray[np.bool_], eps: float) -> NDArray[np.float64]:
    """Standardise the counted values by their own mean and population standard deviation (TRIAGE, arXiv:2606.32017).

    Args:
        values: Advantages, shape ``(segments,)``.
        counted: Which of them take part, same shape. The others are returned as they came and move nothing.
        eps: Least standard deviation to divide by. Equal values become 0.
    """
    out = values.copy()
    if counted.any():
        chosen = values[counted]
        if chosen.min() == chosen.max():
            out[counted] = 0.0
        else:
            out[counted] = (chosen - chosen.mean()) / max(float(chosen.std()), eps)
    return out
