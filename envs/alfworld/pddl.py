"""A furnished household as alfworld's own files: the PDDL problem and ALFRED's ``traj_data.json``.

The problem has the sections and predicates of ALFWorld's published ``initial_state.pddl`` files, in sorted order, so
that equal households are equal byte for byte.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from triage_gym.envs.alfworld import layouts, wheel
from triage_gym.envs.alfworld.households import Household
from triage_gym.envs.alfworld.tasks import Task

_AGENT: Final = "agent1"
_ESCAPES: Final = (("-", "_minus_"), ("|", "_bar_"), ("+", "_plus_"), (".", "_dot_"))
_ABILITIES: Final = (
    ("cleanable", "Cleanable"),
    ("heatable", "Heatable"),
    ("coolable", "Coolable"),
    ("toggleable", "Toggleable"),
    ("sliceable", "Sliceable"),
)


def symbol(name: str) -> str:
    """An ALFRED id or location as a PDDL symbol: ``Cup|-00.92`` is ``Cup_bar__minus_00_dot_92``."""
    for character, word in _ESCAPES:
        name = name.replace(character, word)
    return name


def problem(household: Household, name: str) -> str:
    """The PDDL problem of ``household``, named ``plan_<name>``."""
    lines = [f"(define (problem plan_{name})", "(:domain alfred)", "(:objects"]
    lines += _declarations(household)
    lines += [")", "(:init"]
    lines += _facts(household)
    lines += [")", goal(household.task)]
    return "\n".join(lines) + "\n"


def goal(task: Task) -> str:
    """The goal section of ``task``, from ALFRED's goal library, with the parenthesis that closes the problem."""
    template = wheel.goal_library()[task.task_type]["pddl"]
    filled = template.format(obj=task.object, recep=task.receptacle, toggle=task.lamp, mrecep="")
    return "\n".join(line.rstrip() for line in filled.replace("#", "-").splitlines() if line.strip())


def sentences(task: Task) -> tuple[str, ...]:
    """The ways in which ALFRED's goal library says ``task``."""
    names = {"obj": task.object, "recep": task.receptacle, "toggle": task.lamp, "mrecep": ""}
    lower = {key: value.lower() for key, value in names.items()}
    return tuple(t.format(**lower) for t in wheel.goal_library()[task.task_type]["templates"])


def grammar(sentence: str) -> str:
    """The wheel's grammar with ``sentence`` as the task."""
    return wheel.grammar().replace("UNKNOWN GOAL", sentence)


@cache
def _types() -> tuple[str, ...]:
    """Declarations of every type, used or not: the domain's actions name some of them."""
    return (
        *(f"{kind}Type - rtype" for kind in layouts.receptacle_kinds()),
        *(f"{kind}Type - otype" for kind in layouts.object_kinds()),
    )


def _declarations(household: Household) -> list[str]:
    locations = {household.start, *(r.location for r in household.receptacles), *(i.location for i in household.items)}
    return [
        f"{_AGENT} - agent",
        *_types(),
        *sorted(f"{symbol(item.id)} - object" for item in household.items),
        *(f"{symbol(r.id)} - receptacle" for r in household.receptacles),
        *sorted(f"{symbol(location)} - location" for location in locations),
    ]


def _facts(household: Household) -> list[str]:
    receptacles, items = household.receptacles, sorted(household.items, key=lambda item: item.id)
    ids = {item.id: symbol(item.id) for item in items} | {r.id: symbol(r.id) for r in receptacles}
    facts = [f"(receptacleType {ids[r.id]} {r.kind}Type)" for r in receptacles]
    facts += [f"(objectType {ids[i.id]} {i.kind}Type)" for i in items]
    facts += _rules(tuple(sorted({r.kind for r in receptacles})), {i.kind for i in items})
    pickupable, movable = layouts.pickupable_kinds(), layouts.movable_receptacles()
    facts += [f"(pickupable {ids[i.id]})" for i in items if i.kind in pickupable]
    facts += [f"(isReceptacleObject {ids[i.id]})" for i in items if i.kind in movable]
    facts += [f"(openable {ids[r.id]})" for r in receptacles if r.openable]
    facts.append(f"(atLocation {_AGENT} {symbol(household.start)})")
    for predicate, ability in _ABILITIES:
        able = layouts.actionable(ability)
        facts += [f"({predicate} {ids[i.id]})" for i in items if i.kind in able]
    facts += [f"(inReceptacle {ids[i.id]} {ids[i.receptacle]})" for i in items if i.receptacle]
    facts += [f"(receptacleAtLocation {ids[r.id]} {symbol(r.location)})" for r in receptacles]
    facts += [f"(objectAtLocation {ids[i.id]} {symbol(i.location)})" for i in items]
    return facts


def _rules(receptacles: tuple[str, ...], objects: set[str]) -> list[str]:
    return [
        f"(canContain {r}Type {o}Type)" for r in receptacles for o in _sorted_holds(r) if o in objects
    ]  # fmt: skip


@cache
def _sorted_holds(receptacle: str) -> tuple[str, ...]:
    return tuple(sorted(layouts.holds().get(receptacle, ())))


def trajectory(household: Household, name: str, sentence: str) -> dict[str, Any]:
    """What alfworld's tools read from ``traj_data.json``: the task, its scene and its description in words."""
    task, number = household.task, household.plan.number
    words = {"task_desc": sentence, "high_descs": [], "assignment_id": name, "votes": []}
    return {
        "task_id": name,
        "task_type": task.task_type,
        "pddl_params": {
            "mrecep_target": "",
            "object_sliced": False,
            "object_target": task.object,
            "parent_target": task.receptacle,
            "toggle_target": task.lamp,
        },
        "scene": {
            "floor_plan": f"FloorPlan{number}",
            "scene_num": number,
            "object_poses": [],
            "object_toggles": [],
        },
        "plan": {"high_pddl": [], "low_actions": []},
        "images": [],
        "turk_annotations": {"anns": [words]},
    }
