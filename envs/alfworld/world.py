"""The part of a game that never changes, parsed once and shared by every engine that plays it.

Objects, receptacles and the locations where the agent can stand are numbered in the order of their PDDL ids, which is
the order of every list that ALFWorld prints; sets of them are bit masks (bit i is number i). Promises: equal games give
one shared :class:`World`; nothing in it is written after it is made. Leaves to you: the state
(:mod:`~triage_gym.envs.alfworld.engine`) and the words (:mod:`~triage_gym.envs.alfworld.wording`).
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from triage_gym.envs.alfworld import domain, text
from triage_gym.envs.alfworld.domain import OTHER_BACKEND
from triage_gym.envs.alfworld.games import Game
from triage_gym.envs.alfworld.goal import Atom, Goal, Grounding, ground
from triage_gym.envs.alfworld.pddl_reader import Problem, parse_problem
from triage_gym.envs.alfworld.wording import Wording
from triage_gym.errors import InputError, UnsupportedGame

RECENT_WORLDS: Final = 128
"""How many worlds are kept for games that nobody plays just now, about 0.1 MB each."""


def bits(mask: int) -> Iterator[int]:
    """Numbers of the set bits of ``mask``, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(frozen=True, slots=True)
class Start:
    """The start state, in the form that the engine copies."""

    location: int
    held: int
    """Object in hand, or -1."""
    opened: int
    """Receptacles that are open."""
    hot: int
    cool: int
    clean: int
    toggled: int
    sliced: int
    contents: tuple[int, ...]
    """For each receptacle, the objects in it. An object may be in several at once (in a sink and in its basin)."""
    floor: tuple[int, ...]
    """For each location, the objects that PDDL says are at it."""


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class World:
    """A household's constants."""

    fingerprint: str
    """The game's (:attr:`Game.fingerprint <triage_gym.envs.alfworld.games.Game.fingerprint>`)."""
    objects: tuple[str, ...]
    """ALFWorld's names (``cup 2``) of the objects; ``receptacles`` and ``locations`` likewise."""
    receptacles: tuple[str, ...]
    locations: tuple[str, ...]
    """Only those where the agent can be."""
    object_types: tuple[frozenset[str], ...]
    """PDDL types of each object, such as ``{"cuptype"}``."""
    receptacle_types: tuple[frozenset[str], ...]
    location_of: tuple[int, ...]
    """Location of each receptacle; -1 for one that is nowhere."""
    receptacles_at: tuple[tuple[int, ...], ...]
    """Receptacles at each location; several may share one."""
    accepts: tuple[int, ...]
    """For each receptacle, the objects that may be put there."""
    openable: int
    cleaners: int
    """Receptacles that clean; ``heaters`` and ``coolers`` likewise."""
    heaters: int
    coolers: int
    pickupable: int
    toggleable: int
    cleanable: int
    heatable: int
    coolable: int
    sliceable: int
    knives: int
    """Objects that slice."""
    goal: Goal
    start: Start
    words: Wording


_worlds: WeakValueDictionary[str, World] = WeakValueDictionary()
_recent: OrderedDict[str, World] = OrderedDict()


def world_of(game: Game) -> World:
    """The world of ``game``, one for all who ask for an equal game.

    Raises:
        InputError: If the game's PDDL or grammar cannot be read.
        UnsupportedGame: If the fast engine cannot play it faithfully.
    """
    key = game.fingerprint
    world = _worlds.get(key)
    if world is None:
        world = _worlds[key] = _Builder(game).build()
    _recent[key] = world
    _recent.move_to_end(key)
    if len(_recent) > RECENT_WORLDS:
        _recent.popitem(last=False)
    return world


class _Builder:
    """From a game's text to its world."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.rules = domain.rules(game.pddl_domain)
        self.phrases = text.phrases(game.grammar, self.rules.actions)
        self.problem: Problem = parse_problem(game.pddl_problem)
        self.facts = _typed_facts(self.problem)
        self.names = text.names(name for fact in self.problem.facts for name in fact[1:])
        kinds = self.problem.types
        self.objects = _numbered(name for name in self.names if kinds[name] == "object")
        self.receptacles = _numbered(name for name in self.names if kinds[name] == "receptacle")
        self.agent, start = _agent(self.facts)
        self.place = dict(self.facts["receptacleatlocation"])
        if len(self.place) != len(set(map(tuple, self.facts["receptacleatlocation"]))):
            raise UnsupportedGame(f"Expected each receptacle at one location, got one at two; {OTHER_BACKEND}")
        self.locations = _numbered({start, *self.place.values()})
        self.location = self.locations[start]
        self.object_types = self._types("objecttype", self.objects)
        self.receptacle_types = self._types("receptacletype", self.receptacles)
        self.accepts = self._accepts()

    def build(self) -> World:
        """The world; see :func:`world_of` for what it raises."""
        objects, receptacles = self.objects, self.receptacles
        start = self._start()
        location_of = tuple(self.locations[self.place[r]] if r in self.place else -1 for r in receptacles)
        of_type = self._receptacles_of_type
        named = tuple(self.names[o] for o in objects), tuple(self.names[r] for r in receptacles)
        located = tuple(self.names[x] for x in self.locations)
        at = tuple(tuple(r for r, x in enumerate(location_of) if x == spot) for spot in range(len(located)))
        return World(
            fingerprint=self.game.fingerprint,
            objects=named[0],
            receptacles=named[1],
            locations=located,
            object_types=self.object_types,
            receptacle_types=self.receptacle_types,
            location_of=location_of,
            receptacles_at=at,
            accepts=self.accepts,
            openable=self._mask("openable", receptacles),
            cleaners=of_type(self.rules.cleaners),
            heaters=of_type(self.rules.heaters),
            coolers=of_type(self.rules.coolers),
            pickupable=self._mask("pickupable", objects),
            toggleable=self._mask("toggleable", objects),
            cleanable=self._mask("cleanable", objects),
            heatable=self._mask("heatable", objects),
            coolable=self._mask("coolable", objects),
            sliceable=self._mask("sliceable", objects),
            knives=sum(1 << i for i, types in enumerate(self.object_types) if types & self.rules.knives),
            goal=self._goal(start),
            start=start,
            words=Wording(self.phrases, named[0], named[1], located, location_of, self._inside()),
        )

    def _mask(self, predicate: str, index: dict[str, int]) -> int:
        mask = 0
        for (name,) in self.facts[predicate]:
            mask |= 1 << index[name]
        return mask

    def _types(self, predicate: str, index: dict[str, int]) -> tuple[frozenset[str], ...]:
        types: list[set[str]] = [set() for _ in index]
        for name, kind in self.facts[predicate]:
            types[index[name]].add(kind)
        return tuple(map(frozenset, types))

    def _receptacles_of_type(self, wanted: frozenset[str]) -> int:
        return sum(1 << r for r, types in enumerate(self.receptacle_types) if types & wanted)

    def _accepts(self) -> tuple[int, ...]:
        of_type: dict[str, int] = defaultdict(int)
        for i, types in enumerate(self.object_types):
            for kind in types:
                of_type[kind] |= 1 << i
        by_kind: dict[str, int] = defaultdict(int)
        for receptacle_type, object_type in self.facts["cancontain"]:
            by_kind[receptacle_type] |= of_type.get(object_type, 0)
        masks = []
        for types in self.receptacle_types:
            mask = 0
            for kind in types:
                mask |= by_kind.get(kind, 0)
            masks.append(mask)
        return tuple(masks)

    def _inside(self) -> dict[int, tuple[str, ...]]:
        """Names of the things in each container, in the order of their ids; no action changes them."""
        inside: dict[int, list[str]] = {self.objects[o]: [] for (o,) in self.facts["isreceptacleobject"]}
        for inner, outer in sorted(self.facts["inreceptacleobject"]):
            if self.objects[outer] in inside and inner != outer:
                inside[self.objects[outer]].append(self.names[inner])
        return {o: tuple(dict.fromkeys(names)) for o, names in inside.items()}

    def _start(self) -> Start:
        contents = [0] * len(self.receptacles)
        for o, r in self.facts["inreceptacle"]:
            contents[self.receptacles[r]] |= 1 << self.objects[o]
        floor = [0] * len(self.locations)
        for o, x in self.facts["objectatlocation"]:
            if x in self.locations:
                floor[self.locations[x]] |= 1 << self.objects[o]
        held = {o for _, o in self.facts["holds"]}
        if len(held) > 1 or bool(held) != bool(self.facts["holdsany"]):
            raise UnsupportedGame(f"Expected at most one thing in hand at the start, got {len(held)}; {OTHER_BACKEND}")
        return Start(
            location=self.location,
            held=self.objects[held.pop()] if held else -1,
            opened=self._mask("opened", self.receptacles),
            hot=self._mask("ishot", self.objects),
            cool=self._mask("iscool", self.objects),
            clean=self._mask("isclean", self.objects),
            toggled=self._mask("istoggled", self.objects),
            sliced=self._mask("issliced", self.objects),
            contents=tuple(contents),
            floor=tuple(floor),
        )

    def _goal(self, start: Start) -> Goal:
        grounding = Grounding(
            facts=self.facts,
            types=self.problem.types,
            objects=self.objects,
            receptacles=self.receptacles,
            locations=self.locations,
            possible=_Reachable(self, start).possible,
        )
        return ground(self.problem.goal, grounding)


class _Reachable:
    """Which facts could ever become true if no action ever undid anything (the relaxation that planners use)."""

    def __init__(self, builder: _Builder, start: Start) -> None:
        self.builder, self.start = builder, start
        rules = builder.rules
        placed = [r for name, r in builder.receptacles.items() if name in builder.place]
        standing = 0
        self.movable_to = 0
        for r in placed:
            standing |= start.contents[r]
            self.movable_to |= builder.accepts[r]
        self.placed = placed
        self.takeable = standing & builder._mask("pickupable", builder.objects)
        if start.held >= 0:
            self.takeable |= 1 << start.held
        self.in_a_receptacle = standing | (self.takeable & self.movable_to)
        at_hand = self.takeable & self.movable_to
        for mask in start.floor:
            at_hand |= mask
        can = builder._mask
        knife = any(self.takeable >> i & 1 for i, types in enumerate(builder.object_types) if types & rules.knives)
        self.flags = {
            "isclean": start.clean | self._treated(can("cleanable", builder.objects), rules.cleaners),
            "ishot": start.hot | self._treated(can("heatable", builder.objects), rules.heaters),
            "iscool": start.cool | self._treated(can("coolable", builder.objects), rules.coolers),
            "istoggled": start.toggled | (can("toggleable", builder.objects) & self.in_a_receptacle),
            "issliced": start.sliced | (can("sliceable", builder.objects) & at_hand if knife else 0),
        }

    def _treated(self, able: int, types: frozenset[str]) -> int:
        there = any(self.builder.receptacle_types[r] & types for r in self.placed)
        return able & self.takeable if there else 0

    def possible(self, atom: Atom) -> bool:
        """Whether the ground fluent ``atom`` could ever be true."""
        predicate, *terms = atom
        world = self.builder
        if predicate == "atlocation":
            return terms[0] == world.agent and terms[1] in world.locations
        if predicate == "holds":
            return terms[0] == world.agent and self._has(self.takeable, terms[1])
        if predicate == "opened":
            r = world.receptacles.get(terms[0], -1)
            openable = r in self.placed and (terms[0],) in map(tuple, world.facts["openable"])
            return r >= 0 and (openable or bool(self.start.opened >> r & 1))
        if predicate == "inreceptacle":
            r = world.receptacles.get(terms[1], -1)
            if r < 0:
                return False
            put = self.takeable & world.accepts[r] if r in self.placed else 0
            return self._has(self.start.contents[r] | put, terms[0])
        return self._has(self.flags[predicate], terms[0])

    def _has(self, mask: int, name: str) -> bool:
        i = self.builder.objects.get(name, -1)
        return i >= 0 and bool(mask >> i & 1)


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: i for i, name in enumerate(sorted(names))}


def _typed_facts(problem: Problem) -> dict[str, list[list[str]]]:
    """The start facts by predicate, each argument of the type that the domain declares."""
    strange = sorted(set(problem.types.values()) - domain.TYPES)
    if strange:
        raise InputError(f"Expected objects of the types {sorted(domain.TYPES)} in the PDDL problem, got {strange}")
    if problem.costs and any(cost[:1] != [["total-cost"]] for cost in problem.costs):
        raise UnsupportedGame(f"Expected no costs but (total-cost) at the start, got others; {OTHER_BACKEND}")
    facts: dict[str, list[list[str]]] = {predicate: [] for predicate in domain.FACTS}
    for predicate, *arguments in problem.facts:
        wanted: Sequence[str] | None = domain.FACTS.get(predicate)
        if wanted is None or len(wanted) != len(arguments):
            raise UnsupportedGame(f"Expected facts of ALFWorld's domain, got ({predicate} ...); {OTHER_BACKEND}")
        for name, kind in zip(arguments, wanted, strict=True):
            if problem.types[name] != kind:
                raise UnsupportedGame(
                    f"Expected {name!r} in ({predicate} ...) to be of type {kind}, got {problem.types[name]}; "
                    f"{OTHER_BACKEND}"
                )
        facts[predicate].append(arguments)
    return facts


def _agent(facts: dict[str, list[list[str]]]) -> tuple[str, str]:
    """The one agent and where it starts."""
    places = list(dict.fromkeys((agent, place) for agent, place in facts["atlocation"]))
    if not places:
        raise InputError("Expected an agent at a location in the PDDL problem, got none")
    agents = {name for predicate in ("atlocation", "holds", "holdsany") for name, *_ in facts[predicate]}
    if len(places) > 1 or len(agents) > 1:
        raise UnsupportedGame(f"Expected one agent at one location, got {places}; {OTHER_BACKEND}")
    return places[0]
