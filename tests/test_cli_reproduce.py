"""``triage-gym reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from triage_gym.cli.app import run
from triage_gym.cli.reproduce import seconds_of
from triage_gym.errors import InputError
from triage_gym.trainers.setups import SETUPS
from triage_gym.trainers.signals import Interrupted


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("10min", 600), ("2m", 120), ("1.5h", 5400)])
def test_budgets(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-3", "10 parsecs"])
def test_bad_budgets_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--budget"):
        seconds_of(text)


def test_a_dry_run_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "reproduce",
        "--table",
        "pivot",
        "--envs",
        "minesweeper,sokoban",
        "--seeds",
        "3",
        "--run-dir",
        str(tmp_path),
    ]
    assert run([*words, "--dry-run"]) == 0
    turns = 12 * (SETUPS["minesweeper"]["turns"] + SETUPS["sokoban"]["turns"])
    assert f"24 runs, 0 of them done; {turns:,} turns to go" in capsys.readouterr().out


def test_a_small_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--envs", "minesweeper", "--arms", "grpo,grpo+whiten", "--seeds", "0,7", "--turns", "200"]
    assert run(["reproduce", *words, "--eval-tasks", "4", "--run-dir", str(tmp_path), "--quiet", "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    assert "grpo − grpo+whiten" in shown
    assert "n = 2 seeds (0, 7); 4 of 4 cells are done." in shown
    assert (tmp_path / "table.md").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--seeds", "x"], "--seeds"),
        (["--seeds", "0"], "--seeds"),
        (["--envs", ","], "--envs"),
        (["--envs", "chess"], "chess"),
        (["--arms", "nobody"], "nobody"),
        (["--budget", "soon"], "--budget"),
        (["--table", "ablation", "--gate-turns", "-1"], "gate_turns"),
    ],
)
def test_what_cannot_be_run_is_told(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", *words, "--dry-run"]) == 1
    assert told in capsys.readouterr().err


def test_no_workers_are_none_and_other_settings_are_told_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["reproduce", "--envs", "minesweeper", "--arms", "grpo", "--seeds", "1", "--run-dir", str(tmp_path)]
    assert run([*words, "--turns", "200", "--workers", "0", "--quiet"]) == 1
    assert "`workers` to be at least 1, got 0" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert run([*words, "--turns", "200", "--eval-tasks", "4", "--workers", "1", "--quiet"]) == 0
    capsys.readouterr()
    assert run([*words, "--turns", "100", "--eval-tasks", "4", "--dry-run"]) == 1
    assert "got turns 200 and not 100; ask for those, choose another --run-dir" in capsys.readouterr().err


def test_a_signal_is_told_with_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any, **__: Any) -> None:
        raise Interrupted(2)

    monkeypatch.setattr("triage_gym.trainers.reproduce.cells.run_cells", stopped)
    grid = ["credit", "sensitivity", "--over", "lam=0"]
    for words in (["reproduce", "--table", "pivot", "--envs", "minesweeper"], grid):
        with pytest.raises(SystemExit) as stop:
            run([*words, "--seeds", "1", "--run-dir", str(tmp_path / words[0]), "--quiet"])
        assert stop.value.code == 130
        assert "the same command goes on" in capsys.readouterr().err
