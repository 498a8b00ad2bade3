"""Roles of Sokoban turns by rule, from the boards in a window alone. A turn may be several moves.

The board shows all, so there is nothing to explore and no E. Rooms of up to some thousand states (all of LaMer's,
verl-agent's and RAGEN's) are counted out, and *far* is turns to the goal, exactly:

- **D**: nearer to the goal than ever before, as far as the window and all earlier moves tell; a box more on target, and
  nearer by moves.
- **R**: the room can be solved no more; farther off; a board of the window again without being nearer; a second turn in
  vain.
- **N**: the rest: a turn in vain, one that makes good what was lost, and every turn of a room beyond solving.

Larger rooms are judged by their pushes: the fewest that would take the boxes to targets, each on its way alone. What that
cannot know: deadlocks of several boxes other than blocks of two by two, detours that are needed (called R where a box has
to go away from its target first), and which walk is the right one (N).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Final

from triage_gym.domains.sokoban import Board, moves_a_turn, moves_of, parse_board
from triage_gym.protocols import Window
from triage_gym.records import Role

Verdict = tuple[Role, str]
Far = int | None
"""How far a board is from solved; None when that is out of reach."""
BRANCHES: Final = 64
"""Boards that earlier moves may have come from at the most, before their trail is lost."""
_EVER: Final = 1 << 62


class SokobanRules:
    """Judges windows one by one; a room is counted out once, however many windows show it."""

    def verdict(self, window: Window) -> Verdict | None:
        """Role and reason, or None when a text of the turn is no board."""
        before, after = parse_board(window.observation), parse_board(window.next_observation)
        if before is None or after is None or not _same_room(before, after):
            return None
        if after == before:
            return ("R", "in vain again") if _in_vain(window) else ("N", "in vain: nothing moved")
        seen = [b for b in (parse_board(p.observation) for p in window.past) if b is not None and _same_room(b, after)]
        rule = _counted if after.room.moves(after.player, after.boxes)[0] else _bounded
        return rule(window, before, after, seen)


def _same_room(a: Board, b: Board) -> bool:
    return (a.width, a.ground, a.boxes.bit_count()) == (b.width, b.ground, b.boxes.bit_count())


def _in_vain(window: Window) -> bool:
    """Whether a turn of the window left this very board as it was."""
    texts = [p.observation for p in window.past]
    return any(a == b == window.observation for a, b in pairwise(texts)) or any(
        p.action == window.action and p.observation == window.next_observation for p in window.past[-1:]
    )


def _counted(window: Window, before: Board, after: Board, seen: list[Board]) -> Verdict:
    """By the exact way to the goal."""
    start, end, a_turn = _moves(before), _moves(after), moves_a_turn(window.task)
    if start is None or end is None:
        return _beyond(start, after, seen)
    turns = partial(_turns, a_turn=a_turn)
    least = min([start, *[far for far in map(_moves, seen) if far is not None]])
    if turns(end) > turns(start):
        return "R", _how(before, after, f"{_said(turns(end))} to go instead of {turns(start)}")
    if turns(end) < turns(least) or (end < least and after.placed > before.placed):
        least = min(least, _least_ever(window, before, _moves))
    if turns(end) < turns(least) or (end < least and after.placed > before.placed):
        return "D", _how(before, after, f"{_said(turns(end))} to go instead of {turns(start)}")
    if turns(end) < turns(start):
        return "N", "makes good what was lost"
    if after in seen:
        return "R", "back at a board seen before"
    return "N", f"still {_said(turns(end))} to go"


def _bounded(window: Window, before: Board, after: Board, seen: list[Board]) -> Verdict:
    """By the pushes that are needed at the least."""
    start, end = _pushes(before), _pushes(after)
    if start is None or end is None:
        return _beyond(start, after, seen)
    least = min([start, *[far for far in map(_pushes, seen) if far is not None]])
    if after in seen and end >= start:
        return "R", "back at a board seen before"
    if end > start:
        return "R", _how(before, after, f"{end} pushes to go instead of {start}")
    if end < least and end < _least_ever(window, before, _pushes):
        return "D", _how(before, after, f"{end} pushes to go instead of {start}")
    return ("N", "makes good what was lost") if end < start else ("N", "walks")


def _least_ever(window: Window, before: Board, far: Callable[[Board], Far]) -> int:
    """How near the attempt has been for certain: earlier moves are taken back from here, in each way they can have gone.

    A walk away and back that is longer than the window would be paid each time without.
    """
    a_turn = moves_a_turn(window.task)
    nearest = {before: _EVER}
    for action in reversed(window.earlier_actions):
        boards = nearest
        for move in reversed(moves_of(action, a_turn)):
            boards = _undone(boards, move) if len(boards) <= BRANCHES else {}
        shown = {board: min(least, there) for board, least in boards.items() if (there := far(board)) is not None}
        if not 0 < len(shown) <= BRANCHES:  # read wrongly, or the trail is lost
            break
        nearest = shown
    return max(nearest.values())


def _undone(nearest: dict[Board, int], move: int) -> dict[Board, int]:
    """The boards before a move, each with the nearest of the boards that surely came after it."""
    found: dict[Board, int] = {}
    for board, least in nearest.items():
        for player, boxes in board.room.undone(board.player, board.boxes, move):
            earlier = replace(board, player=player, boxes=boxes)
            found[earlier] = max(least, found.get(earlier, least))
    return found


def _beyond(start: Far, after: Board, seen: list[Board]) -> Verdict:
    """A turn that makes the room unsolvable, or one of a room that was so before."""
    if start is not None:
        return "R", "the boxes can never all reach targets now"
    return ("R", "back at a board seen before") if after in seen else ("N", "the room was beyond solving before")


def _how(before: Board, after: Board, change: str) -> str:
    """The change, and what brought it about."""
    if after.placed != before.placed:
        what = "a box onto a target" if after.placed > before.placed else "a box off its target"
    else:
        what = "walks" if after.boxes == before.boxes else "pushes"
    return f"{what}: {change}"


def _said(turns: int) -> str:
    return f"{turns} turn{'' if turns == 1 else 's'}"


def _moves(board: Board) -> Far:
    return board.room.moves(board.player, board.boxes)[1]


def _pushes(board: Board) -> Far:
    return board.room.pushes(board.boxes)


def _turns(moves: int, a_turn: int) -> int:
    return -(-moves // a_turn)
