"""The running attempt as a wrapper sees it: its segments so far and what its reset said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from triage_gym.errors import InputError
from triage_gym.records import EpisodeRecord, Reflection, RestoreStatus, RestoreStrategy, RoleLabel, Segment
from triage_gym.restore.values import text_of
from triage_gym.windows import FACTS


class Attempt:
    """Segments of the running attempt, with the facts that its reset gave.

    After a retry (``info["prefix_length"] > 0``) the first segments of the attempt before stay: they are its prefix.
    """

    def __init__(self) -> None:
        self.task = self.task_id = self.start_observation = ""
        self.seed: int | None = None
        self.number, self.pivot, self.prefix_length = 0, -1, 0
        self.status: RestoreStatus = "none"
        self.strategy: RestoreStrategy = "none"
        self.reflection: Reflection | None = None
        self.oracle_pivot = -1
        self.error: str | None = None
        self.segments: list[Segment] = []
        self._last = ""

    def begin(self, observation: Any, info: Mapping[str, Any], seed: int | None) -> None:
        """Take up a reset.

        Raises:
            InputError: If the reset announces a prefix that did not pass through here.
        """
        facts = retry_facts(info)
        prefix = kept_prefix(facts, len(self.segments))
        del self.segments[prefix:]
        self.number = int(facts.get("attempt", 0))
        self.pivot = int(facts.get("pivot_step", -1))
        self.prefix_length = prefix
        if self.number == 0:
            self.error = None
        self.status = facts.get("restore_status", "none")
        self.strategy = facts.get("restore_strategy", "none")
        self.reflection = _reflection(facts) if self.number else None
        self.oracle_pivot = int(facts.get("oracle_pivot", -1))
        if self.status == "mismatch":
            # Nothing that follows, further retries included, may be trained as this task.
            self.error = "the retry did not come back to the recorded start"
        self._last = text_of(observation)
        if not prefix:
            self.start_observation = self._last
        if self.number == 0:
            self.seed = seed
        self.task = text_in(info, "task")
        self.task_id = text_in(info, "task_id")

    def add(self, action: Any, observation: Any, reward: Any, info: Mapping[str, Any]) -> None:
        """Take up a step.

        Raises:
            InputError: For a reward that is not finite, or an action or observation that has no text form.
        """
        if not math.isfinite(reward):
            raise InputError(
                f"Expected a finite reward, got {reward} at turn {len(self.segments)}; mend the environment"
            )
        text = text_of(observation)
        kept: dict[str, Any] = {"invalid_action": bool(info["invalid_action"])} if "invalid_action" in info else {}
        if FACTS in info:
            kept[FACTS] = dict(info[FACTS])
        self.segments.append(Segment(len(self.segments), self._last, text_of(action), text, float(reward), kept))
        self._last = text

    @property
    def total_reward(self) -> float:
        """Sum of all rewards, those of the prefix included."""
        return sum(segment.reward for segment in self.segments)

    def record(
        self,
        *,
        group_id: str,
        trial: str = "",
        domain: str,
        labels: tuple[RoleLabel, ...] = (),
        score: float = 0.0,
        success: bool = False,
        terminated: bool = False,
        truncated: bool = False,
    ) -> EpisodeRecord:
        """The attempt as a frozen record."""
        return EpisodeRecord(
            group_id=group_id,
            task_id=self.task_id,
            seed=self.seed,
            attempt=self.number,
            pivot=self.pivot,
            prefix_length=self.prefix_length,
            task=self.task,
            domain=domain,
            start_observation=self.start_observation,
            segments=tuple(self.segments),
            labels=labels,
            score=score,
            success=success,
            terminated=terminated,
            truncated=truncated,
            error=self.error,
            trial=trial,
            parent=self.number - 1,
            restore_strategy=self.strategy,
            restore_status=self.status,
            reflection=self.reflection,
            oracle_pivot=self.oracle_pivot,
        )


def retry_facts(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """The facts of PivotRetryWrapper in a reset's info; none in keys that an environment happens to call the same."""
    return info if "pivot_step" in info and "prefix_length" in info else {}


def _reflection(facts: Mapping[str, Any]) -> Reflection:
    """The reflection that a retry began with, from the facts of its reset."""
    return Reflection(
        remark=text_in(facts, "reflection"),
        pivot=int(facts.get("reflection_pivot", -1)),
        source=text_in(facts, "reflection_source"),
        text=text_in(facts, "reflection_text"),
        problem=text_in(facts, "reflection_problem"),
    )


def kept_prefix(facts: Mapping[str, Any], passed: int) -> int:
    """How many turns of the last attempt a reset keeps, of the ``passed`` that a wrapper has seen.

    Raises:
        InputError: If the reset announces turns that did not pass through the wrapper.
    """
    prefix = int(facts.get("prefix_length", 0))
    if prefix > passed:
        raise InputError(
            f"Expected the {prefix} turns before the pivot to have passed through this wrapper, got only {passed}; "
            "put PivotRetryWrapper below it and always step through the outermost wrapper"
        )
    return prefix


def text_in(info: Mapping[str, Any], key: str) -> str:
    """The text that an info holds under ``key``, empty when it holds none."""
    value = info.get(key, "")
    return value if isinstance(value, str) else ""
