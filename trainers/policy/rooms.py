"""A Sokoban board as facts about lists of moves: what each would do, walked through on the shown text.

Everything is counted from the board, which shows the whole room: where a list of moves ends, whether it bumps, whether a
box comes to lie where it can never be brought to a target, whether the *pushes left* grow or shrink, and how many steps the
next push that makes them shrink is away. Pushes left is a count that leaves the player and the other boxes aside: for each
box the pushes to a target of its own along the floor, in the best pairing. It is a guess, as a player makes it; nothing is
searched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations
from typing import Final

from triage_gym.domains.masks import bits
from triage_gym.trainers.policy.grid_words import BOXES, GAINS, LENGTHS, PUSHES, STATE, TOKEN, WALKS, row

MAX_CELLS: Final = 2500
"""Cells of the largest room that is read."""
_ROW: Final = re.compile(r"\d+:")
_SPLIT: Final = re.compile(r"\s*(?:,|\|\|)\s*|\s+")
_MOVES: Final = {"up": 0, "down": 1, "left": 2, "right": 3}
_PAIRED: Final = 4
"""Most boxes that are paired with targets exactly; more go to the nearest target each."""
_FAR: Final = 1_000
_STATES: Final = 256
"""Places of the boxes that a room remembers the facts of."""

Ended = tuple[int, int]
"""Player's cell, and the boxes as a bit mask."""


class Room:
    """Walls and targets, and what they mean for boxes.

    Args:
        cells: The rows one after the other, each symbol a wall ``#``, a target ``O`` or floor; walls all around.
        width: Columns.
    """

    def __init__(self, cells: str, width: int) -> None:
        self.steps = (-width, width, -1, 1)
        self.walls = _mask(cells, "#")
        self.targets = [i for i, cell in enumerate(cells) if cell == "O"]
        self.target_mask = _mask(cells, "O")
        self._from = [self._pushes(target) for target in self.targets]
        self._left: dict[int, int] = {}
        self._walks: dict[int, dict[int, int]] = {}

    def _pushes(self, target: int) -> dict[int, int]:
        """Pushes from each cell to ``target``, of a box alone in the room."""
        found, ring = {target: 0}, [target]
        while ring:
            outer = []
            for cell in ring:
                for step in self.steps:
                    box, player = cell - step, cell - 2 * step
                    if box not in found and not self.walls >> box & 1 and not self.walls >> player & 1:
                        found[box] = found[cell] + 1
                        outer.append(box)
            ring = outer
        return found

    def left(self, boxes: int) -> int:
        """Pushes left; :data:`_FAR` or more when a box is beyond saving."""
        found = self._left.get(boxes)
        if found is None:
            if len(self._left) >= 16 * _STATES:
                self._left.clear()
            found = self._left[boxes] = self._count(boxes)
        return found

    def _count(self, boxes: int) -> int:
        away = [[pushes.get(box, _FAR) for pushes in self._from] for box in bits(boxes)]
        if len(away) > _PAIRED or len(self.targets) > _PAIRED or len(away) > len(self.targets):
            return sum(min(row, default=_FAR) for row in away)
        choices = permutations(range(len(self.targets)), len(away))
        return min(sum(row[t] for row, t in zip(away, chosen, strict=True)) for chosen in choices)

    def walks(self, boxes: int) -> dict[int, int]:
        """Steps from each cell to the nearest one from which a push makes the pushes left fewer; none where there is none."""
        found = self._walks.get(boxes)
        if found is None:
            if len(self._walks) >= _STATES:
                self._walks.clear()
            found = self._walks[boxes] = self._spread(boxes)
        return found

    def _spread(self, boxes: int) -> dict[int, int]:
        blocked, left = self.walls | boxes, self.left(boxes)
        ring = []
        for box in bits(boxes):
            for step in self.steps:
                free = not (blocked >> box + step | blocked >> box - step) & 1
                if free and self.left(boxes ^ (1 << box | 1 << box + step)) < left:
                    ring.append(box - step)
        found = dict.fromkeys(ring, 0)
        far = 0
        while ring and far < WALKS - 2:
            far += 1
            outer = []
            for cell in ring:
                for step in self.steps:
                    if cell + step not in found and not blocked >> cell + step & 1:
                        found[cell + step] = far
                        outer.append(cell + step)
            ring = outer
        return found

    def after(self, player: int, boxes: int, move: int) -> Ended:
        """The state after one move; the same one when it bumps."""
        step = self.steps[move]
        ahead = player + step
        if self.walls >> ahead & 1:
            return player, boxes
        if boxes >> ahead & 1:
            if (self.walls | boxes) >> ahead + step & 1:
                return player, boxes
            boxes ^= 1 << ahead | 1 << ahead + step
        return ahead, boxes


class Board:
    """A room with boxes and a player in it.

    Args:
        room: The room.
        player: The player's cell.
        boxes: The boxes as a bit mask.
    """

    def __init__(self, room: Room, player: int, boxes: int) -> None:
        self.room, self.player, self.boxes = room, player, boxes
        self._on = (boxes & room.target_mask).bit_count()
        self._ends: dict[Ended, tuple[int, ...]] = {}

    def words(self) -> tuple[int, ...]:
        """State words."""
        left = self.room.left(self.boxes)
        walk = self.room.walks(self.boxes).get(self.player, WALKS - 1)
        off = self.boxes.bit_count() - self._on
        words = [STATE["room"], _BOX_WORDS[min(off, BOXES - 1)], _WALK_STATE[min(walk, WALKS - 1)]]
        return (*words, STATE["beyond solving"] if left >= _FAR else _PUSH_WORDS[min(left, PUSHES - 1)])

    def tokens(self, plan: Sequence[tuple[int, int, int]]) -> list[tuple[int, ...]]:
        """Tokens of each list of moves of a ``plan`` of :func:`plan_of`; what comes after the solving move is not played."""
        start = self.player, self.boxes
        ends: list[Ended] = []
        bumps: list[bool] = []
        out = []
        after, known, off = self.room.after, self._ends, ~self.room.target_mask
        for parent, move, length in plan:
            before = start if parent < 0 else ends[parent]
            end = after(*before, move) if before[1] & off else before
            bump = (end == before and before[1] & off != 0) or (parent >= 0 and bumps[parent])
            ends.append(end)
            bumps.append(bump)
            facts = known.get(end)
            if facts is None:
                facts = known[end] = self._facts(end)
            out.append(facts + _TAILS[bump][length])
        return out

    def _facts(self, end: Ended) -> tuple[int, ...]:
        """Tokens of where a list of moves ends."""
        player, boxes = end
        room = self.room
        before, left = room.left(self.boxes), room.left(boxes)
        gain = 3 + max(-3, min(3, before - left)) if left < _FAR else 3
        walk = min(room.walks(boxes).get(player, WALKS - 1), WALKS - 1)
        on = (boxes & room.target_mask).bit_count() - self._on
        tokens = [_GAIN_WORDS[gain], _WALK_WORDS[walk], _GAIN_WALK[gain][walk], _ON_WORDS[2 + max(-2, min(2, on))]]
        if left >= _FAR > before:
            tokens.append(TOKEN["lost"])
        elif left == 0:
            tokens.append(TOKEN["solved"])
        if end == (self.player, self.boxes):
            tokens.append(TOKEN["stays"])
        return tuple(tokens)


_GAIN_WORDS, _WALK_WORDS, _ON_WORDS = row(TOKEN, "gain", GAINS), row(TOKEN, "walk", WALKS), row(TOKEN, "on target", 5)
_GAIN_WALK = [row(TOKEN, f"gain {gain} walk", WALKS) for gain in range(GAINS)]
_LENGTH_WORDS = row(TOKEN, "moves", LENGTHS)
_TAILS = ([(word,) for word in _LENGTH_WORDS], [(word, TOKEN["bump"]) for word in _LENGTH_WORDS])
_PUSH_WORDS, _BOX_WORDS, _WALK_STATE = (
    row(STATE, "pushes", PUSHES),
    row(STATE, "boxes", BOXES),
    row(STATE, "walk", WALKS),
)
MOST_TOKENS: Final = 8
"""Tokens of a list of moves at most."""


@lru_cache(maxsize=4096)
def read_board(observation: str) -> Board | None:
    """The board that a text shows, in any of the three forms; None when it shows none."""
    rows = ["".join(_ROW.sub("", line, count=1).split()) for line in observation.split("\n")]
    width = len(rows[0])
    if not width or any(len(r) != width for r in rows) or len(rows) * width > MAX_CELLS:
        return None
    # One more wall all around: a room that is open at its edge ends there.
    cells = "#" * (width + 2) + "".join([f"#{r}#" for r in rows]) + "#" * (width + 2)
    if cells.translate(_SYMBOLS) or cells.count("P") + cells.count("S") != 1:
        return None
    boxes = _mask(cells, "X") | _mask(cells, "√")
    if not boxes:
        return None
    return Board(_room(cells.translate(_GROUND), width + 2), max(cells.find("P"), cells.find("S")), boxes)


_SYMBOLS: Final = str.maketrans("", "", "#_OX√PS")
_GROUND: Final = str.maketrans("X√PS", "_O_O")


@lru_cache(maxsize=256)
def _room(cells: str, width: int) -> Room:
    return Room(cells, width)


@lru_cache(maxsize=64)
def plan_of(commands: tuple[str, ...]) -> tuple[tuple[int, int, int], ...] | None:
    """How to play many lists of moves, each from where a shorter one ended; None unless all of them are lists of moves.

    Returns:
        For each command the position of the one that it goes on from (-1: from the start), its last move, and its length.
        Only such orders are read in which every list comes after the one that is shorter by its last move.
    """
    at: dict[tuple[int, ...], int] = {(): -1}
    out = []
    for position, text in enumerate(commands):
        moves = [_MOVES.get(word) for word in _SPLIT.split(text.strip().lower())]
        path = tuple([move for move in moves if move is not None])
        if len(path) != len(moves) or path[:-1] not in at:
            return None
        at.setdefault(path, position)
        out.append((at[path[:-1]], path[-1], min(len(path), LENGTHS - 1)))
    return tuple(out)


def _mask(cells: str, symbol: str) -> int:
    return sum(1 << i for i, cell in enumerate(cells) if cell == symbol)
