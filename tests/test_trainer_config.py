"""The config of a run: what it refuses, its way through JSON, its hash."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields, replace
from typing import Any

import pytest

from triage_gym.errors import InputError
from triage_gym.trainers.config import FIVE_TYPES, TrainConfig


def test_round_trip_through_json_keeps_value_and_digest() -> None:
    config = TrainConfig(env_kwargs={"backend": "fast"}, eval_at=(100, 200), lam=0.4, task_types=FIVE_TYPES[:2])
    back = TrainConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert back == config
    assert back.digest() == config.digest()
    assert config.changed(back) == []


def test_digest_and_changed_tell_configs_apart() -> None:
    config = TrainConfig()
    other = replace(config, lr=2e-3, seed=1)
    assert config.digest() != other.digest()
    assert config.changed(other) == ["seed", "lr"]
    assert len({replace(config, seed=s).digest() for s in range(20)}) == 20


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("turns", 0),
        ("turns", 1.5),
        ("turns", True),
        ("seed", -1),
        ("group_size", 1),
        ("lr", 0.0),
        ("lr", float("nan")),
        ("lr", "1e-3"),
        ("clip", float("inf")),
        ("lam", -0.1),
        ("demo_noise", 1.5),
        ("policy", "transformer"),
        ("credit", ""),
        ("env_kwargs", {"games": object()}),
        ("env_kwargs", {1: 2}),
        ("credit_kwargs", {"lam": float("nan")}),
        ("eval_at", (-1,)),
        ("eval_at", "25000"),
        ("task_types", ()),
        ("task_types", "pick_and_place_simple"),
        ("tasks", 7),
        ("tensorboard", "yes"),
        ("verify", 3),
        ("verify", ""),
        ("verify", ["oracle"]),
        ("verify", {"k": 3}),
        ("keep", 0),
    ],
)
def test_bad_values_are_refused_with_the_field_named(field: str, value: Any) -> None:
    with pytest.raises(InputError, match=rf"Expected.*`{field}`"):
        TrainConfig(**{field: value})


def test_demonstrations_are_asked_for_outside_of_alfworld() -> None:
    assert TrainConfig(env="some_module:Env").resolved().demos == 0
    assert TrainConfig(env="sokoban").resolved().demos == 0
    assert TrainConfig(env="sokoban", demos=30).resolved().demos == 30


def test_resolved_says_what_none_stands_for() -> None:
    config = TrainConfig().resolved()
    assert (config.split, config.eval_split, config.task_types, config.demos) == (
        "train",
        "valid_unseen",
        FIVE_TYPES,
        30,
    )
    assert config.resolved() == config
    assert TrainConfig(demos=0, split="valid_seen").resolved().demos == 0


@pytest.mark.parametrize("data", [None, [], {"turnz": 3}, {"turns": "many"}])
def test_json_that_is_no_config_is_refused(data: Any) -> None:
    with pytest.raises(InputError):
        TrainConfig.from_json(data)


def test_every_field_has_a_line_of_documentation() -> None:
    import inspect

    source = inspect.getsource(TrainConfig)
    for f in fields(TrainConfig):
        after = source.split(f"\n    {f.name}: ", 1)[1].split("\n", 1)[1]
        assert after.lstrip().startswith('"""'), f.name


def test_config_and_reading_results_need_no_torch() -> None:
    code = (
        "import sys; import triage_gym.trainers, triage_gym.trainers.config, triage_gym.trainers.comparison, "
        "triage_gym.trainers.progress, triage_gym.trainers.run_dir, triage_gym.trainers.experiment; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["alfworld", "triage/ALFWorld-v0", "triage_gym:triage/ALFWorld-v0"])
def test_alfworld_has_three_names(name: str) -> None:
    assert TrainConfig(env=name).is_alfworld


@pytest.mark.parametrize("name", ["sokoban", "minesweeper", "webshop", "searchqa", "textworld"])
def test_built_in_environments_are_evaluated_on_what_they_never_trained_on(name: str) -> None:
    config = TrainConfig(env=name).resolved()
    assert (config.split, config.eval_split) == ("train", "test")
    assert TrainConfig(env=name, eval_split="val").resolved().eval_split == "val"
    assert TrainConfig(env="some_module:Env").resolved().eval_split is None
