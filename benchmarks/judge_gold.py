"""Builds the gold set that comes with the package, ``triage_gym/audit/gold.jsonl.gz``; bar: the same bytes again.

(Bytes of what is compressed: how it is compressed differs from machine to machine.)

Episodes of the six built-in families are played by their experts with noise, every turn is labelled by the oracle judge
and by the rule judge, and segments are drawn from each cell of role x outcome. Where the two agreed, gold is what they
said; where they differed, the window was read and the role settled by its definition, and a few on which both agreed
against the definitions were corrected. One reader did that, with both labels and the facts in sight: ``judge_gold.json``
holds these decisions by id, each with its reason, which is the segment's note.

    python benchmarks/judge_gold.py             # builds it and compares with what is shipped: exit 1 when it differs
    python benchmarks/judge_gold.py --write     # puts it in place
    python benchmarks/judge_gold.py --review    # shows the segments that differ and are not settled

Rules may become better: then other segments differ. Those that are shipped stay (``judge_gold.json`` names them); what is
settled stays settled.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from triage_gym.audit.labels import LabelledWindow, write_labels
from triage_gym.audit.sources import shuffled
from triage_gym.cli.judge_collect import ORACLE, RULE, JudgeCollect, collect
from triage_gym.records import ROLES

HERE: Final = Path(__file__).parent
SHIPPED: Final = HERE.parent / "triage_gym" / "audit" / "gold.jsonl.gz"
SETTLED: Final = HERE / "judge_gold.json"
FAMILIES: Final[dict[str, list[tuple[float, JudgeCollect]]]] = {
    "alfworld": [
        (1.0, JudgeCollect(env="alfworld", split="valid_seen", limit=25, noise=0.55, episodes=20, explore_first=True))
    ],
    "webshop": [(1.0, JudgeCollect(env="webshop", split="val", limit=15, noise=0.4, episodes=30, explore_first=True))],
    "searchqa": [
        (1.0, JudgeCollect(env="searchqa", split="val", limit=5, noise=0.55, episodes=50, explore_first=True))
    ],
    "sokoban": [(1.0, JudgeCollect(env="sokoban", split="val", limit=15, noise=0.4, episodes=40))],
    "minesweeper": [
        (
            1.0,
            JudgeCollect(
                env="minesweeper", split="val", limit=20, noise=0.45, episodes=40, env_kwargs={"max_turns": 20}
            ),
        )
    ],
    "textworld": [
        (0.6, JudgeCollect(env="textworld", split="val", limit=12, noise=0.5, episodes=20)),
        (
            0.5,
            JudgeCollect(
                env="textworld",
                split="val",
                limit=25,
                noise=0.45,
                episodes=20,
                env_kwargs={"challenge": "cooking"},
                explore_first=True,
            ),
        ),
    ],
}
"""By family, where its segments come from, each source with its share. The oracle puts exploration first where the way to
the goal is hidden and not told by the task."""
PER_CELL: Final = 6
MORE: Final = {("R", True): 12, ("E", False): 10}
"""Cells that are drawn from more often: those that a poor judge fails first (TRIAGE, arXiv:2606.32017)."""
ROOM: Final = 300_000
"""Most bytes of the file."""


def drawn(family: str) -> list[LabelledWindow]:
    """The segments of a family, in order of play."""
    found: list[LabelledWindow] = []
    for share, source in FAMILIES[family]:
        rows = collect(source)
        chosen: set[str] = set()
        for role in ROLES:
            for success in (True, False):
                most = MORE.get((role, success), PER_CELL)
                cell = [row for row in rows if row.labels[ORACLE].role == role and row.success is success]
                chosen.update(row.id for row in _mixed(shuffled(cell, "gold"))[: round(share * most)])
        found += [row for row in rows if row.id in chosen]
    return found


def _mixed(rows: list[LabelledWindow]) -> list[LabelledWindow]:
    """Plain repetitions, which any judge sees, in turns with the others, so that they do not crowd these out."""
    plain = [row for row in rows if row.labels[ORACLE].why.startswith("repeated")]
    other = [row for row in rows if row not in plain]
    both = [row for pair in zip(other, plain, strict=False) for row in pair]
    return [*both, *other[len(plain) :], *plain[len(other) :]]


def settled() -> dict[str, Any]:
    """The decisions: ``{"segments": [ids], "gold": {id: {"role", "note"}}}``."""
    found: dict[str, Any] = json.loads(SETTLED.read_text()) if SETTLED.exists() else {"segments": [], "gold": {}}
    return found


def build(*, anew: bool = False) -> tuple[list[LabelledWindow], list[LabelledWindow]]:
    """The rows of the file, and those whose labels differ and nobody settled."""
    decisions = settled()
    rows: list[LabelledWindow] = []
    for family in FAMILIES:
        rows += drawn(family)
    if decisions["segments"] and not anew:
        wanted = set(decisions["segments"])
        rows = [row for row in rows if row.id in wanted]
    done, left = [], []
    for row in rows:
        said = decisions["gold"].get(row.id)
        if said is None and row.labels[ORACLE].role != row.labels[RULE].role:
            left.append(row)
        gold = row.labels[ORACLE].role if said is None else said["role"]
        # Rules change; a file with what they once said would mislead.
        labels = {ORACLE: row.labels[ORACLE]}
        done.append(replace(row, labels=labels, gold=gold, note="" if said is None else said["note"]))
    return done, left


def show(row: LabelledWindow) -> str:
    """A segment to be read; the outcome is not shown, though the facts hint at it."""
    window = row.window
    lines = [f"##### {row.id}", f"TASK {window.task[:300]!r}"]
    lines += [f"  - {pair.action!r} -> {pair.observation[-260:]!r}" for pair in window.past]
    lines += [
        f"  OBS {window.observation[-700:]!r}",
        f"  >>> {window.action!r}",
        f"  NEW {window.next_observation[-700:]!r}",
    ]
    lines += [f"  + {pair.action!r} -> {pair.observation[-120:]!r}" for pair in window.future[:2]]
    lines += [f"  {name}: {said.role} ({said.why})" for name, said in sorted(row.labels.items())]
    return "\n".join([*lines, f"  facts {window.facts}"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--review", action="store_true")
    parser.add_argument(
        "--anew", action="store_true", help="draw the segments again instead of taking the shipped ones"
    )
    asked = parser.parse_args()
    rows, left = build(anew=asked.anew)
    if asked.review:
        print("\n\n".join(map(show, left)))
    counts = Counter((row.window.domain, row.gold, row.success) for row in rows)
    print(f"{'family':<12} {'role':<5} {'in success':>10} {'in failure':>10}")
    for family in FAMILIES:
        for role in ROLES:
            print(f"{family:<12} {role:<5} {counts[family, role, True]:>10} {counts[family, role, False]:>10}")
    print(f"{len(rows)} segments, {sum(bool(row.note) for row in rows)} settled by hand, {len(left)} others differ")
    # Of shipped segments, gold is what was said when they were labelled, whatever the rules say now.
    unsettled = asked.anew and bool(left)
    if asked.write and not unsettled:
        write_labels(SHIPPED, rows)
        known = settled()
        known["segments"] = [row.id for row in rows]
        known["gold"] = {name: said for name, said in known["gold"].items() if name in known["segments"]}
        SETTLED.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / "gold.jsonl.gz"
        write_labels(again, rows)
        size = again.stat().st_size
        same = SHIPPED.exists() and gzip.decompress(SHIPPED.read_bytes()) == gzip.decompress(again.read_bytes())
    print(
        f"{size} bytes (bar: at most {ROOM}); the shipped file is {'the same' if same else 'another'} (bar: the same)"
    )
    return 0 if same and size <= ROOM and not unsettled else 1


if __name__ == "__main__":
    sys.exit(main())
