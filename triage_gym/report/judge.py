"""The section of a page on the judge, and the same as text for a terminal. None where there is nothing to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from triage_gym.display import sanitize_line, table
from triage_gym.report.judging import ALARMS
from triage_gym.report.markup import Markup, element
from triage_gym.report.model import JudgeLine
from triage_gym.report.view import View

_SHARES: Final = (
    ("without a role, %", "role_unjudged"),
    ("failed, %", "role_failed"),
    ("withheld, %", "role_unsure"),
    ("mean confidence, %", "judge_confidence"),
    ("agrees with the rules, %", "rule_agreement"),
    ("with the second judge, %", "second_agreement"),
)
_COSTS: Final = ("calls", "cached", "prompt_tokens", "completion_tokens", "tokens", "usd", "seconds")
_NOTE: Final = (
    "Means over the updates of training; costs are sums over all seeds. What the role mix was is told above. Segments without "
    "a role get the outcome term only: failed ones were asked about, withheld ones were not sure enough, the rest was not "
    "asked about."
)


def _columns(lines: Sequence[JudgeLine]) -> list[tuple[str, Callable[[JudgeLine], str]]]:
    """Title and text of each column that has something in it."""
    found: list[tuple[str, Callable[[JudgeLine], str]]] = [("judge", lambda line: line.judge)]
    for title, key in _SHARES:
        if any(dict(line.shares).get(key) is not None for line in lines):
            found.append((title, lambda line, key=key: _percent(dict(line.shares).get(key))))  # type: ignore[misc]
    for name in _COSTS:
        if any(name in dict(line.costs) for line in lines):
            title = name.replace("_", " ")
            found.append((title, lambda line, name=name: _amount(name, dict(line.costs).get(name))))  # type: ignore[misc]
    return found


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _amount(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.4f}" if name == "usd" else f"{value:,.0f}"


def alarms(lines: Sequence[JudgeLine], label: Callable[[str], str]) -> list[str]:
    """Each alarm in words, with the turns at which it began."""
    seen: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        for alarm in line.alarms:
            at = f"seed {alarm.seed} at turn {alarm.turns:,}"
            seen.setdefault((alarm.name, line.arm), []).append(at)
    return [f"{ALARMS[name]} ({label(arm)}: {_some(at)})" for (name, arm), at in seen.items()]


def _some(places: Sequence[str], most: int = 3) -> str:
    return ", ".join(places[:most]) + (f" and {len(places) - most} more" if len(places) > most else "")


def section(view: View) -> Markup | None:
    """Who judged, what was not judged, what it cost and what was warned of."""
    lines = view.report.judges
    if not lines:
        return None
    columns = _columns(lines)
    head = [element("th", title, scope="col") for title in ("arm", *(title for title, _ in columns))]
    rows = [
        element(
            "tr",
            [element("th", view.name(line.arm), scope="row"), *(element("td", text(line)) for _, text in columns)],
        )
        for line in lines
    ]
    shown = element("table", element("thead", element("tr", head)), element("tbody", rows))
    warned = [element("li", text) for text in alarms(lines, view.label)]
    return Markup(
        element("h2", "Judge")
        + element("p", _NOTE, class_="note")
        + element(
            "div",
            element("div", shown, class_="scroll", tabindex="0"),
            element("ul", warned) if warned else element("p", "No alarm about the judge.", class_="note"),
            class_="card",
        )
    )


def summary(lines: Sequence[JudgeLine], label: Callable[[str], str]) -> str:
    """The table and the alarms as text; "" where there is nothing to say."""
    if not lines:
        return ""
    columns = _columns(lines)
    rows = [[label(line.arm), *(sanitize_line(text(line)) for _, text in columns)] for line in lines]
    warned = [f"alarm: {sanitize_line(text)}" for text in alarms(lines, label)]
    return "\n".join([table(["arm", *(title for title, _ in columns)], rows), *warned])
