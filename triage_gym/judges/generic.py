"""Roles of turns in any text environment by rule: what is new, what is repeated, what was refused, what is undone.

- **E**: the answer holds a word that neither the window so far nor the agent has said.
- **R**: the same action with the same answer again; an action refused again; the way back to what was seen before.
- **N**: the rest: a first refusal, an answer that changes nothing or says nothing new.

Where the environment told whether its state changed and whether something was learnt (:class:`~triage_gym.protocols.Facts`),
facts beat words: what taught nothing is never E, and no refusal is read into an answer that came with a change. Distances to
the goal are not looked at.

What it cannot know: what a task needs, so nothing is ever D here, and progress in known words is N; whether new words matter,
so that wandering stays paid; a way back in other words than the first time, or longer ago than the window. Measured on
ALFWorld such a task-blind judge taught worse than no judge: use it as a control, or write rules for your domain.
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
    "i didn't understand",
    "i did not understand",
    "that's not a verb",
    "that is not a verb",
    "that's not something",
    "you can't",
    "you cannot",
    "you don't see",
    "you can see no such thing",
    "i beg your pardon",
    "my previous action is invalid",
    "illegal",
)
"""How a reply begins that refuses the action, in lower case."""
MAX_TEXT: Final = 16_384
"""Characters of each text that are searched for new words."""
SPLIT: Final = str.maketrans(dict.fromkeys("\"'`.,;:!?()[]{}<>*=-_/\\|", " "))
"""Makes signs that end a word white space."""


def verdict(window: Window) -> tuple[Role, str]:
    """Role and reason of one window."""
    action, reply = _same(window.action), window.next_observation.strip()
    changed, learnt = (window.facts.changed, window.facts.learnt) if window.facts else (None, None)
    before = [(_same(pair.action), pair.observation.strip()) for pair in window.past]
    if (action, reply) in before:
        return "R", "repeated: the answer was known"
    if not changed and refuses(reply):
        again = any(earlier == action and refuses(said) for earlier, said in before)
        return ("R", "refused again") if again else ("N", "refused")
    if reply == window.observation.strip():
        return ("E", "shows what was hidden") if learnt else ("N", "nothing changed")
    if any(said == reply for _, said in before) or reply == window.task.strip():
        return "R", _undone(before, reply)
    new = _new_word(window)
    if learnt is False:
        return "N", "taught nothing"
    if learnt and not new:
        return "E", "shows what was hidden"
    return ("E", f"new: {new}") if new else ("N", "nothing new")


def _same(action: str) -> str:
    """What makes two actions the same: white space and case aside. In observations both may tell something, as in maps."""
    return " ".join(action.split()).lower()


def refuses(reply: str) -> bool:
    """Whether a stripped answer begins with the wording by which environments refuse an action."""
    return reply[:64].lower().lstrip("-*>[(\"' ").startswith(REFUSALS)


def _undone(before: list[tuple[str, str]], reply: str) -> str:
    """What to call the way back: of one step, or of several."""
    if len(before) > 1 and before[-2][1] == reply:
        return f"undoes {before[-1][0][:64]!r}"
    return "back to what was seen before"


def _new_word(window: Window) -> str:
    """The first word of the reply that neither the window so far nor the agent holds; "" for none."""
    known = _words(window.task) | _words(window.observation) | _words(window.action)
    for pair in window.past:
        known |= _words(pair.observation) | _words(pair.action)
    text = window.next_observation[:MAX_TEXT].lower()
    return next((w[:64] for w in text.translate(SPLIT).split() if w.isalpha() and w not in known), "")


def _words(text: str) -> set[str]:
    return set(text[:MAX_TEXT].lower().translate(SPLIT).split())
