"""Who names the earliest wrong turn of a failed attempt: by role, by chance, from the start, or with full knowledge.

Each is a pure function of the attempt's record (and of its own settings), so that a retry is the same in every process.
A reflector may ask for two things, both optional attributes: ``needs_distance = True`` has the wrapper record the
environment's ``expert_distance()`` at every turn into ``segment.info``; ``outcome_text`` is a settable attribute that
the wrapper adds what the environment declares as telling the outcome to.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from triage_gym import registry
from triage_gym.errors import InputError
from triage_gym.judges.labelling import label_record
from triage_gym.protocols import Judge
from triage_gym.records import EpisodeRecord, Reflection, Segment

DISTANCE_BEFORE: Final = "expert_distance_before"
"""Key in ``segment.info``: turns that an expert would need before the segment, None when the goal is out of reach."""
DISTANCE_AFTER: Final = "expert_distance"
"""The same, after the segment."""


class RoleReflector:
    """The earliest turn that a judge calls R; the start of the attempt when it calls none so.

    What neither TRIAGE nor PivoARL has: the roles that give the credit also place the pivot.

    Args:
        judge: A name, a path or a config dict of a judge, or a judge.
        past: Turns that the judge sees before a segment.
        future: Turns that it sees after it.
    """

    def __init__(self, judge: str | Mapping[str, Any] | Judge = "rule", past: int = 5, future: int = 5) -> None:
        self._judge: Judge = registry.make("judges", judge) if isinstance(judge, str | Mapping) else judge
        self._past, self._future = past, future
        self.outcome_text: Sequence[str] = ()

    def reflect(self, record: EpisodeRecord) -> Reflection:
        """The first R of ``record``, labelled here unless it has its labels; its prefix is judged like the rest.

        Raises:
            InputError: If the judge could not label a single turn: that is no word for the start.
        """
        if not record.labels:
            record = label_record(
                replace(record, prefix_length=0), self._judge, self._past, self._future, self.outcome_text
            )
        for turn, label in enumerate(record.labels):
            if label.role == "R":
                why = f": {label.why}" if label.why else ""
                return Reflection(
                    f'Turn {turn + 1}, "{record.segments[turn].action}", was a step back{why}.', turn, "role"
                )
        if record.labels and all(label.role is None for label in record.labels):
            raise InputError(
                f"Expected a judge that labels a turn, got none: {record.labels[0].why or 'no reason given'}"
            )
        return Reflection("", 0, "role")


class RandomReflector:
    """Any turn with equal chance, decided by the attempt itself and ``seed``: the control for every other reflector.

    Args:
        seed: Another seed, another choice for the same attempt.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def reflect(self, record: EpisodeRecord) -> Reflection:
        """A turn of ``record`` by chance, without a remark."""
        what = [record.task_id, record.seed, record.attempt, [s.action for s in record.segments]]
        digest = hashlib.blake2b(json.dumps(what).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        rng = np.random.default_rng([self._seed, int.from_bytes(digest)])
        return Reflection("", int(rng.integers(len(record))), "random")


class RestartReflector:
    """The first turn, always: a full restart, as in LaMer (arXiv:2512.16848)."""

    def reflect(self, record: EpisodeRecord) -> Reflection:
        """Turn 0, without a remark."""
        return Reflection("", 0, "restart")


class OracleReflector:
    """The first turn that took the goal further away or out of reach, by the environment's own expert.

    Where no turn did (time ran out), the first that did not bring the goal nearer; the start when each did. An upper
    bound for reflectors that read text only.
    """

    needs_distance: Final = True

    def reflect(self, record: EpisodeRecord) -> Reflection:
        """The turn, from the distances in the segments' infos.

        Raises:
            InputError: If the record carries no distances, since its environment has no ``expert_distance``.
        """
        changes = [_change(segment) for segment in record.segments]
        worse = [turn for turn, change in enumerate(changes) if change > 0]
        idle = [turn for turn, change in enumerate(changes) if change == 0]
        if not (worse or idle):
            return Reflection("", 0, "oracle")
        turn = (worse or idle)[0]
        return Reflection(f'Turn {turn + 1}, "{record.segments[turn].action}", did not help.', turn, "oracle")


def _change(segment: Segment) -> float:
    """By how many turns the goal came nearer (negative) or moved away; infinite when it went out of reach."""
    if DISTANCE_AFTER not in segment.info or DISTANCE_BEFORE not in segment.info:
        raise InputError(
            'The "oracle" reflector expected segments with expert distances, got none; the environment must have a '
            "method expert_distance() that tells the turns to the goal, or None"
        )
    before, after = segment.info[DISTANCE_BEFORE], segment.info[DISTANCE_AFTER]
    if before is None or after is None:
        return math.inf if before is not None else 0.0
    return float(after) - float(before)


class CallableReflector:
    """Any function of a record that gives a Reflection, or just the turn.

    Args:
        function: Called with the record of the failed attempt.
    """

    def __init__(self, function: Callable[[EpisodeRecord], Any]) -> None:
        self._function = function

    def reflect(self, record: EpisodeRecord) -> Reflection:
        """What the function says.

        Raises:
            InputError: If it gives neither a Reflection nor a whole number.
        """
        answer = self._function(record)
        if isinstance(answer, Reflection):
            return answer
        if isinstance(answer, int | np.integer) and not isinstance(answer, bool):
            return Reflection("", int(answer), "callable")
        raise InputError(f"Expected a reflector to give a Reflection or a turn, got {answer!r}")
