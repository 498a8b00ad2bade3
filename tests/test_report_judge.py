"""The report's section on the judge: what had no role, what it cost, and when an alarm began."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from test_report_load import CONFIG, write_run

from triage_gym.report.judging import judge_name
from triage_gym.report.load import load_report
from triage_gym.report.page import render
from triage_gym.report.text import summary

LLM = {"name": "cache", "of": {"name": "llm", "model": "a<b"}, "path": "x"}


def judged(path: Path, judge: Any = LLM, **metrics: Any) -> Path:
    """A run whose judge cost something, with an alarm in its third update."""
    write_run(path, **metrics)
    (path / "config.json").write_text(json.dumps(CONFIG | {"judge": judge}))
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    rows[2]["warnings"] = ["rule_disagreement", "exploration_share"]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    costs = [{"update": i, "turns": 500 * i, "judge_calls": 100, "judge_usd": 0.125} for i in range(1, 9)]
    (path / "timings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in costs))
    return path


def test_the_section_tells_shares_costs_and_alarms(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", role_failed=0.05, role_unsure=0.0, judge_confidence=0.9, rule_agreement=0.75)
    report = load_report(run, 0)
    (line,) = report.judges
    assert line.judge == "cache of llm (a<b)"
    assert dict(line.costs) == {"calls": 800.0, "usd": 1.0}
    assert [(a.name, a.seed, a.update, a.turns) for a in line.alarms] == [("rule_disagreement", 4, 3, 1500)]
    page = render(report)
    assert ">Judge</h2>" in page
    assert "cache of llm (a&lt;b)" in page
    assert "moved away from what the rule judge says" in page
    text = summary(report)
    for told in ("1.0000", "75.0", "90.0", "5.0", "seed 4 at turn 1,500"):
        assert told in page
        assert told in text
    assert text.count("moved away from what the rule judge says") == 1
    assert len(report.notices) == 1  # what is no alarm about the judge stays where it was


def test_a_rule_judge_that_never_alarmed_has_no_section(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    report = load_report(tmp_path / "run", 0)
    assert report.judges == ()
    assert ">Judge</h2>" not in render(report)


def test_a_run_of_before_these_numbers_is_read(tmp_path: Path) -> None:
    write_run(tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text(json.dumps(CONFIG | {"judge": "some.where:Mine"}))
    report = load_report(tmp_path / "run", 0)
    assert "No alarm about the judge." in render(report)
    assert dict(report.judges[0].shares)["role_failed"] is None
    assert "Mine" in summary(report)


def test_judges_are_named_with_what_is_in_them() -> None:
    assert judge_name("rule") == "rule"
    assert (
        judge_name({"name": "ensemble", "of": ["rule", {"name": "llm", "model": "m"}]}) == "ensemble of rule, llm (m)"
    )
    assert judge_name({"name": "a.b:Mine", "path": 3}) == "a.b:Mine"


def rows(text: str) -> dict[str, str]:
    """Measures of a single run's table in the terminal, by title."""
    found = {}
    for line in text.splitlines():
        title, space, value = line.rpartition("  ")
        if space:
            found[title.strip()] = value.strip()
    return found


def test_stand_ins_and_a_silent_second_judge_are_told(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", role_failed=0.0, role_unsure=0.0, role_fallback=0.25, second_failed=1.0)
    found = rows(summary(load_report(run, 0)))
    assert found["fallback, %"] == "25.0"
    assert found["second judge without a label, %"] == "100.0"
    assert "withheld, %" not in found  # nothing was
    assert found["failed, %"] == "0.0"


def test_what_is_not_known_is_a_dash(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", judge_confidence=1.0)
    costs = [{"update": i, "judge_calls": 3, "judge_usd": 0.0, "judge_prompt_tokens": 900, "judge_cached": 0,
              "judge_segments": 4} for i in range(1, 9)]  # fmt: skip
    (run / "timings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in costs))
    found = rows(summary(load_report(run, 0)))
    assert found["mean confidence, %"] == found["USD"] == "–"
    assert found["prompt tokens a turn judged"] == "225"
    assert "cached" not in found


def test_a_run_of_two_updates_is_too_short_to_tell(tmp_path: Path) -> None:
    run = judged(tmp_path / "run")
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:2]))
    for told in (render(load_report(run, 0)), summary(load_report(run, 0))):
        assert "Too short to tell whether the judge drifts: that takes 8 updates" in told
        assert "No alarm" not in told


def test_alarms_say_what_to_do(tmp_path: Path) -> None:
    assert "triage-gym judge audit" in summary(load_report(judged(tmp_path / "run"), 0))
