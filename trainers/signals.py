"""SIGTERM and SIGINT ask a run to finish its update, save and leave; a second signal leaves at once.

What may take long and can be done again, as asking a judge, is cut short by the first one (:meth:`Signals.cuttable`).
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Final, Self

_WATCHED: Final = (signal.SIGTERM, signal.SIGINT)


class Interrupted(SystemExit):
    """A signal ended the run after it was saved; ``code`` is 128 + signal, 143 for SIGTERM and 130 for SIGINT.

    Args:
        number: The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


class CutShort(Interrupted):
    """The first signal came while something was waited for that can be done again."""


class Signals:
    """Catches the first signal and leaves the second one to end the process.

    A context manager. Outside of the main thread, where Python allows no handlers, it catches nothing.

    Args:
        tell: Called with the number of the first signal as it comes, from the handler: let it do little.
    """

    def __init__(self, tell: Callable[[int], None] | None = None) -> None:
        self._tell = tell
        self.caught: int | None = None
        self._cuttable = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _WATCHED:
                self._before[number] = signal.signal(number, self._catch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if self.caught is not None:
            raise Interrupted(number)
        self.caught = number
        if self._tell is not None:
            self._tell(number)
        if self._cuttable:
            self._cuttable = False
            raise CutShort(number)

    @contextlib.contextmanager
    def cuttable(self) -> Iterator[None]:
        """Around what the first signal ends, be it one that came before.

        Raises:
            CutShort: When there is one.
        """
        if self.caught is not None:
            raise CutShort(self.caught)
        self._cuttable = True
        try:
            yield
        finally:
            self._cuttable = False

    def leave_if_caught(self) -> None:
        """Raise :class:`Interrupted` when a signal has come."""
        if self.caught is not None:
            raise Interrupted(self.caught)
