"""A sensitivity grid as text, as markdown, and as a page with its heat map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from triage_gym.display import markdown_table, sanitize_line, table
from triage_gym.report.document import columns, document, sheet
from triage_gym.report.markup import Markup, element

NONE: Final = "–"
HOW: Final = (
    "Each cell: held-out success in % with its n, and points over grpo+whiten on the same seeds ± half of a 95 % t interval. "
    "Nothing corrects for the number of cells: the best of a grid is better by luck too."
)
_WIDTH, _HEIGHT, _LEFT, _TOP = 116, 62, 96, 40


def _cell(point: Mapping[str, Any]) -> str:
    """Success, and the difference to the reference."""
    own, difference = point["success"], point["difference"]
    if own is None:
        return NONE
    shown = f"{100 * own['mean']:.1f} (n {own['n']})"
    if difference is None:
        return shown
    pairs = "" if difference["n"] == own["n"] else f" (n {difference['n']})"
    return f"{shown}, {_points(difference)}{pairs}"


def _points(difference: Mapping[str, Any]) -> str:
    half = "" if difference["half_width"] is None else f" ± {100 * difference['half_width']:.1f}"
    return f"{100 * difference['mean']:+.1f}{half}"


def _references(found: Mapping[str, Any]) -> str:
    """What the runs that points are held against came to."""
    shown = []
    for name, own in found["references"].items():
        half = "" if own is None or own["half_width"] is None else f" ± {100 * own['half_width']:.1f}"
        shown.append(f"{name} {NONE}" if own is None else f"{name} {100 * own['mean']:.1f}{half} (n {own['n']})")
    return f"Held against: {'; '.join(shown)}."


def rows_of(found: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Title and rows: the first axis down, the second, where there is one, across."""
    axes, points = found["axes"], {tuple(p["point"]): p for p in found["points"]}
    first = axes[0]
    if len(axes) == 1:
        return [first["name"], "success, %, and points over grpo+whiten"], [
            [value, _cell(points[(value,)])] for value in first["values"]
        ]
    second = axes[1]
    title = [f"{first['name']} \\ {second['name']}", *second["values"]]
    return title, [[a, *(_cell(points[a, b]) for b in second["values"])] for a in first["values"]]


def remarks(found: Mapping[str, Any]) -> list[str]:
    """What must be said beside the grid."""
    seeds = ", ".join(map(str, found["seeds"]))
    done = f"{found['done']} of {found['cells']} runs are done"
    said = [f"{found['env']}, {found['turns']:,} turns, seeds {seeds}; {done}.", _references(found), HOW]
    said += [f"failed: {run['arm']}, seed {run['seed']}: {run['error']}" for run in found["failed"]]
    if found["done"] < found["cells"]:
        said.append("Not all runs are done: the same command goes on where this one stopped.")
    return said


def as_text(found: Mapping[str, Any]) -> str:
    """For the terminal."""
    head, rows = rows_of(found)
    return "\n\n".join([table(head, rows), "\n".join(sanitize_line(line) for line in remarks(found))])


def as_markdown(found: Mapping[str, Any]) -> str:
    """As a markdown file."""
    head, rows = rows_of(found)
    out = [
        f"# Sensitivity on {found['env']}",
        "",
        f"`{found['command']}`",
        "",
        markdown_table(head, rows),
        "",
    ]
    return "\n".join([*out, *(f"- {sanitize_line(remark)}" for remark in remarks(found)), ""])


def as_page(found: Mapping[str, Any]) -> str:
    """As one HTML page that loads nothing."""
    title = f"Sensitivity on {found['env']}"
    notes = [element("p", remark, class_="note") for remark in remarks(found)]
    main = element("main", element("h1", title), heat_map(found), notes, columns(*rows_of(found)), class_="wrap")
    return document(title, main, style=sheet())


def heat_map(found: Mapping[str, Any]) -> Markup:
    """Each cell shaded by its difference to the reference: one colour above, another below, the stronger the further.

    In it success, the difference with half of its interval, and the pairs of the latter."""
    axes, points = found["axes"], {tuple(p["point"]): p for p in found["points"]}
    down = axes[0]["values"]
    across = axes[1]["values"] if len(axes) > 1 else [""]
    means = [abs(p["difference"]["mean"]) for p in found["points"] if p["difference"] is not None]
    most = max(means, default=0.0) or 1.0
    body: list[Markup] = [element("text", axes[0]["name"], x="0", y="26")]
    if len(axes) > 1:
        body.append(element("text", axes[1]["name"], x=str(_LEFT), y="12"))
    for j, value in enumerate(across):
        body.append(element("text", value, x=str(_LEFT + _WIDTH * j + _WIDTH // 2), y="32", text_anchor="middle"))
    for i, own in enumerate(down):
        y = _TOP + _HEIGHT * i
        body.append(element("text", own, x="0", y=str(y + _HEIGHT // 2)))
        for j, value in enumerate(across):
            point = points[(own, value) if len(axes) > 1 else (own,)]
            body += _square(point, _LEFT + _WIDTH * j, y, most, f"{own} {value}".strip())
    width, height = _LEFT + _WIDTH * len(across) + 10, _TOP + _HEIGHT * len(down) + 10
    box = f"0 0 {width} {height}"
    label = f"Points over grpo+whiten by {' and '.join(axis['name'] for axis in axes)}"
    svg = element("svg", body, class_="chart", role="img", aria_label=label, viewBox=box, width=str(width))
    return element("div", svg, class_="scroll", tabindex="0")


def _square(point: Mapping[str, Any], x: int, y: int, most: float, name: str) -> list[Markup]:
    difference, own = point["difference"], point["success"]
    size = {"x": str(x), "y": str(y), "width": str(_WIDTH - 4), "height": str(_HEIGHT - 4)}
    if difference is None or own is None:
        return [element("rect", **size, fill="none", stroke="currentColor", stroke_opacity="0.3")]
    share = min(1.0, abs(difference["mean"]) / most)
    colour = "role-D" if difference["mean"] >= 0.0 else "role-R"
    title = element("title", f"{name}: {_cell(point)}")
    middle = str(x + (_WIDTH - 4) // 2)
    return [
        element("rect", title, **size, class_=f"area {colour}", fill_opacity=f"{0.1 + 0.6 * share:.2f}"),
        element("text", f"{100 * own['mean']:.1f}", x=middle, y=str(y + 17), text_anchor="middle"),
        element("text", _points(difference), x=middle, y=str(y + 33), text_anchor="middle"),
        element("text", f"n {difference['n']}", x=middle, y=str(y + 49), text_anchor="middle"),
    ]
