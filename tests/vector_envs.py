"""Environments for the tests of TextVectorEnv: one that echoes and, when told, misbehaves. Imported by workers too."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from triage_gym.spaces import UnicodeText
from triage_gym.wrappers import PivotRetryWrapper, RoleJudgeWrapper, SegmentCreditWrapper


class EchoEnv(gymnasium.Env[str, str]):
    """Its observations name the episode's task, the turn, the action just taken and a number from its random stream.

    So a result that belongs to another action, another turn, another episode or another member shows itself. Actions
    that begin with a fault's name make the environment do that; what follows the name is a file: with a file, the
    fault happens only as long as the file does not exist, and makes it.
    """

    metadata = {"render_modes": [], "domain": "echo", "outcome_text": ("done!",)}  # noqa: RUF012

    def __init__(self, length: int = 20, name: str = "echo") -> None:
        self.observation_space = UnicodeText()
        self.action_space = UnicodeText()
        self.length = length
        self.name = name
        self.turn = 0

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        options = options or {}
        misbehave(str(options.get("fault", "")))
        self.turn = 0
        self.task = options.get("task", f"task {self.np_random.integers(1_000_000)}")
        return f"{self.name} {self.task} begins", {"task_id": self.task, "admissible_commands": ["go"]}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        misbehave(action)
        self.turn += 1
        done = self.turn == self.length
        text = f"{self.name} {self.task} turn {self.turn} after {action} drew {self.np_random.integers(1_000_000)}"
        info: dict[str, Any] = {"admissible_commands": ["go"], "invalid_action": False}
        if done:
            info |= {"success": True, "score": 1.0}
        return text, float(done), done, False, info


def misbehave(order: str) -> None:
    fault, _, file = order.partition(":")
    if fault not in FAULTS or (file and os.path.exists(file)):
        return
    if file:
        open(file, "w").close()
    FAULTS[fault]()


def fail() -> None:
    raise RuntimeError("told to")


def sleep() -> None:
    time.sleep(3600)


def hold_the_lock() -> None:
    # Exponential backtracking in C: no other thread of the process runs until it ends.
    re.match(r"(a+)+$", "a" * 64 + "b")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


FAULTS = {
    "raise": fail,
    "sleep": sleep,
    "hold": hold_the_lock,
    "die": die,
    "exit": lambda: os._exit(3),
    "leave": lambda: sys.exit(3),
}


class UnreproducibleEnv(EchoEnv):
    """Draws from the machine's entropy, so that no replay can bring it back."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return f"{observation} {os.urandom(8).hex()}", reward, terminated, truncated, info


class ParentEnv(EchoEnv):
    """Starts a process of its own, as environments with a server do, and says its id."""

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        self.child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        return observation, info | {"child": self.child.pid, "pid": os.getpid()}


class LockInInfo(EchoEnv):
    """Its info cannot be pickled."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, info | {"live": lambda: None}


class Unreadable:
    """Can be written anywhere and read in a worker only."""

    def __reduce__(self) -> Any:
        return read_in_a_worker, ()


def read_in_a_worker() -> Unreadable:
    if multiprocessing.parent_process() is None:
        raise ValueError("not here")
    return Unreadable()


class UnreadableInfo(EchoEnv):
    """Its info can be pickled, and not be unpickled by who asked."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, info | {"live": Unreadable()}


class Answers(EchoEnv):
    """Answers a step with what was laid down for its action, whatever that is."""

    ANSWERS: Mapping[str, Any] = {
        "array as terminated": ("o", 0.0, np.array([True, False]), False, {}),
        "array as truncated": ("o", 0.0, False, np.array([True, False]), {}),
        "None as terminated": ("o", 0.0, None, False, {}),
        "text as terminated": ("o", 0.0, "no", False, {}),
        "number as truncated": ("o", 0.0, False, 1, {}),
        "array as reward": ("o", np.array([0.0, 1.0]), False, False, {}),
        "None as reward": ("o", None, False, False, {}),
        "None as info": ("o", 0.0, True, False, None),
        "pairs as info": ("o", 0.0, True, False, [("a", 1)]),
        "nothing": None,
        "numpy's values": ("o", np.float32(0.5), np.True_, np.False_, {"x": 1}),
    }

    def step(self, action: str) -> Any:
        return self.ANSWERS[action] if action in self.ANSWERS else super().step(action)


class Speechless(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


class SpeechlessEnv(EchoEnv):
    """Raises an exception that cannot be printed."""

    def step(self, action: str) -> Any:
        if action == "raise":
            raise Speechless
        return super().step(action)


class FourResults(EchoEnv):
    """Follows the interface of ten years ago."""

    def step(self, action: str) -> Any:
        return super().step(action)[:4]


def broken() -> EchoEnv:
    raise OSError("no such game")


def breaks_later(file: str) -> EchoEnv:
    """Can be built once."""
    if os.path.exists(file):
        raise OSError("the game is gone")
    open(file, "w").close()
    return EchoEnv()


def not_an_env() -> object:
    return object()


_ONE = EchoEnv()


def the_same_env() -> EchoEnv:
    """Hands out one environment again and again."""
    return _ONE


def echo() -> EchoEnv:
    return EchoEnv()


def household() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("triage_gym:triage/ALFWorld-v0", max_episode_steps=12)


def household_stack() -> gymnasium.Env[Any, Any]:
    return SegmentCreditWrapper(RoleJudgeWrapper(PivotRetryWrapper(household())))
