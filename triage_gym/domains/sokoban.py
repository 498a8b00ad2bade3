"""Sokoban boards in words: what the text shows, and how far from solved it is.

A board is read in all three forms of :mod:`triage_gym.envs.sokoban` (rows with numbers, cells between tabs, bare grid).
:meth:`Room.moves` counts moves to the goal exactly, backwards from all solved boards, where the room has at most
:data:`STATES` of them; :meth:`Room.pushes` is a lower bound for every room. Promised: the same text gives the same answer,
and text of any length is read or refused in linear time. Left to you: rooms too large to count, whose deep deadlocks the
bound does not see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Final

from triage_gym.domains.masks import bits

MAX_TEXT: Final = 16_384
"""Longer texts are no board."""
MAX_CELLS: Final = 2500
"""Cells of the largest room that is read, and of the largest whose bound is taken."""
MAX_BOXES: Final = 64
"""Boxes of the fullest room that is read."""
STATES: Final = 12_000
"""Player and boxes can stand in at most so many ways in a room whose moves are counted exactly."""
_PAIRED: Final = 6
"""Most boxes that are paired with targets exactly; more go to the nearest target each."""
_NUMBER: Final = re.compile(r"\d{1,4}:")
_SYMBOLS: Final = str.maketrans("", "", "#_OX√PS")
_GROUND: Final = str.maketrans("X√PS", "_O_O")
_UP_TO: Final = re.compile(r"An action is up to (\d{1,3}) moves")
_ONE: Final = "An action is one move"
_MOVES: Final = ("up", "down", "left", "right", "still")
_STILL: Final = 4


class Room:
    """Walls and targets, and how far boxes are from them.

    Args:
        cells: The rows one after the other: wall ``#``, target ``O`` or floor ``_``, with walls all around.
        width: Columns.
    """

    def __init__(self, cells: str, width: int) -> None:
        self.steps = (-width, width, -1, 1)
        self.walls = _mask(cells, "#")
        self.targets = _mask(cells, "O")
        self._floor = len(cells) - self.walls.bit_count()
        self._width = width
        self._away = [self._pushes_to(target) for target in bits(self.targets)]
        """For each target the pushes to it from each cell, of a box alone in the room."""
        self._live = sorted({cell for away in self._away for cell in away})
        self._bounds: dict[int, int | None] = {}
        self._tables: dict[int, dict[tuple[int, int], int] | None] = {}

    def moves(self, player: int, boxes: int) -> tuple[bool, int | None]:
        """Whether the moves to the goal can be counted, and how many they are; None when it is out of reach."""
        count = boxes.bit_count()
        if count not in self._tables:
            self._tables[count] = self._count_back(count)
        table = self._tables[count]
        return (False, None) if table is None else (True, table.get((player, boxes)))

    def pushes(self, boxes: int) -> int | None:
        """Pushes that are needed at the least; None when a box can never reach a target, or is frozen off target."""
        if boxes not in self._bounds:
            if len(self._bounds) >= STATES:
                self._bounds.clear()
            self._bounds[boxes] = None if self._frozen(boxes) else self._matched(boxes)
        return self._bounds[boxes]

    def _pushes_to(self, target: int) -> dict[int, int]:
        found, ring = {target: 0}, [target]
        for cell in ring:
            for step in self.steps:
                box, player = cell - step, cell - 2 * step
                if box not in found and not self.walls >> box & 1 and not self.walls >> player & 1:
                    found[box] = found[cell] + 1
                    ring.append(box)
        return found

    def _frozen(self, boxes: int) -> bool:
        """Whether a box off target stands in a two by two block of walls and boxes."""
        full, width = self.walls | boxes, self._width
        corner = full & full >> 1 & full >> width & full >> width + 1
        block = corner | corner << 1 | corner << width | corner << width + 1
        return bool(block & boxes & ~self.targets)

    def _matched(self, boxes: int) -> int | None:
        rows = [[away.get(box) for away in self._away] for box in bits(boxes)]
        if len(rows) > _PAIRED or len(self._away) > 2 * _PAIRED:
            nearest = [min((n for n in row if n is not None), default=None) for row in rows]
            return None if None in nearest else sum(n for n in nearest if n is not None)
        return matched(rows)

    def _count_back(self, count: int) -> dict[tuple[int, int], int] | None:
        """Moves to the goal from everywhere, by breadth from all solved boards; None for too large a room."""
        if comb(len(self._live), count) * self._floor > STATES:
            return None
        found: dict[tuple[int, int], int] = {}
        for chosen in combinations(bits(self.targets), count):
            boxes = sum(1 << target for target in chosen)
            found.update({(cell, boxes): 0 for cell in range(self.walls.bit_length()) if self._free(cell, boxes)})
        ring = list(found)
        for player, boxes in ring:
            for before in self._before(player, boxes):
                if before not in found:
                    found[before] = found[player, boxes] + 1
                    ring.append(before)
        return found

    def _free(self, cell: int, boxes: int) -> bool:
        return not (self.walls | boxes) >> cell & 1

    def _before(self, player: int, boxes: int) -> Iterator[tuple[int, int]]:
        """From where one move leads here, by a walk or by a push."""
        for step in self.steps:
            yield from self._undone(player, boxes, step)

    def _undone(self, player: int, boxes: int, step: int) -> list[tuple[int, int]]:
        behind = player - step
        if not self._free(behind, boxes):
            return []
        if not boxes >> player + step & 1:
            return [(behind, boxes)]
        return [(behind, boxes), (behind, boxes ^ (1 << player | 1 << player + step))]

    def undone(self, player: int, boxes: int, move: int) -> list[tuple[int, int]]:
        """From where a move (up, down, left, right) can have led here: walking, pushing, or in vain."""
        step = self.steps[move]
        found = self._undone(player, boxes, step)
        ahead = player + step
        if self.walls >> ahead & 1 or (boxes >> ahead & 1 and not self._free(ahead + step, boxes)):
            found.append((player, boxes))
        return found


@dataclass(frozen=True, slots=True)
class Board:
    """A room with boxes and a player in it."""

    ground: str
    """The room alone: the arguments of :class:`Room`, which is made when it is asked for."""
    width: int
    player: int
    boxes: int
    """Bit mask."""

    @property
    def room(self) -> Room:
        """What walls and targets mean for boxes; kept for the next board of the room."""
        return _room(self.ground, self.width)

    @property
    def placed(self) -> int:
        """Boxes on targets."""
        return (self.boxes & self.room.targets).bit_count()


@lru_cache(maxsize=4096)
def parse_board(text: str) -> Board | None:
    """The board that a text shows, in any of the three forms; None when it shows none, or too large a one."""
    if len(text) > MAX_TEXT:
        return None
    rows = ["".join(_NUMBER.sub("", line, count=1).split()) for line in text.strip("\n").split("\n")]
    width = len(rows[0])
    if not width or any(len(row) != width for row in rows) or len(rows) * width > MAX_CELLS:
        return None
    # One more wall all around: a room that is open at its edge ends there.
    cells = "#" * (width + 2) + "".join([f"#{row}#" for row in rows]) + "#" * (width + 2)
    boxes = _mask(cells, "X") | _mask(cells, "√")
    if cells.translate(_SYMBOLS) or cells.count("P") + cells.count("S") != 1 or not 0 < boxes.bit_count() <= MAX_BOXES:
        return None
    return Board(cells.translate(_GROUND), width + 2, max(cells.find("P"), cells.find("S")), boxes)


@lru_cache(maxsize=64)
def _room(cells: str, width: int) -> Room:
    return Room(cells, width)


def moves_a_turn(task: str) -> int:
    """Moves of one action as the instruction tells them; 1 when it does not."""
    if _ONE in task:
        return 1
    found = _UP_TO.search(task)
    return max(int(found[1]), 1) if found else 1


def moves_of(action: str, a_turn: int) -> list[int]:
    """The moves (up, down, left, right) that an action says, in its setting's tags or without, cut to those of a turn."""
    text = action[:MAX_TEXT].lower()
    for tag in ("action", "answer"):
        start, end = text.find(f"<{tag}>"), text.rfind(f"</{tag}>")
        if 0 <= start < end:
            text = text[start + len(tag) + 2 : end]
            break
    parts = text.split("||" if "||" in text else ",")
    said = [next((i for i, word in enumerate(_MOVES) if word in part), None) for part in parts]
    return [move for move in [move for move in said if move is not None][:a_turn] if move != _STILL]


def matched(rows: Sequence[Sequence[int | None]]) -> int | None:
    """Least total cost of giving each box a target of its own, exactly; None when there is no way.

    Args:
        rows: For each box its cost to each target, None where it cannot get there.
    """
    best = {0: 0}
    for row in rows:
        after: dict[int, int] = {}
        for taken, spent in best.items():
            for target, cost in enumerate(row):
                if cost is not None and not taken >> target & 1:
                    key = taken | 1 << target
                    total = spent + cost
                    if total < after.get(key, total + 1):
                        after[key] = total
        best = after
    return min(best.values(), default=None)


def _mask(cells: str, symbol: str) -> int:
    return sum(1 << i for i, cell in enumerate(cells) if cell == symbol)
