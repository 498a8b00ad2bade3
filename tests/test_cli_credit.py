"""``triage-gym credit counterfactual`` and ``fit``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from triage_gym.__main__ import main

SMALL = ["--env", "minesweeper", "--limit", "7", "--turns", "2500", "--rollouts", "2", "--quiet"]


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["credit", *words])
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lab") / "rows.jsonl"
    files = ["--out", str(path), "--html", str(path.with_suffix(".html")), "--json", str(path.with_suffix(".json"))]
    assert run("counterfactual", *SMALL, *files) == 0
    return path


def test_measuring_writes_rows_numbers_and_a_page(rows: Path) -> None:
    numbers = json.loads(rows.with_suffix(".json").read_text())
    assert numbers["split"] == "val"
    assert numbers["spent"] >= 2500
    assert numbers["findings"][0]["judge"] == "rule"
    assert numbers["verdicts"][0].startswith("rule: ")
    page = rows.with_suffix(".html").read_text()
    assert "Counterfactual credit" in page
    assert "<svg" in page


def test_two_processes_write_the_same_rows(rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    assert run("counterfactual", *SMALL, "--workers", "2", "--out", str(out)) == 0
    assert out.read_bytes() == rows.read_bytes()


def test_rows_are_looked_at_again_and_a_second_judge_joins(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("counterfactual", str(rows), "--judge", '{"name": "rule", "domain": "generic"}') == 0
    shown = capsys.readouterr().out
    assert "judge rule: E[A* | role]" in shown
    assert "judge rule(generic): E[A* | role]" in shown
    assert "Verdict" in shown


def test_a_fit_is_settings_that_train_takes(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "fit.json"
    assert run("fit", str(rows), "--out", str(out), "--json", str(tmp_path / "numbers.json")) == 0
    shown = capsys.readouterr().out
    assert "the paper's" in shown
    assert f"next: triage-gym train --config {out} --judge JUDGE, JUDGE being rule as it was measured" in shown
    settings = json.loads(out.read_text())
    assert (settings["env"], settings["env_kwargs"], settings["limit"]) == ("minesweeper", {}, 7)
    told = ["train", "--config", str(out), "--judge", "rule", "--run-dir", str(tmp_path / "run"), "--dry-run"]
    with pytest.raises(SystemExit) as stop:
        main([*told, "--credits", "grpo+whiten", "triage-audited"])
    assert stop.value.code == 0
    bare = tmp_path / "bare.jsonl"
    bare.write_text(
        "".join(
            json.dumps({**json.loads(r), "origin": {**json.loads(r)["origin"], "settings": {}}}) + "\n"
            for r in rows.read_text().splitlines()
        )
    )
    assert run("fit", str(bare), "--out", str(out)) == 0
    assert f"--config {out} --env ENV --judge JUDGE" in capsys.readouterr().out
    assert run("fit", str(rows), "--out", str(out)) == 0
    settings = json.loads(out.read_text())
    assert settings["credit"] == "triage-audited"
    constants = settings["credit_kwargs"]["constants"]
    assert constants == sorted(constants, reverse=True)
    assert json.loads((tmp_path / "numbers.json").read_text())["fit"]["lam"] == settings["lam"]


def test_what_cannot_be_done_is_told(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fit", str(rows), "--judge", "nobody") == 1
    assert "Expected --judge to be one of ['rule']" in capsys.readouterr().err
    for flag in ("--demos", "--limit", "--turns", "--workers"):
        assert run("counterfactual", str(rows), flag, "3") == 1
        assert f"Expected no {flag}" in capsys.readouterr().err
    assert run("counterfactual", *SMALL, "--out", str(tmp_path / "no" / "rows.jsonl")) == 1
    assert "a folder that exists" in capsys.readouterr().err
    assert run("counterfactual", str(tmp_path), "--quiet") == 1
    assert "checkpoint" in capsys.readouterr().err
    assert run("counterfactual", "--rollouts", "1", "--quiet") == 1
    assert "`rollouts`" in capsys.readouterr().err


class Broken:
    """Fails always."""

    def judge(self, windows: object) -> list[object]:
        raise RuntimeError("no answer today")


def test_a_judge_that_fails_is_told_of_and_costs_no_rows(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.jsonl"
    assert run("counterfactual", *SMALL, "--judge", "test_cli_credit:Broken", "--out", str(out)) == 1
    shown = capsys.readouterr().out
    assert "gave no role to" in shown
    assert "no answer today" in shown
    assert "It gave no turn a role" in shown
    assert len(out.read_text().splitlines()) == len(rows.read_text().splitlines())


def test_rows_are_audited(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["judge", "audit", str(rows), "--judge", '{"name": "rule", "domain": "generic"}'])
    assert stop.value.code == 0
    assert "Cov(c, δ)" in capsys.readouterr().out
