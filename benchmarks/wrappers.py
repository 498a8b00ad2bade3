"""Bar: the three wrappers with the rule judge add <= 60 µs of CPU a step (median); going back to turn 30, verified, is
>= 10 times faster than replaying 30 turns through the textworld backend. Exit code 1 when missed.

Run it from the root of a checkout: ``python benchmarks/wrappers.py [--json FILE]``. One process, about half a minute.
The second bar needs the extra ``alfworld``; ``--no-require-textworld`` leaves it out, and says so. Times are CPU times
of this process. Bare and wrapped environments play the same commands in lockstep, turn by turn; what a wrapper adds is
the median of the differences, and the mean shows what the last steps of episodes cost on top.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import TimeLimit

from triage_gym.envs.alfworld.env import ALFWorldEnv
from triage_gym.errors import MissingDependency
from triage_gym.wrappers import PivotRetryWrapper, RoleJudgeWrapper, SegmentCreditWrapper

# Python puts the folder of a script first on its path, where alfworld.py hides the package of the same name.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

BARS = {
    "all three with the rule judge, added µs a step": ("<=", 60.0),
    "replay 30 turns on textworld / verified restore": (">=", 10.0),
}
GAMES = 60
TURNS = 50
PIVOT = 30
Env = gym.Env[Any, Any]


def limited(**arguments: Any) -> Env:
    """ALFWorld with a limit of :data:`TURNS`."""
    return TimeLimit(ALFWorldEnv(**arguments), TURNS)


STACKS: dict[str, Callable[[], Env]] = {
    "RoleJudgeWrapper": lambda: RoleJudgeWrapper(limited()),
    "PivotRetryWrapper": lambda: PivotRetryWrapper(limited()),
    "SegmentCreditWrapper (grpo)": lambda: SegmentCreditWrapper(limited(), "grpo"),
    "all three with the rule judge": lambda: SegmentCreditWrapper(RoleJudgeWrapper(PivotRetryWrapper(limited()))),
}


def timed_step(env: Env, action: str) -> tuple[float, bool, dict[str, Any]]:
    """CPU seconds of a step, whether it was the last, and its info."""
    begin = time.process_time()
    _, _, terminated, truncated, info = env.step(action)
    return time.process_time() - begin, terminated or truncated, info


def added(make: Callable[[], Env], games: int) -> tuple[list[float], list[float]]:
    """CPU seconds of each step, bare and wrapped, over the same episodes."""
    bare, wrapped = limited(), make()
    alone, whole = [], []
    for seed in range(games):
        _, info = bare.reset(seed=seed)
        wrapped.reset(seed=seed)
        rng = np.random.default_rng(seed)
        ended = False
        while not ended:
            commands = info["admissible_commands"]
            action = commands[int(rng.integers(len(commands)))]
            # In turns: whoever steps second finds the commands of this turn parsed already.
            first, second = (bare, wrapped) if len(alone) % 2 else (wrapped, bare)
            one, two = timed_step(first, action), timed_step(second, action)
            alone.append((one if first is bare else two)[0])
            whole.append((two if first is bare else one)[0])
            _, ended, info = one
    return alone, whole


def play_out(env: Env, info: dict[str, Any], rng: np.random.Generator) -> list[str]:
    """Random commands to the end of the episode."""
    actions, ended = [], False
    while not ended:
        commands = info["admissible_commands"]
        actions.append(commands[int(rng.integers(len(commands)))])
        _, ended, info = timed_step(env, actions[-1])
    return actions


def restore_times(games: int, **arguments: Any) -> tuple[list[float], dict[int, list[str]]]:
    """CPU seconds of going back to turn :data:`PIVOT`, three times a game, and the commands of each game by its seed."""
    env = PivotRetryWrapper(limited(**arguments), max_attempts=100)
    seconds: list[float] = []
    played: dict[int, list[str]] = {}
    for seed in range(games):
        rng = np.random.default_rng(seed)
        actions = play_out(env, env.reset(seed=seed)[1], rng)
        if len(actions) < TURNS:
            continue
        played[seed] = actions
        for _ in range(3):
            begin = time.process_time()
            _, info = env.reset(options={"retry": PIVOT})
            seconds.append(time.process_time() - begin)
            assert (info["restore_status"], info["prefix_length"]) == ("verified", PIVOT), info
            if len(play_out(env, info, rng)) < TURNS - PIVOT:
                break
    return seconds, played


def replay_times(played: dict[int, list[str]], games: int) -> list[float]:
    """CPU seconds of a reset and :data:`PIVOT` turns through the textworld backend; the game is loaded beforehand."""
    env = limited(backend="textworld")
    seconds = []
    for seed, actions in list(played.items())[:games]:
        env.reset(seed=seed)
        begin = time.process_time()
        env.reset(seed=seed)
        for action in actions[:PIVOT]:
            env.step(action)
        seconds.append(time.process_time() - begin)
    return seconds


def measure(games: int, real_games: int, textworld: bool) -> dict[str, float]:
    """Every number of the table, by name."""
    found: dict[str, float] = {}
    added(STACKS["all three with the rule judge"], 3)
    for name, make in STACKS.items():
        alone, whole = added(make, games)
        differences = [1e6 * (b - a) for a, b in zip(alone, whole, strict=True)]
        found["bare environment, µs a step"] = 1e6 * statistics.median(alone)
        found[f"{name}, added µs a step"] = statistics.median(differences)
        found[f"{name}, added µs a step, mean"] = statistics.fmean(differences)
        found[f"{name}, wrapped / bare"] = statistics.median(whole) / statistics.median(alone)
    seconds, played = restore_times(games)
    found["verified restore at turn 30, ms"] = 1e3 * statistics.median(seconds)
    found["the first one, which proves the way, ms"] = 1e3 * seconds[0]
    if textworld:
        replays = replay_times(played, real_games)
        found["replay 30 turns on textworld, ms"] = 1e3 * statistics.median(replays)
        found["replay 30 turns on textworld / verified restore"] = statistics.median(replays) / statistics.median(
            seconds
        )
        native, _ = restore_times(real_games, backend="textworld")
        found["verified restore at turn 30 on textworld itself, ms"] = 1e3 * statistics.median(native)
    return found


def main() -> int:
    """Print the table; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    parser.add_argument("--games", type=int, default=GAMES, help="episodes for each wrapper")
    parser.add_argument("--real-games", type=int, default=6, help="episodes on the textworld backend")
    parser.add_argument("--require-textworld", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args()
    try:
        found = measure(arguments.games, arguments.real_games, arguments.require_textworld)
    except MissingDependency as error:
        print(f"{error}\nThe second bar was not measured; --no-require-textworld leaves it out")
        return 1
    print(f"Python {platform.python_version()}, {platform.machine()}, load {os.getloadavg()[0]:.1f}")
    good = True
    for name, value in found.items():
        kind, bar = BARS.get(name, ("", 0.0))
        met = not kind or (value <= bar if kind == "<=" else value >= bar)
        good = good and met
        print(f"{name:58s} {value:10.3f}" + (f"   bar {kind} {bar:g}: {'met' if met else 'MISSED'}" if kind else ""))
    if not arguments.require_textworld:
        print("The bar against the textworld backend was left out (--no-require-textworld)")
    if arguments.json:
        bars = {name: bar for name, bar in BARS.items() if name in found}
        text = json.dumps({"measures": found, "bars": bars, "met": good}, indent=2)
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
