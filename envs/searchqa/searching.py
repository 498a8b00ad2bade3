"""An expert that knows what it has read and nothing else: it searches, follows the title that fits, and answers.

A question that tells of its subject by a relative clause ("the country whose capital is …") takes two searches: one for what
is told, then one for the title of the passage that told it together with what is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from triage_gym.envs.searchqa.choices import (
    Parts,
    Span,
    answers,
    is_bridge,
    overlap,
    parts_of,
    titled,
    titles_of,
    words_of,
)


def next_action(question: str, searched: Sequence[str], passages: Sequence[str], last: bool) -> str:
    """What to do next, as an action.

    Args:
        question: The question.
        searched: Queries so far.
        passages: All passages that they showed, in order.
        last: Whether no further search will be carried out.
    """
    parts = parts_of(question)
    asked, known = " ".join(parts.asked), " ".join(parts.known)
    first = known if is_bridge(question) and known else f"{known} {asked}".strip()
    subject = _subject(parts, passages)
    found = best_answer(question, parts, passages, subject)
    if found is not None and (last or (found.title == subject and overlap(found.label, parts) > 0)):
        return f"<answer>{found.text}</answer>"
    if not last:
        plans = [
            first,
            *([f"{subject} {asked}"] if subject else []),
            *(f"{t} {asked}" for t in titles_of(passages)),
            question,
        ]
        for query in plans:
            if query and query not in searched:
                return f"<search>{query}</search>"
    return f"<answer>{'' if found is None else found.text}</answer>"


def _subject(parts: Parts, passages: Sequence[str]) -> str:
    """The title of the passage that has most of what is told, the title counting too; "" without any."""
    wanted = {word.lower() for word in parts.known}
    best, most = "", 0
    for passage in passages:
        shared = len(wanted & {word.lower() for word in words_of(passage)})
        if shared > most:
            best, most = titled(passage), shared
    return best


def best_answer(question: str, parts: Parts, passages: Sequence[str], subject: str) -> Span | None:
    """The piece whose label has most of what is asked, of the subject's passages first."""
    found = answers(question, passages)
    told = {word.lower() for word in parts.known}
    good = [span for span in found if span.text.lower() not in told]
    return max(good, key=lambda span: _rank(span, parts, subject), default=None)


def _rank(span: Span, parts: Parts, subject: str) -> tuple[bool, int]:
    """The subject's own pieces that have something of what is asked come first."""
    shared = overlap(span.label, parts)
    return span.title == subject and shared > 0, shared
