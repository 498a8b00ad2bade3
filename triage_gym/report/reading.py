"""The sections of a page that are words: episodes to read, caveats, settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from triage_gym.report.markup import Markup, element
from triage_gym.report.view import View

WORTH: Final = (
    ("RS", "R in a success"),
    ("EF", "E in a failure"),
    ("?", "judge failed"),
    ("T", "retries"),
    ("TS", "retries that solved it"),
)
"""What the filter of things worth a look offers."""


def episodes(view: View) -> Markup | None:
    """The frame that the script fills with episodes: filters, list, reader."""
    r = view.report
    if not r.episodes:
        return None
    listing = element("div", element("ol", id="episode-list"), _pager(), class_="list card")
    detail = element(
        "article",
        element("noscript", "Reading episodes needs the page's own script; it loads nothing."),
        id="episode",
        class_="episode card",
        tabindex="-1",
        aria_label="Episode",
    )
    keys = [("j", " next, "), ("k", " previous, "), ("/", " search")]
    hint = element("p", [(element("kbd", key), text) for key, text in keys], class_="hint")
    return Markup(
        element("h2", "Episodes")
        + element("p", _note(view), class_="note")
        + _filters(view)
        + element("div", listing, detail, class_="reader")
        + hint
    )


def _note(view: View) -> str:
    kept, total = len(view.report.episodes), view.report.episodes_total
    text = (
        "Written down during training. The number beside a segment is the advantage that the policy was trained with."
    )
    if kept < total:
        text += (
            f" {kept} of {total} are on this page: an equal part of each arm and outcome, spread evenly over training;"
            " traces.jsonl has them all."
        )
    return text


def _filters(view: View) -> Markup:
    r = view.report
    present = [arm for arm in view.names if any(e.arm == arm for e in r.episodes)]
    kinds = sorted({e.task_type for e in r.episodes if e.task_type})
    search = element("input", id="filter-search", type="search", autocomplete="off")
    return element(
        "div",
        _select("arm", "Arm", [(str(view.names.index(a)), view.label(a)) for a in present]),
        _select("outcome", "Outcome", [("won", "solved"), ("lost", "not solved")]),
        _select("role", "Worth a look", WORTH),
        _select("type", "Task type", [(k, k) for k in kinds]),
        element("label", "Search the text", search),
        class_="filters",
    )


def _select(name: str, label: str, options: Sequence[tuple[str, str]]) -> Markup:
    inside = [element("option", "all", value=""), *(element("option", text, value=v) for v, text in options)]
    return element("label", label, element("select", inside, id=f"filter-{name}", autocomplete="off"))


def _pager() -> Markup:
    return element(
        "div",
        element("button", "←", id="page-previous", type="button", aria_label="previous page"),
        element("span", id="episode-count", role="status"),
        element("button", "→", id="page-next", type="button", aria_label="next page"),
        class_="pager",
    )


def caveats(view: View) -> Markup | None:
    """What the numbers do not show."""
    r = view.report
    if not (r.caveats or r.notices):
        return None
    parts = [element("h2", "Caveats")]
    for title, texts in (("", r.caveats), ("What the trainer warned of", r.notices)):
        if texts:
            parts.append(element("h3", title) if title else Markup(""))
            parts.append(element("ul", [element("li", text) for text in texts], class_="caveats"))
    return Markup("".join(parts))


def settings(view: View) -> Markup | None:
    """What the arms are, the whole config, and the command that repeats the run."""
    r = view.report
    if not r.config and not r.command:
        return None
    notes = [element("li", element("b", view.label(n)), f" {view.arms[n].note}") for n in view.names]
    rows = [
        element("tr", element("th", key, scope="row"), element("td", element("code", str(value))))
        for key, value in r.config.items()
    ]
    table = element("div", element("table", element("tbody", rows)), class_="scroll", tabindex="0")
    return Markup(
        element("h2", "Settings")
        + element("ul", notes, class_="caveats")
        + (element("pre", r.command) if r.command else "")
        + (element("details", element("summary", "The whole config"), table) if rows else "")
    )
