"""Accounts of what an endpoint was asked, answered and cost, kept by any number of threads."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import Any, Final

from triage_gym.errors import InputError
from triage_gym.llm.completion import Billed
from triage_gym.llm.forks import renew_after_fork

PRICED: Final = ("prompt", "cached", "completion")
"""What has a price of its own; thoughts cost what the rest of an answer costs."""
_COUNTS: Final = ("answers", "failures", "requests")
_TOKENS: Final = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
_MILLION: Final = 1e6
_SHORTEST: Final = 1e-3
_STEP: Final = math.log(1.1)
_BUCKETS: Final = 160
"""Latencies of 1 ms to more than an hour, each known to 10 %."""


class Accounts:
    """Counts, tokens, money and latencies since it was made.

    Args:
        prices: Dollars a million tokens of ``"prompt"``, ``"cached"`` (those of the prompt that the server had at hand;
            like the prompt, if not given) and ``"completion"``; None for unknown.

    Raises:
        InputError: For prices of another form.
    """

    def __init__(self, prices: Mapping[str, float] | None = None) -> None:
        self._prices = _checked(prices)
        self._numbers: dict[str, float] = dict.fromkeys((*_COUNTS, *_TOKENS, "usd", "latency_seconds"), 0)
        self._buckets = [0] * _BUCKETS
        self._longest = 0.0
        self.after_fork()

    def after_fork(self) -> None:
        """Take a new lock, as in the child of a fork."""
        self._lock = threading.Lock()
        renew_after_fork(self)

    @property
    def priced(self) -> bool:
        """Whether dollars are known."""
        return self._prices is not None

    @property
    def numbers(self) -> dict[str, float]:
        """All that can be summed over clients: answers, failures (``failed_timeout`` … by kind), requests, tokens, usd
        and the seconds that answers took.
        """
        with self._lock:
            return dict(self._numbers)

    @property
    def latency(self) -> dict[str, float]:
        """Of the requests that were answered: count, sum, max, and p50 and p95 to 10 %; seconds."""
        with self._lock:
            count = sum(self._buckets)
            shares = {f"p{share}": self._quantile(share / 100, count) for share in (50, 95)}
            return {"count": count, "sum": self._numbers["latency_seconds"], "max": self._longest, **shares}

    def get(self, name: str) -> float:
        """One of :attr:`numbers`; 0 for one that never occurred."""
        return self._numbers.get(name, 0)

    def requested(self) -> None:
        """A request is sent."""
        with self._lock:
            self._numbers["requests"] += 1

    def answered(self) -> None:
        """A question has its answer."""
        with self._lock:
            self._numbers["answers"] += 1

    def failed(self, kind: str) -> None:
        """A question has failed for good."""
        with self._lock:
            self._numbers["failures"] += 1
            self._numbers[f"failed_{kind}"] = self._numbers.get(f"failed_{kind}", 0) + 1

    def paid(self, billed: Billed, seconds: float | None = None) -> None:
        """A request was billed; ``seconds`` is what it took, of one that was answered."""
        with self._lock:
            for name in _TOKENS:
                self._numbers[name] += getattr(billed, name)
            self._numbers["usd"] += self._dollars(billed)
            if seconds is not None:
                self._numbers["latency_seconds"] += seconds
                self._longest = max(self._longest, seconds)
                self._buckets[_bucket(seconds)] += 1

    def _dollars(self, billed: Billed) -> float:
        if self._prices is None:
            return 0.0
        fresh = billed.prompt_tokens - billed.cached_tokens
        amounts = (fresh, billed.cached_tokens, billed.completion_tokens)
        return sum(self._prices[name] * amount for name, amount in zip(PRICED, amounts, strict=True)) / _MILLION

    def _quantile(self, share: float, count: int) -> float:
        """The middle of the bucket that holds the ``share``; never beyond the longest."""
        seen = 0
        for bucket, here in enumerate(self._buckets):
            seen += here
            if here and seen >= share * count:
                return min(_SHORTEST * math.exp((bucket + 0.5) * _STEP), self._longest)
        return 0.0

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self.after_fork()


def _bucket(seconds: float) -> int:
    if seconds <= _SHORTEST:
        return 0
    return min(int(math.log(seconds / _SHORTEST) / _STEP), _BUCKETS - 1)


def _checked(prices: Mapping[str, float] | None) -> dict[str, float] | None:
    if prices is None:
        return None
    right = {"prompt", "completion"} <= set(prices) <= set(PRICED)
    if not right or not all(_is_price(price) for price in prices.values()):
        raise InputError(
            "Expected prices like {'prompt': 0.15, 'cached': 0.075, 'completion': 0.6}, dollars a million tokens, "
            f"got {dict(prices)!r}"
        )
    return {"cached": prices["prompt"], **prices}


def _is_price(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
