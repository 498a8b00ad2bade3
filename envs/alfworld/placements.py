"""Where things lie in a household: how often each type of object is found in each type of receptacle.

``placements.json`` holds counts from 36 of ALFWorld's published initial states (json_2.1.1; 24 valid_seen and
12 valid_unseen, four and two a task type), made by :func:`count_placements`. Each entry is ``[placed, chances]``:
``chances`` is the number of instances of the object in households that have the receptacle type and whose rules let
it hold the object, ``placed`` is how many of them lay there. Dividing the one by the other keeps a rare receptacle
(a safe) from looking unlikely only because few households have one.

The 36 states hold no bathroom, so pairs without a count fall back on the pooled rate of the receptacle type, and
receptacle types without any count on :data:`UNSEEN_RATES`, which are ours: a hanger nearly always holds what it is
made for, a toilet tank and a bath rim hold little. The counts shape how likely a household is, never what is legal:
that stays with ALFRED's own table of what fits where.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Final

Counts = Mapping[str, Mapping[str, tuple[int, int]]]

UNSEEN_RATES: Final[Mapping[str, float]] = {
    "BathtubBasin": 0.10,
    "Cart": 0.20,
    "HandTowelHolder": 0.60,
    "LaundryHamper": 0.15,
    "Toaster": 0.05,
    "Toilet": 0.25,
    "ToiletPaperHanger": 0.40,
    "TowelHolder": 0.80,
}
"""Share of the instances that a receptacle type takes where no count says it."""
DEFAULT_RATE: Final = 0.15
PSEUDO_CHANCES: Final = 4.0
"""How many imagined instances at the pooled rate are mixed into each count."""


def count_placements(
    states: Iterable[tuple[Mapping[str, str], Mapping[str, str], Iterable[tuple[str, str]]]],
    allowed: Mapping[str, Iterable[str]],
) -> dict[str, dict[str, list[int]]]:
    """Count where objects lie.

    Args:
        states: One triple a household: type of each receptacle id, type of each object id, and the pairs
            (object id, receptacle id) of what lies where.
        allowed: Receptacle type to the object types that it may hold.

    Returns:
        ``{object type: {receptacle type: [placed, chances]}}``, sorted by name.
    """
    legal = {(o, r) for r, objects in allowed.items() for o in objects}
    counts: dict[str, dict[str, list[int]]] = {}
    for receptacles, objects, pairs in states:
        present = sorted(set(receptacles.values()))
        for kind in objects.values():
            for r in present:
                if (kind, r) in legal:
                    counts.setdefault(kind, {}).setdefault(r, [0, 0])[1] += 1
        for o, r in pairs:
            if (objects.get(o, ""), receptacles[r]) in legal:
                counts[objects[o]][receptacles[r]][0] += 1
    return {o: dict(sorted(by.items())) for o, by in sorted(counts.items())}


@cache
def load_counts() -> Counts:
    """The counts that ship with the package."""
    text = (files(__package__) / "placements.json").read_text(encoding="utf-8")
    return {o: {r: (n, m) for r, (n, m) in by.items()} for o, by in json.loads(text)["counts"].items()}


@cache
def pooled_rate(receptacle: str) -> float:
    """Share of all instances that could lie in receptacle type ``receptacle`` and did."""
    pairs = [by[receptacle] for by in load_counts().values() if receptacle in by]
    chances = sum(m for _, m in pairs)
    if not chances:
        return UNSEEN_RATES.get(receptacle, DEFAULT_RATE)
    return sum(n for n, _ in pairs) / chances


@cache
def rate(kind: str, receptacle: str) -> float:
    """Chance, in (0, 1), that an object of type ``kind`` lies in type ``receptacle`` where the household has one."""
    placed, chances = load_counts().get(kind, {}).get(receptacle, (0, 0))
    base = max(pooled_rate(receptacle), 0.01)
    # A pan that lies across two burners was counted on both.
    return min((placed + PSEUDO_CHANCES * base) / (chances + PSEUDO_CHANCES), 0.99)
