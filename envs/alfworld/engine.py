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
from typing import Any

from triage_gym.envs.alfworld import moves, states
from triage_gym.envs.alfworld.games import Game
from triage_gym.envs.alfworld.states import View
from triage_gym.envs.alfworld.text import NOTHING_HAPPENS
from triage_gym.envs.alfworld.wording import MAX_ENTRIES
from triage_gym.envs.alfworld.world import World, bits, world_of

_Action = tuple[Callable[["FastEngine", int, int], str], int, int]
_Entry = tuple[dict[str, _Action], list[str]]


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
        self.changed(world.goal.uses_location)
        return world.words.arrive(receptacle, self.see(receptacle))

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
        for action, do in (("look", moves.look), ("inventory", moves.inventory), ("help", moves.show_help)):
            if action in words.phrases.commands:
                commands[say(action)] = (do, 0, 0)
        if held >= 0:
            commands[say("examineobject", o=world.objects[held])] = (moves.examine_object, held, 0)
        for r in here:
            name = world.receptacles[r]
            commands[say("examinereceptacle", r=name)] = (moves.examine_receptacle, r, 0)
            accessible = True
            if world.openable >> r & 1:
                accessible = bool(self.opened >> r & 1)
                if accessible:
                    commands[say("closeobject", r=name)] = (moves.close_receptacle, r, 0)
                else:
                    commands[say("openobject", r=name)] = (moves.open_receptacle, r, 0)
            for o in bits(self.contents[r] & world.toggleable):
                commands[say("toggleobject", o=world.objects[o])] = (moves.toggle, o, 0)
            if held >= 0:
                self._add_treatments(commands, r, accessible)
            elif accessible:
                for o in bits(self.contents[r] & world.pickupable):
                    commands[say("pickupobject", o=world.objects[o], r=name)] = (moves.take, o, r)
        if held >= 0 and world.knives >> held & 1:
            for o in bits(self.floor[self.location] & world.sliceable):
                commands[say("sliceobject", o=world.objects[o], k=world.objects[held])] = (moves.slice_object, o, held)
        return commands

    def _add_treatments(self, commands: dict[str, _Action], r: int, accessible: bool) -> None:
        """What can be done with the thing in hand at receptacle ``r``."""
        world, held = self.world, self.held
        names = {"o": world.objects[held], "r": world.receptacles[r]}
        if accessible and world.accepts[r] >> held & 1:
            commands[world.words.command("putobject", **names)] = (moves.put, held, r)
        for action, places, able, do in (
            ("cleanobject", world.cleaners, world.cleanable, moves.clean),
            ("heatobject", world.heaters, world.heatable, moves.heat),
            ("coolobject", world.coolers, world.coolable, moves.cool),
        ):
            if places >> r & 1 and able >> held & 1:
                commands[world.words.command(action, **names)] = (do, held, r)

    # For the moves ----------------------------------------------------------------------------------------------------

    def see(self, r: int) -> str:
        """What is seen at receptacle ``r``."""
        openable = bool(self.world.openable >> r & 1)
        closed = openable and not self.opened >> r & 1
        return self.world.words.view(r, closed, openable, self.contents[r])

    def changed(self, goal_may_read_it: bool = True) -> None:
        """A fact has changed, and with it the commands and perhaps ``won``."""
        self._entry = None
        if goal_may_read_it:
            self.won = self.world.goal.reached(self)

    # State out and in -------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """The whole state as JSON-able data, independent of the engine.

        Lists of contents hold what differs from the game's start; the game itself goes by its fingerprint.
        """
        return states.pack(self)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go to a state that :meth:`get_state` gave, of this engine or of any other that plays an equal game.

        Raises:
            StateError: If the state is of another game or version, or no state at all; the engine then stays as it is.
        """
        states.unpack(state, self)
        self.changed()

    def view(self) -> View:
        """The whole state in names."""
        return states.view(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> FastEngine:
        return _rebuild(self.game, self.get_state())

    def __reduce__(self) -> tuple[Callable[[Game, dict[str, Any]], FastEngine], tuple[Game, dict[str, Any]]]:
        return _rebuild, (self.game, self.get_state())


def _rebuild(game: Game, state: dict[str, Any]) -> FastEngine:
    engine = FastEngine(game)
    engine.set_state(state)
    return engine
