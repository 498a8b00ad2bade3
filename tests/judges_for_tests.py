"""Judges for the tests of the trainer: one that can be out, one that needs facts; and a credit rule that says nothing."""

from __future__ import annotations

import os
import signal
import time
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


class Stopped(Flaky):
    """Sends a signal to its own process in one call and then would wait for long; a budget is no part of its labels."""

    at: ClassVar[int] = -1

    def __init__(self, budget: int = 1, version: int = 1) -> None:
        self.identity = {"name": "stopped", "version": version}

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        if type(self).calls == type(self).at:
            type(self).calls += 1
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        return super().judge(windows)


class StandIn:
    """Fails on all turns of odd steps, for which the rules stand in."""

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        return [RoleLabel(w.step, "N", source="rule:fallback" if w.step % 2 else "llm") for w in windows]


class Dead:
    """Gives no label."""

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        return [RoleLabel(w.step, None, why="connection: refused", status="failed") for w in windows]


class Knowing(Flaky):
    """Needs the way to the goal."""

    needs_facts = ("distance",)


def by_length(records: Sequence[EpisodeRecord]) -> list[Any]:
    """A credit rule that does not say whether it reads labels."""
    return [np.zeros(len(r)) for r in records]


class NoExpert(Corridor):
    """A corridor that knows no way to its exit."""

    expert_distance = None  # type: ignore[assignment]
