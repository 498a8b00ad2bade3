"""What an endpoint fails with: kinds, which of them may pass, how long to wait, and what the user can do about the rest.

Transport fails and may pass: time-outs, dropped connections, 408, 409, 429, 5xx, bodies that are no completion. A 429 that
says that the account's credit is used up, and any other 4xx, stays as it is however often one asks, so it fails at once and
says in one line what to mend.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Final, Literal, get_args

from triage_gym.errors import EndpointError
from triage_gym.llm.completion import Billed

Failure = Literal["timeout", "connection", "rate_limited", "server", "garbled", "too_large", "key", "request", "budget"]
"""``key``: 401 and 403. ``request``: any other 4xx. ``garbled``: a body that is no completion. ``server``: 5xx, 408, 409.
``budget``: not asked, since a cap of the user's was reached."""
FAILURES: Final[tuple[Failure, ...]] = get_args(Failure)
LONGEST_WAIT: Final = 120.0
"""Seconds of the longest pause between two requests."""
MOST_GARBLED: Final = 3
"""Times that a question is paid for without a message to read, before it fails."""
_PASSING: Final = (408, 409, 429)
_SLOWING: Final = (429, 503, 529)
_NO_CREDIT: Final = b'"insufficient_quota"'
"""What a 429 says that no waiting ends."""
_MOST_DOUBLED: Final = 30
_TOO_LONG: Final = (
    "context length",
    "context_length",
    "context size",
    "maximum context",
    "too long",
    "too many tokens",
)


class Failed(EndpointError):
    """One request's failure, with what the next step depends on.

    Args:
        kind: One of :data:`FAILURES`.
        message: The same in words, without the key.
        again: Whether the same request may succeed later.
        slows: Whether it says that the endpoint has too much to do.
        retry_after: Seconds that the server asks to wait, if it does.
        billed: What was paid for it.
    """

    def __init__(
        self,
        kind: Failure,
        message: str,
        *,
        again: bool = False,
        slows: bool = False,
        retry_after: float | None = None,
        billed: Billed | None = None,
    ) -> None:
        super().__init__(kind, message)
        self.again, self.slows, self.retry_after, self.billed = again, slows, retry_after, billed or Billed()

    def told(self, tries: int) -> EndpointError:
        """What the caller gets to see."""
        return EndpointError(self.kind, f"{self} ({tries} {'try' if tries == 1 else 'tries'})")


def of_status(status: int, headers: Mapping[str, str], told: str, key_name: str, body: bytes = b"") -> Failed:
    """The failure that a status other than 2xx stands for; ``told`` says the rest, the words in ``body`` included."""
    if status == 429 and _NO_CREDIT in body:
        return Failed("rate_limited", f"{told}; the account has no credit left", slows=True)
    if status in _PASSING or status >= 500:
        kind: Failure = "rate_limited" if status == 429 else "server"
        return Failed(kind, told, again=True, slows=status in _SLOWING, retry_after=retry_after(headers))
    if status in (401, 403):
        return Failed("key", f"{told}; look at the key in {key_name}")
    return Failed("request", f"{told}; {_hint(status, told.lower())}")


def _hint(status: int, told: str) -> str:
    if status == 413 or any(words in told for words in _TOO_LONG):
        return "the prompt is too long for the model: show it less, or serve it with a longer context"
    if status == 402:
        return "the account has no credit left"
    if status in (404, 405):
        return "look at the name of the model and at base_url, which usually ends in /v1"
    return "look at the model's name and at the fields of the request (response_format, max_tokens, options)"


def pause(failure: Failed, attempt: int, base: float) -> float:
    """Seconds to wait after the ``attempt``-th failure: as the server says, else by chance, doubling, at most 120.

    A server that has said "at once" before is not believed again: the wait by chance is the least then.
    """
    most = min(base * 2.0 ** min(attempt - 1, _MOST_DOUBLED), LONGEST_WAIT)
    by_chance = random.SystemRandom().uniform(0.0, most)
    if failure.retry_after is None:
        return by_chance
    return min(max(failure.retry_after, by_chance if attempt > 1 else 0.0), LONGEST_WAIT)


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds that a server asks to wait, by ``Retry-After-Ms`` or ``Retry-After`` (seconds or a date)."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        return max(parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def words_of(body: bytes) -> str:
    """What a body of an error says: its ``error.message`` where it is JSON that has one, else all of it."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    for name in ("error", "message", "detail"):
        found = found.get(name, found) if isinstance(found, dict) else found
    return found if isinstance(found, str) else body.decode("utf-8", "replace")
