"""Bar, on an unloaded machine: the fast ALFWorld engine makes >= 1,000 times the steps per CPU-second of alfworld's own
PddlEnv, and >= 40,000; <= 0.3 MB of memory per environment; snapshot + restore <= 0.3 ms. Exit code 1 when missed.

Run it from the root of a checkout: ``python benchmarks/alfworld.py [--json FILE]``. One process, one run, less
than half a minute; needs the extra ``alfworld``. A step is the answer, ``won`` and the whole list of admissible commands. Times are
CPU times of this process (``time.process_time``): other work on the machine still slows them through caches and clocks.
Stock and fast engine play the same commands of the same games, in turns; the ratio is of these. Every game counted for
the fast engine is played for the first time, so that nothing of it is remembered from an earlier play.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from triage_gym.envs.alfworld.engine import FastEngine
from triage_gym.envs.alfworld.games import TASK_TYPES, Game
from triage_gym.envs.alfworld.generator import generate
from triage_gym.envs.alfworld.lockstep import Player, pick
from triage_gym.envs.alfworld.textworld_backend import StockEngine, TextWorldEngine

# Python puts the folder of a script first on its path, where this file hides the package of the same name.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

BARS = {
    "fast / stock": (">=", 1000.0),
    "fast, steps per CPU-second": (">=", 40_000.0),
    "memory per environment, MB": ("<=", 0.3),
    "snapshot + restore, ms": ("<=", 0.3),
}
STEPS = 50
STOCK_STEPS = 12
STOCK_GAMES = 6
FAST_GAMES = 120
MEMORY_GAMES = 64


def households(count: int, first: int) -> list[Game]:
    """Generated games of all task types."""
    return [generate(first + i, TASK_TYPES[i % len(TASK_TYPES)], "train") for i in range(count)]


def unseen(game: Game, mark: int) -> Game:
    """``game`` as one that no engine of this process has met: the same text but for a comment."""
    return replace(game, pddl_problem=f"; {mark}\n{game.pddl_problem}")


def commands(game: Game, steps: int, seed: int) -> list[str]:
    """A play that leans to commands that change something."""
    engine, rng = FastEngine(game), random.Random(seed)
    engine.reset()
    chosen = []
    for _ in range(steps):
        chosen.append(pick(engine.admissible_commands(), rng))
        engine.step(chosen[-1])
    return chosen


def play(engine: Player, chosen: Sequence[str]) -> float:
    """CPU seconds of the steps ``chosen`` from the start; loading and resetting are not counted."""
    engine.reset()
    begin = time.process_time()
    for command in chosen:
        engine.step(command)
        engine.admissible_commands()
        _ = engine.won
    return time.process_time() - begin


def speed(make: Callable[[Game], Player], plays: Iterable[tuple[Game, Sequence[str]]]) -> float:
    """Steps per CPU-second over all ``plays``."""
    seconds, steps = 0.0, 0
    for game, chosen in plays:
        seconds += play(make(game), chosen)
        steps += len(chosen)
    return steps / seconds


def against_stock() -> tuple[float, float]:
    """Steps per CPU-second of the stock engine and the fast one, side by side on the same plays."""
    stock, fast = [], []
    for number, game in enumerate(households(STOCK_GAMES, 5000)):
        chosen = commands(game, STOCK_STEPS, number)
        stock.append(speed(StockEngine, [(game, chosen)]))
        # One play of the fast engine is too short for the clock: many, each of a household it has not met.
        fresh = [(unseen(game, i), chosen) for i in range(40)]
        fast.append(speed(FastEngine, fresh))
    return statistics.geometric_mean(stock), statistics.geometric_mean(fast)


def first_plays() -> tuple[float, float]:
    """Steps per CPU-second of the fast engine in games it has not met, and in the same games again."""
    plays = [(unseen(g, 0), commands(g, STEPS, i)) for i, g in enumerate(households(FAST_GAMES, 6000))]
    first = speed(FastEngine, plays)
    return first, speed(FastEngine, plays)


def snapshots() -> tuple[float, float]:
    """Milliseconds of get_state + set_state (the median game's) and characters of a state as JSON (the largest)."""
    times, sizes = [], []
    for number, game in enumerate(households(24, 7000)):
        engine, other = FastEngine(game), FastEngine(game)
        play(engine, commands(game, STEPS, number))
        begin = time.process_time()
        for _ in range(100):
            other.set_state(engine.get_state())
        times.append((time.process_time() - begin) * 10)
        sizes.append(len(json.dumps(engine.get_state())))
    return statistics.median(times), max(sizes)


def restart() -> tuple[float, float]:
    """Milliseconds to read a game and to reset an engine."""
    fresh = [unseen(game, 1) for game in households(24, 8000)]
    begin = time.process_time()
    engines = [FastEngine(game) for game in fresh]
    read = (time.process_time() - begin) / len(engines) * 1e3
    begin = time.process_time()
    for engine in engines * 50:
        engine.reset()
    return read, (time.process_time() - begin) / len(engines) / 50 * 1e3


def memory() -> float:
    """MB that one environment's game and engine hold after a play, each in a household of its own."""
    texts = [
        (json.dumps(unseen(g, 2).to_dict()), commands(g, STEPS, i))
        for i, g in enumerate(households(MEMORY_GAMES, 9000))
    ]
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    engines = []
    for text, chosen in texts:
        engines.append(FastEngine(Game.from_dict(json.loads(text))))
        play(engines[-1], chosen)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return held / len(engines) / 1e6


def real_engine() -> float:
    """Steps per CPU-second of the textworld backend."""
    return speed(TextWorldEngine, [(g, commands(g, STEPS, i)) for i, g in enumerate(households(STOCK_GAMES, 5000))])


def measure() -> dict[str, float]:
    """Every number of the table."""
    stock, beside = against_stock()
    first, again = first_plays()
    snapshot, characters = snapshots()
    read, reset = restart()
    return {
        "stock PddlEnv, steps per CPU-second": stock,
        "fast on the same plays, steps per CPU-second": beside,
        "fast / stock": beside / stock,
        "fast, steps per CPU-second": first,
        "fast, same games again, steps per CPU-second": again,
        "textworld backend, steps per CPU-second": real_engine(),
        "memory per environment, MB": memory(),
        "snapshot + restore, ms": snapshot,
        "largest state as JSON, characters": characters,
        "reading a game, ms": read,
        "reset, ms": reset,
    }


def passed(name: str, value: float) -> bool | None:
    """Whether ``value`` meets its bar; None where there is none."""
    if name not in BARS:
        return None
    sign, bar = BARS[name]
    return value >= bar if sign == ">=" else value <= bar


def main() -> int:
    """Measure, print, write; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there too")
    target = parser.parse_args().json
    measured = measure()
    verdicts = {name: passed(name, value) for name, value in measured.items()}
    system = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"{system}; bars are for an unloaded machine")
    for name, value in measured.items():
        verdict = verdicts[name]
        bar = "" if verdict is None else f"{BARS[name][0]} {BARS[name][1]:,g}   {'met' if verdict else 'MISSED'}"
        print(f"{name:48s} {value:>14,.{3 if value < 100 else 0}f}   {bar}".rstrip())
    good = all(verdict is not False for verdict in verdicts.values())
    if target is not None:
        result = {"measures": measured, "bars": BARS, "met": good}
        target.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
