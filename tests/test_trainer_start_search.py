"""The smallest number of demonstrations that brings a start into a range of success."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from triage_gym.cli.app import run
from triage_gym.errors import InputError
from triage_gym.statistics import wilson
from triage_gym.trainers import start_search
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.pretraining import make_start, pretrain
from triage_gym.trainers.start_search import LADDER, Tried, find_start
from triage_gym.trainers.tasks import EVAL_SEED

SOKOBAN = TrainConfig(env="sokoban", limit=7, tasks=40, width=16, credit="grpo")


@pytest.fixture
def success(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], float]], list[Any]]:
    """Replaces cloning and playing by a success that is a function of the number of demonstrations."""

    def replace(rate: Callable[[int], float]) -> list[Any]:
        asked: list[Any] = []

        class Played:
            def __init__(self, config: TrainConfig, judge: None, *, first_seed: int) -> None:
                assert config.tasks <= first_seed <= EVAL_SEED - config.eval_tasks
                asked.append((config.split, config.eval_split, config.eval_tasks))

            def run(self, policy: int) -> Any:
                tasks = tuple(SimpleNamespace(success=n < round(100 * rate(policy))) for n in range(100))
                return SimpleNamespace(tasks=tasks, success=rate(policy))

            def close(self) -> None:
                asked.append("closed")

        monkeypatch.setattr(start_search, "make_start", lambda config: (config.demos, {"demos": config.demos}))
        monkeypatch.setattr(start_search, "Evaluator", Played)
        return asked

    return replace


def test_it_climbs_until_success_is_in_the_range(success: Any) -> None:
    asked = success(lambda demos: demos / 100)
    found = find_start(SOKOBAN, (0.05, 0.15))
    assert [row.demos for row in found.tried] == [0, 1, 2, 3, 4, 6]
    assert found.config.demos == found.facts["demos"] == 6
    assert asked == [("train", "val", 300), "closed"]
    assert found.facts["target"]["range"] == [0.05, 0.15]
    assert found.facts["target"]["tried"][-1] == Tried(6, 6, 100).to_json()
    assert Tried(6, 6, 100).rate == wilson(6, 100)


def test_it_halves_where_success_jumps_across(success: Any) -> None:
    success(lambda demos: 0.0 if demos < 24 else 0.1 if demos < 26 else 0.5)
    found = find_start(SOKOBAN)
    assert [row.demos for row in found.tried] == [*LADDER[: LADDER.index(30) + 1][:-1], 25, 30]
    assert found.config.demos == 25


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        (lambda demos: 0.2, "0: 20.0 %; a random start is above already"),
        (lambda demos: 0.01, "240: 1.0 %; it stays below: take less `demo_noise`"),
        (lambda demos: 0.0 if demos < 13 else 0.9, "12: 0.0 %, 13: 90.0 %, 15: 90.0 %; it jumps across"),
    ],
)
def test_what_cannot_be_reached_is_said(success: Any, rate: Any, message: str) -> None:
    asked = success(rate)
    with pytest.raises(InputError, match="Expected a start with 5 to 15 % success in sokoban") as error:
        find_start(SOKOBAN)
    assert message in str(error.value)
    assert asked[-1] == "closed"


@pytest.mark.parametrize("target", [(0.2, 0.1), (0.1, 0.1), (-0.1, 0.1), (0.5, 1.5), (float("nan"), 0.5)])
def test_a_range_that_is_none_is_refused(target: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="two shares of success"):
        find_start(SOKOBAN, target)


def test_a_random_start_in_the_range_needs_no_demonstrations(success: Any) -> None:
    success(lambda demos: 0.1)
    assert find_start(SOKOBAN).config.demos == 0


def test_an_environment_without_splits_is_measured_on_seeds_that_are_never_tested_on() -> None:
    config = TrainConfig(env="triage_gym.testing.probes:EndlessReading", limit=8, tasks=20, width=8, credit="grpo")
    evaluator = start_search.Evaluator(config.resolved(), None, first_seed=start_search.FAR)
    seeds = {evaluator._start(n)[0] for n in range(config.eval_tasks)}
    evaluator.close()
    assert seeds.isdisjoint(range(EVAL_SEED, EVAL_SEED + 10_000))
    assert seeds.isdisjoint(range(config.tasks))


def test_the_start_is_the_one_of_that_number_and_is_found_again(tmp_path: Path) -> None:
    pretrain(SOKOBAN, tmp_path / "one", target=(0.1, 0.6), tasks=60)
    facts = json.loads((tmp_path / "one" / "pretrain.json").read_text())
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    assert config["demos"] == facts["demos"] >= 1
    assert facts["expert_knows"] == "what it was shown"
    assert facts["target"]["split"] == "val"
    again = find_start(SOKOBAN, (0.1, 0.6), 60)
    assert again.facts == facts
    plain = make_start(TrainConfig.from_json(config).resolved())[1]
    assert plain["weights_sha256"] == facts["weights_sha256"]


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "pretrain",
        "--env",
        "sokoban",
        "--limit",
        "7",
        "--tasks",
        "40",
        "--width",
        "16",
        "--run-dir",
        str(tmp_path / "a"),
    ]
    assert run([*words, "--target", "0.1", "0.6", "--target-tasks", "60"]) == 0
    out = capsys.readouterr().out
    assert "success on 60 tasks of val, seed 0" in out
    found = json.loads((tmp_path / "a" / "pretrain.json").read_text())
    assert re.search(rf"^→ +{found['demos']}  ", out, re.MULTILINE)
    assert re.search(
        r"^10 to 60 %: [1-9]\d* demonstrations?, by an expert that knows what it was shown$", out, re.MULTILINE
    )
    assert run([*words[:-1], str(tmp_path / "b"), "--target", "0.05", "0.1", "--demos", "3"]) == 1
    assert "leave out --demos 3" in capsys.readouterr().err
    assert run([*words[:-1], str(tmp_path / "c"), "--target", "0.001", "0.01", "--target-tasks", "20"]) == 1
    assert "Expected a start" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()
    assert run([*words[:-1], str(tmp_path / "d"), "--target", "0.1", "0.2", "--target-tasks", "0"]) == 1
