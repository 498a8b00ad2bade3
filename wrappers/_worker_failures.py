"""How often each member of a vector failed in a row, and when that is enough."""

from __future__ import annotations


class FailureCount:
    """Failures of each member since its last episode that ended by itself.

    Args:
        members: Number of members.
        max_restarts: How many failures in a row a member may have before it is retired.
    """

    def __init__(self, members: int, max_restarts: int) -> None:
        self.max_restarts = max_restarts
        self._counts = [0] * members
        self._reasons = [""] * members

    def add(self, member: int, reason: str) -> None:
        """Its episode was lost."""
        self._counts[member] += 1
        self._reasons[member] = reason

    def clear(self, member: int) -> None:
        """Its episode ended by itself."""
        self._counts[member] = 0

    def may_restart(self, member: int) -> bool:
        """Count a loss that can be made good by another try; False (and not counted) when it had its tries."""
        if self._counts[member] >= self.max_restarts:
            return False
        self._counts[member] += 1
        return True

    def retired(self, member: int) -> bool:
        """Whether it failed more than ``max_restarts`` times in a row."""
        return self._counts[member] > self.max_restarts

    def verdict(self, member: int) -> str:
        """Why a retired member is out."""
        return (
            f"retired after failing {self._counts[member]} times in a row, the last time with: {self._reasons[member]}"
        )
