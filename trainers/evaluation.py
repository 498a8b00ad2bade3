"""How good a policy is on tasks it was never trained on, without any judge in the loop.

Evaluation plays each task once; with ``attempts`` above 1, failures are retried up to that number, and the cost of it is
told beside what it brought (:mod:`triage_gym.trials`). No judge runs while it plays and none has a say in it, but for a
reflector that asks one. For the report alone, the rule judge, whatever judge the run is trained with, may be asked *after*
all episodes are over how many turns of each were regressions; those numbers are called ``posthoc``.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from triage_gym import registry
from triage_gym.errors import CheckpointError, InputError
from triage_gym.judges.labelling import label_record
from triage_gym.judges.rule import RuleJudge
from triage_gym.protocols import Judge
from triage_gym.records import EpisodeRecord, RetryFrom
from triage_gym.trainers import checkpoint
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.policies import make_policy
from triage_gym.trainers.policy.protocol import Policy
from triage_gym.trainers.policy.remarks import PRIORS, with_remarks, without_remarks
from triage_gym.trainers.policy.text_scorer import TextScorer
from triage_gym.trainers.probing import probe_retries
from triage_gym.trainers.randomness import stream
from triage_gym.trainers.tasks import EVAL_SEED, Start, Tasks, stack
from triage_gym.trainers.trials import Plan, play_trials
from triage_gym.trials import Key, key_of, summary, trials_of
from triage_gym.wrappers import TextVectorEnv

Mode = Literal["sampled", "greedy"]
_SIDE_BY_SIDE = 100
"""Episodes played at a time."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """One episode."""

    task: str
    """Task id, or ``seed=…`` where tasks have none."""
    task_type: str
    success: bool
    length: int
    """Turns."""
    r_posthoc: int | None = None
    """Turns that a rule judge, asked afterwards, calls R; None when none was asked."""
    score: float | None = None
    """The environment's own score; None in files that were written before it was kept."""
    solved_at: int | None = None
    """The attempt that solved the task, from 0; None when none did. Everything else here is of the first attempt."""
    e_posthoc: int | None = None
    """Turns that the same judge calls E."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One policy on one set of tasks."""

    update: int
    turns: int
    """Environment turns that the policy was trained for."""
    split: str | None
    mode: Mode
    limit: int
    tasks: tuple[TaskResult, ...]
    records: tuple[EpisodeRecord, ...] = field(default=(), repr=False)
    """The episodes, when they were asked for; not part of the JSON."""
    attempts: int = 1
    """Most attempts at a task."""
    trials: Mapping[str, Any] | None = None
    """What retries brought and cost, as :meth:`triage_gym.trials.TrialSummary.to_json` says; None without any.

    Trials whose environment broke the first attempt are left out; they count in everything else here as not solved."""

    @property
    def success(self) -> float:
        """Share of tasks solved."""
        return sum(t.success for t in self.tasks) / len(self.tasks)

    def pass_at(self, attempts: int) -> float:
        """Share of tasks solved within the first ``attempts`` attempts."""
        return sum(t.solved_at is not None and t.solved_at < attempts for t in self.tasks) / len(self.tasks)

    @property
    def score(self) -> float | None:
        """Mean score of all episodes; None when one is not known."""
        scores = [t.score for t in self.tasks if t.score is not None]
        return _mean(scores) if len(scores) == len(self.tasks) else None

    @property
    def length(self) -> float:
        """Mean turns of all episodes."""
        return sum(t.length for t in self.tasks) / len(self.tasks)

    @property
    def length_success(self) -> float | None:
        """Mean turns of successes; None when there are none."""
        return _mean([t.length for t in self.tasks if t.success])

    @property
    def r_per_success_posthoc(self) -> float | None:
        """Mean R turns of successes, by the rule judge asked afterwards; None when there are none."""
        return _mean([t.r_posthoc for t in self.tasks if t.success and t.r_posthoc is not None])

    def to_json(self) -> dict[str, Any]:
        """An entry of ``eval.json``."""
        return {
            "update": self.update,
            "turns": self.turns,
            "split": self.split,
            "mode": self.mode,
            "limit": self.limit,
            "n": len(self.tasks),
            "success": self.success,
            "score": self.score,
            "length": self.length,
            "length_success": self.length_success,
            "r_per_success_posthoc": self.r_per_success_posthoc,
            "attempts": self.attempts,
            "pass_at": [self.pass_at(k) for k in range(1, self.attempts + 1)],
            "trials": self.trials,
            "tasks": [dataclasses.asdict(t) for t in self.tasks],
        }

    @classmethod
    def from_json(cls, data: Any) -> Evaluation:
        """The evaluation written by :meth:`to_json`.

        Raises:
            InputError: For anything else.
        """
        try:
            tasks = tuple(TaskResult(**task) for task in data["tasks"])
            return cls(
                data["update"],
                data["turns"],
                data["split"],
                data["mode"],
                data["limit"],
                tasks,
                attempts=data.get("attempts", 1),
                trials=data.get("trials"),
            )
        except (KeyError, TypeError) as error:
            raise InputError(f"Expected an entry of eval.json, got one that does not fit: {error}") from error


class Evaluator:
    """Evaluates the policy of a run, again and again on the same tasks.

    Args:
        config: The run, resolved.
        judge: Asked after the episodes are over; None asks nobody.
        measure: Whether to measure, where failures are retried, what remarks change in the policy and which pivots the
            environment's expert would have named. It costs a second look at each turn of a retry.
        first_seed: Seed of the first task, where tasks are named by seed; the held-out ones by default.

    Raises:
        InputError: When there is no task to evaluate on.
    """

    def __init__(
        self, config: TrainConfig, judge: Judge | None, *, measure: bool = False, first_seed: int = EVAL_SEED
    ) -> None:
        self._config, self._judge = config, judge
        self._tasks = Tasks(config, config.eval_split, config.eval_tasks, first_seed)
        members = min(_SIDE_BY_SIDE, len(self._tasks))
        self._attempts = config.eval_attempts or 1
        plan = Plan.of(config, self._attempts, measure=measure and self._attempts > 1)
        # Which failures a run retries is how it spends its turns. pass@k is of every failure, whatever became of the others.
        self._plan = dataclasses.replace(plan, retries="all", distill=False)
        make = stack(config, config.eval_split, (), self._attempts, measure=self._plan.measure)
        self._vector = TextVectorEnv(make, members)

    def run(
        self, policy: Policy, *, mode: Mode = "sampled", update: int = 0, turns: int = 0, keep_records: bool = False
    ) -> Evaluation:
        """Play every task once, and once more after a failure while attempts are left.

        Args:
            policy: Whose success is asked for.
            mode: ``sampled`` draws commands from the policy, ``greedy`` takes the likeliest.
            update: Number of the last update, for the result.
            turns: Turns of training, for the result and the random stream.
            keep_records: Whether the result holds the episodes.
        """
        rng = stream(self._config.seed, "evaluation", update) if mode == "sampled" else None
        results: list[TaskResult] = []
        kept: list[EpisodeRecord] = []
        bits: dict[Key, float] = {}
        checks: dict[Key, str] = {}
        for first in range(0, len(self._tasks), self._vector.num_envs):
            numbers = range(first, min(first + self._vector.num_envs, len(self._tasks)))
            starts = [self._start(n) for n in numbers]
            found = play_trials(policy, self._vector, starts, rng, self._plan, keep=False)
            for i, (start, info, tries) in enumerate(zip(starts, found.infos, found.tries, strict=True)):
                records = [t.record for t in tries]
                results.append(self._result(start, info, records))
                kept += records
                bits |= {key_of(r): found.bits[i, r.attempt] for r in records if (i, r.attempt) in found.bits}
                checks |= {key_of(r): found.checks[i, r.attempt] for r in records if (i, r.attempt) in found.checks}
        c = self._config
        trials = None
        if self._attempts > 1 and kept:
            trials = summary(trials_of(kept), self._attempts, bits=bits, checks=checks).to_json()
        return Evaluation(
            update,
            turns,
            c.eval_split,
            mode,
            c.limit,
            tuple(results),
            tuple(kept) if keep_records else (),
            self._attempts,
            trials,
        )

    def _start(self, number: int) -> Start:
        seed, options = self._tasks.start(number)
        # Two tasks may begin alike, so trials are told apart by the number of the task.
        return seed, {**options, "group_id": f"eval:{number}"} if self._attempts > 1 else options

    def _result(self, start: Start, info: dict[str, Any], records: Sequence[EpisodeRecord]) -> TaskResult:
        name = str(info.get("task_id") or f"seed={start[0]}")
        task_type = str(info.get("task_type", ""))
        if not records:  # the environment broke: not solved, and nothing to count
            return TaskResult(name, task_type, False, 0, score=0.0)
        record = records[0]
        regressions = explored = None
        if self._judge is not None:
            outcome_text = self._vector.metadata.get("outcome_text", ())
            judged = label_record(record, self._judge, outcome_text=outcome_text)
            regressions, explored = (sum(said == role for said in judged.roles) for role in ("R", "E"))
        solved_at = next((r.attempt for r in records if r.success and r.error is None), None)
        return TaskResult(name, task_type, record.success, len(record), regressions, record.score, solved_at, explored)

    def close(self) -> None:
        """Close the environments."""
        self._vector.close()


def posthoc_judge(config: TrainConfig) -> Judge:
    """The rule judge of the run's domain, whatever its own judge is: evaluation asks no other, and costs nothing.

    A rule judge that the run was given with options stays, but for one that was made task-blind: what arms are measured
    by is the same for all. Beside a judge of another kind, that a domain has no rules is no cause for a warning.
    """
    spec = registry.config("judges", config.judge)
    judge: Judge = registry.make("judges", spec) if spec["name"] == "rule" else RuleJudge(warn=False)
    return RuleJudge(warn=False) if isinstance(judge, RuleJudge) and judge.domain == "generic" else judge


def load_policy(path: str | os.PathLike[str], attempts: int = 1) -> tuple[TextScorer, TrainConfig, dict[str, Any]]:
    """The policy of a run or checkpoint directory, its config and the checkpoint's state.

    Args:
        path: Run directory, checkpoint folder or checkpoint.
        attempts: How many attempts at a task it will make at most. A policy that was trained without retries is given
            the candidate bits that remarks set, with their start weights, when it is to make more than one.

    Raises:
        CheckpointError: When there is none, or its weights do not fit its config.
    """
    found = checkpoint.find(path)
    config = TrainConfig.from_json(found.state.get("config")).resolved()
    policy = make_policy(config)
    load_weights(policy, found.weights)
    if attempts > 1 and not policy.reads_remarks:
        # "random" needs no head: one that was never trained must not pass for the policy's own word.
        policy = make_policy(dataclasses.replace(config, eval_attempts=attempts, reflector="random"))
        load_weights(policy, with_remarks(found.weights))
    return policy, config, found.state


def load_weights(policy: Policy, weights: dict[str, torch.Tensor]) -> None:
    """Give ``policy`` these weights.

    Raises:
        CheckpointError: When they belong to another network.
    """
    try:
        policy.net.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"Expected weights of this policy, got others: {error}") from error
    policy.weights_changed()


def load_start(policy: TextScorer, weights: Mapping[str, torch.Tensor]) -> None:
    """Give ``policy`` the weights of a start, which may have been made for a run that retries where this one does not.

    What only retries use (the bits that remarks set, the heads) keeps its fresh weights where the start lacks it, and is
    left out where this policy lacks it; so a start is the same whichever arm of a comparison it was made for.

    Raises:
        CheckpointError: When they belong to another network.
    """
    own = policy.net.state_dict()
    found = {name: value for name, value in weights.items() if "." not in name}
    heads = {name: weights.get(name, value) for name, value in own.items() if "." in name}
    if "feature" in found:
        more = own["feature"].shape[1] - found["feature"].shape[1]
        if more == len(PRIORS) and policy.reads_remarks:
            found = with_remarks(found)
        elif more == -len(PRIORS) and not policy.reads_remarks:
            found = without_remarks(found)
    load_weights(policy, found | heads)


def evaluate(
    path: str | os.PathLike[str],
    *,
    tasks: int | None = None,
    split: str | None = None,
    games: str | os.PathLike[str] | None = None,
    task_types: Sequence[str] | None = None,
    limit: int | None = None,
    mode: Mode = "sampled",
    seed: int | None = None,
    judge: str | None = "rule",
    keep_records: bool = False,
    attempts: int | None = None,
    reflector: str | Mapping[str, Any] | None = None,
    retry_from: RetryFrom | None = None,
    verify: str | Mapping[str, Any] | None = None,
    measure: bool = True,
) -> Evaluation:
    """Play held-out tasks with the policy of a run.

    Args:
        path: Run or checkpoint directory.
        tasks: How many; the run's own number when None, every game there is with ``games``.
        split: Which games; the run's own evaluation split when None.
        games: ALFWorld game file, folder or data tree to play instead of generated games.
        task_types: Task types to play; the run's own when None.
        limit: Turns of an episode; the run's own when None. The policy still reads time as it was trained to.
        mode: ``sampled`` draws commands from the policy, ``greedy`` takes the likeliest.
        seed: Seed of the draws; the run's own when None.
        judge: Asked after all episodes are over, for ``r_posthoc``; None asks nobody.
        keep_records: Whether the result holds the episodes.
        attempts: Most attempts at a task; the run's own when None.
        reflector: Who names the turn that a failed attempt is retried from; the run's own when None.
        retry_from: ``pivot``, or ``start`` for a full restart with the same remark; the run's own when None.
        verify: How a pivot is tested before it is used; the run's own when None. With ``retry_from="start"`` there is no
            pivot to test, and the run's own is left out.
        measure: Whether to measure what remarks change and which pivots an expert would have named, where the
            environment has one.

    Raises:
        CheckpointError: When there is no policy at ``path``.
        InputError: For arguments that do not fit, or when there are no games.
    """
    policy, config, state = load_policy(path, attempts or 1)
    torch.set_num_threads(config.threads)
    changes: dict[str, Any] = {
        "eval_tasks": tasks if tasks is not None else (1_000_000 if games is not None else None),
        "eval_split": split,
        "task_types": None if task_types is None else tuple(task_types),
        "limit": limit,
        "seed": seed,
        "eval_attempts": attempts,
        "reflector": reflector,
        "retry_from": retry_from,
        "verify": verify,
    }
    if games is not None:
        changes["env_kwargs"] = {**config.env_kwargs, "games": os.fspath(games)}
    if retry_from == "start":
        config = dataclasses.replace(config, verify=None, retries="all")
    config = dataclasses.replace(config, **{k: v for k, v in changes.items() if v is not None})
    if (config.eval_attempts or 1) > 1:
        _check_reflector(config, policy)
    probe_retries(config, config.eval_split, config.eval_attempts or 1)
    evaluator = Evaluator(config, None if judge is None else registry.make("judges", judge), measure=measure)
    try:
        return evaluator.run(policy, mode=mode, update=state["update"], turns=state["turns"], keep_records=keep_records)
    finally:
        evaluator.close()


def _check_reflector(config: TrainConfig, policy: Policy) -> None:
    """Refuse a reflector that needs a head which the policy was not trained with."""
    missing = [head for head in config.heads if not hasattr(policy.net, head)]
    if missing:
        raise InputError(
            f"Expected a policy with a {missing[0]} head for the reflector {config.reflector!r}, got one that was trained "
            "without; train with --attempts 3 and this reflector, or choose role, entropy, oracle, random or restart"
        )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
