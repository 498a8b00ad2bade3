"""A page to label segments in: one HTML file without a server, for the keys d, e, n, r; it saves a label file.

Promised: the page holds windows without their facts, and no outcome, no gold and no label of anybody else; texts from
outside are set as text alone; the Content-Security-Policy admits our script and style by hash and nothing else. What was
labelled is kept in the browser's storage where the browser allows that, and goes into the file only when it is saved.
Left to you: to merge the saved file with the one the page was made of (``triage-gym judge label A B --merge --out C``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from triage_gym import registry
from triage_gym.audit.annotating import annotators_of, people_of
from triage_gym.audit.labels import GOLD, SCHEMA, LabelledWindow
from triage_gym.audit.sources import in_turn
from triage_gym.report.document import document, sheet
from triage_gym.report.markup import Markup, element, island
from triage_gym.windows import window_to_json

ROLE_TEXTS = (
    ("D", "decisive progress", "changes the task for the better, or completes a part of it"),
    ("E", "useful exploration", "learns something needed, completes nothing yet"),
    ("N", "no progress", "harmless, changes nothing and tells nothing"),
    ("R", "regression", "damages the task, or repeats what is known already"),
)
TIE_BREAKS = "What holds first: damage is R, then D, then E. A first harmless try is N, the same again is R."


def render(rows: Sequence[LabelledWindow], name: str = "") -> str:
    """The page as one HTML document.

    Args:
        rows: To be labelled; asked about in the order that everybody has, in the terminal too.
        name: Who is going to label; the page asks for it otherwise.
    """
    script = files("triage_gym.audit").joinpath("label.js").read_text(encoding="utf-8")
    style = sheet(("triage_gym.audit", "label.css"))
    data = island("data", _data(rows, name))
    return document("Label segments", _header(), _main(), data, style=style, script=script)


def _data(rows: Sequence[LabelledWindow], name: str) -> dict[str, Any]:
    shown = [{"id": row.id, "window": window_to_json(row.window._replace(facts=None))} for row in in_turn(rows)]
    judges = {*registry.names("judges"), *annotators_of(rows)} - {*people_of(rows)}
    ids = "\0".join([name, *sorted(row.id for row in rows)])
    key = hashlib.sha256(ids.encode(errors="backslashreplace")).hexdigest()[:16]
    return {
        "schema": SCHEMA,
        "name": name,
        "taken": sorted({GOLD, *judges}),
        "key": f"triage_gym labels {key}",
        "rows": shown,
    }


def _header() -> Markup:
    roles = [
        element(
            "li",
            element("span", role, class_=f"badge role-{role}", aria_hidden="true"),
            element("span", element("b", title), element("span", text)),
        )
        for role, title, text in ROLE_TEXTS
    ]
    return element(
        "header",
        element("p", "triage_gym", class_="brand"),
        element("h1", "What is this turn?"),
        element("ul", roles, class_="roles"),
        element("p", TIE_BREAKS, class_="note"),
        class_="wrap",
    )


def _main() -> Markup:
    buttons = [
        element("button", f"{role} ", element("kbd", role.lower()), type="button", id=f"role-{role}", title=title)
        for role, title, _ in ROLE_TEXTS
    ]
    tools = [
        element("button", "Skip ", element("kbd", "s"), type="button", id="skip"),
        element("button", "Take back ", element("kbd", "u"), type="button", id="undo"),
        element("button", "Save the file", type="button", id="save"),
    ]
    return element(
        "main",
        element(
            "div",
            element("label", "Your name", element("input", id="name", maxlength="100", autocomplete="off")),
            element(
                "label", "Reason, if any (w to write, Enter to go back)", element("input", id="why", maxlength="2000")
            ),
            element("p", id="progress", role="status"),
            class_="asked",
        ),
        element("div", buttons, tools, class_="answers"),
        element("p", id="message", class_="hint", role="alert"),
        element("noscript", element("p", "This page needs its script to show segments.", class_="warn")),
        element("article", id="segment", class_="card episode", aria_live="polite"),
        class_="wrap",
        id="main",
    )
