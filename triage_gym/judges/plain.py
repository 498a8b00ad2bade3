"""What the text of a window says plainly, whatever the environment: repeated, unchanged, refused, known or new.

Linear in the text; no outcome, no task, no domain. Judges that check, size or select turns share it.
"""

from __future__ import annotations

from typing import Final

from triage_gym.judges.generic import REFUSALS
from triage_gym.protocols import Window

MAX_TEXT: Final = 16_384
"""Characters of each text whose words are compared."""
_SPLIT: Final = str.maketrans(dict.fromkeys("\"'`.,;:!?()[]{}<>*=-_/\\|", " "))


def is_repeated(window: Window) -> bool:
    """Whether the window shows the same action with the same answer before."""
    return any(p.action == window.action and p.observation == window.next_observation for p in window.past)


def is_unchanged(window: Window) -> bool:
    """Whether the observation after the action is the one before it."""
    return window.next_observation == window.observation


def is_refused(window: Window) -> bool:
    """Whether the answer begins with the wording by which environments refuse an action."""
    return window.next_observation.lstrip()[:64].lower().startswith(REFUSALS)


def is_known(window: Window) -> bool:
    """Whether the window shows the answer, to whatever action, before."""
    return any(p.observation == window.next_observation for p in window.past)


def new_words(window: Window) -> set[str]:
    """Words of the answer that neither the task, the action nor an observation of the window so far holds."""
    known = words(window.task) | words(window.observation) | words(window.action)
    for pair in window.past:
        known |= words(pair.observation)
    return words(window.next_observation) - known


def words(text: str) -> set[str]:
    """The words of the first :data:`MAX_TEXT` characters, in lower case, numbers and signs left out."""
    return {word for word in text[:MAX_TEXT].lower().translate(_SPLIT).split() if word.isalpha()}
