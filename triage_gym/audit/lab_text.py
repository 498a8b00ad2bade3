"""What counterfactual rows say, as tables for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from triage_gym.audit.counterfactual import OUTCOMES, Finding, table_of
from triage_gym.audit.fitting import Fit, Held
from triage_gym.audit.labels import LabelledWindow
from triage_gym.audit.text import NONE, number, shown
from triage_gym.credit.rules import CONSTANTS
from triage_gym.display import sanitize_line, table
from triage_gym.judges.breaker import shortened
from triage_gym.records import ROLES
from triage_gym.statistics import Interval


def signed(interval: Interval | None) -> str:
    """``+0.12 [+0.02, +0.22]``."""
    if interval is None:
        return NONE
    if interval.n < 2:
        return f"{interval.estimate:+.3f} (one task)"
    return f"{interval.estimate:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"


def summary(
    rows: Sequence[LabelledWindow], found: Sequence[Finding], words: Sequence[str], head: Mapping[str, Any]
) -> list[str]:
    """The blocks, the verdict last."""
    return [
        about(rows, head),
        *filter(None, (silence(rows, f.judge) for f in found)),
        *(f"judge {sanitize_line(f.judge)}: E[A* | role], outcome\n{worth(f)}" for f in found),
        "correlations with A*\n" + gate(found),
        *(paper(f) for f in found if f.benefit is not None),
        "Verdict\n" + "\n".join(f"  {sanitize_line(line)}" for line in words),
    ]


def about(rows: Sequence[LabelledWindow], head: Mapping[str, Any]) -> str:
    """Where the rows come from and how much noise is in them."""
    numbers = table_of(rows)
    lines = [f"{sanitize_line(str(head['source']))}: {len(rows)} turns of {len(set(numbers.task))} tasks"]
    if "spent" in head:
        lines.append(
            f"{head['episodes']} episodes on {head['split']} tasks, {100 * head['success']:.1f} % solved; "
            f"{head['spent']:,} turns spent, {head['rollouts']} + {head['rollouts']} continuations a turn"
        )
        if head["refused"]:
            lines.append(f"{head['refused']} turns left out: their state did not come back verified")
        if head.get("broken"):
            lines.append(f"{head['broken']} turns left out: the environment failed in a continuation")
        if head["noisy"]:
            lines.append(
                "the environment draws random numbers in its steps: A* is conditional on the noise that it drew"
            )
    rest = (
        "" if numbers.reliability is None else f", of its variance {100 * numbers.reliability:.0f} % is no noise of it"
    )
    lines.append(f"mean A* {numbers.a_star.mean():+.4f}, mean standard error {numbers.error.mean():.4f}{rest}")
    lines.append("intervals: 95 %, expanded percentile bootstrap over tasks")
    return "\n".join(lines)


def silence(rows: Sequence[LabelledWindow], judge: str) -> str:
    """How many turns a judge gave no role, and the commonest reason; empty where it gave all one."""
    silent = [row.labels[judge] for row in rows if judge in row.labels and row.labels[judge].role is None]
    if not silent:
        return ""
    why, times = Counter(said.why for said in silent).most_common(1)[0]
    told = f", {times} × {shortened(why)}" if why else ""
    return f"judge {sanitize_line(judge)} gave no role to {len(silent)} of {len(rows)} turns{sanitize_line(told)}"


def worth(found: Finding) -> str:
    """E[A* | role, outcome] of a judge."""
    rows = []
    for outcome in OUTCOMES:
        for cell in found.cells:
            if cell.outcome == outcome and cell.n:
                rows.append([outcome, cell.role, str(cell.n), signed(cell.worth)])
    text = table(["episodes", "role", "n", "A*"], rows, align="llrr")
    needed = found.necessity
    if needed.n:
        text += (
            f"\nD that another action of the policy could stand in for: {shown(needed.unneeded)} of {needed.n}; "
            f"replacing a D costs {signed(needed.cost)}"
        )
    return text


def gate(found: Sequence[Finding]) -> str:
    """The correlations that the verdict goes by."""
    rows = [
        [f.judge, str(f.n), signed(f.role_corr), signed(f.outcome_corr), signed(f.difference), signed(f.sum_difference)]
        for f in found
    ]
    return table(["judge", "n", "c", "A_i", "c less A_i", "A_i + λ c less A_i"], rows)


def paper(found: Finding) -> str:
    """The paper's own measures."""
    b = found.benefit
    assert b is not None
    gains = ", ".join(f"{g.role} {signed(g.gain)}" for g in b.gains if g.n)
    changes = ", ".join(f"{change:+.4f} at λ {weight:.2g}" for weight, change in b.change)
    return (
        f"judge {sanitize_line(found.judge)}, the paper's criterion: Cov(c, δ) {signed(b.covariance)}, λ* {number(b.best_weight)}\n"
        f"  change of the mean squared error: {changes}\n  g*: {gains}"
    )


def fitted(judge: str, found: Fit, held: Held | None) -> str:
    """A fit, and how it does on tasks that it has not seen."""
    rows = [
        [
            role,
            str(found.counts[k]),
            NONE if found.counts[k] == 0 else f"{found.measured[k]:+.3f} ± {1.96 * found.errors[k]:.3f}",
            f"{found.lam * found.constants[k]:+.3f}",
            f"{found.constants[k]:+.3f}",
            f"{CONSTANTS[k]:+.1f}",
        ]
        for k, role in enumerate(ROLES)
    ]
    text = f"judge {sanitize_line(judge)}: λ = {found.lam:.3f}, constants {', '.join(f'{c:.3f}' for c in found.constants)}\n"
    text += table(["role", "n", "λ c as measured", "shrunk", "constant", "the paper's"], rows)
    if held is None:
        return f"{text}\n\ntoo few turns to try the fit on tasks that it has not seen"
    return (
        f"{text}\n\ncorrelation with A* on tasks that the fit has not seen\n"
        f"  A_i {signed(held.outcome)}, A_i + λ c fitted {signed(held.fitted)}, the paper's {signed(held.paper)}\n"
        f"  fitted less A_i {signed(held.gain)}, less the paper's {signed(held.over_paper)}\n{_conclusion(held)}"
    )


def _conclusion(held: Held) -> str:
    """What the fit is good for, by the intervals on tasks that it has not seen."""
    over, gain = held.over_paper, held.gain
    if over is not None and over.low > 0.0:
        return "the fitted constants tell more of A* than the paper's"
    if over is not None and over.high < 0.0:
        return "the fitted constants tell less of A* than the paper's: keep those (credit triage)"
    told = "nothing was found that the paper's constants do not have"
    return f"{told}; nor do they tell more than the outcome alone" if gain is None or gain.low <= 0.0 else told
