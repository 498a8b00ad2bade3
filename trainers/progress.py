"""What a running training tells whoever watches it: one frozen :class:`Update` an update. No torch."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Update:
    """One update of one run, as it is logged."""

    run: str
    """Name of the run directory; tells arms apart in a comparison."""
    update: int
    """Number of the update, from 1."""
    turns: int
    """Environment turns so far."""
    total_turns: int
    """Environment turns of the whole run."""
    metrics: Mapping[str, Any]
    """The line of ``metrics.jsonl``."""
    timings: Mapping[str, Any]
    """The line of ``timings.jsonl``."""
    eta_s: float
    """Expected wall seconds to the end."""

    @property
    def done(self) -> bool:
        """Whether this was the last update."""
        return self.turns >= self.total_turns


Progress = Callable[[Update], None]
"""Called after each update, in the process that called ``train`` or ``compare``."""


class Clock:
    """Wall and CPU seconds since it was made, and the wall seconds still to go.

    Args:
        turns: Turns already done, so that a resumed run does not count them as fast.
        total_turns: Turns at the end.
    """

    def __init__(self, turns: int, total_turns: int) -> None:
        self._start_turns, self._total = turns, total_turns
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def wall(self) -> float:
        """Wall seconds so far."""
        return time.monotonic() - self._wall

    def cpu(self) -> float:
        """CPU seconds of this process so far."""
        return time.process_time() - self._cpu

    def eta(self, turns: int) -> float:
        """Wall seconds until the last turn, at the pace so far."""
        done = max(1, turns - self._start_turns)
        return max(0.0, self.wall() * (self._total - turns) / done)


def update_of(message: Mapping[str, Any]) -> Update:
    """The update that a message tells of."""
    return Update(**{f.name: message[f.name] for f in dataclasses.fields(Update)})
