"""Bars: every credit rule credits 1,000,000 segments in 10,000 groups within 0.5 s on one core, and at least 20 times as fast as
a straightforward loop over steps that gives the same numbers. Exit code 1 when missed.

Run it from the root of a checkout: ``python benchmarks/credit.py [--json FILE] [--segments N]``. It takes some two minutes and
needs 2 GB. Both get the same arrays in the same process: the rules a :class:`triage_gym.credit.batch.Segments`, the loops plain
Python lists of them, with dicts by group and by anchor, step by step, as the released trainers of GiGPO and LaMer are written.
A rule's time is the least of three calls on a fresh batch; a loop is run once, on a tenth of the groups, since it is that much
slower and grows with the steps; its time is scaled up, its numbers are held against the rule's to 1e-9. Rules that compare
observations by similarity are left out: they compare texts pair by pair. What it costs to lay records out as such a batch is
shown without a bar.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy comes

import numpy as np

from triage_gym import credit
from triage_gym.credit.batch import Segments
from triage_gym.credit.rules import CONSTANTS
from triage_gym.display import table
from triage_gym.records import ROLES, EpisodeRecord, RoleLabel, Segment

BAR_SECONDS: Final = 0.5
BAR_RATIO: Final = 20.0
GROUP: Final = 8
LENGTH: Final = 12.5
LAM, GAMMA, TRAJ, OMEGA, KAPPA, ALPHA, EPS = 0.2, 0.95, 0.6, 1.0, 0.95, 3.0, 1e-8
Arrays = dict[str, Any]


def made(segments: int, seed: int = 0) -> Arrays:
    """A batch: groups of eight, a fifth of the rollouts retries of the one before, some excluded, some segments unjudged."""
    rng = np.random.default_rng(seed)
    n = int(segments / LENGTH) // GROUP * GROUP
    lengths = rng.integers(5, 21, n)
    group = np.repeat(np.arange(n // GROUP), GROUP)
    score = rng.integers(0, 3, n) / 2
    retry = np.zeros(n, bool)
    retry[1::5] = group[1::5] == group[0::5][: len(group[1::5])]
    parent = np.where(retry, 0, -1)
    before = np.maximum(np.arange(n) - 1, 0)
    pivot = np.where(retry, rng.integers(0, 5, n), -1)
    trial = np.where(retry, before, np.arange(n))
    total = int(lengths.sum())
    owner = np.repeat(np.arange(n), lengths)
    return {
        "lengths": lengths,
        "group": group,
        "score": score,
        "excluded": rng.random(n) < 0.02,
        "success": score == 1.0,
        "prefix": np.where(retry, np.maximum(pivot, 0), 0),
        "attempt": retry.astype(np.int64),
        "parent": parent,
        "pivot": pivot,
        "trial": trial,
        "role": rng.integers(-1, 4, total).astype(np.int8),
        "probabilities": rng.dirichlet(np.ones(4), total),
        "anchor": group[owner] * 16 + rng.integers(0, 16, total),
        "value": rng.random(total),
        "shuffle": rng.random(total),
    }


def part(arrays: Arrays, share: int) -> Arrays:
    """The first groups of a batch."""
    n = len(arrays["lengths"]) // share // GROUP * GROUP
    total = int(arrays["lengths"][:n].sum())
    rollouts = ("lengths", "group", "score", "excluded", "success", "prefix", "attempt", "parent", "pivot", "trial")
    return {name: column[: n if name in rollouts else total] for name, column in arrays.items()}


# The straightforward way --------------------------------------------------------------------------------------------------


class Plain:
    """A batch as lists, and what trainers compute of it rollout by rollout and step by step."""

    def __init__(self, arrays: Arrays) -> None:
        self.__dict__.update({name: column.tolist() for name, column in arrays.items()})
        self.begin: list[int] = []
        at = 0
        for length in self.lengths:  # type: ignore[attr-defined]
            self.begin.append(at)
            at += length
        self.total = at

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def outcomes(self, norm: str) -> list[float]:
        """Outcome term of each rollout."""
        scores: dict[int, list[float]] = {}
        for i, g in enumerate(self.group):
            if not self.excluded[i]:
                scores.setdefault(g, []).append(self.score[i])
        out = []
        for i, g in enumerate(self.group):
            own = scores.get(g, [])
            if self.excluded[i] or min(own) == max(own):
                out.append(0.0)
                continue
            mean = sum(own) / len(own)
            a = self.score[i] - mean
            if norm == "mean_std":
                std = (sum((s - mean) ** 2 for s in own) / len(own)) ** 0.5
                a /= max(std, EPS)
            elif norm == "leave_one_out":
                a *= len(own) / max(len(own) - 1, 1)
            out.append(a)
        return out

    def steps(self, i: int) -> range:
        """Positions of a rollout's steps."""
        return range(self.begin[i], self.begin[i] + self.lengths[i])

    def is_trained(self, i: int, at: int) -> bool:
        """Whether a step is trained."""
        return not self.excluded[i] and at - self.begin[i] >= self.prefix[i]

    def broadcast(self, outcome: Sequence[float]) -> list[float]:
        """The outcome on each trained step."""
        out = [0.0] * self.total
        for i in range(len(self.lengths)):
            for at in self.steps(i):
                if self.is_trained(i, at):
                    out[at] = outcome[i]
        return out

    def with_roles(self, base: list[float], worth: Callable[[int], float | None]) -> tuple[list[float], list[bool]]:
        """The role term added; and which steps were judged."""
        out, judged = list(base), [False] * self.total
        for i in range(len(self.lengths)):
            for at in self.steps(i):
                c = worth(at)
                if c is not None and self.is_trained(i, at):
                    out[at] += LAM * c
                    judged[at] = True
        return out, judged

    def whitened(self, values: list[float], counted: list[bool]) -> list[float]:
        """Standardised over the counted steps."""
        own = [v for v, c in zip(values, counted, strict=True) if c]
        mean = sum(own) / len(own)
        std = (sum((v - mean) ** 2 for v in own) / len(own)) ** 0.5
        return [(v - mean) / max(std, EPS) if c else v for v, c in zip(values, counted, strict=True)]

    def all_trained(self) -> list[bool]:
        """Whether each step is trained."""
        return [self.is_trained(i, at) for i in range(len(self.lengths)) for at in self.steps(i)]

    def returns(self) -> list[float]:
        """Discounted outcome of each step, counted from the lowest of the group."""
        lowest: dict[int, float] = {}
        for i, g in enumerate(self.group):
            if not self.excluded[i]:
                lowest[g] = min(lowest.get(g, self.score[i]), self.score[i])
        out = [0.0] * self.total
        for i in range(len(self.lengths)):
            run = 0.0
            for at in reversed(self.steps(i)):
                last = at == self.begin[i] + self.lengths[i] - 1
                run = (self.score[i] - lowest[self.group[i]] if last and not self.excluded[i] else 0.0) + GAMMA * run
                out[at] = run
        return out

    def anchored(self, base: list[float], values: list[float], trained: list[bool]) -> list[float]:
        """Steps of the same observation compared."""
        seen: dict[int, list[float]] = {}
        for at, anchor in enumerate(self.anchor):
            if trained[at]:
                seen.setdefault(anchor, []).append(values[at])
        out = list(base)
        for at, anchor in enumerate(self.anchor):
            if trained[at]:
                own = seen[anchor]
                mean = sum(own) / len(own)
                std = (sum((v - mean) ** 2 for v in own) / len(own)) ** 0.5
                if max(own) - min(own) > 1e-12:
                    out[at] += OMEGA * (values[at] - mean) / max(std, EPS)
        return out

    def next_of(self) -> dict[int, int]:
        """The retry of each rollout."""
        place = {
            (self.group[i], self.trial[i], self.attempt[i]): i for i in range(len(self.lengths)) if not self.excluded[i]
        }
        found = {}
        for (g, t, a), i in place.items():
            after = place.get((g, t, a + 1))
            if after is not None and self.parent[after] == a:
                found[i] = after
        return found

    def across(self, pivotal: bool) -> list[float]:
        """Returns that reach into the retry."""
        out, after = self.returns(), self.next_of()
        start = {i: out[self.begin[i] + self.prefix[i]] for i in after.values()}
        for i, retry in after.items():
            later = TRAJ * start[retry]
            kept = min(max(self.pivot[retry], 0), self.lengths[i]) if pivotal else self.lengths[i]
            for at in range(self.begin[i], self.begin[i] + kept):
                out[at] += later
        return out

    def against_rollouts(self, values: list[float]) -> list[float]:
        """Steps against their group, each rollout weighing the same."""
        means: dict[int, list[tuple[float, float, int]]] = {}
        for i in range(len(self.lengths)):
            own = [values[at] for at in self.steps(i) if self.is_trained(i, at)]
            if own:
                means.setdefault(self.group[i], []).append((sum(own) / len(own), sum(v * v for v in own) / len(own), i))
        bounds: dict[int, tuple[float, float]] = {}
        for i in range(len(self.lengths)):
            for at in self.steps(i):
                if self.is_trained(i, at):
                    low, high = bounds.get(self.group[i], (values[at], values[at]))
                    bounds[self.group[i]] = (min(low, values[at]), max(high, values[at]))
        out = [0.0] * self.total
        for i in range(len(self.lengths)):
            rows = means.get(self.group[i], [])
            if len(rows) < 2:
                continue
            mean = sum(m for m, _, _ in rows) / len(rows)
            std = max(sum(s for _, s, _ in rows) / len(rows) - mean * mean, 0.0) ** 0.5
            low, high = bounds[self.group[i]]
            for at in self.steps(i):
                if self.is_trained(i, at) and high - low > 1e-12 * max(1.0, abs(low), abs(high)):
                    out[at] = (values[at] - mean) / max(std, EPS)
        return out

    def worth(self, at: int) -> float | None:
        """What the role of a step is worth."""
        role = self.role[at]
        return None if role < 0 else CONSTANTS[role]

    def soft(self, at: int) -> float | None:
        """The same by probabilities."""
        if self.role[at] < 0:
            return None
        p = self.probabilities[at]
        return sum(x / sum(p) * c for x, c in zip(p, CONSTANTS, strict=True))


def _roles(p: Plain, worth: Callable[[int], float | None], base: list[float]) -> list[float]:
    return p.whitened(*p.with_roles(base, worth))


def _gigpo(p: Plain) -> list[float]:
    return p.anchored(p.broadcast(p.outcomes("mean_std")), p.returns(), p.all_trained())


def _r3l(p: Plain) -> list[float]:
    outcome = p.outcomes("mean")
    best: dict[int, float] = {}
    for i, g in enumerate(p.group):
        if not p.excluded[i]:
            best[g] = max(best.get(g, p.score[i]), p.score[i])
    after, out = p.next_of(), [0.0] * p.total
    for i in range(len(p.lengths)):
        a = ALPHA * outcome[i] if outcome[i] > 0.0 else outcome[i]
        if outcome[i] and p.success[i] and p.score[i] == best[p.group[i]]:
            a = ALPHA
        kept = min(max(p.pivot[after[i]], 0), p.lengths[i]) if i in after else 0
        for at in p.steps(i):
            if p.is_trained(i, at) and at - p.begin[i] >= kept:
                out[at] = a
    return out


def _value(p: Plain) -> list[float]:
    out = [0.0] * p.total
    for i in range(len(p.lengths)):
        run = 0.0
        for at in reversed(p.steps(i)):
            if not p.is_trained(i, at):
                continue
            last = at == p.begin[i] + p.lengths[i] - 1
            run = (p.score[i] if last else p.value[at + 1]) - p.value[at] + KAPPA * run
            out[at] = run
    return p.whitened(out, p.all_trained())


def _sum(p: Plain) -> list[float]:
    return _roles(p, p.worth, _gigpo(p))


def _shuffled(p: Plain) -> list[float]:
    roles = list(p.role)
    for i in range(len(p.lengths)):
        own = [at for at in p.steps(i) if p.role[at] >= 0 and at - p.begin[i] >= p.prefix[i]]
        for at, other in zip(own, sorted(own, key=lambda at: p.shuffle[at]), strict=True):
            roles[at] = p.role[other]
    return _roles(p, lambda at: None if roles[at] < 0 else CONSTANTS[roles[at]], p.broadcast(p.outcomes("mean_std")))


LOOPS: Final[dict[str, Callable[[Plain], list[float]]]] = {
    "grpo": lambda p: p.broadcast(p.outcomes("mean_std")),
    "grpo+whiten": lambda p: p.whitened(p.broadcast(p.outcomes("mean_std")), p.all_trained()),
    "rloo": lambda p: p.broadcast(p.outcomes("leave_one_out")),
    "drgrpo": lambda p: p.broadcast(p.outcomes("mean")),
    "scalar": lambda p: _roles(
        p, lambda at: None if p.role[at] < 0 else 0.5 if p.role[at] < 2 else -0.5, p.broadcast(p.outcomes("mean_std"))
    ),
    "triage": lambda p: _roles(p, p.worth, p.broadcast(p.outcomes("mean_std"))),
    "triage-soft": lambda p: _roles(p, p.soft, p.broadcast(p.outcomes("mean_std"))),
    "triage-shuffled": _shuffled,
    "roles-only": lambda p: _roles(p, p.worth, [0.0] * p.total),
    "gigpo": _gigpo,
    "value": _value,
    "metarl": lambda p: p.against_rollouts(p.across(pivotal=False)),
    "pivoarl": lambda p: p.against_rollouts(p.across(pivotal=True)),
    "r3l": _r3l,
    "triage+gigpo": _sum,
}
"""The straightforward way of each rule. ``triage-audited`` is ``triage`` with other constants; ``triage-online`` likewise, but
for its pairs."""


def timed(rule: Any, arrays: Arrays) -> float:
    """Least CPU seconds of three calls, each on a batch that has computed nothing yet."""
    found = []
    for _ in range(3):
        batch = Segments.of_arrays(**arrays)
        began = time.process_time()
        rule.flat(batch)
        found.append(time.process_time() - began)
    return min(found)


def measured(name: str, arrays: Arrays, tenth: Arrays, share: float) -> dict[str, Any]:
    """One rule: its time, that of its loop, and how far their numbers are apart."""
    rule = credit.make(name)
    seconds = timed(rule, arrays)
    if name not in LOOPS:
        return {"rule": name, "seconds": seconds, "loop": None, "ratio": None, "apart": None}
    plain = Plain(tenth)
    began = time.process_time()
    expected = LOOPS[name](plain)
    loop = (time.process_time() - began) / share
    apart = float(np.abs(np.asarray(expected) - rule.flat(Segments.of_arrays(**tenth)).advantage).max())  # type: ignore[attr-defined]
    return {"rule": name, "seconds": seconds, "loop": loop, "ratio": loop / seconds, "apart": apart}


def laid_out(segments: int) -> float:
    """CPU seconds to lay records of so many segments out, roles and anchors included."""
    shown, label = tuple(f"o{k}" for k in range(16)), [RoleLabel(k, ROLES[k % 4]) for k in range(25)]
    records = [
        EpisodeRecord(
            f"g{i // GROUP}",
            segments=tuple(Segment(k, shown[(i + k) % 16], "a", "") for k in range(12 + i % 2)),
            labels=tuple(label[: 12 + i % 2]),
            score=float(i % 2),
        )
        for i in range(int(segments / LENGTH))
    ]
    began = time.process_time()
    batch = Segments(records)
    _ = batch.trained, batch.grouping, batch.role, batch.anchor
    return time.process_time() - began


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    parser.add_argument("--segments", type=int, default=1_000_000)
    arguments = parser.parse_args()
    arrays = made(arguments.segments)
    total = int(arrays["lengths"].sum())
    tenth = part(arrays, 10)
    share = int(tenth["lengths"].sum()) / total
    names = [*LOOPS, "triage+capped", "triage-online"]
    rows = [measured(name, arrays, tenth, share) for name in names]
    shown = [
        [
            r["rule"],
            f"{r['seconds']:.3f}",
            "–" if r["loop"] is None else f"{r['loop']:.2f}",
            "–" if r["ratio"] is None else f"{r['ratio']:.0f}",
            "–" if r["apart"] is None else f"{r['apart']:.0e}",
        ]
        for r in rows
    ]
    print(f"{total:,} segments, {len(arrays['lengths']):,} rollouts, {len(set(arrays['group'].tolist())):,} groups")
    print(table(["rule", "CPU s", "loop, CPU s", "ratio", "apart"], shown))
    records = laid_out(arguments.segments)
    print(f"laying records out with roles and anchors: {records:.2f} CPU s (no bar)")
    slow = [r["rule"] for r in rows if r["seconds"] > BAR_SECONDS]
    near = [r["rule"] for r in rows if r["ratio"] is not None and r["ratio"] < BAR_RATIO]
    wrong = [r["rule"] for r in rows if r["apart"] is not None and not r["apart"] <= 1e-9]
    met = not (slow or near or wrong)
    print(f"bars: {BAR_SECONDS} s {'met' if not slow else f'missed by {slow}'}; {BAR_RATIO:g} times {'met' if not near else f'missed by {near}'}; "
          f"equal to 1e-9 {'met' if not wrong else f'missed by {wrong}'}")  # fmt: skip
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"rows": rows, "records": records, "met": met}, indent=1) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
