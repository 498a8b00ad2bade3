"""examples/pivot_retry.py does what it says: retries under a plain loop, and under stable-baselines3's vector."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triage_gym.records import EpisodeRecord


@pytest.fixture(scope="module")
def example() -> Any:
    path = Path(__file__).parent.parent / "examples" / "pivot_retry.py"
    spec = importlib.util.spec_from_file_location("example_pivot_retry", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(records: list[EpisodeRecord], example: Any) -> None:
    """Retries keep what was right, begin at the first wrong turn, and are of one trial."""
    by_trial: dict[str, list[EpisodeRecord]] = {}
    for record in records:
        by_trial.setdefault(f"{record.task_id}{record.trial}", []).append(record)
    retries = 0
    for trial in by_trial.values():
        assert [r.attempt for r in trial] == list(range(len(trial)))
        for before, record in pairwise(trial):
            assert not before.success
            assert record.pivot == record.prefix_length == example.first_mud(before)
            assert record.segments[: record.pivot] == before.segments[: record.pivot]
            assert record.start_observation == before.start_observation
            assert (record.restore_status, record.error) == ("verified", None)
            retries += 1
    assert retries > len(by_trial) / 2


def test_a_plain_loop_retries(example: Any) -> None:
    records = example.plain_loop(60)
    check(records, example)
    assert sum(r.success for r in records) > sum(r.success for r in records if r.attempt == 0)
    assert (records[2].prefix_length, records[2].restore_strategy, records[2].restore_status) == (2, "copy", "verified")


def test_each_member_of_stable_baselines3_s_vector_retries(example: Any) -> None:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.vec_env import DummyVecEnv

    vector = DummyVecEnv([example.stack] * 3)
    vector.seed(5)
    vector.reset()
    rng = np.random.default_rng(0)
    members: list[list[EpisodeRecord]] = [[] for _ in range(3)]
    for _ in range(200):
        _, _, dones, infos = vector.step(rng.integers(2, size=3))
        for member in np.flatnonzero(dones):
            members[member].append(infos[member]["episode_record"])
            begun = vector.reset_infos[member]
            assert (begun["attempt"] > 0) == (not members[member][-1].success and members[member][-1].attempt < 2)
            assert begun["reflection_source"] == ("callable" if begun["attempt"] else "")
    for records in members:
        check(records, example)


def test_ppo_meets_retries_while_it_learns(example: Any) -> None:
    pytest.importorskip("stable_baselines3")
    records = example.under_sb3(512)
    retries = [r for r in records if r.attempt]
    assert len(retries) > 20
    assert {r.restore_status for r in retries} == {"verified"}
    assert any(r.prefix_length for r in retries)
