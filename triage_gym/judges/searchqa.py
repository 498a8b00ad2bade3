"""Roles of Search-QA turns by rule, from the text of a window alone; thoughts are not read.

- **D**: an answer that a passage seen says, in a passage that speaks of what the question or the searches speak of.
- **E**: a search that shows a passage not seen before, for words of the question or of a passage seen (the entity that a
  first search found is what the second one asks for).
- **R**: damage (an answer that is empty, repeats the question, or is what the passages say of something else; a search when
  none is left); the same search again, in whatever words order and case make of it; a search that shows known passages
  only; an action in a wrong form after another one.
- **N**: the rest: the first action in a wrong form, a search that finds nothing or has nothing to do with the question, and an
  answer that stands in no passage seen. That one came from memory or is a guess, and which of them, the text does not say.

Damage beats D, D beats E; a first harmless no-op is N, its repetition R.

What it cannot know: whether an answer that a passage says is the right one of those in it; whether one that no passage says is
right, be it out of memory or in other words than the passages' ("United States" for "USA"); passages that left the window
(in episodes of the usual four or five turns none does).
"""

from __future__ import annotations

from typing import Final

from triage_gym.domains import searchqa as qa
from triage_gym.domains.searchqa import Passage
from triage_gym.protocols import Window
from triage_gym.records import Role

Verdict = tuple[Role, str]
SEARCHES: Final = 3
"""Searches that every preset carries out; an empty result after them may be a search that was not."""
NEAR: Final = 12
"""Words before and after an answer among which the question's are looked for."""


class SearchQARules:
    """Judges windows one by one."""

    def verdict(self, window: Window) -> Verdict | None:
        """Role and reason, or None when the task has no words."""
        question = qa.content_of(window.task)
        if not question:
            return None
        action = qa.parse_action(window.action)
        if action.kind == "search":
            return _search(window, question, action.content)
        if action.kind == "answer":
            return _answer(window, question, action.content)
        if any(not qa.parse_action(pair.action).kind for pair in window.past):
            return "R", "neither a search nor an answer, again"
        return "N", "neither a search nor an answer"


def _known(window: Window) -> dict[str, Passage]:
    """Passages that the window has shown before the action, by their text."""
    seen = [*(pair.observation for pair in window.past), window.observation]
    return {passage.text: passage for text in dict.fromkeys(seen) for passage in qa.passages_of(text) or ()}


def _searched(window: Window) -> dict[str, None]:
    """Earlier queries in their normal form."""
    earlier = window.earlier_actions or tuple(pair.action for pair in window.past)
    actions = [qa.parse_action(action) for action in earlier]
    return dict.fromkeys([qa.normal_query(action.content) for action in actions if action.kind == "search"])


def _search(window: Window, question: frozenset[str], query: str) -> Verdict:
    found, known, searched = qa.passages_of(window.next_observation), _known(window), _searched(window)
    if qa.normal_query(query) in searched:
        return "R", "the same search again"
    if not found:
        if found is not None and len(searched) >= SEARCHES:
            return "R", "searches when only an answer is left"
        return "N", "a search that finds nothing"
    new = [passage for passage in found if passage.text not in known]
    if not new:
        return "R", "a search that shows known passages only"
    words = qa.content_of(query)
    related = words & question
    if not related:
        related = frozenset(word for word in words if any(word in passage.stems for passage in known.values()))
    if not related:
        return "N", "a search for nothing of the question or the passages"
    return "E", f"{'a further' if searched else 'the first'} search: {len(new)} new passages"


def _answer(window: Window, question: frozenset[str], answer: str) -> Verdict:
    words = qa.words_of(answer)[: 4 * NEAR]
    if not words:
        return "R", "an empty answer"
    wanted = [qa.stem(word) for word in words]
    if question.issuperset(wanted):
        return "R", "answers with words of the question"
    known = _known(window)
    if not known:
        return "N", "answers without any passage seen: from memory, or a guess"
    topic = question.union(*(query.split() for query in _searched(window))) - set(wanted)
    says = [place for passage in known.values() if (place := _place(passage, wanted)) is not None]
    if not says:
        return "N", "answers what no passage seen says: from memory, or a guess"
    if any(topic & near for near in says):
        return "D", "answers what a passage seen says of it"
    return "R", "answers what the passages say of something else"


def _place(passage: Passage, wanted: list[str]) -> set[str] | None:
    """Stems around the answer, where a passage says it; None where it does not."""
    if not passage.stems.issuperset(wanted):
        return None
    stems = [qa.stem(word) for word in passage.words.split()]
    near: set[str] | None = None
    size = len(wanted)
    for at in _runs(stems, wanted):
        near = (near or set()).union(stems[max(0, at - NEAR) : at], stems[at + size : at + size + NEAR])
    return near


def _runs(stems: list[str], wanted: list[str]) -> list[int]:
    """Places where the words stand one after the other, at most 16, found in linear time (Knuth, Morris, Pratt)."""
    back = [0] * len(wanted)
    k = 0
    for i in range(1, len(wanted)):
        while k and wanted[i] != wanted[k]:
            k = back[k - 1]
        k += wanted[i] == wanted[k]
        back[i] = k
    found: list[int] = []
    k = 0
    for i, stem in enumerate(stems):
        while k and (k == len(wanted) or stem != wanted[k]):
            k = back[k - 1]
        k += stem == wanted[k]
        if k == len(wanted):
            found.append(i - k + 1)
            if len(found) == 16:
                break
    return found
