"""Small runs for the tests of the trainer, and a process that kills and resumes them. Also run as a script."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.run_dir import read_json

UPDATES = 12
COMPARED = ("config.json", "metrics.jsonl", "traces.jsonl", "eval.json", "pretrain.json")


def small(**changes: Any) -> TrainConfig:
    """A run of some twelve updates of eight short episodes, with everything switched on."""
    plain: dict[str, Any] = {
        "turns": 12 * 8 * 10,
        "tasks": 6,
        "limit": 10,
        "groups_per_update": 2,
        "group_size": 4,
        "minibatch": 32,
        "width": 16,
        "demos": 4,
        "demo_noise": 0.2,
        "eval_tasks": 4,
        "eval_at": (400,),
        "checkpoint_every": 4,
        "trace_every": 2,
        "kl": 0.01,
    }
    return TrainConfig(**{**plain, **changes})


def contents(run: Path) -> dict[str, bytes]:
    """Every file that must be equal in equal runs, the newest checkpoint's included."""
    newest = max(run.glob("checkpoints/step_*"))
    files = {name: run / name for name in COMPARED}
    files |= {f"checkpoint/{path.name}": path for path in sorted(newest.iterdir())}
    return {name: path.read_bytes() for name, path in files.items() if path.exists()}


def kill_and_resume(folder: Path) -> None:
    """For each update a run that is killed right after it (by SIGKILL, from within) and resumed, each in a fork.

    A fork, since fresh imports of torch for two dozen runs would take minutes.
    """
    import torch

    from triage_gym.trainers.loop import train

    torch.set_num_threads(1)
    train(small(turns=1), folder / "first")  # makes the games once, for all forks to inherit
    for at in range(1, UPDATES + 1):
        for resume in (False, True):
            child = os.fork()
            if child == 0:
                # A fork inherits generators that a fresh process would not have; only the checkpoint may bring them back.
                torch.manual_seed(at)
                random.seed(at)
                train(small(), folder / f"killed-{at}", resume=resume, progress=None if resume else _killer(at))
                os._exit(0)
            _, status = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(status)
            assert code == (0 if resume else -signal.SIGKILL), (at, resume, code)
            if not resume:
                logged = len((folder / f"killed-{at}" / "metrics.jsonl").read_text().splitlines())
                assert logged == at, (logged, at)


def _killer(at: int) -> Any:
    def kill(update: Any) -> None:
        if update.update == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return kill


def train_slowly(run: Path) -> None:
    """A run that says when an update is over and, after the third, waits for the file ``go`` beside it."""
    from triage_gym.trainers.loop import train

    def tell(update: Any) -> None:
        print(update.update, flush=True)
        while update.update == 3 and not run.with_name("go").exists():
            time.sleep(0.01)

    train(small(), run, progress=tell)


def evaluations(run: Path) -> list[dict[str, Any]]:
    """The entries of ``eval.json``."""
    found: list[dict[str, Any]] = read_json(run / "eval.json")["evaluations"]
    return found


if __name__ == "__main__":
    what, where = sys.argv[1], Path(sys.argv[2])
    if what == "kill":
        kill_and_resume(where)
    else:
        train_slowly(where)
