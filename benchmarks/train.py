"""How fast the built-in trainer is, learning included, and what the judge costs of it.

Bars: at least 8,000 environment turns per CPU second with learning; the judge at most 8 % of it.

Run it from the root of a checkout on an idle machine: ``python benchmarks/train.py [--json FILE]``. It trains TRIAGE on
ALFWorld with the default settings for 40,000 turns (half a minute), through the same stack and logs as ``triage-gym
train``, with checkpoints, and exits with 1 when a bar is missed. Counted is all CPU time of the process from the end of the first
update to the end of the last, on whatever thread; not counted are making the games (printed apart: a process makes each
once) and evaluation. The judge's part is what RoleJudgeWrapper does at the end of an episode (windows, labels,
checks), done again for a batch.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from triage_gym import registry
from triage_gym.judges.labelling import judge_windows
from triage_gym.trainers import TrainConfig, Update, train
from triage_gym.trainers.evaluation import load_policy
from triage_gym.trainers.rollout import Rollouts
from triage_gym.windows import build_windows

# Python puts the folder of a script first on its path, where a file hides the package alfworld.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

LEAST_TURNS_PER_CPU_S: Final = 8_000
MOST_JUDGE_SHARE: Final = 0.08
TURNS: Final = 40_000


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
        for name in ("setup_s", "rollout_s", "judge_s", "credit_s", "update_s"):
            self.parts[name] = self.parts.get(name, 0.0) + update.timings[name]
        self.turns = update.turns - self._first[0]
        self.cpu_s = now - self._first[1] - self.parts["setup_s"]


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


def measure() -> dict[str, Any]:
    """Everything that is printed."""
    meter = Meter()
    config = TrainConfig(credit="triage", turns=TURNS, eval_tasks=10, eval_at=())
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        train(config, run, progress=meter)
        judge = judge_seconds_a_turn(run)
    speed = meter.turns / meter.cpu_s
    share = judge * speed
    return {
        "turns": meter.turns,
        "turns_per_cpu_s": speed,
        "judge_share": share,
        "judge_us_a_turn": judge * 1e6,
        "us_a_turn": {name.removesuffix("_s"): s / meter.turns * 1e6 for name, s in meter.parts.items()},
        "bars": {"turns_per_cpu_s": LEAST_TURNS_PER_CPU_S, "judge_share": MOST_JUDGE_SHARE},
        "met": speed >= LEAST_TURNS_PER_CPU_S and share <= MOST_JUDGE_SHARE,
    }


def main() -> int:
    """Measure and print; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there too")
    target = parser.parse_args().json
    found = measure()
    if target is not None:
        target.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    parts = ", ".join(f"{name} {us:.1f}" for name, us in found["us_a_turn"].items())
    print(f"bars: >= {LEAST_TURNS_PER_CPU_S} turns per CPU second with learning, judge <= {MOST_JUDGE_SHARE:.0%} of it")
    print(f"turns per CPU second, learning included: {found['turns_per_cpu_s']:.0f} ({found['turns']} turns)")
    print(f"judge: {found['judge_share']:.1%} ({found['judge_us_a_turn']:.1f} us a turn)")
    print(f"microseconds a turn: {parts} (setup makes the games, once a process, and is not counted)")
    print("both bars met" if found["met"] else "A BAR IS MISSED")
    return 0 if found["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
