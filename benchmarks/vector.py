"""What TextVectorEnv costs and how fast it recovers, and what Gymnasium's AsyncVectorEnv does in the same trouble.

Run it from the root of a checkout: ``python benchmarks/vector.py``. It takes less than a minute.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import time
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from triage_gym.wrappers.vector import TextVectorEnv


class Instant(gymnasium.Env[Any, Any]):
    """Echoes a number at once, unless the number asks it to sleep for a while or for ever."""

    observation_space = gymnasium.spaces.Box(0, 1000, (1,), np.int64)
    action_space = gymnasium.spaces.Discrete(1000)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.int64), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action >= 20:
            time.sleep({20: 2.0, 999: 3600.0}.get(int(action), 0.0))
        return np.array([action]), float(action), False, False, {}


def overhead() -> None:
    """CPU and wall time that a vector adds to a step that does nothing, in this process and with workers."""
    members = 8
    actions = dict.fromkeys(range(members), 1)
    single = Instant()
    for workers, rounds in ((0, 20000), (2, 1000)):
        with TextVectorEnv(Instant, members, workers=workers) as venv:
            venv.reset(seed=0)
            bare = cost(lambda: [single.step(1) for _ in range(members)], rounds)
            vector = cost(lambda venv=venv: venv.step(actions), rounds)  # type: ignore[misc]
        cpu, wall = (vector - bare) / members
        where = f"{workers} workers" if workers else "in this process"
        print(f"TextVectorEnv, {where}: adds {cpu:.2f} us of the caller's CPU and {wall:.2f} us of wall time a step")


def cost(call: Callable[[], object], rounds: int) -> NDArray[np.float64]:
    """Microseconds of CPU and of wall time of one call, the best of three trials."""
    trials = []
    for _ in range(3):
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(rounds):
            call()
        trials.append((time.process_time() - cpu, time.perf_counter() - wall))
    best: NDArray[np.float64] = np.min(np.array(trials), axis=0) * 1e6 / rounds
    return best


def recovery() -> None:
    """Seconds from a fault to the results of the call that met it."""
    deadline = 1.0
    with TextVectorEnv(Instant, 8, workers=2, step_timeout=deadline, max_restarts=9) as venv:
        venv.reset(seed=0)
        killed, hung = [], []
        for _ in range(5):
            kill_a_worker()
            begin = time.perf_counter()
            venv.step(dict.fromkeys(range(8), 1))
            killed.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            venv.step({0: 999, 1: 1, 2: 1})
            hung.append(time.perf_counter() - begin - deadline)
            venv.reset([0], seed=0)
    print(f"TextVectorEnv, a worker killed: recovered in {np.median(killed):.2f} s (slowest {max(killed):.2f} s)")
    print(
        f"TextVectorEnv, a member hung: recovered {np.median(hung):.2f} s after the deadline (slowest {max(hung):.2f} s)"
    )


def kill_a_worker() -> None:
    """SIGKILL to one of the children of this process."""
    os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
    time.sleep(0.05)


def async_vector_env() -> None:
    """The same two faults with Gymnasium's own vector."""
    for shared in (True, False):
        venv = gymnasium.vector.AsyncVectorEnv([Instant] * 2, shared_memory=shared, context="spawn")
        venv.reset(seed=0)
        paired = []
        for action in (10, 20, 30, 40):
            venv.step_async(np.array([action, action]))
            try:
                observations, rewards, *_ = venv.step_wait(timeout=1.0)
                paired.append(f"sent {action}: observation {int(observations[0, 0])}, reward {int(rewards[0])}")
            except multiprocessing.TimeoutError:
                paired.append(f"sent {action}: TimeoutError")
                time.sleep(1.5)
        print(f"AsyncVectorEnv, shared_memory={shared}, after a time-out: {'; '.join(paired)}")
        kill_a_worker()
        said = []
        for _ in range(2):
            try:
                venv.step(np.array([1, 1]))
                said.append("went on")
            except Exception as error:  # noqa: BLE001 - which one it is, is the finding
                said.append(type(error).__name__)
        print(f"AsyncVectorEnv, shared_memory={shared}, a worker killed: {', then '.join(said)}")
        venv.close(terminate=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(f"Gymnasium {gymnasium.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores")
    overhead()
    recovery()
    async_vector_env()
