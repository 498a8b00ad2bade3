"""Values that an environment hands out: kept apart from it, compared exactly, hashed and put into words.

Text is the common case and the fast path; arrays, numbers and nested containers work too, so that the wrappers can
also sit on environments whose observations are not text.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pickle
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

import numpy as np
from gymnasium.utils.env_checker import data_equivalence

from triage_gym.errors import InputError

_ATOMS: Final = (str, int, float, bool, bytes, complex, type(None), np.generic)


def independent(value: Any) -> Any:
    """``value``, or a deep copy of it when someone could still write to it."""
    if isinstance(value, _ATOMS):
        return value
    # Lists of words and flat mappings are the common case, which deepcopy takes ten times as long for.
    kind = type(value)
    if kind is list and all(type(item) is str for item in value):
        return value[:]
    if kind is dict and all(isinstance(item, _ATOMS) for item in value.values()):
        return dict(value)
    return deepcopy(value)


class Kept:
    """A state that is put aside: what is taken from it is new each time, and nobody can write to it.

    It is held as pickled bytes, which never leave this process, since those are copied several times as fast as the
    objects; what cannot be pickled is copied.
    """

    __slots__ = ("_bytes", "_copy")

    def __init__(self, value: Any) -> None:
        self._bytes: bytes | None = None
        self._copy: Any = None
        try:
            self._bytes = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        except Exception:  # noqa: BLE001 - whatever an object raises when it is pickled, it may still be copied
            self._copy = deepcopy(value)

    def value(self) -> Any:
        """The state, new."""
        return deepcopy(self._copy) if self._bytes is None else pickle.loads(self._bytes)  # noqa: S301 - written above

    def same_as(self, other: Any) -> bool:
        """Whether ``other`` is the same state."""
        if self._bytes is not None:
            try:
                if pickle.dumps(other, pickle.HIGHEST_PROTOCOL) == self._bytes:
                    return True
            except Exception:  # noqa: BLE001 - see above
                return False
        # Equal states may differ in their bytes, by the order of keys for instance.
        return same_state(other, self.value())


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal in type, shape, dtype and every element."""
    if isinstance(a, str):
        return isinstance(b, str) and a == b
    return bool(data_equivalence(a, b, exact=True))


def same_state(a: Any, b: Any) -> bool:
    """Whether two states of an environment are equal; fast for JSON-able ones, which they should be."""
    try:
        return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
    except (TypeError, ValueError):
        return same(a, b)


def text_of(value: Any) -> str:
    """``value`` in words: text as it is, anything else as JSON with sorted keys.

    Raises:
        InputError: For an object that has no JSON form.
    """
    if isinstance(value, str):
        return value
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise InputError(
        f"Expected text, numbers, arrays or containers of them, got {type(value).__name__}; "
        "put a wrapper below that turns it into one of them"
    )


def fingerprint(observation: Any, state: Any = None) -> str:
    """Hash of an observation and, where the environment offers one, of its state.

    Returns:
        32 hexadecimal digits, the same in every process.
    """
    document = json.dumps([_plain(observation), _plain(state)], sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(document.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
