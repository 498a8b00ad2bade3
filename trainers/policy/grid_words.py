"""The words that boards are told to the scorer network in: fixed vocabularies for Minesweeper, Sokoban and other texts.

Equal weights mean the same in every process. The last :data:`OTHERS` words of either vocabulary are buckets of CRC-32 for
texts that are none of these boards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

OTHERS: Final = 256
"""Buckets of other words."""
TURNS, CLOSED, LEFT, FEW, BASE = 10, 9, 6, 4, 6
"""State words of a kind: turns, and for Minesweeper closed cells, hidden mines left, cells known to be safe, chances."""
SHARES, AROUND, NUMBERS, NEAR = 7, 8, 5, 9
"""Token words of a kind, for Minesweeper: share of mines, mines to expect around, numbers beside, closed cells beside."""
PUSHES, BOXES = 13, 5
"""State words of a kind, for Sokoban: pushes left, boxes not on a target."""
GAINS, WALKS, LENGTHS = 7, 10, 6
"""Token words of a kind, for Sokoban: pushes gained (-3 to 3), steps to the next push (the last is none), moves."""
STATUS: Final = ("unknown", "mine", "safe")


def _count(name: str, n: int) -> list[str]:
    return [f"{name} {i}" for i in range(n)]


def _state_words() -> list[str]:
    return [
        *_count("turn", TURNS),
        "minefield",
        *_count("closed", CLOSED),
        *_count("mines left", LEFT),
        *_count("known safe", FEW),
        *_count("chance", BASE),
        "room",
        *_count("pushes", PUSHES),
        *_count("boxes", BOXES),
        "beyond solving",
        *_count("walk", WALKS),
        "other",
        *_count("other", OTHERS),
    ]


def _token_words() -> list[str]:
    return [
        "",  # padding
        *STATUS,
        *_count("share", SHARES),
        *(f"{s} around {i}" for s in STATUS for i in range(AROUND)),
        *(f"share {s} around {i}" for s in range(SHARES) for i in range(AROUND)),
        *_count("numbers", NUMBERS),
        *_count("near", NEAR),
        *(f"gain {i}" for i in range(GAINS)),
        *_count("walk", WALKS),
        *(f"gain {g} walk {w}" for g in range(GAINS) for w in range(WALKS)),
        *(f"on target {i}" for i in range(5)),
        *_count("moves", LENGTHS),
        "lost", "solved", "bump", "stays",
        "other",
        *_count("other", OTHERS),
    ]  # fmt: skip


STATE_WORDS: Final = tuple(_state_words())
TOKEN_WORDS: Final = tuple(_token_words())
STATE: Final = {word: i for i, word in enumerate(STATE_WORDS)}
TOKEN: Final = {word: i for i, word in enumerate(TOKEN_WORDS)}


def row(table: dict[str, int], name: str, n: int) -> tuple[int, ...]:
    """Numbers of the words ``"<name> 0"`` to ``"<name> <n-1>"``."""
    return tuple([table[f"{name} {i}"] for i in range(n)])


def bucket(table: dict[str, int], words: Sequence[str], kind: str) -> list[int]:
    """Numbers of other words, each once."""
    first = table["other 0"]
    return list(dict.fromkeys([first + crc32(f"{kind}:{w}".encode("utf-8", "replace")) % OTHERS for w in words]))
