"""The page on reflection: its examples print what it says, and its tables name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from triage_gym import registry
from triage_gym.reflection.allocation import ALLOCATIONS
from triage_gym.reflection.parsing import FORMS

PAGE = (Path(__file__).parent.parent / "docs" / "reflection.md").read_text("utf-8")


def test_the_examples_print_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"```python\n(.*?)```\n\nprints\n\n((?:    [^\n]*\n)+)", PAGE, re.DOTALL)
    assert len(examples) == PAGE.count("```python") == 2
    for code, said in examples:
        exec(code, {})  # noqa: S102 - our own page
        assert capsys.readouterr().out == re.sub("^    ", "", said, flags=re.MULTILINE)


def test_the_tables_name_what_there_is() -> None:
    named = re.findall(r"^\| `([a-z]+)` \|", PAGE, re.MULTILINE)
    assert sorted(named) == sorted([*registry.names("reflectors"), *registry.names("checks"), *FORMS])
    assert all(f"`{how}`" in PAGE for how in ALLOCATIONS)
