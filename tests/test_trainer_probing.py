"""What a run needs is looked for before anything is written, and the message names what is missing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest
from envs_for_tests import Corridor, StatelessCorridor

torch = pytest.importorskip("torch")
needs.require("alfworld")

from trainer_runs import small

from triage_gym.errors import InputError
from triage_gym.records import EpisodeRecord, Segment
from triage_gym.trainers.advantages import checked
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.experiment import compare
from triage_gym.trainers.loop import train
from triage_gym.trainers.probing import probe


class Mute(StatelessCorridor):
    """Says nothing of what can be done."""

    def reset(self, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        return super().reset(**kwargs)[0], {"task": "walk"}


class Stuck(StatelessCorridor):
    """Has nothing to do."""

    def reset(self, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        return super().reset(**kwargs)[0], {"admissible_commands": []}


class Numeric(StatelessCorridor):
    """Shows a number."""

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        return 3, super().reset(**kwargs)[1]


class Broken(StatelessCorridor):
    """Has a fault."""

    def reset(self, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        raise KeyError("rooms")


def ones(records: Any) -> list[Any]:
    """A credit rule that says 1 to everything but the first record."""
    return [np.ones(len(r)) for r in records][1:]


def config(env: str, **changes: Any) -> TrainConfig:
    return small(env=env, judge="envs_for_tests:LeftIsRegression", demos=0, **changes)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("test_trainer_probing:Mute", r"admissible_commands.*Mute's reset, got the keys \['task'\]"),
        ("test_trainer_probing:Stuck", r"not empty.*got \[\] there"),
        ("test_trainer_probing:Numeric", "observation of text .* got int"),
        ("test_trainer_probing:Broken", "got KeyError: 'rooms'; the fault is the environment's"),
        ("CartPole-v1", "CartPole-v1's reset, got the keys"),
        ("gymnasium:CartPole-v1", "CartPole-v1's reset, got the keys"),
        ("CartPol-v1", "registered environment, got 'CartPol-v1'.*Gymnasium id"),
        ("nowhere:CartPole-v1", "registered environment, got 'nowhere:CartPole-v1'"),
        ("CartPole", "Expected one of"),
    ],
)
def test_an_environment_that_cannot_be_trained_on_is_named_and_nothing_is_written(
    env: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    with pytest.raises(InputError, match=said):
        train(config(env), path)
    with pytest.raises(InputError, match=said):
        compare(config(env), ["grpo"], [0], path)
    assert not path.exists()


@pytest.mark.parametrize("env", ["envs_for_tests:StatelessCorridor", "CartPole-v1"])
def test_arguments_that_a_constructor_refuses_are_named(env: str) -> None:
    with pytest.raises(InputError, match="'doors'"):
        probe(config(env, env_kwargs={"doors": 3}))


def test_the_splits_of_training_and_evaluation_are_both_built() -> None:
    probe(small().resolved())
    for changes in ({"split": "test"}, {"eval_split": "test"}):
        with pytest.raises(InputError, match="split"):
            probe(dataclasses.replace(small(), **changes).resolved())  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["nonsense", "meta", "cuda:99"])
def test_a_device_that_is_not_there_is_refused(device: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"`device` .* got '{device}'.*use cpu"):
        train(small(device=device), tmp_path / "run")
    assert not (tmp_path / "run").exists()


RECORDS = [EpisodeRecord("g", segments=tuple(Segment(i, "o", "a", "o") for i in range(n))) for n in (2, 3)]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([np.zeros(2)], "Expected 2 arrays of advantages from the credit rule 'mine', one a record, got 1"),
        (None, "got NoneType"),
        ([np.zeros(2), np.zeros(2)], r"Expected 3 advantages .* record 1 .* got the shape \(2,\)"),
        ([np.zeros(2), 0.0], r"got the shape \(\)"),
        ([np.zeros(2), [0.0, float("nan"), 1.0]], "finite advantages .* record 1 .*nan"),
        ([np.zeros(2), [0.0, 1e300, 1.0]], "finite advantages"),
        ([np.zeros(2), ["a", "b", "c"]], "array of numbers"),
    ],
)
def test_a_credit_rule_with_another_answer_is_named(answer: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        checked("mine", answer, RECORDS)


def test_an_answer_of_the_right_form_stays_as_it_is() -> None:
    given = [np.array([0.5, -1.0]), np.array([1.0, 2.0, 3.0])]
    assert all(a is b for a, b in zip(checked("mine", given, RECORDS), given, strict=True))


def test_a_run_ends_with_the_rule_that_was_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one a record, got 7"):
        train(config("envs_for_tests:StatelessCorridor", credit="test_trainer_probing:ones"), tmp_path / "run")


class NoExpert(Corridor):
    """Knows no way to its exit."""

    expert_distance = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"reflector": "oracle"}, "neither expert_distance"),
        ({"verify": "oracle"}, "neither expert_distance"),
        ({"verify": "rollouts"}, "expert_action"),
        ({"verify": {"name": "rollouts", "player": "nobody"}}, "nobody"),
        ({"reflector": "llm"}, "the name of a model for the reflector llm"),
        ({"reflector": {"name": "role", "judge": "module_that_is_not:there"}}, "No module named"),
        ({"retry_from": "start", "verify": "oracle"}, "no `verify`"),
    ],
)
@pytest.mark.parametrize("attempts", [{"attempts": 3}, {"attempts": 1, "eval_attempts": 2}])
def test_retries_that_cannot_be_made_are_refused_before_anything_is_written(
    changes: dict[str, Any], complaint: str, attempts: dict[str, int], tmp_path: Path
) -> None:
    plain: dict[str, Any] = {"env": "test_trainer_probing:NoExpert", "judge": "envs_for_tests:LeftIsRegression"}
    config = small(**{**plain, "demos": 0, "reflector": "random", "kl": 0.0, **attempts, **changes})
    with pytest.raises(InputError, match=complaint):
        train(config, tmp_path / "run")
    assert not list(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=complaint):
        compare(dataclasses.replace(config, credit="grpo"), ["grpo"], [0], tmp_path / "arms", baseline="grpo")
    assert not list(tmp_path.rglob("*"))
