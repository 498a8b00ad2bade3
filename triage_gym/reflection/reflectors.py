"""Who names the earliest wrong turn of a failed attempt: the policy, a judge, chance, nobody, or full knowledge.

Each is a pure function of the attempt's record (and of its own settings), so that a retry is the same in every process.
Pivots are indices from 0; remarks are for readers and say ``Turn k + 1, "its action", …``; one that found no turn at
fault has no remark and names the start.

A reflector may ask for things by optional attributes. ``needs_distance = True``: whoever retries records the
environment's :func:`~triage_gym.reflection.expert_distance` at every turn into ``segment.info``. ``needs_facts`` (names):
the caller gives them with ``reset(options={"turn_facts": …})``, one mapping a turn, which go there too. ``needs_words =
True``: the policy's own words are needed; they come with ``reset(options={"reflection": …})``, and a reflector that has
``guide(record, reflection)`` is shown what they say. ``outcome_text`` is settable: what the environment declares as
telling the outcome is added to it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from triage_gym import registry
from triage_gym.errors import InputError
from triage_gym.judges.labelling import label_record
from triage_gym.protocols import Judge, Reflector
from triage_gym.records import EpisodeRecord, Reflection, Segment

DISTANCE_BEFORE: Final = "expert_distance_before"
"""Key in ``segment.info``: turns that an expert would need before the segment, None when the goal is out of reach."""
DISTANCE_AFTER: Final = "expert_distance"
"""The same, after the segment."""


def remark_on(record: EpisodeRecord, turn: int, what: str) -> str:
    """``Turn 3, "its action", what``: how remarks name a turn, counted from 1 for readers."""
    return f'Turn {turn + 1}, "{record.segments[turn].action}", {what}'


class PolicyReflector:
    """The policy's own words, which it gives itself: ``reset(options={"reflection": text})``.

    The agent that acted also reflects, and its words are trained (PivoARL, arXiv:2607.03702). This class stands for that
    by name; there is nothing in it that could reflect.
    """

    needs_words: Final = True

    def reflect(self, record: EpisodeRecord) -> Reflection:
        """Never a reflection.

        Raises:
            InputError: Always, and says where the words go.
        """
        raise InputError(
            'Expected the policy\'s words on its failed attempt for the "policy" reflector, got a retry without them; give '
            'them with reset(options={"reflection": text}) or choose another reflector'
        )


class RoleReflector:
    """The earliest turn that a judge calls R; the start of the attempt when it calls none so.

    What neither TRIAGE nor PivoARL has: the roles that give the credit also place the pivot, alone or to check another
    reflector.

    Args:
        judge: A name, a path or a config dict of a judge, or a judge.
        past: Turns that the judge sees before a segment.
        future: Turns that it sees after it.
        checks: Another reflector (a name, a path, a config dict, or a reflector), which is asked first. Its pivot is
            moved to the earliest R when that comes earlier, and stays as it is otherwise.
    """

    def __init__(
        self,
        judge: str | Mapping[str, Any] | Judge = "rule",
        past: int = 5,
        future: int = 5,
        checks: str | Mapping[str, Any] | Reflector | Callable[[EpisodeRecord], Any] | None = None,
    ) -> None:
        self._judge: Judge = registry.make("judges", judge) if isinstance(judge, str | Mapping) else judge
        self._past, self._future = past, future
        self._other = None if checks is None else as_reflector(checks)
        self.outcome_text: Sequence[str] = ()
        self.needs_distance = bool(getattr(self._other, "needs_distance", False))
        self.needs_words = bool(getattr(self._other, "needs_words", False))
        self.needs_facts: Sequence[str] = tuple(getattr(self._other, "needs_facts", ()))

    def reflect(self, record: EpisodeRecord) -> Reflection:
        """The first R of ``record``, or what the other reflector says, guided by it.

        Labelled here unless it has its labels; its prefix is judged like the rest.

        Raises:
            InputError: If the judge could not label a single turn: that is no word for the start.
        """
        if self._other is None:
            return self._earliest(record) or Reflection("", 0, "role")
        hidden = getattr(self._other, "outcome_text", None)
        if hidden is not None:
            self._other.outcome_text = tuple(dict.fromkeys([*hidden, *self.outcome_text]))  # type: ignore[attr-defined]
        return self.guide(record, self._other.reflect(record))

    def guide(self, record: EpisodeRecord, found: Reflection) -> Reflection:
        """``found``, with its pivot at the earliest R where that comes earlier; its words and its remark stay in it.

        Raises:
            InputError: As :meth:`reflect`.
        """
        role = self._earliest(record)
        if role is None or role.pivot >= found.pivot:
            return found
        return replace(found, remark=f"{role.remark} {found.remark}".rstrip(), pivot=role.pivot, source=role.source)

    def _earliest(self, record: EpisodeRecord) -> Reflection | None:
        if not record.labels:
            record = label_record(
                replace(record, prefix_length=0), self._judge, self._past, self._future, self.outcome_text
            )
        for turn, label in enumerate(record.labels):
            if label.role == "R":
                why = f": {label.why}" if label.why else ""
                return Reflection(remark_on(record, turn, f"was a step back{why}."), turn, "role")
        if record.labels and all(label.role is None for label in record.labels):
            raise InputError(
                f"Expected a judge that labels a turn, got none: {record.labels[0].why or 'no reason given'}"
            )
        return None


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

    Args:
        tolerance: Turns of waste that are forgiven. The waste after a turn is the turns used, plus the distance now,
            minus the distance at the start. With 1 or more the turn named is the first that takes the waste beyond it,
            so that a detour is no mistake before it costs too much; one that puts the goal out of reach always is.

    Raises:
        InputError: For a tolerance that is no whole number of 0 or more.
    """

    needs_distance: Final = True

    def __init__(self, tolerance: int = 0) -> None:
        if isinstance(tolerance, bool) or not isinstance(tolerance, int) or tolerance < 0:
            raise InputError(f"Expected `tolerance` to be a whole number of turns of 0 or more, got {tolerance!r}")
        self._tolerance = tolerance

    def reflect(self, record: EpisodeRecord) -> Reflection:
        """The turn, from the distances in the segments' infos.

        The distance at the end of an attempt that was cut off may be unknown; that is not held against its last turn.

        Raises:
            InputError: If the record carries no distances, since its environment has no expert.
        """
        changes = [_change(segment) for segment in record.segments]
        if changes and record.truncated and not record.terminated and changes[-1] == math.inf:
            changes[-1] = 0.0
        worse = [turn for turn, change in enumerate(changes) if change > 0]
        if self._tolerance:
            # From one turn to the next the waste grows by one turn and the change of the distance.
            waste = itertools.accumulate(1 + change for change in changes)
            beyond = [turn for turn, much in enumerate(waste) if much > self._tolerance]
            worse = beyond[:1] or worse
        idle = [turn for turn, change in enumerate(changes) if change == 0]
        if not (worse or idle):
            return Reflection("", 0, "oracle")
        turn = (worse or idle)[0]
        return Reflection(remark_on(record, turn, _verdict(record.segments[turn], changes[turn])), turn, "oracle")


def _verdict(segment: Segment, change: float) -> str:
    if change == math.inf:
        return "put the goal out of reach."
    if change > 0:
        return f"led away from the goal: {segment.info[DISTANCE_AFTER]} turns are left instead of " + (
            f"{segment.info[DISTANCE_BEFORE]}."
        )
    return "did not help."


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


def as_reflector(given: str | Mapping[str, Any] | Reflector | Callable[[EpisodeRecord], Any]) -> Reflector:
    """A reflector of a spec, of a function of a record, or as it is."""
    made: Any = registry.make("reflectors", given) if isinstance(given, str | Mapping) else given
    return made if isinstance(made, Reflector) else CallableReflector(made)
