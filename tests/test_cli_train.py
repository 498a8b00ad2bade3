"""Training from the command line, end to end and small: runs, comparisons, stopping, going on, looking."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import needs
import pytest

from triage_gym.cli.app import run

pytest.importorskip("torch")
needs.require("alfworld")

SMALL = ("--turns", "1000", "--tasks", "16", "--demos", "5", "--eval-tasks", "10", "--eval-at", "500")
SMALL += ("--trace-every", "1", "--checkpoint-every", "1", "--groups-per-update", "2", "--group-size", "4")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "run"
    assert run(["train", *SMALL, "--credit", "triage", "--seed", "3", "--run-dir", str(path), "--quiet"]) == 0
    return path


def test_a_run_leaves_its_files_its_table_and_its_page(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = json.loads((finished / "config.json").read_text())
    assert (config["seed"], config["credit"], config["turns"]) == (3, "triage", 1000)
    assert run(["report", str(finished)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^TRIAGE +\d+\.\d", out, re.MULTILINE)
    assert out.rstrip().endswith(f"report: {finished / 'report.html'}")
    page = (finished / "report.html").read_text()
    assert "TRIAGE on ALFWorld" in page
    episodes = json.loads(page.split('type="application/json">')[1].split("</script>")[0])["episodes"]
    assert len(episodes) == 4 * len((finished / "metrics.jsonl").read_text().splitlines())
    assert all(step[2] in "DENR" and isinstance(step[3], float) for e in episodes for step in e["x"])


def test_a_finished_run_is_not_overwritten(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", *SMALL, "--run-dir", str(finished)]) == 1
    assert "add --resume" in capsys.readouterr().err


def test_resume_refuses_other_settings_and_names_them(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--resume", "--run-dir", str(finished), "--lr", "0.5"]) == 1
    err = capsys.readouterr().err
    assert f"the run in {finished}, got other values of --lr; leave them out" in err
    assert "allow" not in err


def test_evaluation_prints_types_and_saves(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "eval.json"
    assert run(["eval", str(finished), "--tasks", "10", "--mode", "greedy", "--save", str(saved)]) == 0
    out = capsys.readouterr().out
    assert re.match(r"greedy, after 1\d\d\d turns of training, on valid_unseen, limit 30\n", out)
    assert re.search(r"^all +10 ", out, re.MULTILINE)
    result = json.loads(saved.read_text())
    assert (result["n"], result["mode"], len(result["tasks"])) == (10, "greedy", 10)


def test_a_checkpoint_plays(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for arguments in ([], [], ["--greedy"]):
        command = ["play", "--policy", "checkpoint", "--checkpoint", str(finished), "--limit", "6", *arguments]
        assert run(command) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert all(len(re.findall("^> ", out, re.MULTILINE)) <= 6 for out in outputs)


def test_pretrained_starts_can_be_evaluated_and_trained_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = tmp_path / "start"
    assert run(["pretrain", *SMALL, "--run-dir", str(start)]) == 0
    shown = capsys.readouterr().out
    assert "5 demonstrations" in shown
    command = shown[shown.index("or   triage-gym train") :].split()[2:]
    assert run([*command, "--run-dir", str(tmp_path / "next"), "--dry-run"]) == 0
    assert run(["eval", str(start), "--tasks", "5"]) == 0
    again = tmp_path / "again"
    arguments = ["--start", str(start), "--run-dir", str(again), "--no-report", "--quiet"]
    assert run(["train", *SMALL, *arguments]) == 0
    assert not (again / "report.html").exists()
    assert not (again / "pretrain.json").exists()


def test_a_pickle_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "weights.pt").write_bytes(b"\x80\x04.")
    assert run(["eval", str(tmp_path / "weights.pt")]) == 1
    assert "pickles" in capsys.readouterr().err


def test_a_folder_of_runs_names_them(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", str(finished.parent)]) == 1
    assert f"name one of the runs in it: {finished}" in capsys.readouterr().err


def test_a_dry_run_of_good_settings_writes_nothing(finished: Path, tmp_path: Path) -> None:
    path = tmp_path / "new"
    assert run(["train", *SMALL, "--start", str(finished), "--run-dir", str(path), "--dry-run"]) == 0
    assert not path.exists()


@pytest.mark.slow
def test_a_comparison_ends_with_pairs_and_goes_on_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c"
    arguments = ["--credits", "grpo+whiten", "triage", "--seeds", "0", "1", "--run-dir", str(path)]
    assert run(["train", *SMALL, *arguments]) == 0
    out, err = capsys.readouterr()
    assert "against GRPO + whitening" in out
    assert re.search(r"^TRIAGE +[+−]\d+\.\d ± \d+\.\d \([012] of 2 (higher|lower)\)", out, re.MULTILINE)
    assert {line.split()[0] for line in err.splitlines() if "update" in line and "warning" not in line} == {
        "grpo+whiten-s0",
        "grpo+whiten-s1",
        "triage-s0",
        "triage-s1",
    }
    before = (path / "comparison.json").read_bytes()
    assert run(["train", "--resume", "--run-dir", str(path), "--quiet"]) == 0
    assert json.loads((path / "comparison.json").read_bytes())["runs"] == json.loads(before)["runs"]
    assert run(["train", "--config", str(path / "config.json"), "--dry-run", "--run-dir", str(tmp_path / "d")]) == 0
    assert "4 runs of 1000 turns" in capsys.readouterr().out


def test_sigterm_saves_and_leaves_with_143_and_resume_finishes(tmp_path: Path) -> None:
    path = tmp_path / "run"
    command = [sys.executable, "-m", "triage_gym", "train", *SMALL, "--turns", "5000", "--run-dir", str(path)]
    with subprocess.Popen([*command, "--no-report"], stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        log = path / "metrics.jsonl"
        while not (log.exists() and log.stat().st_size):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "Traceback" not in err
    assert "\nstopping after this update, or without it while its judge is asked (again: at once)\n" in err
    saved = json.loads(log.read_text().splitlines()[-1])["turns"]
    command = f"triage-gym train --resume --run-dir {path}"
    assert err.splitlines()[-1] == f"stopped at {saved} of 5000 turns; go on with: {command}"
    done = len(log.read_text().splitlines())
    assert (path / "checkpoints" / "latest.json").exists()
    assert run(["train", "--resume", "--run-dir", str(path), "--quiet", "--no-report"]) == 0
    updates = [json.loads(line)["update"] for line in log.read_text().splitlines()]
    assert updates == list(range(1, len(updates) + 1))
    assert len(updates) > done


def test_a_score_that_says_more_than_success_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    from triage_gym.cli.evaluate import _print
    from triage_gym.trainers.evaluation import Evaluation, TaskResult

    tasks = (TaskResult("a", "", True, 4, 0, 1.0), TaskResult("b", "", False, 9, 0, 0.5))
    found = Evaluation(1, 100, "test", "greedy", 30, tasks)
    assert found.score == 0.75
    assert Evaluation.from_json(json.loads(json.dumps(found.to_json()))) == found
    _print(found, "test")
    head, _, row = capsys.readouterr().out.splitlines()[2:]
    assert re.split(r"  +", head.strip())[4] == "mean score"
    assert row.split()[:5] == ["all", "2", "50.0", "9.5–90.5", "0.750"]
    same = Evaluation(1, 100, "test", "greedy", 30, (tasks[0], TaskResult("b", "", False, 9, 0, 0.0)))
    older = Evaluation(1, 100, "test", "greedy", 30, (tasks[0], TaskResult("b", "", False, 9, 0)))
    assert (same.score, older.score) == (0.5, None)
    for other in (same, older):
        _print(other, "test")
    assert "mean score" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [
        (["--credit", "grpo"], "runs/grpo-s0"),
        (["--env", "minesweeper", "--credit", "grpo"], "runs/minesweeper-grpo-s0"),
        (["--env", "triage/Sokoban-v0", "--credits", "grpo", "rloo"], "runs/sokoban-comparison"),
    ],
)
def test_runs_of_other_environments_have_folders_of_their_own(
    arguments: list[str],
    folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["train", *arguments, "--dry-run"]) == 0
    assert f"into {folder}\n" in capsys.readouterr().out
