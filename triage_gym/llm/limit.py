"""How many requests may be under way at once: more while all goes well, half when the endpoint cannot keep up."""

from __future__ import annotations

from triage_gym.errors import InputError


class AdaptiveLimit:
    """Additive increase, multiplicative decrease, as TCP does with its window.

    One more after as many successes as the limit is; half, once a round trip, when a request that was sent after the last
    halving is answered with "too much". Not thread-safe: who uses it holds a lock.

    Args:
        start: How many at first.
        least: The limit never falls below.
        most: The limit never grows above.

    Raises:
        InputError: Unless 1 <= least <= start <= most.
    """

    def __init__(self, start: int, least: int, most: int) -> None:
        if not 1 <= least <= start <= most:
            raise InputError(
                f"Expected limits of requests at once with 1 <= least <= limit <= most, got {least}, {start}, {most}"
            )
        self.value = start
        self._least, self._most = least, most
        self._successes = 0
        self._halved = float("-inf")

    def succeeded(self) -> None:
        """A request was answered."""
        self._successes += 1
        if self._successes >= self.value:
            self._successes = 0
            self.value = min(self.value + 1, self._most)

    def slowed(self, sent: float, now: float) -> None:
        """The endpoint could not keep up with a request that was sent at the time ``sent``."""
        if sent > self._halved:
            self.value = max(self.value // 2, self._least)
            self._successes = 0
            self._halved = now
