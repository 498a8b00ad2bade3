"""What a language model answered, read strictly: a role for each turn that was asked about, or what is wrong with it.

An answer is one JSON object, ``{"labels": [{"i": 0, "why": "…", "label": "D"}]}``: exactly the ids that were asked, each
once, a label out of the four, no other key, no key twice, no NaN. How they are written may differ (``"0"`` for 0, ``"d"``
for ``"D"``, a line break inside of a text). Words and code fences around it are passed over; two sound objects that differ
are no answer, since one of them may be quoted. What a model thinks is none either: only what follows
the last ``</think>`` counts, and a thought that was never closed leaves nothing. Where the content is empty and the
reasoning field as a whole is the object, some servers put it there by mistake; it is taken, and counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

from triage_gym.errors import InputError
from triage_gym.records import ROLES, Role

Problem = Literal[
    "empty", "unclosed_thought", "truncated", "refused", "too_long", "no_json", "ambiguous", "keys", "ids", "label"
]
"""``empty``: no words beside thoughts. ``no_json``: no object with labels. ``ambiguous``: several that differ. ``ids``: not
exactly those that were asked. ``label``: none of the four. ``truncated`` and ``refused`` are what the endpoint says."""
PROBLEMS: Final[tuple[Problem, ...]] = get_args(Problem)
SURE: Final = {"low": 0.4, "medium": 0.7, "high": 0.95}
"""What the words of a model for how sure it is are as a number. Not calibrated: measure before you trust them."""
MAX_TEXT: Final = 262_144
"""Longest text that is searched for an answer, in code points."""
MAX_REASON: Final = 500
"""Characters kept of the reason for a label."""
_MOST_OBJECTS: Final = 20
_LONGEST_ID: Final = 10
_OBJECT: Final = re.compile(r'\{\s*"labels"\s*:')
_FENCED: Final = re.compile(r"```[a-zA-Z]{0,10}\s*(\{.*\})\s*```", re.DOTALL)
_OPENED, _CLOSED = "<think>", "</think>"


class MalformedAnswer(InputError):
    """A text is no answer to what was asked; ``kind`` is one of :data:`PROBLEMS`."""

    def __init__(self, kind: Problem, message: str) -> None:
        super().__init__(kind, message)
        self.kind: Problem = kind

    def __str__(self) -> str:
        return str(self.args[1])


class Verdict(NamedTuple):
    """What was said about one turn."""

    role: Role
    why: str
    confidence: float = 1.0


class Answer(NamedTuple):
    """What was said about all turns of a question."""

    verdicts: tuple[Verdict, ...]
    """In the order of the ids."""
    in_reasoning: bool = False
    """Whether the object stood in the reasoning field."""


def read_answer(content: str, reasoning: str, asked: int, sure: bool = False) -> Answer:
    """The verdicts on the turns ``0`` to ``asked - 1``.

    Args:
        content: What the model said.
        reasoning: What it thought, where the server has a field for it.
        asked: How many turns were asked about.
        sure: Whether each label has a field ``sure`` too.

    Raises:
        MalformedAnswer: If there is no answer in it.
    """
    if not content.strip() and reasoning.strip().startswith("{"):
        # Alone and whole, or not at all: a label among thoughts is a thought.
        found = _decoded(reasoning.strip(), 0)
        if found is not None and not reasoning.strip()[found[1] :]:
            return Answer(_verdicts(found[0], asked, sure), in_reasoning=True)
    text = _said(content)
    if not text:
        raise MalformedAnswer("empty", "Expected an answer in JSON, got no words")
    if len(text) > MAX_TEXT:
        raise MalformedAnswer("too_long", f"Expected an answer of at most {MAX_TEXT} characters, got {len(text)}")
    objects = _objects(text)
    if not objects:
        raise MalformedAnswer("no_json", f'Expected an object with "labels", got {text[:80]!r}')
    return Answer(_agreed(objects, asked, sure))


def _said(content: str) -> str:
    """The content without thoughts before it."""
    text = content.strip()
    if (fenced := _FENCED.fullmatch(text)) is not None:
        text = fenced[1]
    if text.startswith("{") and (whole := _decoded(text, 0)) is not None and not text[whole[1] :].strip():
        return text
    text = text.rpartition(_CLOSED)[2]
    if _OPENED in text:
        raise MalformedAnswer("unclosed_thought", "Expected an answer after <think>…</think>, got a thought unclosed")
    return text.strip()


def _objects(text: str) -> list[dict[str, Any]]:
    """Every balanced object of ``text`` that begins with our key."""
    found: list[dict[str, Any]] = []
    end = 0
    for tried, start in enumerate(_OBJECT.finditer(text)):
        if tried == _MOST_OBJECTS:
            raise MalformedAnswer("ambiguous", f'Expected one object with "labels", got more than {_MOST_OBJECTS}')
        if start.start() < end:
            continue
        if (decoded := _decoded(text, start.start())) is not None:
            found.append(decoded[0])
            end = decoded[1]
    return found


def _decoded(text: str, start: int) -> tuple[dict[str, Any], int] | None:
    """The object that starts at ``start``, and where it ends; None when there is no sound one."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return (value, end) if isinstance(value, dict) else None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key twice")
    return made


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_each_once, parse_constant=_refuse, strict=False)


def _agreed(objects: Sequence[dict[str, Any]], asked: int, sure: bool) -> tuple[Verdict, ...]:
    """What all sound ones of the objects say; a model may repeat the form that it was shown before it fills it in."""
    sound: list[tuple[Verdict, ...]] = []
    wrong: MalformedAnswer | None = None
    for data in objects:
        try:
            sound.append(_verdicts(data, asked, sure))
        except MalformedAnswer as error:
            wrong = error
    if not sound:
        raise wrong or MalformedAnswer("no_json", 'Expected an object with "labels", got none')
    roles = [[verdict.role for verdict in verdicts] for verdicts in sound]
    if any(other != roles[0] for other in roles[1:]):
        raise MalformedAnswer("ambiguous", f'Expected one object with "labels", got {len(sound)} that differ')
    return sound[-1]


def _verdicts(data: dict[str, Any], asked: int, sure: bool) -> tuple[Verdict, ...]:
    labels = data.get("labels")
    if data.keys() != {"labels"} or not isinstance(labels, list):
        raise MalformedAnswer("keys", f'Expected the key "labels" alone, with a list, got {sorted(data)!r:.80}')
    wanted = {"i", "why", "label", "sure"} if sure else {"i", "why", "label"}
    found: dict[int, Verdict] = {}
    for item in labels:
        if not isinstance(item, dict) or item.keys() != wanted or not isinstance(item["why"], str):
            raise MalformedAnswer("keys", f"Expected each label to have {sorted(wanted)}, got {item!r:.80}")
        i, role = _number(item["i"]), _role(item["label"])
        if i is None or not 0 <= i < asked or i in found:
            raise MalformedAnswer("ids", f"Expected each i of 0 to {asked - 1} once, got {item['i']!r:.40}")
        if role is None:
            raise MalformedAnswer("label", f"Expected a label out of {ROLES}, got {item['label']!r:.40}")
        # Half a surrogate pair, which JSON can spell, is in no encoding that a reason is written to.
        why = item["why"][:MAX_REASON].encode("utf-8", "replace").decode()
        found[i] = Verdict(role, why, _confidence(item) if sure else 1.0)
    if len(found) != asked:
        missing = next(i for i in range(asked) if i not in found)
        raise MalformedAnswer("ids", f"Expected each i of 0 to {asked - 1} once, got none for {missing}")
    return tuple(found[i] for i in range(asked))


def _number(value: Any) -> int | None:
    """The id that ``value`` is, or spells."""
    if type(value) is float and value.is_integer():
        return int(value)  # 0.0 is an integer of JSON's
    if type(value) is str and value.isascii() and value.isdigit() and len(value) < _LONGEST_ID:
        return int(value)
    return value if type(value) is int else None


def _role(value: Any) -> Role | None:
    """The role that ``value`` names, in either case."""
    if type(value) is not str or len(value) > _LONGEST_ID:
        return None
    return next((role for role in ROLES if role == value.strip().upper()), None)


def _confidence(item: dict[str, Any]) -> float:
    word = item["sure"]
    if type(word) is not str or (found := SURE.get(word.strip().lower())) is None:
        raise MalformedAnswer("label", f"Expected `sure` out of {tuple(SURE)}, got {word!r:.40}")
    return found


def _whole_schema(sure: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "i": {"type": "integer"},
        "why": {"type": "string"},
        "label": {"type": "string", "enum": list(ROLES)},
    }
    if sure:
        fields["sure"] = {"type": "string", "enum": list(SURE)}
    item = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return {
        "type": "object",
        "properties": {"labels": {"type": "array", "items": item}},
        "required": ["labels"],
        "additionalProperties": False,
    }


SCHEMAS: Final = {sure: _whole_schema(sure) for sure in (False, True)}
"""The JSON schema of an answer, without and with ``sure``; the same for any number of turns, so that servers compile it once."""
