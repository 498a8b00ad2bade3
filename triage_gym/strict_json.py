"""JSON as the standard has it, without the NaN and infinities that Python's reader lets through.

What it leaves to you: to say in an error of your own where the text came from.
"""

from __future__ import annotations

import json
from typing import Any


def loads(text: str | bytes) -> Any:
    """The value that a JSON text stands for.

    Raises:
        ValueError: For a text that is no JSON, or holds NaN or an infinity.
        RecursionError: For one that is nested too deep.
    """
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")
