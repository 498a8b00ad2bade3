"""What a run says while it waits for a judge: silence of a quarter of an hour looks like a hang. No torch.

A thread looks at what the judge has counted in its ``usage`` and logs a line after :data:`FIRST` seconds of one call and
then every :data:`EVERY`. It asks nothing, decides nothing and ends with the call.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

from triage_gym import registry
from triage_gym.judges import nesting
from triage_gym.protocols import Judge

FIRST: Final = 30.0
"""Seconds of a call after which the first line comes."""
EVERY: Final = 60.0
"""Seconds between further lines."""
logger = logging.getLogger(__name__)


def leaves(spec: Any) -> Iterator[dict[str, Any]]:
    """The judges in a spec that are made of no others, each as its config."""
    found = registry.config("judges", spec)
    within = found.get("of")
    if within is None:
        yield found
        return
    for one in within if isinstance(within, list | tuple) else [within]:
        yield from leaves(one)


def deadline_of(spec: Any) -> float | None:
    """The longest time that a language model in ``spec`` is waited for, in seconds; None where there is none."""
    found = []
    for leaf in leaves(spec):
        if leaf["name"] == "llm":
            from triage_gym.judges.llm import DEADLINE

            pool = leaf.get("pool")
            own = pool.get("deadline") if isinstance(pool, Mapping) else None
            found.append(float(own or leaf.get("deadline") or DEADLINE))
    return max(found, default=None)


class Waiting:
    """A context manager around one call of a judge, which says now and then how far it is.

    Args:
        judge: Who is asked.
        turns: How many turns it is asked about.
        deadline: Seconds after which it gives a question up, None for unknown.
        first: Seconds until the first line.
        every: Seconds between further ones.
    """

    def __init__(
        self, judge: Judge, turns: int, deadline: float | None = None, first: float = FIRST, every: float = EVERY
    ) -> None:
        self._judge, self._turns, self._deadline, self._first, self._every = judge, turns, deadline, first, every
        self._over = threading.Event()
        self._before = self._count()
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, name="waiting for the judge", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = self._first
        while not self._over.wait(pause):
            logger.warning("%s", self.told(time.monotonic() - self._began))
            pause = self._every

    def told(self, seconds: float) -> str:
        """How far the judge is after so many seconds."""
        now = self._count()
        more = {name: value - self._before.get(name, 0) for name, value in now.items()}
        counts = ", ".join(f"{more[name]:,.0f} {name}" for name in ("answers", "requests", "cached") if name in more)
        limit = (
            "" if self._deadline is None else f"; a question is given up after {self._deadline:g} s (its `deadline`)"
        )
        so_far = f", so far {counts}" if counts else ""
        return f"waiting for the judge for {seconds:.0f} s: asked about {self._turns:,} turns{so_far}{limit}"

    def _count(self) -> dict[str, float]:
        try:
            return nesting.usage_of([self._judge])
        except Exception:  # noqa: BLE001 - numbers to look at, read beside the judge's own work, are worth no failure
            return {}
