"""Trials: after a failure a reflection, a retry from the pivot, and so on, all tasks side by side.

:func:`play_trials` plays first attempts together, then the retries of those that failed, wave by wave, so that retries can
be allotted over a whole batch. Only newly acted turns cost a decision and an environment turn; the prefix of a retry
comes back with the environment's state, and the policy's memory is told it again.

How the policy itself reflects: its pointer head chooses one of its own turns, and the reflection goes to the environment
as a language model's would, as ``{"remark": …, "pivot": …}``, to be read strictly there. Policy entropy and value
estimates go along as facts of the turns, for reflectors that want them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from triage_gym.records import POLICY, EpisodeRecord
from triage_gym.reflection.allocation import Allocation, allocate
from triage_gym.reflection.reflectors import remark_on
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.playing import Live, Stretch, go_on, play
from triage_gym.trainers.policy.heads import sample_pivots
from triage_gym.trainers.policy.protocol import Memory, Policy, RawSteps, Steps
from triage_gym.trainers.tasks import Start
from triage_gym.wrappers import TextVectorEnv


@dataclass(frozen=True, slots=True)
class Plan:
    """How failures are retried."""

    attempts: int
    """Most attempts at a task."""
    signals: tuple[str, ...]
    """What the reflector needs of the policy: ``policy``, or facts out of ``entropy`` and ``value``; nothing for others."""
    retries: Allocation = "all"
    distill: bool = False
    """Keep the decisions of retries as an agent without remarks sees them."""
    measure: bool = False
    """Whether to measure what remarks change in the policy."""

    @classmethod
    def of(cls, config: TrainConfig, attempts: int, *, measure: bool = False) -> Plan:
        """The plan of a resolved config, with another number of attempts."""
        return cls(attempts, config.signals if attempts > 1 else (), config.retries, config.distill, measure)


@dataclass(frozen=True, slots=True)
class Choice:
    """A pivot that the policy chose among its own turns."""

    turns: list[int]
    """Positions of the decisions of the attempt reflected on, all its turns in order."""
    pivot: int
    log_prob: float


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt of a trial."""

    record: EpisodeRecord
    turns: list[int]
    """Position of the decision of each turn; those of the prefix were made in earlier attempts."""
    choice: Choice | None = None
    """How the policy chose the pivot that this attempt began at; None when another reflector did."""

    @property
    def rows(self) -> list[int]:
        """Positions of the decisions that were made in this attempt."""
        return self.turns[self.record.prefix_length :]


@dataclass(slots=True)
class Trials:
    """What :func:`play_trials` played."""

    tries: list[list[Try]]
    """For each start its attempts in order; empty where the environment broke the first."""
    infos: list[dict[str, Any]]
    """What the first reset of each said."""
    steps: list[RawSteps]
    """The decisions, to be gathered; empty when they were not kept."""
    turns: int
    """Environment turns that were generated."""
    broken: int = 0
    """Attempts that their environment broke."""
    refused: int = 0
    """Retries that were not played, since their pivot did not pass the check."""
    checks: dict[tuple[int, int], str] = field(default_factory=dict)
    """By start and attempt, what the test of a retry's pivot said; only where pivots are tested."""
    bits: dict[tuple[int, int], float] = field(default_factory=dict)
    """By start and attempt, the Kullback–Leibler divergence (bits) of the policy that read the remarks from the one that
    did not, summed over the attempt's newly acted turns; only where it was asked for."""


def play_trials(
    policy: Policy,
    vector: TextVectorEnv,
    starts: Sequence[Start],
    rng: np.random.Generator | None,
    plan: Plan,
    *,
    keep: bool = True,
) -> Trials:
    """Play a trial from each of ``starts``.

    Args:
        policy: Acts, and reflects where the plan says so.
        vector: Has at least as many members as there are starts, each with a ``PivotRetryWrapper`` when the plan has more
            than one attempt; the last infos must carry ``episode_record``.
        starts: Seed and options of each trial.
        rng: Draws commands and pivots; None for the likeliest.
        plan: How failures are retried.
        keep: Whether to keep the decisions for learning.
    """
    keep = keep or bool(plan.signals)
    first = play(policy, vector, starts, rng, keep=keep)
    tries = [[] if r is None else [Try(r, turns)] for r, turns in zip(first.records, first.rows, strict=True)]
    found = Trials(tries, first.infos, first.steps, first.turns, sum(r is None for r in first.records))
    open_trials = {i for i, own_tries in enumerate(tries) if own_tries}
    for _ in range(1, plan.attempts):
        asked = _to_retry(found.tries, open_trials, plan)
        if not asked:
            break
        choices, options = _reflect(policy, found, asked, plan, rng)
        began = vector.reset({i: (None, options[i]) for i in asked})
        live = {}
        for i in asked:
            info = began[i].info
            if "env_error" in info:
                found.broken += 1
            elif plan.retries == "verified" and info["pivot_check"] == "failed":
                found.refused += 1
            else:
                if info["pivot_check"] != "none":
                    found.checks[i, int(info["attempt"])] = str(info["pivot_check"])
                live[i] = _resumed(policy, found.tries[i], info, began[i].observation, plan)
                continue
            open_trials.discard(i)
        stretch = go_on(policy, vector, live, rng, keep=keep or plan.measure)
        open_trials -= _enter(policy, vector, found, stretch, choices, plan)
    return found


def _to_retry(tries: Sequence[Sequence[Try]], open_trials: set[int], plan: Plan) -> list[int]:
    """The trials whose last attempt is to be retried; whether a pivot passed its check is only known once it was tried."""
    records = [(i, t.record) for i, trial in enumerate(tries) for t in trial]
    how: Allocation = "differ" if plan.retries == "differ" else "all"
    chosen = allocate([record for _, record in records], how, attempts=plan.attempts)
    return [records[at][0] for at in chosen if records[at][0] in open_trials]


def _reflect(
    policy: Policy, found: Trials, asked: Sequence[int], plan: Plan, rng: np.random.Generator | None
) -> tuple[dict[int, Choice], dict[int, dict[str, Any]]]:
    """What each retry is begun with: the policy's own choice of a pivot, or facts for the reflector of the environment."""
    latest = {i: found.tries[i][-1] for i in asked}
    if not plan.signals:
        return {}, {i: {"retry": True} for i in asked}
    steps = policy.gather(found.steps)
    if POLICY not in plan.signals:
        tell = {"entropy": policy.entropies, "value": policy.values}
        numbers = {name: tell[name](steps).detach().cpu().tolist() for name in plan.signals}
        facts = {i: [{name: numbers[name][row] for name in numbers} for row in t.turns] for i, t in latest.items()}
        return {}, {i: {"retry": True, "turn_facts": facts[i]} for i in asked}
    with torch.no_grad():
        log_probs = policy.pivot_log_probs(steps, padded([latest[i].turns for i in asked]))
    pivots, taken = sample_pivots(log_probs, rng)
    choices, options = {}, {}
    for i, pivot, log_prob in zip(asked, pivots.tolist(), taken.tolist(), strict=True):
        choices[i] = Choice(latest[i].turns, pivot, log_prob)
        remark = remark_on(latest[i].record, pivot, "was the earliest wrong turn.")
        options[i] = {"reflection": json.dumps({"remark": remark, "pivot": pivot})}
    return choices, options


def _resumed(policy: Policy, tries: Sequence[Try], info: Mapping[str, Any], observation: str, plan: Plan) -> Live:
    """A retry at its beginning: the memory has been told the prefix again, and every remark of the trial."""
    parent = tries[-1].record
    start = parent.start_observation if info["prefix_length"] else observation

    def told() -> Memory:
        memory = policy.begin(str(info.get("task", "")), start)
        for segment in parent.segments[: info["prefix_length"]]:
            memory.observe(segment.action, segment.next_observation)
        return memory

    memory = told()
    remarks = [
        (t.record.reflection.remark, t.record.reflection.pivot) for t in tries if t.record.reflection is not None
    ]
    remarks.append((info["reflection"], info["reflection_pivot"]))
    for earlier, (remark, pivot) in zip(tries, remarks, strict=True):
        if remark:
            segment = earlier.record.segments[min(max(pivot, 0), len(earlier.record) - 1)]
            memory.advise(remark, segment.observation, segment.action)
    return Live(memory, info, told() if plan.distill or plan.measure else None)


def _enter(
    policy: Policy, vector: TextVectorEnv, found: Trials, stretch: Stretch, choices: Mapping[int, Choice], plan: Plan
) -> set[int]:
    """Add a wave of retries to what was found; the trials whose environment broke."""
    gain = _divergence(policy, stretch) if plan.measure and stretch.turns else None
    broken = entered(vector, found, stretch, choices, bare=plan.distill)
    if gain is not None:
        for i in stretch.rows.keys() - broken:
            found.bits[i, found.tries[i][-1].record.attempt] = float(gain[stretch.rows[i]].sum())
    return broken


def entered(
    vector: TextVectorEnv,
    found: Trials,
    stretch: Stretch,
    choices: Mapping[int, Choice] | None = None,
    *,
    bare: bool = False,
) -> set[int]:
    """Add the retries of a stretch to what was found.

    Args:
        vector: Where they were played.
        found: What each of them goes back into, and where it is added.
        stretch: They.
        choices: How the policy chose where they begin, where it did.
        bare: Whether their decisions are kept as an agent without remarks sees them.

    Returns:
        The trials whose environment broke.
    """
    base = sum(len(part.choices) for part in found.steps)
    broken = set()
    for i, rows in stretch.rows.items():
        record = vector.final_infos[i].get("episode_record")
        if record is None:
            found.broken += 1
            broken.add(i)
            continue
        parent = found.tries[i][-1]
        turns = parent.turns[: record.prefix_length] + [base + row for row in rows]
        found.tries[i].append(Try(record, turns, (choices or {}).get(i)))
    found.steps += stretch.bare if bare else stretch.steps
    found.turns += stretch.turns
    return broken


def _divergence(policy: Policy, stretch: Stretch) -> NDArray[np.float64]:
    """``(rows,)`` KL of the policy with remarks from the same policy without, in bits."""
    with torch.no_grad():
        read = policy.log_probs(policy.gather(stretch.steps)).double()
        bare = policy.log_probs(policy.gather(stretch.bare)).double()
    probs = read.exp()
    bits: NDArray[np.float64] = ((probs * (read - bare)).sum(1) / np.log(2.0)).cpu().numpy()
    return bits


def padded(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """``(M, T)`` int64 of lists of unequal length, padded with -1."""
    out = torch.full((len(rows), max(map(len, rows), default=0)), -1, dtype=torch.int64)
    for k, row in enumerate(rows):
        out[k, : len(row)] = torch.tensor(row, dtype=torch.int64)
    return out


@dataclass(frozen=True, slots=True)
class Reflections:
    """The policy's own reflections of a batch, ``M`` of them, for learning."""

    turns: torch.Tensor
    """``(M, T)`` int64, rows of the batch's steps, the whole attempt reflected on; padded with -1."""
    choices: torch.Tensor
    """``(M,)`` int64, the turn chosen."""
    old_log_probs: torch.Tensor
    """``(M,)`` float32, its log-probability under the policy that chose."""
    records: list[int]
    """``M`` positions of the records that began with them."""

    def __len__(self) -> int:
        return len(self.records)


def reflections_of(tries: Sequence[Try], place: Mapping[int, int]) -> Reflections:
    """The choices of ``tries``.

    Args:
        tries: The attempts of a batch, in the order of its records.
        place: Where each decision stands in the batch's steps.
    """
    made = [(n, t.choice) for n, t in enumerate(tries) if t.choice is not None]
    return Reflections(
        padded([[place[row] for row in choice.turns] for _, choice in made]),
        torch.tensor([choice.pivot for _, choice in made], dtype=torch.int64),
        torch.tensor([choice.log_prob for _, choice in made], dtype=torch.float32),
        [n for n, _ in made],
    )


def gathered(policy: Policy, found: Trials, tries: Sequence[Try]) -> tuple[Steps, dict[int, int]]:
    """The decisions of ``tries`` as one :class:`Steps`, newly acted turns only, attempt by attempt; and where each went."""
    order = np.array([row for t in tries for row in t.rows], np.int64)
    steps = policy.gather(found.steps)
    if len(order) < len(steps) or (order[1:] < order[:-1]).any():
        steps = steps.take(torch.from_numpy(order).to(steps.choices.device))
    return steps, {int(row): at for at, row in enumerate(order)}
