"""The state of the fast engine in two other forms: JSON-able data that goes out and in, and names to read.

Promises: what :func:`pack` made, :func:`unpack` restores exactly, in the same process or another; what it did not make
is a :class:`~triage_gym.errors.StateError` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import and_, ne
from typing import TYPE_CHECKING, Any, Final

from triage_gym.envs.alfworld.world import bits
from triage_gym.errors import StateError

if TYPE_CHECKING:
    from triage_gym.envs.alfworld.engine import FastEngine

STATE_VERSION: Final = 1

_FLAGS: Final = ("hot", "cool", "clean", "toggled", "sliced")


@dataclass(frozen=True, slots=True)
class View:
    """The whole state in names (``cup 2``), for experts and tests; a copy that no engine changes."""

    location: str
    """Name of the agent's location (``loc 12``)."""
    facing: tuple[str, ...]
    """Receptacles at the agent's location."""
    held: str | None
    contents: dict[str, tuple[str, ...]]
    """Receptacle to the objects in it; one object may be in two (a sink and its basin)."""
    locations: dict[str, str]
    """Receptacle to its location."""
    openable: tuple[str, ...]
    opened: tuple[str, ...]
    hot: tuple[str, ...]
    cool: tuple[str, ...]
    clean: tuple[str, ...]
    toggled: tuple[str, ...]
    sliced: tuple[str, ...]
    won: bool


def view(engine: FastEngine) -> View:
    """The state of ``engine`` in names."""
    world = engine.world
    rooms, objects = world.receptacles, world.objects
    flags = {flag: tuple(objects[o] for o in bits(getattr(engine, flag))) for flag in _FLAGS}
    return View(
        location=world.locations[engine.location],
        facing=tuple(rooms[r] for r in world.receptacles_at[engine.location]),
        held=objects[engine.held] if engine.held >= 0 else None,
        contents={rooms[r]: tuple(objects[o] for o in bits(mask)) for r, mask in enumerate(engine.contents)},
        locations={rooms[r]: world.locations[x] for r, x in enumerate(world.location_of) if x >= 0},
        openable=tuple(rooms[r] for r in bits(world.openable)),
        opened=tuple(rooms[r] for r in bits(engine.opened)),
        won=engine.won,
        **flags,
    )


def pack(engine: FastEngine) -> dict[str, Any]:
    """The state of ``engine`` as JSON-able data; see ``FastEngine.get_state``."""
    start = engine.world.start
    return {
        "version": STATE_VERSION,
        "game": engine.world.fingerprint,
        "location": engine.location,
        "held": engine.held,
        "opened": _numbers(engine.opened),
        "hot": _numbers(engine.hot),
        "cool": _numbers(engine.cool),
        "clean": _numbers(engine.clean),
        "toggled": _numbers(engine.toggled),
        "sliced": _numbers(engine.sliced),
        "contents": _difference(engine.contents, start.contents),
        "floor": _difference(engine.floor, start.floor),
        "removed": [[r, _numbers(engine.removed[r])] for r in compress(range(len(engine.removed)), engine.removed)],
    }


def unpack(state: Mapping[str, Any], engine: FastEngine) -> None:
    """Put ``engine`` into ``state``, all but what follows from it (``won``); see ``FastEngine.set_state``."""
    world = engine.world
    if not isinstance(state, Mapping) or state.get("version") != STATE_VERSION:
        raise StateError(f"Expected a state of version {STATE_VERSION} from get_state, got {str(state)[:80]}")
    if state.get("game") != world.fingerprint:
        raise StateError(
            f"Expected a state of the game {world.fingerprint}, got one of {state.get('game')!r}; "
            "make an engine for that game"
        )
    objects, receptacles = len(world.objects), len(world.receptacles)
    location = _number(state, "location", 0, len(world.locations))
    held = _number(state, "held", -1, objects)
    opened = _mask(state.get("opened"), receptacles, "opened")
    flags = [_mask(state.get(flag), objects, flag) for flag in _FLAGS]
    contents = _masks(state.get("contents"), world.start.contents, objects, "contents")
    floor = _masks(state.get("floor"), world.start.floor, objects, "floor")
    removed = _masks(state.get("removed"), (0,) * receptacles, objects, "removed")
    if opened & ~(world.openable | world.start.opened) or any(map(and_, contents, removed)):
        raise StateError("Expected a state that this game can be in, got contradictions in it")
    engine.location, engine.held, engine.opened = location, held, opened
    engine.hot, engine.cool, engine.clean, engine.toggled, engine.sliced = flags
    engine.contents, engine.floor, engine.removed = contents, floor, removed


def _numbers(mask: int) -> list[int]:
    """``list(bits(mask))``, in half the time: states are taken at every step."""
    numbers: list[int] = []
    while mask:
        low = mask & -mask
        numbers.append(low.bit_length() - 1)
        mask ^= low
    return numbers


def _difference(masks: Sequence[int], start: Sequence[int]) -> list[list[Any]]:
    return [[i, _numbers(masks[i])] for i in compress(range(len(masks)), map(ne, masks, start))]


def _number(state: Mapping[str, Any], key: str, low: int, high: int) -> int:
    value = state.get(key)
    if type(value) is not int or not low <= value < high:
        raise StateError(f"Expected {key} of the state in [{low}, {high}), got {value!r}")
    return value


def _mask(numbers: Any, count: int, where: str) -> int:
    if not isinstance(numbers, list):
        raise StateError(f"Expected a list of numbers as {where} of the state, got {numbers!r}")
    mask = 0
    for i in numbers:
        if type(i) is not int or not 0 <= i < count:
            raise StateError(f"Expected numbers in [0, {count}) as {where} of the state, got {i!r}")
        mask |= 1 << i
    return mask


def _masks(changes: Any, start: Sequence[int], count: int, where: str) -> list[int]:
    """``start`` with the changed masks put in."""
    masks = list(start)
    if not isinstance(changes, list):
        raise StateError(f"Expected a list as {where} of the state, got {changes!r}")
    for change in changes:
        if not isinstance(change, list) or len(change) != 2:
            raise StateError(f"Expected pairs [number, numbers] as {where} of the state, got {change!r}")
        i = change[0]
        if type(i) is not int or not 0 <= i < len(masks):
            raise StateError(f"Expected numbers in [0, {len(masks)}) in {where} of the state, got {i!r}")
        masks[i] = _mask(change[1], count, where)
    return masks
