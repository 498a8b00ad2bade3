"""How fast the built-in trainer is, learning included, and what the judge costs of it.

Bars: at least 8,000 environment turns per CPU second with learning; the judge at most 8 % of it.

Run it from the root of a checkout on an idle machine: ``python benchmarks/train.py [--json FILE]``. It trains TRIAGE on
ALFWorld with the default settings for 40,000 turns (half a minute), through the same stack and logs as ``triage-gym
train``, with checkpoints, and exits with 1 when a bar is missed. Counted is all CPU time of the process from the end of the first
update to the end of the last, on whatever thread; not counted are making the games (printed apart: a process makes each
of a default run once, and keeps it) and evaluation. The judge's part is what RoleJudgeWrapper does at the end of an episode (windows, labels,
checks), done again for a batch.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np

from triage_gym import registry
from triage_gym.judges.labelling import judge_windows
from triage_gym.trainers import TrainConfig, Update, train
from triage_gym.trainers.evaluation import load_policy
from triage_gym.trainers.rollout import Rollouts
from triage_gym.windows import build_windows

BARS: Final = {"turns_per_cpu_s": (">=", 8_000.0), "judge_share": ("<=", 0.08)}
TURNS: Final = 40_000
PARTS: Final = ("setup", "rollout", "judge", "credit", "update")


class Meter:
    """Turns and CPU seconds between the first update and the last."""

    def __init__(self) -> None:
        self.turns = 0
        self.cpu_s = 0.0
        self.parts: dict[str, float] = {}
        self._first: tuple[int, float] | None = None

    def __call__(self, update: Update) -> None:
        """Take in an update."""
        now = time.process_time()
        if self._first is None:
            self._first = update.turns, now
            return
        for name in PARTS:
            self.parts[name] = self.parts.get(name, 0.0) + update.timings[f"{name}_s"]
        self.turns = update.turns - self._first[0]
        self.cpu_s = now - self._first[1] - self.parts["setup"]


def judge_seconds_a_turn(run: Path) -> float:
    """CPU seconds of windows, labels and checks, a turn, on a batch of the trained policy; the best of five."""
    policy, config, _ = load_policy(run)
    rollouts = Rollouts(config, policy)
    records = rollouts.collect(range(config.groups_per_update), 0, np.random.default_rng(0)).records
    rollouts.close()
    judge = registry.make("judges", config.judge)
    turns = sum(len(record) for record in records)
    trials = []
    for _ in range(5):
        start = time.process_time()
        for record in records:
            judge_windows(judge, build_windows(record, outcome_text=("You won!",)))
        trials.append((time.process_time() - start) / turns)
    return min(trials)


def measure() -> dict[str, float]:
    """Every number that is printed."""
    meter = Meter()
    config = TrainConfig(credit="triage", turns=TURNS, eval_tasks=10, eval_at=())
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        train(config, run, progress=meter)
        judge = judge_seconds_a_turn(run)
    speed = meter.turns / meter.cpu_s
    return {
        "turns": meter.turns,
        "turns_per_cpu_s": speed,
        "judge_share": judge * speed,
        "judge_again_us_a_turn": judge * 1e6,
        **{f"{name}_us_a_turn": s / meter.turns * 1e6 for name, s in meter.parts.items()},
    }


def main() -> int:
    """Measure and print; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there too")
    target = parser.parse_args().json
    found = measure()
    least, most = BARS["turns_per_cpu_s"][1], BARS["judge_share"][1]
    met = found["turns_per_cpu_s"] >= least and found["judge_share"] <= most
    if target is not None:
        target.write_text(json.dumps({"measures": found, "bars": BARS, "met": met}, indent=2) + "\n", encoding="utf-8")
    parts = ", ".join(f"{name} {found[f'{name}_us_a_turn']:.1f}" for name in PARTS)
    print(f"bars: >= {least:.0f} turns per CPU second with learning, judge <= {most:.0%} of it")
    print(f"turns per CPU second, learning included: {found['turns_per_cpu_s']:.0f} ({found['turns']} turns)")
    print(f"judge: {found['judge_share']:.1%} ({found['judge_again_us_a_turn']:.1f} us a turn)")
    print(f"microseconds a turn: {parts} (setup makes the games, once a process, and is not counted)")
    print("both bars met" if met else "A BAR IS MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
