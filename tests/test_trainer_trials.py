"""Training and evaluating with retries: every action is trained once, lies never arrive, reflections point where they say."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from envs_for_tests import Corridor
from trainer_runs import contents, evaluations, small
from trial_envs import Counted, Liar

from triage_gym import credit
from triage_gym.cli.app import run as main
from triage_gym.errors import InputError, TrainingError
from triage_gym.records import EpisodeRecord
from triage_gym.report.comparison import Comparison
from triage_gym.trainers import checkpoint, compare, pretrain
from triage_gym.trainers.advantages import checked, newly_acted
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.evaluation import evaluate, load_policy
from triage_gym.trainers.grpo import loss
from triage_gym.trainers.loop import train
from triage_gym.trainers.policies import make_policy
from triage_gym.trainers.rollout import Batch, Rollouts
from triage_gym.trainers.run_dir import read_lines

MENU = ["go left", "go right", "look", "wait"]
REFLECTORS = ("policy", "role", "entropy", "value", "random", "restart")


def trying(**changes: Any) -> TrainConfig:
    plain: dict[str, Any] = {
        "env": "envs_for_tests:Corridor",
        "judge": "envs_for_tests:LeftIsRegression",
        "credit": "pivoarl",
        "attempts": 3,
        "demos": 0,
        "limit": 8,
        "kl": 0.0,
    }
    return small(**{**plain, **changes}).resolved()


def collected(config: TrainConfig, update: int = 1) -> Batch:
    made = Rollouts(config, make_policy(config))
    try:
        return made.collect([0, 3], update, np.random.default_rng(0))
    finally:
        made.close()


def rows_of(batch: Batch) -> dict[tuple[str, str, int], list[int]]:
    """For each attempt the rows of all its turns, by the records alone: those of its prefix are its parent's."""
    found: dict[tuple[str, str, int], list[int]] = {}
    numbers = itertools.count()
    for r in batch.records:
        own = list(itertools.islice(numbers, len(r) - r.prefix_length))
        before = found[r.group_id, r.trial, r.parent][: r.prefix_length] if r.parent >= 0 else []
        found[r.group_id, r.trial, r.attempt] = before + own
    return found


@pytest.mark.parametrize("retry_from", ["pivot", "start"])
@pytest.mark.parametrize("reflector", REFLECTORS)
def test_every_generated_turn_stands_in_a_batch_once(reflector: str, retry_from: str) -> None:
    batch = collected(trying(reflector=reflector, retry_from=retry_from))
    retries = [r for r in batch.records if r.attempt > 0]
    assert retries
    assert all(r.restore_status == "verified" for r in retries)
    acted = [s.action for r in batch.records for s in r.segments[r.prefix_length :]]
    assert [MENU[i] for i in batch.steps.choices.tolist()] == acted
    assert len(acted) == len(batch.steps) == batch.turns
    assert batch.episodes == len(batch.records) > 8
    if retry_from == "start" or reflector == "restart":
        assert all(r.prefix_length == 0 for r in retries)
    elif reflector in ("random", "policy"):
        assert any(r.prefix_length > 0 for r in retries)


def test_a_reflector_of_ones_own_is_given_the_facts_that_it_needs(tmp_path: Path) -> None:
    config = trying(reflector="trial_envs:Doubtful")
    assert config.heads == ("value",)
    batch = collected(config)
    retries = [r.reflection for r in batch.records if r.attempt > 0]
    assert retries
    assert {r.source for r in retries if r is not None} == {"doubtful"}
    with pytest.raises(InputError, match="regret"):
        train(trying(reflector="trial_envs:Demanding"), tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()


def test_what_the_environment_did_is_what_is_trained() -> None:
    """Steps of the environment beyond the batch's are those of going back, and the wrapper counts them."""
    Counted.asked.clear()
    config = trying(env="trial_envs:Counted", reflector="random")
    made = Rollouts(config, make_policy(config))
    batch = made.collect([0, 3], 1, np.random.default_rng(0))
    walked = sum(env.get_wrapper_attr("counts")["replayed_turns"] for env in made._vector.envs if env is not None)
    made.close()
    assert sum(Counted.asked.values()) == len(batch.steps) + walked


@pytest.mark.parametrize("rule", ["pivoarl", "metarl", "r3l", "grpo", "triage", "pivoarl+triage", "gigpo"])
def test_gradient_contributions_of_each_action_are_counted(rule: str) -> None:
    """The derivative of the loss by the log-probabilities taken: one entry a generated turn, its own advantage's."""
    config = trying(reflector="random", credit=rule, retry_from="pivot")
    batch = collected(config)
    assert any(r.prefix_length for r in batch.records)
    advantages = checked(rule, credit.make(rule, lam=0.2)(batch.records), batch.records)
    for record, own in zip(batch.records, advantages, strict=True):
        assert (own[: record.prefix_length] == 0).all()
    flat = torch.from_numpy(newly_acted(advantages, batch.records).astype(np.float32))
    log_probs = torch.full((len(batch.steps), 4), -np.log(4.0), dtype=torch.float32, requires_grad=True)
    taken = torch.full((len(batch.steps),), -np.log(4.0), dtype=torch.float32)
    loss(log_probs, batch.steps.choices, taken, flat, clip=0.2, entropy=0.0).total.backward()  # type: ignore[no-untyped-call]
    assert log_probs.grad is not None
    found = -log_probs.grad.gather(1, batch.steps.choices.unsqueeze(1)).squeeze(1) * len(batch.steps)
    torch.testing.assert_close(found, flat)
    contributions: Counter[int] = Counter()
    for (group, trial, attempt), rows in rows_of(batch).items():
        record = next(r for r in batch.records if (r.group_id, r.trial, r.attempt) == (group, trial, attempt))
        for turn, row in enumerate(rows):
            assert MENU[int(batch.steps.choices[row])] == record.segments[turn].action
            contributions[row] += not record.prefix_mask[turn]
    assert contributions == dict.fromkeys(range(len(batch.steps)), 1)


def test_reflections_point_at_the_decisions_of_the_attempt_they_are_on() -> None:
    batch = collected(trying(reflector="policy"))
    rows = rows_of(batch)
    assert len(batch.reflections) == sum(r.attempt > 0 for r in batch.records) > 0
    for m, number in enumerate(batch.reflections.records):
        record = batch.records[number]
        assert record.reflection is not None
        turns = [row for row in batch.reflections.turns[m].tolist() if row >= 0]
        assert turns == rows[record.group_id, record.trial, record.parent]
        pivot = int(batch.reflections.choices[m])
        assert pivot == record.reflection.pivot == record.pivot == record.prefix_length
        assert record.reflection.source == "policy"
        assert not record.reflection.problem
        parent = next(
            r
            for r in batch.records
            if (r.group_id, r.trial, r.attempt) == (record.group_id, record.trial, record.parent)
        )
        assert f'"{parent.segments[pivot].action}"' in record.reflection.remark
        assert json.loads(record.reflection.text) == {"remark": record.reflection.remark, "pivot": pivot}


@pytest.mark.parametrize(
    ("credit", "reflector", "told"),
    [("grpo", "policy", True), ("triage", {"name": "role", "checks": "policy"}, True), ("grpo", "random", False)]
    + [(rule, "policy", False) for rule in ("pivoarl", "metarl", "r3l", "pivoarl+triage")],
)
def test_a_pointer_that_nothing_trains_is_told_of(
    credit: str, reflector: Any, told: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(trying(credit=credit, reflector=reflector, turns=1, eval_tasks=1), tmp_path / "run")
    assert any("never learns to point" in message for message in caplog.messages) == told


def test_the_remark_reaches_the_policy_and_distillation_leaves_it_out() -> None:
    plain = trying(reflector="oracle", env="minesweeper", judge={"name": "rule", "domain": "generic"}, limit=7)
    policy = make_policy(plain)
    warned = policy.net.feature.shape[1] - 2  # WARNED_HERE, which is set for one candidate where a retry begins

    def warnings(config: TrainConfig) -> float:
        batch = collected(config)
        assert any(r.attempt for r in batch.records)
        return float(batch.steps.features[:, warned:].sum())

    assert warnings(plain) > 0
    assert warnings(dataclasses.replace(plain, distill=True)) == 0


@pytest.mark.filterwarnings("ignore:.*going back to turn")
def test_lies_never_reach_the_trainer() -> None:
    Liar.begun.clear()
    batch = collected(trying(env="trial_envs:Liar", reflector="random"))
    assert batch.excluded > 0
    assert len(batch.steps) == sum(len(r) - r.prefix_length for r in batch.records) < batch.turns
    for record in batch.records:  # a lie that changes nothing is none: every turn is what an honest environment does
        env = gym.wrappers.TimeLimit(Corridor(), 8)
        observation, _ = env.reset(seed=record.seed)
        assert observation == record.start_observation
        for segment in record.segments:
            observation, reward, *_ = env.step(segment.action)
            assert (observation, reward) == (segment.next_observation, segment.reward)


def test_retries_only_where_outcomes_differ() -> None:
    def outcomes(records: list[EpisodeRecord], group: str) -> set[bool]:
        return {r.success for r in records if r.group_id == group and r.attempt == 0}

    every = collected(trying(limit=9))
    some = collected(trying(limit=9, retries="differ"))
    groups = {r.group_id for r in some.records if r.attempt > 0}
    assert groups == {r.group_id for r in some.records if len(outcomes(some.records, r.group_id)) == 2}
    assert len(some.records) <= len(every.records)


def test_a_pivot_from_which_the_goal_cannot_be_reached_is_not_retried() -> None:
    """On boards that need more clicks than there are, no pivot passes, and with ``verified`` no retry is played."""
    base = trying(env="minesweeper", env_kwargs={"mines": 9}, reflector="restart", limit=7)
    checked_only = dataclasses.replace(base, verify="oracle", retries="verified")
    every, some = collected(base), collected(checked_only)
    assert some.refused > 0
    assert sum(r.attempt > 0 for r in some.records) < sum(r.attempt > 0 for r in every.records)


def test_a_run_with_retries_repeats_and_resumes_byte_for_byte(tmp_path: Path) -> None:
    config = trying(reflector="policy", checkpoint_every=2, kl=0.01)
    train(config, tmp_path / "straight")
    rows = list(read_lines(tmp_path / "straight" / "metrics.jsonl"))
    assert any(row["retries"] for row in rows)
    assert np.cumsum([row["generated_turns"] for row in rows]).tolist() == [row["turns"] for row in rows]
    assert any(row.get("reflection_entropy") for row in rows)
    train(config, tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "straight")
    train(dataclasses.replace(config, turns=400), tmp_path / "part")
    longer = checkpoint.newest(tmp_path / "part" / "checkpoints")
    assert longer is not None
    shutil.rmtree(tmp_path / "part" / "checkpoints" / f"step_{longer.state['update']:08d}")  # the one at its end
    train(config, tmp_path / "part", resume=True, allow=("turns",))
    resumed, straight = contents(tmp_path / "part"), contents(tmp_path / "straight")
    for name in ("metrics.jsonl", "traces.jsonl", "checkpoint/weights.safetensors", "checkpoint/optim.safetensors"):
        assert resumed[name] == straight[name], name


def test_pass_at_k_and_the_cost_stand_in_the_evaluation(tmp_path: Path) -> None:
    found = train(trying(reflector="policy", limit=12, eval_tasks=60), tmp_path / "run")
    passes = [found.pass_at(k) for k in (1, 2, 3)]
    assert passes == sorted(passes)
    assert passes[0] == found.success
    assert passes[2] > passes[0]
    assert found.trials is not None
    saved = evaluations(tmp_path / "run")[-1]
    assert saved["pass_at"] == passes
    assert [s["estimate"] for s in saved["trials"]["solved"]] == passes
    generated, replayed = saved["trials"]["generated"], saved["trials"]["replayed"]
    assert generated["by_attempt"][0] == sum(t["length"] for t in saved["tasks"])
    assert replayed["by_attempt"][0] == 0 < replayed["total"]


def test_a_policy_without_retries_can_be_evaluated_with_them(tmp_path: Path) -> None:
    config = trying(credit="grpo", attempts=None, eval_tasks=30)
    assert (config.attempts, config.eval_attempts) == (1, 1)
    train(config, tmp_path / "run")
    plain, _, _ = load_policy(tmp_path / "run")
    policy, _, _ = load_policy(tmp_path / "run", attempts=3)
    assert (plain.reads_remarks, policy.reads_remarks) == (False, True)
    assert policy.net.feature_bias[-2:].tolist() == [-2.0, -1.0]
    once = evaluate(tmp_path / "run", seed=5)
    thrice = evaluate(tmp_path / "run", seed=5, attempts=3, reflector="random", keep_records=True)
    assert [t.length for t in thrice.tasks] == [t.length for t in once.tasks]
    assert thrice.trials is not None
    assert thrice.trials["gain"]["measured"] == thrice.trials["gain"]["retries"] > 0
    assert {r.attempt for r in thrice.records} == {0, 1, 2}
    with pytest.raises(InputError, match="pointer head"):
        evaluate(tmp_path / "run", attempts=3, reflector="policy")


class NoExpert(Corridor):
    """Knows no way to its exit."""

    expert_distance = None  # type: ignore[assignment]


class Fragile(Corridor):
    """Breaks at its first step."""

    def step(self, action: str) -> Any:
        raise RuntimeError("no floor")


def test_an_environment_without_an_expert_is_evaluated_with_retries(tmp_path: Path) -> None:
    config = trying(env="test_trainer_trials:NoExpert", reflector="random", turns=80, eval_tasks=10)
    train(config, tmp_path / "run")
    found = evaluate(tmp_path / "run", attempts=3, keep_records=True)
    assert found.trials is not None
    assert found.trials["gain"]["measured"] > 0
    assert {r.oracle_pivot for r in found.records} == {-1}
    for arguments in ({"reflector": "oracle"}, {"verify": "oracle"}):
        with pytest.raises(InputError, match="neither expert_distance"):
            evaluate(tmp_path / "run", attempts=3, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("retries", ["differ", "verified"])
def test_every_failure_is_retried_in_the_evaluation(retries: str, tmp_path: Path) -> None:
    """Whatever became of others, and whatever the check says: pass@k would be another number else."""
    config = trying(reflector="random", retries=retries, verify="test_trainer_trials:Never", turns=80, eval_tasks=10)
    train(config, tmp_path / "run")
    found = evaluate(tmp_path / "run", keep_records=True)
    last = {r.group_id: r for r in found.records}
    assert any(not r.success for r in last.values())
    assert all(r.success or r.attempt == 2 for r in last.values())


class Never:
    """A check that nothing passes."""

    moves = False

    def passes(self, point: Any) -> bool:
        return False


def test_where_every_attempt_breaks_nothing_is_solved(tmp_path: Path) -> None:
    config = trying(env="test_trainer_trials:Fragile", reflector="random", turns=80, eval_tasks=10)
    start = pretrain(config, tmp_path / "start")
    found = evaluate(start, attempts=3)
    assert (found.success, found.pass_at(3), found.trials) == (0.0, 0.0, None)
    with pytest.raises(TrainingError, match="no floor"):
        train(dataclasses.replace(config, eval_at=()), tmp_path / "run")


@pytest.mark.parametrize("inner", ["policy", "entropy", "value"])
def test_a_judge_that_checks_another_reflector_gets_what_that_one_needs(inner: str) -> None:
    judge = "envs_for_tests:LeftIsRegression"
    batch = collected(trying(reflector={"name": "role", "judge": judge, "checks": inner}))
    retries = [r for r in batch.records if r.attempt > 0]
    assert retries
    assert batch.excluded == 0
    assert {r.reflection.source for r in retries if r.reflection is not None} <= {"role", inner}
    assert len(batch.reflections) == (len(retries) if inner == "policy" else 0)


def test_information_is_what_the_remark_changes(tmp_path: Path) -> None:
    start = pretrain(trying(credit="grpo", attempts=1, eval_tasks=30), tmp_path / "start")
    read = evaluate(start, attempts=2, reflector="role")  # names turns in remarks
    silent = evaluate(start, attempts=2, reflector="restart")  # says nothing
    assert read.trials is not None
    assert silent.trials is not None
    assert read.trials["gain"]["bits"] > 0.01
    assert silent.trials["gain"]["bits"] == pytest.approx(0.0, abs=1e-6)


def test_arms_of_a_comparison_take_the_attempts_their_rules_are_made_for(tmp_path: Path) -> None:
    config = dataclasses.replace(trying(attempts=None, retry_from=None, turns=80, eval_at=()), credit="grpo")
    config = dataclasses.replace(config, attempts=None, retry_from=None, eval_attempts=None)
    found = compare(config, ["grpo", "metarl", "pivoarl"], [0, 1], tmp_path / "c", workers=1, baseline="metarl")
    assert found["complete"], found["runs"]
    settings = {c: TrainConfig.from_json(_json(tmp_path / "c" / f"{c}-s0")) for c in ("grpo", "metarl", "pivoarl")}
    assert {c: s.attempts for c, s in settings.items()} == {"grpo": 1, "metarl": 3, "pivoarl": 3}
    assert {c: s.retry_from for c, s in settings.items()} == {"grpo": "pivot", "metarl": "start", "pivoarl": "pivot"}
    assert {s.eval_attempts for s in settings.values()} == {3}
    metrics = {row["metric"] for row in found["summary"]}
    assert {"pass@2", "pass@3"} <= metrics
    (row, *_) = Comparison(tmp_path / "c").rows()
    assert row.retried is not None
    assert row.retried.mean == next(r["mean"] for r in found["summary"] if r["metric"] == "pass@3")


def _json(path: Path) -> Any:
    return json.loads((path / "config.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("attempts", "told"), [(1, True), (2, False)])
def test_settings_of_retries_that_do_nothing_are_told_of(
    attempts: int, told: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(trying(credit="grpo", attempts=attempts, reflector="random", distill=True, turns=40), tmp_path / "run")
    said = [message for message in caplog.messages if "do nothing: `reflector`, `distill`" in message]
    assert len(said) == told


def test_eval_prints_what_retries_solved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = train(trying(reflector="random", turns=200, limit=12, eval_tasks=40), tmp_path / "run")
    assert main(["eval", str(tmp_path / "run")]) == 0
    shown = re.findall(r"pass@(\d) (\d+\.\d) \(", capsys.readouterr().out)
    assert main(["report", str(tmp_path / "run")]) == 0
    assert "with retries, %" in capsys.readouterr().out
    assert "with retries, %" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert main(["retry", "--policy", str(tmp_path / "run"), "--tasks", "5", "--retry-from", "pivot"]) == 0
    assert "reflector: random" in capsys.readouterr().out, "the run's own"
    assert [(int(k), float(percent)) for k, percent in shown] == [
        (k, round(100 * found.pass_at(k), 1)) for k in (1, 2, 3)
    ]
