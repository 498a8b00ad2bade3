"""What Search-QA's texts say: searches and answers in a response, and the passages that came back.

Promised: linear time in the text, and no exception on any text. Search-R1's and verl-agent's wording are read alike; what an
agent thinks before it acts is not read. Left to you: protocols with other tags.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple

MAX_PASSAGES: Final = 256
"""Passages of an answer that are read."""
MAX_QUESTION: Final = 4_096
"""Characters of a question that are read."""
_OPENING: Final = re.compile(r"<(search|answer)>", re.IGNORECASE)
_CLOSING: Final = {
    "search": re.compile("</search>", re.IGNORECASE),
    "answer": re.compile("</answer>", re.IGNORECASE),
}
_DOC: Final = re.compile(r"(?:^|\n)\s?Doc \d{1,4}(?:: ?|(?=\(Title: ))")
_WORD: Final = re.compile(r"\w+")
_ARTICLES: Final = frozenset(("a", "an", "the"))
_ASKING: Final = frozenset(
    _WORD.findall(
        "a about an and are as at be been both by did do does for from had has have how in into is it its many much name of on "
        "one only or that the their there these this to was were what when where which who whom whose why will with would "
        "please find tell me give"
    )
)
"""Words of a question that name nothing."""


class Action(NamedTuple):
    """What a response asks for; kind "" is nothing."""

    kind: Literal["search", "answer", ""]
    content: str


class Passage(NamedTuple):
    """One passage that a search gave."""

    text: str
    """White space in it is one blank each: the passage's identity."""
    words: str
    """Its words in lower case between blanks, articles left out, to look for phrases in."""
    stems: frozenset[str]


def parse_action(response: str) -> Action:
    """The search or answer in a response: the first one that closes, after the thoughts if there is one."""
    after = response.rpartition("</think>")[2]
    found = _first(after)
    return found if found.kind or len(after) == len(response) else _first(response)


def _first(text: str) -> Action:
    unclosed = set()
    for opening in _OPENING.finditer(text):
        kind: Literal["search", "answer"] = "search" if opening[1].lower() == "search" else "answer"
        if kind in unclosed:
            continue
        end = _CLOSING[kind].search(text, opening.end())
        if end:
            return Action(kind, text[opening.end() : end.start()].strip())
        unclosed.add(kind)
    return Action("", "")


@lru_cache(64)
def passages_of(observation: str) -> tuple[Passage, ...] | None:
    """The passages of a search's answer, best first; None when it is no such answer."""
    _, found, rest = observation.partition("<information>")
    if not found:
        return None
    body = rest.partition("</information>")[0].strip()
    if body.startswith("{"):
        body = _result(body)
    parts = [" ".join(part.split()) for part in _DOC.split(body, MAX_PASSAGES)]
    return tuple([_passage(part) for part in parts if part])


def _result(body: str) -> str:
    """The passages within verl-agent's JSON; the text as it stands when it is none."""
    try:
        read = json.loads(body)
    except (ValueError, RecursionError):
        return body
    result = read.get("result") if isinstance(read, dict) else None
    return result if isinstance(result, str) else body


def _passage(text: str) -> Passage:
    words = words_of(text)
    return Passage(text, f" {' '.join(words)} ", frozenset([stem(word) for word in words]))


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, articles left out."""
    return [word for word in _WORD.findall(text.lower()) if word not in _ARTICLES]


def stem(word: str) -> str:
    """A word without plural."""
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word


def content_of(text: str) -> frozenset[str]:
    """Stems of the words of a question or query that name something."""
    return frozenset([stem(word) for word in words_of(text[:MAX_QUESTION]) if word not in _ASKING])


def normal_query(query: str) -> str:
    """A query as a search engine for words takes it: no case, no punctuation, no order, no articles."""
    return " ".join(sorted(words_of(query[:MAX_QUESTION])))
