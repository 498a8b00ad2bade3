"""A report's numbers as text for a terminal."""

from __future__ import annotations

from triage_gym.display import sanitize_line, table
from triage_gym.report import judge
from triage_gym.report.model import Report
from triage_gym.report.sections import DIFFERENCES, MEASURES
from triage_gym.report.view import plain
from triage_gym.report.words import lead


def summary(report: Report) -> str:
    """The result table, the paired differences, every seed's success, warnings, and the sentence of the page."""
    labels = {arm.name: arm.label for arm in report.arms}
    used = [m for m in MEASURES if any(m.get(row) is not None for row in report.rows)]
    rows = [[labels[row.arm], *(plain(m.get(row), m.scale, m.digits) for m in used)] for row in report.rows]
    parts = [table(["arm", *(m.title for m in used)], rows)] if used else []
    if report.differences and report.reference is not None:
        shown = [m for m in DIFFERENCES if any(m.get(d) is not None for d in report.differences)]
        lines = [
            [labels[d.arm], *(plain(m.get(d), m.scale, m.digits, sign=True, better=m.better) for m in shown)]
            for d in report.differences
        ]
        parts.append(table([f"against {labels[report.reference]}", *(m.title for m in shown)], lines))
    seeds = sorted({seed for row in report.rows if row.success for seed, _ in row.success.values})
    if len(seeds) > 1:
        lines = []
        for row in report.rows:
            values = dict(row.success.values) if row.success else {}
            lines.append([labels[row.arm], *(f"{100 * values[s]:.1f}" if s in values else "–" for s in seeds)])
        parts.append(table(["success, % by seed", *(str(s) for s in seeds)], lines))
    judged = judge.summary(report.judges, lambda arm: labels[arm])
    if judged:
        parts.append(judged)
    noted = [*(f"warning: {text}" for text in report.warnings), *(f"note: {text}" for text in report.notices)]
    if noted:
        parts.append("\n".join(map(sanitize_line, noted)))
    parts.append(lead(report))
    return "\n\n".join(parts)
