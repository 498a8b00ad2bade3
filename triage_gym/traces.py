"""``traces.jsonl``: the attempts of a run with what training made of them, one strict JSON object a line.

A line is an episode record (:meth:`~triage_gym.records.EpisodeRecord.to_json`) with four more fields: ``update`` (number
of the training update), ``credit`` (name of the rule), ``advantages`` (one number a segment, or null) and ``meta``
(anything else worth keeping). Promised: the file is only ever appended to, whole lines at a time; ASCII, no NaN; a crash
can tear the last line and nothing else; equal traces have equal bytes. A torn last line is reported by
:func:`read_traces` and removed by :func:`truncate_after`, which a resumed run calls before it writes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from triage_gym import strict_json
from triage_gym.errors import InputError
from triage_gym.files import numbered_lines, replacing
from triage_gym.records import EpisodeRecord

MAX_LINE: Final = 32 * 1024 * 1024
"""Bytes of a line, in writing and in reading."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One line: an attempt and what training made of it."""

    update: int
    record: EpisodeRecord
    credit: str = ""
    """Name of the credit rule, ``""`` when none was used."""
    advantages: tuple[float, ...] | None = None
    """What each segment was trained with; None when the attempt was not trained."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Further JSON-able facts, such as the role term of each segment."""

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads back."""
        return {
            **self.record.to_json(),
            "update": self.update,
            "credit": self.credit,
            "advantages": None if self.advantages is None else list(self.advantages),
            "meta": dict(self.meta),
        }

    @classmethod
    def from_json(cls, data: Any) -> Trace:
        """The trace written by :meth:`to_json`; raises InputError for anything else."""
        record = EpisodeRecord.from_json(data)
        update, credit = data.get("update"), data.get("credit", "")
        if type(update) is not int:
            raise InputError(f"Expected trace.update to be an integer, got {update!r:.80}")
        if not isinstance(credit, str):
            raise InputError(f"Expected trace.credit to be str, got {type(credit).__name__}")
        meta = data.get("meta", {})
        if not isinstance(meta, dict):
            raise InputError(f"Expected trace.meta to be an object, got {type(meta).__name__}")
        return cls(update, record, credit, _advantages(data.get("advantages"), len(record)), meta)


def _advantages(data: Any, segments: int) -> tuple[float, ...] | None:
    if data is None:
        return None
    if not isinstance(data, list | tuple) or len(data) != segments or not all(map(_is_finite, data)):
        raise InputError(f"Expected trace.advantages to be null or {segments} finite numbers, got {data!r:.80}")
    return tuple(map(float, data))


def _is_finite(value: Any) -> bool:
    """Whether ``value`` is a number that a float can hold."""
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:
        return False


class TraceWriter:
    """Appends traces to a file; each is on its way to the disk when :meth:`write` returns, on it after :meth:`sync`.

    Args:
        path: The file; made when missing, with its folder.

    Raises:
        InputError: When the file ends in a torn line: call :func:`truncate_after` first, or that line would swallow the
            next one.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and _torn_bytes(self.path):
            raise InputError(
                f"Expected {self.path} to end in a whole line; it is torn. Call truncate_after on it first"
            )
        self._file = self.path.open("ab")

    def write(self, trace: Trace) -> None:
        """Append one line.

        Raises:
            InputError: When the trace is no strict JSON (NaN, a live object in ``info`` or ``meta``), its advantages do
                not fit its segments, or it is longer than :data:`MAX_LINE`. Nothing is written then.
        """
        self._file.write(encode(trace))
        self._file.flush()

    def sync(self) -> None:
        """Wait until everything written is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Sync and close; closing twice does nothing."""
        if not self._file.closed:
            self.sync()
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def encode(trace: Trace) -> bytes:
    """The line of a trace, newline included.

    Raises:
        InputError: As :meth:`TraceWriter.write`.
    """
    _advantages(trace.advantages, len(trace.record))
    try:
        text = json.dumps(trace.to_json(), allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"Expected a trace of JSON values for {trace.record.group_id!r}, got: {error}") from error
    line = text.encode("ascii") + b"\n"
    if len(line) > MAX_LINE:
        raise InputError(
            f"Expected a trace of at most {MAX_LINE} bytes for {trace.record.group_id!r}, got {len(line)}; "
            "shorten the observations before they are recorded"
        )
    return line


@dataclass(frozen=True, slots=True)
class Traces:
    """What :func:`read_traces` found."""

    items: tuple[Trace, ...]
    torn: int = 0
    """Bytes of a torn last line that was left out; 0 when the file ends in a whole one."""

    def __iter__(self) -> Iterator[Trace]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


def read_traces(path: str | os.PathLike[str]) -> Traces:
    """All traces of a file, in order.

    A last line without its newline (a crash while writing) is left out and reported in ``torn``; nothing else is
    forgiven.

    Raises:
        InputError: For a missing file, or with its number a line that is too long or no trace.
    """
    items, torn = [], 0
    for number, line in _lines(Path(path)):
        if not line.endswith(b"\n"):
            torn = len(line)
            break
        items.append(_decode(line, f"line {number} of {path}"))
    return Traces(tuple(items), torn)


def truncate_after(path: str | os.PathLike[str], update: int) -> int:
    """Drop a torn last line and every trace of a later update, so that a run resumed there writes the same file again.

    The new file takes the place of the old one at once, after it is on the disk. Kept lines keep their bytes.

    Args:
        path: The file; a missing one is left missing.
        update: Last update to keep.

    Returns:
        How many lines were dropped, a torn one included.

    Raises:
        InputError: For a whole line that is too long or no trace.
    """
    path = Path(path)
    if not path.exists():
        return 0
    dropped = 0
    with replacing(path) as out:
        for number, line in _lines(path):
            if line.endswith(b"\n") and _decode(line, f"line {number} of {path}").update <= update:
                out.write(line)
            else:
                dropped += 1
    _sync_folder(path.parent)
    return dropped


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines; raises InputError for a missing file and for a line over :data:`MAX_LINE`."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"Expected a readable file at {path}, got: {error}") from error
    with file:
        yield from numbered_lines(file, MAX_LINE, path)


def _decode(line: bytes, where: str) -> Trace:
    try:
        return Trace.from_json(strict_json.loads(line))
    except (ValueError, RecursionError) as error:  # InputError is a ValueError
        raise InputError(f"Expected {where} to be a trace, got: {error}") from error


def _torn_bytes(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` durable; where folders cannot be opened (Windows) the system sees to it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
