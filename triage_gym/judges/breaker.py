"""Breaker: says when a judge fails so often that what is learnt from it would not be what was asked for.

Counted are segments that the judge was asked about (:data:`ASKED`), in order; what it was not asked is neither good nor
bad. It trips at the first label with which more than ``most`` of a full window of the last ``window`` has failed: with
the defaults at the 11th failure within 200. So an outage trips it after 11 segments, whether or not 200 were asked yet, and
how many labels come at a time makes no difference. Withheld labels (``unsure``) are answers.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable
from typing import Final

from triage_gym.errors import InputError
from triage_gym.records import LabelStatus, RoleLabel

WINDOW: Final = 200
"""Segments that are looked back on."""
ASKED: Final[tuple[LabelStatus, ...]] = ("judged", "failed", "unsure")
"""Statuses of segments that a judge was asked about."""
_LONGEST: Final = 160
"""Characters kept of a reason."""
_TRIES: Final = re.compile(r" \(\d+ tr(?:y|ies)\)")
_MARKS: Final = {".": False, "x": True}


def shortened(why: str, most: int = _LONGEST) -> str:
    """A reason in one line of at most ``most`` characters, cut between words where it must be cut.

    How often it was tried is left out, which would tell equal reasons apart.
    """
    text = _TRIES.sub("", " ".join(why.split()))
    if len(text) <= most:
        return text
    kept = text[: most - 1]
    head, space, _ = kept.rpartition(" ")
    return f"{(head if space and len(head) > most // 2 else kept).rstrip(' ,;:.')}…"


class Breaker:
    """Watches the labels of a run for failures.

    Args:
        most: Share of failures among the last ``window`` that is borne, in [0, 1]; 1 never trips.
        window: Segments that are looked back on.

    Raises:
        InputError: For values out of range.
    """

    def __init__(self, most: float = 0.05, window: int = WINDOW) -> None:
        if not 0.0 <= most <= 1.0 or window < 1:
            raise InputError(f"Expected `most` in [0, 1] and `window` of at least 1, got {most!r} and {window!r}")
        self.most = most
        self._last: deque[bool] = deque(maxlen=window)
        self.window = window
        self._reasons: Counter[str] = Counter()
        self.failed = 0
        """Failures among the last ``window``."""
        self.tripped = False
        """Whether there were ever too many; nothing is counted after that."""

    @property
    def asked(self) -> int:
        """How many segments are looked back on."""
        return len(self._last)

    def add(self, labels: Iterable[RoleLabel]) -> bool:
        """Count ``labels``, in order; whether the breaker has tripped."""
        for label in labels:
            if self.tripped:
                break
            if label.status not in ASKED:
                continue
            failed = label.status == "failed"
            if len(self._last) == self.window:
                self.failed -= self._last[0]
            self._last.append(failed)
            if failed:
                self.failed += 1
                self._reasons[shortened(label.why) or "no reason given"] += 1
                # A quotient, not a product: 0.29 * 100 is less than 29.
                self.tripped = self.failed / self.window > self.most
        return self.tripped

    def reasons(self, most: int = 3) -> list[tuple[str, int]]:
        """The commonest reasons of failures since the breaker was made, and how often each came."""
        return self._reasons.most_common(most)

    def to_json(self) -> str:
        """What the rest of a run depends on: a mark a segment, ``x`` for failed ones. Reasons are left out."""
        return "".join("x" if failed else "." for failed in self._last)

    def go_to(self, marks: str) -> None:
        """Go back to what :meth:`to_json` gave.

        Raises:
            InputError: When ``marks`` is none of that.
        """
        if not isinstance(marks, str) or not set(marks) <= set(_MARKS) or len(marks) > self.window:
            raise InputError(f"Expected at most {self.window} marks out of {sorted(_MARKS)}, got {marks!r:.80}")
        self._last = deque((_MARKS[mark] for mark in marks), maxlen=self.window)
        self.failed = sum(self._last)
        self.tripped = False
