"""A report as one HTML page that needs nothing else: no network, no server, no second file.

The page works without its script but for reading episodes. Every text from outside goes through
:func:`triage_gym.report.markup.element` or the JSON island; the Content-Security-Policy admits our script and style by
hash and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from triage_gym.report import judge, reading, sections
from triage_gym.report.document import document, sheet
from triage_gym.report.episodes import encode, showpiece, trial_numbers
from triage_gym.report.markup import Markup, element, island
from triage_gym.report.model import Report
from triage_gym.report.view import View
from triage_gym.report.words import headline, lead


def render(report: Report) -> str:
    """The report as one HTML document."""
    script = files("triage_gym.report").joinpath("report.js").read_text(encoding="utf-8")
    view = View(report)
    every = (
        ("result", "Result", sections.result(view)),
        ("curves", "Learning curves", sections.curves(view)),
        ("differences", "Differences", sections.differences(view)),
        ("roles", "Roles", sections.roles(view)),
        ("judge", "Judge", judge.section(view)),
        ("episodes", "Episodes", reading.episodes(view)),
        ("caveats", "Caveats", reading.caveats(view)),
        ("settings", "Settings", reading.settings(view)),
    )
    shown = [(key, title, body) for key, title, body in every if body]
    main = [element("section", body, id=key, aria_label=title) for key, title, body in shown]
    return document(
        report.title,
        element("a", "Skip to the content", href="#main", class_="skip"),
        _header(report, [(key, title) for key, title, _ in shown]),
        element("main", main, class_="wrap", id="main"),
        _footer(),
        island("data", _data(view)),
        style=sheet(),
        script=script,
    )


def _header(report: Report, links: Sequence[tuple[str, str]]) -> Markup:
    facts = [element("div", element("dt", name), element("dd", value)) for name, value in report.facts]
    return element(
        "header",
        element("p", "triage_gym", class_="brand"),
        element("h1", headline(report)),
        element("p", lead(report), class_="lead"),
        element("dl", facts, class_="facts"),
        element("nav", [element("a", title, href=f"#{key}") for key, title in links], aria_label="Sections"),
        [element("p", text, class_="warn") for text in report.warnings],
        class_="wrap",
    )


def _footer() -> Markup:
    text = (
        "One self-contained file: it loads nothing and sends nothing. Roles and their credit: TRIAGE, "
        "arXiv:2606.32017. Retries: PivoARL, arXiv:2607.03702."
    )
    return element("footer", element("p", text), class_="wrap")


def _data(view: View) -> dict[str, Any]:
    return {
        "arms": [arm.label for arm in view.report.arms],
        "charts": {
            chart.name: {
                "percent": chart.percent,
                "series": [
                    {"turns": [round(t, 1) for t in c.turns], "mean": [round(m, 4) for m in c.mean]}
                    for c in chart.curves
                ],
            }
            for chart in sections.charts(view)
        },
        "first": showpiece(view.report.episodes),
        "episodes": [encode(episode, view.names) for episode in view.report.episodes],
        "trials": trial_numbers(view.report.episodes),
    }
