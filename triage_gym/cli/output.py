"""What commands print: sanitised text, coloured only where a terminal asks for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from triage_gym.display import sanitize

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Rich's console without its guesses: no markup, no highlighting, no emoji codes."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)


def count(number: int, noun: str) -> str:
    """``1 turn``, ``2 turns``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def say(text: object = "") -> None:
    """One text on standard output, sanitised."""
    print(sanitize(text))


def tell(text: object) -> None:
    """One text of progress on standard error, sanitised."""
    print(sanitize(text), file=sys.stderr, flush=True)
