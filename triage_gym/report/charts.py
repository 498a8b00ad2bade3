"""Charts as SVG that stretches with the page: lines scale, type does not.

Every chart is an outer ``svg`` without a view box, where positions are per cents and pixels, around an inner one with
a view box that is stretched. So a chart is as readable at 390 pixels as at 1200, without a script.
Colours come from classes of the style sheet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from triage_gym.records import ROLES
from triage_gym.report.markup import Markup, element, path
from triage_gym.report.model import Curve, Estimate, RoleMix
from triage_gym.statistics import Interval

DOTTED: Final = 3
"""A line of at most so many points gets a dot at each; a single point would not be seen without."""
_SCALE: Final = 1000.0
_TOP: Final = 14
_BOTTOM: Final = 26
_LINE: Final = 20


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round numbers that cover ``[low, high]``, both ends included in the range they span."""
    if not high > low:
        high = low + 1.0
    raw_step = (high - low) / count
    magnitude = 10.0 ** math.floor(math.log10(raw_step))
    step = next(m * magnitude for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * magnitude >= raw_step * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def turns_label(turns: float) -> str:
    """``25k`` for 25 000 turns."""
    if turns >= 1e6:
        return f"{turns / 1e6:g}M"
    return f"{turns / 1e3:g}k" if turns >= 1e3 else f"{turns:g}"


def _percent(value: float) -> str:
    return f"{value:.2f}%"


def _frame(body: Sequence[Markup], height: int, label: str, **data: str) -> Markup:
    return element("svg", body, class_="chart", width="100%", height=height, role="img", aria_label=label, **data)


def _stretched(body: Sequence[Markup], height: int) -> Markup:
    return element(
        "svg",
        body,
        y=_TOP,
        width="100%",
        height=height,
        viewBox=f"0 0 {_SCALE:g} {_SCALE:g}",
        preserveAspectRatio="none",
    )


def _axis_x(high: float, height: int, count: int = 4, unit: str = " turns") -> list[Markup]:
    out = []
    marks = [t for t in ticks(0.0, high, count) if t <= high * 1.0001]
    for i, turn in enumerate(marks):
        share = turn / high
        anchor = "start" if i == 0 else "end" if share > 0.97 else "middle"
        text = turns_label(turn) + (unit if i == len(marks) - 1 else "")
        out.append(element("text", text, x=_percent(100 * share), y=_TOP + height + 18, text_anchor=anchor))
    return out


def line_chart(
    curves: Sequence[Curve],
    slots: Mapping[str, int],
    *,
    identifier: str,
    label: str,
    percent: bool,
    height: int = 300,
    unit: str = " turns",
) -> Markup:
    """Lines with 95 % bands, or with the seeds as thin lines, against environment turns.

    Args:
        curves: One a line; turns need not be the same in all.
        slots: Line style of each arm (:func:`triage_gym.report.arms.slot`).
        identifier: ``data-chart`` of the element, by which the script finds its numbers.
        label: What a screen reader says.
        percent: Whether values are shares; the axis then ends at 100 %.
        height: Of the plot area, in pixels.
        unit: What is counted to the right, where it is not turns.
    """
    right = max((c.turns[-1] for c in curves if c.turns), default=1.0) or 1.0
    marks = _marks(curves, percent)
    peak = marks[-1] or 1.0

    def at(turn: float, value: float) -> tuple[float, float]:
        return _SCALE * turn / right, _SCALE * (1.0 - min(max(value, 0.0), peak) / peak)

    bands, lines, dots = [], [], []
    for c in curves:
        style = slots[c.arm]
        for seed in c.seeds:
            d = path(at(t, v) for t, v in seed)
            bands.append(element("path", d=d, class_=f"thin line arm-{style}", vector_effect="non-scaling-stroke"))
        if c.runs > 1 and not c.seeds:
            outline = [at(t, v) for t, v in zip(c.turns, c.high, strict=True)]
            outline += [at(t, v) for t, v in reversed(list(zip(c.turns, c.low, strict=True)))]
            bands.append(element("path", d=path(outline, close=True), class_=f"band arm-{style}"))
        d = path(at(t, v) for t, v in zip(c.turns, c.mean, strict=True))
        lines.append(element("path", d=d, class_=f"line arm-{style}", vector_effect="non-scaling-stroke"))
        for t, v in zip(c.turns, c.mean, strict=True) if len(c.turns) <= DOTTED else ():
            x, y = at(t, v)
            cx, cy = _percent(100.0 * x / _SCALE), f"{_TOP + height * y / _SCALE:.1f}"
            dots.append(element("circle", cx=cx, cy=cy, r="3.5", class_=f"dot arm-{style}"))
    rules, texts = _axis_y(marks, height, percent)
    body = [*rules, _stretched([*bands, *lines], height), *dots, *texts, *_axis_x(right, height, unit=unit)]
    return _frame(body, _TOP + height + _BOTTOM, label, data_chart=identifier)


def _marks(curves: Sequence[Curve], percent: bool) -> list[float]:
    """Where the y axis is marked, from zero."""
    tops = [max(v for seed in c.seeds for _, v in seed) if c.seeds else max(c.high) for c in curves if c.high]
    top = max(tops, default=1.0)
    if percent:
        return [m for m in ticks(0.0, min(1.0, top)) if m <= 1.0 + 1e-9]
    # A wide band of a few early successes must not press the lines flat; what is higher is cut off.
    return ticks(0.0, min(top, 1.3 * max((max(c.mean) for c in curves if c.mean), default=1.0)))


def _axis_y(marks: Sequence[float], height: int, percent: bool) -> tuple[list[Markup], list[Markup]]:
    """Rules behind the lines, and their numbers in front of them."""
    rules, texts = [], []
    for mark in marks:
        y = _TOP + height * (1.0 - mark / (marks[-1] or 1.0))
        style = "grid" if mark else "base"
        rules.append(element("line", x1="0", x2="100%", y1=f"{y:.1f}", y2=f"{y:.1f}", class_=style))
        text = f"{100 * mark:g} %" if percent else f"{mark:g}"
        texts.append(element("text", text, x="0", y=f"{y - 4:.1f}", class_="mark"))
    return rules, texts


def role_chart(mix: RoleMix, label: str, height: int = 120) -> Markup:
    """Shares of the roles over training, stacked from D at the bottom to R at the top, each lettered at its end.

    The first share measured is drawn from turn 0 on.
    """
    right = mix.turns[-1] or 1.0
    turns = (0.0, *mix.turns)
    floor = [0.0] * len(turns)
    areas, letters = [], []
    for role in ROLES:
        roof = [a + b for a, b in zip(floor, mix.shares[role][:1] + mix.shares[role], strict=True)]
        upper = [(_SCALE * t / right, _SCALE * (1.0 - v)) for t, v in zip(turns, roof, strict=True)]
        lower = [(_SCALE * t / right, _SCALE * (1.0 - v)) for t, v in zip(turns, floor, strict=True)]
        areas.append(element("path", d=path(upper + lower[::-1], close=True), class_=f"area role-{role}"))
        if roof[-1] - floor[-1] > 0.1:
            y = _TOP + height * (1.0 - (roof[-1] + floor[-1]) / 2.0) + 4.0
            letters.append(element("text", role, x="100%", dx="-7", y=f"{y:.1f}", text_anchor="end", class_="letter"))
        floor = roof
    body = [_stretched(areas, height), *letters, *_axis_x(right, height, 2, "")]
    return _frame(body, _TOP + height + _BOTTOM, label)


def difference_scale(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """A range, zero included, that holds every seed and every interval of ``estimates``."""
    ends = [0.0]
    for e in estimates:
        half = e.half_width or 0.0
        ends += [e.mean - half, e.mean + half, *(v for _, v in e.values)]
    low, high = min(ends), max(ends)
    margin = 0.04 * ((high - low) or 1.0)
    return low - margin, high + margin


def difference_chart(estimate: Estimate, scale: tuple[float, float], slot: int, label: str) -> Markup:
    """One difference on a common scale: the interval as a bar, the mean as a mark, every seed as a ring."""
    low, high = scale

    def x(value: float) -> str:
        return _percent(100.0 * (value - low) / (high - low))

    middle = 17
    body = [element("line", x1=x(0.0), x2=x(0.0), y1="0", y2="34", class_="zero")]
    if estimate.half_width is not None:
        a, b = x(estimate.mean - estimate.half_width), x(estimate.mean + estimate.half_width)
        body.append(element("line", x1=a, x2=b, y1=middle, y2=middle, class_=f"interval arm-{slot}"))
    body += [element("circle", cx=x(v), cy=middle, r="3.2", class_=f"seed arm-{slot}") for _, v in estimate.values]
    body.append(
        element("line", x1=x(estimate.mean), x2=x(estimate.mean), y1="7", y2="27", class_=f"mean arm-{slot}"),
    )
    return _frame(body, 34, label)


def whiskers(lines: Sequence[tuple[str, str, str, Interval]], label: str, left: int = 30) -> Markup:
    """Intervals below each other on one axis with 0 marked.

    Args:
        lines: Name, remark, class of the colour, and the interval of each.
        label: What a screen reader says.
        left: Per cent of the width that the names take.
    """
    if not lines:
        return element("p", "Nothing to draw: nothing differs.", class_="note")
    low = min(0.0, *(i.low for *_, i in lines))
    high = max(0.0, *(i.high for *_, i in lines))
    marks = ticks(low, high)
    low, high = min(low, marks[0]), max(high, marks[-1])
    height = _LINE * len(lines) + 26

    def x(value: float) -> str:
        return f"{left + (96 - left) * (value - low) / (high - low):.2f}%"

    body: list[Markup] = []
    for mark in marks:
        cross = "cross" if mark == 0.0 else "grid"
        body.append(element("line", x1=x(mark), x2=x(mark), y1="0", y2=str(height - 24), class_=cross))
        body.append(element("text", f"{mark:g}", x=x(mark), y=str(height - 6), text_anchor="middle"))
    for k, (name, remark, colour, interval) in enumerate(lines):
        y = str(_LINE * k + 12)
        shown = f"{interval.estimate:+.3g} [{interval.low:+.3g}, {interval.high:+.3g}]"
        title = element("title", f"{name}: {shown} {remark}")
        body.append(element("text", f"{name} {remark}", x="0", y=y, dy="4"))
        body.append(element("line", title, x1=x(interval.low), x2=x(interval.high), y1=y, y2=y, class_="whisker"))
        body.append(element("circle", title, cx=x(interval.estimate), cy=y, r="4.5", class_=f"area {colour}"))
    return element("svg", body, class_="chart", width="100%", height=str(height), role="img", aria_label=label)
