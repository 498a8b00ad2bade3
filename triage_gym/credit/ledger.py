"""Joins the attempts at one task instance into groups, by ``group_id``, whatever order or process they come from.

Promised: a group's members come back in the order they were added; groups that never fill come back from
:meth:`GroupLedger.pop_incomplete` in the order they began. It refuses members that started from different observations,
because outcomes of different tasks must not be compared. Left to you: to pop incomplete groups when no more members
will come (they are kept for ever otherwise).
"""

from __future__ import annotations

from triage_gym.errors import GroupError, InputError
from triage_gym.records import EpisodeRecord, Group


class GroupLedger:
    """Collects records until ``group_size`` members of a group are there.

    Args:
        group_size: Members of a group, at least 1.

    Raises:
        InputError: For a smaller ``group_size``.
    """

    def __init__(self, group_size: int) -> None:
        if type(group_size) is not int or group_size < 1:
            raise InputError(f"Expected `group_size` to be an integer of at least 1, got {group_size!r}")
        self.group_size = group_size
        self._open: dict[str, list[EpisodeRecord]] = {}

    def __len__(self) -> int:
        """Groups that have begun and are not complete."""
        return len(self._open)

    def add(self, record: EpisodeRecord) -> Group | None:
        """Take in a member; the whole group when this was the last one, else None.

        A record with an ``error`` is a member too: it fills its place, and credit rules leave it out.

        Raises:
            GroupError: When the record was added before, or started elsewhere than the group's other members.
        """
        members = self._open.get(record.group_id, [])
        if any(m is record for m in members):
            raise GroupError(
                f"Expected each record once, got the same one twice in group {record.group_id!r}; "
                "add a record when its attempt ends and never again"
            )
        if record.error is None:
            self._check_start(record, members)
        members = [*members, record]
        if len(members) < self.group_size:
            self._open[record.group_id] = members
            return None
        self._open.pop(record.group_id, None)
        return Group(record.group_id, tuple(members))

    def pop_incomplete(self) -> list[Group]:
        """All groups that are not full, oldest first; the ledger is empty afterwards."""
        groups = [Group(group_id, tuple(members)) for group_id, members in self._open.items()]
        self._open.clear()
        return groups

    @staticmethod
    def _check_start(record: EpisodeRecord, members: list[EpisodeRecord]) -> None:
        first = next((m for m in members if m.error is None), record)
        if first.start_observation != record.start_observation:
            raise GroupError(
                f"Expected every member of group {record.group_id!r} to start from the same observation, got "
                f"{_short(first.start_observation)} and {_short(record.start_observation)}. The environment ignores "
                "its seed, or the group_id was used for different tasks: seed each member alike, or choose the task "
                "by an option of reset()"
            )


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
