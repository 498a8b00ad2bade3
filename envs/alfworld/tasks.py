"""Which tasks a floor plan allows: the object and receptacle types that each of ALFRED's six task types can take there.

A task is offered only if it is solvable by construction: the object type is in the household, the target receptacle
type may hold it, at least one *other* receptacle type may hold it too (so that it does not start at its goal), and what
the treatment needs (sink basin, microwave, fridge) or the lamp is there. An appliance is never the target of its own
treatment.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from triage_gym.envs.alfworld import layouts, wheel
from triage_gym.envs.alfworld.games import TASK_TYPES
from triage_gym.errors import InputError

TREATMENTS: Final = {
    "pick_clean_then_place_in_recep": ("Cleanable", "SinkBasin"),
    "pick_heat_then_place_in_recep": ("Heatable", "Microwave"),
    "pick_cool_then_place_in_recep": ("Coolable", "Fridge"),
}
"""Task type to what the object must be, and the receptacle type that does it."""
LAMP: Final = "DeskLamp"
"""The only lamp that stands in a receptacle, so the only one that the rules let the agent use."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task in one household, in ALFRED's type names."""

    task_type: str
    object: str
    receptacle: str = ""
    """Type that the object must end in; empty for look_at_obj_in_light."""
    lamp: str = ""
    """Type of the lamp; empty for the others."""


def check_task_type(task_type: str) -> str:
    """``task_type`` itself; raises InputError when it is none of :data:`~triage_gym.envs.alfworld.games.TASK_TYPES`."""
    if task_type not in TASK_TYPES:
        raise InputError(f"Expected a task type of {TASK_TYPES}, got {task_type!r}")
    return task_type


@cache
def feasible(task_type: str, number: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What can be asked for in floor plan ``number``.

    Returns:
        Pairs of object type and its possible target receptacle types (``("",)`` for look_at_obj_in_light), sorted.
        Empty when the floor plan does not allow ``task_type``.
    """
    check_task_type(task_type)
    plan = layouts.layout(number)
    if plan.room not in wheel.constants().GOALS_VALID[task_type]:
        return ()
    objects = [o for o in plan.objects if o in layouts.pickupable_kinds()]
    if task_type == "look_at_obj_in_light":
        lamp_fits = LAMP in plan.objects and not set(layouts.FIXTURES[LAMP]).isdisjoint(plan.kinds)
        return tuple((o, ("",)) for o in objects if _homes(o, plan.kinds)) if lamp_fits else ()
    appliance = ""
    if task_type in TREATMENTS:
        treatable, appliance = TREATMENTS[task_type]
        if appliance not in plan.kinds:
            return ()
        objects = [o for o in objects if o in layouts.actionable(treatable)]
    found = []
    for o in objects:
        homes = _homes(o, plan.kinds)
        targets = tuple(r for r in homes if r != appliance)
        if len(homes) > 1 and targets:
            found.append((o, targets))
    return tuple(found)


def _homes(kind: str, receptacles: tuple[str, ...]) -> list[str]:
    """The types among ``receptacles`` that may hold an object of type ``kind``."""
    return [r for r in receptacles if kind in layouts.holds().get(r, ())]


@cache
def floor_plans(task_type: str, split: str) -> tuple[int, ...]:
    """Floor plans of ``split`` that allow ``task_type``, ascending."""
    return tuple(n for n in layouts.floor_plan_numbers(split) if feasible(task_type, n))
