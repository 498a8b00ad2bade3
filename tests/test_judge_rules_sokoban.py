"""Each rule of the Sokoban judge on written-out boards, and the exact distances against a plain forward search."""

from __future__ import annotations

import time
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage_gym.domains import sokoban
from triage_gym.domains.sokoban import Board, moves_a_turn, parse_board
from triage_gym.envs.sokoban import SokobanEnv
from triage_gym.judges.rule import RuleJudge
from triage_gym.judges.sokoban import SokobanRules
from triage_gym.protocols import Pair, Window

TASK = "Push every box onto a target. An action is up to 3 moves of up, down, left and right, such as: right, up"
ONE_MOVE = TASK.replace("up to 3 moves", "one move")


def room(*rows: str) -> str:
    return "\n".join(f"{i}: {' '.join(row)}" for i, row in enumerate(("#" * 8, *rows, "#" * 8)))


START = room("#P_____#", "#_X__O_#", "#______#")
NEXT_TO = room("#______#", "#PX__O_#", "#______#")
PUSHED = room("#______#", "#_PX_O_#", "#______#")
SOLVED = room("#______#", "#___P√_#", "#______#")
AWAY = room("#______#", "#______#", "#P_X_O_#")


def judge(before: str, after: str, *past: tuple[str, str], action: str = "right", task: str = TASK) -> tuple[str, str]:
    pairs = tuple(Pair(*pair) for pair in past)
    found = SokobanRules().verdict(Window(task, "sokoban", len(past), pairs, before, action, after, ()))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("before", "after", "role", "why"),
    [
        (PUSHED, SOLVED, "D", "a box onto a target: 0 turns to go instead of 1"),
        (NEXT_TO, PUSHED, "N", "still 1 turn to go"),
        (START, START, "N", "in vain: nothing moved"),
        (START, room("#_____P#", "#_X__O_#", "#______#"), "R", "walks: 3 turns to go instead of 2"),
        (SOLVED.replace("P√_", "_√P"), room("#______#", "#___XP_#", "#____O_#"), None, None),
        (PUSHED, room("#__X___#", "#__P_O_#", "#______#"), "R", "the boxes can never all reach targets now"),
    ],
    ids=["solves", "no turn nearer", "in vain", "farther", "another room", "dead"],
)
def test_a_turn_is_judged_by_the_exact_way_to_the_goal(
    before: str, after: str, role: str | None, why: str | None
) -> None:
    found = SokobanRules().verdict(Window(TASK, "sokoban", 0, (), before, "right", after, ()))
    assert found == (None if role is None else (role, why))


def test_moves_count_one_by_one_where_a_turn_is_one_move() -> None:
    assert judge(NEXT_TO, PUSHED, task=ONE_MOVE) == ("D", "pushes: 2 turns to go instead of 3")


def test_going_away_and_coming_back_does_not_pay() -> None:
    away = room("#_____P#", "#_X__O_#", "#______#")
    assert judge(START, away, task=ONE_MOVE)[0] == "R"
    assert judge(away, START, ("down", START), ("up", away), task=ONE_MOVE) == ("N", "makes good what was lost")


def test_a_board_of_the_window_again_is_damage() -> None:
    one, other = START, room("#______#", "#PX__O_#", "#______#")
    # Both are two turns away in steps of three moves; the first repetition is a walk in a circle.
    far = SokobanRules()
    first = far.verdict(Window(ONE_MOVE.replace("one move", "up to 9 moves"), "sokoban", 0, (), one, "a", other, ()))
    again = far.verdict(
        Window(ONE_MOVE.replace("one move", "up to 9 moves"), "sokoban", 1, (Pair("x", one), Pair("a", other)), other, "b", one, ())
    )  # fmt: skip
    assert first == ("N", "still 1 turn to go")
    assert again == ("R", "back at a board seen before")


def test_the_second_turn_in_vain_on_a_board_is_damage() -> None:
    assert judge(START, START, ("up", START)) == ("N", "in vain: nothing moved")
    assert judge(START, START, ("right", START)) == ("R", "in vain again")
    assert judge(START, START, ("down, up", START), ("left", START)) == ("R", "in vain again")


def test_beyond_solving_only_circles_are_damage() -> None:
    dead, other = room("#__X___#", "#__P_O_#", "#______#"), room("#__X___#", "#_____O#".replace("_O", "O_"), "#__P___#")
    assert judge(dead, other) == ("N", "the room was beyond solving before")
    assert judge(other, dead, ("down", dead), ("down", other)) == ("R", "back at a board seen before")


@pytest.mark.parametrize("form", ["rows", "tabs", "grid"])
def test_all_forms_of_a_board_are_one_board(form: str) -> None:
    rows = [line.partition(": ")[2].split() for line in START.split("\n")]
    texts = {
        "rows": START,
        "tabs": "\n".join("".join(f" {cell} \t" for cell in row) for row in rows),
        "grid": "\n".join("".join(row) for row in rows),
    }
    assert parse_board(texts[form]) == parse_board(START)


def _forward(board: Board) -> int | None:
    """Fewest moves by searching forwards."""
    start = (board.player, board.boxes)
    far, queue = {start: 0}, deque([start])
    while queue:
        player, boxes = state = queue.popleft()
        if boxes & ~board.room.targets == 0:
            return far[state]
        for step in board.room.steps:
            ahead, after = player + step, boxes
            if board.room.walls >> ahead & 1:
                continue
            if boxes >> ahead & 1:
                if (board.room.walls | boxes) >> ahead + step & 1:
                    continue
                after ^= 1 << ahead | 1 << ahead + step
            if (ahead, after) not in far:
                far[ahead, after] = far[state] + 1
                queue.append((ahead, after))
    return None


@settings(max_examples=40, deadline=None)
@given(st.permutations("P" + "XX" + "OO" + "##" + "_" * 9))
def test_counted_moves_are_those_of_a_forward_search(cells: list[str]) -> None:
    board = parse_board("\n".join("".join(cells[at : at + 4]) for at in range(0, 16, 4)))
    assert board is not None
    counted, moves = board.room.moves(board.player, board.boxes)
    assert counted
    assert moves == _forward(board)
    bound = board.room.pushes(board.boxes)
    assert moves is None or (bound is not None and bound <= moves)


def test_large_rooms_are_judged_by_their_pushes(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = ["#P_______#", "#_X___O__#", "#________#"]

    def text(*rows: str) -> str:
        return "\n".join(("#" * 10, *rows, "#" * 10))

    monkeypatch.setattr(sokoban, "STATES", 3)
    before = text(*wide)
    nearer = text("#________#", "#_PX__O__#", "#________#")
    assert judge(before, nearer) == ("D", "pushes: 3 pushes to go instead of 4")
    assert judge(before, text("#_P______#", *wide[1:])) == ("N", "walks")
    farther = text("#________#", "#XP___O__#", "#________#")
    assert judge(before, farther) == ("R", "the boxes can never all reach targets now")
    back = judge(nearer, before, ("right", before), ("right", nearer))
    assert back == ("R", "back at a board seen before")
    off = text("#______P#".replace("P", "_P"), "#__X__O__#", "#________#")
    assert judge(off, text("#________#", "#_X_P_O__#", "#________#")) == ("R", "pushes: 4 pushes to go instead of 3")


def test_what_is_no_board_is_left_to_the_generic_rules() -> None:
    assert SokobanRules().verdict(Window(TASK, "sokoban", 0, (), "You see a door.", "up", START, ())) is None
    assert parse_board("#" * 100_000) is None
    assert moves_a_turn("no such words") == 1


@given(st.lists(st.text(alphabet="#_OX√PS \t\n0123:", max_size=60), min_size=3, max_size=3))
def test_any_text_is_judged_without_an_exception(texts: list[str]) -> None:
    window = Window(texts[0], "sokoban", 0, (Pair("up", texts[1]),), texts[1], "up", texts[2], ())
    assert SokobanRules().verdict(window) == SokobanRules().verdict(window)


def test_at_once_and_one_by_one_are_the_same() -> None:
    boards = [START, NEXT_TO, PUSHED, PUSHED, NEXT_TO, START, SOLVED]
    windows = [
        Window(TASK, "sokoban", i, tuple(Pair("m", b) for b in boards[max(0, i - 4) : i + 1]), boards[i], "m", boards[i + 1], ())
        for i in range(len(boards) - 1)
    ]  # fmt: skip
    at_once = RuleJudge().judge(windows)
    assert at_once == [RuleJudge().judge([w])[0] for w in windows]
    assert {label.source for label in at_once} == {"rule"}


def test_a_hundred_kilobytes_take_no_time() -> None:
    texts = ["#" * 100_000, "1: # _\n" * 14_000, ("#" * 50 + "\n") * 50, "P" + "X" * 100_000]
    began = time.process_time()
    for text in texts:
        SokobanRules().verdict(Window(text, "sokoban", 0, (), text, text, text, ()))
    assert time.process_time() - began < 2


def walk(actions: list[str]) -> list[str]:
    """Roles of a walk from NEXT_TO that pushes nothing, window by window as an attempt gives them."""
    places, at = [(2, 1)], (2, 1)
    for action in actions:
        down, right = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}[action]
        at = (at[0] + down, at[1] + right)
        places.append(at)
    rows = ["########", "#______#", "#_X__O_#", "#______#", "########"]
    boards = []
    for row, column in places:
        cells = [list(line) for line in rows]
        cells[row][column] = "P"
        boards.append("\n".join(f"{i}: {' '.join(line)}" for i, line in enumerate(cells)))
    rules, roles = SokobanRules(), []
    for k, action in enumerate(actions):
        past = tuple(Pair(actions[i], boards[i + 1]) for i in range(max(0, k - 5), k))
        said = rules.verdict(
            Window(ONE_MOVE, "sokoban", k, past, boards[k], action, boards[k + 1], (), tuple(actions[:k]))
        )
        assert said is not None
        roles.append(said[0])
    return roles


def test_a_way_longer_than_the_window_and_back_is_not_paid() -> None:
    out = ["up", "right", "right", "right", "right", "right", "down", "down"]
    home = ["up", "up", "left", "left", "left", "left", "left", "down"]
    roles = walk((out + home) * 3)
    worth = {"D": 1.0, "N": -0.1, "R": -0.5}
    assert roles[: len(out) - 1] == ["R"] * (len(out) - 1)
    for start in (16, 32):  # the very first step may have been a push, which its answer alone does not tell
        assert "D" not in roles[start : start + 16]
        assert sum(worth[role] for role in roles[start : start + 16]) < 0


def test_earlier_moves_take_nothing_from_progress() -> None:
    """With all earlier moves in sight, a solver's turns are what they are without."""
    env = SokobanEnv("verl-agent", max_turns=100)
    for seed in range(12):
        observation, info = env.reset(seed=seed)
        boards, actions = [observation], list(env.expert_plan() or [])
        boards += [env.step(action)[0] for action in actions]
        for k, action in enumerate(actions):
            past = tuple(Pair(actions[i], boards[i + 1]) for i in range(max(0, k - 5), k))
            window = Window(info["task"], "sokoban", k, past, boards[k], action, boards[k + 1], (), tuple(actions[:k]))
            assert SokobanRules().verdict(window) == SokobanRules().verdict(window._replace(earlier_actions=()))
            assert (SokobanRules().verdict(window) or ("",))[0] == "D"


@pytest.mark.parametrize(
    ("action", "moves"),
    [
        ("up, left", [0, 2]),
        ("Up || Left || Right", [0, 2, 3]),
        ("down", [1]),
        ("still, up", [0]),
        ("I go left. <action>up, right, right, right</action>", [0, 3, 3]),
        ("<answer>Down || nothing</answer>", [1]),
        ("", []),
        ("xyzzy", []),
    ],
)
def test_moves_are_read_in_every_setting(action: str, moves: list[int]) -> None:
    assert sokoban.moves_of(action, 3) == moves
