"""The judge of a run: when it fails the run stops as it was, and what nobody reads or pays for is not asked."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from judges_for_tests import Flaky
from trainer_runs import contents, small

from triage_gym.cli.app import run as command
from triage_gym.credit import make, may_read_labels, needs_labels, worths
from triage_gym.errors import InputError, JudgeOutage, MissingDependency, TrainingError
from triage_gym.judges.breaker import Breaker, shortened
from triage_gym.judges.labelling import label_records
from triage_gym.records import EpisodeRecord, RoleLabel, Segment
from triage_gym.testing.biased_judge import BiasedJudge
from triage_gym.trainers import judging
from triage_gym.trainers.arm_worker import run_job
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.evaluation import posthoc_judge
from triage_gym.trainers.judging import Judging, compared
from triage_gym.trainers.loop import train
from triage_gym.trainers.pretraining import pretrain
from triage_gym.trainers.probing import probe
from triage_gym.trainers.run_dir import read_lines

HERE = "judges_for_tests"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Flaky.out, Flaky.calls, Flaky.windows = range(0), 0, 0


def corridor(**changes: Any) -> TrainConfig:
    plain: dict[str, Any] = {"env": "envs_for_tests:Corridor", "judge": f"{HERE}:Flaky", "demos": 0, "turns": 500}
    return small(**{**plain, "limit": 12, "kl": 0.0, "eval_at": (), **changes})


def label(status: str) -> RoleLabel:
    return RoleLabel(0, "D" if status == "judged" else None, status=status, why="timeout")  # type: ignore[arg-type]


# ---- the breaker ----


def test_the_eleventh_failure_within_two_hundred_trips() -> None:
    breaker = Breaker()
    assert not breaker.add([label("failed")] * 10)
    assert not breaker.add([label("judged")] * 190)
    assert (breaker.failed, breaker.asked) == (10, 200)
    assert not breaker.add([label("judged"), label("failed")])  # the oldest failures fall out as new ones come
    assert breaker.failed == 9
    assert not breaker.add([label("failed")])
    assert breaker.add([label("failed")] * 9 + [label("judged")])
    assert breaker.reasons() == [("timeout", breaker._reasons["timeout"])]


@pytest.mark.parametrize("status", ["unjudged", "unsure", "judged"])
def test_what_was_not_asked_or_was_withheld_is_no_failure(status: str) -> None:
    assert not Breaker(0.0).add([label(status)] * 500)
    assert Breaker(0.0).add([label(status), label("failed")])
    assert not Breaker(1.0).add([label("failed")] * 500)


@given(
    st.lists(st.sampled_from(["judged", "failed", "unsure", "unjudged"]), max_size=60),
    st.floats(0, 1),
    st.integers(1, 9),
    st.integers(1, 7),
)
def test_the_breaker_is_the_definition_however_labels_come(
    statuses: list[str], most: float, window: int, at_a_time: int
) -> None:
    asked = [s == "failed" for s in statuses if s != "unjudged"]
    trips = any(sum(asked[max(0, k - window) : k]) / window > most for k in range(len(asked) + 1))
    breaker = Breaker(most, window)
    for at in range(0, len(statuses), at_a_time):
        breaker.add([label(s) for s in statuses[at : at + at_a_time]])
        other = Breaker(most, window)
        other.go_to(breaker.to_json())
        assert breaker.tripped or (other.failed, other.asked) == (breaker.failed, breaker.asked)
    assert breaker.tripped == trips


def test_a_share_that_is_no_sum_of_halves_is_borne_to_the_last_failure() -> None:
    breaker = Breaker(0.29, 100)  # 0.29 * 100 is 28.999999999999996
    assert not breaker.add([label("failed")] * 29)
    assert breaker.add([label("failed")])


def test_long_reasons_are_cut_between_words() -> None:
    why = "connection: ConnectionRefusedError while asking for an answer; " * 4
    cut = shortened(why)
    assert len(cut) <= 160
    assert cut.endswith("…")
    assert why.startswith(cut[:-1])
    assert why[len(cut) - 1] in " :;"
    assert shortened("a  short\nreason (15 tries)") == "a short reason"
    assert len(shortened("x" * 500)) == 160


def test_marks_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="marks"):
        Breaker().go_to("..?")
    with pytest.raises(InputError, match="most"):
        Breaker(1.5)


# ---- an outage ----


def test_a_run_through_an_outage_equals_one_without(tmp_path: Path) -> None:
    train(corridor(), tmp_path / "straight")
    assert Flaky.calls >= 6
    Flaky.calls, Flaky.out = 0, range(3, 10_000)
    with pytest.raises(JudgeOutage, match=r"11 failures.*timeout: no answer.*--resume") as stopped:
        train(corridor(), tmp_path / "broken")
    assert isinstance(stopped.value, TrainingError)
    assert stopped.value.exit_status == 75
    assert len(list(read_lines(tmp_path / "broken" / "metrics.jsonl"))) == 3  # nothing of the fourth
    with pytest.raises(JudgeOutage):  # and it is still out
        train(corridor(), tmp_path / "broken", resume=True)
    Flaky.out = range(0)
    train(corridor(), tmp_path / "broken", resume=True)
    assert contents(tmp_path / "broken") == contents(tmp_path / "straight")


def test_few_failures_are_borne_and_counted(tmp_path: Path) -> None:
    Flaky.out = range(2, 3)
    train(corridor(judge_failures=1.0), tmp_path / "run")
    rows = list(read_lines(tmp_path / "run" / "metrics.jsonl"))
    failed = [row["role_failed"] for row in rows]
    assert failed[2] == rows[2]["role_unjudged"] == 1.0
    assert sum(failed) == 1.0
    assert [row["judge_confidence"] for row in rows[:3]] == [0.75, 0.75, None]
    assert all(row["role_unsure"] == 0 for row in rows)
    assert not any("usd" in name for name in rows[0])
    timings = list(read_lines(tmp_path / "run" / "timings.jsonl"))
    assert [(t["judge_calls"], t["judge_usd"]) for t in timings] == [(1, 0.5)] * len(rows)


def record(turns: int, trial: str = "a", attempt: int = 0, prefix: int = 0, **more: Any) -> EpisodeRecord:
    segments = tuple(Segment(i, f"seen {i}", f"do {trial} {attempt} {i}", f"seen {i + 1}") for i in range(turns))
    return EpisodeRecord("g", segments=segments, trial=trial, attempt=attempt, prefix_length=prefix, **more)


def test_an_outage_costs_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "CHUNK", 30)
    asked = Judging(corridor().resolved())
    labelled = asked.label([record(12, str(i)) for i in range(8)], ())
    assert Flaky.calls == 4  # two attempts a chunk, whole ones
    assert all(len(r.labels) == 12 for r in labelled)
    Flaky.out, Flaky.calls = range(1, 100), 0
    with pytest.raises(JudgeOutage):
        asked.label([record(12, str(i)) for i in range(8)], ())
    assert Flaky.calls == 2


def test_a_prefix_has_its_parents_labels_though_another_chunk_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "CHUNK", 1)
    records = [record(4), record(6, attempt=1, prefix=3, parent=0), record(7, attempt=2, prefix=5, parent=1)]
    found = Judging(corridor(judge={"name": "triage_gym.testing.biased_judge:BiasedJudge", "phrase": "2"}).resolved())
    labels = [r.labels for r in found.label(records, ())]
    assert labels[1][:3] == labels[0][:3]
    assert labels[2][:5] == labels[1][:5]
    assert [r.labels for r in label_records(records, found.judge)] == labels


def test_the_command_line_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Flaky.out = range(1, 10_000)
    settings = corridor().to_json()
    (tmp_path / "c.json").write_text(json.dumps(settings))
    arguments = ["train", "--config", str(tmp_path / "c.json"), "--run-dir", str(tmp_path / "run"), "--quiet"]
    assert command([*arguments, "--no-report"]) == 75
    told = capsys.readouterr().err
    assert f"triage-gym train --resume --run-dir {tmp_path / 'run'}" in told
    assert "timeout: no answer" in told
    Flaky.out = range(0)
    assert command(["train", "--resume", "--run-dir", str(tmp_path / "run"), "--quiet", "--no-report"]) == 0


def test_in_a_comparison_an_arm_whose_judge_is_out_fails_alone(tmp_path: Path) -> None:
    Flaky.out = range(1, 10_000)
    arms = {credit: corridor(credit=credit, turns=200).resolved() for credit in ("grpo", "triage")}
    ends = {}
    for credit, arm in arms.items():
        pretrain(arm, tmp_path / "start")
        told = io.StringIO()
        job = {"job": "arm", "config": arm.to_json(), "dir": str(tmp_path / credit), "start": str(tmp_path / "start")}
        run_job(job, told)
        ends[credit] = json.loads(told.getvalue().splitlines()[-1])
    assert ends["grpo"] == {"kind": "done"}  # it asks nobody
    assert ends["triage"]["kind"] == "failed"
    assert "JudgeOutage" in ends["triage"]["error"]


# ---- what is asked ----


@pytest.mark.parametrize(
    ("credit", "needs_them", "may"),
    [("grpo", False, False), ("rloo+whiten", False, False), ("triage", True, True), ("scalar", True, True),
     ("pivoarl", False, False), ("pivoarl+triage", True, True), (f"{HERE}:by_length", False, True)],
)  # fmt: skip
def test_rules_say_whether_they_read_labels(credit: str, needs_them: bool, may: bool) -> None:
    assert (needs_labels(make(credit)), may_read_labels(make(credit))) == (needs_them, may)


def test_worths_are_the_rules_own() -> None:
    assert worths(make("scalar", good=0.25)) == {"D": 0.25, "E": 0.25, "N": -0.5, "R": -0.5}
    assert worths(make("triage"))["R"] == worths(make("grpo"))["R"] == -0.5


def test_an_expensive_judge_is_not_asked_for_nothing(tmp_path: Path) -> None:
    train(corridor(credit="grpo"), tmp_path / "run")
    assert Flaky.calls == 0
    rows = list(read_lines(tmp_path / "run" / "metrics.jsonl"))
    assert all(row["role_unjudged"] == 1.0 and row["role_failed"] == 0.0 for row in rows)
    assert "role_credit" not in rows[0]


@pytest.mark.filterwarnings("error")
def test_rules_are_asked_as_ever_and_nobody_is_warned_of_what_teaches_nothing(tmp_path: Path) -> None:
    config = corridor(credit="grpo", judge="rule").resolved()
    labelled = Judging(config).label([record(3)], ())
    assert [x.source for x in labelled[0].labels] == ["rule:generic"] * 3


def test_evaluation_asks_the_rule_judge_alone(tmp_path: Path) -> None:
    sokoban = {"name": "rule", "domain": "sokoban"}
    assert posthoc_judge(corridor(judge=sokoban)).domain == "sokoban"  # type: ignore[attr-defined]
    assert posthoc_judge(corridor()).domain is None  # type: ignore[attr-defined]
    train(corridor(turns=1), tmp_path / "run")
    assert Flaky.calls == 1  # one update, three evaluations


def test_a_sample_is_compared_in_order_and_repeats() -> None:
    judge = BiasedJudge(phrase=" 1 ", role="R")
    records = label_records([record(9, str(i), attempt=i % 2) for i in range(6)], judge)
    found = [compared(records, BiasedJudge(), np.random.default_rng(3), (), most=20) for _ in range(2)]
    pairs = [opinions.pairs for opinions in found]
    assert (found[0].asked, found[0].silent, found[0].why) == (20, 0.0, "")
    assert pairs[0] == pairs[1]
    assert len(pairs[0]) == 20
    assert {a == "R" for _, a, b in pairs[0] if a != b} == {True}


# ---- before anything is written ----


@pytest.mark.parametrize("nested", [False, True])
def test_a_judge_whose_facts_are_not_there_is_refused_at_once(nested: bool) -> None:
    judge: Any = {"name": f"{HERE}:Knowing"}
    config = corridor(
        env=f"{HERE}:NoExpert",
        judge={"name": "triage_gym.testing.biased_judge:BiasedJudge", "of": judge} if nested else judge,
    )
    with pytest.raises(InputError, match="expert"):
        probe(config.resolved())


def test_a_model_without_a_key_or_its_package_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    llm = {"name": "llm", "model": "m", "api_key_env": "NO_SUCH_KEY_HERE"}
    config = corridor(judge={"name": "threshold", "of": llm}).resolved()
    with pytest.raises(InputError, match="NO_SUCH_KEY_HERE"):
        probe(config)
    monkeypatch.setitem(sys.modules, "openai", None)
    there = {**llm, "base_url": "http://127.0.0.1:9/v1"}
    with pytest.raises(MissingDependency, match="judge"):
        probe(corridor(second_judge={"name": "ensemble", "of": ["rule", there]}).resolved())


@pytest.mark.parametrize(
    ("change", "named"),
    [({"judge_failures": 1.5}, "judge_failures"), ({"second_judge": 3}, "judges"), ({"monitor_every": 0}, "monitor_every")],
)  # fmt: skip
def test_bad_settings_are_refused(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        corridor(**change)


def test_an_oracle_trains_on_a_household(tmp_path: Path) -> None:
    needs.require("alfworld")
    train(small(judge="oracle", turns=100, eval_at=(), attempts=2, reflector="random"), tmp_path / "run")
    rows = list(read_lines(tmp_path / "run" / "metrics.jsonl"))
    assert all(row["role_failed"] == row["role_unjudged"] == 0.0 for row in rows)
    assert all("rule_agreement" in row for row in rows)


# ---- what a judge sees, and what evaluations ask ----


@pytest.mark.parametrize("width", [0, 2, 5])
def test_first_and_second_judge_see_the_windows_asked_for(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    plain = BiasedJudge.judge

    def watched(self: BiasedJudge, windows: Any) -> list[RoleLabel]:
        seen.extend((len(w.past), len(w.future)) for w in windows)
        return plain(self, windows)

    monkeypatch.setattr(BiasedJudge, "judge", watched)
    spec = {"name": "triage_gym.testing.biased_judge:BiasedJudge", "phrase": "2"}
    asked = Judging(corridor(judge=spec, second_judge=spec, judge_window=width).resolved())
    records = asked.label([record(12)], ())
    assert seen == [(min(k, width), min(11 - k, width)) for k in range(12)]
    first, seen[:] = set(seen), []
    asked.by_second(records, np.random.default_rng(0), ())
    assert seen
    assert set(seen) <= first


@pytest.mark.parametrize(
    "judge",
    [
        "rule",
        {"name": "rule", "domain": "generic"},
        {"name": "distorted", "of": {"name": "rule", "domain": "generic"}, "read_as": {"R": "N"}},
        {"name": "distorted", "of": "rule", "noise": 0.5},
    ],
)
def test_arms_with_other_judges_are_measured_alike(judge: Any) -> None:
    """The yardstick of a task-blind arm is not task-blind: its R per success stands beside that of the others."""
    found = posthoc_judge(small(judge=judge))
    assert found.identity == posthoc_judge(small()).identity  # type: ignore[attr-defined]
