"""What an action was worth, measured: go back to where it was taken, and play on with and without it.

For a turn with state s and action a, ``Q(s, a)`` is the mean outcome of continuations that begin with a, ``V(s)`` that of
continuations whose first action is drawn from the policy too, and ``A*(s, a) = Q - V``. Both are means of independent
continuations by the policy, each from the restored and verified state, so A* is unbiased and its standard error is known.
A turn is drawn whatever came of its episode, and all turns of a round have the same chance.

What it leaves to you: the environment's own randomness. A restored state brings its generator back, so every continuation
from it sees the same noise, and A* is conditional on it; where the environment draws in its steps, :attr:`Measured.noisy`
says so for generators of Gymnasium. (Of the built-in environments none does.) Turns with a continuation in which the
environment failed are left out and counted.
"""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from triage_gym import registry
from triage_gym.errors import InputError, TrainingError
from triage_gym.facts import FactName
from triage_gym.trainers.config import HELD_OUT, TrainConfig
from triage_gym.trainers.counterfactual_rounds import FAR, Player, Round, Rounds, Sampling, Turn

__all__ = ["Measured", "Player", "Sampling", "Turn", "calibration_split", "measure"]

CALIBRATION: Final = {
    "alfworld": "valid_seen",
    "minesweeper": "val",
    "searchqa": "val",
    "sokoban": "val",
    "textworld": "val",
    "webshop": "val",
}
"""Splits that nothing is trained on and, by default, nothing is tested on. Elsewhere seeds serve that neither uses."""


@dataclass(slots=True)
class Measured(Round):
    """What was measured, in all rounds together."""

    split: str = ""
    """Which tasks."""
    rounds: int = 0
    """How many."""
    outcome_text: tuple[str, ...] = ()
    """Literals that tell the outcome, to be kept from judges."""

    @property
    def success(self) -> float:
        """Share of the episodes that succeeded."""
        return self.successes / max(self.episodes, 1)

    @property
    def scale(self) -> float:
        """Root mean square of the groups' deviations, over turns whose group's outcomes differ; 1 where none does.

        A* divided by it is in the units of A_i.
        """
        spreads = np.array([t.spread for t in self.turns if t.spread > 0.0])
        return float(np.sqrt((spreads**2).mean())) if len(spreads) else 1.0


def calibration_split(config: TrainConfig) -> str | None:
    """The split to measure on, None for environments that know none; never that of the evaluation.

    Raises:
        InputError: For a built-in environment that is trained and evaluated on its calibration split.
    """
    config = config.resolved()
    name = registry.env_name(config.env)
    split = CALIBRATION.get(name, config.split)
    if split != config.eval_split:
        return split
    if name in HELD_OUT and config.split == config.eval_split:
        raise InputError(
            f"Expected tasks that nothing is tested on to measure with, got {split!r} for training and evaluation alike; "
            "choose another `eval_split`"
        )
    return config.split


def measure(
    config: TrainConfig,
    player: Player,
    sampling: Sampling,
    progress: Callable[[Measured], None] | None = None,
    *,
    facts: Sequence[FactName] = (),
    workers: int = 1,
) -> Measured:
    """Measure A* of turns that ``player`` takes in the environment of ``config``.

    Args:
        config: The environment, its arguments and time limit; what it says of credit does not count.
        player: Plays the episodes and all continuations.
        sampling: How much.
        progress: Called after each round.
        facts: What to measure of each turn, for judges that need it (:func:`triage_gym.judges.nesting.facts_needed`).
        workers: Processes that play rounds; more than one needs a player that can be pickled, and what is measured does
            not depend on their number. The rounds begun beyond the budget are thrown away.

    Raises:
        InputError: For an environment that cannot be played by choice among commands, or a bad ``workers``.
        TrainingError: When no turn could be measured.
    """
    if type(workers) is not int or workers < 1:
        raise InputError(f"Expected `workers` to be an integer of at least 1, got {workers!r}")
    config = config.resolved()
    split = calibration_split(config)
    found = Measured(split=split or f"seeds from {FAR}")
    given = (config, split, player, sampling, tuple(facts))
    played = _here(*given) if workers == 1 else _elsewhere(workers, *given)
    try:
        for outcome_text, own in played:
            found.outcome_text = outcome_text
            found.rounds += 1
            found.turns += own.turns
            found.spent += own.spent
            found.episodes += own.episodes
            found.refused += own.refused
            found.broken += own.broken
            found.noisy |= own.noisy
            found.successes += own.successes
            if progress is not None:
                progress(found)
            if found.spent >= sampling.turns:
                break
    finally:
        played.close()
    if not found.turns:
        raise TrainingError(
            f"Expected to measure at least one turn in {found.spent} turns, got none: {found.refused} states did not come "
            f"back verified, and the environment failed on {found.broken}; triage-gym envs check tells what the "
            "environment's state leaves out"
        )
    return found


_Played = Generator[tuple[tuple[str, ...], Round], None, None]
"""Literals that tell the outcome, and a round; round after round without end."""


def _here(
    config: TrainConfig, split: str | None, player: Player, sampling: Sampling, facts: tuple[FactName, ...]
) -> _Played:
    """Rounds played in this process."""
    torch.set_num_threads(config.threads)
    rounds = Rounds(config, split, player, sampling, facts)
    try:
        for number in itertools.count():
            yield rounds.outcome_text, rounds.play(number)
    finally:
        rounds.close()


def _elsewhere(workers: int, *given: Any) -> _Played:
    """The same rounds in the same order, played by ``workers`` processes ahead of who takes them."""
    with ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(pickle.dumps(given),)
    ) as pool:
        ahead: deque[Future[tuple[tuple[str, ...], Round]]] = deque()
        try:
            for number in itertools.count():
                while len(ahead) < workers:
                    ahead.append(pool.submit(_play, number + len(ahead)))
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


_given: tuple[Any, ...] = ()
_rounds: Rounds | None = None


def _begin(given: bytes) -> None:
    """In a worker process: keep what rounds are made of. They are made by the first one, so that errors come back.

    As bytes, since torch hands tensors to processes in shared memory: all would write into one policy's caches.
    """
    global _given
    _given = pickle.loads(given)  # noqa: S301 - our own parent's


def _play(number: int) -> tuple[tuple[str, ...], Round]:
    """In a worker process: play a round."""
    global _rounds
    if _rounds is None:
        torch.set_num_threads(_given[0].threads)
        _rounds = Rounds(*_given)
    return _rounds.outcome_text, _rounds.play(number)
