"""A plug-in that a wrapper was given: by spec, resolved at first use, or as a live object, shared and never copied.

Gymnasium deep-copies a wrapper's arguments into its spec and deep-copies that spec again for every wrapper above. A
spec (name, ``"module:attr"`` path or config dict) survives this, JSON and pickling; what is built from it is dropped on
the way and built again. A live object is carried along by reference: the stack can be made again from its spec in the
same process, but ``spec.to_json()`` raises TypeError, and pickling works only if the object itself can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from triage_gym import registry
from triage_gym.errors import InputError


class Live:
    """Carries an object through deep copies by reference."""

    __slots__ = ("object",)

    def __init__(self, value: Any) -> None:
        self.object = value

    def __deepcopy__(self, memo: dict[int, Any]) -> Live:
        return self

    def __repr__(self) -> str:
        return f"Live({type(self.object).__name__})"


class Plugin:
    """A plug-in by spec or live.

    Args:
        kind: Which registry.
        given: What the user passed to the wrapper.
        is_live: Tells whether an object that is no spec can serve as the plug-in.
        wanted: What a live object must be, in words, for the error.

    Raises:
        InputError: If ``given`` is neither, or its name is not registered.
    """

    def __init__(self, kind: registry.Kind, given: Any, is_live: Callable[[Any], bool], wanted: str) -> None:
        given = given.object if isinstance(given, Live) else given
        self._kind = kind
        self._built: Any = None
        self._live: Live | None = None
        self._spec: str | dict[str, Any] = ""
        if isinstance(given, str | Mapping):
            self._spec = given if isinstance(given, str) else deepcopy(dict(given))
            name = registry.config(kind, self._spec)["name"]
            if ":" not in name:
                registry.factory(kind, name)
        elif not isinstance(given, type) and is_live(given):
            self._live = Live(given)
        else:
            raise InputError(f"Expected a name, a module:attr path, a config dict or {wanted}, got {given!r}")

    @property
    def recorded(self) -> Any:
        """What goes into the wrapper's spec."""
        return self._spec if self._live is None else self._live

    def get(self) -> Any:
        """The plug-in itself, built when it is first asked for."""
        if self._live is not None:
            return self._live.object
        if self._built is None:
            self._built = registry.make(self._kind, self._spec)
        return self._built

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_built": None}
