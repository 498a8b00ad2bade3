"""The example of docs/retry.md runs and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "retry.md"


def test_the_example_prints_what_stands_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = re.findall(r"```python\n(.*?)```\n\nprints\n\n((?: {4}[^\n]*\n)+)", PAGE.read_text("utf-8"), re.DOTALL)
    code, printed = found
    exec(compile(code, str(PAGE), "exec"), {})  # noqa: S102 - our own documentation
    assert capsys.readouterr().out == re.sub(r"(?m)^ {4}", "", printed)
