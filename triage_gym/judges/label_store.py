"""Labels in an SQLite file, by key: the storage of :mod:`triage_gym.judges.cache`.

Write-ahead log, one transaction a call, so that a killed process leaves whole entries or none. Every value carries a CRC and
is read as strictly as a record; what does not pass is a miss. Nothing raised by the file while it is used reaches the
caller: it is counted, and the caller goes on without. Files are closed before a fork and open again on both sides of it:
SQLite takes what a child inherits for locks that it holds, and the parent would delete the log that the child writes to.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from triage_gym import strict_json
from triage_gym.errors import InputError
from triage_gym.records import RoleLabel

FORMAT: Final = 1
"""``user_version`` of the file."""
WAIT_S: Final = 30.0
"""How long another process may hold the file."""
_CHUNK: Final = 500
"""Keys a query; SQLite takes 999 at least."""
_TABLE: Final = "CREATE TABLE IF NOT EXISTS labels (key BLOB PRIMARY KEY, label TEXT, crc INTEGER) WITHOUT ROWID"
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_stores: Final[weakref.WeakSet[LabelStore]] = weakref.WeakSet()
_held: Final[dict[int, list[LabelStore]]] = {}
"""By thread that is forking, what it holds meanwhile."""


class LabelStore:
    """A file of labels that threads and processes share.

    Args:
        path: The file.
        write: Whether it may be made and added to.
        note: Called with ``"corrupt"`` for every entry that does not read, and with ``"cache_errors"`` whenever the file
            itself fails.

    Raises:
        InputError: For a file that is something else, cannot be opened, or is to be read and not there.
    """

    def __init__(self, path: str, write: bool, note: Callable[[str], None]) -> None:
        self._path, self._write, self._note = path, write, note
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        if write:
            self._make_folder()
        elif not Path(path).is_file():
            raise InputError(
                f'Expected a cache of labels at {path!r} to read, got no such file; let mode="readwrite" make it'
            )
        try:
            self._check(self._open())
        except sqlite3.Error as error:
            self.close()
            raise InputError(
                f"Expected a cache of labels at {path!r}, got {type(error).__name__}: {error}; delete the file or name another"
            ) from error
        _stores.add(self)

    def close(self) -> None:
        """Close the file; it opens again when it is used."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def hold(self) -> None:
        """Close the file and let no thread open it before :meth:`release`."""
        self._lock.acquire()
        self.close()

    def release(self) -> None:
        """Let it be used again."""
        self._lock.release()

    def read(self, keys: Sequence[bytes]) -> dict[bytes, RoleLabel]:
        """The labels that are there and sound."""
        found: dict[bytes, RoleLabel] = {}
        try:
            with self._lock:
                rows = [
                    row
                    for start in range(0, len(keys), _CHUNK)
                    for row in self._rows(self._open(), keys[start : start + _CHUNK])
                ]
        except sqlite3.Error:
            self._note("cache_errors")
            return found
        wanted = set(keys)
        for key, text, crc in rows:
            label = _decoded(text, crc)
            # A damaged file can answer with another key than it was asked for.
            if label is None or key not in wanted:
                self._note("corrupt")
            else:
                found[key] = label
        return found

    def write(self, labels: Mapping[bytes, RoleLabel]) -> None:
        """Keep ``labels``, all of them or, when the file fails, none."""
        if not labels:
            return
        rows = [(key, *_encoded(label)) for key, label in labels.items()]
        with self._lock:
            try:
                connection = self._open()
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("INSERT OR REPLACE INTO labels VALUES (?, ?, ?)", rows)
                connection.execute("COMMIT")
            except sqlite3.Error:
                self._note("cache_errors")
                if self._connection is not None and self._connection.in_transaction:
                    self._connection.rollback()

    @staticmethod
    def _rows(connection: sqlite3.Connection, keys: Sequence[bytes]) -> list[tuple[bytes, object, object]]:
        marks = ",".join("?" * len(keys))
        # As bytes: one text that is no UTF-8 would end the query for all others.
        query = f"SELECT key, CAST(label AS BLOB), crc FROM labels WHERE key IN ({marks})"
        return connection.execute(query, keys).fetchall()

    def _make_folder(self) -> None:
        folder = Path(self._path).parent
        try:
            if not folder.is_dir():
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self._path, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)):
                pass
        except (OSError, ValueError) as error:
            raise InputError(
                f"Expected to write a cache of labels at {self._path!r}, got {error}; name another `path`"
            ) from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        folder = Path(self._path).parent
        # Without a right to write in the folder there is no log to share, and nobody who could write one.
        still = "" if self._write or os.access(folder, os.W_OK) else "&immutable=1"
        uri = f"{Path(self._path).as_uri()}?mode={'rw' if self._write else 'ro'}{still}"
        connection = sqlite3.connect(uri, timeout=WAIT_S, isolation_level=None, check_same_thread=False, uri=True)
        try:
            if self._write:
                self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    @staticmethod
    def _prepare(connection: sqlite3.Connection) -> None:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                # Does not wait by itself while another process does the same.
                connection.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        # A process that dies loses nothing; a machine that does may lose the last labels, and tears none.
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
            if empty:
                connection.execute(_TABLE)
                connection.execute(f"PRAGMA user_version={FORMAT}")
        finally:
            connection.execute("COMMIT")

    def _check(self, connection: sqlite3.Connection) -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        columns = [row[1] for row in connection.execute("PRAGMA table_info(labels)")]
        if version != FORMAT or columns != ["key", "label", "crc"]:
            self.close()
            raise InputError(
                f"Expected a cache of labels of version {FORMAT} at {self._path!r}, got another database; name another `path`"
            )


def _encoded(label: RoleLabel) -> tuple[str, int]:
    """A label without its step, and the CRC of the text."""
    data = label.to_json()
    del data["step"]
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return text, zlib.crc32(text.encode("ascii"))


def _decoded(text: object, crc: object) -> RoleLabel | None:
    """The label that was kept, with step 0; None when the entry is not as it was written."""
    if not isinstance(text, bytes) or zlib.crc32(text) != crc:
        return None
    try:
        return RoleLabel.from_json({**strict_json.loads(text), "step": 0})
    except (ValueError, TypeError, RecursionError):
        return None


def _before_fork() -> None:
    # In the same order by all threads, so that no two wait for each other.
    stores = sorted(_stores, key=id)
    for store in stores:
        store.hold()
    _held[threading.get_ident()] = stores


def _after_fork() -> None:
    for store in _held.pop(threading.get_ident(), []):
        store.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
