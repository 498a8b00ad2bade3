"""A Minesweeper board as facts about its closed cells, counted on the shown text; no solver and no search.

Twice around each number: a number that has as many closed cells around it as mines makes these *mines*; a number whose
mines are all known that way makes the other closed cells around it *safe*. For every other cell the largest *share*, mines
not known yet over cells not known yet, of the numbers beside it, and how many mines to *expect* among its closed
neighbours (few: opening it may open these too). What a careful player sees at a glance; sets of numbers are not combined.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from triage_gym.trainers.policy import grid_words as words
from triage_gym.trainers.policy.grid_words import STATE, TOKEN, row

MAX_CELLS: Final = 600
"""Cells of the largest board that is read: the counts take the square of it."""
_LINE: Final = re.compile(r"Row \d+: ([?.*1-8](?: [?.*1-8])*)")
_MINES: Final = re.compile(r"with (\d{1,4}) hidden mine")
_SHARE_EDGES: Final = np.array([0.01, 0.21, 0.3, 0.4, 0.6, 0.99], np.float32)
_AROUND_EDGES: Final = np.array([0.02, 0.15, 0.35, 0.6, 0.9, 1.3, 2.0], np.float32)
_ROUNDING: Final = 1e-4
"""Sums round a little otherwise on other machines; none of them lies this far below an edge for that reason alone."""
_CHANCE_EDGES: Final = (0.05, 0.1, 0.15, 0.2, 0.3)
_CLOSED_EDGES: Final = (4, 7, 10, 14, 18, 22, 26, 30)
_QUESTION, _ZERO = ord("?"), ord("0")


@dataclass(frozen=True, slots=True)
class Minefield:
    """What a board shows."""

    words: tuple[int, ...]
    """State words."""
    tokens: dict[str, tuple[int, ...]]
    """Tokens of the command that opens a closed cell, by command."""


_NEAR_WORDS, _NUMBER_WORDS, _SHARE_WORDS = (
    row(TOKEN, "near", words.NEAR),
    row(TOKEN, "numbers", words.NUMBERS),
    row(TOKEN, "share", words.SHARES),
)
_STATUS_AROUND = [row(TOKEN, f"{status} around", words.AROUND) for status in words.STATUS]
_SHARE_AROUND = [row(TOKEN, f"share {share} around", words.AROUND) for share in range(words.SHARES)]
_STATUS_WORDS = [TOKEN[status] for status in words.STATUS]
_CLOSED, _LEFT, _SAFE, _CHANCE = (
    row(STATE, name, n)
    for name, n in (
        ("closed", words.CLOSED),
        ("mines left", words.LEFT),
        ("known safe", words.FEW),
        ("chance", words.BASE),
    )
)


def mines_of(task: str) -> int | None:
    """How many mines the task says there are; None when it does not."""
    found = _MINES.search(task)
    return None if found is None else int(found[1])


@lru_cache(maxsize=4096)
def read_minefield(observation: str, mines: int | None) -> Minefield | None:
    """The facts of a board; None when the text shows none.

    Args:
        observation: The board's text.
        mines: How many mines there are; None when that is not known.
    """
    lines = [_LINE.fullmatch(line) for line in observation.split("\n")]
    rows = [line[1][::2] for line in lines if line is not None]
    width = len(rows[0]) if rows else 0
    if len(rows) < len(lines) or any(len(r) != width for r in rows) or not 0 < width * len(rows) <= MAX_CELLS:
        return None
    return _facts(np.frombuffer("".join(rows).encode(), np.uint8), len(rows), width, mines)


def _facts(cells: NDArray[np.uint8], height: int, width: int, mines: int | None) -> Minefield:
    near, names = _beside(height, width)
    closed = cells == _QUESTION
    is_number = (cells > _ZERO) & (cells < _QUESTION)
    counts = near @ np.stack([closed, is_number], 1).astype(np.float32)
    beside, numbers = counts[:, 0], counts[:, 1]
    shown = cells.astype(np.float32) - _ZERO
    mine = closed & ((near @ (is_number & (shown == beside)).astype(np.float32)) > 0)
    known = near @ mine.astype(np.float32)
    rest, left = beside - known, shown - known
    safe = closed & ~mine & ((near @ (is_number & (left == 0)).astype(np.float32)) > 0)
    rest -= near @ safe.astype(np.float32)
    share = np.where(is_number & (rest > 0) & (left > 0), left / np.maximum(rest, 1), 0).astype(np.float32)
    unknown = closed & ~mine & ~safe
    most = np.where(unknown, (near * share).max(1), 0)
    open_left, count = None if mines is None else max(mines - int(mine.sum()), 0), int(unknown.sum())
    chance = 0.15 if open_left is None else min(open_left / max(count, 1), 1.0)
    expected = near @ (np.where(most > 0, most, chance) * unknown + mine).astype(np.float32)
    status = (mine + 2 * safe)[closed].tolist()
    facts = zip(
        status,
        np.searchsorted(_SHARE_EDGES, most[closed], "right").tolist(),
        np.searchsorted(_AROUND_EDGES, expected[closed] + _ROUNDING, "right").tolist(),
        np.minimum(numbers[closed], words.NUMBERS - 1).astype(int).tolist(),
        beside[closed].astype(int).tolist(),
        strict=True,
    )
    tokens = {names[i]: _tokens(*fact) for i, fact in zip(np.flatnonzero(closed).tolist(), facts, strict=True)}
    return Minefield(_words(len(tokens), open_left, int(safe.sum()), chance), tokens)


@lru_cache(maxsize=65_536)
def _tokens(status: int, share: int, around: int, numbers: int, beside: int) -> tuple[int, ...]:
    """The tokens of a closed cell."""
    common = _NUMBER_WORDS[numbers], _NEAR_WORDS[beside]
    if status:
        return _STATUS_WORDS[status], _STATUS_AROUND[status][around], *common
    return _STATUS_WORDS[0], _STATUS_AROUND[0][around], _SHARE_WORDS[share], _SHARE_AROUND[share][around], *common


def _words(closed: int, left: int | None, safe: int, chance: float) -> tuple[int, ...]:
    found = [
        STATE["minefield"],
        _CLOSED[sum(closed >= edge for edge in _CLOSED_EDGES)],
        _SAFE[min(safe, words.FEW - 1)],
        _CHANCE[sum(chance >= edge for edge in _CHANCE_EDGES)],
    ]
    return tuple(found if left is None else [*found, _LEFT[min(left, words.LEFT - 1)]])


@lru_cache(maxsize=8)
def _beside(height: int, width: int) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """``(N, N)`` of 0 and 1, which cells touch, and the command that opens each cell."""
    rows, columns = np.divmod(np.arange(height * width), width)
    apart = np.maximum(np.abs(rows[:, None] - rows), np.abs(columns[:, None] - columns))
    names = tuple([f"({r + 1}, {c + 1})" for r in range(height) for c in range(width)])
    return (apart == 1).astype(np.float32), names
