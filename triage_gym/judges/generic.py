"""Roles of turns in any text environment by rule: what is new, what is repeated, what was refused, what is back.

Text cannot tell what a task needs, so nothing is ever D here. Measured on ALFWorld such a task-blind judge taught worse
than no judge, because wandering stays paid: use it as a control, or write rules for your domain.
"""

from __future__ import annotations

from typing import Final

from triage_gym.protocols import Window
from triage_gym.records import Role

REFUSALS: Final = (
    "nothing happens",
    "nothing changes",
    "invalid action",
    "invalid command",
    "unknown command",
    "unknown action",
    "i don't understand",
    "i don't know",
    "that's not a verb",
    "that is not a verb",
    "you can't",
    "you cannot",
    "you can see no such thing",
    "i beg your pardon",
)
"""How a reply begins that refuses the action, in lower case."""
MAX_TEXT: Final = 16_384
"""Characters of each text that are searched for new words."""


def verdict(window: Window) -> tuple[Role, str]:
    """Role and reason of one window."""
    reply = window.next_observation
    if any(p.action == window.action and p.observation == reply for p in window.past):
        return "R", "repeated: the answer was known"
    if reply.lstrip()[:64].lower().startswith(REFUSALS):
        return "N", "refused"
    if reply == window.observation:
        return "N", "nothing changed"
    if any(p.observation == reply for p in window.past):
        return "R", "back to what was seen before"
    new = _new_word(window)
    return ("E", f"new: {new}") if new else ("N", "nothing new")


def _new_word(window: Window) -> str:
    """The first word of the reply that neither the window so far nor the action holds; "" for none."""
    known = _words(window.task) | _words(window.observation) | _words(window.action)
    for pair in window.past:
        known |= _words(pair.observation)
    text = window.next_observation[:MAX_TEXT].lower()
    return next((w[:64] for w in text.translate(_SPLIT).split() if w.isalpha() and w not in known), "")


_SPLIT: Final = str.maketrans(dict.fromkeys("\"'`.,;:!?()[]{}<>*=-_/\\|", " "))


def _words(text: str) -> set[str]:
    return set(text[:MAX_TEXT].lower().translate(_SPLIT).split())
