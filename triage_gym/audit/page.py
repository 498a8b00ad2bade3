"""An audit as one HTML page that needs nothing else: no network, no script, no second file.

Every text from outside goes through :func:`triage_gym.report.markup.element`, which escapes it and makes control
characters visible; the Content-Security-Policy admits our style by hash and nothing else. Disagreements are listed up to
:data:`MOST`, spread over the file; the JSON of the audit has all of them.
"""

from __future__ import annotations

from typing import Final

from triage_gym.audit import text
from triage_gym.audit.auditing import KEY_CELLS, Audit, Rater
from triage_gym.audit.charts import STYLE, cell_bars, heat_map, reliability
from triage_gym.audit.verdict import verdicts
from triage_gym.protocols import Pair
from triage_gym.records import Role
from triage_gym.report.document import columns, document, sheet
from triage_gym.report.markup import Markup, element

MOST: Final = 200
"""Disagreements on the page."""


def render(found: Audit) -> str:
    """The audit as one HTML document."""
    every = [
        ("key", "Key numbers", _key(found)),
        ("families", "Families", _families(found)),
        *((f"rater-{k}", rater.name, _rater(rater, found)) for k, rater in enumerate(_detailed(found))),
        ("agreement", "Agreement", _agreement(found)),
        ("verdict", "Verdict", _verdict(found)),
        ("differences", "Where they differ", _differences(found)),
    ]
    sections = [(key, title, body) for key, title, body in every if body]
    main = [element("section", element("h2", title), body, id=key, aria_label=title) for key, title, body in sections]
    return document(
        f"Audit of {_names(found)}",
        element("a", "Skip to the content", href="#main", class_="skip"),
        _header(found, [(key, title) for key, title, _ in sections]),
        element("main", main, class_="wrap", id="main"),
        element(
            "footer",
            element(
                "p", "One self-contained file: it loads nothing and sends nothing. Roles: TRIAGE, arXiv:2606.32017."
            ),
            class_="wrap",
        ),
        style=sheet(STYLE),
    )


def _names(found: Audit) -> str:
    return ", ".join(rater.name for rater in _detailed(found))


def _detailed(found: Audit) -> list[Rater]:
    """The judges, or the annotators where no judge was asked."""
    return [rater for rater in found.raters if rater.judge] or list(found.raters)


def _header(found: Audit, links: list[tuple[str, str]]) -> Markup:
    facts = (
        ("labels", found.source or "given"),
        ("segments", str(len(found.rows))),
        ("attempts", str(found.attempts)),
        ("with a gold role", str(found.settled)),
        ("intervals", f"{100 * found.confidence:g} %, {found.method}; Wilson's where all are alike"),
    )
    return element(
        "header",
        element("p", "triage_gym", class_="brand"),
        element("h1", f"Audit of {_names(found)}"),
        element("p", _lead(found), class_="lead"),
        element("dl", [element("div", element("dt", a), element("dd", b)) for a, b in facts], class_="facts"),
        element("nav", [element("a", title, href=f"#{key}") for key, title in links], aria_label="Sections"),
        class_="wrap",
    )


def _lead(found: Audit) -> str:
    """The first key number of each judge, in a sentence."""
    role, outcome = KEY_CELLS[0]
    if not found.settled:
        return "No row has a gold role: agreement is all that can be told."
    parts = [
        f"{rater.name} finds {role} in {outcome} with F1 {text.shown(rater.cell(role, outcome).f1)}"
        for rater in _detailed(found)
    ]
    n = found.raters[0].cell(role, outcome).support
    return f"{'; '.join(parts)} (n {n}). In TRIAGE's own trials a judge that missed these did worse than none."


def _key(found: Audit) -> Markup | None:
    if not found.settled:
        return None
    note = "First the cells that matter most, n being their segments. Recall is of all segments of a role."
    return element("div", element("p", note, class_="note"), columns(*text.key_numbers(found)))


def _families(found: Audit) -> Markup | None:
    if not found.settled or len(found.families) < 2:
        return None
    note = "The same cells, family by family of environments."
    tables = [columns(*text.by_family(found, role, outcome)) for role, outcome in KEY_CELLS]
    return element("div", element("p", note, class_="note"), element("div", tables, class_="stack"))


def _rater(rater: Rater, found: Audit) -> Markup:
    cards = []
    if found.settled:
        bars = [element("h3", "F1 by role and outcome"), cell_bars(rater)]
        cards.append(element("figure", bars, class_="card"))
        cards.append(element("figure", element("h3", "What was said of what"), heat_map(rater), class_="card"))
    known = rater.calibration
    if known is not None and known.n:
        title = element("h3", "Right, %, against confidence, %")
        drawn = reliability(known, f"Reliability of {rater.name}")
        cards.append(element("figure", title, drawn, class_="card"))
    lines = [f"labels: {text.statuses(rater)}", *text.failures(rater), *text.cost(rater)]
    if known is not None and known.n:
        lines.append(text.confidence(rater)[0])
    if rater.benefit is not None:
        lines += text.foretold(rater.benefit)
    cards.append(element("div", element("ul", [element("li", x) for x in lines], class_="lines"), class_="card"))
    if found.settled:
        names, rows = text.cells(rater)
        table = columns(["among, role", *names[2:]], [[f"{row[0]}, {row[1]}", *row[2:]] for row in rows])
        cards.append(
            element("details", element("summary", "Precision, recall and F1 in numbers"), table, class_="wide")
        )
    return element("div", cards, class_="judge")


def _agreement(found: Audit) -> Markup | None:
    title, rows = text.agreements(found)
    return columns(title, rows) if rows else None


def _verdict(found: Audit) -> Markup | None:
    said = verdicts(found) if found.settled else []
    return element("ul", [element("li", line) for line in said], class_="lines") if said else None


def _differences(found: Audit) -> Markup | None:
    places = found.disagreements()
    if not places:
        return None
    chosen = places if len(places) <= MOST else [places[k * len(places) // MOST] for k in range(MOST)]
    note = f"{len(places)} of {len(found.rows)} segments" + (
        "." if len(chosen) == len(places) else f", of which {len(chosen)} are shown here."
    )
    return element(
        "div",
        element("p", note, class_="note"),
        element("ul", [_difference(found, k) for k in chosen], class_="differs"),
    )


def _difference(found: Audit, k: int) -> Markup:
    row, window = found.rows[k], found.rows[k].window
    said = [element("li", _badge(row.gold), "gold", element("span", row.note, class_="why"))] if row.gold else []
    for rater in found.raters:
        label = rater.labels[k]
        if label.role is not None or rater.judge:
            status = "" if label.role is not None else f"{label.status}: "
            said.append(
                element("li", _badge(label.role), rater.name, element("span", status + label.why, class_="why"))
            )
    outcome = {True: "success", False: "failure", None: ""}[row.success]
    own = [element("p", f"> {window.action}", class_="act this"), element("p", window.next_observation, class_="obs")]
    before = [] if window.past else [element("p", window.observation, class_="obs")]
    shown = [
        element("p", window.task, class_="why"),
        before,
        [_pair(pair) for pair in window.past],
        own,
        [_pair(pair) for pair in window.future],
    ]
    summary = element("summary", element("code", window.action), " ", element("span", row.id, class_="why"))
    where = element("span", ", ".join(x for x in (window.domain, outcome) if x), class_="when")
    return element(
        "li",
        element("details", summary, element("div", shown, class_="window")),
        where,
        element("ul", said, class_="said"),
    )


def _pair(pair: Pair) -> Markup:
    return Markup(element("p", f"> {pair.action}", class_="act") + element("p", pair.observation, class_="obs"))


def _badge(role: Role | None) -> Markup:
    return element("span", role or "?", class_=f"badge small role-{role or 'none'}")
