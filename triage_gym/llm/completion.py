"""What an endpoint answered, read from the bytes of its body.

The body is read here and not by a library's classes, so that a page of HTML, a missing field or a number where text
should be are told apart from an answer, whatever the server calls itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from triage_gym import strict_json


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of a language model."""

    text: str
    """What it said, from ``message.content`` alone: what it thought in a field of its own is no answer."""
    finish_reason: str = ""
    """``"stop"``; ``"length"`` when the answer was cut off at ``max_tokens``."""
    refusal: str = ""
    """Why the model would not answer, when it said so."""
    prompt_tokens: int = 0
    """Tokens billed for the prompt, 0 when the server does not tell."""
    completion_tokens: int = 0
    """Tokens billed for the answer, thoughts included."""
    tries: int = 1
    """Requests that it took."""


def read_completion(body: bytes) -> Completion:
    """The first choice of the body of a chat completion.

    Raises:
        ValueError: If the body is none; the message says what is missing.
    """
    try:
        data = strict_json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError(f"no JSON: {body[:60]!r}") from None
    choices = _object(data).get("choices")
    choice = _object(choices[0] if isinstance(choices, list) and choices else None)
    message = _object(choice.get("message"))
    if not message:
        raise ValueError(f"JSON without a message: {body[:60]!r}")
    content = message.get("content")
    if content is not None and not isinstance(content, str):
        raise ValueError(f"a message whose content is {type(content).__name__} and no text")
    usage = _object(data.get("usage"))
    return Completion(
        text=content or "",
        finish_reason=_text(choice.get("finish_reason")),
        refusal=_text(message.get("refusal")),
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(usage: dict[str, Any], key: str) -> int:
    value = usage.get(key)
    return value if type(value) is int and value >= 0 else 0
