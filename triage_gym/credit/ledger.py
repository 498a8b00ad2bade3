"""Joins the attempts at one task instance into groups, by ``group_id``, whatever order or process they come from.

Promised: a group's members come back in the order they were added; groups that never fill come back from
:meth:`GroupLedger.pop_incomplete` in the order they began. It refuses members of another task or with another first
observation, because outcomes of different tasks must not be compared. Left to you: to pop incomplete groups when no more members
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
            GroupError: When the record was added before, or its task or start is not that of the group's other members.
        """
        members = self._open.get(record.group_id, [])
        if any(m is record for m in members):
            raise GroupError(
                f"Expected each record once, got the same one twice in group {record.group_id!r}; "
                "add a record when its attempt ends and never again"
            )
        if record.error is None:
            self.check_start(record.group_id, record.task_id, record.start_observation)
        members = [*members, record]
        if len(members) < self.group_size:
            self._open[record.group_id] = members
            return None
        self._open.pop(record.group_id, None)
        return Group(record.group_id, tuple(members))

    def check_start(self, group_id: str, task_id: str, observation: str) -> None:
        """Raise GroupError unless an attempt at this task with this first observation may join the group.

        The observation alone does not tell: two tasks may look alike until something is opened.
        """
        first = next((m for m in self._open.get(group_id, ()) if m.error is None), None)
        if first is None or (first.task_id, first.start_observation) == (task_id, observation):
            return
        what, one, other = "first observation", first.start_observation, observation
        if first.start_observation == observation:
            what, one, other = "task", first.task_id, task_id
        raise GroupError(
            f"Expected every member of group {group_id!r} to have the same {what}, got {_short(one)} and "
            f"{_short(other)}. The environment ignores its seed, or the group_id was used for different tasks: seed "
            "each member alike, or choose the task by an option of reset()"
        )

    def pop_incomplete(self) -> list[Group]:
        """All groups that are not full, oldest first; the ledger is empty afterwards."""
        groups = [Group(group_id, tuple(members)) for group_id, members in self._open.items()]
        self._open.clear()
        return groups


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
