"""Who names the earliest wrong turn by what the policy itself knew: where it doubted most, where it lost most hope.

Both read numbers that only the policy has, from ``segment.info``. Who retries hands them over with
``reset(options={"turn_facts": facts})``: one mapping a turn of the failed attempt, its prefix included.
"""

from __future__ import annotations

import itertools
import math
from numbers import Real
from typing import Final

from triage_gym.errors import InputError
from triage_gym.records import EpisodeRecord, Reflection
from triage_gym.reflection.reflectors import remark_on

ENTROPY: Final = "entropy"
"""Key in ``segment.info``: entropy of the policy at the turn, in nats."""
VALUE: Final = "value"
"""Key in ``segment.info``: the outcome that the policy's value head expected before the turn."""


class EntropyReflector:
    """The turn at which the policy was least sure of its action; of several, the first.

    Branching where the entropy is high is what an independent comparison found no worse than reflected pivots.
    """

    needs_facts: Final = (ENTROPY,)

    def reflect(self, record: EpisodeRecord) -> Reflection:
        """The turn of highest ``info["entropy"]``.

        Raises:
            InputError: If a turn has no such number, or there is no turn.
        """
        doubts = _numbers(record, ENTROPY)
        turn = doubts.index(max(doubts))
        return Reflection(
            remark_on(record, turn, f"was the least sure one (entropy {doubts[turn]:.2f})."), turn, "entropy"
        )


class ValueReflector:
    """The turn that cost the policy most of its hope: the largest drop of its value from one turn to the next.

    What follows the last turn of an attempt that the environment itself ended is its score; one that was cut off has
    nothing after its last turn. The start when the value never dropped; of several equal drops, the first.
    """

    needs_facts: Final = (VALUE,)

    def reflect(self, record: EpisodeRecord) -> Reflection:
        """The turn after which ``info["value"]`` fell most.

        Raises:
            InputError: If a turn has no such number, or there is no turn.
        """
        values = _numbers(record, VALUE)
        if record.terminated:
            values.append(record.score)
        drops = [before - after for before, after in itertools.pairwise(values)]
        largest = max(drops, default=0.0)
        if largest <= 0:
            return Reflection("", 0, "value")
        turn = drops.index(largest)
        told = f"cost most: the value fell from {values[turn]:.2f} to {values[turn + 1]:.2f}."
        return Reflection(remark_on(record, turn, told), turn, "value")


def _numbers(record: EpisodeRecord, key: str) -> list[float]:
    if not record.segments:
        raise InputError(f"Expected an attempt with turns for the {key!r} reflector, got none")
    found = []
    for segment in record.segments:
        number = segment.info.get(key)
        if isinstance(number, bool) or not isinstance(number, Real) or not math.isfinite(number):
            raise InputError(
                f"Expected a finite number {key!r} in the info of each turn, got {number!r:.80} at turn {segment.index}; "
                f'pass turn_facts, as in reset(options={{"turn_facts": [{{"{key}": 0.7}}, …]}}), one mapping a turn'
            )
        found.append(float(number))
    return found
