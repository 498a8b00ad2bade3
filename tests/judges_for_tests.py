"""Judges for the tests of the trainer: one that can be out, one that needs facts; and a credit rule that says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from envs_for_tests import Corridor

from triage_gym.protocols import Window
from triage_gym.records import EpisodeRecord, RoleLabel


class Flaky:
    """Says N to everything, but for calls while it is out; counts what it was asked."""

    out: ClassVar[range] = range(0)
    calls: ClassVar[int] = 0
    windows: ClassVar[int] = 0

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        cls = type(self)
        cls.calls += 1
        cls.windows += len(windows)
        if cls.calls - 1 in cls.out:
            return [RoleLabel(w.step, None, why="timeout: no answer", status="failed") for w in windows]
        return [RoleLabel(w.step, "N" if "left" in w.action else "D", 0.75) for w in windows]

    @property
    def usage(self) -> dict[str, float]:
        return {"calls": type(self).calls, "usd": 0.5 * type(self).calls}


class Knowing(Flaky):
    """Needs the way to the goal."""

    needs_facts = ("distance",)


def by_length(records: Sequence[EpisodeRecord]) -> list[Any]:
    """A credit rule that does not say whether it reads labels."""
    return [np.zeros(len(r)) for r in records]


class NoExpert(Corridor):
    """A corridor that knows no way to its exit."""

    expert_distance = None  # type: ignore[assignment]
