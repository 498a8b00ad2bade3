"""Judges made of judges: what every wrapper of the protocol has in common.

A composed judge takes another under ``of``, as a spec (``"rule"``, ``{"name": "cache", "of": {"name": "llm", …}}``) or as an
object, so that whole trees are written in a config. Beside ``judge(windows)`` a judge may have, and a wrapper passes on:

- ``needs_facts``: which of :data:`~triage_gym.facts.FACT_NAMES` its windows must carry (:mod:`triage_gym.facts`);
- ``usage``: numbers of what it cost since it was made, such as ``calls``, ``cached``, ``prompt_tokens``, ``usd``;
- ``identity``: JSON values that say everything its labels depend on but the windows; a cache keys by it;
- ``select(record)``: the positions of the turns that it wants to see, the others being unjudged;
- ``sample(windows, index)``: as ``judge``, but the ``index``-th answer of a judge whose answers vary; without it all
  answers are that of ``judge``;
- ``close()``.

A trainer also calls ``open()`` of the innermost ones before anything is played: it raises where the judge could never answer.

:class:`Nested` does the passing on. Wrappers ask through :func:`ask`, so that whatever an inner judge does, they hold
checked labels in their hands.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

from triage_gym import registry
from triage_gym.errors import InputError
from triage_gym.facts import FACT_NAMES, FactName
from triage_gym.judges.labelling import judge_attempts
from triage_gym.protocols import Judge, Window
from triage_gym.records import EpisodeRecord, RoleLabel

Spec = str | Mapping[str, Any] | Judge
Select = Callable[[EpisodeRecord], Collection[int]]


def inner(of: Spec) -> Judge:
    """The judge that a spec stands for; an object is taken as it is.

    Raises:
        InputError: For a spec that names none.
    """
    try:
        judge = of if isinstance(of, Judge) and not isinstance(of, type) else registry.make("judges", _spec(of))
    except RecursionError as error:
        raise InputError("Expected judges within judges to come to an end, got more than can be built") from error
    if not isinstance(judge, Judge):
        raise InputError(f"Expected a judge, got {type(judge).__name__}; give it a method judge(windows)")
    return judge


def _spec(of: Any) -> str | Mapping[str, Any]:
    if not isinstance(of, str | Mapping):
        raise InputError(f"Expected `of` to be the name, the config or the object of a judge, got {type(of).__name__}")
    return of


def facts_needed(*judges: object) -> tuple[FactName, ...]:
    """The facts that ``judges`` need of their windows, each once.

    Raises:
        InputError: When one asks for a fact that there is not.
    """
    found: list[FactName] = []
    for judge in judges:
        for name in getattr(judge, "needs_facts", ()):
            if name not in FACT_NAMES:
                raise InputError(f"Expected `needs_facts` of {type(judge).__name__} out of {FACT_NAMES}, got {name!r}")
            if name not in found:
                found.append(name)
    return tuple(found)


def usage_of(judges: Sequence[object], **own: float) -> dict[str, float]:
    """What ``judges`` say they cost, each counted once, summed by name, with the numbers of who asks added."""
    total = dict(own)
    for judge in {id(judge): judge for judge in judges}.values():
        for name, value in getattr(judge, "usage", {}).items():
            total[name] = total.get(name, 0) + value
    return total


def identity_of(judge: object) -> Any:
    """Everything the labels of ``judge`` depend on but the windows, as JSON values.

    Raises:
        InputError: When it does not say.
    """
    found = getattr(judge, "identity", None)
    if found is None:
        raise InputError(
            f"Expected {type(judge).__name__} to have an `identity`, JSON values of all that its labels depend on (name, "
            "version, options); give it one, or use it without a cache"
        )
    return found


def close(*judges: object) -> None:
    """Let go of what ``judges`` hold open."""
    for judge in judges:
        closing = getattr(judge, "close", None)
        if callable(closing):
            closing()


def selection_of(judge: object) -> Select | None:
    """The method by which ``judge`` selects turns, None for one that wants to see all."""
    select = getattr(judge, "select", None)
    return select if callable(select) else None


def attempts_of(windows: Sequence[Window]) -> list[list[Window]]:
    """The windows in runs, a new one wherever the steps start again or the task is another one.

    A retry that goes on where the attempt before it ended is one run with it.
    """
    runs: list[list[Window]] = []
    for window in windows:
        if not runs or window.step <= runs[-1][-1].step or window.task != runs[-1][-1].task:
            runs.append([])
        runs[-1].append(window)
    return runs


def ask(judge: Judge, windows: Sequence[Window], sample: int = 0) -> list[RoleLabel]:
    """Checked labels of ``windows``, in order: what the judge raises and what does not fit becomes failed labels.

    Args:
        judge: The one to ask.
        windows: Of any attempts, in any order.
        sample: Which answer is wanted of a judge with a method ``sample``; 0 is that of ``judge``.
    """
    asked = _Sample(judge, sample) if sample and callable(getattr(judge, "sample", None)) else judge
    return [label for labels in judge_attempts(asked, attempts_of(windows)) for label in labels]


class _Sample:
    """One sample of a judge whose answers vary."""

    def __init__(self, judge: Any, index: int) -> None:
        self._judge, self._index = judge, index

    def judge(self, windows: Sequence[Window]) -> Sequence[RoleLabel]:
        answer: Sequence[RoleLabel] = self._judge.sample(windows, self._index)
        return answer


class Nested(ABC):
    """A judge made of others, whose attributes it passes on.

    Args:
        judges: The specs of those that it asks, the main one first.
        options: JSON values that its own labels depend on.
        counts: Names of what it counts in ``usage``.

    Raises:
        InputError: For a spec that names no judge.
    """

    name: ClassVar[str]
    """As in the registry."""
    version: ClassVar[int] = 1
    """Another one whenever the same options come to give other labels."""
    own_facts: ClassVar[tuple[FactName, ...]] = ()
    """Facts that it reads itself."""

    def __init__(
        self, judges: Sequence[Spec], options: Mapping[str, Any] | None = None, counts: Sequence[str] = ()
    ) -> None:
        self.judges = tuple([inner(spec) for spec in judges])
        self.options = dict(options or {})
        self._counts: dict[str, float] = dict.fromkeys(counts, 0)
        self._counting = threading.Lock()

    @abstractmethod
    def labels(self, windows: Sequence[Window], sample: int) -> list[RoleLabel]:
        """One label a window, in order; ``sample`` is passed on to the judges within."""

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        """One label a window, in order."""
        return self.labels(windows, 0)

    def sample(self, windows: Sequence[Window], index: int) -> list[RoleLabel]:
        """As :meth:`judge`, from the ``index``-th answers of the judges within."""
        return self.labels(windows, index)

    def count(self, name: str, by: float = 1) -> None:
        """Add to a number of ``usage``; any thread may."""
        with self._counting:
            self._counts[name] += by

    @property
    def needs_facts(self) -> tuple[FactName, ...]:
        """What it reads itself and what the judges within need."""
        needed = facts_needed(*self.judges)
        return (*self.own_facts, *[name for name in needed if name not in self.own_facts])

    @property
    def usage(self) -> dict[str, float]:
        """What it counted, and what the judges within did."""
        with self._counting:
            own = dict(self._counts)
        return usage_of(self.judges, **own)

    @property
    def identity(self) -> Any:
        """Its name, version and options, and the identities of the judges within."""
        within = [identity_of(judge) for judge in self.judges]
        return {"name": self.name, "version": self.version, "options": self.options, "of": within}

    @property
    def select(self) -> Select | None:
        """How the judge within selects turns; None when it does not."""
        return selection_of(self.judges[0])

    def close(self) -> None:
        """Close the judges within."""
        close(*self.judges)
