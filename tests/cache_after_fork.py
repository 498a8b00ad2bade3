"""Run as a program: a child keeps labels while its parent closes the file that both use; prints what is left as JSON."""

from __future__ import annotations

import json
import os
import sqlite3
import sys

from triage_gym.judges.cache import CachedJudge
from triage_gym.protocols import Window
from triage_gym.records import RoleLabel

WINDOWS = [Window("t", "d", k, (), "o", f"a{k}", "x", ()) for k in range(31)]


class Right:
    """The one right label of every window."""

    identity = "right"

    def judge(self, windows: list[Window]) -> list[RoleLabel]:
        return [RoleLabel(w.step, "E") for w in windows]


def main(path: str) -> None:
    judge = CachedJudge(Right(), path)
    judge.judge(WINDOWS[:1])
    (told, tell), (go_on, let) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        judge.judge(WINDOWS[1:5])
        os.write(tell, b"1")
        os.read(go_on, 1)
        judge.judge(WINDOWS[5:20])
        os._exit(0)
    os.read(told, 1)
    judge.close()
    other = CachedJudge(Right(), path)
    other.judge(WINDOWS[20:])
    os.write(let, b"1")
    os.waitpid(child, 0)
    other.close()
    whole = CachedJudge(Right(), path)
    whole.judge(WINDOWS)
    with sqlite3.connect(path) as connection:
        print(json.dumps({**whole.usage, "integrity": connection.execute("PRAGMA integrity_check").fetchone()[0]}))


if __name__ == "__main__":
    main(sys.argv[1])
