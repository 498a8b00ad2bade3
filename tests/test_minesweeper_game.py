"""Minesweeper by hand: boards, rewards, endings, actions, states; and what generation promises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hash_seeds import outputs
from hypothesis import given, settings
from hypothesis import strategies as st

from triage_gym.envs.minesweeper import Board, MinesweeperEnv, Recipe, generate
from triage_gym.envs.minesweeper.board import bits, draw, mask, split_of
from triage_gym.envs.minesweeper.game import MinesweeperGame
from triage_gym.errors import InputError, StateError
from triage_gym.windows import redact

# Mines at (1, 1) and (2, 3); the numbers are
#   * 2 1 1
#   1 2 * 1
#   . 1 1 1
MINES = mask([0, 6])
FROM_BELOW = Board(3, 4, MINES, 8)
FROM_ABOVE = Board(3, 4, MINES, 1)


def test_the_opening_by_hand() -> None:
    assert MinesweeperGame("x", FROM_BELOW).start() == "Row 1: ? ? ? ?\nRow 2: 1 2 ? ?\nRow 3: . 1 ? ?"
    assert MinesweeperGame("x", FROM_ABOVE).start() == "Row 1: ? 2 ? ?\nRow 2: ? ? ? ?\nRow 3: ? ? ? ?"


def test_one_cell_is_half_a_point() -> None:
    turn = MinesweeperGame("x", FROM_BELOW).act("(1, 2)")
    assert turn == ("Row 1: ? 2 ? ?\nRow 2: 1 2 ? ?\nRow 3: . 1 ? ?", 0.5, False, False, {"effective": True})


def test_several_are_two() -> None:
    turn = MinesweeperGame("x", FROM_ABOVE).act("(3, 1)")
    assert turn == ("Row 1: ? 2 ? ?\nRow 2: 1 2 ? ?\nRow 3: . 1 ? ?", 2.0, False, False, {"effective": True})


def test_a_mine_ends_the_game() -> None:
    game = MinesweeperGame("x", FROM_BELOW)
    turn = game.act("(2, 3)")
    assert turn == ("Row 1: ? ? ? ?\nRow 2: 1 2 * ?\nRow 3: . 1 ? ?", -0.1, True, False, {"effective": True})
    assert game.outcome() == (False, 0.4)
    assert (
        redact(turn.text, MinesweeperEnv.metadata["outcome_text"]) == "Row 1: ? ? ? ?\nRow 2: 1 2 ? ?\nRow 3: . 1 ? ?"
    )


def test_the_last_cell_is_ten_and_nothing_else() -> None:
    game = MinesweeperGame("x", FROM_BELOW)
    cells = ["(1, 2)", "(1, 3)", "(1, 4)", "(2, 4)", "(3, 3)", "(3, 4)"]
    turns = [game.act(cell) for cell in cells]
    assert [turn.reward for turn in turns] == [0.5] * 5 + [10.0]
    assert [turn.ended for turn in turns] == [False] * 5 + [True]
    assert turns[-1].text == "Row 1: ? 2 1 1\nRow 2: 1 2 ? 1\nRow 3: . 1 1 1"
    assert game.outcome() == (True, 1.0)


def test_a_cascade_that_wins_is_ten_too() -> None:
    game = MinesweeperGame("x", Board(3, 3, 1, 1))
    assert game.act("(3, 3)")[1:3] == (10.0, True)


def test_an_open_cell_changes_nothing_and_nonsense_is_invalid() -> None:
    game = MinesweeperGame("x", FROM_BELOW)
    board = game.start()
    assert game.act("(3, 1)") == (board, -1.0, False, False, {"effective": False})
    for action in ("(4, 1)", "(1, 5)", "(0, 1)", "open (1, 2)", "1, 2", "(1, 2) (1, 3)", "", "(1 2)", "(-1, 2)"):
        assert game.act(action) == (board, -1.0, False, True, {"effective": False})
    assert game.act(f"({'1' * 5000}, 1)").invalid


@pytest.mark.parametrize(
    "action",
    [
        "(1, 2)",
        " ( 1 ,2 ) ",
        "(01, 2)",
        "Safe.<action>(1, 2)</action>",
        "<action>I open ( 1, 2), not (2, 3)</action>",
        "(2, 3)<action>(1, 2)</action>(2, 3)",
    ],
)
def test_ways_to_name_a_cell(action: str) -> None:
    assert MinesweeperGame("x", FROM_BELOW).act(action)[1] == 0.5


@pytest.mark.parametrize(
    "action",
    [
        "<action>(1, 2)",
        "(1, 2)</action>",
        "</action>(1, 2)<action>",
        "<action>1, 2</action>",
        "<action>(12345678901, 1) (1, 2)</action>",
        f"({'1' * 5000}, 2)",
    ],
)
def test_torn_tags_name_none(action: str) -> None:
    assert MinesweeperGame("x", FROM_BELOW).act(action).invalid


def test_clicks_by_hand() -> None:
    # No blank is left after the opening from below: every number takes a click of its own.
    assert FROM_BELOW.clicks(FROM_BELOW.opening) == [1, 2, 3, 7, 10, 11]
    # From above the blank comes first; it opens what is around it.
    assert FROM_ABOVE.clicks(FROM_ABOVE.opening) == [8, 2, 3, 7, 10, 11]


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 3), st.integers(3, 4), st.integers(1, 5), st.integers(0, 2**31))
def test_clicks_are_the_fewest(height: int, width: int, mines: int, seed: int) -> None:
    from triage_gym.envs.dice import Dice

    board = draw(Recipe(height, width, min(mines, height * width - 2), None), Dice(str(seed)))
    layer, needed = {board.opening}, 0
    while board.safe not in layer:
        layer = {board.opened_by(cell, state) for state in layer for cell in bits(board.safe & ~state)}
        needed += 1
    assert len(board.clicks(board.opening)) == needed


def test_the_plan_wins_in_as_many_turns() -> None:
    env = MinesweeperEnv(max_turns=None)
    for seed in range(50):
        env.reset(seed=seed)
        plan = env.expert_plan()
        assert plan is not None
        for left, action in zip(range(len(plan), 0, -1), plan, strict=True):
            assert env.expert_distance() == left
            terminated = env.step(action)[2]
            assert terminated == (left == 1)
        assert (env.expert_distance(), env.expert_plan(), env.expert_action()) == (0, [], None)


def test_a_lost_game_has_no_plan() -> None:
    env = MinesweeperEnv()
    env.reset(seed=0)
    mine = next(cell for cell in bits(env.game.board.mines))
    _, reward, terminated, _, info = env.step(env.game.name(mine))
    assert (reward, terminated, info["success"]) == (-0.1, True, False)
    assert 0.0 < info["score"] < 1.0
    assert (env.expert_distance(), env.expert_plan(), env.expert_action()) == (None, None, None)


def test_the_first_lines_of_lamer_s_setting() -> None:
    env = MinesweeperEnv()
    text, info = env.reset(seed=1)
    rows = text.splitlines()
    assert len(rows) == 6
    assert all(row.startswith(f"Row {number}: ") for number, row in enumerate(rows, 1))
    assert all(len(row.split()) == 8 for row in rows)
    assert info["admissible_commands"] == [
        f"({number}, {column})"
        for number, row in enumerate(rows, 1)
        for column, symbol in enumerate(row.split()[2:], 1)
        if symbol == "?"
    ]
    assert env.max_turns == 7
    assert (env.game.board.height, env.game.board.width, env.game.board.mines.bit_count()) == (6, 6, 3)


def test_seven_turns_are_all() -> None:
    env = MinesweeperEnv()
    env.reset(seed=1)
    ends = [env.step("nothing")[2:4] for _ in range(7)]
    assert ends == [(False, False)] * 6 + [(False, True)]


@settings(max_examples=150, deadline=None)
@given(
    st.integers(5, 12),
    st.integers(5, 12),
    st.integers(2, 12),
    st.sampled_from(["train", "val", "test"]),
    st.integers(0, 2**31 - 1),
)
def test_every_board_begins_safe_and_open_and_not_won(
    height: int, width: int, mines: int, split: str, number: int
) -> None:
    mines = min(mines, height * width // 4)
    board = generate(Recipe(height, width, mines).name(split, number))
    assert board.mines.bit_count() == mines
    assert not board.mines >> board.first & 1
    assert board.opening >> board.first & 1
    assert not board.opening & board.mines
    assert board.opening != board.safe
    assert split_of(board) == split


def test_splits_share_no_layout_of_mines_even_when_turned() -> None:
    def forms(board: Board) -> set[tuple[tuple[int, int], ...]]:
        cells = [divmod(cell, 6) for cell in bits(board.mines)]
        turns = [lambda r, c: (r, c), lambda r, c: (c, 5 - r), lambda r, c: (5 - r, 5 - c), lambda r, c: (5 - c, r)]
        mirrored = [lambda r, c, turn=turn: turn(r, 5 - c) for turn in turns]
        return {tuple(sorted(form(r, c) for r, c in cells)) for form in [*turns, *mirrored]}

    seen = {
        split: set().union(*(forms(generate(Recipe(6, 6, 3).name(split, number))) for number in range(300)))
        for split in ("train", "val", "test")
    }
    assert not seen["train"] & seen["val"]
    assert not seen["train"] & seen["test"]
    assert not seen["val"] & seen["test"]


def test_solvable_only_leaves_out_what_takes_too_long() -> None:
    longest = {}
    for solvable_only in (False, True):
        env = MinesweeperEnv(solvable_only=solvable_only)
        distances = []
        for seed in range(150):
            env.reset(seed=seed)
            distances.append(env.expert_distance() or 0)
        longest[solvable_only] = max(distances)
    assert longest[True] <= 7 < longest[False]


def test_the_name_says_the_filter() -> None:
    env = MinesweeperEnv(4, 5, 3, solvable_only=True, max_turns=4, split="val")
    task_id = env.reset(seed=0)[1]["task_id"]
    assert task_id.startswith("val/4x5-3<=4/")
    assert MinesweeperEnv().reset(options={"task_id": task_id})[0] == env.game.start()
    assert env.task_ids(3, 5) == ["val/4x5-3<=4/3", "val/4x5-3<=4/4"]
    with pytest.raises(InputError):
        env.task_ids()
    with pytest.raises(InputError):
        env.task_ids(-1, 2)


@pytest.mark.parametrize(
    "task_id",
    [
        "",
        "train/6x6-3",
        "train/6x6-3/01",
        "train/06x6-3/1",
        "train/6x6-3/2147483648",
        "train/6x6-3<=0/1",
        "train/6x6-35/1",
        "train/0x6-3/1",
        "train/6x51-3/1",
        "valid/6x6-3/1",
        "train/6x6-3/١",
    ],
)
def test_other_names_are_refused(task_id: str) -> None:
    with pytest.raises(InputError, match=r"^Expected "):
        MinesweeperEnv().reset(options={"task_id": task_id})


def test_an_impossible_recipe_is_named() -> None:
    with pytest.raises(InputError, match="gave none in"):
        generate(Recipe(9, 9, 20, 1).name("train", 0))


@pytest.mark.parametrize(
    "arguments",
    [
        {"height": 0},
        {"width": 51},
        {"mines": 0},
        {"height": "6"},
        {"width": None},
        {"height": 1, "width": 2, "mines": 1},
        {"mines": 35},
        {"mines": True},
        {"height": 6.0},
        {"max_turns": 0},
        {"split": "valid"},
        {"solvable_only": True, "max_turns": None},
        {"solvable_only": "no"},
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^Expected "):
        MinesweeperEnv(**arguments)


@pytest.mark.parametrize(
    "change",
    [
        {"open": "0"},
        {"open": "0x330"},
        {"open": "331"},  # a mine
        {"open": "130"},  # a blank whose number is closed
        {"open": "0330"},
        {"open": 816},
        {"open": "f" * 5000},
        {"exploded": 1},
        {"exploded": -2},
        {"exploded": True},
        {"exploded": 99},
        {"open": "fbe", "exploded": 0},  # won and lost
        {"more": 1},
    ],
)
def test_states_that_are_none_are_refused(change: dict[str, Any]) -> None:
    game = MinesweeperGame("x", FROM_BELOW)
    assert game.get_state() == {"open": "330", "exploded": -1}
    with pytest.raises(StateError):
        MinesweeperGame("x", FROM_BELOW, {**game.get_state(), **change})


def test_a_state_goes_on() -> None:
    game = MinesweeperGame("x", FROM_BELOW)
    game.act("(1, 2)")
    again = MinesweeperGame("x", FROM_BELOW, json.loads(json.dumps(game.get_state())))
    assert again.act("(2, 3)") == game.act("(2, 3)")
    assert MinesweeperGame("x", FROM_BELOW, game.get_state()).start() == game.start()


def test_boards_and_episodes_repeat_in_another_process() -> None:
    script = """
from triage_gym.envs.minesweeper import MinesweeperEnv
for size in ((6, 6, 3), (9, 7, 10)):
    env = MinesweeperEnv(*size)
    for seed in range(5):
        print(env.reset(seed=seed), env.expert_action(), env.expert_plan(), env.mine_probabilities())
        print(env.step(env.expert_action()), env.get_state())
"""
    first, second = outputs(script, seeds=("1", "2"))
    assert first == second
    assert len(first) > 5000
