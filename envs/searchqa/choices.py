"""Concrete actions to choose among: searches made of the question and of titles read, answers made of passages read.

For policies that pick an action and write none. Nothing here knows an answer: queries are made of the words of the question
and of the titles of passages that were shown, answers are short pieces of passages that were shown. A right answer is
among them once a passage has told it, if it is one of these pieces; how often that is, docs/searchqa.md tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

MOST_ANSWERS: Final = 40
MOST_TITLES: Final = 6
"""Titles read that queries are made of, the latest first."""
_LONGEST: Final = 8
"""Words of an answer."""
_STOP: Final = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "both",
        "by",
        "country",
        "did",
        "do",
        "does",
        "for",
        "from",
        "give",
        "had",
        "has",
        "have",
        "he",
        "her",
        "his",
        "how",
        "in",
        "is",
        "it",
        "its",
        "many",
        "me",
        "much",
        "name",
        "named",
        "of",
        "on",
        "one",
        "only",
        "or",
        "she",
        "that",
        "the",
        "their",
        "there",
        "they",
        "this",
        "to",
        "was",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "whom",
        "whose",
        "why",
        "with",
        "you",
    ]
)
_WORD: Final = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_SENTENCE: Final = re.compile(r"(?<=[\w)\"%])\. (?=[A-Z][^.;:]{0,60}: )|(?<=[a-z)]{3})\. (?=[A-Z])|\n")
"""Ends of sentences: before a label with a colon, or after a word that is no abbreviation."""
_RELATIVE: Final = re.compile(r"\b(?:whose|that|which|where)\b")
_QUOTED: Final = re.compile(r'"([^"]{2,80})"')
_BRACKETS: Final = re.compile(r"\(([^()]{1,60})\)")
_END: Final = re.compile(r" \(|, | per | - |; |\. ")
_AMOUNT: Final = re.compile(r"\s+[-$]?[\d,.]+\s*(?:%|[a-zA-Z]{1,2}|million|billion)$")


class Span(NamedTuple):
    """A piece of a passage that may be an answer."""

    text: str
    label: str
    """What the passage says that it is: the words before it in its clause."""
    title: str
    """Of the passage, as far as its colon."""


class Parts(NamedTuple):
    """What a question is made of."""

    asked: tuple[str, ...]
    """Words of what is asked for, in order, without small ones, in lower case."""
    known: tuple[str, ...]
    """Words of what is told of it, in order, as they are written."""


@lru_cache(maxsize=4096)
def parts_of(question: str) -> Parts:
    """A question cut where its relative clause begins, or before its last capitalised words."""
    head, _, tail = _cut(question)
    asked = tuple(w.lower() for w in _WORD.findall(head) if w.lower() not in _STOP)
    known = tuple(w for w in _WORD.findall(tail) if w.lower() not in _STOP)
    return Parts(asked, known)


def _cut(question: str) -> tuple[str, str, str]:
    found = _RELATIVE.search(question, 1)
    if found is not None and found.start() > 0:
        return question[: found.start()], found[0], question[found.end() :]
    words = list(_WORD.finditer(question))
    at = len(words)
    while at > 1 and (words[at - 1][0][0].isupper() or words[at - 1][0].lower() in _STOP):
        at -= 1
    while at < len(words) and not words[at][0][0].isupper():
        at += 1
    begin = words[at].start() if at < len(words) else len(question)
    return question[:begin], "", question[begin:]


def _content(passage: str) -> tuple[str, str]:
    """Title (as far as its colon) and text of a passage as it is shown: ``(Title: "T: part") text`` or ``"T"`` and lines."""
    passage = passage.strip()
    if passage.startswith("(Title:"):
        title, _, text = passage.removeprefix("(Title:").partition(") ")
    else:
        title, _, text = passage.partition("\n")
    return title.strip().strip('"').partition(":")[0].strip(), text


def titled(passage: str) -> str:
    """The title of a passage, as far as its colon."""
    return _content(passage)[0]


@lru_cache(maxsize=8192)
def spans_of(passage: str) -> tuple[Span, ...]:
    """The pieces of a passage that may be answers, in order, each once."""
    title, text = _content(passage)
    found: dict[Span, None] = {}
    for sentence in _SENTENCE.split(text):
        above = ""
        for clause in sentence.split("; "):
            *labels, value = (piece.strip() for piece in clause.strip().split(": "))
            above = above or (labels[0] if labels else "")
            label = " ".join(dict.fromkeys([above, *labels]))
            for piece in _pieces(value):
                found.setdefault(Span(piece, label, title))
    return tuple(found)


def _pieces(value: str) -> Iterable[str]:
    """Short forms of what a label stands before."""
    yield from (quoted.strip() for quoted in _QUOTED.findall(value))
    core = _END.split(value, maxsplit=1)[0].strip().strip('".')
    if value.startswith("."):
        core = f".{core}"
    yield from _short(_AMOUNT.sub("", core))
    yield from _short(core)
    for inside in _BRACKETS.findall(value)[:2]:
        yield from _short(inside)
    for item in value.split(", ")[1:4]:
        yield from _short(_AMOUNT.sub("", _END.split(item, maxsplit=1)[0].strip().strip('".')))


def _short(text: str) -> Iterable[str]:
    text = text.strip()
    if text and len(text.split()) <= _LONGEST:
        yield text


@lru_cache(maxsize=32_768)
def _held(text: str) -> frozenset[str]:
    """The words of a passage or a label, in lower case."""
    return frozenset([word.lower() for word in _WORD.findall(text)])


def overlap(label: str, parts: Parts) -> int:
    """How many words of what is asked for a label has."""
    words = _held(label)
    return len([word for word in dict.fromkeys(parts.asked) if word in words or f"{word}s" in words])


def titles_of(passages: Sequence[str]) -> list[str]:
    """The titles of passages, the latest first, each once, at most :data:`MOST_TITLES`."""
    found = dict.fromkeys(map(titled, reversed(passages)))
    return [title for title in found if title][:MOST_TITLES]


def words_of(text: str) -> list[str]:
    """The words of a text."""
    return _WORD.findall(text)


def is_bridge(question: str) -> bool:
    """Whether what is told of the subject is told in a relative clause."""
    return re.search(r"\b(?:whose|that)\b", question) is not None


def titles_that_hold(passages: Sequence[str], told: frozenset[str]) -> frozenset[str]:
    """Titles of the passages that have most of some words, if they have more than half of them.

    Args:
        passages: As they are shown.
        told: Words in lower case.
    """
    shared = [len(told & _held(passage)) for passage in passages]
    most = max(shared, default=0)
    if 2 * most <= len(told) or not told:
        return frozenset()
    return frozenset(titled(passage) for passage, n in zip(passages, shared, strict=True) if n == most)


def queries(question: str, passages: Sequence[str]) -> list[str]:
    """Queries to choose among, each once.

    Args:
        question: The question.
        passages: All that were shown so far, in order.
    """
    parts = parts_of(question)
    asked = " ".join(parts.asked)
    known = " ".join(parts.known)
    made = [question, " ".join((*parts.known, *parts.asked)), known]
    made += [f"{title} {asked}" for title in titles_of(passages)]
    return [query for query in dict.fromkeys(made) if query.strip()]


def answers(question: str, passages: Sequence[str]) -> list[Span]:
    """Answers to choose among, those whose labels have most words of what is asked for first, then the latest.

    Args:
        question: The question.
        passages: All that were shown so far, in order.
    """
    return list(_answers(question, tuple(passages)))


@lru_cache(maxsize=1024)
def _answers(question: str, passages: tuple[str, ...]) -> tuple[Span, ...]:
    """See :func:`answers`: the environment, the expert and the policy ask for the same ones in turn."""
    parts = parts_of(question)
    found: dict[str, tuple[int, int, Span]] = {}
    number = 0
    for passage in reversed(passages):
        for span in spans_of(passage):
            shared = overlap(span.label, parts)
            if span.text not in found or found[span.text][0] > -shared:
                found[span.text] = (-shared, number, span)
            number += 1
    ranked = sorted(found.values(), key=lambda x: x[:2])
    return tuple([span for _, _, span in ranked[:MOST_ANSWERS]])
