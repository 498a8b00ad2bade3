"""Rows for the tests of audits: small, and with everything a row may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from triage_gym.audit.labels import Annotation, LabelledWindow
from triage_gym.protocols import Facts, Pair, Window
from triage_gym.records import ROLES, Role, RoleLabel

HOSTILE = "</script><script>alert(1)</script>\x1b[31m\u202e<b>&"
SECRET = 987654


def window(step: int = 3, action: str = "take mug 1", domain: str = "alfworld", **changes: Any) -> Window:
    """A window with facts that nobody is to see."""
    return Window(
        "put a mug on the desk",
        domain,
        step,
        (Pair("look", "You see a desk."),),
        "You see a desk.",
        action,
        "You take the mug.",
        (Pair("go to desk 1", "You are at the desk."),),
        ("open fridge 1", "look"),
        Facts(True, False, SECRET, SECRET),
    )._replace(**changes)


def row(name: str, gold: str | None = None, success: bool | None = None, **labels: str | None) -> LabelledWindow:
    """A row with the gold role, the outcome and the labels of annotators."""
    said = {who: Annotation(as_role(what), f"{who} thinks so") for who, what in labels.items()}
    return LabelledWindow(name, window(), said, as_role(gold), success)


def as_role(text: str | None) -> Role | None:
    """``text`` as a role; ``-`` and None are none."""
    return next((role for role in ROLES if role == text), None)


class Scripted:
    """A judge that says what it is told to, window by window; ``-`` fails, ``?`` is unsure, ``.`` is unjudged."""

    def __init__(
        self, says: Sequence[str], sure: Sequence[float] = (), usage: Mapping[str, float] | None = None
    ) -> None:
        self._says, self._sure, self._per_window = says, sure or [1.0] * len(says), dict(usage or {})
        self.usage: dict[str, float] = dict.fromkeys(self._per_window, 5.0)
        self.seen: list[Window] = []

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        """Its labels, in order."""
        self.seen += windows
        for name, value in self._per_window.items():
            self.usage[name] += value * len(windows)
        found = []
        for said, sure, shown in zip(self._says, self._sure, windows, strict=True):
            match said:
                case "-":
                    found.append(RoleLabel(shown.step, None, why="timed out", status="failed"))
                case "?":
                    found.append(RoleLabel(shown.step, None, status="unsure"))
                case ".":
                    found.append(RoleLabel(shown.step, None, status="unjudged"))
                case _:
                    found.append(RoleLabel(shown.step, as_role(said), sure, why=f"says {said}"))
        return found
