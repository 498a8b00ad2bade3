"""Sets of cells as bit masks of integers: what the boards of Sokoban and Minesweeper are counted with."""

from __future__ import annotations


def bits(mask: int) -> list[int]:
    """The positions of a bit mask, lowest first."""
    out = []
    while mask:
        low = mask & -mask
        out.append(low.bit_length() - 1)
        mask ^= low
    return out
