"""A run that waits for its judge: it says so, a signal ends it, and what was stopped goes on with another budget."""

from __future__ import annotations

import json
import logging
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from judges_for_tests import Flaky, Stopped
from test_trainer_judging import corridor
from trainer_runs import contents

from triage_gym.cli.app import run as command
from triage_gym.errors import CheckpointError, JudgeOutage
from triage_gym.protocols import Window
from triage_gym.records import RoleLabel
from triage_gym.trainers import waiting
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.loop import train
from triage_gym.trainers.resuming import refused, same_labels
from triage_gym.trainers.run_dir import read_lines
from triage_gym.trainers.signals import CutShort, Interrupted, Signals
from triage_gym.trainers.waiting import Waiting, deadline_of

HERE = "judges_for_tests"
LLM = {"name": "llm", "model": "m", "base_url": "http://127.0.0.1:9/v1"}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    for judge in (Flaky, Stopped):
        judge.out, judge.calls, judge.windows = range(0), 0, 0
    Stopped.at = -1


def stopped(**changes: Any) -> TrainConfig:
    return corridor(**{"judge": f"{HERE}:Stopped", **changes})


def lines(path: Path, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    return list(read_lines(path / name))


# ---- silence ----


class Slow:
    """Has answered some questions and does not come back until it is let go."""

    usage = {"answers": 0, "requests": 0}  # noqa: RUF012 - set by the test

    def __init__(self) -> None:
        self.go = threading.Event()

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        self.go.wait(30)
        return []


def test_a_long_call_is_told_of_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    judge = Slow()
    with Waiting(judge, 512, 900.0, first=0.01, every=0.01):
        judge.usage = {"answers": 7, "requests": 9}
        until = time.monotonic() + 20
        while len(caplog.records) < 2 and time.monotonic() < until:
            time.sleep(0.01)
    told = caplog.records[1].getMessage()
    assert "asked about 512 turns, so far 7 answers, 9 requests; a question is given up after 900 s" in told
    count = len(caplog.records)
    time.sleep(0.05)
    assert len(caplog.records) == count  # and not once it is over
    assert not any(thread.name == "waiting for the judge" for thread in threading.enumerate())


def test_a_judge_whose_numbers_cannot_be_read_is_waited_for_all_the_same() -> None:
    class Odd(Slow):
        @property
        def usage(self) -> dict[str, float]:  # type: ignore[override]
            raise RuntimeError

    assert Waiting(Odd(), 3).told(30.2) == "waiting for the judge for 30 s: asked about 3 turns"


def test_the_deadline_is_found_wherever_it_stands() -> None:
    assert deadline_of("rule") is None
    assert deadline_of(LLM) == 900
    assert deadline_of({"name": "cache", "of": {**LLM, "deadline": 60}}) == 60
    assert (
        deadline_of({"name": "ensemble", "of": ["rule", {**LLM, "pool": {"deadline": 30}}, {**LLM, "deadline": 20}]})
        == 30
    )


def test_a_run_says_so_through_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiting.Waiting.__init__, "__defaults__", (None, 0.0, 60.0))
    train(stopped(turns=1), tmp_path / "run")
    assert any("waiting for the judge" in r.getMessage() for r in caplog.records if r.name == waiting.logger.name)


# ---- a signal ----


def test_a_signal_ends_the_waiting_and_the_run_goes_on_as_if_nothing_had_been(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(stopped(), tmp_path / "straight")
    Stopped.calls, Stopped.at = 0, 3
    heard: list[int] = []
    begun = time.monotonic()
    with pytest.raises(Interrupted) as left:
        train(stopped(), tmp_path / "broken", on_signal=heard.append)
    assert time.monotonic() - begun < 55  # and not the minute that the judge would have taken
    assert (left.value.code, heard) == (143, [signal.SIGTERM])
    assert len(lines(tmp_path / "broken")) == 3
    assert any("Nothing of update 4 was learnt" in r.getMessage() for r in caplog.records)
    train(stopped(), tmp_path / "broken", resume=True)
    assert contents(tmp_path / "broken") == contents(tmp_path / "straight")


def test_so_it_does_while_the_second_judge_is_asked(tmp_path: Path) -> None:
    config = corridor(judge={"name": "rule", "domain": "generic"}, second_judge=f"{HERE}:Stopped", monitor_every=2)
    train(config, tmp_path / "straight")
    Stopped.calls, Stopped.at = 0, 1
    with pytest.raises(CutShort):
        train(config, tmp_path / "broken")
    assert len(lines(tmp_path / "broken")) == 2
    train(config, tmp_path / "broken", resume=True)
    assert contents(tmp_path / "broken") == contents(tmp_path / "straight")


def test_a_signal_of_before_lets_nothing_begin_that_it_would_end() -> None:
    with Signals() as signals:
        with signals.cuttable():
            pass
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(CutShort), signals.cuttable():
            raise AssertionError
        with pytest.raises(Interrupted) as second:
            signal.raise_signal(signal.SIGTERM)
        assert not isinstance(second.value, CutShort)


# ---- what a stopped update cost ----


def test_the_cost_of_an_update_that_came_to_nothing_is_kept(tmp_path: Path) -> None:
    config = stopped()
    Stopped.out = range(2, 10_000)
    with pytest.raises(JudgeOutage, match=r"1 calls, \$0\.5000\) is in timings\.jsonl"):
        train(config, tmp_path / "run")
    last = lines(tmp_path / "run", "timings.jsonl")[-1]
    assert (last["update"], last["unlearnt"], last["judge_calls"], last["judge_usd"]) == (2, True, 1, 0.5)
    before, Stopped.calls, Stopped.out = Stopped.calls, 0, range(0)
    train(config, tmp_path / "run", resume=True)
    costs = [row["judge_calls"] for row in lines(tmp_path / "run", "timings.jsonl")]
    assert sum(costs) == before + Stopped.calls  # every call is in a line, and no other log knows of it
    assert len(lines(tmp_path / "run")) == len(costs) - 1


# ---- going on with another budget ----


def test_what_labels_do_not_depend_on_may_change() -> None:
    assert same_labels(LLM, {**LLM, "base_url": "http://127.0.0.1:8/v1", "deadline": 5.0, "pool": {"max_calls": 9}})
    assert same_labels({"name": "cache", "of": LLM, "mode": "off"}, LLM)
    assert not same_labels(LLM, {**LLM, "model": "other"})
    assert not same_labels(f"{HERE}:Flaky", {"name": f"{HERE}:Flaky"})  # it does not say what they depend on
    old = stopped(judge={"name": f"{HERE}:Stopped", "budget": 1})
    more = stopped(
        judge={"name": f"{HERE}:Stopped", "budget": 5}, judge_failures=0.5, monitor_every=3, second_judge="rule"
    )
    assert refused(old, more) == []
    other = stopped(judge={"name": f"{HERE}:Stopped", "version": 2}, lam=0.5)
    assert refused(old, other) == ["lam", "judge"]
    assert refused(old, other, allow=["judge"]) == ["lam"]


def test_a_run_goes_on_with_a_larger_budget_and_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = stopped(judge={"name": f"{HERE}:Stopped", "budget": 1}).to_json()
    (tmp_path / "c.json").write_text(json.dumps(settings))
    there = ["--run-dir", str(tmp_path / "run"), "--quiet", "--no-report"]
    Stopped.out = range(2, 10_000)
    assert command(["train", "--config", str(tmp_path / "c.json"), *there]) == 75
    Stopped.out = range(0)
    other = json.dumps({"name": f"{HERE}:Stopped", "version": 2})
    assert command(["train", "--resume", *there, "--judge", other]) == 1
    assert "budget, address, patience" in capsys.readouterr().err
    more = {"name": f"{HERE}:Stopped", "budget": 7}
    assert command(["train", "--resume", *there, "--judge", json.dumps(more)]) == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["judge"] == more
    with pytest.raises(CheckpointError, match="budget, address, patience"):
        train(TrainConfig.from_json({**settings, "judge": json.loads(other)}), tmp_path / "run", resume=True)


def test_a_budget_that_was_reached_is_told_how_to_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def out(self: Any, windows: Sequence[Window]) -> list[RoleLabel]:
        return [RoleLabel(w.step, None, why="budget: max_calls=3 is reached", status="failed") for w in windows]

    monkeypatch.setattr(Flaky, "judge", out)
    with pytest.raises(JudgeOutage, match=r"larger budget.*Budgets count anew in each process"):
        train(corridor(), tmp_path / "run")


# ---- what speaks in the place of a judge ----


def test_stand_ins_are_counted_and_told_and_stop_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    train(corridor(judge=f"{HERE}:StandIn", judge_failures=0.0), tmp_path / "run")
    rows = lines(tmp_path / "run")
    assert all(0.0 < row["role_fallback"] < 0.6 for row in rows)
    assert ["judge_fallback" in row["warnings"] for row in rows] == [True] + [False] * (len(rows) - 1)
    share = f"{100 * rows[0]['role_fallback']:.3g} %"
    assert any(f"the judge failed on {share} of the turns" in r.getMessage() for r in caplog.records)


def test_a_dead_second_judge_leaves_a_trace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    train(corridor(second_judge=f"{HERE}:Dead", monitor_every=2), tmp_path / "run")
    rows = lines(tmp_path / "run")
    assert [row.get("second_failed") for row in rows[:3]] == [1.0, None, 1.0]
    assert ["second_judge_silent" in row["warnings"] for row in rows] == [True] + [False] * (len(rows) - 1)
    assert any("100 % of its sample (failed: connection: refused)" in r.getMessage() for r in caplog.records)
    assert lines(tmp_path / "run", "timings.jsonl")[0]["second_judge_why"] == "failed: connection: refused"


def test_options_that_the_judge_gives_nothing_for_are_told_once(tmp_path: Path) -> None:
    train(corridor(credit="triage+magnitude+soft"), tmp_path / "run")
    told = [set(row["warnings"]) & {"no_magnitudes", "no_probabilities"} for row in lines(tmp_path / "run")]
    assert told == [{"no_magnitudes", "no_probabilities"}] + [set()] * (len(told) - 1)


@pytest.mark.filterwarnings("error:The rule judge has no rules")
def test_a_run_with_a_judge_of_its_own_is_not_told_that_there_are_no_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triage_gym.judges.rule._warned", set())
    train(corridor(turns=1), tmp_path / "run")
    assert logging.getLogger("triage_gym.trainers").filters == []
