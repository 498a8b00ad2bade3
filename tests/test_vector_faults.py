"""Two thousand steps of eight members through fifty faults: nothing is mixed up, nothing else is lost, no one is left."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from typing import Any

import pytest
from vector_envs import EchoEnv

from triage_gym.wrappers.vector import TextVectorEnv

MEMBERS, STEPS, LENGTH, DEADLINE = 8, 2000, 40, 0.75


class Driver:
    """Steps every member with actions that no other member, episode or turn has, and writes down what comes back."""

    def __init__(self, venv: TextVectorEnv) -> None:
        self.venv = venv
        self.episodes = dict.fromkeys(range(MEMBERS), -1)
        self.lines: dict[tuple[int, int], list[tuple[str, Any]]] = {}
        self.errors: dict[tuple[int, int], str] = {}

    def reset(self) -> None:
        over = [i for i in range(MEMBERS) if i not in self.venv.active]
        for i in over:
            self.episodes[i] += 1
        results = self.venv.reset({i: (self.seed(i), None) for i in over})
        for i in over:
            self.lines[i, self.episodes[i]] = [("", results[i].observation)]

    def seed(self, i: int) -> int:
        return 1000 * i + self.episodes[i]

    def step(self, orders: dict[int, str]) -> None:
        actions = {}
        for i in self.venv.active:
            key = (i, self.episodes[i])
            actions[i] = orders.get(i, f"action {i}.{self.episodes[i]}.{len(self.lines[key])}")
        for i, result in self.venv.step(actions).items():
            key = (i, self.episodes[i])
            if "env_error" in result.info:
                self.errors[key] = result.info["env_error"]
            else:
                self.lines[key].append((actions[i], tuple(result)))


def undisturbed(i: int, episode: int, turns: int) -> list[tuple[str, Any]]:
    env = EchoEnv(LENGTH)
    lines: list[tuple[str, Any]] = [("", env.reset(seed=1000 * i + episode)[0])]
    for turn in range(1, turns):
        action = f"action {i}.{episode}.{turn}"
        lines.append((action, env.step(action)))
    return lines


def kill_soon(pid: int, delay: float) -> threading.Timer:
    def kill() -> None:
        # It may have been replaced in the meantime; then this fault falls flat, which the count below shows.
        if any(process.pid == pid for process in multiprocessing.active_children()):
            os.kill(pid, signal.SIGKILL)

    timer = threading.Timer(delay, kill)
    timer.start()
    return timer


@pytest.mark.slow
def test_fifty_faults_in_two_thousand_steps() -> None:
    random_ = random.Random(7)
    rounds = sorted(random_.sample(range(STEPS), 50))
    faults = dict(zip(rounds, random_.sample(["kill"] * 18 + ["sleep"] * 16 + ["raise"] * 16, 50), strict=True))
    slowest = 0.0
    with TextVectorEnv(
        {"name": "vector_envs:EchoEnv", "length": LENGTH}, MEMBERS, workers=2, step_timeout=DEADLINE
    ) as venv:
        driver = Driver(venv)
        seen = set()
        for number in range(STEPS):
            driver.reset()
            orders, timer = {}, None
            fault = faults.get(number)
            workers = sorted(process.pid or 0 for process in multiprocessing.active_children())
            seen |= set(workers)
            if fault == "kill":
                timer = kill_soon(random_.choice(workers), random_.uniform(0, 2e-3))
            elif fault is not None:
                orders[random_.choice(venv.active)] = fault
            begin = time.monotonic()
            driver.step(orders)
            if timer is not None:
                timer.join()
            slowest = max(slowest, time.monotonic() - begin)
    words = Counter(
        text.split(" (")[0].split(": ")[0].replace("worker 1", "worker 0") for text in driver.errors.values()
    )
    assert words == {"RuntimeError": 16, "worker 0 gave no answer in time": 16}
    # Every kill and every hang cost a process.
    assert len(seen) >= 2 + 16 + 16
    for (i, episode), lines in driver.lines.items():
        assert lines == undisturbed(i, episode, len(lines))
        complete = len(lines) == LENGTH + 1
        assert complete or (i, episode) in driver.errors or episode == driver.episodes[i]
    assert sum(len(lines) - 1 for lines in driver.lines.values()) == MEMBERS * STEPS - 32
    assert slowest < DEADLINE + 10
    assert multiprocessing.active_children() == []
    for pid in seen:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
