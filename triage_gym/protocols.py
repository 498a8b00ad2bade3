"""The plug-in points: small protocols, each with a registry by name (:mod:`triage_gym.registry`).

Concrete classes are final; behaviour is composed, not overridden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from triage_gym.records import EpisodeRecord, Reflection, RoleLabel

Advantages = list[NDArray[np.float64]]
"""One float64 array a record, of shape ``(len(record.segments),)``."""


class Pair(NamedTuple):
    """An action and the observation that answered it."""

    action: str
    observation: str


OUT_OF_REACH: Final = -1
"""What a distance is when the goal cannot be reached any more."""


class Facts(NamedTuple):
    """What the environment itself says of a turn (:mod:`triage_gym.facts`); None for what was not measured.

    For oracles and for checks of what a judge says. Distances tell the outcome, so no fact is ever put into a prompt.
    """

    changed: bool | None = None
    """Whether the state of the task (clock and generator left out) is another one after the action."""
    learnt: bool | None = None
    """Whether the agent knows more of what was hidden than before the action."""
    before: int | None = None
    """Turns that the expert needed to the goal before the action; :data:`OUT_OF_REACH` when there was no way."""
    after: int | None = None
    """The same after the action."""


class Window(NamedTuple):
    """What a judge may see of one segment: text around it, never the outcome.

    Built by :func:`triage_gym.windows.build_windows`, which redacts what the environment declares as outcome text.
    A pair and a window are made a turn, so both are named tuples: frozen, and three times as cheap as dataclasses.
    """

    task: str
    """The instruction in words (the first observation where the environment names no task)."""
    domain: str
    """Family of the environment; picks the rules of the rule judge."""
    step: int
    """Index of the segment in its attempt."""
    past: tuple[Pair, ...]
    """At most 5 (action, observation) pairs before the segment, oldest first."""
    observation: str
    """What the agent saw before it acted."""
    action: str
    next_observation: str
    """What came back, redacted."""
    future: tuple[Pair, ...]
    """At most 5 pairs after the segment."""
    earlier_actions: tuple[str, ...] = ()
    """All valid actions before the segment, text only: a rule judge keeps its running inventory from them."""
    facts: Facts | None = None
    """What the environment says of the turn, where somebody measured it; None otherwise, and no text either way."""


@runtime_checkable
class Judge(Protocol):
    """Labels windows; one label a window, in order; a failure is a label with ``role=None``, never an exception."""

    def judge(self, windows: Sequence[Window]) -> Sequence[RoleLabel]:
        """Labels of ``windows``, in order."""
        ...


@runtime_checkable
class Reflector(Protocol):
    """Names the earliest wrong turn of a failed attempt."""

    def reflect(self, record: EpisodeRecord) -> Reflection:
        """A remark and a pivot in ``[0, len(record) - 1]``."""
        ...


@runtime_checkable
class Restorable(Protocol):
    """An environment whose state goes out and in as JSON-able data, RNG included."""

    def get_state(self) -> Mapping[str, Any]:
        """The whole state, independent of the live environment."""
        ...

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go back to ``state``; raises StateError when it does not fit."""
        ...


@runtime_checkable
class TellsOutcome(Protocol):
    """An environment that says at any point how the attempt stands.

    ``success`` and ``score`` come in the info of the last step, and a time limit outside the environment can make any
    step the last; who reads the outcome asks here then.
    """

    def outcome(self) -> tuple[bool, float]:
        """Success and score as they are now."""
        ...


class CreditRule(Protocol):
    """Turns the records of a batch (one or more groups) into per-segment advantages. Pure."""

    def __call__(self, records: Sequence[EpisodeRecord]) -> Advantages:
        """Advantages, one float64 array of shape ``(segments,)`` a record, in the order of ``records``."""
        ...


@runtime_checkable
class ReflectionCredit(Protocol):
    """A credit rule that also says what reflections were worth, so that a policy can learn to reflect."""

    def reflections(self, records: Sequence[EpisodeRecord]) -> NDArray[np.float64]:
        """Advantage of the reflection that each record began with, shape ``(records,)``; 0 where there is none to train."""
        ...
