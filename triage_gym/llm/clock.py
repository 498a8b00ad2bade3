"""The time that deadlines, pauses and budgets are reckoned in: the machine's, or a virtual one for tests."""

from __future__ import annotations

import queue
import threading
import time
from typing import Final, Protocol

_PATIENCE: Final = 30.0


class Clock(Protocol):
    """A clock that one can wait on."""

    def now(self) -> float:
        """Seconds since some moment; never less than before."""

    def sleep(self, seconds: float) -> None:
        """Come back ``seconds`` later."""

    def wait(self, news: queue.SimpleQueue[None], seconds: float, busy: bool) -> None:
        """Come back when there is something in ``news``, or ``seconds`` later.

        Args:
            news: What another thread may put something into.
            seconds: How long to wait at most.
            busy: Whether there are threads whose work goes on meanwhile.
        """


class MachineClock:
    """The machine's monotonic clock."""

    now = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def wait(self, news: queue.SimpleQueue[None], seconds: float, busy: bool) -> None:
        """See :meth:`Clock.wait`."""
        try:
            news.get(timeout=seconds)
        except queue.Empty:
            return


class VirtualClock:
    """A clock that stands still while there is work, and jumps over every wait: ten minutes pass in no time.

    Real requests may be made under it. They take no virtual time, unless something calls :meth:`sleep`.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: object) -> VirtualClock:
        """The same: there is one time for all."""
        return self

    def now(self) -> float:
        """See :meth:`Clock.now`."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """See :meth:`Clock.sleep`."""
        with self._lock:
            self._now += max(seconds, 0.0)

    def wait(self, news: queue.SimpleQueue[None], seconds: float, busy: bool) -> None:
        """See :meth:`Clock.wait`."""
        try:
            news.get(timeout=_PATIENCE if busy else 0.0)
        except queue.Empty:
            if not busy:
                self.sleep(seconds)
