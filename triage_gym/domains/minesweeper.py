"""Minesweeper boards in words: what the text shows, and what follows from it with certainty.

:func:`known` says which closed cells can be no mine and which must be one. First by numbers alone and in pairs, again and
again; what hangs together after that is counted out, the number of mines included, where it takes at most :data:`NODES`
steps. Promised: what is called certain is certain, and text of any length is read or refused in linear time. Left to you:
areas too ragged to count out, where a certain cell may be missed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from triage_gym.domains.masks import bits

MAX_TEXT: Final = 16_384
"""Longer texts are no board."""
MAX_CELLS: Final = 2500
"""Cells of the largest board that is read."""
NODES: Final = 4_000
"""Steps of counting out one area before its cells are called unknown."""
ROUNDS: Final = 12
"""How often numbers are compared in pairs at the most."""
_LINE: Final = re.compile(r"Row \d{1,4}: ([?.1-8](?: [?.1-8])*)")
_MINES: Final = re.compile(r"with (\d{1,5}) hidden mine")
_CELL: Final = re.compile(r"\( *(\d{1,9}) *, *(\d{1,9}) *\)")
_START, _END = "<action>", "</action>"
_MAX_ACTION: Final = 4096


@dataclass(frozen=True)
class Field:
    """What a board shows. Cells are numbered row by row; sets of cells are bit masks."""

    height: int
    width: int
    cells: str
    """A character a cell: ``?`` closed, ``.`` or a digit open."""

    @cached_property
    def closed(self) -> int:
        """Bit mask of the closed cells."""
        return sum(1 << i for i, cell in enumerate(self.cells) if cell == "?")

    def around(self, cell: int) -> int:
        """Bit mask of the up to eight cells around one."""
        return _around(self.height, self.width)[cell]

    def name(self, cell: int) -> str:
        """How an action names a cell."""
        row, column = divmod(cell, self.width)
        return f"({row + 1}, {column + 1})"


@lru_cache(maxsize=64)
def _around(height: int, width: int) -> tuple[int, ...]:
    """For each cell the bit mask of those around it."""
    masks = []
    for row in range(height):
        for column in range(width):
            rows = range(max(row - 1, 0), min(row + 2, height))
            beside = sum(1 << c for c in range(max(column - 1, 0), min(column + 2, width)))
            masks.append(sum(beside << r * width for r in rows) ^ 1 << row * width + column)
    return tuple(masks)


@dataclass(frozen=True, slots=True)
class Known:
    """What is certain about closed cells, as bit masks."""

    safe: int
    mines: int


@lru_cache(maxsize=4096)
def parse_field(text: str) -> Field | None:
    """The board that a text shows; None when it shows none, or too large a one."""
    if len(text) > MAX_TEXT:
        return None
    lines = [_LINE.fullmatch(line) for line in text.strip("\n").split("\n")]
    rows = [line[1][::2] for line in lines if line is not None]
    width = len(rows[0]) if rows else 0
    if len(rows) < len(lines) or any(len(row) != width for row in rows) or not 0 < width * len(rows) <= MAX_CELLS:
        return None
    return Field(len(rows), width, "".join(rows))


def parse_cell(action: str, field: Field) -> int | None:
    """The cell that an action opens; None when it names none of the board.

    In ``<action>`` tags the first pair of numbers in brackets counts; without tags the action must be such a pair.
    """
    text = action[:_MAX_ACTION]
    start, end = text.find(_START), text.find(_END)
    if start < 0 and end < 0:
        found = _CELL.fullmatch(text.strip())
    else:
        found = _CELL.search(text[start + len(_START) : end]) if 0 <= start < end else None
    if found is None:
        return None
    row, column = int(found[1]) - 1, int(found[2]) - 1
    return row * field.width + column if 0 <= row < field.height and 0 <= column < field.width else None


def mines_of(task: str) -> int | None:
    """How many mines the task says there are; None when it does not."""
    found = _MINES.search(task)
    return None if found is None else int(found[1])


@lru_cache(maxsize=4096)
def known(field: Field, mines: int | None) -> Known:
    """What follows from a board with certainty.

    Args:
        field: The board.
        mines: How many mines there are; None when that is not known, and then they are not counted.
    """
    glance, left = _glanced(field)
    told = glance.safe | glance.mines
    loose = field.closed & ~told
    for cells, _ in left:
        loose &= ~cells
    rest = None if mines is None else mines - glance.mines.bit_count()
    safe, mined = _counted_out(_areas(left), loose, rest)
    return Known(glance.safe | safe, glance.mines | mined)


def at_a_glance(field: Field) -> Known:
    """What the numbers tell alone and in pairs: less than :func:`known`, and much sooner."""
    return _glanced(field)[0]


Rule = tuple[int, int]
"""Cells, and how many of them are mines."""


@lru_cache(maxsize=4096)
def _glanced(field: Field) -> tuple[Known, list[Rule]]:
    """What numbers tell alone and in pairs, and the rules about the other cells."""
    closed = field.closed
    seen = [(near & closed, cell) for near, cell in zip(_around(field.height, field.width), field.cells, strict=True)]
    safe, mined, left = _compared(
        [(cells, 0 if cell == "." else int(cell)) for cells, cell in seen if cells and cell != "?"]
    )
    return Known(safe, mined), left


def _compared(rules: list[Rule]) -> tuple[int, int, list[Rule]]:
    """What numbers tell alone and in pairs: safe cells, mines, and the rules about the other cells."""
    safe = mined = 0
    left = set(rules)
    for _ in range(ROUNDS):
        found_safe, found_mined, new = _told(left)
        if not (found_safe | found_mined or new):
            break
        safe, mined = safe | found_safe, mined | found_mined & ~safe
        left |= new
        if found_safe | found_mined:
            told = safe | mined
            left = {(cells & ~told, need - (cells & mined).bit_count()) for cells, need in left if cells & ~told}
    return safe, mined, sorted(left)


def _told(rules: set[Rule]) -> tuple[int, int, set[Rule]]:
    """One round: safe cells, mines, and rules about what one number sees and another inside of it does not."""
    safe = mined = 0
    by_lowest: dict[int, list[Rule]] = {}
    for rule in rules:
        cells, need = rule
        if need == 0:
            safe |= cells
        elif need == cells.bit_count():
            mined |= cells
        else:
            by_lowest.setdefault(cells & -cells, []).append(rule)
    new = set()
    lowest = sum(by_lowest)
    for cells, need in rules:
        rest = cells & lowest
        while rest:
            bit = rest & -rest
            rest ^= bit
            for inner, inner_need in by_lowest[bit]:
                if inner & ~cells == 0 and inner != cells:
                    new.add((cells & ~inner, need - inner_need))
    return safe, mined, new - rules


def _areas(rules: list[Rule]) -> list[list[Rule]]:
    """Rules that hang together by their cells."""
    areas: list[tuple[int, list[Rule]]] = []
    for rule in sorted(set(rules)):
        cells, joined = rule[0], [rule]
        apart = []
        for area in areas:
            if area[0] & cells:
                cells |= area[0]
                joined += area[1]
            else:
                apart.append(area)
        areas = [*apart, (cells, joined)]
    return [sorted(joined) for _, joined in areas]


Ways = dict[int, tuple[int, int]]
"""By the mines in an area: which cells are a mine in some layout, and which are safe in some."""


def _counted_out(areas: list[list[Rule]], loose: int, mines: int | None) -> tuple[int, int]:
    """Safe cells and mines that only the layouts of whole areas, and the number of all mines, tell."""
    ways = [_layouts(area) for area in areas]
    if any(not found for found in ways):  # no board of the game
        return 0, 0
    counts = [sum(1 << count for count in found) for found in ways]
    totals = [_sums(counts[:i] + counts[i + 1 :]) for i in range(len(counts))]
    safe = mined = 0
    for found, others in zip(ways, totals, strict=True):
        may_mine = may_safe = cells = 0
        for count, (some_mine, some_safe) in found.items():
            cells |= some_mine | some_safe
            if mines is None or _fits(others, mines - count, loose.bit_count()):
                may_mine, may_safe = may_mine | some_mine, may_safe | some_safe
        if may_mine | may_safe:
            safe, mined = safe | cells & ~may_mine, mined | cells & ~may_safe
    if mines is not None and loose:
        left = [mines - total for total in bits(_sums(counts)) if 0 <= mines - total <= loose.bit_count()]
        safe |= loose if left and max(left) == 0 else 0
        mined |= loose if left and min(left) == loose.bit_count() else 0
    return safe, mined


def _fits(others: int, mines: int, loose: int) -> bool:
    """Whether the other areas and the loose cells can have so many mines."""
    return any(0 <= mines - total <= loose for total in bits(others))


def _sums(counts: list[int]) -> int:
    """Bit mask of the sums that taking one count of each can have."""
    sums = 1
    for count in counts:
        sums = _sum_of(sums, count)
    return sums


def _sum_of(a: int, b: int) -> int:
    """Bit mask of all sums of a number of ``a`` and one of ``b``."""
    total = 0
    for shift in bits(b):
        total |= a << shift
    return total


def _layouts(rules: list[Rule]) -> Ways:
    """The layouts of an area, by their mines; all that can be thought of when there are too many to count."""
    cells = 0
    for rule in rules:
        cells |= rule[0]
    order = _ordered(rules)
    found: Ways = {}
    nodes = 0
    stack = [(0, 0)]
    while stack:
        at, mined = stack.pop()
        nodes += 1
        if nodes > NODES:
            return dict.fromkeys(range(cells.bit_count() + 1), (cells, cells))
        if at == len(order):
            some_mine, some_safe = found.get(mined.bit_count(), (0, 0))
            found[mined.bit_count()] = some_mine | mined, some_safe | cells & ~mined
            continue
        cell, touching = order[at]
        for after in (mined, mined | 1 << cell):
            for rule_cells, need, undecided in touching:
                if not 0 <= need - (rule_cells & after).bit_count() <= undecided:
                    break
            else:
                stack.append((at + 1, after))
    return found


def _ordered(rules: list[Rule]) -> list[tuple[int, list[tuple[int, int, int]]]]:
    """Cells rule by rule, each with the rules about it, and how many of their cells come after it."""
    order = list(dict.fromkeys(cell for rule in rules for cell in bits(rule[0])))
    later, out = sum(1 << cell for cell in order), []
    for cell in order:
        later ^= 1 << cell
        touching = [(cells, need, (cells & later).bit_count()) for cells, need in rules if cells >> cell & 1]
        out.append((cell, touching))
    return out
