"""The fixtures for pytest, in a project of their own, and golden episodes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from triage_gym.errors import InputError
from triage_gym.testing.broken import Cellar
from triage_gym.testing.golden import check_golden, transcript
from triage_gym.testing.play import Answer, act, begin, episode

PROJECT = """
from triage_gym.testing.broken import Cellar

closed = []


class Closing(Cellar):
    def close(self):
        closed.append(self)


def test_probe(probe_env):
    assert probe_env.reset(seed=0)[1]["task"]


def test_play(play):
    assert [a.observation.partition(".")[0] for a in play(Closing(), ["wait", "sing"], seed=1)][1:] == ["Nothing happens"] * 2
    assert len(play(Closing(), seed=1, turns=1)) == 2
    assert not closed


def test_play_has_closed():
    assert len(closed) == 2


def test_golden(play, golden_episode):
    golden_episode("cellar", play(Cellar(), seed=4))
"""


def pytest_in(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_fixtures_work_in_another_project(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["triage_gym.testing.fixtures"]\n')
    (tmp_path / "test_it.py").write_text(PROJECT)
    first = pytest_in(tmp_path)
    assert "1 failed, 10 passed" in first
    assert "record it once" in first
    assert "11 passed" in pytest_in(tmp_path, "--record-episodes")
    assert "11 passed" in pytest_in(tmp_path)
    golden = tmp_path / "golden" / "cellar.jsonl"
    golden.write_text(golden.read_text().replace("Drips: ", "Drops: ", 1))
    changed = pytest_in(tmp_path)
    assert "1 failed, 10 passed" in changed
    assert "cellar.jsonl, answer 0: observation" in changed


def test_a_transcript_is_json() -> None:
    env = Cellar()
    lines = transcript([begin(env, seed=0), act(env, "wait")])
    assert lines == json.loads(json.dumps(lines))
    assert [line["action"] for line in lines] == [None, "wait"]
    assert lines[1]["info"]["invalid_action"] is False


@pytest.mark.parametrize("value", [np.zeros(2), float("nan"), {1, 2}])
def test_a_transcript_of_what_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="JSON"):
        transcript([Answer(None, "text", None, None, None, {"extra": value})])


def test_a_golden_episode_shows_every_change(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down.jsonl"
    answers = episode(Cellar(), 3)
    with pytest.raises(InputError, match="got none"):
        check_golden(path, answers)
    check_golden(path, answers, record=True)
    check_golden(path, episode(Cellar(), 3))
    with pytest.raises(AssertionError, match=f"has {len(answers) - 1} answers, had {len(answers)}"):
        check_golden(path, answers[:-1])
    for name, value in (("reward", 0.5), ("terminated", None), ("info", {})):
        changed = episode(Cellar(), 3)
        setattr(changed[-1], name, value)
        with pytest.raises(AssertionError, match=f"down.jsonl, answer {len(answers) - 1}: {name} "):
            check_golden(path, changed)
    path.write_text("{")
    with pytest.raises(InputError, match="lines of JSON"):
        check_golden(path, answers)


def test_odd_texts_stay_one_line_each(tmp_path: Path) -> None:
    answers = [Answer("a\u2028b", "c\x85d\n\r\u00e9\U0001f40d", 1.0, True, False, {})]
    check_golden(tmp_path / "odd.jsonl", answers, record=True)
    check_golden(tmp_path / "odd.jsonl", answers)
