"""Who names the pivot of a failed attempt: what a reset asks for, the words of a policy, the reflector.

Whatever is asked, a :class:`~triage_gym.records.Reflection` comes back whose pivot is a turn of the attempt. Words that
are malformed and reflectors that fail are counted and lead to the start; what is a mistake of the caller is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from gymnasium import logger

from triage_gym.errors import InputError, MalformedReflection, MissingDependency
from triage_gym.protocols import Reflector
from triage_gym.records import POLICY, EpisodeRecord, Reflection, Segment
from triage_gym.reflection.parsing import read_reflection
from triage_gym.reflection.reflectors import DISTANCE_AFTER, DISTANCE_BEFORE, CallableReflector
from triage_gym.restore.trail import Start, Turn
from triage_gym.restore.values import text_of
from triage_gym.windows import outcome_text_of
from triage_gym.wrappers._attempt import text_in
from triage_gym.wrappers._plugin import Plugin

OPTIONS: Final = ("retry", "reflection", "turn_facts")
"""Reset options that are meant for PivotRetryWrapper."""


class Request(NamedTuple):
    """What the options of a reset say about a retry."""

    retry: bool | int | None
    """None for nothing, False, True or a turn."""
    text: str | None
    """The policy's reflection."""
    turn_facts: tuple[Mapping[str, Any], ...] | None
    """Facts about each turn of the failed attempt, for the reflector."""


def requested(options: Mapping[str, Any]) -> Request:
    """Read the options of a reset.

    Raises:
        InputError: For values of the wrong form, or a reflection together with ``retry=False``.
    """
    retry, text = options.get("retry"), options.get("reflection")
    facts = _turn_facts(options.get("turn_facts"))
    if text is not None and not isinstance(text, str):
        raise InputError(f'Expected options["reflection"] to be text, got {type(text).__name__}')
    if text is not None and retry is False:
        raise InputError("Expected a reflection or retry=False, got both; drop one of them")
    if retry is None:
        return Request(True if text is not None else None, text, facts)
    if isinstance(retry, bool | np.bool_):
        return Request(bool(retry), text, facts)
    if isinstance(retry, int | np.integer):
        return Request(int(retry), text, facts)
    raise InputError(f'Expected options["retry"] to be a turn, True or False, got {retry!r}')


def _turn_facts(given: Any) -> tuple[Mapping[str, Any], ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(x, Mapping) for x in given):
        raise InputError(
            'Expected options["turn_facts"] to be a sequence with one mapping for each turn of the failed attempt, '
            f"got {given!r:.80}"
        )
    return tuple(given)


def failed_record(
    start: Start,
    turns: Sequence[Turn],
    distances: Sequence[Any],
    turn_facts: Sequence[Mapping[str, Any]] | None,
    **lineage: Any,
) -> EpisodeRecord:
    """The failed attempt as a reflector sees it.

    Args:
        start: How it began.
        turns: Its turns, those of its prefix included.
        distances: The expert's distance before each turn and after the last one; empty where nobody asks for it.
        turn_facts: The caller's facts of each turn, merged into the infos of the segments.
        **lineage: Further fields of the record.
    """
    before = text_of(start.observation)
    segments = []
    for number, turn in enumerate(turns):
        kept: dict[str, Any] = {} if turn_facts is None else dict(turn_facts[number])
        if turn.invalid is not None:
            kept["invalid_action"] = turn.invalid
        if distances:
            kept |= {DISTANCE_BEFORE: distances[number], DISTANCE_AFTER: distances[number + 1]}
        after = text_of(turn.observation)
        segments.append(Segment(number, before, text_of(turn.action), after, turn.reward, kept))
        before = after
    return EpisodeRecord(
        group_id=start.task_id,
        task_id=start.task_id,
        seed=start.seed,
        task=text_in(start.info, "task"),
        start_observation=text_of(start.observation),
        segments=tuple(segments),
        terminated=turns[-1].terminated,
        truncated=turns[-1].truncated,
        **lineage,
    )


class Reflecting:
    """Asks whoever is there for the pivot of a failed attempt.

    Args:
        given: A spec of a reflector, a live one, a function of a record, or None.

    Raises:
        InputError: If ``given`` is none of these.
    """

    def __init__(self, given: Any) -> None:
        name = given.get("name") if isinstance(given, Mapping) else given
        self.is_policy: Final = isinstance(name, str) and name == POLICY
        """Whether the policy itself reflects, by name."""
        self._plugin = None if given is None else Plugin("reflectors", given, _can_reflect, "a Reflector or a function")
        self.problems: dict[str, int] = {}
        """How often words were malformed, by kind."""
        self.failures = 0
        """How often a reflector raised, or gave what is no turn."""

    @property
    def recorded(self) -> Any:
        """What goes into the wrapper's spec."""
        return None if self._plugin is None else self._plugin.recorded

    def prepare(self, metadata: Mapping[str, Any], auto: bool) -> bool:
        """Build the reflector, and say whether it needs the expert's distance at each turn.

        Args:
            metadata: The environment's.
            auto: Whether retries come without options.

        Raises:
            InputError: If it cannot be built, or needs what retries without options do not bring.
        """
        reflector = self._get(metadata)
        needs = ["words"] * bool(getattr(reflector, "needs_words", False)) + list(getattr(reflector, "needs_facts", ()))
        if auto and needs:
            raise InputError(
                f"Expected auto=False with a reflector that needs {' and '.join(needs)} of the policy, got auto=True: a "
                "bare reset() brings none; retry by options, or choose another reflector"
            )
        return bool(getattr(reflector, "needs_distance", False))

    def reflect(
        self, request: Request, turns: int, record: Callable[[], EpisodeRecord], metadata: Mapping[str, Any]
    ) -> Reflection:
        """Where to go back to, and the remark on it; the pivot is one of the ``turns``.

        The caller's turn comes first, then the policy's words, then the reflector's; without any of them the start.

        Args:
            request: What the options say.
            turns: Length of the failed attempt.
            record: Makes its record, which only a reflector needs.
            metadata: The environment's.
        """
        if request.text is not None:
            found = self._read(request.text)
            if request.retry is True and not found.problem:
                found = self._guided(found, record, metadata)
        elif request.retry is True:
            found = self._ask(record(), metadata)
        else:
            found = Reflection("", 0, "caller")
        pivot = found.pivot if request.retry is True else int(request.retry or 0)
        return replace(found, pivot=min(max(pivot, 0), turns - 1))

    def check(self, request: Request, metadata: Mapping[str, Any]) -> None:
        """Refuse a retry for which nobody names a turn.

        Raises:
            InputError: If the reflector stands for words (``needs_words``, an optional attribute) and there are none, or
                needs facts of each turn (``needs_facts``, likewise) and there is a turn without.
        """
        if request.retry is not True or request.text is not None:
            return
        reflector = self._get(metadata)
        if getattr(reflector, "needs_words", False):
            raise InputError(
                "Expected the policy's words, which this reflector stands for, got a retry without them; call "
                'reset(options={"reflection": text}), name a turn as {"retry": k}, or choose another reflector'
            )
        for name in getattr(reflector, "needs_facts", ()):
            if request.turn_facts is None or any(name not in facts for facts in request.turn_facts):
                raise InputError(
                    f"Expected {name!r} of each turn of the failed attempt, which this reflector reads, got a retry without; "
                    f'call reset(options={{"retry": True, "turn_facts": [{{"{name}": 0.7}}, …]}}), name a turn as '
                    '{"retry": k}, or choose another reflector'
                )

    def _read(self, text: str) -> Reflection:
        try:
            return read_reflection(text, "any", POLICY)
        except MalformedReflection as error:
            self._count(error.kind)
            return Reflection("", 0, POLICY, text, error.kind)

    def _guided(
        self, found: Reflection, record: Callable[[], EpisodeRecord], metadata: Mapping[str, Any]
    ) -> Reflection:
        """What the words say, shown to a reflector that stands for words and wants to see them (``guide``)."""
        reflector = self._get(metadata)
        guide = getattr(reflector, "guide", None)
        if guide is None or not getattr(reflector, "needs_words", False):
            return found
        failed = record()
        try:
            return _checked(guide(failed, replace(found, pivot=min(max(found.pivot, 0), len(failed) - 1))))
        except Exception as error:  # noqa: BLE001 - as below; the words are sound, and stand
            self.failures += 1
            logger.warn("%s", f"The reflector failed ({type(error).__name__}: {error}); the words stand as they are")
            return found

    def _count(self, problem: str) -> None:
        self.problems[problem] = self.problems.get(problem, 0) + 1

    def _ask(self, record: EpisodeRecord, metadata: Mapping[str, Any]) -> Reflection:
        reflector = self._get(metadata)
        if reflector is None:
            return Reflection("", 0, "restart")
        try:
            found = _checked(reflector.reflect(record))
        except MalformedReflection as error:
            self._count(error.kind)
            logger.warn(
                "%s", f"The reflector's words are no reflection ({error.kind}: {error}); the attempt begins anew"
            )
            return Reflection("", 0, "failed", error.text, error.kind)
        except MissingDependency:
            raise  # it will be missing at the next retry too
        except Exception as error:  # noqa: BLE001 - a reflector may call anything; a failure is counted and restarts
            self.failures += 1
            # An argument of its own: Gymnasium formats the message with %, which foreign text may hold.
            logger.warn("%s", f"The reflector failed ({type(error).__name__}: {error}); the attempt begins anew")
            return Reflection("", 0, "failed")
        if found.problem:
            self._count(found.problem)
        return found

    def _get(self, metadata: Mapping[str, Any]) -> Reflector | None:
        if self._plugin is None:
            return None
        given = self._plugin.get()
        if not isinstance(given, Reflector):
            return CallableReflector(given)
        # Optional attribute of a reflector that shows text to a judge: what must be hidden from it. A live one may serve
        # several environments, so theirs is added to what is there.
        hidden = getattr(given, "outcome_text", None)
        if hidden is not None:
            given.outcome_text = tuple(dict.fromkeys([*hidden, *outcome_text_of(metadata)]))  # type: ignore[attr-defined]
        return given


def _checked(found: Any) -> Reflection:
    """A reflector's answer with a plain int as its pivot; InputError when it is no reflection."""
    if isinstance(found, Reflection) and isinstance(found.remark, str):
        pivot: Any = found.pivot
        if isinstance(pivot, int | np.integer) and not isinstance(pivot, bool):
            return replace(found, pivot=int(pivot))
    raise InputError(f"Expected a Reflection with a text and a turn, got {found!r}")


def _can_reflect(given: Any) -> bool:
    return callable(given) or isinstance(given, Reflector)
