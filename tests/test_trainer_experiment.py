"""Arms × seeds: numbers worked out by hand from run directories, and workers whose failures stay their own."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import needs
import pytest
from trainer_runs import contents, small

from triage_gym.errors import InputError
from triage_gym.trainers.comparison import arm_config, arm_name, is_finished, summarise, table
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.run_dir import write_json

CONFIG = TrainConfig(turns=200, eval_at=(100,), tasks=8).resolved()


def evaluation(update: int, turns: int, mode: str, lengths: dict[str, int | None], r: int = 2) -> dict[str, Any]:
    """An entry of eval.json: a task's length when it was solved, None when not."""
    won = [length for length in lengths.values() if length is not None]
    tasks = [
        {"task": t, "task_type": t[:1], "success": n is not None, "length": n or 30, "r_posthoc": r}
        for t, n in lengths.items()
    ]
    return {
        "update": update,
        "turns": turns,
        "mode": mode,
        "success": len(won) / len(lengths),
        "length_success": sum(won) / len(won) if won else None,
        "r_per_success_posthoc": float(r) if won else None,
        "tasks": tasks,
    }


def write_run(folder: Path, credit: str, seed: int, lengths: dict[str, int | None], halfway: float) -> None:
    path = folder / arm_name(credit, seed)
    path.mkdir()
    write_json(path / "config.json", arm_config(CONFIG, credit, seed).to_json())
    half = {**evaluation(1, 110, "sampled", lengths), "success": halfway}
    ends = [evaluation(2, 210, mode, lengths) for mode in ("greedy", "sampled")]
    start = evaluation(0, 0, "sampled", dict.fromkeys(lengths))
    write_json(path / "eval.json", {"schema": 1, "evaluations": [start, half, *ends]})
    shares = {"role_D": 0.25, "role_E": 0.5, "role_N": 0.0, "role_R": 0.25}
    rows = [
        {"update": 1, "turns": 50, "success": 0.0, **shares},
        {"update": 2, "turns": 200, "success": 1.0, **shares, "role_E": 0.1},
    ]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    timing = {"update": 1, "rollout_s": 1.0, "judge_s": 0.25, "credit_s": 0.25, "update_s": 0.5}
    (path / "timings.jsonl").write_text(json.dumps(timing) + "\n" + json.dumps(timing) + "\n")


@pytest.fixture
def compared(tmp_path: Path) -> dict[str, Any]:
    for seed, (a, b) in enumerate([(0.8, 0.5), (0.6, 0.5)]):
        write_run(tmp_path, "triage", seed, {"a1": 8, "a2": 10, "b1": 12, "b2": 30 if seed else None}, a)
        write_run(tmp_path, "grpo+whiten", seed, {"a1": 10, "a2": 20, "b1": None, "b2": None}, b)
    errors = {arm_name("scalar", 0): "TrainingError: it broke"}
    return summarise(tmp_path, CONFIG, ["grpo+whiten", "triage", "scalar"], [0, 1], "grpo+whiten", errors)


def cell(rows: list[dict[str, Any]], **where: str) -> dict[str, Any]:
    (found,) = [row for row in rows if all(row[k] == v for k, v in where.items())]
    return found


def test_metrics_of_a_run(compared: dict[str, Any]) -> None:
    run = cell(compared["runs"], dir="triage-s0")
    assert run["status"] == "done"
    assert run["metrics"] == {
        "start": 0.0,
        "success@100": 0.8,
        "success@200": 0.75,
        "success_greedy": 0.75,
        "length_success": 10.0,
        "r_per_success": 2.0,
        "auc": 0.75,  # success 0 for 50 turns, 1 for 150
        "share_D": 0.25,
        "share_E": pytest.approx((50 * 0.5 + 150 * 0.1) / 200),
        "share_N": 0.0,
        "share_R": 0.25,
        "turns": 200,
        "cpu_s": 4.0,
    }
    assert run["by_type"] == {"a": 1.0, "b": 0.5}


def test_means_and_paired_differences_on_hand_numbers(compared: dict[str, Any]) -> None:
    """Half-width for two values v ± d: t(.975, 1) · d·√2/√2 = 12.706 d."""
    t = 12.7062047
    mean = cell(compared["summary"], credit="triage", metric="success@100")
    assert (mean["mean"], mean["n"]) == (pytest.approx(0.7), 2)
    assert mean["half_width"] == pytest.approx(t * 0.1)
    pair = cell(compared["paired"], credit="triage", baseline="grpo+whiten", metric="success@100")
    assert pair["values"] == {"0": pytest.approx(0.3), "1": pytest.approx(0.1)}
    assert (pair["mean"], pair["n"], pair["positive"]) == (pytest.approx(0.2), 2, 2)
    assert pair["half_width"] == pytest.approx(t * 0.1)
    # Both solve a1 and a2: 8 + 10 turns against 10 + 20.
    length = cell(compared["paired"], credit="triage", baseline="grpo+whiten", metric="length_both_solved")
    assert length["mean"] == pytest.approx(-40.0)
    assert length["half_width"] == pytest.approx(0.0)


def test_what_failed_and_what_is_missing_are_said(compared: dict[str, Any]) -> None:
    assert cell(compared["runs"], dir="scalar-s0") == {
        "credit": "scalar",
        "seed": 0,
        "dir": "scalar-s0",
        "status": "failed",
        "error": "TrainingError: it broke",
    }
    assert cell(compared["runs"], dir="scalar-s1")["status"] == "missing"
    assert not compared["complete"]
    assert not [row for row in compared["paired"] if "scalar" in (row["credit"], row["baseline"])]
    assert "seed" not in compared["config"]
    shown = table(compared)
    assert "scalar-s0: TrainingError: it broke" in shown
    assert "triage - grpo+whiten" in shown
    assert "(2/2)" in shown
    assert json.loads(json.dumps(compared, allow_nan=False)) == compared


def test_a_run_of_another_config_or_without_an_end_is_not_finished(tmp_path: Path) -> None:
    write_run(tmp_path, "triage", 0, {"a1": 8}, 0.5)
    path = tmp_path / "triage-s0"
    assert is_finished(path, arm_config(CONFIG, "triage", 0))
    assert not is_finished(path, arm_config(CONFIG, "triage", 1))
    assert not is_finished(tmp_path / "nothing", arm_config(CONFIG, "triage", 0))
    write_json(path / "eval.json", {"schema": 1, "evaluations": [evaluation(2, 210, "greedy", {"a1": 8})]})
    assert not is_finished(path, arm_config(CONFIG, "triage", 0))


def test_single_seeds_have_no_interval(tmp_path: Path) -> None:
    write_run(tmp_path, "triage", 0, {"a1": 8}, 0.5)
    write_run(tmp_path, "grpo", 0, {"a1": None}, 0.5)
    found = summarise(tmp_path, CONFIG, ["grpo", "triage"], [0], "grpo", {})
    assert found["complete"]
    assert cell(found["summary"], credit="triage", metric="auc")["half_width"] is None
    assert not [r for r in found["paired"] if r["metric"] == "length_both_solved"]  # nothing both solve
    assert all(math.isfinite(row["mean"]) for row in found["paired"])
    assert "0.500" in table(found)


torch = pytest.importorskip("torch")


@pytest.mark.parametrize(("name", "value"), [("credits", []), ("seeds", [1, 1]), ("credits", "grpo"), ("workers", 0)])
def test_arms_given_twice_or_not_at_all_are_refused(tmp_path: Path, name: str, value: Any) -> None:
    from triage_gym.trainers.experiment import compare

    with pytest.raises(InputError, match=name):
        compare(small(), **{"credits": ["grpo"], "seeds": [0], "run_dir": tmp_path, name: value})


COMPARE = """
import json, sys
sys.path[:0] = [sys.argv[1]]
from pathlib import Path
from trainer_runs import small
from triage_gym.trainers import compare

def tell(update):
    print(update.run, update.update, flush=True)

compare(small(turns=700), json.loads(sys.argv[3]), [0], Path(sys.argv[2]), workers=1, progress=tell)
"""


def run_compare(folder: Path, credits: list[str]) -> subprocess.Popen[str]:
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", COMPARE, here, str(folder), json.dumps(credits)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_arms_fail_alone_stop_on_a_signal_and_go_on(tmp_path: Path) -> None:
    needs.require("alfworld")
    credits = ["nonsense", "grpo", "triage"]
    with run_compare(tmp_path / "a", credits) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "triage-s0 2\n":
                process.send_signal(signal.SIGTERM)
                break
        process.stdout.read()
        assert process.wait() == 143
    found = json.loads((tmp_path / "a" / "comparison.json").read_text())
    assert [run["status"] for run in found["runs"]] == ["failed", "done", "missing"]
    assert "Expected one of" in found["runs"][0]["error"]

    untouched = (tmp_path / "a" / "grpo-s0" / "eval.json").stat().st_mtime_ns
    with run_compare(tmp_path / "a", credits) as process:
        assert process.stdout is not None
        told = process.stdout.read().splitlines()
        assert process.wait() == 0
    assert (tmp_path / "a" / "grpo-s0" / "eval.json").stat().st_mtime_ns == untouched
    assert {line.split()[0] for line in told} == {"triage-s0"}
    assert int(told[0].split()[1]) > 2  # it went on, and did not begin again

    with run_compare(tmp_path / "b", ["triage"]) as process:
        assert process.stdout is not None
        process.stdout.read()
        assert process.wait() == 0
    assert contents(tmp_path / "a" / "triage-s0") == contents(tmp_path / "b" / "triage-s0")


def test_an_arm_has_the_options_that_its_rule_has(tmp_path: Path) -> None:
    from triage_gym.trainers.experiment import compare

    given = TrainConfig(credit_kwargs={"constants": [1.0, 0.4, 0.0, -0.4], "omega": 0.5})
    arms = {
        name: arm_config(given, name, 0).credit_kwargs for name in ("grpo", "triage-audited", "gigpo", "triage+gigpo")
    }
    assert arms["grpo"] == {}
    assert arms["triage-audited"] == {"constants": [1.0, 0.4, 0.0, -0.4]}
    assert arms["gigpo"] == arms["triage+gigpo"] == given.credit_kwargs
    rules = arm_config(given, "triage+gigpo", 0).credit_rule().rules  # type: ignore[attr-defined]
    assert (rules[0].constants, rules[1].omega) == ([1.0, 0.4, 0.0, -0.4], 0.5)
    with pytest.raises(InputError, match="options of the compared rules grpo rloo, got 'constants', which none has"):
        compare(given, ["grpo", "rloo"], [0], tmp_path)


def test_arms_that_restart_in_full_test_no_pivots_beside_those_that_do() -> None:
    shared = TrainConfig(verify="oracle", retries="verified").for_arms(["metarl", "pivoarl"])
    restarting, pivotal = arm_config(shared, "metarl", 1), arm_config(shared, "pivoarl", 1)
    assert (restarting.retry_from, restarting.verify, restarting.retries) == ("start", None, "all")
    assert (pivotal.retry_from, pivotal.verify, pivotal.retries) == ("pivot", "oracle", "verified")
    told = TrainConfig(verify="oracle", retry_from="start").for_arms(["metarl", "pivoarl"])
    assert arm_config(told, "metarl", 1).verify == "oracle", "a contradiction that was asked for is refused, not mended"
