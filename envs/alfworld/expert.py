"""An expert with full knowledge: the shortest plan from any state of the fast engine.

It reads the engine's state and its ground goal, so it is an oracle for tests, for regret and for counterfactual credit,
never a policy that learns from text (that is :mod:`~triage_gym.envs.alfworld.searching`).

A plan is a chain of *errands* (take, put, treat, use), each done at one receptacle: walking there costs a command unless
the agent stands there already, a closed door costs one where the errand needs it open. ALFRED's goals want one or two
objects treated and delivered, or one object held beside a lit lamp, so every sensible chain can be listed; the cheapest
is a shortest plan, because whatever a chain leaves out (other objects, other doors) brings nothing closer. Distances
are therefore exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Final, Literal

from triage_gym.envs.alfworld.engine import FastEngine
from triage_gym.envs.alfworld.goal import Instance
from triage_gym.envs.alfworld.world import World, bits
from triage_gym.errors import UnsupportedGame

ErrandVerb = Literal["go", "take", "put", "heat", "cool", "clean", "use"]
_NEEDS_DOOR: Final = ("take", "put")
_ACTIONS: Final = {
    "take": "pickupobject",
    "put": "putobject",
    "heat": "heatobject",
    "cool": "coolobject",
    "clean": "cleanobject",
    "use": "toggleobject",
}
"""Errand to the domain's name of its action."""


@dataclass(frozen=True, slots=True)
class Errand:
    """One thing done to one object at one receptacle; numbers are the world's."""

    verb: ErrandVerb
    object: int
    receptacle: int


Chain = tuple[Errand, ...]


class Expert:
    """Plans from any state of a :class:`~triage_gym.envs.alfworld.engine.FastEngine`; keeps nothing between calls."""

    def solve(self, engine: FastEngine) -> list[str]:
        """Commands of a shortest plan from where ``engine`` stands; empty when it has won.

        Raises:
            UnsupportedGame: If the goal is none of the six task types' (from every method), or is out of reach.
        """
        plan = self.plan(engine)
        if plan is None:
            raise UnsupportedGame(
                f"Expected a game that can still be won, got {engine.game.task_id!r} where the goal is out of reach"
            )
        return plan

    def distance(self, engine: FastEngine) -> int | None:
        """Number of commands of a shortest plan; 0 when won, None when the goal cannot be reached any more."""
        plan = self.plan(engine)
        return None if plan is None else len(plan)

    def next_command(self, engine: FastEngine) -> str | None:
        """First command of a shortest plan; None when won, or when the goal cannot be reached any more."""
        plan = self.plan(engine)
        return plan[0] if plan else None

    def plan(self, engine: FastEngine) -> list[str] | None:
        """Like :meth:`solve`, but None when the goal cannot be reached any more."""
        if engine.won:
            return []
        best: Chain | None = None
        cost = 1 << 30
        for chain in _Planner(engine).chains():
            this = _cost(engine, chain)
            if this < cost:
                best, cost = chain, this
        return None if best is None else _commands(engine, best)


@dataclass(frozen=True, slots=True)
class _Delivery:
    """An object, the receptacle that it must be in, the treatments that it must have had."""

    object: int
    receptacle: int
    treatments: tuple[ErrandVerb, ...]


_End = tuple[Chain, int]
"""A chain and what is in hand after it (-1: nothing)."""


@dataclass(frozen=True, slots=True)
class _Need:
    """One way to satisfy a goal: an instance of each of its clauses, put together."""

    deliver: tuple[_Delivery, ...]
    held: int
    """Object to hold at the end, or -1."""
    place: int
    """Location to stand at in the end, or -1."""
    lamps: tuple[tuple[int, int], ...]
    """(lamp to switch on, receptacle that holds it)."""


def _needs(world: World) -> Iterator[_Need]:
    choices = [[(r, i) for r, _, instances in clause for i in instances] for clause in world.goal.clauses]
    for combination in product(*choices):
        need = _join(combination)
        if need is not None:
            yield need


def _join(combination: Sequence[tuple[int, Instance]]) -> _Need | None:
    """The instances as one need; None when they contradict each other."""
    held = {i.held for _, i in combination} - {-1}
    places = {i.location for _, i in combination} - {-1}
    if len(held) > 1 or len(places) > 1 or any(i.hot & i.cool for _, i in combination):
        return None
    deliver: list[_Delivery] = []
    lamps: list[tuple[int, int]] = []
    for receptacle, i in combination:
        if i.opened or i.sliced:
            raise UnsupportedGame(
                "Expected a goal of the six task types, got one about open doors or sliced things; no expert plans it"
            )
        for o in bits(i.inside):
            lamps += [(o, receptacle)] if i.toggled >> o & 1 else []
            deliver.append(_Delivery(o, receptacle, _treatments(i, o)))
    return _Need(tuple(deliver), max(held, default=-1), max(places, default=-1), tuple(lamps))


def _treatments(instance: Instance, o: int) -> tuple[ErrandVerb, ...]:
    found: list[ErrandVerb] = []
    found += ["clean"] if instance.clean >> o & 1 else []
    found += ["heat"] if instance.hot >> o & 1 else []
    found += ["cool"] if instance.cool >> o & 1 else []
    return tuple(found)


class _Planner:
    """Lists the chains of errands that can satisfy the goal from one state."""

    def __init__(self, engine: FastEngine) -> None:
        self.engine = engine
        self.world = engine.world
        self.done: dict[ErrandVerb, int] = {"heat": engine.hot, "cool": engine.cool, "clean": engine.clean}
        self.places: dict[ErrandVerb, list[int]] = {
            "heat": self._reachable(self.world.heaters),
            "cool": self._reachable(self.world.coolers),
            "clean": self._reachable(self.world.cleaners),
        }
        self.able: dict[ErrandVerb, int] = {
            "heat": self.world.heatable,
            "cool": self.world.coolable,
            "clean": self.world.cleanable,
        }
        self.needs = self._distinct(list(_needs(engine.world)))

    def _distinct(self, needs: Sequence[_Need]) -> list[_Need]:
        """One need of those that differ only in which of several equal receptacles gets the object.

        Receptacles are equal when both are shut or both open to the hand, hold the same wanted objects, and stand
        where nothing else of the plan happens: the second drawer is as far as the first.
        """
        wanted = 0
        for need in needs:
            for o in (need.held, *(d.object for d in need.deliver)):
                wanted |= 1 << o if o >= 0 else 0
        contents, location_of = self.engine.contents, self.world.location_of
        near = {self.engine.location, *(location_of[r] for r, mask in enumerate(contents) if mask & wanted)}
        near.update(location_of[r] for places in self.places.values() for r in places)

        def kind(r: int) -> tuple[int, int, int]:
            shut = self.world.openable & ~self.engine.opened
            return location_of[r] if location_of[r] in near else -2, shut >> r & 1, contents[r] & wanted

        found: dict[object, _Need] = {}
        for need in needs:
            deliveries = tuple((d.object, d.treatments, kind(d.receptacle)) for d in need.deliver)
            found.setdefault((deliveries, need.held, need.place, need.lamps), need)
        return list(found.values())

    def _reachable(self, receptacles: int) -> list[int]:
        return [r for r in bits(receptacles) if self.world.location_of[r] >= 0]

    def chains(self) -> Iterator[Chain]:
        """Every chain worth trying."""
        held = self.engine.held
        if held < 0 or any(held == n.held or any(held == d.object for d in n.deliver) for n in self.needs):
            for need in self.needs:
                yield from self._fulfil(need, held, (), self.engine.contents)
        if held >= 0:
            for drop in self._drops(held):
                contents = list(self.engine.contents)
                contents[drop.receptacle] |= 1 << held
                for need in self.needs:
                    yield from self._fulfil(need, -1, (drop,), contents)

    def _drops(self, held: int) -> list[Errand]:
        """Where to put what is in hand: the cheapest place, and every place at a location that a plan may visit."""
        takers = [r for r, mask in enumerate(self.world.accepts) if mask >> held & 1 and self.world.location_of[r] >= 0]
        drops = [Errand("put", held, r) for r in takers]
        cheapest = min(drops, key=lambda e: _cost(self.engine, (e,)), default=None)
        useful = {self.world.location_of[r] for r in self._visited()}
        return [e for e in drops if e is cheapest or self.world.location_of[e.receptacle] in useful]

    def _visited(self) -> set[int]:
        """Receptacles that some plan may have to visit."""
        wanted = {d.object for n in self.needs for d in n.deliver} | {n.held for n in self.needs}
        found = {r for r, mask in enumerate(self.engine.contents) if any(o >= 0 and mask >> o & 1 for o in wanted)}
        verbs = {verb for n in self.needs for d in n.deliver for verb in d.treatments}
        found.update(d.receptacle for n in self.needs for d in n.deliver)
        return found.union(*(self.places[verb] for verb in sorted(verbs)))

    def _fulfil(self, need: _Need, held: int, chain: Chain, contents: Sequence[int]) -> Iterator[Chain]:
        """Chains from ``chain`` on that satisfy ``need`` with ``held`` in hand (-1: nothing)."""
        open_ends: list[tuple[Chain, int]] = []
        pending = [d for d in need.deliver if not self._delivered(d, contents)]
        for order in self._orders(pending, held):
            open_ends += self._deliver(order, held, chain, contents)
        for end, hand in open_ends:
            yield from self._finish(need, hand, end, contents)

    def _delivered(self, wanted: _Delivery, contents: Sequence[int]) -> bool:
        treated = all(self.done[verb] >> wanted.object & 1 for verb in wanted.treatments)
        return treated and bool(contents[wanted.receptacle] >> wanted.object & 1)

    def _orders(self, pending: Sequence[_Delivery], held: int) -> list[tuple[_Delivery, ...]]:
        """Orders of delivery: what is in hand goes first, otherwise each may."""
        first = [d for d in pending if d.object == held]
        rest = [d for d in pending if d.object != held]
        return [(*first, *order) for order in permutations(rest)]

    def _deliver(self, order: Sequence[_Delivery], hand: int, chain: Chain, contents: Sequence[int]) -> list[_End]:
        """Ways to carry out ``order``: the chain so far, and what is in hand after it."""
        ends: list[_End] = [(chain, hand)]
        for i, wanted in enumerate(order):
            o, receptacle = wanted.object, wanted.receptacle
            missing = [verb for verb in wanted.treatments if not self.done[verb] >> o & 1]
            treats = list(product(*([Errand(verb, o, r) for r in self._appliances(verb, o)] for verb in missing)))
            grown: list[_End] = []
            for so_far, held in ends:
                for fetch in self._fetches(o, held, contents):
                    taken_out = bool(fetch) and fetch[0].receptacle == receptacle
                    stays = bool(contents[receptacle] >> o & 1) and not taken_out and i == len(order) - 1
                    put = () if stays else (Errand("put", o, receptacle),)
                    grown += [((*so_far, *fetch, *treat, *put), o if stays else -1) for treat in treats]
            ends = grown
        return ends

    def _appliances(self, verb: ErrandVerb, o: int) -> list[int]:
        return self.places[verb] if self.able[verb] >> o & 1 else []

    def _fetches(self, o: int, hand: int, contents: Sequence[int]) -> list[Chain]:
        """Ways to have ``o`` in hand: nothing to do, or taking it from a receptacle that holds it."""
        if hand == o:
            return [()]
        if hand >= 0 or not self.world.pickupable >> o & 1:
            return []
        sources = [r for r, mask in enumerate(contents) if mask >> o & 1 and self.world.location_of[r] >= 0]
        return [(Errand("take", o, r),) for r in sources]

    def _finish(self, need: _Need, hand: int, chain: Chain, contents: Sequence[int]) -> Iterator[Chain]:
        """``chain`` with what is left after the deliveries: the object to hold, the lamps, the place to stand."""
        light = tuple(Errand("use", lamp, r) for lamp, r in need.lamps if not self.engine.toggled >> lamp & 1)
        for fetch in [()] if need.held < 0 else self._fetches(need.held, hand, contents):
            full = (*chain, *fetch, *light)
            at = self.world.location_of[full[-1].receptacle] if full else self.engine.location
            if need.place in (-1, at):
                yield full
            else:
                yield from ((*full, Errand("go", -1, r)) for r in self.world.receptacles_at[need.place][:1])


def _cost(engine: FastEngine, chain: Chain) -> int:
    """Number of commands that ``chain`` takes."""
    world, location, opened = engine.world, engine.location, engine.opened
    count = 0
    for errand in chain:
        receptacle = errand.receptacle
        count += errand.verb != "go"
        if world.location_of[receptacle] != location:
            location = world.location_of[receptacle]
            count += 1
        if errand.verb in _NEEDS_DOOR and world.openable >> receptacle & 1 and not opened >> receptacle & 1:
            opened |= 1 << receptacle
            count += 1
    return count


def _commands(engine: FastEngine, chain: Chain) -> list[str]:
    """The commands of ``chain`` in the game's own grammar."""
    world, location, opened = engine.world, engine.location, engine.opened
    command = world.words.command
    found: list[str] = []
    for errand in chain:
        receptacle, name = errand.receptacle, world.receptacles[errand.receptacle]
        if world.location_of[receptacle] != location:
            location = world.location_of[receptacle]
            found.append(command("gotolocation", r=name))
        if errand.verb in _NEEDS_DOOR and world.openable >> receptacle & 1 and not opened >> receptacle & 1:
            opened |= 1 << receptacle
            found.append(command("openobject", r=name))
        if errand.verb != "go":
            found.append(command(_ACTIONS[errand.verb], o=world.objects[errand.object], r=name))
    return found
