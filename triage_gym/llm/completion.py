"""What an endpoint answered, read from the bytes of its body.

The body is read here and not by a library's classes, so that a page of HTML, a missing field or a number where text
should be are told apart from an answer, whatever the server calls itself. What was billed is read whenever it is there,
also of a body that has no message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

_MOST_TOKENS: Final = 10**9
"""No request has more; a larger number is none to reckon with."""


@dataclass(frozen=True, slots=True)
class Billed:
    """Tokens that were paid for."""

    prompt_tokens: int = 0
    """Of the prompt, the cached ones included."""
    completion_tokens: int = 0
    """Of the answer, thoughts included."""
    cached_tokens: int = 0
    """Of the prompt, those that the server had at hand."""
    reasoning_tokens: int = 0
    """Of the answer, those of thoughts."""

    def __add__(self, other: Billed) -> Billed:
        return Billed(*(getattr(self, name) + getattr(other, name) for name in _TOKENS))

    def __bool__(self) -> bool:
        return self != Billed()


_TOKENS: Final = tuple(field.name for field in fields(Billed))


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of a language model. Tokens are those of all tries together, 0 when the server does not tell."""

    text: str
    """What it said, from ``message.content`` alone: what it thought in a field of its own is no answer."""
    finish_reason: str = ""
    """``"stop"``; ``"length"`` when the answer was cut off at ``max_tokens``."""
    refusal: str = ""
    """Why the model would not answer, when it said so."""
    prompt_tokens: int = 0
    """Tokens billed for the prompt."""
    completion_tokens: int = 0
    """Tokens billed for the answer, thoughts included."""
    tries: int = 1
    """Requests that it took."""
    reasoning: str = ""
    """What it thought, from ``message.reasoning`` or ``message.reasoning_content``."""
    cached_tokens: int = 0
    """Tokens of the prompt that the server had at hand."""
    reasoning_tokens: int = 0
    """Tokens of the answer that were thoughts."""

    @property
    def billed(self) -> Billed:
        """All its tokens."""
        return Billed(*(getattr(self, name) for name in _TOKENS))


class NoCompletion(ValueError):
    """A body that is no chat completion.

    Args:
        message: What is missing.
        billed: What it says was paid for it.
    """

    def __init__(self, message: str, billed: Billed | None = None) -> None:
        super().__init__(message)
        self.billed = billed or Billed()


def read_completion(body: bytes) -> Completion:
    """The first choice of the body of a chat completion. NaN and infinities count as not said.

    Bytes that are no UTF-8 become marks: half a character that a server cut must not cost an answer that was paid for.

    Raises:
        NoCompletion: If the body is none; the message says what is missing.
    """
    try:
        data = json.loads(body.decode(json.detect_encoding(body), "replace"), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        raise NoCompletion(f"no JSON: {body[:60]!r}") from None
    billed = _billed(_object(_object(data).get("usage")))
    choices = _object(data).get("choices")
    choice = _object(choices[0] if isinstance(choices, list) and choices else None)
    message = _object(choice.get("message"))
    if not message:
        if error := _object(data).get("error"):
            raise NoCompletion(
                f"an error in the place of a message: {json.dumps(error, ensure_ascii=False)[:200]}", billed
            )
        raise NoCompletion(f"JSON without a message: {body[:60]!r}", billed)
    text, thoughts = _parts(message.get("content"), billed)
    return Completion(
        text=text,
        finish_reason=_text(choice.get("finish_reason")),
        refusal=_text(message.get("refusal")),
        reasoning=_text(message.get("reasoning")) or _text(message.get("reasoning_content")) or thoughts,
        **{name: getattr(billed, name) for name in _TOKENS},
    )


def _parts(content: Any, billed: Billed) -> tuple[str, str]:
    """Text and thoughts of a message's content: a string, or a list of parts as some servers answer."""
    if content is None or isinstance(content, str):
        return content or "", ""
    if not isinstance(content, list) or not all(isinstance(part, dict | str) for part in content):
        raise NoCompletion(f"a message whose content is {type(content).__name__} and no text", billed)
    parts = [{"text": part} if isinstance(part, str) else part for part in content]
    said = [_text(part.get("text")) for part in parts if part.get("type", "text") in ("text", "output_text")]
    thinking = [part.get("thinking") for part in parts if part.get("type") == "thinking"]
    thoughts = [_parts(thought, billed)[0] for thought in thinking if isinstance(thought, str | list)]
    return "".join(said), "".join(thoughts)


def _billed(usage: Mapping[str, Any]) -> Billed:
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    of_prompt, of_answer = (_object(usage.get(f"{kind}_tokens_details")) for kind in ("prompt", "completion"))
    cached = _count(of_prompt, "cached_tokens") or _count(usage, "prompt_cache_hit_tokens")
    thoughts = _count(of_answer, "reasoning_tokens") or _count(usage, "reasoning_tokens")
    return Billed(prompt, completion, min(cached, prompt), min(thoughts, completion))


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(usage: Mapping[str, Any], key: str) -> int:
    value = usage.get(key)
    if type(value) is float and value.is_integer():
        value = int(value)  # some servers write 11.0
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else 0
