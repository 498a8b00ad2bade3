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
    ("fallback, %", "role_fallback"),
    ("mean confidence, %", "judge_confidence"),
    ("agrees with the rules, %", "rule_agreement"),
    ("agrees with the second judge, %", "second_agreement"),
    ("second judge without a label, %", "second_failed"),
)
_ALWAYS: Final = ("role_unjudged", "role_failed", "judge_confidence", "rule_agreement", "second_agreement")
"""Shares that say something even when they are zero."""
_COSTS: Final = (
    ("calls", "calls"),
    ("cached", "cached"),
    ("prompt tokens", "prompt_tokens"),
    ("completion tokens", "completion_tokens"),
    ("tokens", "tokens"),
    ("USD", "usd"),
    ("seconds of answers", "seconds"),
    ("waited for, s", "wall_s"),
)
_NOTE: Final = (
    "Means over the updates of training; costs are sums over all seeds. What the role mix was is told above. Segments without "
    "a role get the outcome term only: failed ones were asked about, withheld ones were not sure enough, the rest was not "
    "asked about. Fallback is the share of labels that the rules gave where the judge failed."
)
_SHORT: Final = "Too short to tell whether the judge drifts: that takes %d updates."
_SILENT: Final = "No alarm about the judge."


def _measures(lines: Sequence[JudgeLine]) -> list[tuple[str, Callable[[JudgeLine], str]]]:
    """Title and text of each measure that has something in it."""
    found: list[tuple[str, Callable[[JudgeLine], str]]] = []
    for title, key in _SHARES:
        values = [dict(line.shares).get(key) for line in lines]
        if any(values) or (key in _ALWAYS and any(value is not None for value in values)):
            found.append((title, lambda line, key=key: _percent(key, dict(line.shares).get(key))))  # type: ignore[misc]
    for title, name in _COSTS:
        values = [dict(line.costs).get(name) for line in lines]
        # Without prices nothing is known of money; that is said, where there was something to pay for.
        if any(values) or (name == "usd" and any(value is not None for value in values)):
            found.append((title, lambda line, name=name: _amount(name, dict(line.costs).get(name))))  # type: ignore[misc]
    if any(_per_turn(line) is not None for line in lines):
        found.append(("prompt tokens a turn judged", lambda line: _amount("", _per_turn(line))))
    return found


def _per_turn(line: JudgeLine) -> float | None:
    costs = dict(line.costs)
    tokens, segments = costs.get("prompt_tokens"), costs.get("segments")
    return tokens / segments if tokens and segments else None


def _percent(key: str, value: float | None) -> str:
    if value is None or (key == "judge_confidence" and value == 1.0):
        return "–"  # a judge that does not say how sure it is counts as sure
    return f"{100 * value:.1f}"


def _amount(name: str, value: float | None) -> str:
    if value is None or (name == "usd" and value == 0.0):
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


def _no_alarm(lines: Sequence[JudgeLine]) -> str:
    return _SHORT % min(line.short for line in lines) if all(line.short for line in lines) else _SILENT


def section(view: View) -> Markup | None:
    """Who judged, what was not judged, what it cost and what was warned of."""
    lines = view.report.judges
    if not lines:
        return None
    judges = dict.fromkeys(line.judge for line in lines)
    head = [element("th", title, scope="col") for title in ("", *(view.name(line.arm) for line in lines))]
    rows = [
        element("tr", [element("th", title, scope="row"), *(element("td", text(line)) for line in lines)])
        for title, text in _measures(lines)
    ]
    shown = element("table", element("thead", element("tr", head)), element("tbody", rows), class_="judge")
    warned = [element("li", text) for text in alarms(lines, view.label)]
    return Markup(
        element("h2", "Judge")
        + element("p", element("b", "; ".join(judges)), class_="note named")
        + element("p", _NOTE, class_="note")
        + element(
            "div",
            element("div", shown, class_="scroll", tabindex="0"),
            element("ul", warned) if warned else element("p", _no_alarm(lines), class_="note"),
            class_="card",
        )
    )


def summary(lines: Sequence[JudgeLine], label: Callable[[str], str]) -> str:
    """The table and the alarms as text; "" where there is nothing to say."""
    if not lines:
        return ""
    judges = sanitize_line("; ".join(dict.fromkeys(line.judge for line in lines)))
    rows = [[title, *(text(line) for line in lines)] for title, text in _measures(lines)]
    warned = [f"alarm: {sanitize_line(text)}" for text in alarms(lines, label)]
    told = table(["", *(label(line.arm) for line in lines)], rows)
    return "\n".join([f"judge: {judges}", told, *(warned or [_no_alarm(lines)])])
