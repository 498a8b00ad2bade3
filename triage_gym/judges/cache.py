"""A judge that never asks twice: labels in an SQLite file, by the content of what was asked.

The key is a SHA-256 over the ``identity`` of the judge within, the window and the schema of the cache; the value is the
label as JSON with a CRC. The step is not part of the key (a label comes back with the step of its window), and facts only as
far as the judge within needs them. Promised:

- the same windows again ask nothing and give equal labels, byte for byte;
- only ``judged`` labels are kept, and none that stands in for a failed one (its ``source`` ends with ``:fallback``): an
  outage, a refusal or a doubt is asked again;
- windows that are equal within a call, or asked by two threads at once, are asked once;
- an entry that does not read is a miss, counted as ``corrupt``, and written anew; a file that fails while the judge works is
  counted as ``cache_errors``, and the labels come as without a cache;
- several processes may share a file (not on a network drive), and one that is killed leaves no torn entry.

Left to you: to cache the judges that cost, inside of ensembles, thresholds and checks, which are cheap and may judge from
what is left when one of theirs fails. A judge whose prompt holds several windows labels each in the company it came in; its
identity says how many, and the cache keeps the label of the first company.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, final, get_args

from triage_gym.errors import InputError
from triage_gym.facts import FactName
from triage_gym.judges.label_store import LabelStore
from triage_gym.judges.labelling import failed_labels
from triage_gym.judges.nesting import Nested, Spec, ask
from triage_gym.protocols import Window
from triage_gym.records import RoleLabel
from triage_gym.windows import window_to_json

Mode = Literal["readwrite", "read", "off"]
SCHEMA: Final = 1
"""Of keys and values; another one finds nothing of what was kept."""
VARIABLE: Final = "TRIAGE_GYM_CACHE"
_FIELDS: Final[dict[FactName, tuple[str, ...]]] = {
    "changed": ("changed",),
    "learnt": ("learnt",),
    "distance": ("before", "after"),
}
_flights: Final[dict[tuple[str, bytes], tuple[int, Future[RoleLabel]]]] = {}
"""What is being asked right now in this process, by file and key, each with the thread that asks."""
_boarding = threading.Lock()


def cache_dir() -> Path:
    """The folder for what can be made again: ``$TRIAGE_GYM_CACHE``, else ``triage_gym`` in the user's XDG cache home."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser().absolute()
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "triage_gym"


@final
class CachedJudge(Nested):
    """Labels out of a file where it has them, else of the judge within.

    ``usage`` counts windows as ``asked`` or ``cached``, and ``corrupt`` entries and ``cache_errors``.

    Args:
        of: The judge to ask.
        path: The file; None for ``judge.sqlite`` in :func:`cache_dir`. Its folder is made, for the user alone (0700).
        mode: ``readwrite``; ``read`` to add nothing; ``off`` to ask as if there were no cache.

    Raises:
        InputError: For an unknown mode, a judge without an ``identity``, a file that is no such cache, or one to ``read``
            that is not there.
    """

    name: ClassVar[str] = "cache"

    def __init__(self, of: Spec, path: str | os.PathLike[str] | None = None, mode: Mode = "readwrite") -> None:
        if mode not in get_args(Mode):
            raise InputError(f"Expected `mode` to be one of {get_args(Mode)}, got {mode!r}")
        super().__init__([of], counts=("asked", "cached", "corrupt", "cache_errors"))
        self._mode = mode
        self._path = str(Path(path).expanduser().absolute() if path is not None else cache_dir() / "judge.sqlite")
        self._store: LabelStore | None = None
        if mode != "off":
            _ = self.identity  # a judge that has none is refused here, not at the first label
            self._store = LabelStore(self._path, write=mode == "readwrite", note=self.count)

    @property
    def identity(self) -> Any:
        """That of the judge within: where a label comes from makes no difference to it."""
        return super().identity["of"][0]

    def close(self) -> None:
        """Close the file and the judge within."""
        if self._store is not None:
            self._store.close()
        super().close()

    def labels(self, windows: Sequence[Window], sample: int) -> list[RoleLabel]:
        """One label a window, in order; each sample has entries of its own."""
        if self._store is None:
            self.count("asked", len(windows))
            return ask(self.judges[0], windows, sample)
        keys = self._keys(windows, sample)
        first = dict(reversed(list(zip(keys, windows, strict=True))))
        mine, others = self._board(list(dict.fromkeys(keys)))
        try:
            found = self._store.read(list(mine))
            missing = [key for key in mine if key not in found]
            self.count("asked", len(missing))
            self.count("cached", len(windows) - len(missing))
            answers = ask(self.judges[0], [first[key] for key in missing], sample)
            given = dict(zip(missing, answers, strict=True))
            if self._mode == "readwrite":
                self._store.write({key: label for key, label in given.items() if _lasts(label)})
            for key, label in (found | given).items():
                mine[key].set_result(label)
        finally:
            self._land(mine, first)
        # What others ask is waited for when what is asked here is done, so that nobody waits in a circle.
        answer = {key: flight.result() for key, flight in (mine | others).items()}
        return [replace(answer[key], step=window.step) for key, window in zip(keys, windows, strict=True)]

    def _keys(self, windows: Sequence[Window], sample: int) -> list[bytes]:
        facts = [field for name in super().needs_facts for field in _FIELDS[name]]
        start = hashlib.sha256(_canonical({"schema": SCHEMA, "judge": self.identity, "sample": sample}))
        keys = []
        for window in windows:
            data = window_to_json(window)
            del data["step"]
            known = data.pop("facts") or {}
            data["facts"] = {field: known.get(field) for field in facts}
            content = start.copy()
            content.update(_canonical(data))
            keys.append(content.digest())
        return keys

    def _board(self, keys: Sequence[bytes]) -> tuple[dict[bytes, Future[RoleLabel]], dict[bytes, Future[RoleLabel]]]:
        """What this call has to ask or read, and what another thread is at already."""
        mine: dict[bytes, Future[RoleLabel]] = {}
        others: dict[bytes, Future[RoleLabel]] = {}
        here = threading.get_ident()
        with _boarding:
            for key in keys:
                thread, flight = _flights.get((self._path, key), (here, None))
                if flight is not None and thread != here:
                    others[key] = flight
                else:
                    # What this thread is at already is asked by a cache around this one: to wait for it would be for ever.
                    mine[key] = Future()
                    _flights.setdefault((self._path, key), (here, mine[key]))
        return mine, others

    def _land(self, mine: dict[bytes, Future[RoleLabel]], first: dict[bytes, Window]) -> None:
        """Let go of what was asked here; who waits for an answer that was interrupted gets a failed label."""
        with _boarding:
            for key, flight in mine.items():
                if _flights.get((self._path, key), (0, None))[1] is flight:
                    del _flights[self._path, key]
                if not flight.done():
                    flight.set_result(failed_labels([first[key]], "asking was interrupted", "cache")[0])


def _lasts(label: RoleLabel) -> bool:
    """Whether the judge itself said a role, so that asking again would be asking the same."""
    return label.status == "judged" and not label.source.endswith(":fallback")


def _canonical(data: Any) -> bytes:
    try:
        # Not in escapes, which say the same of a character and of the two surrogates that stand for it.
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        return text.encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"Expected the identity of a judge to be JSON values, got {error}") from error


def _after_fork() -> None:
    """Threads that asked something in the parent are not in its child: nobody would wait for them in vain."""
    global _boarding
    _boarding = threading.Lock()
    _flights.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
