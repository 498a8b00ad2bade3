"""Playing: the network sees all live episodes at once, an episode that is over costs nothing.

:func:`play` runs one episode in each member of a vector, :class:`Rollouts` makes the groups of an update with it (G
episodes of each task, judged at their end) and joins what the policy decided with the records that came out. An episode
that its environment broke is left out of the batch and counted; its group's baseline is made of the others.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from triage_gym import registry
from triage_gym.credit.ledger import GroupLedger
from triage_gym.errors import TrainingError
from triage_gym.protocols import Judge, Window
from triage_gym.records import EpisodeRecord, RoleLabel
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.policy.protocol import Memory, Policy, RawSteps, Steps
from triage_gym.trainers.tasks import Start, Tasks, stack
from triage_gym.wrappers import TextVectorEnv


@dataclass(frozen=True, slots=True)
class Played:
    """One episode each of some members of a vector."""

    records: list[EpisodeRecord | None]
    """None for an episode that its environment broke."""
    infos: list[dict[str, Any]]
    """What the reset of each said."""
    steps: list[RawSteps]
    """The policy's decisions, moment by moment; empty when they were not kept."""
    rows: list[list[int]]
    """For each episode the positions of its decisions in ``steps`` laid end to end, turn by turn."""
    turns: int


def play(
    policy: Policy,
    vector: TextVectorEnv,
    starts: Sequence[Start],
    rng: np.random.Generator | None,
    *,
    keep: bool = True,
) -> Played:
    """Play an episode from each of ``starts``, all of them side by side.

    Args:
        policy: Chooses the commands.
        vector: Has at least as many members as there are starts; their last info must carry ``episode_record``.
        starts: Seed and options of each episode.
        rng: One number a decision; None for the likeliest command.
        keep: Whether to keep the decisions for learning.
    """
    began = vector.reset(dict(enumerate(starts)))
    memories: dict[int, Memory] = {}
    admissible: dict[int, Sequence[str]] = {}
    rows: list[list[int]] = [[] for _ in starts]
    for index in vector.active:
        observation, info = began[index]
        memories[index] = policy.begin(str(info.get("task", "")), observation)
        admissible[index] = info["admissible_commands"]
    steps: list[RawSteps] = []
    turns = 0
    while live := vector.active:
        decision = policy.act([memories[i] for i in live], [admissible[i] for i in live], rng)
        if keep:
            steps.append(decision.raw)
        results = vector.step(dict(zip(live, decision.commands, strict=True)))
        for row, (index, command) in enumerate(zip(live, decision.commands, strict=True), turns):
            observation, _, terminated, truncated, info = results[index]
            rows[index].append(row)
            if not (terminated or truncated):
                memories[index].observe(command, observation)
                admissible[index] = info["admissible_commands"]
        turns += len(live)
    records = [vector.final_infos[i].get("episode_record") for i in range(len(starts))]
    return Played(records, [began[i].info for i in range(len(starts))], steps, rows, turns)


@dataclass(frozen=True, slots=True)
class Batch:
    """The groups of one update."""

    records: list[EpisodeRecord]
    """Sound attempts, group by group."""
    steps: Steps
    """Their decisions, record by record and turn by turn."""
    turns: int
    """Environment turns, those of broken episodes included."""
    episodes: int
    excluded: int
    """Episodes that were left out."""
    rollout_s: float
    """CPU seconds of acting, environments and records, without the judge."""
    judge_s: float
    """CPU seconds of the judge."""


class TimedJudge:
    """A judge that knows what it costs.

    Args:
        judge: The judge that answers.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.seconds = 0.0
        """CPU seconds so far."""

    def judge(self, windows: Sequence[Window]) -> Sequence[RoleLabel]:
        """Labels of ``windows``, in order."""
        start = time.process_time()
        try:
            return self._judge.judge(windows)
        finally:
            self.seconds += time.process_time() - start


class Rollouts:
    """Makes the batches of a run.

    Args:
        config: The run, resolved.
        policy: Chooses the commands.
    """

    def __init__(self, config: TrainConfig, policy: Policy) -> None:
        self._config, self._policy = config, policy
        self.tasks = Tasks(config, config.split, config.tasks)
        self._judge = TimedJudge(registry.make("judges", config.judge))
        members = config.groups_per_update * config.group_size
        self._vector = TextVectorEnv(stack(config, config.split, self._judge), members)

    def collect(self, tasks: Sequence[int], update: int, rng: np.random.Generator) -> Batch:
        """Play ``group_size`` episodes of each of ``tasks``.

        Args:
            tasks: Numbers of the tasks.
            update: Number of the update; part of the group's name, since a task comes again in a later epoch.
            rng: Draws the commands.

        Raises:
            GroupError: When the members of a group started from different observations.
        """
        start, judged = time.process_time(), self._judge.seconds
        starts: list[Start] = []
        for task in tasks:
            seed, options = self.tasks.start(task)
            starts += [(seed, {**options, "group_id": f"{update}:{task}"})] * self._config.group_size
        played = play(self._policy, self._vector, starts, rng)
        records, order = _sound(played, self._config.group_size)
        if not records:
            reason = next((i.get("env_error") for i in self._vector.final_infos.values()), "no episode ended")
            raise TrainingError(
                f"Expected at least one sound episode in update {update}, got none; the first: {reason}"
            )
        steps = self._policy.gather(played.steps)
        if len(order) < len(steps) or (order[1:] < order[:-1]).any():
            steps = steps.take(torch.from_numpy(order).to(steps.choices.device))
        judge_s = self._judge.seconds - judged
        return Batch(
            records=records,
            steps=steps,
            turns=played.turns,
            episodes=len(starts),
            excluded=len(starts) - len(records),
            rollout_s=time.process_time() - start - judge_s,
            judge_s=judge_s,
        )

    def close(self) -> None:
        """Close the environments."""
        self._vector.close()


def _sound(played: Played, group_size: int) -> tuple[list[EpisodeRecord], NDArray[np.int64]]:
    """The records to learn from, and the rows of their decisions."""
    ledger = GroupLedger(group_size)
    records, rows = [], []
    for record, own in zip(played.records, played.rows, strict=True):
        if record is None or record.error is not None:
            continue
        ledger.add(record)
        records.append(record)
        rows.extend(own)
    return records, np.array(rows, np.int64)
