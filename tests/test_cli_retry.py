"""``triage-gym retry``: what it prints, what it writes, what it refuses, and that it needs no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from triage_gym.cli import trial_play
from triage_gym.cli.app import run
from triage_gym.cli.trial_play import Setting
from triage_gym.trials import Trial, summary

QUICK = ["--env", "minesweeper", "--noise", "0.6", "--reflector", "oracle", "--tasks", "30"]


def setting(**changes: Any) -> Setting:
    return Setting(
        **{"env": "minesweeper", "env_kwargs": {}, "split": "test", "limit": 30, "tasks": 30, "attempts": 3}
        | {"reflector": "oracle"}
        | changes
    )


def played(retry_from: str = "pivot", **changes: Any) -> list[Trial]:
    return trial_play.play_trials(setting(**changes), trial_play.clumsy_expert(0.6), retry_from).trials


def test_it_compares_pivot_and_start_and_writes_every_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "numbers.json"
    assert run(["retry", *QUICK, "--save", str(file)]) == 0
    out = capsys.readouterr().out
    found = json.loads(file.read_text())
    pivot, start = found["summaries"]["pivot"], found["summaries"]["start"]
    assert pivot["solved"][0] == start["solved"][0], "the first attempts are the same"
    assert pivot["generated"]["by_attempt"][0] == start["generated"]["by_attempt"][0]
    assert pivot["generated"]["total"] < start["generated"]["total"]
    assert (pivot["replayed"]["total"] > 0, start["replayed"]["total"]) == (True, 0)
    assert pivot["accuracy"]["equal"]["estimate"] == 1.0, "the oracle agrees with itself"
    (line,) = [line for line in out.splitlines() if line.startswith("turns generated")]
    assert line.split()[2:] == [str(pivot["generated"]["total"]), str(start["generated"]["total"])]
    ratio = pivot["generated"]["total"] / start["generated"]["total"]
    assert f"full restart: {ratio:.3f} of whole trials" in out
    assert found["budgets"] == sorted(found["budgets"])
    assert len(found["solved_within"]["pivot"]) == len(found["budgets"])
    clock = found["clocks"]["pivot"]
    assert clock["turns"] == pivot["generated"]["total"]
    assert clock["replayed"] == pivot["replayed"]["total"]
    assert found["settings"]["reflector"] == "oracle"
    assert "This player reads no remark" in out


def test_one_way_alone_compares_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["retry", *QUICK, "--retry-from", "pivot", "--tasks", "5"]) == 0
    out = capsys.readouterr().out
    assert "pass@3" in out
    assert "full restart" not in out
    assert "Solved within" not in out


def test_trials_are_the_same_whenever_they_are_played_and_share_first_attempts() -> None:
    pivot = played()
    assert pivot == played()
    start = played("start")
    assert [t.records[0] for t in pivot] == [t.records[0] for t in start]
    assert [t.records[0] for t in pivot] != [t.records[0] for t in played(seed=1)]
    assert any(len(t.records) > 1 for t in pivot)


def test_a_full_restart_keeps_the_reflection_and_begins_anew() -> None:
    retries = [r for t in played("start") for r in t.records[1:]]
    assert retries
    assert all(r.reflection is not None and r.reflection.source == "oracle" for r in retries)
    assert any(r.reflection is not None and r.reflection.pivot > 0 for r in retries)
    assert all((r.pivot, r.prefix_length) == (0, 0) for r in retries)


def test_tested_pivots_are_counted() -> None:
    found = trial_play.play_trials(setting(verify="oracle"), trial_play.clumsy_expert(0.6), "pivot")
    checks = summary(found.trials, 3, checks=found.checks).checks
    assert set(checks) <= {"passed", "moved", "failed"}
    assert sum(checks.values()) == sum(len(t.records) - 1 for t in found.trials) > 0


def test_the_clock_takes_every_turn_again_once() -> None:
    trials = played()
    clock = trial_play.clock(setting(), trial_play.clumsy_expert(0.6), trials)
    assert clock is not None
    assert clock.turns == sum(sum(t.generated) for t in trials)
    assert clock.replayed == sum(sum(t.replayed) for t in trials)
    assert clock.retries == sum(len(t.records) - 1 for t in trials)
    assert clock.a_turn > 0
    assert clock.a_restore is not None
    assert clock.a_replayed_turn == clock.restore_s / clock.replayed


def test_the_clock_stops_where_turns_do_not_happen_again() -> None:
    trials = played()
    assert trial_play.clock(setting(env_kwargs={"mines": 4}), trial_play.clumsy_expert(0.6), trials) is None


PLAYERS = """
class First:
    def __call__(self, observation, info, rng):
        return info["admissible_commands"][0]


def last(observation, info, rng):
    return info["admissible_commands"][-1]


number = 3
"""


@pytest.mark.parametrize("name", ["players:First", "players:last"])
def test_a_player_of_the_users_own(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "players.py").write_text(PLAYERS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "players", raising=False)
    assert run(["retry", "--env", "sokoban", "--policy", name, "--tasks", "3", "--limit", "5"]) == 0
    assert f"policy: {name}" in capsys.readouterr().out
    assert run(["retry", "--env", "sokoban", "--policy", "players:number", "--tasks", "3"]) == 1
    assert "can be called" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["retry"], 1, "--env with --policy expert"),
        (["retry", *QUICK, "--attempts", "0"], 1, "--attempts"),
        (["retry", *QUICK, "--tasks", "0"], 1, "--tasks"),
        (["retry", *QUICK, "--limit", "0"], 1, "--limit"),
        (["retry", *QUICK, "--noise", "1.5"], 1, "--noise in [0, 1]"),
        (["retry", *QUICK, "--retry-from", "middle"], 2, "--retry-from"),
        (["retry", *QUICK, "--reflector", "oracel"], 1, "did you mean 'oracle'"),
        (["retry", *QUICK, "--reflector", "policy"], 1, "checkpoint as --policy"),
        (["retry", *QUICK, "--reflector", '{"name": "role", "checks": "value"}'], 1, "checkpoint as --policy"),
        (["retry", *QUICK, "--verify", "nobody"], 1, "nobody"),
        (["retry", *QUICK, "--save", "no/such/folder.json"], 1, "--save"),
        (["retry", *QUICK, "--save", "."], 1, "--save to be a file"),
        (["retry", *QUICK, "--seed", "-1"], 1, "--seed"),
        (["retry", *QUICK, "--policy", "no.such:player"], 1, "no.such"),
        (["retry", *QUICK, "--policy", "nowhere"], 1, "nowhere"),
        (["retry", "--env", "textarena", "--policy", "expert"], 1, "error"),
    ],
)
def test_bad_input_is_one_clear_error(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = run(arguments)
    except SystemExit as stop:
        status = int(stop.code or 0)
    out, err = capsys.readouterr()
    assert status == code
    assert said in " ".join((out + err).replace("│", " ").split())
    assert "Traceback" not in out + err


def test_it_runs_where_there_is_no_torch() -> None:
    script = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "safetensors"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
from triage_gym.cli.app import run
sys.exit(run(sys.argv[1:]))
"""
    command = [sys.executable, "-c", script, "retry", "--env", "alfworld", "--policy", "random", "--tasks", "2"]
    done = subprocess.run([*command, "--limit", "5"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pass@3" in done.stdout
    learned = subprocess.run(
        [sys.executable, "-c", script, "retry", "--policy", "run"], capture_output=True, text=True, check=False
    )
    assert learned.returncode == 1
    assert "pip install 'triage-gym[train]'" in learned.stderr


def test_a_checkpoint_retries_as_it_was_trained_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    from triage_gym.trainers import TrainConfig, train

    path, file = tmp_path / "run", tmp_path / "numbers.json"
    train(TrainConfig(env="minesweeper", credit="pivoarl", turns=200, eval_tasks=10, eval_at=()), path)
    command = ["retry", "--policy", str(path), "--reflector", "policy", "--tasks", "20", "--save", str(file)]
    assert run(command) == 0
    out = capsys.readouterr().out
    assert "reads no remark" not in out
    found = json.loads(file.read_text())["summaries"]
    assert found["start"]["replayed"]["total"] == 0
    for way in ("pivot", "start"):
        retries = sum(found[way]["made"][1:])
        assert found[way]["reflections"] == found[way]["gain"]["measured"] == retries > 0
        assert found[way]["gain"]["bits"] >= 0.0
        assert found[way]["written"]["reflections"] > 0, "the policy's own words"
    assert run([*command, "--verify", "oracle", "--retry-from", "both"]) == 0
    assert run([*command, "--env", "sokoban"]) == 1
    assert "was trained on, minesweeper, got sokoban" in capsys.readouterr().err
    assert run([*command, "--env-kwargs", "mines=4"]) == 1


def test_a_checkpoint_that_tests_its_pivots_tests_none_in_full_restarts(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from triage_gym.trainers import TrainConfig, train

    path, file = tmp_path / "run", tmp_path / "numbers.json"
    tested: dict[str, Any] = {"reflector": "oracle", "verify": "oracle", "retries": "verified"}
    train(TrainConfig(env="minesweeper", credit="pivoarl", turns=200, eval_tasks=10, eval_at=(), **tested), path)
    command = ["retry", "--policy", str(path), "--reflector", "oracle", "--tasks", "20", "--save", str(file)]
    assert run(command) == 0
    found = json.loads(file.read_text())["summaries"]
    for way in ("pivot", "start"):
        assert sum(found[way]["made"][1:]) > 0
    assert sum(found["pivot"]["checks"].values()) == sum(found["pivot"]["made"][1:])
    assert found["start"]["checks"] == {}
