"""Playing groups: one stack for all, finished episodes cost nothing, broken ones are left out, any text env works."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from envs_for_tests import CrashingCorridor, LeftIsRegression, UnseededCorridor

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from trainer_runs import evaluations, small

from triage_gym import registry
from triage_gym.errors import GroupError, InputError, TrainingError
from triage_gym.records import EpisodeRecord, RoleLabel, Segment
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.evaluation import evaluate
from triage_gym.trainers.loop import train
from triage_gym.trainers.metrics import Watch, batch_metrics
from triage_gym.trainers.playing import play
from triage_gym.trainers.policies import make_policy
from triage_gym.trainers.policy.hashed_features import HashedFeatures
from triage_gym.trainers.randomness import TaskOrder, capture, restore, stream
from triage_gym.trainers.rollout import Rollouts
from triage_gym.trainers.run_dir import read_lines
from triage_gym.trainers.tasks import stack
from triage_gym.wrappers import TextVectorEnv


def corridor(env: str = "Corridor", **changes: Any) -> TrainConfig:
    plain: dict[str, Any] = {"env": f"envs_for_tests:{env}", "judge": "envs_for_tests:LeftIsRegression", "demos": 0}
    return small(**{**plain, "limit": 12, "kl": 0.0, **changes}).resolved()


def rollouts(config: TrainConfig) -> Rollouts:
    return Rollouts(config, make_policy(config))


def test_a_batch_joins_decisions_and_records_turn_by_turn() -> None:
    config = corridor()
    made = rollouts(config)
    batch = made.collect([0, 3], 7, np.random.default_rng(0))
    assert [r.group_id for r in batch.records] == ["7:0"] * 4 + ["7:3"] * 4
    assert len({r.start_observation for r in batch.records}) == 2
    assert batch.turns == len(batch.steps) == sum(len(r) for r in batch.records)
    assert (batch.episodes, batch.excluded) == (8, 0)
    commands = [s.action for r in batch.records for s in r.segments]
    menu = ["go left", "go right", "look", "wait"]
    assert [menu[i] for i in batch.steps.choices.tolist()] == commands
    assert all(label.role == {"go left": "R", "go right": "D", "look": "E", "wait": "N"}[command]
               for r in batch.records for label, command in zip(r.labels, [s.action for s in r.segments], strict=True))  # fmt: skip
    made.close()


def test_the_state_of_each_row_is_that_of_its_own_episode() -> None:
    """Rows are reordered from moments to episodes: acting again along each record must give the same numbers."""
    config = corridor()
    made = rollouts(config)
    batch = made.collect([1, 2], 1, np.random.default_rng(0))
    policy = make_policy(config)
    row = 0
    for record in batch.records:
        memory = policy.begin(record.task, record.start_observation)
        for segment in record.segments:
            raw = policy.act([memory], [["go left", "go right", "look", "wait"]], None, forced=[segment.action]).raw
            words = [w for w in batch.steps.words[row].tolist() if w < HashedFeatures.states]
            assert raw.words[0].tolist() == words
            torch.testing.assert_close(raw.log_probs[0], batch.steps.old_log_probs[row], rtol=0, atol=1e-5)
            memory.observe(segment.action, segment.next_observation)
            row += 1
    made.close()


class Counting(CrashingCorridor):
    """Counts its steps, all members together."""

    steps_taken = 0

    def step(self, action: str) -> Any:
        Counting.steps_taken += 1
        return super().step(action)


def test_finished_episodes_cost_nothing() -> None:
    registry.register("envs", "counting", Counting)
    config = dataclasses.replace(corridor(), env="counting", env_kwargs={"crash_at": 99})
    made = rollouts(config)
    Counting.steps_taken = 0
    batch = made.collect([0, 1], 1, np.random.default_rng(0))
    assert Counting.steps_taken == batch.turns
    assert len({len(r) for r in batch.records}) > 1
    made.close()


def test_broken_episodes_are_left_out_and_move_no_sibling(caplog: pytest.LogCaptureFixture) -> None:
    config = corridor("CrashingCorridor", env_kwargs={"crash_at": 4})
    made = rollouts(config)
    with caplog.at_level(logging.ERROR):
        batch = made.collect([0, 1], 1, np.random.default_rng(2))
    assert batch.excluded > 0
    assert batch.records
    assert all(len(r) < 4 for r in batch.records)
    assert len(batch.steps) == sum(len(r) for r in batch.records) < batch.turns
    made.close()


def test_a_batch_without_a_sound_episode_ends_the_run() -> None:
    made = rollouts(corridor("CrashingCorridor", env_kwargs={"crash_at": 1}))
    with pytest.raises(TrainingError, match="the corridor collapsed"):
        made.collect([0, 1], 1, np.random.default_rng(0))
    made.close()


def test_an_environment_that_ignores_its_seed_is_refused() -> None:
    assert UnseededCorridor
    made = rollouts(corridor("UnseededCorridor"))
    with pytest.raises(GroupError, match="ignores its seed"):
        made.collect([0, 1], 1, np.random.default_rng(0))
    made.close()


def test_greedy_play_needs_no_random_numbers_and_repeats() -> None:
    config = corridor()
    policy = make_policy(config)
    with TextVectorEnv(stack(config, None), 3) as vector:
        first, second = (play(policy, vector, [(s, {}) for s in (5, 6, 7)], None, keep=False) for _ in range(2))
    assert [r and [s.action for s in r.segments] for r in first.records] == [
        r and [s.action for s in r.segments] for r in second.records
    ]
    assert first.steps == []
    assert all(r is not None and r.labels == () for r in first.records)  # no judge was there


def test_another_text_environment_trains_end_to_end(tmp_path: Path) -> None:
    """Hashed words, tasks by seed, outcomes from the info: the corridor is learnt from nothing."""
    config = corridor(turns=6000, groups_per_update=4, group_size=8, tasks=40, eval_tasks=30, eval_at=(), lr=3e-3)
    result = train(config, tmp_path / "run")
    start = evaluations(tmp_path / "run")[0]["success"]
    assert result.success > start + 0.3
    assert result.tasks[0].task.startswith("corridor-")
    again = evaluate(tmp_path / "run", tasks=10, judge="envs_for_tests:LeftIsRegression", keep_records=True)
    assert len(again.tasks) == len(again.records) == 10
    assert all(t.r_posthoc is not None for t in again.tasks)
    assert all(row["role_unjudged"] == 0 for row in read_lines(tmp_path / "run" / "metrics.jsonl"))


def record(roles: str, group: str = "a", success: bool = False) -> EpisodeRecord:
    segments = tuple(Segment(i, "o", "a", "o") for i in range(len(roles)))
    labels = tuple(RoleLabel(i, None if r == "?" else r) for i, r in enumerate(roles))  # type: ignore[arg-type]
    return EpisodeRecord(group, segments=segments, labels=labels, success=success, score=float(success))


def test_batch_metrics_on_hand_numbers() -> None:
    records = [record("DE", success=True), record("EENR"), record("EE", "b"), record("R?", "b")]
    found = batch_metrics(records)
    assert found == {
        "success": 0.25,
        "score": 0.25,
        "length": 2.5,
        "length_success": 2.0,
        "role_D": 0.1,
        "role_E": 0.5,
        "role_N": 0.1,
        "role_R": 0.2,
        "role_unjudged": 0.1,
        "role_failed": 0.0,
        "role_unsure": 0.0,
        "role_fallback": 0.0,
        "judge_confidence": 1.0,
        "outcome_variance": 0.5,
    }
    assert batch_metrics([record("R")])["length_success"] is None


def test_warnings_come_once_each_time_a_condition_begins(caplog: pytest.LogCaptureFixture) -> None:
    watch = Watch()
    plain = {"update": 1, "success": 0.0, "role_unjudged": 0.0}
    quiet, dead = {"outcome_variance": 0.5, "role_E": 0.5}, {"outcome_variance": 0.0, "role_E": 0.5}
    farming = {"outcome_variance": 0.5, "role_E": 0.86}
    seen = [watch.look({**plain, **now}) for now in (quiet, dead, dead, farming, farming, quiet, farming, dead)]
    assert seen == [
        [],
        ["no_outcome_variance"],
        [],
        ["exploration_share"],
        [],
        [],
        ["exploration_share"],
        ["no_outcome_variance"],
    ]
    assert len(caplog.records) == 4
    # The share is of what was judged: 0.7 of 0.8 is above .85 of it, and no label at all is no farming.
    half_judged = {**plain, "outcome_variance": 1.0, "role_E": 0.7, "role_unjudged": 0.2}
    assert Watch().look(half_judged) == ["exploration_share"]
    assert Watch().look({**half_judged, "role_E": 0.0, "role_unjudged": 1.0}) == []


def test_task_order_plays_every_task_once_an_epoch() -> None:
    order = TaskOrder(3, 10, 4)
    first = order.take(4) + order.take(4)
    assert len(set(first)) == 8
    second = order.take(4)
    assert (order.epoch, order.position) == (1, 4)
    again = TaskOrder(3, 10, 4)
    again.go_to({"epoch": 1, "position": 0})
    assert again.take(4) == second
    assert TaskOrder(4, 10, 4).take(4) != first[:4]
    with pytest.raises(InputError, match="at least 4"):
        TaskOrder(0, 3, 4)


def test_streams_are_apart_and_come_back() -> None:
    streams = {"a": stream(1, "a"), "b": stream(1, "b")}
    assert streams["a"].random() != streams["b"].random()
    saved = capture(streams)
    expected = [streams["a"].random(), torch.rand(1).item()]
    restore(saved, streams)
    assert [streams["a"].random(), torch.rand(1).item()] == expected


def test_the_judge_of_the_tests_is_one() -> None:
    assert isinstance(registry.make("judges", "envs_for_tests:LeftIsRegression"), LeftIsRegression)


def test_scalars_are_written_when_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    train(corridor(turns=200, tensorboard=True), tmp_path / "run")
    (events,) = (tmp_path / "run" / "tensorboard").iterdir()
    data = events.read_bytes()
    assert b"success" in data
    assert b"role_E" in data
    train(corridor(turns=200), tmp_path / "plain")
    assert not (tmp_path / "plain" / "tensorboard").exists()
    name = "metrics.jsonl"
    assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


class OnlyAtReset(CrashingCorridor):
    """Lists its commands when it is reset and never again."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Step, and say nothing of what can be done."""
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, {k: v for k, v in info.items() if k != "admissible_commands"}


def test_commands_that_are_missing_from_a_step_are_named() -> None:
    config = corridor()
    vector = TextVectorEnv(lambda: gym.wrappers.TimeLimit(OnlyAtReset(crash_at=99), 12), 1)
    with pytest.raises(InputError, match="from every step"):
        play(make_policy(config), vector, [(0, {})], np.random.default_rng(0))
    vector.close()
