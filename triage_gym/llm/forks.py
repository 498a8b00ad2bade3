"""What a fork leaves to the child: locks that nobody will release, threads that are not there, connections of the parent.

Whatever has any of them is told to begin anew in the child. ``AsyncVectorEnv`` forks, with all that its environments hold.
"""

from __future__ import annotations

import os
import weakref
from typing import Final, Protocol


class Forked(Protocol):
    """Something that begins anew in the child of a fork."""

    def after_fork(self) -> None:
        """In the child: take new locks, and forget threads and connections without a word to the other side."""


_alive: Final[weakref.WeakSet[Forked]] = weakref.WeakSet()


def renew_after_fork(one: Forked) -> None:
    """Tell ``one``, as long as it lives, of every fork."""
    _alive.add(one)


def _after_fork() -> None:
    for one in list(_alive):
        one.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
