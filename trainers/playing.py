"""Playing episodes side by side: the network sees all live episodes at once, an episode that is over costs nothing.

:func:`play` runs one episode in each member of a vector; :func:`go_on` plays episodes that have begun to their end, which
is what first attempts and retries (:mod:`triage_gym.trainers.trials`) have in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triage_gym.errors import InputError
from triage_gym.records import EpisodeRecord
from triage_gym.trainers.policy.protocol import Memory, Policy, RawSteps
from triage_gym.trainers.tasks import Start
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
    live = {
        index: Live(policy.begin(str(began[index].info.get("task", "")), began[index].observation), began[index].info)
        for index in vector.active
    }
    stretch = go_on(policy, vector, live, rng, keep=keep)
    records = [vector.final_infos[i].get("episode_record") for i in range(len(starts))]
    rows = [stretch.rows.get(i, []) for i in range(len(starts))]
    return Played(records, [began[i].info for i in range(len(starts))], stretch.steps, rows, stretch.turns)


class Live:
    """A running episode as the policy sees it.

    Args:
        memory: What the policy remembers of it, remarks included.
        info: The info that goes with the last observation.
        bare: The memory of the same episode without remarks, where somebody wants to know what they change.
    """

    __slots__ = ("admissible", "bare", "memory")

    def __init__(self, memory: Memory, info: Mapping[str, Any], bare: Memory | None = None) -> None:
        self.memory, self.bare = memory, bare
        self.admissible = _commands(info)

    def observe(self, command: str, observation: str, info: Mapping[str, Any]) -> None:
        """Take in the answer to ``command``."""
        self.memory.observe(command, observation)
        if self.bare is not None:
            self.bare.observe(command, observation)
        self.admissible = _commands(info)


def _commands(info: Mapping[str, Any]) -> Sequence[str]:
    try:
        commands: Sequence[str] = info["admissible_commands"]
    except KeyError:
        raise InputError(
            f'Expected info["admissible_commands"] from every step, got only the keys {sorted(map(str, info))}; list there '
            "what can be done now, after reset and after every step: the policy chooses among it"
        ) from None
    return commands


@dataclass(frozen=True, slots=True)
class Stretch:
    """What was played at one go."""

    steps: list[RawSteps]
    """The decisions, moment by moment; empty when they were not kept."""
    bare: list[RawSteps]
    """The same decisions as an agent without remarks would see them; empty unless every episode has a bare memory."""
    rows: dict[int, list[int]]
    """For each member the positions of its decisions in ``steps`` laid end to end, turn by turn."""
    turns: int


def go_on(
    policy: Policy,
    vector: TextVectorEnv,
    live: Mapping[int, Live],
    rng: np.random.Generator | None,
    *,
    keep: bool = True,
) -> Stretch:
    """Play the episodes of ``live`` to their ends.

    Args:
        policy: Chooses the commands.
        vector: Their environments, by index.
        live: The running episodes, all with a bare memory or none.
        rng: One number a decision; None for the likeliest command.
        keep: Whether to keep the decisions.
    """
    rows: dict[int, list[int]] = {index: [] for index in live}
    steps: list[RawSteps] = []
    bare: list[RawSteps] = []
    turns = 0
    playing = list(live)
    while playing:
        now = [live[i] for i in playing]
        admissible = [episode.admissible for episode in now]
        decision = policy.act([episode.memory for episode in now], admissible, rng)
        if keep:
            steps.append(decision.raw)
            without = [episode.bare for episode in now if episode.bare is not None]
            if without:
                bare.append(policy.act(without, admissible, None, forced=decision.commands).raw)
        results = vector.step(dict(zip(playing, decision.commands, strict=True)))
        still = []
        for row, (index, command) in enumerate(zip(playing, decision.commands, strict=True), turns):
            observation, _, terminated, truncated, info = results[index]
            rows[index].append(row)
            if not (terminated or truncated):
                live[index].observe(command, observation, info)
                still.append(index)
        turns += len(playing)
        playing = still
    return Stretch(steps, bare, rows, turns)
