"""The one door through which foreign text reaches a terminal.

What an environment, a game file or a model wrote may hold escape sequences that move the cursor, write to the
clipboard or reverse the reading direction. :func:`sanitize` turns every such code point into a visible escape such as
``\\x1b``; :func:`styled` wraps the result in a :class:`rich.text.Text`, so that Rich never reads it as markup.
It promises harmless text; how it is laid out is left to you.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.text import Text

_KEPT: Final = {ord("\t"), ord("\n")}
_RANGES: Final[tuple[tuple[int, int], ...]] = (
    (0x00, 0x1F),  # C0 controls: ESC starts every escape sequence
    (0x7F, 0x9F),  # DEL and the C1 controls: 0x9B alone is a CSI for some terminals
    (0x061C, 0x061C),  # Arabic letter mark
    (0x200E, 0x200F),  # direction marks
    (0x2028, 0x202E),  # line and paragraph separators, bidi embeddings and overrides
    (0x2066, 0x2069),  # bidi isolates
    (0xD800, 0xDFFF),  # lone surrogates: they cannot be encoded to the terminal at all
    (0xFEFF, 0xFEFF),  # byte order mark
)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


_TABLE: Final[dict[int, str]] = {
    code: _escape(code) for first, last in _RANGES for code in range(first, last + 1) if code not in _KEPT
}
_LINE_TABLE: Final[dict[int, str]] = {**_TABLE, ord("\n"): "\\n", ord("\t"): " "}


def sanitize(text: object) -> str:
    """Text that is safe to write to a terminal; tabs and newlines stay.

    Args:
        text: Anything; ``str(text)`` is taken.

    Returns:
        The text with controls (C0, DEL, C1), bidirectional formatting characters, line separators other than the
        newline, byte order marks and lone surrogates replaced by visible escapes. Applying it twice changes nothing.
    """
    return str(text).translate(_TABLE)


def sanitize_line(text: object) -> str:
    """Like :func:`sanitize`, on one line: a newline becomes a visible ``\\n`` and a tab a space."""
    return str(text).translate(_LINE_TABLE)


def cut(text: str, most: int) -> str:
    """``text``, or where it has more than ``most`` characters its start, up to the end of a word, and an ellipsis."""
    if len(text) <= most:
        return text
    start = text[: most - 1]
    word = start.rfind(" ")
    return (start[:word] if word > most // 2 else start).rstrip() + "…"


def styled(text: object, style: str = "") -> Text:
    """Foreign text for Rich: sanitised, and never read as markup."""
    from rich.text import Text

    return Text(sanitize(text), style=style)


def table(head: Sequence[str], rows: Sequence[Sequence[object]], align: str = "") -> str:
    """Columns of sanitised text, two spaces between.

    Args:
        head: A title for each column.
        rows: Cells, as many a row as there are titles.
        align: ``l`` or ``r`` for each column; the first to the left and the others to the right by default.
    """
    sides = align or "l" + "r" * (len(head) - 1)
    cells = [[sanitize_line(c) for c in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        columns = zip(row, widths, sides, strict=True)
        return "  ".join(c.ljust(w) if side == "l" else c.rjust(w) for c, w, side in columns).rstrip()

    return "\n".join([line(cells[0]), "  ".join("-" * w for w in widths), *map(line, cells[1:])])


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The lines of a markdown table; a bar within a cell is escaped."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(sanitize_line(cell).replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(head), line(["---"] * len(head)), *map(line, rows)])
