"""Run as a program: a judge that has asked is forked, at rest and while a thread asks; prints who got which labels."""

from __future__ import annotations

import json
import os
import sys
import threading

from triage_gym.judges.llm import LLMJudge
from triage_gym.judges.probing import CANARIES

WINDOWS = [window for window, _ in CANARIES] * 5


def child_of(judge: LLMJudge) -> tuple[int, int]:
    """A child that asks: its id, and where it says what it got."""
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        os.write(tell, json.dumps([label.role or label.why[:80] for label in judge.judge(WINDOWS)]).encode())
        os._exit(0)
    return child, told


def main(url: str) -> None:
    judge = LLMJudge("m", url, limit=4, deadline=8.0, client={"timeout": 60.0})
    judge.judge(WINDOWS)
    children = [child_of(judge)]
    found: list[str | None] = []
    asking = threading.Thread(target=lambda: found.extend(label.role for label in judge.judge(WINDOWS * 5)))
    asking.start()
    children.append(child_of(judge))
    asking.join()
    in_children = [json.loads(os.read(told, 1 << 16)) for _, told in children]
    for child, _ in children:
        os.waitpid(child, 0)
    print(json.dumps({"parent": found, "children": in_children}))
    judge.close()


if __name__ == "__main__":
    main(sys.argv[1])
