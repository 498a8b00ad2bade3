"""Whole stacks that retry by themselves, at the top of a module so that workers can make them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from envs_for_tests import Corridor
from gymnasium.wrappers import TimeLimit

from triage_gym.wrappers import HistoryWrapper, PivotRetryWrapper, RoleJudgeWrapper, SegmentCreditWrapper

LEFT = "envs_for_tests:LeftIsRegression"


def stack(auto: bool = True) -> gym.Env[Any, Any]:
    """A corridor that is retried, up to three attempts, from the first step to the left."""
    retrying = PivotRetryWrapper(
        TimeLimit(Corridor(), 9), {"name": "role", "judge": LEFT}, auto=auto, measure_oracle=True, verify="oracle"
    )
    return HistoryWrapper(SegmentCreditWrapper(RoleJudgeWrapper(retrying, LEFT), "triage"))


def by_hand() -> gym.Env[Any, Any]:
    """The same, retried when asked."""
    return stack(auto=False)
