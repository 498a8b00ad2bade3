"""Run as a program: processes fill a cache and are killed; prints what is left of it as JSON.

Forked from a process without threads, so that a killed one costs nothing to replace.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Sequence

from triage_gym.judges.cache import CachedJudge
from triage_gym.protocols import Window
from triage_gym.records import RoleLabel

WINDOWS = [Window("t", "d", k, (), f"o{k}", f"a{k}", "x" * (k % 700), ()) for k in range(4000)]


class Right:
    """The one right label of every window."""

    identity = "right"

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        return [RoleLabel(w.step, "DENR"[w.step % 4], 0.5, why="y" * (w.step % 300)) for w in windows]  # type: ignore[arg-type]


def fill(path: str, seed: int) -> None:
    dice, judge = random.Random(seed), CachedJudge(Right(), path)
    while True:
        judge.judge(dice.sample(WINDOWS, 20))


def main(path: str, processes: int, kills: int) -> None:
    running: list[int] = []
    for number in range(processes + kills):
        child = os.fork()
        if not child:
            fill(path, number)
        running.append(child)
        if len(running) == processes:
            time.sleep(random.Random(number).uniform(0.01, 0.06))
            victim = running.pop(random.Random(number).randrange(processes))
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
    for child in running:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    cached = CachedJudge(Right(), path)
    labels = cached.judge(WINDOWS)
    connection = sqlite3.connect(path)
    print(
        json.dumps(
            {
                "integrity": connection.execute("PRAGMA integrity_check").fetchone()[0],
                "right": labels == Right().judge(WINDOWS),
                **cached.usage,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
