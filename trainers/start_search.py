"""How many demonstrations a start needs: as few as bring its clone into a range of success, on tasks nothing is tested on.

GRPO learns from groups whose outcomes differ, so a start must sometimes succeed; one that mostly does leaves credit rules
nothing to differ in. :func:`find_start` clones ever more noisy demonstrations until the clone's success is within the range:
numbers grow by some two fifths (:data:`LADDER`), and where success jumps across the range they are halved between.
Success need not grow with every demonstration, so the number found is the smallest of those that were tried.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final

from triage_gym.errors import InputError
from triage_gym.statistics import Interval, wilson
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.counterfactual import calibration_split
from triage_gym.trainers.counterfactual_rounds import FAR
from triage_gym.trainers.evaluation import Evaluator
from triage_gym.trainers.policy.text_scorer import TextScorer
from triage_gym.trainers.pretraining import make_start

LADDER: Final = (0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 30, 40, 60, 85, 120, 170, 240)
"""Numbers of demonstrations that are tried, upwards."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A number of demonstrations and what its clone is worth."""

    demos: int
    successes: int
    tasks: int

    @property
    def rate(self) -> Interval:
        """Success with its 95 % Wilson interval."""
        return wilson(self.successes, self.tasks)

    def to_json(self) -> dict[str, Any]:
        """As ``pretrain.json`` holds it."""
        rate = self.rate
        return {**dataclasses.asdict(self), "success": rate.estimate, "low": rate.low, "high": rate.high}


@dataclass(frozen=True, slots=True)
class Search:
    """What :func:`find_start` found."""

    config: TrainConfig
    """The run with ``demos`` set."""
    policy: TextScorer
    facts: dict[str, Any]
    """For ``pretrain.json``: of the start, and the search under ``target``."""
    tried: tuple[Tried, ...]
    """In the order of the numbers of demonstrations."""


def check_target(target: tuple[float, float]) -> tuple[float, float]:
    """The range; raises InputError unless ``0 <= low < high <= 1``."""
    low, high = target
    if not 0.0 <= low < high <= 1.0:
        raise InputError(
            f"Expected a target of two shares of success, from 0 to 1 and the lower first, such as 0.05 0.15, got {low} {high}"
        )
    return low, high


def find_start(config: TrainConfig, target: tuple[float, float] = (0.05, 0.15), tasks: int = 300) -> Search:
    """The start of the smallest number of demonstrations, of those tried, whose success lies within ``target``.

    Args:
        config: The run; its ``demos`` are not looked at. Demonstrations come from ``split``, and success is that of
            sampled commands on the calibration split, which nothing is trained or tested on (ALFWorld's ``valid_seen``,
            ``val`` elsewhere).
        target: Lowest and highest success, both included.
        tasks: Tasks a clone is measured on.

    Raises:
        InputError: If the start without demonstrations is above the range already, the most demonstrations stay below it,
            success jumps across it, or the environment has no expert or too weak a one.
    """
    low, high = check_target(target)
    config = config.resolved()
    measured = dataclasses.replace(
        config, eval_split=calibration_split(config), eval_tasks=tasks, eval_attempts=1, verify=None
    )
    # Where there are no splits the seeds alone keep what is tested on apart.
    evaluator = Evaluator(measured, None, first_seed=FAR)
    tried: dict[int, Tried] = {}

    def clone(demos: int) -> tuple[TextScorer, dict[str, Any], float]:
        policy, facts = make_start(dataclasses.replace(config, demos=demos))
        found = evaluator.run(policy)
        tried[demos] = Tried(demos, sum(t.success for t in found.tasks), len(found.tasks))
        return policy, facts, found.success

    try:
        below = -1
        waiting = list(LADDER)
        while waiting:
            demos = waiting.pop(0)
            policy, facts, success = clone(demos)
            if success < low:
                below = demos
            elif success <= high:
                rows = tuple(tried[n] for n in sorted(tried))
                told = {"range": [low, high], "split": measured.eval_split, "tried": [row.to_json() for row in rows]}
                return Search(dataclasses.replace(config, demos=demos), policy, {**facts, "target": told}, rows)
            elif demos - below > 1 and demos > 0:
                waiting = [(below + demos) // 2, demos] if (below + demos) // 2 not in tried else []
            else:
                waiting = []
        raise InputError(_why_not(config, tried, low, high))
    finally:
        evaluator.close()


def _why_not(config: TrainConfig, tried: dict[int, Tried], low: float, high: float) -> str:
    """What is wrong with a search that found nothing."""
    rates = ", ".join(f"{n}: {100 * tried[n].rate.estimate:.1f} %" for n in sorted(tried))
    head = f"Expected a start with {100 * low:g} to {100 * high:g} % success in {config.env}, got by demonstrations: {rates}; "
    if tried[0].rate.estimate > high:
        return (
            head + "a random start is above already: it needs no demonstrations, so leave `demos` at 0, or ask for more"
        )
    if all(row.rate.estimate < low for row in tried.values()):
        return head + (
            "it stays below: take less `demo_noise`, more `bc_epochs`, a longer `limit`, or other features (`policy`) that "
            "tell what the expert goes by"
        )
    return (
        head
        + "it jumps across: widen the target, or weaken single demonstrations by more `demo_noise` or fewer `bc_epochs`"
    )
