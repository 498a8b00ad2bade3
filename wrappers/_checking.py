"""Testing a pivot before it is used: where a retry would begin, can the goal still be reached?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import gymnasium as gym
from gymnasium import logger

from triage_gym.errors import RestoreError, StateError
from triage_gym.records import EpisodeRecord
from triage_gym.reflection.verification import PivotCheck, PivotPoint, settle_pivot, turns_left
from triage_gym.restore.restorer import Restorer, Rewound
from triage_gym.restore.values import fingerprint
from triage_gym.wrappers._plugin import Plugin

Succeeded = Callable[[Mapping[str, Any], float, bool], bool]
"""Whether an attempt succeeded: of its last info, the sum of all its rewards, and ``terminated``."""


class Settled(NamedTuple):
    """The turn that a retry begins at, after a check."""

    pivot: int
    verdict: Literal["passed", "moved", "failed"]
    visited: Rewound | None
    """Where the stack stands, when that is the turn."""


class Checking:
    """Tests pivots with a check and moves those that fail.

    Args:
        given: A spec of a check, or a live one.

    Raises:
        InputError: If ``given`` is neither.
    """

    def __init__(self, given: Any) -> None:
        self._plugin = Plugin("checks", given, _is_check, "a PivotCheck")
        self.turns = 0
        """Turns that checks have played."""

    @property
    def recorded(self) -> Any:
        """What goes into the wrapper's spec."""
        return self._plugin.recorded

    def prepare(self, env: gym.Env[Any, Any]) -> None:
        """Build the check and refuse an environment that it can say nothing about.

        Raises:
            InputError: If the check cannot be built, or asks an expert that the environment does not have.
        """
        prepare = getattr(self._plugin.get(), "prepare", None)
        if prepare is not None:
            prepare(env)

    def settle(self, pivot: int, record: EpisodeRecord, restorer: Restorer, succeeded: Succeeded) -> Settled:
        """The first of ``pivot`` and earlier turns from which the goal can be reached; ``pivot`` when there is none.

        Args:
            pivot: The turn that the reflection names.
            record: The failed attempt.
            restorer: The way back.
            succeeded: Reads the outcome of an attempt.
        """
        check = self._plugin.get()
        moves = bool(getattr(check, "moves", True))
        before = int(getattr(check, "turns", 0))
        name = fingerprint([record.task_id, record.seed, record.attempt, [s.action for s in record.segments]])
        visited: list[Rewound] = []

        def go_to(turn: int) -> PivotPoint | None:
            visited.clear()
            found = restorer.visit(turn)
            if found is None:
                return None
            visited.append(found)
            so_far = sum(segment.reward for segment in record.segments[:turn])
            return PivotPoint(
                env=restorer.env,
                pivot=turn,
                again=lambda: _again(restorer, turn),
                succeeded=lambda info, total, terminated: succeeded(info, so_far + total, terminated),
                turns_left=turns_left(restorer.env, turn),
                name=name,
            )

        turn, verdict = settle_pivot(_Guarded(check), pivot, go_to)
        self.turns += int(getattr(check, "turns", 0)) - before
        stands = visited and not moves and visited[0].prefix_length == turn
        return Settled(turn, verdict, visited[0] if stands else None)


class _Guarded:
    """A check for which a point that does not come back has not passed."""

    def __init__(self, check: PivotCheck) -> None:
        self._check = check

    def passes(self, point: PivotPoint) -> bool:
        try:
            return bool(self._check.passes(point))
        except (RestoreError, StateError) as error:
            # An argument of its own: Gymnasium formats the message with %, which foreign text may hold.
            logger.warn("%s", f"The check of turn {point.pivot} failed, which does not pass: {error}")
            return False


def _again(restorer: Restorer, turn: int) -> tuple[Any, dict[str, Any]]:
    found = restorer.visit(turn)
    if found is None:
        raise RestoreError(f"Expected to come back to turn {turn} after a rollout, but no way led there")
    return found.observation, found.info


def _is_check(given: Any) -> bool:
    return isinstance(given, PivotCheck)
