"""The groups of an update: G trials of each task, judged at their end, joined with what the policy decided.

An episode that its environment broke is left out of the batch and counted; its group's baseline is made of the others.
Every turn that was acted stands in a batch once, whatever number of retries began with a copy of it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from triage_gym.credit import needs_values
from triage_gym.credit.ledger import GroupLedger
from triage_gym.errors import TrainingError
from triage_gym.records import EpisodeRecord
from triage_gym.trainers import online
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.judging import Judging
from triage_gym.trainers.policy.protocol import Policy, Steps
from triage_gym.trainers.randomness import stream
from triage_gym.trainers.tasks import Start, Tasks, stack
from triage_gym.trainers.trials import Plan, Reflections, Trials, Try, gathered, play_trials, reflections_of
from triage_gym.windows import outcome_text_of
from triage_gym.wrappers import TextVectorEnv


@dataclass(frozen=True, slots=True)
class Batch:
    """The groups of one update."""

    records: list[EpisodeRecord]
    """Sound attempts, group by group and trial by trial."""
    steps: Steps
    """Their decisions, record by record and turn by turn, copied prefixes left out."""
    reflections: Reflections
    """The policy's own reflections that records began with."""
    turns: int
    """Environment turns that were generated, those of broken episodes included; replayed ones are not."""
    episodes: int
    """Attempts."""
    excluded: int
    """Attempts that were left out."""
    refused: int
    """Retries that were not played, since their pivot did not pass the check."""
    rollout_s: float
    """CPU seconds of acting, environments and records, without the judge."""
    judge_s: float
    """CPU seconds of the judge."""


def with_values(records: Sequence[EpisodeRecord], values: Sequence[float]) -> list[EpisodeRecord]:
    """The records with ``info["value"]`` in every newly acted segment.

    Args:
        records: The attempts of a batch.
        values: Of their newly acted turns, attempt by attempt.
    """
    given = iter(values)
    return [
        replace(
            record,
            segments=tuple(
                segment if k < record.prefix_length else replace(segment, info={**segment.info, "value": next(given)})
                for k, segment in enumerate(record.segments)
            ),
        )
        for record in records
    ]


class Rollouts:
    """Makes the batches of a run.

    Args:
        config: The run, resolved.
        policy: Chooses the commands.
    """

    def __init__(self, config: TrainConfig, policy: Policy) -> None:
        self._config, self._policy = config, policy
        self.tasks = Tasks(config, config.split, config.tasks)
        self.judging = Judging(config)
        members = config.groups_per_update * config.group_size
        self._plan = Plan.of(config, config.attempts or 1)
        rule = config.credit_rule()
        self._pairs = online.share_of(config, rule)
        self._values = needs_values(rule)
        make = stack(config, config.split, self.judging.facts, self._plan.attempts, pairs=self._pairs > 0.0)
        self._vector = TextVectorEnv(make, members)
        self.outcome_text = outcome_text_of(self._vector.metadata)
        """What tells the outcome, and no judge may see."""

    def collect(self, tasks: Sequence[int], update: int, rng: np.random.Generator) -> Batch:
        """Play ``group_size`` trials of each of ``tasks``.

        Args:
            tasks: Numbers of the tasks.
            update: Number of the update; part of the group's name, since a task comes again in a later epoch.
            rng: Draws the commands.

        Raises:
            GroupError: When the members of a group started from different observations.
            JudgeOutage: When the judge has failed too often; what was drawn until then is drawn.
        """
        start = time.process_time()
        starts: list[Start] = []
        for task in tasks:
            seed, options = self.tasks.start(task)
            group = {**options, "group_id": f"{update}:{task}"}
            starts += [(seed, {**group, "trial_id": member}) for member in range(self._config.group_size)]
        found = play_trials(self._policy, self._vector, starts, rng, self._plan)
        tries = self._sound(found.tries)
        if not tries:
            reason = next((i.get("env_error") for i in self._vector.final_infos.values()), "no episode ended")
            raise TrainingError(
                f"Expected at least one sound episode in update {update}, got none; the first: {reason}"
            )
        judged = 0.0
        labelled: dict[int, EpisodeRecord] = {}
        if self._pairs:
            before = time.process_time()
            labelled = self._labelled([t.record for t in tries])
            judged = time.process_time() - before
            self._retry(found, labelled, update, rng)
            tries = self._sound(found.tries)
        steps, place = gathered(self._policy, found, tries)
        played = time.process_time() - judged
        known = [labelled.get(id(t.record)) for t in tries]
        new = self._labelled([t.record for t, record in zip(tries, known, strict=True) if record is None])
        records = [record or new[id(t.record)] for t, record in zip(tries, known, strict=True)]
        if self._values:
            records = with_values(records, self._policy.values(steps).detach().cpu().tolist())
        judge_s = time.process_time() - played
        episodes = sum(map(len, found.tries)) + found.broken
        return Batch(
            records=records,
            steps=steps,
            reflections=reflections_of(tries, place),
            turns=found.turns,
            episodes=episodes,
            excluded=episodes - len(tries),
            refused=found.refused,
            rollout_s=played - start,
            judge_s=judge_s,
        )

    def _labelled(self, records: Sequence[EpisodeRecord]) -> dict[int, EpisodeRecord]:
        """The records with a label a segment, by identity of the record without."""
        return dict(zip(map(id, records), self.judging.label(records, self.outcome_text), strict=True))

    def _retry(
        self, found: Trials, labelled: Mapping[int, EpisodeRecord], update: int, rng: np.random.Generator
    ) -> None:
        """Go back into some of the first attempts, for pairs."""
        first = {
            i: labelled[id(tries[0].record)]
            for i, tries in enumerate(found.tries)
            if tries and id(tries[0].record) in labelled
        }
        turns = online.chosen(first, self._pairs, stream(self._config.seed, "pairs", update))
        online.play_pairs(self._policy, self._vector, found, turns, rng)

    def _sound(self, trials: Sequence[Sequence[Try]]) -> list[Try]:
        """The attempts to learn from: those before the first that must not be trained."""
        ledger = GroupLedger(self._config.group_size * (2 if self._pairs else self._plan.attempts))
        found = []
        for trial in trials:
            for attempt in itertools.takewhile(lambda t: t.record.error is None, trial):
                ledger.add(attempt.record)
                found.append(attempt)
        return found

    def close(self) -> None:
        """Close the environments, and what the judges hold open."""
        self._vector.close()
        self.judging.close()
