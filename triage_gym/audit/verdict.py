"""What an audit comes to in a sentence a judge: its F1 in the two cells that the outcome gets wrong, beside the paper's.

TRIAGE (arXiv:2606.32017) audits 135 segments: on R in success the judge that taught has an F1 of 86.1, the one that may
not think 29.2, and training with the latter ended below GRPO; on E in failure both are above 82, so that no number
there tells a good judge from a bad one. These are marks on other segments than yours: a hint, no test.
"""

from __future__ import annotations

from typing import Final

from triage_gym.audit.auditing import Audit, Rater
from triage_gym.statistics import Interval

TAUGHT: Final = 0.861
"""F1 on R in success of the paper's judge whose labels improved training."""
MISLED: Final = 0.292
"""The same of the judge with whose labels training ended below GRPO."""
BOTH: Final = 0.82
"""F1 on E in failure that both of them exceed."""


def verdicts(found: Audit) -> list[str]:
    """A sentence for each judge."""
    return [f"{rater.name}: {verdict(rater)}" for rater in found.raters if rater.judge]


def verdict(rater: Rater) -> str:
    """How a rater does on R in success and E in failure beside the paper's judges, as far as its intervals tell."""
    regressions, explorations = rater.cell("R", "success"), rater.cell("E", "failure")
    return f"R in success {on_r(regressions.f1)}; E in failure {on_e(explorations.f1)}"


def on_r(f1: Interval | None) -> str:
    """An F1 on R in success beside the paper's two marks."""
    if f1 is None:
        return "not measured: no such segment has a gold role"
    taught = f"the {TAUGHT:.2f} of the judge that taught in the TRIAGE paper"
    misled = f"the {MISLED:.2f} of the one that ended below GRPO there"
    if f1.low <= MISLED and f1.high >= TAUGHT:
        place = f"too few segments to tell {taught} from {misled}"
    elif f1.low > TAUGHT:
        place = f"above {taught}"
    elif f1.high >= TAUGHT:
        place = f"not told apart from {taught}"
    elif f1.low > MISLED:
        place = f"below {taught}, above {misled}"
    elif f1.high >= MISLED:
        place = f"not told apart from {misled}"
    else:
        place = f"below {misled}"
    return f"{f1.estimate:.2f}: {place}"


def on_e(f1: Interval | None) -> str:
    """An F1 on E in failure beside what both of the paper's judges exceed."""
    if f1 is None:
        return "not measured: no such segment has a gold role"
    mark = f"the {BOTH} that both of these exceed"
    place = "above" if f1.low > BOTH else "below" if f1.high < BOTH else "not told apart from"
    return f"{f1.estimate:.2f}: {place} {mark}"
