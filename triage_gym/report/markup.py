"""HTML and SVG by construction: text is escaped unless it was made here.

:func:`element` is the only way a tag is written, so no string from an environment can become one. Scripts and styles
are allowed by their hash alone (:func:`policy`), and data travels in a JSON island (:func:`island`) that cannot close
its own script element.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable
from typing import Final

from triage_gym.display import sanitize

_VOID: Final = frozenset({"meta", "link", "br", "hr", "input"})


class Markup(str):
    """A string that is already HTML."""

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]


def _render(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int | float):
        return html.escape(sanitize(child), quote=True)
    return "".join(_render(c) for c in child)


def element(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """One element.

    Args:
        name: Tag name, written by us.
        *children: Text (escaped, control characters made visible), :class:`Markup`, or iterables of these.
        **attributes: ``class_`` and ``for_`` lose the underscore, other underscores become hyphens; True is an
            attribute without a value, None and False leave it out.
    """
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        written.append(attribute if value is True else f'{attribute}="{_render(value)}"')
    head = " ".join([name, *written])
    if name in _VOID:
        return Markup(f"<{head}>")
    return Markup(f"<{head}>{_render(children)}</{name}>")


def raw(name: str, text: str, /, **attributes: str) -> Markup:
    """A ``script`` or ``style`` element with text of ours, which must not hold a closing tag.

    Raises:
        ValueError: If ``text`` holds ``</``.
    """
    if "</" in text:
        raise ValueError(f"Expected the text of <{name}> to hold no closing tag; write it without '</'")
    written = "".join(f' {key}="{html.escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{written}>{text}</{name}>")


def island(identifier: str, data: object) -> Markup:
    """Data for the page's script, as JSON that no HTML parser can leave early.

    Args:
        identifier: ``id`` of the script element.
        data: JSON-able; non-finite numbers are refused.

    Raises:
        ValueError: For NaN or infinity.
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return raw("script", text, id=identifier, type="application/json")


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def policy(script: str, style: str) -> Markup:
    """The Content-Security-Policy element: nothing loads, only this script and this style run."""
    content = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return Markup(f'<meta http-equiv="Content-Security-Policy" content="{content}">')


def path(points: Iterable[tuple[float, float]], close: bool = False) -> str:
    """The ``d`` attribute of a polyline through ``points``, rounded to a tenth."""
    text = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f"M{text}" + ("Z" if close else "")
