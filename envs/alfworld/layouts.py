"""The 120 real floor plans as the generator needs them: receptacles with types and poses, object types, points.

Read from the data files of the installed wheel (:mod:`~triage_gym.envs.alfworld.wheel`). A receptacle that the files
name comes with its real id, pose and openability; one whose *type* they list among the objects but which has no pose
there (coffee machine, toaster, stove burners, garbage can, holders) is left to the generator, which puts it at a
reachable point. All of it is constant for a process and cached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

from triage_gym.envs.alfworld import wheel
from triage_gym.envs.alfworld.games import SPLITS
from triage_gym.errors import InputError

GRID: Final = 0.25
"""Distance between reachable points, in metres; locations are named in multiples of it."""
FIXTURES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "DeskLamp": ("Desk", "Dresser", "Shelf", "SideTable"),
        "HousePlant": ("CounterTop", "Desk", "DiningTable", "Shelf", "SideTable"),
        "Television": ("Dresser", "TVStand"),
    }
)
"""Objects that stand in receptacles but are never picked up, and the receptacle types that hold them."""


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A place that holds objects."""

    id: str
    """ALFRED's id, such as ``Cabinet|+00.65|+00.48|+00.24``."""
    kind: str
    """Its type, such as ``Cabinet``."""
    position: tuple[float, float, float]
    """x, y, z in metres."""
    location: str
    """Where the agent stands to use it, as ``loc|x|z|rotation|horizon``; several receptacles may share one."""
    openable: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """One household of the simulator, without its movable objects."""

    number: int
    room: str
    """``Kitchen``, ``LivingRoom``, ``Bedroom`` or ``Bathroom``."""
    receptacles: tuple[Receptacle, ...]
    """Those with a known pose, by id."""
    missing: tuple[str, ...]
    """Receptacle types that the household has without a known pose, sorted."""
    objects: tuple[str, ...]
    """Object types (receptacles left out), sorted."""
    points: tuple[tuple[int, int], ...]
    """Reachable points in multiples of :data:`GRID`, in the file's order."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """All receptacle types of the household, sorted."""
        return tuple(sorted({*(r.kind for r in self.receptacles), *self.missing}))


@cache
def holds() -> Mapping[str, frozenset[str]]:
    """Receptacle type to the object types that ALFRED's rules let it hold (fixtures not included)."""
    return MappingProxyType({r: frozenset(objects) for r, objects in wheel.constants().VAL_RECEPTACLE_OBJECTS.items()})


def may_lie(kind: str, receptacle: str) -> bool:
    """Whether an object of type ``kind`` may start in a receptacle of type ``receptacle``, fixtures included."""
    return kind in holds().get(receptacle, ()) or receptacle in FIXTURES.get(kind, ())


@cache
def actionable(action: str) -> frozenset[str]:
    """Object types that ``Heatable``, ``Coolable``, ``Cleanable``, ``Toggleable`` or ``Sliceable`` names."""
    return frozenset(wheel.constants().VAL_ACTION_OBJECTS[action])


@cache
def movable_receptacles() -> frozenset[str]:
    """Object types that are also containers (bowl, box, cup, mug, pan, plate, pot)."""
    return frozenset(wheel.constants().MOVABLE_RECEPTACLES)


@cache
def receptacle_kinds() -> tuple[str, ...]:
    """Every type of fixed receptacle that ALFRED knows, sorted."""
    return tuple(sorted(set(wheel.constants().RECEPTACLES) - movable_receptacles()))


@cache
def object_kinds() -> tuple[str, ...]:
    """Every type of object that ALFRED knows and that is not a fixed receptacle, sorted."""
    return tuple(sorted(set(wheel.constants().OBJECTS) - set(receptacle_kinds())))


@cache
def pickupable_kinds() -> frozenset[str]:
    """Object types that some fixed receptacle may hold, so that a hand that takes one can always be emptied again."""
    found: set[str] = set()
    return frozenset(found.union(*(holds().get(r, frozenset()) for r in receptacle_kinds())))


@cache
def floor_plan_numbers(split: str) -> tuple[int, ...]:
    """Numbers of the floor plans of ``split``: ALFRED's train scenes, or its test scenes for ``valid_unseen``.

    Raises:
        InputError: If ``split`` is not one of :data:`SPLITS`.
    """
    if split not in SPLITS:
        raise InputError(f"Expected split to be one of {SPLITS}, got {split!r}")
    key = "TEST_SCENE_NUMBERS" if split == "valid_unseen" else "TRAIN_SCENE_NUMBERS"
    return tuple(sorted(getattr(wheel.constants(), key)))


@cache
def layout(number: int) -> Layout:
    """Floor plan ``number``, read from the wheel.

    Raises:
        InputError: If ALFRED has no such floor plan.
        MissingDependency: If the alfworld wheel is not installed.
    """
    raw = wheel.floor_plan(number)
    openable = frozenset(wheel.constants().OPENABLE_CLASS_LIST)
    receptacles = tuple(_receptacle(name, raw.poses[name], openable) for name in sorted(raw.poses))
    kinds = {r.kind for r in receptacles}
    objects = tuple(k for k in object_kinds() if k in raw.object_types)
    missing = tuple(k for k in receptacle_kinds() if k in raw.object_types and k not in kinds)
    points = tuple(dict.fromkeys((round(float(x) / GRID), round(float(z) / GRID)) for x, z in raw.points))
    return Layout(number, _room(number), receptacles, missing, objects, points)


def _room(number: int) -> str:
    for room, numbers in wheel.constants().SCENE_TYPE.items():
        if number in numbers:
            return str(room)
    raise InputError(f"Expected a floor plan of 1-30, 201-230, 301-330 or 401-430, got {number!r}")


def _receptacle(name: str, pose: tuple[float, float, float, float], openable: frozenset[str]) -> Receptacle:
    parts = name.split("|")
    kind = parts[4] if len(parts) > 4 else parts[0]
    x, z, rotation, horizon = pose
    location = f"loc|{round(x / GRID)}|{round(z / GRID)}|{round(rotation / 90)}|{round(horizon)}"
    position = (float(parts[1]), float(parts[2]), float(parts[3]))
    return Receptacle(name, kind, position, location, kind in openable)
