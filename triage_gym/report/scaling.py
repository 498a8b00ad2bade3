"""The page of a scaling experiment: success against attempts allowed in a test, and against attempts made in training.

One HTML file that loads nothing and runs no script. What it draws is ``scaling.json`` (:mod:`triage_gym.cli.scaling`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from triage_gym.errors import InputError
from triage_gym.report.charts import line_chart
from triage_gym.report.document import columns, document, sheet
from triage_gym.report.markup import Markup, element
from triage_gym.report.model import Curve

NAMES: Final = {"pivot": "from the pivot", "start": "full restart"}
_SLOTS: Final = {"pivot": 3, "start": 0}


def render(data: Mapping[str, Any]) -> str:
    """The page of ``scaling.json``.

    Raises:
        InputError: If ``data`` is not its content.
    """
    try:
        return document(f"Scaling on {data['env']}", *_content(data), style=sheet())
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"Expected the content of a scaling.json, got one that does not fit: {error!r}") from error


def _content(data: Mapping[str, Any]) -> tuple[Markup, Markup]:
    test, training = data["test_time"], data["training_time"]
    seeds = len(data["seeds"])
    method = f"95 % t intervals over {seeds} seeds" if seeds > 1 else "95 % Wilson intervals over tasks, of one seed"
    lead = (
        f"{data['env']}, {data['tasks']} held-out tasks, {data['turns']:,} generated turns of training an arm; "
        f"reflector: {data['reflector']}. Bands are {method}."
    )
    names = {way: f"{NAMES[way]} ({credit})" for way, credit in data["credits"].items()}
    figures = [_figure("Attempts in the test", _test_note(data), test, names, "k", "pass@k")]
    for measure in sorted({m for way in training.values() for m in way}):
        curves = {way: found[measure] for way, found in training.items() if measure in found}
        note = "policies trained with N attempts a task, at equal generated turns"
        figures.append(_figure(f"Attempts in training: {measure}", note, curves, names, "n", measure))
    header = element(
        "header",
        element("p", "triage_gym", class_="brand"),
        element("h1", f"More attempts on {data['env']}"),
        element("p", lead, class_="lead"),
        class_="wrap",
    )
    return header, element("main", figures, class_="wrap", id="main")


def _test_note(data: Mapping[str, Any]) -> str:
    return f"policies trained with {data['test_with']} attempts a task, each retrying as it was trained to"


def _figure(title: str, note: str, curves: Mapping[str, Any], names: Mapping[str, str], x: str, y: str) -> Markup:
    """A chart, its legend and its numbers as a table."""
    drawn = [_curve(way, found, x) for way, found in curves.items()]
    chart = line_chart(
        drawn, _SLOTS, identifier=title, label=f"{title}: {y}", percent=True, height=260, unit=" attempts"
    )
    legend = [element("li", _key(way), names[way]) for way in curves]
    parts = (element("h2", title), element("p", note, class_="note"), element("ul", legend, class_="legend"), chart)
    numbers = element("details", element("summary", "The numbers"), _numbers(curves, names, x))
    return element("section", element("div", *parts, numbers, class_="card"), aria_label=title)


def _curve(way: str, found: Mapping[str, Any], x: str) -> Curve:
    mean, low, high = (tuple(float(p[part]) for p in found["points"]) for part in ("mean", "low", "high"))
    # A band is drawn for more than one run; here there is an interval in any case.
    return Curve(way, tuple(float(at) for at in found[x]), mean, low, high, runs=2)


def _key(way: str) -> Markup:
    line = element("line", x1="0", x2="22", y1="6", y2="6", class_=f"line arm-{_SLOTS[way]}")
    return element("svg", line, class_="key", viewBox="0 0 22 10", aria_hidden="true")


def _percent(point: Mapping[str, Any]) -> str:
    return f"{100 * point['mean']:.1f} % ({100 * point['low']:.1f}–{100 * point['high']:.1f})"


def _numbers(curves: Mapping[str, Any], names: Mapping[str, str], x: str) -> Markup:
    at: Sequence[int] = sorted({n for found in curves.values() for n in found[x]})
    rows = []
    for n in at:
        cells = []
        for found in curves.values():
            point = found["points"][found[x].index(n)] if n in found[x] else None
            cells.append("–" if point is None else _percent(point))
        rows.append([str(n), *cells])
    return columns([x, *(names[way] for way in curves)], rows)
