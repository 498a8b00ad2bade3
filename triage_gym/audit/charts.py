"""The drawings of an audit's page: reliability curve, bars of scores, confusion matrix. Colours come from classes."""

from __future__ import annotations

from typing import Final

from triage_gym.audit.auditing import OUTCOMES, Rater
from triage_gym.audit.calibration import Calibration
from triage_gym.records import ROLES
from triage_gym.report.markup import Markup, element
from triage_gym.statistics import Interval

STYLE: Final = ("triage_gym.audit", "audit.css")
"""The style sheet that they need besides the report's."""
SHADES: Final = 10
"""Shades of a cell, from none to all of its row."""
_SIDE: Final = 260
_LEFT: Final = 34


def heat_map(rater: Rater) -> Markup:
    """The confusion matrix as a table, each cell shaded by its share of the gold role's segments."""
    head = [element("th", "gold"), *(element("th", f"said {role}") for role in ROLES), element("th", "no label")]
    lines = []
    for role, counts in zip(ROLES, rater.confusion.tolist(), strict=True):
        total = sum(counts)
        cells = []
        for column, number in enumerate(counts):
            shade = round(SHADES * number / total) if total else 0
            right = " right" if column == ROLES.index(role) else ""
            percent = f"{100 * number / total:.0f} %" if total else "–"
            cells.append(element("td", str(number), " ", element("small", percent), class_=f"heat-{shade}{right}"))
        lines.append(element("tr", element("th", role, scope="row"), cells))
    table = element("table", element("thead", element("tr", head)), element("tbody", lines), class_="heat")
    return element("div", table, class_="scroll", tabindex="0")


def reliability(found: Calibration, label: str) -> Markup:
    """Share right against confidence, bin by bin; on the diagonal a judge is right as often as it is sure."""

    def x(value: float) -> str:
        return f"{_LEFT + _SIDE * value:.1f}"

    def y(value: float) -> str:
        return f"{8 + _SIDE * (1 - value):.1f}"

    body = []
    for mark in (0.0, 0.25, 0.5, 0.75, 1.0):
        body.append(element("line", x1=x(0), x2=x(1), y1=y(mark), y2=y(mark), class_="grid"))
        body.append(element("text", f"{100 * mark:g}", x=f"{_LEFT - 6}", y=y(mark), dy="4", text_anchor="end"))
        body.append(element("text", f"{100 * mark:g}", x=x(mark), y=str(8 + _SIDE + 18), text_anchor="middle"))
    body.append(element("line", x1=x(0), x2=x(1), y1=y(0), y2=y(1), class_="cross"))
    most = max((b.n for b in found.bins), default=1)
    for b in found.bins:
        at = x(b.confidence)
        body.append(
            element("line", x1=at, x2=at, y1=y(b.right.low), y2=y(b.right.high), class_="interval thin-bar arm-3")
        )
        radius = f"{3 + 5 * (b.n / most) ** 0.5:.1f}"
        title = element("title", f"confidence {b.confidence:.2f}: {100 * b.right.estimate:.0f} % of {b.n} right")
        body.append(element("circle", title, cx=at, cy=y(b.right.estimate), r=radius, class_="dot arm-3"))
    width, height = _LEFT + _SIDE + 16, 8 + _SIDE + 26
    return element(
        "svg", body, class_="chart", role="img", aria_label=label, viewBox=f"0 0 {width} {height}", width=str(width)
    )


def cell_bars(rater: Rater) -> Markup:
    """F1 of each role, among all attempts, the successful and the failed ones, each with its interval."""
    lines = []
    for at, role in enumerate(ROLES):
        bars = []
        for outcome in OUTCOMES:
            score = rater.scores[outcome][at]
            value = "–" if score.f1 is None else f"{score.f1.estimate:.2f}"
            said = f"{role} {outcome}: F1 {value}, n {score.support}"
            bars.append(
                element(
                    "li",
                    element("span", outcome, class_="when"),
                    _bar(score.f1, role, said),
                    element("span", f"{value} ", element("small", f"n {score.support}"), class_="num"),
                )
            )
        badge = element("span", role, class_=f"badge role-{role}", aria_hidden="true")
        lines.append(element("li", badge, element("ul", bars)))
    return element("ul", lines, class_="cells")


def _bar(interval: Interval | None, role: str, label: str) -> Markup:
    body = [element("line", x1="0", x2="100%", y1="9", y2="9", class_="grid")]
    if interval is not None:
        low, high, middle = (f"{100 * v:.2f}%" for v in (interval.low, interval.high, interval.estimate))
        body.append(element("rect", x="0", y="4", width=middle, height="10", class_=f"area role-{role}"))
        body.append(element("line", x1=low, x2=high, y1="9", y2="9", class_="whisker"))
    return element("svg", body, class_="chart", width="100%", height="18", role="img", aria_label=label)
