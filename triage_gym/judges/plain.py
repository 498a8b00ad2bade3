"""What the text of a window says plainly, whatever the environment: repeated, unchanged, refused, known or new.

Linear in the text; no outcome, no task, no domain. Judges that check, size or select turns share it.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Final

from triage_gym.judges.generic import MAX_TEXT, SPLIT, refuses
from triage_gym.protocols import Window

MAX_ACTION: Final = 200
"""Characters of an action that are read."""
_SMALL: Final = frozenset(
    ("a", "an", "at", "from", "in", "into", "of", "off", "on", "onto", "out", "the", "to", "with")
)
_HARMLESS: Final = frozenset(("check", "examine", "go", "inspect", "inventory", "look", "read", "search", "wait"))
"""Verbs that change nothing which could be undone."""


def is_repeated(window: Window) -> bool:
    """Whether the window shows the same action with the same answer before."""
    return any(p.action == window.action and p.observation == window.next_observation for p in window.past)


def is_unchanged(window: Window) -> bool:
    """Whether the observation after the action is the one before it."""
    return window.next_observation == window.observation


def is_refused(window: Window) -> bool:
    """Whether the answer begins with the wording by which environments refuse an action."""
    return refuses(window.next_observation.strip())


def is_known(window: Window) -> bool:
    """Whether the window shows the answer, to whatever action, before."""
    return any(p.observation == window.next_observation for p in window.past)


def new_words(window: Window) -> set[str]:
    """Words of the answer that neither the task, the action nor an observation of the window so far holds."""
    known = words(window.task) | words(window.observation) | words(window.action)
    for pair in window.past:
        known |= words(pair.observation)
    return words(window.next_observation) - known


def new_names(window: Window) -> set[str]:
    """Numbered things ("shelf 2") of the answer that neither the task nor an observation of the window so far holds."""
    known = names(window.task) | names(window.observation)
    for pair in window.past:
        known |= names(pair.observation)
    return names(window.next_observation) - known


def may_undo(window: Window) -> bool:
    """Whether an earlier action did something to the objects of this one, by another verb."""
    verb, objects = _parts(window.action)
    if not objects or verb in _HARMLESS:
        return False
    for earlier in window.earlier_actions:
        done, its_objects = _parts(earlier)
        if done != verb and done not in _HARMLESS and objects <= its_objects:
            return True
    return False


def names(text: str) -> set[str]:
    """Each word with the number right after it, of the first :data:`~triage_gym.judges.generic.MAX_TEXT` characters."""
    parts = text[:MAX_TEXT].lower().translate(SPLIT).split()
    return {f"{a} {b}" for a, b in pairwise(parts) if a.isalpha() and b.isdigit()}


@lru_cache(4096)
def _parts(action: str) -> tuple[str, frozenset[str]]:
    """The first word, and what is left without small words."""
    verb, *rest = action[:MAX_ACTION].lower().translate(SPLIT).split() or [""]
    return verb, frozenset(rest) - _SMALL


def words(text: str) -> set[str]:
    """The words of the first :data:`~triage_gym.judges.generic.MAX_TEXT` characters, in lower case, numbers and signs left out."""
    return {word for word in text[:MAX_TEXT].lower().translate(SPLIT).split() if word.isalpha()}
