"""One round of counterfactual measuring: tasks are played by a group each, turns are drawn, and each is gone back to.

A round depends on its number and the seed alone, so rounds may be played anywhere and in any order
(:func:`triage_gym.trainers.counterfactual.measure`). The environments of a round serve the next one too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

import gymnasium as gym
import numpy as np

from triage_gym.credit.outcome import deviations, grouped, outcome_advantages
from triage_gym.errors import InputError
from triage_gym.facts import FactName
from triage_gym.records import EpisodeRecord
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.playing import Live, play
from triage_gym.trainers.policy.protocol import Memory
from triage_gym.trainers.randomness import stream
from triage_gym.trainers.tasks import Start, Tasks, make_env
from triage_gym.windows import outcome_text_of
from triage_gym.wrappers import PivotRetryWrapper, SegmentCreditWrapper, StateFactsWrapper, TextVectorEnv

FAR: Final = 500_000
"""First seed of calibration tasks that are named by seed: beyond training's, before evaluation's."""
_TASKS: Final = 1000
"""Tasks to draw from."""
_MANY: Final = 1_000_000_000
Sent = Sequence[str]
Lost = Literal["refused", "broken"]
"""Why a turn was not measured: its state did not come back verified, or the environment failed on the way."""


class Commands(Protocol):
    """What a player decided."""

    @property
    def commands(self) -> list[str]:
        """The command to send, an episode each."""
        ...


class Player(Protocol):
    """Whoever's continuations are played: a :class:`~triage_gym.trainers.policy.protocol.Policy`, or one of your own."""

    def begin(self, task: str, observation: str) -> Memory:
        """The memory of a new episode."""
        ...

    def act(
        self,
        memories: Sequence[Any],
        admissible: Sequence[Sent],
        rng: np.random.Generator | None,
        forced: Sent | None = None,
    ) -> Commands:
        """Choose a command for each live episode, one number of ``rng`` an episode; ``forced`` are taken instead."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How much is measured.

    Raises:
        InputError: For a number below its least.
    """

    turns: int = 100_000
    """Environment turns to spend; the round that passes it is the last."""
    rollouts: int = 4
    """Continuations for Q and as many for V, a turn. More: less noise in each A*, fewer turns for the same budget."""
    groups: int = 8
    """Tasks a round."""
    group_size: int = 8
    """Episodes a task, whose outcomes give A_i."""
    segments: int = 64
    """Turns drawn a round, among all of its episodes."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (
            ("turns", 1),
            ("rollouts", 2),
            ("groups", 1),
            ("group_size", 2),
            ("segments", 1),
            ("seed", 0),
        ):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise InputError(f"Expected `{name}` to be an integer of at least {least}, got {value!r}")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn that was measured."""

    record: EpisodeRecord
    """The episode it was taken in."""
    step: int
    """Which of its turns."""
    advantage: float
    """A_i: the episode's outcome in its group."""
    spread: float
    """Population deviation of the outcomes of its group."""
    own: tuple[float, ...]
    """Outcomes of continuations that began with its action."""
    drawn: tuple[tuple[str, float], ...]
    """First action and outcome of continuations by the policy alone."""

    @property
    def q(self) -> float:
        """Q(s, a)."""
        return float(np.mean(self.own))

    @property
    def v(self) -> float:
        """V(s)."""
        return float(np.mean([outcome for _, outcome in self.drawn]))

    @property
    def a_star(self) -> float:
        """Q - V."""
        return self.q - self.v

    @property
    def error(self) -> float:
        """Standard error of ``a_star``: of a difference of independent means."""
        values = [outcome for _, outcome in self.drawn]
        return float(np.sqrt(np.var(self.own, ddof=1) / len(self.own) + np.var(values, ddof=1) / len(values)))


@dataclass(slots=True)
class Round:
    """What one round measured."""

    turns: list[Turn] = field(default_factory=list)
    spent: int = 0
    """Environment turns generated, those of the episodes included."""
    episodes: int = 0
    """Episodes that turns were drawn from."""
    successes: int = 0
    """How many of these succeeded."""
    refused: int = 0
    """Turns whose state did not come back verified; they are not in ``turns``."""
    broken: int = 0
    """Turns with a continuation in which the environment failed; they are not in ``turns`` either."""
    noisy: bool = False
    """Whether the environment draws random numbers in its steps, so that A* is conditional on its noise."""


class Rounds:
    """Plays rounds, each by its number.

    Args:
        config: The environment, resolved.
        split: Split of the tasks, None where the environment knows none.
        player: Plays the episodes and all continuations.
        sampling: How much.
        facts: What to measure of each turn, for judges that need it.
    """

    def __init__(
        self,
        config: TrainConfig,
        split: str | None,
        player: Player,
        sampling: Sampling,
        facts: Sequence[FactName] = (),
    ) -> None:
        self._player, self._sampling = player, sampling
        self._tasks = Tasks(config, split, _TASKS, FAR)
        self._orders: dict[int, list[int]] = {}

        def make() -> gym.Env[Any, Any]:
            env: gym.Env[Any, Any] = PivotRetryWrapper(make_env(config, split), max_attempts=_MANY, after="any")
            if facts:
                env = StateFactsWrapper(env, facts)
            return SegmentCreditWrapper(env, credit="grpo")

        self._vector = TextVectorEnv(make, sampling.groups * sampling.group_size)
        self.outcome_text = outcome_text_of(self._vector.metadata)
        """Literals that tell the outcome."""

    def play(self, number: int) -> Round:
        """Play and measure round ``number``."""
        rng = stream(self._sampling.seed, "counterfactual", number)
        found = Round()
        played = play(self._player, self._vector, self._starts(number), rng, keep=False)  # type: ignore[arg-type]
        found.spent = played.turns
        found.noisy = any(env is not None and env.get_wrapper_attr("drew") for env in self._vector.envs)
        records = {i: r for i, r in enumerate(played.records) if r is not None and r.error is None}
        found.episodes, found.successes = len(records), sum(r.success for r in records.values())
        if records:
            _measure(self._player, self._vector, records, self._sampling, rng, found)
        return found

    def _starts(self, number: int) -> list[Start]:
        starts: list[Start] = []
        for place in range(number * self._sampling.groups, (number + 1) * self._sampling.groups):
            task = self._task(place)
            seed, options = self._tasks.start(task)
            group = {**options, "group_id": f"{place}:{task}"}
            starts += [(seed, {**group, "trial_id": member}) for member in range(self._sampling.group_size)]
        return starts

    def _task(self, place: int) -> int:
        """The task at a place in the order of all rounds: every task once before one comes again."""
        epoch, at = divmod(place, len(self._tasks))
        if epoch not in self._orders:
            rng = stream(self._sampling.seed, "counterfactual tasks", epoch)
            self._orders[epoch] = rng.permutation(len(self._tasks)).tolist()
        return self._orders[epoch][at]

    def close(self) -> None:
        """Close the environments."""
        self._vector.close()


def drawn_evenly(lengths: Sequence[int], count: int, rng: np.random.Generator) -> list[list[int]]:
    """``count`` of all positions of some sequences, each with the same chance, spread over the sequences.

    Each sequence gives its share of the positions rounded at random up or down, so that none gives many and the chance
    of every position is ``count / sum(lengths)``, or 1 where there are not so many.

    Args:
        lengths: Of the sequences.
        count: How many positions to draw; the number drawn may differ by rounding.
        rng: Draws.

    Returns:
        For each sequence its positions, the last first.
    """
    chance = min(1.0, count / max(sum(lengths), 1))
    shares = np.array([length * chance for length in lengths])
    # One number for all roundings: their sum is then the count, up to one.
    totals = np.floor(np.concatenate([[0.0], np.cumsum(shares)]) + rng.random())
    return [
        sorted(rng.choice(length, size=min(int(n), length), replace=False).tolist(), reverse=True)
        for length, n in zip(lengths, np.diff(totals), strict=True)
    ]


def _measure(
    player: Player,
    vector: TextVectorEnv,
    records: Mapping[int, EpisodeRecord],
    sampling: Sampling,
    rng: np.random.Generator,
    found: Round,
) -> None:
    """Measure turns of the episodes that the members have just played."""
    members = list(records)
    advantages = outcome_advantages([records[i] for i in members])
    scores, group, count = grouped([records[i] for i in members])
    spreads = deviations(scores, group, count)[group]
    drawn = drawn_evenly([len(records[i]) for i in members], sampling.segments, rng)
    # The last turn first: a member that went back to a turn still has every turn before it.
    jobs = {
        i: [(step, own) for step in steps for own in [True, False] * sampling.rollouts]
        for i, steps in zip(members, drawn, strict=True)
    }
    own: dict[tuple[int, int], list[float]] = {}
    others: dict[tuple[int, int], list[tuple[str, float]]] = {}
    lost: dict[tuple[int, int], Lost] = {}
    while any(jobs.values()):
        wave = {i: own_jobs.pop(0) for i, own_jobs in jobs.items() if own_jobs}
        for i, outcome in _continue(player, vector, records, wave, rng, found).items():
            step, forced = wave[i]
            if isinstance(outcome, str):
                # The member stands elsewhere now: its earlier turns cannot be gone back to either.
                lost |= dict.fromkeys([(i, step), *((i, earlier) for earlier, _ in jobs[i])], outcome)
                jobs[i] = []
            elif forced:
                own.setdefault((i, step), []).append(outcome.score)
            else:
                action = outcome.segments[step].action
                others.setdefault((i, step), []).append((action, outcome.score))
    reasons = list(lost.values())
    found.refused, found.broken = reasons.count("refused"), reasons.count("broken")
    for at, (i, steps) in enumerate(zip(members, drawn, strict=True)):
        for step in steps:
            if (i, step) not in lost:
                key = (i, step)
                known = float(advantages[at]), float(spreads[at])
                found.turns.append(Turn(records[i], step, *known, tuple(own[key]), tuple(others[key])))


def _continue(
    player: Player,
    vector: TextVectorEnv,
    records: Mapping[int, EpisodeRecord],
    wave: Mapping[int, tuple[int, bool]],
    rng: np.random.Generator,
    found: Round,
) -> dict[int, EpisodeRecord | Lost]:
    """Play one continuation in each member of ``wave``; instead of its record why there is none."""
    began = vector.reset({i: (None, {"retry": step}) for i, (step, _) in wave.items()})
    out: dict[int, EpisodeRecord | Lost] = dict.fromkeys(wave, "broken")
    live: dict[int, Live] = {}
    forced: dict[int, str] = {}
    for i, (step, own) in wave.items():
        info = began[i].info
        if "env_error" in info:
            continue
        if info["prefix_length"] != step or info["restore_status"] != "verified":
            out[i] = "refused"
            continue
        live[i] = told(player, records[i], step, info, began[i].observation)
        if own:
            forced[i] = records[i].segments[step].action
    playing = list(live)
    first = True
    while playing:
        now = [live[i] for i in playing]
        decided = player.act([e.memory for e in now], [e.admissible for e in now], rng).commands
        commands = [forced.get(i, c) for i, c in zip(playing, decided, strict=True)] if first else decided
        first = False
        results = vector.step(dict(zip(playing, commands, strict=True)))
        found.spent += len(playing)
        still = []
        for i, command in zip(playing, commands, strict=True):
            observation, _, terminated, truncated, info = results[i]
            if not (terminated or truncated):
                live[i].observe(command, observation, info)
                still.append(i)
                continue
            record = info.get("episode_record")
            if record is not None and record.error is None:
                out[i] = record
        playing = still
    return out


def told(player: Player, record: EpisodeRecord, step: int, info: Mapping[str, Any], observation: str) -> Live:
    """An episode at its turn ``step``: the memory has been told what went before."""
    memory = player.begin(str(info.get("task", "")), record.start_observation if step else observation)
    for segment in record.segments[:step]:
        memory.observe(segment.action, segment.next_observation)
    return Live(memory, info)
