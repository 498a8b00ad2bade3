"""Labelling by people: what is asked next, what an answer changes, how files are joined and gold is settled. Pure.

Two annotators label on their own; where they agree that is gold, where they differ an adjudicator decides, as in TRIAGE
(arXiv:2606.32017). Promised: an annotator is shown the window alone, without facts, outcome, gold or another's label;
the order of the questions is the same for everybody, so that two who label a part label the same part, and says nothing of
the strata. Judges are no annotators: their labels in a file settle nothing unless somebody names them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from triage_gym import registry
from triage_gym.audit.labels import JUDGES, Annotation, LabelledWindow, check_name
from triage_gym.audit.sources import in_turn
from triage_gym.errors import InputError
from triage_gym.protocols import Window
from triage_gym.records import Role

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Undo:
    """What a row was before an answer, and where the question stood."""

    place: int
    row: LabelledWindow


class Session:
    """The questions of one sitting.

    Args:
        rows: Of a label file.
        name: The annotator; None adjudicates: then rows whose annotators differ are asked for, and answers are gold.
        by: Annotators that an adjudication goes by, judges among them if so wished; all people by default.

    Raises:
        InputError: For a name that no annotator may have, or that is a judge's.
    """

    def __init__(self, rows: Sequence[LabelledWindow], name: str | None, by: Collection[str] = ()) -> None:
        self._name = None if name is None else check_person(name, rows)
        self._by = frozenset(by)
        self._rows = {row.id: row for row in (settle(rows, by) if name is None else rows)}
        wanted = [row for row in in_turn(self._rows.values()) if self._open(row)]
        self._queue = [row.id for row in wanted]
        self._place = 0
        self._past: list[_Undo] = []

    def _open(self, row: LabelledWindow) -> bool:
        if self._name is None:
            return row.gold is None and differ(row, self._by)
        return self._name not in row.labels

    @property
    def rows(self) -> list[LabelledWindow]:
        """All rows, in the order of the file, with the answers so far."""
        return list(self._rows.values())

    @property
    def left(self) -> int:
        """Questions that are still to come."""
        return len(self._queue) - self._place

    @property
    def asked(self) -> int:
        """All questions of the sitting."""
        return len(self._queue)

    @property
    def done(self) -> int:
        """Rows that have what the sitting is for: a label of the annotator, or gold."""
        if self._name is None:
            return sum(row.gold is not None for row in self._rows.values())
        return sum(self._name in row.labels for row in self._rows.values())

    @property
    def current(self) -> LabelledWindow | None:
        """The row that is asked about; None at the end."""
        return self._rows[self._queue[self._place]] if self.left else None

    def answer(self, role: Role, why: str = "") -> None:
        """Give the current row its label, or its gold role with the reason as note, and go on."""
        row = self._step()
        if self._name is None:
            self._rows[row.id] = replace(row, gold=role, note=why or row.note)
        else:
            self._rows[row.id] = replace(row, labels={**row.labels, self._name: Annotation(role, why)})

    def skip(self) -> None:
        """Go on without an answer; the next sitting asks again."""
        self._step()

    def _step(self) -> LabelledWindow:
        row = self.current
        if row is None:
            raise InputError("Expected a row to answer for, got the end of the sitting")
        self._past.append(_Undo(self._place, row))
        self._place += 1
        return row

    def undo(self) -> bool:
        """Take the last answer or skip back and ask again; False when there is none."""
        if not self._past:
            return False
        last = self._past.pop()
        self._place, self._rows[last.row.id] = last.place, last.row
        return True


def is_judge(name: str, row: LabelledWindow) -> bool:
    """Whether the label of that name is a judge's: the origin of the row says so, or a judge is registered as it.

    ``rule:generic``, a judge's way to label, is as ``rule``.
    """
    said = row.origin.get(JUDGES)
    return (isinstance(said, list) and name in said) or name.partition(":")[0] in registry.names("judges")


def people_of(rows: Sequence[LabelledWindow]) -> list[str]:
    """The people who gave roles, sorted."""
    return sorted({name for row in rows for name in roles_of(row)})


def annotators_of(rows: Sequence[LabelledWindow]) -> list[str]:
    """All who gave roles, people and judges, sorted."""
    return sorted({name for row in rows for name, label in row.labels.items() if label.role is not None})


def check_person(name: str, rows: Sequence[LabelledWindow] = ()) -> str:
    """``name``, when a person may label the rows under it.

    Raises:
        InputError: For one that no annotator may have, or that is a judge's.
    """
    check_name(name)
    if name.partition(":")[0] in registry.names("judges") or any(is_judge(name, row) for row in rows):
        raise InputError(f"Expected a person's name, got {name!r}, which is a judge's; choose another")
    return name


def roles_of(row: LabelledWindow, by: Collection[str] = ()) -> dict[str, Role]:
    """The role that each person, or each of ``by``, gave."""
    return {
        name: label.role
        for name, label in sorted(row.labels.items())
        if label.role is not None and (name in by if by else not is_judge(name, row))
    }


def differ(row: LabelledWindow, by: Collection[str] = ()) -> bool:
    """Whether annotators gave it different roles."""
    return len(set(roles_of(row, by).values())) > 1


def settle(rows: Sequence[LabelledWindow], by: Collection[str] = ()) -> list[LabelledWindow]:
    """The rows, with gold where there was none and at least two annotators agree; one alone settles nothing.

    Args:
        rows: Of a label file.
        by: The annotators to go by, judges among them if so wished; all people by default.

    Raises:
        InputError: When one of ``by`` labelled nothing, or when there is gold to settle and fewer than two to go by.
    """
    for name in by:
        if not any(name in row.labels for row in rows):
            raise InputError(f"Expected annotators with labels in the file, got {name!r} which has none")
    if any(row.gold is None for row in rows):
        _check_two(rows, by)
    found = []
    for row in rows:
        roles = roles_of(row, by)
        agreed = row.gold is None and len(roles) > 1 and len(set(roles.values())) == 1
        found.append(replace(row, gold=next(iter(roles.values()))) if agreed else row)
    return found


def _check_two(rows: Sequence[LabelledWindow], by: Collection[str]) -> None:
    """Raise InputError where fewer than two could settle anything."""
    people = people_of(rows)
    if len(set(by) if by else people) > 1:
        return
    judges = [name for name in annotators_of(rows) if name not in people]
    hint = f"; the labels of {', '.join(judges)} are judges', which count when --by names them" if judges else ""
    raise InputError(
        f"Expected labels of two annotators to settle by, got {', '.join(by or people) or 'none'}; "
        f"one alone settles nothing: let another person label, and --merge the files{hint}"
    )


def merged(files: Sequence[tuple[str, Sequence[LabelledWindow]]]) -> list[LabelledWindow]:
    """The rows of several files as one list, by id, in the order in which the ids come up.

    What one file leaves open (null, no label, no note, no facts) the other fills.

    Args:
        files: Names with rows; the names are for errors.

    Raises:
        InputError: When two files say different things of one id.
    """
    found: dict[str, LabelledWindow] = {}
    names: dict[str, str] = {}
    for name, rows in files:
        for row in rows:
            if row.id in found:
                where = f"{names[row.id]} and {name}"
                found[row.id] = _joined(found[row.id], row, where)
            else:
                found[row.id], names[row.id] = row, name
    return list(found.values())


def check_kept(name: str, before: Sequence[LabelledWindow], after: Sequence[LabelledWindow]) -> None:
    """Raise InputError where writing ``after`` over the file ``name`` would lose labels of people, or gold, in ``before``."""
    rows = {row.id: row for row in after}
    for old in before:
        new = rows.get(old.id)
        held = roles_of(old).keys() - (new.labels.keys() if new else set())
        if old.gold is not None and (new is None or new.gold is None):
            held = {*held, "gold"}
        if held:
            raise InputError(
                f"Expected --out to name a new file, got {name}, whose labels of {', '.join(sorted(held))} the files do "
                f"not hold; name another, or merge {name} as well"
            )


def resumed(rows: Sequence[LabelledWindow], before: Sequence[LabelledWindow]) -> list[LabelledWindow]:
    """``rows`` with what an earlier sitting saved; its labels, gold and notes stand.

    Raises:
        InputError: When the two name different segments by one id.
    """
    saved = {row.id: row for row in before}
    found = []
    for row in rows:
        old = saved.pop(row.id, None)
        if old is None:
            found.append(row)
            continue
        _window(row.window, old.window, row.id, "the input and what was saved")
        labels = {**row.labels, **old.labels}
        found.append(replace(row, labels=labels, gold=old.gold or row.gold, note=old.note or row.note))
    return found + [row for row in before if row.id in saved]


def _joined(a: LabelledWindow, b: LabelledWindow, where: str) -> LabelledWindow:
    for name in a.labels.keys() & b.labels.keys():
        _one(a.labels[name], b.labels[name], f"the label of {name}", a.id, where)
    return LabelledWindow(
        a.id,
        _window(a.window, b.window, a.id, where),
        {**a.labels, **b.labels},
        _one(a.gold, b.gold, "gold", a.id, where),
        _one(a.success, b.success, "success", a.id, where),
        _one(a.delta, b.delta, "delta", a.id, where),
        _one(a.note or None, b.note or None, "the note", a.id, where) or "",
        _origin(a.origin, b.origin, a.id, where),
    )


def _one(a: _T | None, b: _T | None, what: str, identifier: str, where: str) -> _T | None:
    """The one of the two that is there."""
    if a is not None and b is not None and a != b:
        raise InputError(f"Expected {where} to agree on {what} of {identifier!r:.80}, got {a!r:.80} and {b!r:.80}")
    return b if a is None else a


def _origin(a: Mapping[str, object], b: Mapping[str, object], identifier: str, where: str) -> dict[str, object]:
    return {key: _one(a.get(key), b.get(key), f"origin.{key}", identifier, where) for key in {**a, **b}}


def _window(a: Window, b: Window, identifier: str, where: str) -> Window:
    """The window of both, with the facts that one of them may lack."""
    if a._replace(facts=None) != b._replace(facts=None):
        raise InputError(f"Expected {where} to show the same window under {identifier!r:.80}, got two different ones")
    return a._replace(facts=_one(a.facts, b.facts, "the facts", identifier, where))
