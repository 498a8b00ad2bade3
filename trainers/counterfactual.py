"""What an action was worth, measured: go back to where it was taken, and play on with and without it.

For a turn with state s and action a, ``Q(s, a)`` is the mean outcome of continuations that begin with a, ``V(s)`` that of
continuations whose first action is drawn from the policy too, and ``A*(s, a) = Q - V``. Both are means of independent
continuations by the policy, each from the restored and verified state, so A* is unbiased and its standard error is known.
A turn is drawn whatever came of its episode; all turns of a round have the same chance, so plain means over the sample
estimate means over turns.

What it leaves to you: the environment's own randomness. A restored state brings its generator back, so every continuation
from it sees the same noise, and A* is conditional on it; where the environment draws in its steps, :attr:`Measured.noisy`
says so. (Of the built-in environments none does.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from triage_gym import registry
from triage_gym.credit.outcome import outcome_advantages
from triage_gym.errors import InputError, TrainingError
from triage_gym.records import EpisodeRecord
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.playing import Live, play
from triage_gym.trainers.policy.protocol import Memory
from triage_gym.trainers.randomness import stream
from triage_gym.trainers.tasks import Start, Tasks, make_env
from triage_gym.windows import outcome_text_of
from triage_gym.wrappers import PivotRetryWrapper, SegmentCreditWrapper, TextVectorEnv

CALIBRATION: Final = {
    "alfworld": "valid_seen",
    "minesweeper": "val",
    "searchqa": "val",
    "sokoban": "val",
    "textworld": "val",
    "webshop": "val",
}
"""Splits that nothing is trained on and, by default, nothing is tested on. Elsewhere seeds serve that neither uses."""
_FAR: Final = 500_000
"""First seed of calibration tasks that are named by seed: beyond training's, before evaluation's."""
_TASKS: Final = 1000
"""Tasks to draw from."""
_MANY: Final = 1_000_000_000
Sent = Sequence[str]


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

    @property
    def others(self) -> tuple[float, ...]:
        """Outcomes of those continuations of the policy that began with another action."""
        own = self.record.segments[self.step].action
        return tuple(outcome for action, outcome in self.drawn if action != own)


@dataclass(slots=True)
class Measured:
    """What was measured."""

    turns: list[Turn] = field(default_factory=list)
    spent: int = 0
    """Environment turns generated, those of the episodes included."""
    episodes: int = 0
    """Episodes that turns were drawn from."""
    success: float = 0.0
    """Share of these that succeeded."""
    refused: int = 0
    """Turns whose state did not come back verified; they are not in ``turns``."""
    noisy: bool = False
    """Whether the environment draws random numbers in its steps, so that A* is conditional on its noise."""
    split: str = ""
    """Which tasks."""
    outcome_text: tuple[str, ...] = ()
    """Literals that tell the outcome, to be kept from judges."""

    @property
    def scale(self) -> float:
        """Root mean square of the groups' deviations, over turns whose group's outcomes differ; 1 where none does.

        A* divided by it is in the units of A_i.
        """
        spreads = np.array([t.spread for t in self.turns if t.spread > 0.0])
        return float(np.sqrt((spreads**2).mean())) if len(spreads) else 1.0


def calibration_split(config: TrainConfig) -> str | None:
    """The split to measure on, None for environments that know none; never that of the evaluation."""
    config = config.resolved()
    split = CALIBRATION.get(registry.env_name(config.env), config.split)
    return config.split if split == config.eval_split else split


def measure(
    config: TrainConfig, player: Player, sampling: Sampling, progress: Callable[[Measured], None] | None = None
) -> Measured:
    """Measure A* of turns that ``player`` takes in the environment of ``config``.

    Args:
        config: The environment, its arguments and time limit; what it says of credit does not count.
        player: Plays the episodes and all continuations.
        sampling: How much.
        progress: Called after each round.

    Raises:
        InputError: For an environment that cannot be played by choice among commands.
        TrainingError: When no turn could be measured.
    """
    config = config.resolved()
    torch.set_num_threads(config.threads)
    split = calibration_split(config)
    tasks = Tasks(config, split, _TASKS, _FAR)
    members = sampling.groups * sampling.group_size

    def make() -> SegmentCreditWrapper:
        env = PivotRetryWrapper(make_env(config, split), max_attempts=_MANY, after="any")
        return SegmentCreditWrapper(env, credit="grpo")

    vector = TextVectorEnv(make, members)
    found = Measured(split=split or f"seeds from {_FAR}", outcome_text=outcome_text_of(vector.metadata))
    rng = stream(sampling.seed, "counterfactual")
    won = 0
    try:
        number = 0
        order: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        while found.spent < sampling.turns:
            starts: list[Start] = []
            for _ in range(sampling.groups):
                if not len(order):
                    order = rng.permutation(len(tasks))
                task, order = int(order[0]), order[1:]
                seed, options = tasks.start(task)
                group = {**options, "group_id": f"{number}:{task}"}
                starts += [(seed, {**group, "trial_id": member}) for member in range(sampling.group_size)]
                number += 1
            played = play(player, vector, starts, rng, keep=False)  # type: ignore[arg-type]
            found.spent += played.turns
            found.noisy |= any(_draws(env) for env in vector.envs)
            records = {i: r for i, r in enumerate(played.records) if r is not None and r.error is None}
            found.episodes += len(records)
            won += sum(r.success for r in records.values())
            for turn in _round(player, vector, records, sampling, rng, found):
                found.turns.append(turn)
            found.success = won / max(found.episodes, 1)
            if progress is not None:
                progress(found)
    finally:
        vector.close()
    if not found.turns:
        raise TrainingError(
            f"Expected to measure at least one turn in {found.spent} turns, got none: {found.refused} states did not come "
            "back verified; triage-gym envs check tells what the environment's state leaves out"
        )
    return found


def _draws(env: Any) -> bool:
    """Whether the generator of an environment has moved since its episode began."""
    layer = env
    while layer is not None and not isinstance(layer, PivotRetryWrapper):
        layer = getattr(layer, "env", None)
    return layer is not None and layer.drew


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


def _round(
    player: Player,
    vector: TextVectorEnv,
    records: Mapping[int, EpisodeRecord],
    sampling: Sampling,
    rng: np.random.Generator,
    found: Measured,
) -> Iterator[Turn]:
    """Measure turns of the episodes that the members have just played."""
    members = list(records)
    advantages = outcome_advantages([records[i] for i in members])
    spreads = _spreads([records[i] for i in members])
    drawn = drawn_evenly([len(records[i]) for i in members], sampling.segments, rng)
    # The last turn first: a member that went back to a turn still has every turn before it.
    jobs = {
        i: [(step, own) for step in steps for own in [True, False] * sampling.rollouts]
        for i, steps in zip(members, drawn, strict=True)
    }
    own: dict[tuple[int, int], list[float]] = {}
    others: dict[tuple[int, int], list[tuple[str, float]]] = {}
    lost: set[tuple[int, int]] = set()
    while any(jobs.values()):
        wave = {i: own_jobs.pop(0) for i, own_jobs in jobs.items() if own_jobs}
        for i, outcome in _continue(player, vector, records, wave, rng, found).items():
            step, forced = wave[i]
            if outcome is None:  # the member stands somewhere else now: its earlier turns cannot be gone back to either
                lost |= {(i, step), *((i, later) for later, _ in jobs[i])}
                jobs[i] = []
            elif forced:
                own.setdefault((i, step), []).append(outcome.score)
            else:
                action = outcome.segments[step].action
                others.setdefault((i, step), []).append((action, outcome.score))
    found.refused += len(lost)
    for at, (i, steps) in enumerate(zip(members, drawn, strict=True)):
        for step in steps:
            if (i, step) not in lost:
                key = (i, step)
                yield Turn(
                    records[i], step, float(advantages[at]), float(spreads[at]), tuple(own[key]), tuple(others[key])
                )


def _continue(
    player: Player,
    vector: TextVectorEnv,
    records: Mapping[int, EpisodeRecord],
    wave: Mapping[int, tuple[int, bool]],
    rng: np.random.Generator,
    found: Measured,
) -> dict[int, EpisodeRecord | None]:
    """Play one continuation in each member of ``wave``; None where the point did not come back or the member broke."""
    began = vector.reset({i: (None, {"retry": step}) for i, (step, _) in wave.items()})
    out: dict[int, EpisodeRecord | None] = dict.fromkeys(wave)
    live: dict[int, Live] = {}
    forced: dict[int, str] = {}
    for i, (step, own) in wave.items():
        info = began[i].info
        if "env_error" in info or info["prefix_length"] != step or info["restore_status"] != "verified":
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
            out[i] = record if record is not None and record.error is None else None
        playing = still
    return out


def told(player: Player, record: EpisodeRecord, step: int, info: Mapping[str, Any], observation: str) -> Live:
    """An episode at its turn ``step``: the memory has been told what went before."""
    memory = player.begin(str(info.get("task", "")), record.start_observation if step else observation)
    for segment in record.segments[:step]:
        memory.observe(segment.action, segment.next_observation)
    return Live(memory, info)


def _spreads(records: Sequence[EpisodeRecord]) -> NDArray[np.float64]:
    """Population deviation of the scores of each record's group, shape ``(records,)``."""
    scores: dict[str, list[float]] = {}
    for record in records:
        scores.setdefault(record.group_id, []).append(record.score)
    return np.array([float(np.std(scores[record.group_id])) for record in records])
