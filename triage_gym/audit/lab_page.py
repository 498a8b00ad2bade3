"""Counterfactual findings as one HTML page that needs nothing else: no network, no script, no second file.

For each judge what its roles were worth, with intervals, and the two correlations that the verdict goes by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from triage_gym.audit.charts import STYLE
from triage_gym.audit.counterfactual import OUTCOMES, Finding
from triage_gym.audit.lab_text import about, paper, signed
from triage_gym.audit.labels import LabelledWindow
from triage_gym.audit.text import shown
from triage_gym.report.charts import whiskers
from triage_gym.report.document import columns, document, sheet
from triage_gym.report.markup import Markup, element


def render(
    rows: Sequence[LabelledWindow], found: Sequence[Finding], words: Sequence[str], head: Mapping[str, Any]
) -> str:
    """The page.

    Args:
        rows: The counterfactual rows.
        found: What they say of each judge.
        words: The verdicts.
        head: Where the rows come from.
    """
    title = "Counterfactual credit"
    body = [
        element("h1", title),
        element("ul", [element("li", line) for line in words], class_="lines"),
        element("ul", [element("li", line) for line in about(rows, head).splitlines()], class_="lines"),
        _section("What goes with A*", correlations(found)),
        *(_section(f"Worth of roles: {f.judge}", _judge(f)) for f in found),
    ]
    return document(title, element("main", body, class_="wrap"), style=sheet(STYLE))


def _section(title: str, *content: Markup) -> Markup:
    return element("section", element("h2", title), list(content))


def _judge(found: Finding) -> Markup:
    cells = [c for outcome in OUTCOMES for c in found.cells if c.outcome == outcome and c.worth is not None]
    lines = [(f"{c.outcome}, {c.role}", f"n {c.n}", f"role-{c.role}", c.worth) for c in cells if c.worth is not None]
    needed = found.necessity
    notes = []
    if needed.n:
        notes.append(
            f"{shown(needed.unneeded)} of {needed.n} turns called D could be replaced by another action of the policy at no "
            f"cost; replacing one costs {signed(needed.cost)}."
        )
    if found.benefit is not None:
        notes += paper(found).splitlines()
    return element(
        "div",
        whiskers(lines, f"E[A* | role] of {found.judge}"),
        element("ul", [element("li", note) for note in notes], class_="lines"),
    )


def correlations(found: Sequence[Finding]) -> Markup:
    """The correlation of each judge's constants with A*, beside the outcome's, as a figure and in numbers."""
    lines = []
    for f in found:
        if f.role_corr is not None:
            lines.append((f"{f.judge}: c", "", "role-D", f.role_corr))
        if f.outcome_corr is not None:
            lines.append((f"{f.judge}: A_i", "", "role-N", f.outcome_corr))
        if f.difference is not None:
            lines.append((f"{f.judge}: c less A_i", "", "role-E", f.difference))
    numbers = columns(
        ["judge", "n", "c", "A_i", "c less A_i", "A_i + λ c less A_i"],
        [
            [f.judge, str(f.n), *map(signed, (f.role_corr, f.outcome_corr, f.difference, f.sum_difference))]
            for f in found
        ],
    )
    return element("div", whiskers(lines, "Correlations with A*"), numbers)
