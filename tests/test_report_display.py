"""Foreign text cannot reach the terminal as anything but text."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from triage_gym.display import sanitize, sanitize_line, styled

FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]",
)
any_text = st.text(st.characters(exclude_categories=()), max_size=80)


@settings(max_examples=1000, deadline=None)
@given(any_text)
@example("\x1b]52;c;ZXZpbA==\x07")
@example("\x9b31mred")
@example("\u202egnp.exe\u2066\u2069")
@example("\ud800 alone")
def test_nothing_forbidden_survives(text: str) -> None:
    shown = sanitize(text)
    assert not FORBIDDEN.search(shown)
    assert sanitize(shown) == shown
    shown.encode("utf-8")


@settings(max_examples=300, deadline=None)
@given(any_text)
def test_a_line_is_one_line(text: str) -> None:
    shown = sanitize_line(text)
    assert not FORBIDDEN.search(shown)
    assert "\n" not in shown
    assert "\t" not in shown


@settings(max_examples=1000, deadline=None)
@given(any_text)
@example("[/oops]")
@example("[red]x[/red] [link=http://example.com]y[/link] [@click=x]z")
def test_rich_never_raises_and_never_reads_markup(text: str) -> None:
    out = io.StringIO()
    Console(file=out, force_terminal=False, width=10_000, soft_wrap=True).print(styled(text))
    printed = out.getvalue().rstrip("\n")
    assert not FORBIDDEN.search(printed)
    assert printed.replace("\n", "").rstrip() == sanitize(text).expandtabs(8).replace("\n", "").rstrip() or "\t" in text


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("plain é “text” 日本\n\tindented", "plain é “text” 日本\n\tindented"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\rb", "a\\x0db"),
        ("\u202eabc", "\\u202eabc"),
        ("\ud83d", "\\ud83d"),
        ("\x7f\x85", "\\x7f\\x85"),
    ],
)
def test_what_is_shown_instead(given_text: str, expected: str) -> None:
    assert sanitize(given_text) == expected


def test_anything_has_a_text() -> None:
    assert sanitize(None) == "None"
    assert sanitize(ValueError("a\x1bb")) == "a\\x1bb"
