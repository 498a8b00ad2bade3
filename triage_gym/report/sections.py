"""The numeric sections of a page: result, learning curves, differences, roles. Each is None when there is nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from triage_gym.report.charts import difference_chart, difference_scale, line_chart, role_chart
from triage_gym.report.markup import Markup, element
from triage_gym.report.model import Curve, Difference, Estimate, Row
from triage_gym.report.view import View, count, number

_Line = TypeVar("_Line", Row, Difference)


@dataclass(frozen=True, slots=True)
class Measure(Generic[_Line]):
    """One measured quantity and how it is written."""

    title: str
    get: Callable[[_Line], Estimate | None]
    scale: float = 1.0
    digits: int = 1
    better: str = ""
    """What a good difference is called; ``higher`` is good above zero, the others below."""


MEASURES: Final[tuple[Measure[Row], ...]] = (
    Measure("success, %", lambda row: row.success, 100.0),
    Measure("with retries, %", lambda row: row.retried, 100.0),
    Measure("success, greedy, %", lambda row: row.greedy, 100.0),
    Measure("turns of a success", lambda row: row.length),
    Measure("R per success", lambda row: row.regressions, digits=2),
)
DIFFERENCES: Final[tuple[Measure[Difference], ...]] = (
    Measure("Held-out success, points", lambda d: d.success, 100.0, better="higher"),
    Measure("Length on tasks both solve, %", lambda d: d.length_percent, better="shorter"),
    Measure("R per success", lambda d: d.regressions, digits=2, better="fewer"),
    Measure("With retries, points", lambda d: d.retried, 100.0, better="higher"),
)
ROLE_TEXTS: Final = (
    ("D", "decisive progress", "changes the task for the better or completes a sub-goal", "+1.0"),
    ("E", "useful exploration", "learns something needed, completes nothing yet", "+0.5"),
    ("N", "no progress", "harmless, changes nothing", "−0.1"),
    ("R", "regression", "damages the task or repeats what is known", "−0.5"),
)


def _table(head: Sequence[Markup], lines: Sequence[Markup], caption: str | None = None) -> Markup:
    title = element("caption", caption) if caption else None
    table = element("table", title, element("thead", element("tr", head)), element("tbody", lines))
    return element("div", table, class_="scroll", tabindex="0")


def result(view: View) -> Markup | None:
    """The table of final results, with the paired differences and every seed behind it."""
    rows = view.report.rows
    if not rows:
        return None
    used = [m for m in MEASURES if any(m.get(row) is not None for row in rows)]
    if not used:
        return None
    paired = {d.arm: d for d in view.report.differences}
    head = [element("th", "arm", scope="col"), *(element("th", m.title, scope="col") for m in used)]
    if paired and view.report.reference is not None:
        against = view.label(view.report.reference)
        head.append(element("th", f"success against {against}, points", scope="col"))
        head.append(element("th", "length on tasks both solve, %", scope="col"))
    lines = []
    for row in rows:
        cells = [element("th", view.name(row.arm), scope="row")]
        cells += [element("td", number(m.get(row), m.scale, m.digits)) for m in used]
        if paired:
            d = paired.get(row.arm)
            for m in DIFFERENCES[:2]:
                cells.append(element("td", number(m.get(d) if d else None, m.scale, m.digits, sign=True)))
        lines.append(element("tr", cells, class_="chosen" if _stands_out(row, rows, paired) else None))
    card = element("div", _table(head, lines), _every_seed(view, used), class_="card")
    return Markup(element("h2", "Result") + element("p", _result_note(view), class_="note") + card)


def _stands_out(row: Row, rows: Sequence[Row], paired: Mapping[str, Difference]) -> bool:
    """Whether TRIAGE's line is set off: where it is best, or its difference is shown to be one for the better."""
    if row.arm != "triage" or row.success is None or len(rows) < 2:
        return False
    shown = paired[row.arm].success if row.arm in paired else None
    if shown is not None and shown.excludes_zero:
        return shown.mean > 0
    return all(row.success.mean > r.success.mean for r in rows if r.success is not None and r is not row)


def _result_note(view: View) -> str:
    seeds = max((len(row.success.values) for row in view.report.rows if row.success), default=0)
    if seeds > 1:
        text = f"Mean over {seeds} seeds ± half of a 95 % t interval. "
    else:
        text = "One seed, so there is no interval. "
    if view.report.differences:
        text += "Differences are taken seed by seed: same start, same tasks, same held-out games. "
    return text + "Evaluation runs no judge; R is counted afterwards, on finished episodes."


def _every_seed(view: View, measures: Sequence[Measure[Row]]) -> Markup | None:
    rows = [row for row in view.report.rows if row.success is not None]
    seeds = sorted({seed for row in rows for seed, _ in (row.success.values if row.success else ())})
    if len(seeds) < 2:
        return None
    tables = []
    for m in measures:
        head = [element("th", "arm", scope="col"), *(element("th", f"seed {s}", scope="col") for s in seeds)]
        lines = []
        for row in rows:
            estimate = m.get(row)
            values = dict(estimate.values) if estimate else {}
            cells = [element("td", f"{m.scale * values[s]:.{m.digits}f}" if s in values else "–") for s in seeds]
            lines.append(element("tr", element("th", view.name(row.arm), scope="row"), cells))
        tables.append(_table(head, lines, m.title))
    return element("details", element("summary", "Every seed"), tables)


@dataclass(frozen=True, slots=True)
class Chart:
    """A set of curves with their words."""

    name: str
    title: str
    note: str
    curves: Sequence[Curve]
    percent: bool


def charts(view: View) -> list[Chart]:
    """The charts of learning that have something to show."""
    r = view.report
    every = (
        Chart("held-out", "Success on held-out games", "sampled actions, no judge", r.held_out, True),
        Chart("training", "Success in training", "mean over stretches of turns", r.training, True),
        Chart("length", "Turns of a success, in training", "shorter is better", r.lengths, False),
    )
    return [chart for chart in every if chart.curves]


def curves(view: View) -> Markup | None:
    """Learning curves, with a legend that doubles as the read-out of the script's cross-hair."""
    figures = []
    for c in charts(view):
        drawn = line_chart(c.curves, view.slots, identifier=c.name, label=f"{c.title} by turns", percent=c.percent)
        legend = [
            element("li", view.key(x.arm), view.label(x.arm), element("output", data_chart=c.name)) for x in c.curves
        ]
        head = [element("h3", c.title), element("span", c.note, class_="when")]
        when = element("span", class_="when", data_chart=c.name)
        figures.append(element("div", head, when, element("ul", legend, class_="legend"), drawn, class_="card"))
    if not figures:
        return None
    drawn_curves = [x for c in charts(view) for x in c.curves]
    note = "Environment turns to the right. "
    if any(x.runs > 1 and not x.seeds for x in drawn_curves):
        note += "Bands are 95 % t intervals over seeds. "
    if any(x.seeds for x in drawn_curves):
        note += "Thin lines are the seeds, which are too few for a band. "
    note += "Point at a chart, or focus it and use the arrow keys, to read its numbers."
    rest = element("div", figures[1:], class_="pair") if len(figures) > 1 else None
    stack = element("div", figures[0], rest, class_="stack")
    return Markup(element("h2", "Learning curves") + element("p", note, class_="note") + stack)


def differences(view: View) -> Markup | None:
    """Every paired difference against the reference, with its seeds."""
    r = view.report
    if not r.differences or r.reference is None:
        return None
    blocks = []
    for m in DIFFERENCES:
        found = [(d.arm, e) for d in r.differences if (e := m.get(d)) is not None]
        if not found:
            continue
        up = m.better == "higher"
        span = difference_scale([e for _, e in found])
        ends = element("span", "" if up else f"← {m.better}"), element("span", f"{m.better} →" if up else "")
        lines = [element("div", element("strong", m.title), element("div", ends, class_="ends"), class_="diff axis")]
        for arm, e in found:
            seeds = count(e, m.better)
            chart = difference_chart(e, span, view.slots[arm], f"{view.label(arm)}: {seeds}")
            value = element("div", number(e, m.scale, m.digits, sign=True), element("small", seeds), class_="num")
            name = element("div", view.name(arm))
            lines.append(element("div", name, element("div", chart, class_="plot"), value, class_="diff"))
        blocks.append(element("div", lines, class_="card"))
    note = f"Against {view.label(r.reference)}. Rings are seeds, the mark is their mean, the bar its 95 % interval."
    return Markup(
        element("h2", "Differences") + element("p", note, class_="note") + element("div", blocks, class_="stack")
    )


def roles(view: View) -> Markup | None:
    """What the four letters mean, and their shares over training."""
    r = view.report
    if not r.roles and not r.episodes:
        return None
    key = [
        element(
            "li",
            element("span", letter, class_=f"badge role-{letter}", aria_hidden="true"),
            element("span", element("b", f"{letter} · {name}"), element("span", f"{text} ({credit})")),
        )
        for letter, name, text, credit in ROLE_TEXTS
    ]
    figures = [
        element(
            "figure",
            element("h3", view.name(mix.arm)),
            role_chart(mix, f"Role mix of {view.label(mix.arm)} over training"),
        )
        for mix in r.roles
    ]
    note = (
        "What the judge calls each segment of training. Arms that do not use roles are labelled too, only to be read."
    )
    return Markup(
        element("h2", "Roles")
        + element("p", note, class_="note")
        + element("ul", key, class_="roles")
        + (
            element("div", element("div", figures, class_="trio" if len(figures) > 1 else None), class_="card")
            if figures
            else ""
        )
    )
