"""Solver: shortest ways to push all boxes onto targets, or the proof that there is none, or "unknown".

States are searched push by push with A*: boxes and floor are bit masks, so a flood fill of where the player can walk is
a few operations on integers. The lower bound is the cheapest matching of boxes to targets by pushes in the empty room.
Pruned for good are boxes on squares from which no target can be reached (found by pulling from the targets) and boxes
off target frozen in a two by two block.

Promises: with ``minimise="moves"`` no solution has fewer moves, with ``"pushes"`` none has fewer pushes; "unsolvable" is
a proof; within its budget of states the search always ends. A room that needs more states than that is "unknown".
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from triage_gym.domains.masks import bits
from triage_gym.domains.sokoban import matched
from triage_gym.envs.sokoban.level import Level

Verdict = Literal["solved", "unsolvable", "unknown"]
Cost = Literal["moves", "pushes"]
MOVES: Final = "UDLR"
NODES: Final = 60_000
"""States looked at before the answer is "unknown"."""
_EXACT_MATCHING: Final = 7
"""Most boxes whose matching is exact; above, each box is taken to its nearest target, which is a lower bound too."""


@dataclass(frozen=True, slots=True)
class Solution:
    """What a search found."""

    verdict: Verdict
    moves: str = ""
    """Letters U, D, L, R; pushes and walks alike. Empty unless solved."""
    pushes: int = 0
    nodes: int = 0
    """States looked at."""


class Board:
    """What never changes in a level, as bit masks: bit ``i`` is cell ``i``."""

    def __init__(self, level: Level) -> None:
        self.width = level.width
        self.steps = (-level.width, level.width, -1, 1)
        self.floor = mask(level.floor)
        self.walls = ~self.floor & ((1 << len(level.cells)) - 1)
        self.targets = mask(level.targets)
        self._pushes = [self._pushes_to(target) for target in level.targets]
        self.live = mask(cell for pushes in self._pushes for cell in pushes)

    def reach(self, player: int, boxes: int) -> int:
        """Where the player can walk."""
        free = self.floor & ~boxes
        seen, more = 0, 1 << player
        while more != seen:
            seen = more
            more |= (seen << 1 | seen >> 1 | seen << self.width | seen >> self.width) & free
        return seen

    def layers(self, player: int, boxes: int) -> list[int]:
        """Where the player can walk in at most 0, 1, 2, … moves; the last is all."""
        free = self.floor & ~boxes
        found = [1 << player]
        while True:
            seen = found[-1]
            more = seen | ((seen << 1 | seen >> 1 | seen << self.width | seen >> self.width) & free)
            if more == seen:
                return found
            found.append(more)

    def pushes(self, reach: int, boxes: int) -> Iterator[tuple[int, int]]:
        """Box and direction of every push that leaves the box on a live square."""
        free = self.live & ~boxes
        for direction, step in enumerate(self.steps):
            able = boxes & _shift(reach, step) & _shift(free, -step)
            while able:
                bit = able & -able
                able ^= bit
                yield bit.bit_length() - 1, direction

    def frozen(self, boxes: int) -> bool:
        """Whether a box off target is part of a two by two block that can never move."""
        full = self.walls | boxes
        # Blocks over the end of a row are found too, but hold nothing but the outer wall.
        corners = full & full >> 1 & full >> self.width & full >> (self.width + 1)
        block = corners | corners << 1 | corners << self.width | corners << (self.width + 1)
        return bool(block & boxes & ~self.targets)

    def dead(self, boxes: int) -> bool:
        """Whether it can be seen at once that the boxes never all reach targets."""
        return bool(boxes & ~self.live) or self.frozen(boxes) or self.bound(boxes) is None

    def walk(self, player: int, goal: int, boxes: int) -> str:
        """Letters of a shortest walk; the goal must be in reach."""
        layers = self.layers(player, boxes)
        at = next(i for i, layer in enumerate(layers) if layer >> goal & 1)
        letters = ""
        for layer in reversed(layers[:at]):
            direction = next(d for d, step in enumerate(self.steps) if layer >> (goal - step) & 1)
            letters = MOVES[direction] + letters
            goal -= self.steps[direction]
        return letters

    def bound(self, boxes: int) -> int | None:
        """Pushes that are needed at the least; None when the boxes cannot be matched to targets."""
        rows = [[pushes.get(cell) for pushes in self._pushes] for cell in bits(boxes)]
        if len(rows) > _EXACT_MATCHING:
            nearest = [min((cost for cost in row if cost is not None), default=None) for row in rows]
            return None if None in nearest else sum(cost for cost in nearest if cost is not None)
        return matched(rows)

    def _pushes_to(self, target: int) -> dict[int, int]:
        """Pushes from every cell to ``target`` in the empty room, found by pulling."""
        if not self.floor >> target & 1:
            return {}
        found = {target: 0}
        queue = [target]
        for cell in queue:
            for step in self.steps:
                before, player = cell - step, cell - 2 * step
                if before not in found and self.floor >> before & 1 and self.floor >> player & 1:
                    found[before] = found[cell] + 1
                    queue.append(before)
        return found


@lru_cache(maxsize=512)
def board_of(level: Level) -> Board:
    """The board of a level, kept for the next time."""
    return Board(level)


def solve(
    level: Level,
    player: int | None = None,
    boxes: int | None = None,
    *,
    minimise: Cost = "moves",
    nodes: int = NODES,
) -> Solution:
    """Solve a level from its start, or from where player and boxes stand.

    Args:
        level: The room.
        player: Cell of the player; where the level has it when None.
        boxes: Bit mask of the boxes; as in the level when None.
        minimise: What is least in the solution. ``"pushes"`` needs fewer states, since walks do not tell states apart.
        nodes: States to look at before the answer is "unknown".
    """
    board = board_of(level)
    player = level.player if player is None else player
    boxes = mask(level.boxes) if boxes is None else boxes
    if boxes & ~board.targets == 0:
        return Solution("solved")
    inside = boxes & board.floor
    if boxes & ~board.floor & ~board.targets or board.dead(inside):
        return Solution("unsolvable")
    return _Search(board, player, inside, minimise == "moves").run(nodes)


class _Search:
    """A* over the states after a push; keys are boxes and the player's cell, or the lowest cell of its region."""

    def __init__(self, board: Board, player: int, boxes: int, by_moves: bool) -> None:
        self.board, self.by_moves = board, by_moves
        self.start = player, boxes
        self.best: dict[tuple[int, int], int] = {self._key(player, boxes): 0}
        self.came: dict[tuple[int, int], tuple[tuple[int, int], int, int]] = {}
        self.bounds: dict[int, int | None] = {}
        """Lower bounds by boxes; None where no matching or a frozen block shows that they are lost."""
        self.queue = [(board.bound(boxes) or 0, 0, player, boxes)]

    def run(self, nodes: int) -> Solution:
        """Search until solved, exhausted or out of nodes."""
        board, looked = self.board, 0
        while self.queue:
            _, minus_cost, player, boxes = heapq.heappop(self.queue)
            if self.best[self._key(player, boxes)] < -minus_cost:
                continue
            if boxes & ~board.targets == 0:
                return self._solution(player, boxes, looked)
            if looked >= nodes:
                return Solution("unknown", nodes=looked)
            looked += 1
            self._expand(player, boxes, -minus_cost)
        return Solution("unsolvable", nodes=looked)

    def _expand(self, player: int, boxes: int, cost: int) -> None:
        board = self.board
        layers = board.layers(player, boxes) if self.by_moves else [board.reach(player, boxes)]
        for box, direction in board.pushes(layers[-1], boxes):
            step = board.steps[direction]
            after = boxes ^ (1 << box | 1 << (box + step))
            bound = self._bound(after)
            if bound is None:
                continue
            spent = cost + 1
            if self.by_moves:
                stand = box - step
                spent += next(i for i, layer in enumerate(layers) if layer >> stand & 1)
            key = self._key(box, after)
            if spent < self.best.get(key, spent + 1):
                self.best[key] = spent
                self.came[key] = ((player, boxes), box, direction)
                heapq.heappush(self.queue, (spent + bound, -spent, box, after))

    def _bound(self, boxes: int) -> int | None:
        if boxes not in self.bounds:
            self.bounds[boxes] = None if self.board.frozen(boxes) else self.board.bound(boxes)
        return self.bounds[boxes]

    def _key(self, player: int, boxes: int) -> tuple[int, int]:
        if self.by_moves:
            return player, boxes
        reach = self.board.reach(player, boxes)
        return (reach & -reach).bit_length() - 1, boxes

    def _solution(self, player: int, boxes: int, looked: int) -> Solution:
        pushes = []
        key = self._key(player, boxes)
        while key in self.came:
            (player, boxes), box, direction = self.came[key]
            pushes.append((box, direction))
            key = self._key(player, boxes)
        player, boxes = self.start
        letters = []
        for box, direction in reversed(pushes):
            step = self.board.steps[direction]
            letters.append(self.board.walk(player, box - step, boxes) + MOVES[direction])
            player, boxes = box, boxes ^ (1 << box | 1 << (box + step))
        return Solution("solved", "".join(letters), len(pushes), looked)


def mask(cells: Iterable[int]) -> int:
    """Bit mask of cells."""
    total = 0
    for cell in cells:
        total |= 1 << cell
    return total


def _shift(value: int, step: int) -> int:
    return value << step if step >= 0 else value >> -step
