"""The data files of the installed alfworld wheel, read without importing alfworld.

``import alfworld`` creates ``~/.cache/alfworld`` and sets ``ALFWORLD_DATA``; nothing here does either, and nothing here
needs textworld. Promises: what is returned is what the wheel holds, read once a process. Leaves to you: an installed
wheel (:class:`~triage_gym.errors.MissingDependency` says how).
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from triage_gym.errors import InputError, MissingDependency

INSTALL_HINT: Final = (
    "install its data files with `pip install --no-deps alfworld==0.4.2` (all that the default engine needs), "
    "or the real engine too with `pip install 'triage-gym[alfworld]'`"
)


def _places() -> Iterator[Path]:
    """Where the package may be: its installed files first, which no script called ``alfworld.py`` can hide."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        yield Path(str(importlib.metadata.distribution("alfworld").locate_file("alfworld")))
    spec = importlib.util.find_spec("alfworld")
    if spec is not None and spec.submodule_search_locations is not None:
        yield from map(Path, spec.submodule_search_locations)


@lru_cache(maxsize=1)
def root() -> Path:
    """Folder of the installed ``alfworld`` package.

    Raises:
        MissingDependency: If the wheel is not installed.
    """
    for place in _places():
        if (place / "data" / "alfred.pddl").is_file():
            return place
    raise MissingDependency(f"Expected the alfworld wheel to be installed, found none; {INSTALL_HINT}")


def _text(*parts: str) -> str:
    path = root().joinpath(*parts)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise MissingDependency(
            f"Expected the alfworld wheel to hold {'/'.join(parts)}, found none; {INSTALL_HINT}"
        ) from error


@lru_cache(maxsize=1)
def domain() -> str:
    """The PDDL domain, ``data/alfred.pddl``."""
    return _text("data", "alfred.pddl")


@lru_cache(maxsize=1)
def grammar() -> str:
    """The text grammar, ``data/alfred.twl2``; its task line says ``UNKNOWN GOAL``."""
    return _text("data", "alfred.twl2")


def _execute(name: str) -> ModuleType:
    """Run ``gen/<name>.py`` by its location: neither ``alfworld`` nor the file is entered in ``sys.modules``."""
    path = root() / "gen" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"_triage_gym_alfworld_{name}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise MissingDependency(f"Expected the alfworld wheel to hold gen/{name}.py, found none; {INSTALL_HINT}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@lru_cache(maxsize=1)
def constants() -> ModuleType:
    """``gen/constants.py``: VAL_RECEPTACLE_OBJECTS, GOALS_VALID, TRAIN_SCENE_NUMBERS, SCENE_TYPE and more."""
    return _execute("constants")


@lru_cache(maxsize=1)
def goal_library() -> Mapping[str, Mapping[str, Any]]:
    """``gdict`` of ``gen/goal_library.py``: task type to ``{"pddl": str, "templates": [str, …]}``."""
    library: Mapping[str, Mapping[str, Any]] = _execute("goal_library").gdict
    return library


@dataclass(frozen=True, slots=True)
class FloorPlan:
    """One of ALFRED's 120 rooms, as the wheel's ``gen/layouts`` hold it."""

    number: int
    """1-30 kitchens, 201-230 living rooms, 301-330 bedrooms, 401-430 bathrooms."""
    poses: Mapping[str, tuple[float, float, float, float]]
    """Receptacle id (``Cabinet|+00.68|+00.50|-02.20``) to the pose for it: x, z in metres, rotation, horizon in degrees."""
    object_types: tuple[str, ...]
    """Types of the things in the room, receptacles among them, in the file's order."""
    points: NDArray[np.float64]
    """Points that the agent can reach, x and z in metres, of shape ``(n, 2)``."""


@lru_cache(maxsize=1)
def floor_plans() -> tuple[int, ...]:
    """Numbers of the floor plans in the wheel, ascending."""
    names = (p.name for p in (root() / "gen" / "layouts").glob("FloorPlan*-objects.json"))
    return tuple(sorted(int(n.removeprefix("FloorPlan").removesuffix("-objects.json")) for n in names))


@lru_cache(maxsize=128)
def floor_plan(number: int) -> FloorPlan:
    """Layout of one floor plan.

    Raises:
        InputError: If the wheel has no such floor plan.
        MissingDependency: If the wheel is not installed.
    """
    if number not in floor_plans():
        raise InputError(f"Expected a floor plan in 1-30, 201-230, 301-330 or 401-430, got {number!r}")
    stem = f"FloorPlan{number}"
    poses = json.loads(_text("gen", "layouts", f"{stem}-openable.json"))
    types = json.loads(_text("gen", "layouts", f"{stem}-objects.json"))
    points = np.load(root() / "gen" / "layouts" / f"{stem}-layout.npy", allow_pickle=False).astype(np.float64)
    points.setflags(write=False)
    return FloorPlan(number, {k: (v[0], v[1], v[2], v[3]) for k, v in poses.items()}, tuple(types), points)
