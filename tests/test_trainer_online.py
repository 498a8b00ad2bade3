"""Training with pairs: every turn once, equal turns, resume, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from trainer_runs import contents

from triage_gym.errors import CheckpointError, InputError
from triage_gym.trainers import TrainConfig
from triage_gym.trainers.loop import train
from triage_gym.trainers.online import chosen
from triage_gym.trainers.policies import make_policy
from triage_gym.trainers.progress import Update
from triage_gym.trainers.rollout import Rollouts
from triage_gym.trainers.signals import Interrupted


def small(**changes: Any) -> TrainConfig:
    plain: dict[str, Any] = {
        "env": "minesweeper",
        "limit": 7,
        "turns": 600,
        "groups_per_update": 2,
        "group_size": 4,
        "tasks": 20,
        "width": 16,
        "eval_tasks": 6,
        "eval_at": (),
        "checkpoint_every": 3,
        "credit": "triage-online",
    }
    return TrainConfig(**{**plain, **changes})


def test_every_generated_turn_is_trained_once_and_successes_are_gone_back_into() -> None:
    config = small(credit_kwargs={"share": 1.0}).resolved()
    rollouts = Rollouts(config, make_policy(config))
    successes = 0
    for update in range(6):
        batch = rollouts.collect([0, 1], update, np.random.default_rng(update))
        new = [len(r) - r.prefix_length for r in batch.records]
        assert len(batch.steps) == sum(new) == batch.turns
        retries = [r for r in batch.records if r.attempt == 1]
        firsts = {(r.group_id, r.trial): r for r in batch.records if r.attempt == 0}
        assert (len(firsts), len(retries)) == (8, 8)
        for r in retries:
            first = firsts[r.group_id, r.trial]
            assert r.prefix_length == r.pivot
            assert r.segments[: r.pivot] == first.segments[: r.pivot]
            assert r.restore_status == "verified"
            assert all(label.role is not None for label in r.labels[r.prefix_length :])
            successes += first.success
        assert all(label.role is not None for r in firsts.values() for label in r.labels)
    rollouts.close()
    assert successes > 0


def test_a_share_of_attempts_is_paired() -> None:
    class Labelled:
        roles = ("E", None, "D")

    records: Any = dict.fromkeys(range(10), Labelled())
    rng = np.random.default_rng(0)
    counts = [len(chosen(records, 0.25, rng)) for _ in range(400)]
    assert set(counts) == {2, 3}
    assert np.mean(counts) == pytest.approx(2.5, abs=0.15)
    assert chosen(records, 0.0, np.random.default_rng(1)) == {}
    assert len(chosen(records, 1.0, rng)) == 10
    assert set(chosen(records, 1.0, rng).values()) <= {0, 2}


def test_a_run_tells_its_constants_and_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    train(small(), tmp_path / "straight")
    rows = [json.loads(line) for line in (tmp_path / "straight" / "metrics.jsonl").read_text().splitlines()]
    assert rows[0]["online_lam"] is not None
    assert sum(rows[-1][f"online_pairs_{role}"] for role in "DENR") > 4
    assert any(row["online_error_E"] is not None for row in rows)

    def stop(update: Update) -> None:
        if update.update == 5:
            raise Interrupted(15)

    with pytest.raises(Interrupted):
        train(small(), tmp_path / "run", progress=stop)
    train(small(), tmp_path / "run", resume=True)
    assert contents(tmp_path / "run") == contents(tmp_path / "straight")


def test_the_checkpoint_must_know_the_worths(tmp_path: Path) -> None:
    train(small(turns=100, credit="triage"), tmp_path / "run")
    with pytest.raises(CheckpointError, match="worths of roles"):
        train(small(turns=200), tmp_path / "run", resume=True, allow=("turns", "credit"))


def test_retries_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="triage-online, which makes retries of its own"):
        train(small(attempts=3), tmp_path / "run")
