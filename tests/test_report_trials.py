"""A trial on the page: its attempts in order, what a retry kept, named and restored, and no text that becomes a tag."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from trial_records import first, retry

from triage_gym.records import EpisodeRecord
from triage_gym.report.arms import describe
from triage_gym.report.episodes import trial_numbers
from triage_gym.report.model import Episode, Report
from triage_gym.report.page import render

EVIL = "</script><img src=x onerror=alert(1)>"
ROOT = first("abcd", trial="g/0")
FAILED_TEXT = '{"remark": "…", "pivot": 2}'
FAILED = retry(ROOT, 2, "xy", pivot=2, oracle=3, text=FAILED_TEXT)
SOLVED = retry(FAILED, 1, "z", pivot=9, problem="not_json", success=True)


def page(*records: EpisodeRecord) -> str:
    episodes = tuple(Episode("triage", 0, r, update=1) for r in records)
    return render(Report("A run", (), (describe("triage"),), None, (), episodes=episodes, episodes_total=len(episodes)))


def data(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(re.findall('<script id="data"[^>]*>(.*?)</script>', text, re.DOTALL)[0])
    return found


def test_a_retry_travels_with_everything_it_began_with() -> None:
    shown = data(page(ROOT, FAILED, SOLVED))
    plain, failed, solved = shown["episodes"]
    assert (plain["h"], plain["n"]) == (None, 0)
    assert (failed["n"], failed["p"]) == (1, 2)
    assert failed["h"] == [0, "native", "verified", "mind the gap", 2, "role", FAILED_TEXT, "", 3]
    assert solved["h"][0] == 1
    assert solved["h"][7:] == ["not_json", -1]
    assert shown["trials"] == [0, 0, 0]


def test_a_retry_without_a_reflection_says_so() -> None:
    (shown,) = data(page(replace(FAILED, reflection=None)))["episodes"]
    assert shown["h"] == [0, "native", "verified", "", -1, "", "", "", 3]


def test_attempts_are_of_one_trial_only_within_an_arm_a_seed_and_an_update() -> None:
    other = replace(ROOT, trial="g/1")
    nameless = replace(ROOT, trial="")
    episodes = [Episode("triage", 0, r, update=1) for r in (ROOT, FAILED, other, nameless, nameless)]
    assert trial_numbers(episodes) == [0, 0, 1, -1, -1]
    elsewhere = [replace(episodes[0], arm="grpo"), replace(episodes[0], seed=1), replace(episodes[0], update=2)]
    assert trial_numbers([episodes[0], *elsewhere]) == [0, 1, 2, 3]


@pytest.mark.parametrize("evil", [EVIL, "\x1b]0;x\x07", "\u202e"])
def test_no_remark_becomes_a_tag(evil: str) -> None:
    assert FAILED.reflection is not None
    said = replace(FAILED.reflection, remark=evil, text=evil, source=evil, problem=evil)
    shown = page(ROOT, replace(FAILED, reflection=said))
    assert evil not in shown
    assert "<img src=x" not in shown
    assert data(shown)["episodes"][1]["h"][3] == data(shown)["episodes"][1]["h"][6]


def test_retries_can_be_filtered() -> None:
    shown = page(ROOT, FAILED)
    assert '<option value="T">retries</option>' in shown
    assert '<option value="TS">retries that solved it</option>' in shown
