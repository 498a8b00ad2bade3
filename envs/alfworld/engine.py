"""The fast engine: ALFWorld's text game in plain Python, equal byte for byte to the real one.

What it promises: for every game it accepts, the observation, ``won`` and the list of admissible commands equal those of
alfworld's ``PddlEnv`` under ``AlfredDemangler``, its quirks included (the differential tests hold the two against each
other). It needs no compiler, no textworld and no planner. The state goes out and in as JSON-able data in microseconds.
What it leaves to you: budgets, rewards and everything else of an environment
(:mod:`~triage_gym.envs.alfworld.env`); games that it refuses with
:class:`~triage_gym.errors.UnsupportedGame` go to :mod:`~triage_gym.envs.alfworld.textworld_backend`.

Quirks that are ALFWorld's own and kept: ``look`` away from receptacles sees nothing after the first observation; only
the thing in hand can be examined; walking to another receptacle at the same spot does nothing; heating, cooling and
cleaning need no open door; ``use`` only ever turns on; a thing lies "next to" a receptacle only after it was taken from
it and put into another one at the same spot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from triage_gym.envs.alfworld.games import Game
from triage_gym.envs.alfworld.text import NOTHING_HAPPENS
from triage_gym.envs.alfworld.wording import MAX_ENTRIES
from triage_gym.envs.alfworld.world import World, bits, world_of
from triage_gym.errors import StateError

STATE_VERSION: Final = 1

_Action = tuple[Callable[["FastEngine", int, int], str], int, int]
_Entry = tuple[dict[str, _Action], list[str]]
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


class FastEngine:
    """One play of one game.

    Everything constant is in :attr:`world`, shared by all engines of equal games. Experts read the state from the
    attributes below (numbers and bit masks, see :mod:`~triage_gym.envs.alfworld.world`) or from :meth:`view` (names);
    what must become true is in ``world.goal.clauses``. Nobody but the engine writes them.

    Args:
        game: The game; it starts in its first state, as after :meth:`reset`.

    Raises:
        InputError: If the game cannot be read.
        UnsupportedGame: If the engine cannot play it faithfully, or nobody can.
    """

    __slots__ = (
        "_entry",
        "clean",
        "contents",
        "cool",
        "floor",
        "game",
        "held",
        "hot",
        "location",
        "opened",
        "removed",
        "sliced",
        "toggled",
        "won",
        "world",
    )

    game: Game
    world: World
    location: int
    """Where the agent is."""
    held: int
    """Object in hand, or -1."""
    contents: list[int]
    """For each receptacle, the mask of the objects in it."""
    opened: int
    """Mask of the open receptacles."""
    hot: int
    """Mask of the hot objects; ``cool``, ``clean``, ``toggled`` and ``sliced`` likewise."""
    cool: int
    clean: int
    toggled: int
    sliced: int
    floor: list[int]
    """For each location, the mask of the objects that PDDL says are at it."""
    removed: list[int]
    """For each receptacle, the objects that were taken out and not put back; only then can they be "next to" it."""
    won: bool
    """Whether the goal holds now."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.world = world_of(game)
        self._start()

    def _start(self) -> None:
        start = self.world.start
        self.location = start.location
        self.held = start.held
        self.opened = start.opened
        self.hot, self.cool, self.clean = start.hot, start.cool, start.clean
        self.toggled, self.sliced = start.toggled, start.sliced
        self.contents = list(start.contents)
        self.floor = list(start.floor)
        self.removed = [0] * len(start.contents)
        self._entry: _Entry | None = None
        self.won = self.world.goal.reached(self)

    def reset(self) -> str:
        """Go to the game's first state; the text that starts the game."""
        self._start()
        world = self.world
        return world.words.intro(world.receptacles_at[self.location])

    def step(self, command: str) -> str:
        """Do ``command``; the text that answers it, ``Nothing happens.`` when it is not admissible."""
        entry = self._entry or self._commands()
        action = entry[0].get(command)
        if action is not None:
            return action[0](self, action[1], action[2])
        world = self.world
        receptacle = world.words.walks.get(command)
        if receptacle is None or world.location_of[receptacle] == self.location:
            bare = command.strip()
            return NOTHING_HAPPENS if bare == command else self.step(bare)
        self.location = world.location_of[receptacle]
        self._entry = None
        if world.goal.uses_location:
            self.won = world.goal.reached(self)
        return world.words.arrive(receptacle, self._view(receptacle))

    def admissible_commands(self) -> list[str]:
        """Every command that does something now, sorted; the list is yours."""
        return (self._entry or self._commands())[1].copy()

    def close(self) -> None:
        """Nothing to free; here so that every engine can be closed."""

    # Commands ---------------------------------------------------------------------------------------------------------

    def _commands(self) -> _Entry:
        """The commands of the current state but for walking, and the sorted list of all."""
        world, held = self.world, self.held
        here = world.receptacles_at[self.location]
        contents = self.contents
        key: list[int] = [self.location, held, *[contents[r] << 1 | (self.opened >> r & 1) for r in here]]
        if held >= 0 and world.knives >> held & 1:
            key.append(self.floor[self.location] & world.sliceable)
        entries = world.words.entries
        entry: _Entry | None = entries.get(tuple(key))
        if entry is None:
            if len(entries) >= MAX_ENTRIES:
                entries.clear()
            commands = self._build(here)
            entry = entries[tuple(key)] = commands, sorted({*world.words.always(self.location), *commands})
        self._entry = entry
        return entry

    def _build(self, here: Sequence[int]) -> dict[str, _Action]:
        world, held = self.world, self.held
        words = world.words
        say = words.command
        commands: dict[str, _Action] = {}
        for action, do in (("look", _look), ("inventory", _inventory), ("help", _help)):
            if action in words.phrases.commands:
                commands[say(action)] = (do, 0, 0)
        if held >= 0:
            commands[say("examineobject", o=world.objects[held])] = (_examine_object, held, 0)
        for r in here:
            name = world.receptacles[r]
            commands[say("examinereceptacle", r=name)] = (_examine_receptacle, r, 0)
            accessible = True
            if world.openable >> r & 1:
                accessible = bool(self.opened >> r & 1)
                if accessible:
                    commands[say("closeobject", r=name)] = (_close, r, 0)
                else:
                    commands[say("openobject", r=name)] = (_open, r, 0)
            for o in bits(self.contents[r] & world.toggleable):
                commands[say("toggleobject", o=world.objects[o])] = (_toggle, o, 0)
            if held >= 0:
                self._add_treatments(commands, r, accessible)
            elif accessible:
                for o in bits(self.contents[r] & world.pickupable):
                    commands[say("pickupobject", o=world.objects[o], r=name)] = (_take, o, r)
        if held >= 0 and world.knives >> held & 1:
            for o in bits(self.floor[self.location] & world.sliceable):
                commands[say("sliceobject", o=world.objects[o], k=world.objects[held])] = (_slice, o, held)
        return commands

    def _add_treatments(self, commands: dict[str, _Action], r: int, accessible: bool) -> None:
        """What can be done with the thing in hand at receptacle ``r``."""
        world, held = self.world, self.held
        names = {"o": world.objects[held], "r": world.receptacles[r]}
        if accessible and world.accepts[r] >> held & 1:
            commands[world.words.command("putobject", **names)] = (_put, held, r)
        for action, places, able, do in (
            ("cleanobject", world.cleaners, world.cleanable, _clean),
            ("heatobject", world.heaters, world.heatable, _heat),
            ("coolobject", world.coolers, world.coolable, _cool),
        ):
            if places >> r & 1 and able >> held & 1:
                commands[world.words.command(action, **names)] = (do, held, r)

    def _view(self, r: int) -> str:
        openable = bool(self.world.openable >> r & 1)
        closed = openable and not self.opened >> r & 1
        return self.world.words.view(r, closed, openable, self.contents[r])

    def _changed(self) -> None:
        """A fact that the goal may read has changed, and with it the commands."""
        self._entry = None
        self.won = self.world.goal.reached(self)

    # State out and in -------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """The whole state as JSON-able data, independent of the engine.

        Lists of contents hold what differs from the game's start; the game itself goes by its fingerprint.
        """
        start = self.world.start
        return {
            "version": STATE_VERSION,
            "game": self.world.fingerprint,
            "location": self.location,
            "held": self.held,
            "opened": list(bits(self.opened)),
            **{flag: list(bits(getattr(self, flag))) for flag in _FLAGS},
            "contents": _difference(self.contents, start.contents),
            "floor": _difference(self.floor, start.floor),
            "removed": [[r, list(bits(mask))] for r, mask in enumerate(self.removed) if mask],
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go to a state that :meth:`get_state` gave, of this engine or of any other that plays an equal game.

        Raises:
            StateError: If the state is of another game or version, or no state at all; the engine then stays as it is.
        """
        world = self.world
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
        if opened & ~(world.openable | world.start.opened) or any(map(int.__and__, contents, removed)):
            raise StateError("Expected a state that this game can be in, got contradictions in it")
        self.location, self.held, self.opened = location, held, opened
        self.hot, self.cool, self.clean, self.toggled, self.sliced = flags
        self.contents, self.floor, self.removed = contents, floor, removed
        self._changed()

    def view(self) -> View:
        """The whole state in names."""
        world = self.world
        rooms = world.receptacles
        objects = world.objects
        flags = {flag: tuple(objects[o] for o in bits(getattr(self, flag))) for flag in _FLAGS}
        return View(
            location=world.locations[self.location],
            facing=tuple(rooms[r] for r in world.receptacles_at[self.location]),
            held=objects[self.held] if self.held >= 0 else None,
            contents={rooms[r]: tuple(objects[o] for o in bits(mask)) for r, mask in enumerate(self.contents)},
            locations={rooms[r]: world.locations[x] for r, x in enumerate(world.location_of) if x >= 0},
            openable=tuple(rooms[r] for r in bits(world.openable)),
            opened=tuple(rooms[r] for r in bits(self.opened)),
            won=self.won,
            **flags,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> FastEngine:
        return _rebuild(self.game, self.get_state())

    def __reduce__(self) -> tuple[Callable[[Game, dict[str, Any]], FastEngine], tuple[Game, dict[str, Any]]]:
        return _rebuild, (self.game, self.get_state())


def _rebuild(game: Game, state: dict[str, Any]) -> FastEngine:
    engine = FastEngine(game)
    engine.set_state(state)
    return engine


# Actions: each changes the state and returns the answer ---------------------------------------------------------------


def _look(engine: FastEngine, _: int, __: int) -> str:
    world = engine.world
    here = world.receptacles_at[engine.location]
    around = engine.floor[engine.location]
    loose = 0
    for r in here:
        loose |= engine.removed[r]
    names = [world.objects[o] for o in bits(around & loose) for r in here if engine.removed[r] >> o & 1]
    return world.words.look(here, names)


def _inventory(engine: FastEngine, _: int, __: int) -> str:
    words = engine.world.words
    if engine.held < 0:
        return words.say("inventory", 1)
    return words.say("inventory", 0, held=words.list_objects(1 << engine.held))


def _help(engine: FastEngine, _: int, __: int) -> str:
    return engine.world.words.say("help")


def _examine_receptacle(engine: FastEngine, r: int, _: int) -> str:
    return engine._view(r)


def _examine_object(engine: FastEngine, o: int, _: int) -> str:
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


def _open(engine: FastEngine, r: int, _: int) -> str:
    engine.opened |= 1 << r
    engine._entry = None
    if engine.world.goal.uses_opened:
        engine._changed()
    return engine.world.words.say("openobject", r=engine.world.receptacles[r], view=engine._view(r))


def _close(engine: FastEngine, r: int, _: int) -> str:
    engine.opened &= ~(1 << r)
    engine._entry = None
    if engine.world.goal.uses_opened:
        engine._changed()
    return engine.world.words.say("closeobject", r=engine.world.receptacles[r])


def _take(engine: FastEngine, o: int, r: int) -> str:
    bit = 1 << o
    engine.contents[r] &= ~bit
    engine.removed[r] |= bit
    engine.floor[engine.location] &= ~bit
    engine.held = o
    return _done(engine, "pickupobject", o, r)


def _put(engine: FastEngine, o: int, r: int) -> str:
    bit = 1 << o
    engine.contents[r] |= bit
    engine.removed[r] &= ~bit
    engine.floor[engine.location] |= bit
    engine.held = -1
    return _done(engine, "putobject", o, r)


def _clean(engine: FastEngine, o: int, r: int) -> str:
    engine.clean |= 1 << o
    return _done(engine, "cleanobject", o, r)


def _heat(engine: FastEngine, o: int, r: int) -> str:
    engine.hot |= 1 << o
    engine.cool &= ~(1 << o)
    return _done(engine, "heatobject", o, r)


def _cool(engine: FastEngine, o: int, r: int) -> str:
    engine.cool |= 1 << o
    engine.hot &= ~(1 << o)
    return _done(engine, "coolobject", o, r)


def _toggle(engine: FastEngine, o: int, _: int) -> str:
    engine.toggled |= 1 << o
    engine._changed()
    return engine.world.words.say("toggleobject", o=engine.world.objects[o])


def _slice(engine: FastEngine, o: int, knife: int) -> str:
    engine.sliced |= 1 << o
    engine._changed()
    return engine.world.words.say("sliceobject", o=engine.world.objects[o], k=engine.world.objects[knife])


def _done(engine: FastEngine, action: str, o: int, r: int) -> str:
    engine._changed()
    world = engine.world
    return world.words.say(action, o=world.objects[o], r=world.receptacles[r])


# Reading states -------------------------------------------------------------------------------------------------------


def _difference(masks: Sequence[int], start: Sequence[int]) -> list[list[Any]]:
    return [[i, list(bits(mask))] for i, mask in enumerate(masks) if mask != start[i]]


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
