"""The frame of every page that we write: one HTML file that loads nothing, with its style and script allowed by hash alone."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from triage_gym.report.markup import Child, Markup, element, policy, raw


def sheet(*more: tuple[str, str]) -> str:
    """The report's style sheet, followed by further ones, each a package and a file in it."""
    every = (("triage_gym.report", "report.css"), *more)
    return "".join(files(package).joinpath(name).read_text(encoding="utf-8") for package, name in every)


def document(title: str, *content: Child, style: str, script: str = "") -> str:
    """A whole page.

    Args:
        title: Of the window, without our name.
        *content: Of its body.
        style: The style sheet.
        script: What it runs, at the end of the body; nothing else is run.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        policy(script, style),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{title} · triage_gym"),
        element("link", rel="icon", href="data:,"),
        raw("style", style),
    )
    body = element("body", content, raw("script", script) if script else None)
    return "<!doctype html>\n" + element("html", head, body, lang="en") + "\n"


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A table that scrolls where the page is narrow; the first cell of a row is its title."""
    top = element("tr", [element("th", cell, scope="col") for cell in head])
    lines = [
        element("tr", element("th", row[0], scope="row"), [element("td", cell) for cell in row[1:]]) for row in rows
    ]
    whole = element("table", element("thead", top), element("tbody", lines))
    return element("div", whole, class_="scroll", tabindex="0")
