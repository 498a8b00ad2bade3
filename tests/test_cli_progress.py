"""What a running training shows: a live picture on a terminal, plain lines everywhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from triage_gym.cli import output, progress
from triage_gym.cli.progress import Progress, duration, line
from triage_gym.trainers.metrics import Watch
from triage_gym.trainers.progress import Update


def update(number: int, run: str = "triage-s0", total: int = 10_000, **metrics: Any) -> Update:
    row = {"success": 0.25, "length": 17.3, "role_D": 0.1, "role_E": 0.5, "role_N": 0.1, "role_R": 0.3} | metrics
    return Update(run, number, number * 1000, total, row, {"turns_per_cpu_s": 8700.0}, 75.0)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (7.4, "0:07"), (247, "4:07"), (3723, "1:02:03"), (-3, "0:00")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_line_says_success_length_roles_speed_and_time_to_go() -> None:
    text = line(update(3))
    assert text == (
        "triage-s0  update    3     3000/10000 turns  success  25 %  length 17.3  roles D 10 E 50 N 10 R 30  "
        " 8.7k turns/CPU-s  to go 1:15"
    )


def test_what_was_not_measured_is_a_dash_and_names_are_sanitised() -> None:
    text = line(update(1, run="a\x1b[31m", success=None, length=None, role_D=None))
    assert "success   – %" in text
    assert "length    –" in text
    assert "\x1b" not in text


def test_one_run_has_a_line_for_every_update(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(1) as show:
        for number in range(1, 11):
            show(update(number))
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 10
    assert "\x1b" not in err


def test_a_comparison_has_a_line_for_every_tenth_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(2) as show:
        for number in range(1, 101):
            for run in ("a", "b"):
                show(update(number, run=run, total=100_000))
    lines = capsys.readouterr().err.splitlines()
    assert [x for x in lines if x.startswith("a ")] != []
    assert sum(x.startswith("a ") for x in lines) == sum(x.startswith("b ") for x in lines) == 10
    assert "100000/100000" in lines[-1]


def test_quiet_keeps_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(1, quiet=True) as show:
        show(update(1))
        show(update(2, warnings=["no_outcome_variance", "exploration_share", "something new"]))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("warning: triage-s0, update 2: no group's outcomes differ in this batch")
    assert lines[2].endswith("something new")


@pytest.mark.parametrize("colour", [True, False])
def test_a_terminal_gets_a_live_picture(
    colour: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.console import Console

    monkeypatch.setenv("TERM", "xterm-256color")
    if colour:
        monkeypatch.delenv("NO_COLOR", raising=False)
    else:
        monkeypatch.setenv("NO_COLOR", "1")

    def console(*, stderr: bool = False) -> Console:
        return Console(stderr=stderr, force_terminal=True, width=160, markup=False, highlight=False)

    monkeypatch.setattr(output, "console", console)
    monkeypatch.setattr(progress, "console", console)
    with Progress(3) as show:
        show(update(5, run="a[/red]"))
        show(update(10, run="b"))
    err = capsys.readouterr().err
    assert "a[/red]" in err
    assert "1 of 3 runs done" in err
    assert "10000/10000 turns" in err
    assert ("\x1b[32m" in err) is colour


def test_a_warning_is_said_once(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    row = {"update": 1, "success": 0.0, "outcome_variance": 0.0, "role_E": 0.1, "role_unjudged": 0.0}
    with Progress(1, quiet=True) as show:
        show(update(1, warnings=Watch().look(row)))
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not caplog.records
    Watch().look(row)
    assert len(caplog.records) == 1


def test_time_that_goes_by_waiting_is_told_by_the_clock() -> None:
    told = update(2, role_fallback=0.5)
    timings = {"turns_per_cpu_s": 8700.0, "batch_turns": 500, "update_wall_s": 100.0, "judge_wall_s": 90.0,
               "judge_prompt_tokens": 5000.0, "judge_segments": 500.0, "judge_usd": 0.25}  # fmt: skip
    text = line(replace(told, timings=timings))
    assert "5.0 turns/s, 90 of 100 s for the judge" in text
    assert "CPU" not in text
    assert "fallback 50 %  10 prompt tokens/turn  judge $0.2500" in text
    assert "CPU" in line(replace(told, timings={**timings, "judge_wall_s": 20.0}))


def test_warnings_come_with_their_numbers() -> None:
    told = update(2, warnings=["judge_fallback", "second_judge_silent"], role_fallback=0.125, second_failed=1.0)
    first, second = progress.warnings(replace(told, timings={"second_judge_why": "failed: no\x1b route {x}"}))
    assert "failed on 12.5 % of the turns" in first
    assert "no label for 100 % of its sample (failed: no" in second
    assert "\x1b" not in second
