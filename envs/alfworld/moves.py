"""What each ALFWorld action does to a state, and what it answers.

Every function changes a :class:`~triage_gym.envs.alfworld.engine.FastEngine` as the action's PDDL effect says and
returns the grammar's answer; whether the action is admissible was decided before. Numbers stand for objects and
receptacles (see :mod:`~triage_gym.envs.alfworld.world`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from triage_gym.envs.alfworld.world import bits

if TYPE_CHECKING:
    from triage_gym.envs.alfworld.engine import FastEngine


def look(engine: FastEngine, _: int, __: int) -> str:
    """Look around."""
    world = engine.world
    here = world.receptacles_at[engine.location]
    around = engine.floor[engine.location]
    loose = 0
    for r in here:
        loose |= engine.removed[r]
    names = [world.objects[o] for o in bits(around & loose) for r in here if engine.removed[r] >> o & 1]
    return world.words.look(here, names)


def inventory(engine: FastEngine, _: int, __: int) -> str:
    """Say what is in hand."""
    words = engine.world.words
    if engine.held < 0:
        return words.say("inventory", 1)
    return words.say("inventory", 0, held=words.list_objects(1 << engine.held))


def show_help(engine: FastEngine, _: int, __: int) -> str:
    """The grammar's list of commands."""
    return engine.world.words.say("help")


def examine_receptacle(engine: FastEngine, r: int, _: int) -> str:
    """Look at receptacle ``r``."""
    return engine.see(r)


def examine_object(engine: FastEngine, o: int, _: int) -> str:
    """Look at the object ``o`` in hand."""
    words = engine.world.words
    hot, cool, clean = engine.hot >> o & 1, engine.cool >> o & 1, engine.clean >> o & 1
    sliced = engine.sliced >> o & 1
    toggled = engine.world.toggleable & engine.toggled
    sliceable = engine.world.sliceable >> o & 1
    cases = (
        (clean and hot and sliced, 1),
        (clean and cool and sliced, 2),
        (clean and sliced, 3),
        (hot and sliced, 4),
        (cool and sliced, 5),
        (clean and hot, 6),
        (clean and cool, 7),
        (hot, 8),
        (clean, 9),
        (cool, 10),
        (toggled >> o & 1, 11),
        # Case 12, "is off", asks for a fact that no action ever makes.
        (sliceable and sliced, 13),
        (True, 14),
    )
    contained = words.container(o)
    if contained is not None:
        return contained
    return words.say("examineobject", next(case for holds, case in cases if holds), o=engine.world.objects[o])


def open_receptacle(engine: FastEngine, r: int, _: int) -> str:
    """Open receptacle ``r``."""
    engine.opened |= 1 << r
    engine.changed(engine.world.goal.uses_opened)
    return engine.world.words.say("openobject", r=engine.world.receptacles[r], view=engine.see(r))


def close_receptacle(engine: FastEngine, r: int, _: int) -> str:
    """Close receptacle ``r``."""
    engine.opened &= ~(1 << r)
    engine.changed(engine.world.goal.uses_opened)
    return engine.world.words.say("closeobject", r=engine.world.receptacles[r])


def take(engine: FastEngine, o: int, r: int) -> str:
    """Take object ``o`` from receptacle ``r``."""
    bit = 1 << o
    engine.contents[r] &= ~bit
    engine.removed[r] |= bit
    engine.floor[engine.location] &= ~bit
    engine.held = o
    return _done(engine, "pickupobject", o, r)


def put(engine: FastEngine, o: int, r: int) -> str:
    """Put the object ``o`` in hand at receptacle ``r``."""
    bit = 1 << o
    engine.contents[r] |= bit
    engine.removed[r] &= ~bit
    engine.floor[engine.location] |= bit
    engine.held = -1
    return _done(engine, "putobject", o, r)


def clean(engine: FastEngine, o: int, r: int) -> str:
    """Clean the object ``o`` in hand at receptacle ``r``."""
    engine.clean |= 1 << o
    return _done(engine, "cleanobject", o, r)


def heat(engine: FastEngine, o: int, r: int) -> str:
    """Heat the object ``o`` in hand at receptacle ``r``."""
    engine.hot |= 1 << o
    engine.cool &= ~(1 << o)
    return _done(engine, "heatobject", o, r)


def cool(engine: FastEngine, o: int, r: int) -> str:
    """Cool the object ``o`` in hand at receptacle ``r``."""
    engine.cool |= 1 << o
    engine.hot &= ~(1 << o)
    return _done(engine, "coolobject", o, r)


def toggle(engine: FastEngine, o: int, _: int) -> str:
    """Turn object ``o`` on."""
    engine.toggled |= 1 << o
    engine.changed()
    return engine.world.words.say("toggleobject", o=engine.world.objects[o])


def slice_object(engine: FastEngine, o: int, knife: int) -> str:
    """Slice object ``o`` with the ``knife`` in hand."""
    engine.sliced |= 1 << o
    engine.changed()
    return engine.world.words.say("sliceobject", o=engine.world.objects[o], k=engine.world.objects[knife])


def _done(engine: FastEngine, action: str, o: int, r: int) -> str:
    engine.changed()
    world = engine.world
    return world.words.say(action, o=world.objects[o], r=world.receptacles[r])
