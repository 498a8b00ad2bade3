"""``triage-gym credit sensitivity``: grids, references, table and heat map."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from triage_gym.cli.app import run
from triage_gym.errors import InputError
from triage_gym.trainers.reproduce.heat import as_markdown, as_page, as_text, heat_map, rows_of
from triage_gym.trainers.reproduce.sensitivity import AXES, CONSTANT_SETS, Grid, axis_of


def grid(*axes: str, **more: Any) -> Grid:
    return Grid(axes=tuple(axis_of(text) for text in axes), env="minesweeper", **more)


def test_a_point_is_what_its_values_say() -> None:
    found = grid("lam=0,0.4", "noise=0,0.3")
    assert found.points() == [("0", "0"), ("0", "0.3"), ("0.4", "0"), ("0.4", "0.3")]
    assert found.changes(("0.4", "0.3")) == {
        "lam": 0.4,
        "judge": {"name": "distorted", "of": "rule", "noise": 0.3},
    }
    assert found.changes(("0", "0"))["judge"] == "rule"
    cells = found.plan().cells()
    assert len(cells) == 3 * 5
    assert {cell.arm for cell in cells} == {"grpo+whiten", *(found.name(point) for point in found.points())}


@pytest.mark.parametrize(
    ("axis", "field", "values"),
    [
        ("window=0,5", "judge_window", [0, 5]),
        ("group-size=4,8", "group_size", [4, 8]),
        (
            "constants=paper,shrunk",
            "credit_kwargs",
            [{"constants": list(CONSTANT_SETS[n])} for n in ("paper", "shrunk")],
        ),
    ],
)
def test_every_axis_sets_its_field(axis: str, field: str, values: list[Any]) -> None:
    found = grid(axis, seeds=(0,))
    cells = {cell.arm: cell.config for cell in found.plan().cells()}
    assert [getattr(cells[found.name(point)], field) for point in found.points()] == values
    assert set(AXES) == {"lam", "constants", "window", "noise", "group-size"}


def test_each_group_size_has_its_own_reference() -> None:
    found = grid("group-size=4,8", "lam=0.2,0.4", seeds=(0,))
    assert found.reference(("4", "0.2")) == "grpo+whiten,group-size=4"
    cells = {cell.arm: cell.config for cell in found.plan().cells()}
    assert cells["grpo+whiten,group-size=4"].group_size == 4
    assert len(cells) == 6


@pytest.mark.parametrize("text", ["lam", "lam=", "lam=x", "lam=-1", "noise=2", "group-size=1", "window=1.5", "speed=1", "lam=1,1", "lam=1,1.0",
                                  "constants=mine"])  # fmt: skip
def test_bad_axes_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        axis_of(text)


def test_one_or_two_axes() -> None:
    for axes in ((), ("lam=0", "lam=1"), ("lam=0", "noise=0", "window=1")):
        with pytest.raises(InputError, match="one or two"):
            grid(*axes)


def point(values: list[str], mean: float | None, difference: float | None) -> dict[str, Any]:
    own = None if mean is None else {"mean": mean, "half_width": 0.05, "n": 2}
    between = None if difference is None else {"mean": difference, "half_width": 0.1, "n": 1 if difference < 0 else 2}
    return {"point": values, "success": own, "reference": None, "difference": between}


FOUND = {
    "command": "triage-gym credit sensitivity",
    "references": {"grpo+whiten": {"mean": 0.4, "half_width": 0.05, "n": 2}, "grpo+whiten,group-size=4": None},
    "env": "x", "turns": 100, "seeds": [0, 1], "cells": 6, "done": 4, "failed": [],
    "axes": [{"name": "lam", "values": ["0", "1"]}, {"name": "noise", "values": ["0", "0.3"]}],
    "points": [point(["0", "0"], 0.5, 0.1), point(["0", "0.3"], 0.4, -0.2), point(["1", "0"], 0.3, None),
               point(["1", "0.3"], None, None)],
}  # fmt: skip


def test_the_table_by_hand() -> None:
    title, rows = rows_of(FOUND)
    assert title == ["lam \\ noise", "0", "0.3"]
    assert rows == [["0", "50.0 (n 2), +10.0 ± 10.0", "40.0 (n 2), -20.0 ± 10.0 (n 1)"], ["1", "30.0 (n 2)", "–"]]
    assert "goes on where this one stopped" in as_text(FOUND)
    assert "| 0 | 50.0" in as_markdown(FOUND)
    assert "Held against: grpo+whiten 40.0 ± 5.0 (n 2); grpo+whiten,group-size=4 –." in as_text(FOUND)
    assert "50.0 (n 2), +10.0 ± 10.0</td>" in as_page(FOUND)
    drawn = heat_map(FOUND)
    assert drawn.count("<rect") == 4
    assert 'fill-opacity="0.70"' in drawn
    assert 'fill-opacity="0.40"' in drawn
    assert ">-20.0 ± 10.0</text>" in drawn
    assert ">n 1</text>" in drawn


def test_a_small_grid_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["credit", "sensitivity", "--env", "minesweeper", "--over", "lam=0,0.2", "--seeds", "2", "--turns", "150"]
    words += ["--eval-tasks", "4", "--run-dir", str(tmp_path), "--quiet", "--workers", "1"]
    assert run([*words, "--dry-run"]) == 0
    assert "6 runs, 0 of them done; 900 turns to go" in capsys.readouterr().out
    assert run(words) == 0
    shown = capsys.readouterr().out
    assert "6 of 6 runs are done" in shown
    found = json.loads((tmp_path / "sensitivity.json").read_text())
    # λ = 0 is grpo+whiten, turn by turn.
    assert found["points"][0]["difference"]["values"] == [0.0, 0.0]
    assert "<svg" in (tmp_path / "sensitivity.html").read_text()
    made = "triage-gym credit sensitivity --env minesweeper --over lam=0,0.2 --seeds 0,1 --turns 150 --eval-tasks 4"
    assert found["command"] == made
    assert made in (tmp_path / "sensitivity.md").read_text()
    kept = (tmp_path / "sensitivity.md").read_bytes()
    words[words.index("150")] = "200"
    assert run(words) == 1
    assert "turns 150 and not 200" in capsys.readouterr().err
    assert (tmp_path / "sensitivity.md").read_bytes() == kept
