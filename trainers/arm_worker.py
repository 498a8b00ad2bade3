"""A worker process of a comparison: reads jobs as JSON lines, trains, and tells of it in JSON lines.

Started by :mod:`triage_gym.trainers.experiment`. Jobs: ``{"job": "start" | "arm", "config", "dir",
"start"}``. Messages: ``{"kind": "update", …}``, and for each job one ``{"kind": "done"}`` or ``{"kind": "failed",
"error"}``. Whatever else writes to the standard output goes to the standard error, so that it cannot be taken for a
message. SIGTERM ends it as it ends ``train``.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from triage_gym.errors import TriageGymError
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.loop import train
from triage_gym.trainers.pretraining import pretrain


def run_job(job: Mapping[str, Any], tell: TextIO) -> None:
    """Do one job, whatever comes of it."""
    config, path = TrainConfig.from_json(job["config"]), Path(job["dir"])
    try:
        if job["job"] == "start":
            pretrain(config, path)
        else:
            resume = any((path / "checkpoints").glob("step_*"))
            train(config, path, resume=resume, start=None if resume else job["start"], progress=_teller(tell))
        _send(tell, {"kind": "done"})
    except Exception as error:  # noqa: BLE001 - one arm's failure must reach the parent and leave the other arms alone
        if not isinstance(error, TriageGymError):
            traceback.print_exc()
        _send(tell, {"kind": "failed", "error": f"{type(error).__name__}: {error}"})


def _teller(tell: TextIO) -> Any:
    return lambda update: _send(tell, {"kind": "update", **dataclasses.asdict(update)})


def _send(tell: TextIO, message: Mapping[str, Any]) -> None:
    tell.write(json.dumps(message) + "\n")
    tell.flush()


def main() -> None:
    """Do jobs until there are no more."""
    tell = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    logging.basicConfig(level=logging.ERROR)
    for part in ("waiting", "loop"):  # what no update tells its parent
        logging.getLogger(f"triage_gym.trainers.{part}").setLevel(logging.WARNING)
    for line in sys.stdin:
        run_job(json.loads(line), tell)
