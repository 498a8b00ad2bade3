"""Bars, over five seeds: the default never ends with E above .85 and success 0, on any environment, from a random start or a
weak one, with a fair judge or one that pays for news; it gets out where plain TRIAGE ends so (and plain TRIAGE does, or
nothing is shown); from a random start on ALFWorld it solves no less than plain TRIAGE, within the noise. Exit code 1 when
one is missed.

Run it from the root of a checkout: ``python benchmarks/farming.py [--json FILE] [--runs DIR] [--jobs N] [--only CELL …]``.
It needs the extra ``train`` and the data of the environments; TextWorld is left out, and said to be, where it is not
installed. With ``--runs`` what is finished is kept, and a stopped benchmark goes on.

Arms: TRIAGE without a guard (``farming_guard=off``), with the options ``guard`` (roles only in groups whose outcomes
differ), ``after_whitening``, ``sign_guard`` and ``capped``, each alone; the default, which is TRIAGE with the farming guard; whitened GRPO.
A run of the default in which the guard never stepped in is plain TRIAGE's bit for bit (tests/test_trainer_farming.py), so
that one is not trained twice. Cells: the built-in environments with the rules as judge, from random weights and, where
there are demonstrations, from the weak start of ``triage_gym.trainers.setups``; and a probe whose books always hold
something new, with generic rules, which pay for that, at λ 0.2 and at 2. Success and E are those of the last four updates
(256 attempts and more); held-out success is of 100 tasks. Nothing was tuned on these.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from triage_gym.display import table
from triage_gym.statistics import paired_difference, t_interval
from triage_gym.trainers import TrainConfig, train
from triage_gym.trainers.setups import SETUPS

FARMED: Final = 0.85
NOTHING: Final = 0.01
"""Success up to which a run counts as one that solves nothing: stricter than 0."""
SEEDS: Final = (0, 1, 2, 3, 4)
LAST: Final = 4
PLAIN, DEFAULT, GRPO = "triage", "default", "grpo+whiten"
ARMS: Final[dict[str, dict[str, Any]]] = {
    DEFAULT: {"credit": "triage"},
    PLAIN: {"credit": "triage", "farming_guard": "off"},
    "triage+guard": {"credit": "triage+guard", "farming_guard": "off"},
    "triage+after_whitening": {"credit": "triage+after_whitening", "farming_guard": "off"},
    "triage+sign_guard": {"credit": "triage+sign_guard", "farming_guard": "off"},
    "triage+capped": {"credit": "triage+capped", "farming_guard": "off"},
    GRPO: {"credit": "grpo+whiten"},
}
COMMON: Final[dict[str, Any]] = {"tasks": 200, "eval_tasks": 100, "eval_at": (), "trace_every": 0}
READING: Final[dict[str, Any]] = {
    "env": "triage_gym.testing.probes:EndlessReading",
    "judge": {"name": "rule", "domain": "generic"},
    "limit": 8,
    "turns": 12_000,
}
BOOTSTRAP: Final = "alfworld, random start"
TEXTWORLD: Final = "textworld, random start"
"""Only the default and whitened GRPO: a process plays each of its 64 games at a time."""
FARMABLE: Final = ("reading", "reading, lam 2")


def of(env: str, **changes: Any) -> dict[str, Any]:
    """The settings of an environment, changed."""
    return {"env": env, **SETUPS[env], **changes}


CELLS: Final[dict[str, dict[str, Any]]] = {
    BOOTSTRAP: of("alfworld", turns=30_000, demos=0),
    "alfworld, weak start": of("alfworld", turns=15_000),
    "webshop, random start": of("webshop", turns=10_000, demos=0),
    "webshop, weak start": of("webshop", turns=10_000),
    "searchqa, random start": of("searchqa", turns=8_000, demos=0),
    "minesweeper, random start": of("minesweeper", turns=4_000, demos=0),
    "sokoban, random start": of("sokoban", turns=6_000, demos=0),
    "sokoban, weak start": of("sokoban", turns=6_000),
    TEXTWORLD: {"env": "textworld", "limit": 20, "turns": 6_000, "demos": 0, "tasks": 40, "eval_tasks": 20},
    FARMABLE[0]: READING,
    FARMABLE[1]: {**READING, "lam": 2.0},
}


@dataclass(frozen=True)
class Job:
    """A run."""

    cell: str
    arm: str
    seed: int

    @property
    def config(self) -> TrainConfig:
        """Its settings."""
        return TrainConfig(**{**COMMON, **CELLS[self.cell], **ARMS[self.arm], "seed": self.seed})

    def folder(self, runs: Path) -> Path:
        """Where it lies."""
        name = f"{self.cell}-{self.arm}-s{self.seed}"
        return runs / "".join(c if c.isalnum() else "-" for c in name)


def measure(job: Job, runs: Path) -> dict[str, Any]:
    """Train, or go on, and say how it ended."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    folder, begun = job.folder(runs), time.process_time()
    done = folder / "farming.json"
    if done.is_file():
        kept: dict[str, Any] = json.loads(done.read_text())
        if kept["digest"] == job.config.digest():
            return kept
    resume = any(folder.glob("checkpoints/step_*"))
    result = train(job.config, folder, resume=resume)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    found = {
        "digest": job.config.digest(),
        "held_out": result.success,
        "success": mean(rows[-LAST:], "success"),
        "explored": explored(rows[-LAST:]),
        "auc": mean(rows, "success"),
        "guarded": sum(bool(row.get("guard")) for row in rows) / len(rows),
        "cpu_s": time.process_time() - begun,
    }
    done.write_text(json.dumps(found))
    return found


def mean(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    """Over updates that have it."""
    values = [row[key] for row in rows if row[key] is not None]
    return sum(values) / len(values) if values else 0.0


def explored(rows: Sequence[Mapping[str, Any]]) -> float:
    """Share of E among judged turns."""
    judged = [1.0 - row["role_unjudged"] for row in rows]
    return sum(row["role_E"] for row in rows) / sum(judged) if sum(judged) > 0.0 else 0.0


def collapsed(run: Mapping[str, Any]) -> bool:
    """Whether it ended exploring for its judge and solving nothing."""
    return bool(run["explored"] > FARMED and run["success"] <= NOTHING)


def lines(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[list[str]]:
    """A row an arm."""
    out = []
    for arm, runs in found.items():
        shown = []
        for key in ("held_out", "success", "auc", "explored"):
            middle, half = t_interval([run[key] for run in runs])
            shown.append(f"{100 * middle:.1f} ± {100 * (half or 0.0):.1f}")
        stepped = sum(run["guarded"] > 0 for run in runs)
        out.append([arm, *shown, f"{sum(map(collapsed, runs))}/{len(runs)}", f"{stepped}/{len(runs)}"])
    return out


def arms_of(cell: str) -> list[str]:
    """What is trained in a cell."""
    return [DEFAULT, GRPO] if cell == TEXTWORLD else list(ARMS)


def train_all(cells: Sequence[str], seeds: Sequence[int], runs: Path, jobs: int) -> dict[str, dict[str, list[Any]]]:
    """Every run, by cell and arm, in order of seeds; plain TRIAGE only where the guard of the default stepped in."""
    first = [Job(cell, arm, seed) for cell in cells for arm in arms_of(cell) if arm != PLAIN for seed in seeds]
    found: dict[Job, dict[str, Any]] = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for wanted in (first, None):
            todo = wanted or [
                Job(job.cell, PLAIN, job.seed) for job in first if job.arm == DEFAULT and found[job]["guarded"] > 0
            ]
            begun = {pool.submit(partial(measure, runs=runs), job): job for job in todo}
            for number, future in enumerate(as_completed(begun), 1):
                found[begun[future]] = future.result()
                print(f"\r{number}/{len(begun)} runs", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {
        cell: {
            arm: [found.get(Job(cell, arm, seed)) or found[Job(cell, DEFAULT, seed)] for seed in seeds]
            for arm in arms_of(cell)
        }
        for cell in cells
    }


def verdicts(found: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> dict[str, bool]:
    """Each bar, in words, and whether it is met."""
    bad = [cell for cell, arms in found.items() if any(map(collapsed, arms[DEFAULT]))]
    out = {f"no run of the default ends with E > {FARMED} and success 0 (bad: {', '.join(bad) or 'none'})": not bad}
    for cell in FARMABLE:
        if cell in found:
            default, grpo = ([run["held_out"] for run in found[cell][arm]] for arm in (DEFAULT, GRPO))
            caught = sum(map(collapsed, found[cell][PLAIN]))
            out[f"{cell}: plain TRIAGE collapses in {caught} of {len(default)} runs, 1 and more needed"] = caught > 0
            half = sum(grpo) / 2
            out[f"{cell}: the default solves at least half of what {GRPO} solves"] = sum(default) >= half
    if BOOTSTRAP in found:
        default, plain = ([run["held_out"] for run in found[BOOTSTRAP][arm]] for arm in (DEFAULT, PLAIN))
        cost = paired_difference(default, plain)
        words = (
            f"{BOOTSTRAP}: default − triage {100 * cost.mean:+.1f} ± {100 * (cost.half_width or 0.0):.1f}, not below 0"
        )
        out[words] = cost.mean + (cost.half_width or 0.0) >= 0.0
    return out


def main() -> int:
    """Train, print and judge; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there too")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="keep the runs there, and those that are finished")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes, one a core by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), help="five of them by default")
    parser.add_argument("--only", nargs="+", choices=list(CELLS), metavar="CELL", help="these cells, for a look")
    arguments = parser.parse_args()
    cells = [cell for cell in CELLS if arguments.only is None or cell in arguments.only]
    if importlib.util.find_spec("textworld") is None:
        cells = [cell for cell in cells if CELLS[cell]["env"] != "textworld"]
        print("textworld is not installed and left out")
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as aside:
        runs = arguments.runs or Path(aside)
        runs.mkdir(parents=True, exist_ok=True)
        found = train_all(cells, arguments.seeds, runs, arguments.jobs)
    for cell in cells:
        print(f"\n{cell}: {CELLS[cell]['turns']:,} turns, {len(arguments.seeds)} seeds, %")
        print(table(["arm", "held out", "at the end", "auc", "E", "collapsed", "guard stepped in"], lines(found[cell])))
    bars = verdicts(found)
    print()
    for words, met in bars.items():
        print(f"{'met' if met else 'MISSED'}: {words}")
    print(f"{time.monotonic() - begun:.0f} s")
    if arguments.json is not None:
        text = json.dumps({"measures": found, "bars": bars, "met": all(bars.values())}, indent=2)
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
