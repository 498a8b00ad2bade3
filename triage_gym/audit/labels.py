"""Label files: windows with what annotators said of them and what was settled in the end, one strict JSON object a line.

``{"schema": 1, "id", "window", "labels": {annotator: {"role", "why"}}, "gold", "success", "delta", "note", "origin"}``.
``success`` and ``delta`` are there to sort and to measure by; no judge and no annotator is ever shown them. Promised:
ids are unique in a file; equal rows have equal bytes; a file is replaced as a whole or not at all; what is read is
checked field by field, and every error names the line. A name that ends in ``.gz`` is compressed.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

from triage_gym import strict_json
from triage_gym.errors import InputError
from triage_gym.files import numbered_lines, replacing
from triage_gym.protocols import Window
from triage_gym.records import ROLES, Role
from triage_gym.windows import window_from_json, window_to_json

SCHEMA: Final = 1
GOLD: Final = "gold"
"""What the settled roles are called wherever annotators are named; no annotator has this name."""
JUDGES: Final = "judges"
"""Key of the origin that lists those in ``labels`` who are judges, where their names alone may not tell."""
MAX_LINE: Final = 4 * 1024 * 1024
"""Bytes of a line, in writing and in reading."""
MAX_NAME: Final = 100
"""Characters of an annotator's name."""
_FIELDS: Final = ("schema", "id", "window", "labels", "gold", "success", "delta", "note", "origin")
_NEEDED: Final = {"schema", "id", "window"}


class Annotation(NamedTuple):
    """What one annotator said of a segment."""

    role: Role | None
    """None when the annotator could not say."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class LabelledWindow:
    """A segment as judges see it, with the labels that people and judges gave it."""

    id: str
    """Names the segment; the same in every file that holds it."""
    window: Window
    labels: Mapping[str, Annotation] = field(default_factory=dict)
    """By annotator."""
    gold: Role | None = None
    """The role that was settled; None while there is none."""
    success: bool | None = None
    """How the attempt ended: a stratum, hidden from judges and annotators. None where nobody knows."""
    delta: float | None = None
    """A* - A_i, where it was measured: what the segment's own advantage differs from the attempt's by."""
    note: str = ""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """Where the segment comes from, as JSON values. ``advantage``, if there, is A_i, the advantage of the attempt."""

    @property
    def advantage(self) -> float | None:
        """A_i, the advantage that the attempt got from its outcome, where the origin tells it."""
        found = self.origin.get("advantage")
        return None if found is None else float(found)

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads back; equal rows give equal objects, keys in the same order."""
        return {
            "schema": SCHEMA,
            "id": self.id,
            "window": window_to_json(self.window),
            "labels": {name: self.labels[name]._asdict() for name in sorted(self.labels)},
            "gold": self.gold,
            "success": self.success,
            "delta": self.delta,
            "note": self.note,
            "origin": json.loads(json.dumps(dict(self.origin), sort_keys=True, allow_nan=False)),
        }

    @classmethod
    def from_json(cls, data: Any) -> LabelledWindow:
        """The row written by :meth:`to_json`.

        Raises:
            InputError: For anything else; it names the field.
        """
        if not isinstance(data, Mapping) or not data.keys() >= _NEEDED:
            raise InputError(f"Expected a labelled window with the fields {_FIELDS}, got {data!r:.200}")
        unknown = sorted(data.keys() - set(_FIELDS))
        if unknown:
            raise InputError(f"Expected no fields but {_FIELDS}, got {unknown!r:.200}")
        if type(data["schema"]) is not int or data["schema"] != SCHEMA:
            raise InputError(f'Expected "schema": {SCHEMA}, got {data["schema"]!r:.80}; another version wrote it')
        if type(data["id"]) is not str or not data["id"]:
            raise InputError(f"Expected `id` to be text that is not empty, got {data['id']!r:.80}")
        success, note = data.get("success"), data.get("note", "")
        if success is not None and type(success) is not bool:
            raise InputError(f"Expected `success` to be true, false or null, got {success!r:.80}")
        if type(note) is not str:
            raise InputError(f"Expected `note` to be text, got {note!r:.80}")
        return cls(
            data["id"],
            window_from_json(data["window"]),
            _labels(data.get("labels", {})),
            _role(data.get("gold"), "gold"),
            success,
            _number(data.get("delta"), "delta"),
            note,
            _origin(data.get("origin", {})),
        )


def _role(value: Any, where: str) -> Role | None:
    if value is not None and (type(value) is not str or value not in ROLES):
        raise InputError(f"Expected `{where}` to be one of {ROLES} or null, got {value!r:.80}")
    return value


def _number(value: Any, where: str) -> float | None:
    if value is None:
        return None
    try:
        number = float(value) if type(value) in (int, float) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"Expected `{where}` to be a finite number or null, got {value!r:.80}")
    return number


def _labels(data: Any) -> dict[str, Annotation]:
    if not isinstance(data, Mapping):
        raise InputError(f"Expected `labels` to be an object by annotator, got {data!r:.80}")
    found = {}
    for name, said in data.items():
        check_name(name)
        if not isinstance(said, Mapping) or "role" not in said or not said.keys() <= {"role", "why"}:
            raise InputError(f"Expected the label of {name!r} to have `role` and `why` alone, got {said!r:.80}")
        why = said.get("why", "")
        if type(why) is not str:
            raise InputError(f"Expected `why` of {name!r} to be text, got {why!r:.80}")
        found[name] = Annotation(_role(said["role"], f"role of {name}"), why)
    return found


def check_name(name: str) -> str:
    """``name``, when an annotator may have it.

    Raises:
        InputError: For an empty or overlong one, one with spaces around it or characters that do not print, and ``gold``.
    """
    if type(name) is not str or not 0 < len(name) <= MAX_NAME or name != name.strip() or not name.isprintable():
        raise InputError(f"Expected an annotator's name of 1 to {MAX_NAME} printable characters, got {name!r:.80}")
    if name == GOLD:
        raise InputError(
            f"Expected an annotator's name, got {GOLD!r}, which stands for the settled roles; choose another"
        )
    return name


def _origin(data: Any) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise InputError(f"Expected `origin` to be an object, got {data!r:.80}")
    _number(data.get("advantage"), "origin.advantage")
    return dict(data)


def read_labels(path: str | os.PathLike[str]) -> list[LabelledWindow]:
    """The rows of a label file, in order; ``.gz`` files are decompressed.

    Raises:
        InputError: For a file that cannot be read, or with ``file:line`` for a line that is no labelled window, is too
            long, or repeats an id.
    """
    path = Path(path)
    rows: list[LabelledWindow] = []
    seen: dict[str, int] = {}
    for number, line in _lines(path):
        try:
            row = LabelledWindow.from_json(strict_json.loads(line))
        except (ValueError, RecursionError) as error:  # InputError is a ValueError
            raise InputError(f"Expected {path}:{number} to be a labelled window, got: {error}") from error
        if row.id in seen:
            raise InputError(f"Expected each id once, got {row.id!r:.80} at {path}:{seen[row.id]} and {path}:{number}")
        seen[row.id] = number
        rows.append(row)
    return rows


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with _opened(path) as file:
            yield from numbered_lines(file, MAX_LINE, path)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"Expected a readable label file at {path}, got: {error}") from error


def _opened(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def write_labels(path: str | os.PathLike[str], rows: Iterable[LabelledWindow]) -> None:
    """Put a label file in the place of what was there, once it is on the disk; its folder is made when missing.

    Raises:
        InputError: For rows that :func:`read_labels` would refuse. The old file stays then.
    """
    target = Path(os.path.realpath(path))
    data = b"".join(_encoded(list(rows)))
    if target.suffix == ".gz":
        held = io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", fileobj=held, mtime=0) as file:
            file.write(data)
        data = held.getvalue()
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as out:
        out.write(data)


def _encoded(rows: Sequence[LabelledWindow]) -> Iterator[bytes]:
    seen = set()
    for row in rows:
        if row.id in seen:
            raise InputError(f"Expected each id once, got {row.id!r:.80} again")
        seen.add(row.id)
        try:
            text = json.dumps(row.to_json(), allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"Expected a row of JSON values for {row.id!r:.80}, got: {error}") from error
        line = text.encode("ascii") + b"\n"
        if len(line) > MAX_LINE:
            raise InputError(f"Expected lines of at most {MAX_LINE} bytes, got {len(line)} for {row.id!r:.80}")
        LabelledWindow.from_json(json.loads(line))  # what could not be read back must not take the file's place
        yield line
