"""What TextVectorEnv costs and how fast it recovers, and what Gymnasium's AsyncVectorEnv does in the same trouble.

Bars: in this process it adds at most 5 us of CPU time a step; the slowest recovery from a killed worker takes at most
3 s, from a hang at most 2 s after the deadline. AsyncVectorEnv is shown beside it, without a bar.

Run it from the root of a checkout: ``python benchmarks/vector.py [--json FILE]``. It takes less than a minute and exits
with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import platform
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
from numpy.typing import NDArray

from triage_gym.wrappers.vector import TextVectorEnv

BARS: Final = {
    "added_cpu_us_in_process": ("<=", 5.0),
    "slowest_recovery_killed_s": ("<=", 3.0),
    "slowest_recovery_hung_s": ("<=", 2.0),
}


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


def overhead() -> dict[str, float]:
    """CPU and wall time that a vector adds to a step that does nothing, in this process and with workers."""
    members = 8
    actions = dict.fromkeys(range(members), 1)
    single = Instant()
    found = {}
    for workers, rounds in ((0, 20000), (2, 1000)):
        with TextVectorEnv(Instant, members, workers=workers) as venv:
            venv.reset(seed=0)
            bare = cost(lambda: [single.step(1) for _ in range(members)], rounds)
            vector = cost(lambda venv=venv: venv.step(actions), rounds)  # type: ignore[misc]
        cpu, wall = (vector - bare) / members
        where = f"{workers} workers" if workers else "in this process"
        print(f"TextVectorEnv, {where}: adds {cpu:.2f} us of the caller's CPU and {wall:.2f} us of wall time a step")
        found["added_cpu_us_in_process" if not workers else f"added_cpu_us_{workers}_workers"] = float(cpu)
    return found


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


def recovery() -> dict[str, float]:
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
    return {"slowest_recovery_killed_s": max(killed), "slowest_recovery_hung_s": max(hung)}


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


def main() -> int:
    """Measure, print, and compare with the bars; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)  # the faults are ours, what is said of them is no news here
    print(f"Gymnasium {gymnasium.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores")
    found = {**overhead(), **recovery()}
    async_vector_env()
    missed = [name for name, (_, bar) in BARS.items() if found[name] > bar]
    print(f"{'measure':28}  {'found':>8}  {'bar':>5}")
    for name, value in found.items():
        bar = BARS[name][1] if name in BARS else None
        verdict = "" if bar is None else "missed" if name in missed else "met"
        print(f"{name:28}  {value:8.2f}  {'' if bar is None else bar:>5}  {verdict}")
    if args.json is not None:
        args.json.write_text(json.dumps({"measures": found, "bars": BARS, "met": not missed}, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
