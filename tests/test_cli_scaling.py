"""``triage-gym scaling``: small curves end to end, kept when they are finished, and a page that no text can break."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from triage_gym.cli.app import parse, run
from triage_gym.errors import InputError
from triage_gym.report.scaling import render

pytest.importorskip("torch")
SMALL = ["--turns", "300", "--tasks", "20", "--train-attempts", "1", "2", "--test-with", "2", "--attempts", "3"]


def scaling(directory: Path, *more: str) -> int:
    return run(["scaling", *SMALL, "--seeds", "0", "1", "--run-dir", str(directory), "--quiet", *more])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scaling") / "run"
    assert scaling(path) == 0
    return path


def test_curves_have_a_point_for_each_number_of_attempts(directory: Path) -> None:
    found = json.loads((directory / "scaling.json").read_text())
    assert found["runs"] == [f"{arm}-s{s}" for s in (0, 1) for arm in ("once-n1", "pivot-n2", "start-n2")]
    for way in ("pivot", "start"):
        test = found["test_time"][way]
        assert test["k"] == [1, 2, 3]
        means = [p["mean"] for p in test["points"]]
        assert means == sorted(means), "more attempts never solve less"
        for point in test["points"]:
            assert 0.0 <= point["low"] <= point["mean"] <= point["high"] <= 1.0
            assert point["mean"] == pytest.approx(sum(point["values"]) / 2)
        training = found["training_time"][way]
        assert training["pass@1"]["n"] == [1, 2]
        # Without retries no policy learns to reflect, so it cannot be asked to.
        assert training["pass@3"]["n"] == [2]
    once = [found["training_time"][way]["pass@1"]["points"][0] for way in ("pivot", "start")]
    assert once[0] == once[1], "one attempt is the same either way"


def test_the_place_can_be_compared_under_one_rule_and_rules_that_differ_alone_are_trained_apart() -> None:
    def arms(*credits: str) -> list[str]:
        return list(parse(["scaling", *SMALL, "--seeds", "0", "--credits", *credits])._arms())

    assert arms("grpo", "grpo") == ["once-n1-s0", "pivot-n2-s0", "start-n2-s0"]
    assert arms("pivoarl", "metarl") == arms("grpo", "grpo")
    assert arms("grpo", "gigpo") == ["pivot-n1-s0", "start-n1-s0", "pivot-n2-s0", "start-n2-s0"]


def test_what_is_finished_is_kept(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from triage_gym import trainers
    from triage_gym.trainers import evaluation, loop

    def nothing(*_: Any, **__: Any) -> None:
        raise AssertionError("nothing is left to do")

    before = (directory / "scaling.json").read_bytes()
    assert trainers.train is loop.train
    monkeypatch.setattr(loop, "train", nothing)
    monkeypatch.setattr(evaluation, "evaluate", nothing)
    assert scaling(directory) == 0
    assert (directory / "scaling.json").read_bytes() == before
    with pytest.raises(AssertionError, match="nothing is left"):
        scaling(directory, "--attempts", "4", "--debug")


def test_a_head_that_is_asked_through_a_judge_is_not_asked_where_nobody_learns_it(tmp_path: Path) -> None:
    spec = '{"name": "role", "checks": "policy", "judge": {"name": "rule", "domain": "generic"}}'
    assert scaling(tmp_path / "run", "--reflector", spec) == 0
    found = json.loads((tmp_path / "run" / "scaling.json").read_text())
    assert found["training_time"]["pivot"]["pass@3"]["n"] == [2]


@pytest.mark.parametrize("text", ['{"asked', "[]"])
def test_a_measurement_that_is_no_whole_file_is_made_again(directory: Path, text: str) -> None:
    before = (directory / "scaling.json").read_bytes()
    file = directory / "once-n1-s0" / "pass-pivot-1.json"
    kept = file.read_text()
    asked = json.loads(kept)["asked"]
    for broken in (text, json.dumps({"asked": asked}), json.dumps({"asked": asked, "solved": ["x"]})):
        file.write_text(broken)
        assert scaling(directory) == 0
        assert (directory / "scaling.json").read_bytes() == before
        assert file.read_text() == kept


def test_the_page_draws_both_ways_and_loads_nothing(directory: Path) -> None:
    page = (directory / "scaling.html").read_text()
    assert page.count('class="chart"') == 3
    assert page.count("from the pivot (pivoarl)") >= 3
    assert "default-src 'none'" in page
    assert "<script" not in page
    data = json.loads((directory / "scaling.json").read_text())
    evil = "<script>alert(1)</script>"
    assert evil not in render({**data, "env": evil, "reflector": evil})
    with pytest.raises(InputError, match=r"scaling\.json"):
        render({"env": "x"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--test-with", "5"], "--test-with to be one of"),
        (["--seeds", "1", "1"], "--seeds to be different"),
        (["--train-attempts", "1", "--test-with", "1"], "at least 2 for the reflector"),
        (["--attempts", "0"], "at least 1"),
        (["--env", "nothing"], "nothing"),
        (["--turns", "0"], "`turns`"),
        (["--credits", "pivoarl", "metarll"], "did you mean 'metarl'"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["scaling", "--run-dir", str(tmp_path / "new"), *arguments]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert said in err
    assert not (tmp_path / "new").exists()
