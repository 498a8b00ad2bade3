"""Each rule of the Minesweeper judge on written-out boards, and what it calls certain against all layouts of small boards."""

from __future__ import annotations

import time
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage_gym.domains import minesweeper
from triage_gym.domains.minesweeper import Field, known, mines_of, parse_cell, parse_field
from triage_gym.judges.minesweeper import MinesweeperRules
from triage_gym.judges.rule import RuleJudge
from triage_gym.protocols import Pair, Window


def board(*rows: str) -> str:
    return "\n".join(f"Row {i}: {' '.join(row)}" for i, row in enumerate(rows, 1))


def task(mines: int) -> str:
    return f"Open every cell without a mine on a board of 3 rows and 3 columns with {mines} hidden mines."


def judge(before: str, action: str, *past: tuple[str, str], mines: int = 1, after: str = "") -> tuple[str, str] | None:
    pairs = tuple(Pair(*pair) for pair in past)
    return MinesweeperRules().verdict(
        Window(task(mines), "minesweeper", len(past), pairs, before, action, after or before, ())
    )


CORNER = board("?1.", "11.", "...")
SPLIT = board("?1?", "?1?", "?1?")
FRESH = board("???", "?1?", "???")
SIDE = board("??1", "221", "...")


@pytest.mark.parametrize(
    ("before", "action", "mines", "role", "why"),
    [
        (CORNER, "(1, 1)", 1, "R", "(1, 1) is certain to be a mine"),
        (board("?2?", "?2?", "..."), "(1, 2)", 2, "N", "(1, 2) is open already"),
        (FRESH, "(1, 1)", 1, "E", "guesses (1, 1): no cell is certain"),
        (board("1??", "1??", "1??"), "(2, 2)", 1, "R", "(2, 2) is certain to be a mine"),
        (board("1??", "1??", "1??"), "(1, 3)", 1, "D", "(1, 3) is certain to be no mine"),
        (board("1???", "1???", "1???"), "(1, 4)", 2, "R", "guesses (1, 4), although (1, 2) is certain to be no mine"),
        (CORNER, "(9, 9)", 1, "N", "names no cell of the board"),
        (CORNER, "open the corner", 1, "N", "names no cell of the board"),
        (CORNER, "I think. <action>(1, 1)</action>", 1, "R", "(1, 1) is certain to be a mine"),
    ],
)
def test_a_turn_is_as_good_as_the_knowledge_behind_it(
    before: str, action: str, mines: int, role: str, why: str
) -> None:
    assert judge(before, action, mines=mines) == (role, why)


def test_what_came_of_a_guess_makes_no_difference() -> None:
    lucky = board("???", "?1?", "1??")
    assert judge(FRESH, "(3, 1)", after=lucky) == judge(FRESH, "(3, 1)", after="Row 1: ? ? ?")


def test_the_second_turn_in_vain_on_a_cell_is_damage() -> None:
    assert judge(CORNER, "(1, 2)", ("(1, 2)", CORNER))[0] == "R"  # type: ignore[index]
    opened = [("(1, 2)", board("?1?", "???", "???")), ("(3, 3)", CORNER)]
    assert judge(CORNER, "(1, 2)", *opened) == ("N", "(1, 2) is open already")
    vain = [*opened, ("(1, 2)", CORNER), ("(3, 3)", CORNER)]
    assert judge(CORNER, "(1,2)", *vain) == ("R", "again: (1, 2) is open already")


def test_no_cell_is_certain_where_the_number_of_mines_is_not_told() -> None:
    field = parse_field(board("?1???"))
    assert field is not None
    assert known(field, 1).safe == 0b11000
    assert known(field, None).safe == 0
    assert mines_of("Open every cell.") is None


def _all_layouts(field: Field, mines: int) -> tuple[int, int] | None:
    """Cells that are safe, and cells that are mines, in all layouts that fit; None when none fits."""
    closed = [i for i in range(len(field.cells)) if field.closed >> i & 1]
    masks = [sum(1 << i for i in chosen) for chosen in combinations(closed, mines)]
    numbers = [(i, 0 if cell == "." else int(cell)) for i, cell in enumerate(field.cells) if cell != "?"]
    fit = [m for m in masks if all((field.around(i) & m).bit_count() == n for i, n in numbers)]
    if not fit:
        return None
    ever, always = 0, -1
    for layout in fit:
        ever, always = ever | layout, always & layout
    return field.closed & ~ever, always


@st.composite
def _boards(draw: st.DrawFn) -> tuple[Field, int]:
    """A board of the game: mines laid, some safe cells open."""
    height, width = draw(st.integers(2, 4)), draw(st.integers(2, 4))
    cells = range(height * width)
    mines = draw(st.sets(st.sampled_from(cells), min_size=1, max_size=min(4, len(cells) - 1)))
    opened = draw(st.sets(st.sampled_from([c for c in cells if c not in mines])))
    blank = Field(height, width, "?" * len(cells))
    shown = ""
    for cell in cells:
        count = sum(1 for mine in mines if blank.around(cell) >> mine & 1)
        shown += (str(count) if count else ".") if cell in opened else "?"
    return Field(height, width, shown), len(mines)


@settings(max_examples=150, deadline=None)
@given(_boards())
def test_certain_is_what_all_layouts_agree_on(case: tuple[Field, int]) -> None:
    field, mines = case
    told = known(field, mines)
    assert (told.safe, told.mines) == _all_layouts(field, mines)


def test_an_area_too_large_to_count_out_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    field = parse_field(SPLIT)
    assert field is not None
    exact = known(field, 1)
    minesweeper.known.cache_clear()
    monkeypatch.setattr(minesweeper, "NODES", 1)
    told = known(field, 1)
    minesweeper.known.cache_clear()
    assert exact.safe
    assert told.safe & ~exact.safe == 0
    assert told.mines & ~exact.mines == 0


def test_a_board_that_no_layout_fits_tells_nothing_wrongly() -> None:
    assert judge(board("?8?", "...", "..."), "(1, 1)") is not None


@given(st.lists(st.text(alphabet="Row 123:?.*8\n()<action>,", max_size=60), min_size=4, max_size=4))
def test_any_text_is_judged_without_an_exception(texts: list[str]) -> None:
    for before in (texts[0], CORNER):
        window = Window(texts[1], "minesweeper", 0, (Pair(texts[2], before),), before, texts[2], texts[3], ())
        assert MinesweeperRules().verdict(window) == MinesweeperRules().verdict(window)


@given(st.text(alphabet="?12345678.", min_size=25, max_size=25), st.integers(0, 30))
def test_any_board_is_judged_without_an_exception(cells: str, mines: int) -> None:
    text = board(*[cells[at : at + 5] for at in range(0, 25, 5)])
    for action in ("(1, 1)", "(3, 3)"):
        judge(text, action, mines=mines)


def test_at_once_and_one_by_one_are_the_same() -> None:
    windows = [
        Window(task(1), "minesweeper", i, (), text, action, text, ())
        for i, (text, action) in enumerate([(CORNER, "(1, 1)"), (FRESH, "(1, 1)"), (SIDE, "(1, 2)"), (SPLIT, "x")])
    ]
    at_once = RuleJudge().judge(windows)
    assert at_once == [RuleJudge().judge([w])[0] for w in windows]
    assert {label.source for label in at_once} == {"rule"}


def test_large_boards_and_long_texts_are_bounded() -> None:
    checkered = board(*["".join("3" if (r + c) % 2 else "?" for c in range(48)) for r in range(50)])
    ragged = board(*["".join("12?"[(r * r + 3 * c) % 3] for c in range(48)) for r in range(50)])
    began = time.process_time()
    for text in (checkered, ragged, "Row 1: " + "? " * 50_000, "Row 1: ?\n" * 11_000, "x" * 100_000):
        judge(text, "(1, 1)", mines=400)
        judge(text, "(" * 100_000, mines=400)
    assert time.process_time() - began < 5
    assert parse_cell("(1, 1)", Field(1, 1, "?")) == 0
