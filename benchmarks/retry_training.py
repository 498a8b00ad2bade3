"""Bar: at equal generated turns, training with pivotal retry reaches at least the pass@3 of training with full retry on two
of the four environments Minesweeper, Sokoban, WebShop and ALFWorld, over five seeds. Exit code 1 when missed.

Run it from the root of a checkout: ``python benchmarks/retry_training.py [--json FILE] [--runs DIR] [--only ENV …]``. It
takes some ten minutes on two cores and needs the extra ``train``, and ALFWorld's data. An arm is a credit rule with the
retries it is made for: ``pivoarl`` goes back to the pivot, ``metarl`` (LaMer's rule) to the start with the same remark, both
with three attempts; ``grpo`` makes one attempt. The policy's own pointer reflects, but on ALFWorld the earliest turn that the
rule judge calls R, since it has rules for that. ``pivoarl`` and ``metarl`` differ in rule and in place; so ``pivoarl`` from the
start stands beside them, which differs from ``pivoarl`` in the place alone. All are whitened, share seed by seed the start
policy, and are evaluated on the same held-out tasks with three attempts, where failures are retried as in training. ``turns``
counts generated turns alone. Each difference is taken seed by seed, with a 95 % t interval.

The small policies learn Minesweeper, Sokoban and WebShop to the top within some ten thousand turns, where nothing is left to
tell apart: these runs stop before. Nothing was tuned for an arm.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from triage_gym.display import table
from triage_gym.statistics import Paired, paired_difference, t_interval
from triage_gym.trainers import TrainConfig, compare

ARMS: Final = ("grpo+whiten", "metarl+whiten", "pivoarl+whiten")
FULL, PIVOT = ARMS[1:]
FROM_START: Final = f"{PIVOT}, from the start"
SEEDS: Final = (0, 1, 2, 3, 4)
GENERIC: Final = {"name": "rule", "domain": "generic"}
ENVS: Final[dict[str, dict[str, Any]]] = {
    "minesweeper": {"turns": 4_000, "limit": 7, "judge": GENERIC, "groups_per_update": 4},
    "sokoban": {"turns": 6_000, "limit": 7, "demos": 10, "judge": GENERIC, "groups_per_update": 4},
    "webshop": {"turns": 3_000, "limit": 15, "demos": 15, "judge": GENERIC, "groups_per_update": 4},
    "alfworld": {"turns": 60_000, "limit": 30, "reflector": "role", "groups_per_update": 4},
}
METRICS: Final = ("pass@1", "pass@2", "pass@3")
DIFFERENCES: Final = ((PIVOT, FULL), (PIVOT, FROM_START), (PIVOT, ARMS[0]))
NEEDED: Final = 2


def run(env: str, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Train and compare the arms on one environment; runs that are finished in ``folder`` are kept."""
    config = TrainConfig(env=env, eval_attempts=3, eval_at=(), eval_tasks=300, trace_every=0, **settings)
    found = compare(config, ARMS, SEEDS, folder / env, baseline=FULL)
    other = compare(replace(config, retry_from="start"), [PIVOT], SEEDS, folder / f"{env}-start", baseline=PIVOT)
    runs = [*found["runs"], *({**run, "credit": FROM_START} for run in other["runs"])]
    failed = [run for run in runs if run["status"] != "done"]
    if failed:
        raise SystemExit(f"{env}: {len(failed)} runs failed, the first: {failed[0]}")
    final = f"success@{settings['turns']}"  # of first attempts
    names = {"pass@1": final, "pass@2": "pass@2", "pass@3": "pass@3"}
    return {
        arm: {m: [run["metrics"][names[m]] for run in runs if run["credit"] == arm] for m in METRICS}
        for arm in (*ARMS, FROM_START)
    }


def lines(found: Mapping[str, Mapping[str, Sequence[float]]]) -> list[list[str]]:
    """A row an arm, and one a difference; by seed, pass@3."""
    out = []
    for arm, metrics in found.items():
        cells = [t_interval(metrics[m]) for m in METRICS]
        shown = [f"{100 * mean:.1f} ± {100 * (half or 0.0):.1f}" for mean, half in cells]
        out.append([arm, *shown, " ".join(f"{100 * value:.1f}" for value in metrics["pass@3"])])
    for a, b in DIFFERENCES:
        cells = [difference(found, a, b, m) for m in METRICS]
        shown = [f"{100 * c.mean:+.1f} ± {100 * (c.half_width or 0.0):.1f} ({c.positive}/{c.n})" for c in cells]
        by_seed = [x - y for x, y in zip(found[a]["pass@3"], found[b]["pass@3"], strict=True)]
        out.append([f"{a} − {b}", *shown, " ".join(f"{100 * value:+.1f}" for value in by_seed)])
    return out


def difference(found: Mapping[str, Mapping[str, Sequence[float]]], a: str, b: str, metric: str) -> Paired:
    """``a`` less ``b``, seed by seed."""
    return paired_difference(found[a][metric], found[b][metric])


def main() -> int:
    """Train, print and judge; 1 when the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there too")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="keep the runs there, and those that are finished")
    parser.add_argument(
        "--only", nargs="+", choices=sorted(ENVS), help="these environments alone; then there is no bar"
    )
    arguments = parser.parse_args()
    chosen = {env: settings for env, settings in ENVS.items() if arguments.only is None or env in arguments.only}
    measures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as aside:
        for env, settings in chosen.items():
            found = run(env, settings, arguments.runs or Path(aside))
            print(f"\n{env}: {settings['turns']:,} generated turns, 300 held-out tasks, five seeds, %", flush=True)
            print(table(["arm", *METRICS, "pass@3 by seed"], lines(found)), flush=True)
            measures[env] = found
    for other, what in ((FULL, "LaMer's full retry"), (FROM_START, "the same rule with full retry")):
        reached = [env for env, found in measures.items() if difference(found, PIVOT, other, "pass@3").mean >= 0.0]
        print(f"\npivotal >= {what} in pass@3 on {len(reached)} of {len(measures)}: {', '.join(reached) or 'none'}")
    reached = [env for env, found in measures.items() if difference(found, PIVOT, FULL, "pass@3").mean >= 0.0]
    met = len(reached) >= NEEDED
    if arguments.json is not None:
        bars = {f"environments where {PIVOT} >= {FULL} in pass@3": NEEDED}
        text = json.dumps({"measures": measures, "bars": bars, "met": met}, indent=2)
        arguments.json.write_text(text + "\n", encoding="utf-8")
    if arguments.only is not None:
        return 0
    print("bar met" if met else f"BAR MISSED: {NEEDED} needed")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
