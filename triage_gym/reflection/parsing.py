"""A reflection in words, read strictly: a remark and a pivot in one of two forms, or an error that says what is wrong.

=========  ==============================================================================================
``json``   ``{"remark": "…", "pivot": 3}`` and nothing else: no other key, none twice, no words around it
``tag``    ``<remark>…</remark>`` and ``<pivot>3</pivot>``, each exactly once, in any order, with any words around them
           since models think aloud. The remark's tag is LaMer's (arXiv:2512.16848); the pivot's is ours
``any``    the first when the text begins with ``{`` or holds neither tag, else the second
=========  ==============================================================================================

In both, what a model thought (``<think>…</think>``, at the start or with the opening tag left to its template) is passed
over, and a thought that was never closed is no answer. A remark is cut to 2,000 characters, as LaMer does. **A pivot is
the index of a turn, counted from 0**; it may lie outside of the attempt, and whoever retries clamps it. Whoever asks a
model for a pivot numbers the turns in the prompt exactly as it is to answer.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, Literal, get_args

from triage_gym import strict_json
from triage_gym.errors import InputError, MalformedReflection
from triage_gym.records import Reflection

Form = Literal["json", "tag", "any"]
FORMS: Final[tuple[Form, ...]] = get_args(Form)
MAX_REMARK: Final = 2_000
"""Longest remark, in code points; what is longer is cut."""
MAX_TEXT: Final = 65_536
"""Longest text that is read, in code points."""
MAX_PIVOT: Final = 999_999_999
"""Largest number that is taken for a turn."""
Problem = Literal[
    "empty", "too_long", "unclosed",
    "not_json", "not_an_object", "duplicate_key", "keys", "remark_type", "pivot_type",
    "no_remark", "two_remarks", "no_pivot", "two_pivots",
    "truncated", "refused",
]  # fmt: skip
"""What can be wrong with a text. ``empty``: no words (or thoughts alone). ``unclosed``: a tag was opened and never closed.
``truncated`` and ``refused`` are told by a model's endpoint: the answer was cut off, or the model would not give one."""
PROBLEMS: Final[tuple[Problem, ...]] = get_args(Problem)

_OPENED: Final = {"remark": "<remark>", "pivot": "<pivot>", "think": "<think>"}
_CLOSED: Final = {"remark": "</remark>", "pivot": "</pivot>", "think": "</think>"}
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,9}")


def read_reflection(text: str, form: Form = "json", source: str = "policy") -> Reflection:
    """The reflection that ``text`` holds, with ``text`` itself, word for word.

    Args:
        text: What a policy or a model wrote.
        form: ``"json"``, ``"tag"`` or ``"any"``.
        source: Name of the reflector, for the record.

    Raises:
        MalformedReflection: If the text is none in that form; ``kind`` is one of :data:`PROBLEMS`.
        InputError: For an unknown form.
    """
    if form not in FORMS:
        raise InputError(f"Expected the form of a reflection to be one of {FORMS}, got {form!r}")
    if len(text) > MAX_TEXT:
        raise _wrong("too_long", f"at most {MAX_TEXT} characters", f"{len(text)}")
    answer = _answer(text)
    if not answer:
        raise _wrong("empty", "words", "none")
    if form == "any":
        tagged = not answer.startswith("{") and any(_OPENED[name] in answer for name in ("remark", "pivot"))
        form = "tag" if tagged else "json"
    remark, pivot = _from_json(answer) if form == "json" else _from_tags(answer)
    return Reflection(remark[:MAX_REMARK], pivot, source, text)


def write_reflection(remark: str, pivot: int, form: Literal["json", "tag"] = "json") -> str:
    """A text that :func:`read_reflection` reads back.

    Raises:
        InputError: For an unknown form, a remark that is too long or holds a tag of the tag form or white space around
            it, or a pivot that is no turn.
    """
    if form == "json":
        text = json.dumps({"remark": remark, "pivot": pivot}, ensure_ascii=False)
    elif form == "tag":
        text = f"<remark>{remark}</remark><pivot>{pivot}</pivot>"
    else:
        raise InputError(f'Expected the form of a reflection to be "json" or "tag", got {form!r}')
    try:
        found = read_reflection(text, form)
    except MalformedReflection as error:
        raise InputError(f"Expected a remark and a pivot that can be written as {form}, but {error}") from error
    if (found.remark, found.pivot) != (remark, pivot):
        raise InputError(
            f"Expected a remark of at most {MAX_REMARK} characters that can be written as {form}, got {remark!r:.80}"
        )
    return text


def _answer(text: str) -> str:
    """``text`` without white space around it and without the thoughts before it."""
    answer = text.strip()
    if answer.startswith("{"):
        return answer
    if answer.startswith(_OPENED["think"]) and _CLOSED["think"] not in answer:
        raise _wrong("unclosed", "an answer after <think>…</think>", "a thought that was never closed")
    return answer.rpartition(_CLOSED["think"])[2].strip()


def _from_json(answer: str) -> tuple[str, int]:
    try:
        found = strict_json.loads(answer)
        pairs: Any = json.loads(answer, object_pairs_hook=list)
    except (ValueError, RecursionError):
        raise _wrong("not_json", 'one JSON object {"remark": "…", "pivot": turn}', repr(answer[:80])) from None
    if not isinstance(found, dict):
        raise _wrong("not_an_object", "a JSON object", type(found).__name__)
    if len(pairs) != len(found):
        raise _wrong("duplicate_key", "each key once", repr(answer[:80]))
    if found.keys() != {"remark", "pivot"}:
        raise _wrong("keys", 'the keys "remark" and "pivot"', repr(sorted(found))[:80])
    remark, pivot = found["remark"], found["pivot"]
    if not isinstance(remark, str):
        raise _wrong("remark_type", "a remark in words", type(remark).__name__)
    if type(pivot) is not int or abs(pivot) > MAX_PIVOT:
        raise _wrong("pivot_type", "a pivot that is the index of a turn", f"{pivot!r:.80}")
    return remark, pivot


def _from_tags(answer: str) -> tuple[str, int]:
    remark = _between(answer, "remark", "no_remark", "two_remarks")
    number = _between(answer, "pivot", "no_pivot", "two_pivots")
    if not _NUMBER.fullmatch(number):
        raise _wrong("pivot_type", "a pivot that is the index of a turn", repr(number[:80]))
    return remark, int(number)


def _between(answer: str, name: str, none: Problem, two: Problem) -> str:
    opened, closed = _OPENED[name], _CLOSED[name]
    counts = answer.count(opened), answer.count(closed)
    if counts[0] == 0:
        raise _wrong(none, f"{opened}…{closed}", repr(answer[:80]))
    if max(counts) > 1:
        raise _wrong(two, f"{opened} and {closed} once each", f"{counts[0]} and {counts[1]}")
    inside, end, _ = answer.partition(opened)[2].partition(closed)
    if not end:
        raise _wrong("unclosed", f"{closed} after {opened}", "none")
    return inside.strip()


def _wrong(kind: Problem, expected: str, got: str) -> MalformedReflection:
    return MalformedReflection(kind, f"Expected {expected}, got {got}")
