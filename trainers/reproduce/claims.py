"""What the papers claim, held against what was measured here: holds, does not hold, or undecided at this n.

A claim compares two arms in one metric on one environment, seed by seed. ``above``: the 95 % t interval of the difference
lies above a least difference (0 unless stated). ``below``: below it. ``level``: it lies within a margin on both sides. What the interval cannot
decide is undecided, which more seeds may change; nothing is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from triage_gym.statistics import Paired
from triage_gym.trainers.reproduce.arms import JUDGED
from triage_gym.trainers.reproduce.measures import LENGTH, SUCCESS, Key, paired, paired_json

Verdict = Literal["holds", "does not hold", "undecided"]
MARGIN: Final = 0.05
"""Success that counts as level, on both sides."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement about two arms."""

    text: str
    first: str
    second: str
    metric: str = SUCCESS
    kind: Literal["above", "below", "level"] = "above"
    least: float = 0.0
    """What the difference is above, or below."""
    envs: tuple[str, ...] = ()
    """Where it is made; everywhere when empty."""

    def verdict(self, found: Paired | None) -> Verdict:
        """What the difference ``first - second`` says of the claim."""
        if found is None or found.half_width is None:
            return "undecided"
        if found.half_width == 0.0 and found.mean != 0.0:
            return "undecided"  # few tasks and seeds that happen to agree: no spread to judge by is not certainty
        low, high = found.mean - found.half_width, found.mean + found.half_width
        if self.kind == "above":
            return "holds" if low > self.least else "does not hold" if high < self.least else "undecided"
        if self.kind == "below":
            return "holds" if high < self.least else "does not hold" if low > self.least else "undecided"
        if low >= -MARGIN and high <= MARGIN:
            return "holds"
        return "does not hold" if high < -MARGIN or low > MARGIN else "undecided"


def _above(first: str, second: str, text: str = "", **more: Any) -> Claim:
    return Claim(text or f"{first} above {second}", first, second, **more)


_LENGTHS: Final = ("alfworld", "webshop")
CLAIMS: Final[Mapping[str, tuple[Claim, ...]]] = {
    "main": (
        _above("triage", "grpo", "TRIAGE above GRPO"),
        _above("triage", "grpo+whiten", "TRIAGE above GRPO with whitening"),
        _above("triage", "scalar", "role types above a scalar of the same judge"),
        _above("scalar", "grpo", "scalar above GRPO"),
        _above("triage", "gigpo", "TRIAGE above GiGPO"),
        _above("triage-audited", "grpo+whiten", "measured constants above GRPO with whitening"),
        _above("triage-online", "grpo+whiten", "constants measured by retries above GRPO with whitening"),
        _above("triage-audited", "scalar", "measured constants above the scalar"),
        _above("triage-online", "scalar", "constants measured by retries above the scalar"),
        _above("triage", "triage-shuffled", "roles in their places above shuffled ones"),
        _above("triage", "task-blind", "a judge that knows the task above one that does not"),
        _above("triage", "roles-only", "with the outcome above roles alone"),
        Claim(
            "successes 10 % shorter than with GRPO and whitening",
            "triage",
            "grpo+whiten",
            LENGTH,
            kind="below",
            least=-10.0,
            envs=_LENGTHS,
        ),
        Claim(
            "fewer R in a success than with GRPO and whitening", "triage", "grpo+whiten", "r_per_success", kind="below"
        ),
    ),
    "ablation": (
        _above("triage", "no-E", "TRIAGE above TRIAGE without E"),
        _above("no-E", "scalar", "without E above scalar"),
        Claim("scalar level with TRIAGE without R", "scalar", "no-R", kind="level"),
        _above("no-R", "grpo+whiten", "without R above GRPO with whitening"),
        _above("triage", "no-R", "TRIAGE above TRIAGE without R"),
        _above("triage", "no-D", "TRIAGE above TRIAGE without D"),
        _above("grpo+whiten", "R-as-E", "GRPO with whitening above TRIAGE with a judge that reads R as E"),
        _above("grpo+whiten", "novelty", "GRPO with whitening above TRIAGE with a judge of novelty"),
        _above("triage", "noise-30", "TRIAGE above TRIAGE with 30 % of the labels wrong"),
        _above("noise-50", "grpo+whiten", "half of the labels wrong still above GRPO with whitening"),
    ),
    "judge": tuple(
        _above(f"{rule}@{judge}", f"scalar@{judge}", f"{rule} above scalar, judge {judge}")
        for judge in JUDGED
        for rule in ("triage", "triage+soft", "triage-audited", "triage-online")
        if rule != "triage+soft" or judge.startswith("votes")
    ),
    "pivot": (
        _above("pivoarl", "metarl", "PivoARL above MetaRL, pass@3", metric="pass@3"),
        _above("pivoarl", "metarl", "PivoARL above MetaRL, pass@2", metric="pass@2"),
        _above("pivoarl", "metarl", "PivoARL above MetaRL, pass@1"),
        _above("pivoarl", "pivoarl-start", "the pivot above the start with the same rule, pass@3", metric="pass@3"),
        _above("pivoarl", "grpo+whiten", "PivoARL above GRPO with whitening, pass@1"),
    ),
}


def claims_of(table: str) -> tuple[Claim, ...]:
    """The claims that a table tests."""
    shared = {"length": "main", "pass_k": "pivot"}
    found = CLAIMS[shared.get(table, table)]
    return tuple(c for c in found if c.metric == LENGTH) if table == "length" else found


def checked(
    claims: Sequence[Claim], results: Mapping[Key, Any], envs: Sequence[str], arms: Sequence[str]
) -> list[dict[str, Any]]:
    """Each claim on each environment where it is made and both arms are part of the table.

    For lengths ``least`` is in per cent, and the difference is that of ``first`` over ``second``: how much longer the
    former's successes are on tasks that both solve.
    """
    out = []
    for env in envs:
        for claim in claims:
            if (claim.envs and env not in claim.envs) or claim.first not in arms or claim.second not in arms:
                continue
            found = paired(results, env, claim.first, claim.second, claim.metric)
            out.append(
                {
                    "env": env,
                    "claim": claim.text,
                    "first": claim.first,
                    "second": claim.second,
                    "metric": claim.metric,
                    "kind": claim.kind,
                    "least": claim.least,
                    "difference": paired_json(found),
                    "verdict": claim.verdict(found),
                }
            )
    return out
