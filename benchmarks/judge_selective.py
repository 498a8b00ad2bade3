"""What judging only suspicious turns saves, and what it misses, on the gold set.

Bars, for the rule judge: at least half of the calls are saved, and neither the F1 of R in successes nor that of E in failures
falls by more than 0.01. A turn that is not selected counts as not called R or E.

Run it from the root of a checkout: ``python benchmarks/judge_selective.py [--judge SPEC] [--labels FILE] [--json FILE]``. SPEC
is a name or a JSON object as for ``triage-gym train --judge``; FILE holds labelled segments with gold roles and outcomes. It
asks the judge about every turn of the set once (seconds for the rules).

The selection rule was made looking at this set, whose turns were drawn so that R in successes is a quarter of it: where
regressions are rarer, more is saved; where damage repeats nothing, more is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from triage_gym.audit.gold import gold_rows
from triage_gym.audit.labels import LabelledWindow, read_labels
from triage_gym.judges import nesting
from triage_gym.judges.selective import candidate
from triage_gym.records import Role

BARS: Final = {"saved": (">=", 0.5), "lost_r_in_success": ("<=", 0.01), "lost_e_in_failure": ("<=", 0.01)}
CELLS: Final[tuple[tuple[str, Role, bool], ...]] = (("r_in_success", "R", True), ("e_in_failure", "E", False))


def f1(rows: Sequence[LabelledWindow], called: Sequence[bool], role: Role, success: bool) -> float:
    """F1 of calling turns ``role`` in attempts that ended so; 0 where nothing was called rightly."""
    own = [(said, row.gold == role) for row, said in zip(rows, called, strict=True) if row.success is success]
    hits = sum(said and true for said, true in own)
    return 2 * hits / max(1, sum(said for said, _ in own) + sum(true for _, true in own))


def measured(rows: Sequence[LabelledWindow], judge: nesting.Spec) -> dict[str, float]:
    """Share of the calls that the selection saves, and both F1 with and without it, and what they lose."""
    asked = nesting.inner(judge)
    labels = nesting.ask(asked, [row.window for row in rows])
    nesting.close(asked)
    chosen = [candidate(row.window, bool(row.success)) > 0 for row in rows]
    found: dict[str, float] = {"turns": len(rows), "asked": sum(chosen), "saved": 1 - sum(chosen) / max(1, len(rows))}
    for name, role, success in CELLS:
        said = [label.role == role for label in labels]
        found[f"{name}_all"] = f1(rows, said, role, success)
        found[f"{name}_selected"] = f1(rows, [a and b for a, b in zip(said, chosen, strict=True)], role, success)
        found[f"lost_{name}"] = found[f"{name}_all"] - found[f"{name}_selected"]
    return found


def by_family(rows: Sequence[LabelledWindow]) -> dict[str, tuple[int, int]]:
    """Turns and selected turns by family."""
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        turns, chosen = found.get(row.window.domain, (0, 0))
        found[row.window.domain] = turns + 1, chosen + (candidate(row.window, bool(row.success)) > 0)
    return found


def main() -> int:
    """Measure, print, and compare with the bars; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge", default="rule", metavar="SPEC", help="the judge that selected turns are asked of")
    parser.add_argument("--labels", type=Path, metavar="FILE", help="labelled segments; the gold set without it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE")
    args = parser.parse_args()
    rows = gold_rows() if args.labels is None else read_labels(args.labels)
    rows = [row for row in rows if row.gold is not None and row.success is not None]
    spec: Any = json.loads(args.judge) if args.judge.lstrip().startswith("{") else args.judge
    found = measured(rows, spec)
    for family, (turns, chosen) in by_family(rows).items():
        print(f"{family:12s} asked about {chosen:4d} of {turns:4d} turns")
    print(f"{'':14s}{'F1, all asked':>15s}{'F1, selected':>15s}")
    for name, _, _ in CELLS:
        print(f"{name:14s}{found[f'{name}_all']:15.3f}{found[f'{name}_selected']:15.3f}")
    met = {name: found[name] >= bar if sign == ">=" else found[name] <= bar for name, (sign, bar) in BARS.items()}
    for name, (sign, bar) in BARS.items():
        print(f"{name:18s} {found[name]:7.3f}   {sign} {bar:g}   {'met' if met[name] else 'MISSED'}")
    if args.json:
        result = {"judge": spec, "measures": found, "bars": BARS, "met": all(met.values())}
        args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
