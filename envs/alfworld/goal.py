"""A PDDL goal, ground once and then tested in about a microsecond.

ALFRED's goals are conjunctions of ``exists`` over atoms. Each becomes the list of its ground instances (facts that
never change are joined away), grouped by the receptacle that must hold something, so that a test mostly looks at a few
bit masks. Instances that can never come true are dropped. Leaves to you: the state, as
:class:`~triage_gym.envs.alfworld.engine.FastEngine` holds it.

Raises :class:`~triage_gym.errors.UnsupportedGame` for goals of another form and for goals that can never hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Protocol

from triage_gym.envs.alfworld.domain import FACTS
from triage_gym.envs.alfworld.pddl_reader import typed_list
from triage_gym.errors import UnsupportedGame

MAX_INSTANCES: Final = 20_000
FLUENTS: Final = frozenset(
    {
        "atlocation",
        "inreceptacle",
        "holds",
        "opened",
        "ishot",
        "iscool",
        "isclean",
        "istoggled",
        "issliced",
    }
)
"""Predicates that actions change and goals may ask for."""
STATIC: Final = frozenset(
    {
        "receptacleatlocation",
        "openable",
        "isreceptacleobject",
        "inreceptacleobject",
        "receptacletype",
        "cancontain",
        "objecttype",
        "cleanable",
        "heatable",
        "coolable",
        "pickupable",
        "moveable",
        "toggleable",
        "sliceable",
    }
)
"""Predicates that stay as they start."""

Atom = tuple[str, ...]
_OTHER_BACKEND: Final = 'use backend="textworld", which knows any goal'


class State(Protocol):
    """What a goal reads: bit masks over objects (receptacles for ``opened``), indices elsewhere."""

    location: int
    held: int
    contents: list[int]
    opened: int
    hot: int
    cool: int
    clean: int
    toggled: int
    sliced: int


@dataclass(frozen=True, slots=True)
class Instance:
    """One ground conjunction; -1 and empty masks ask for nothing."""

    inside: int = 0
    """Objects that must be in the receptacle of the instance's group."""
    held: int = -1
    location: int = -1
    opened: int = 0
    hot: int = 0
    cool: int = 0
    clean: int = 0
    toggled: int = 0
    sliced: int = 0

    def holds(self, state: State) -> bool:
        """Whether all but ``inside`` is true."""
        return (
            (self.held < 0 or self.held == state.held)
            and (self.location < 0 or self.location == state.location)
            and not (self.hot & ~state.hot)
            and not (self.cool & ~state.cool)
            and not (self.clean & ~state.clean)
            and not (self.toggled & ~state.toggled)
            and not (self.sliced & ~state.sliced)
            and not (self.opened & ~state.opened)
        )


Group = tuple[int, int, tuple[Instance, ...]]
"""Receptacle (-1 for none), every object that an instance wants in it, instances."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A ground goal: every clause needs one instance that holds."""

    clauses: tuple[tuple[Group, ...], ...]
    uses_location: bool
    """Whether walking can change it."""
    uses_opened: bool
    """Whether opening and closing can change it."""

    def reached(self, state: State) -> bool:
        """Whether ``state`` satisfies the goal."""
        return all(_reached(clause, state) for clause in self.clauses)


def _reached(clause: tuple[Group, ...], state: State) -> bool:
    contents = state.contents
    for receptacle, wanted, instances in clause:
        inside = contents[receptacle] & wanted if receptacle >= 0 else 0
        if inside or receptacle < 0:
            for instance in instances:
                if not (instance.inside & ~inside) and instance.holds(state):
                    return True
    return False


@dataclass(frozen=True, slots=True)
class Grounding:
    """What grounding needs to know of a household."""

    facts: Mapping[str, Sequence[Sequence[str]]]
    """Start facts: predicate to its arguments."""
    types: Mapping[str, str]
    """Every name to its PDDL type."""
    objects: Mapping[str, int]
    receptacles: Mapping[str, int]
    locations: Mapping[str, int]
    """Locations where the agent can be."""
    possible: Callable[[Atom], bool]
    """Whether a ground fluent can ever be true."""


def ground(goal: Any, world: Grounding) -> Goal:
    """The goal ``goal`` (nested lists) in the household ``world``.

    Raises:
        UnsupportedGame: If the goal has another form than ALFRED's, or can never hold.
    """
    parts = goal[1:] if goal[:1] == ["and"] else [goal]
    instances = [_clause(part, world) for part in parts]
    if not parts:
        raise UnsupportedGame(f"Expected a goal that asks for something, got an empty one; {_OTHER_BACKEND}")
    if not all(instances):
        raise UnsupportedGame("Expected a goal that can be reached, got one that never can: no engine plays this game")
    atoms = [atom for clause in instances for conjunction in clause for atom in conjunction]
    return Goal(
        clauses=tuple(_groups(clause, world) for clause in instances),
        uses_location=any(atom[0] == "atlocation" for atom in atoms),
        uses_opened=any(atom[0] == "opened" for atom in atoms),
    )


@dataclass(slots=True)
class _Query:
    """A conjunction under ``exists``, taken apart."""

    variables: dict[str, str]
    static: list[Atom]
    fluent: list[Atom]
    different: list[tuple[str, str]]


def _clause(part: Any, world: Grounding) -> list[tuple[Atom, ...]]:
    """Ground instances of one conjunct of the goal that can become true, each once, in a fixed order."""
    query = _Query({}, [], [], [])
    _collect(part, query)
    found: dict[tuple[Atom, ...], None] = {}
    for binding in _join(query, world):
        atoms = tuple(sorted({_bind(atom, binding) for atom in query.fluent}))
        if atoms and all(world.possible(atom) for atom in atoms):
            found[atoms] = None
    if not query.fluent:
        raise UnsupportedGame(f"Expected a goal about things that can change, got {str(part)[:80]}; {_OTHER_BACKEND}")
    return list(found)


def _collect(expression: Any, query: _Query) -> None:
    head = expression[0] if isinstance(expression, list) and expression else None
    if head == "and":
        for part in expression[1:]:
            _collect(part, query)
        return
    if head == "exists" and len(expression) == 3 and isinstance(expression[1], list):
        _declare(expression[1], query)
        _collect(expression[2], query)
        return
    inner = expression[1] if head == "not" and len(expression) == 2 else None
    if isinstance(inner, list) and inner[:1] == ["="] and len(inner) == 3:
        query.different.append((inner[1], inner[2]))
    elif isinstance(head, str) and all(isinstance(x, str) for x in expression) and head in STATIC:
        query.static.append(_atom(expression))
    elif isinstance(head, str) and all(isinstance(x, str) for x in expression) and head in FLUENTS:
        query.fluent.append(_atom(expression))
    else:
        raise UnsupportedGame(f"Expected a goal in ALFRED's form, got {str(expression)[:80]} in it; {_OTHER_BACKEND}")


def _atom(expression: Sequence[str]) -> Atom:
    predicate, *terms = expression
    if len(terms) != len(FACTS[predicate]):
        raise UnsupportedGame(
            f"Expected {len(FACTS[predicate])} arguments of {predicate} in the goal, got {terms}; {_OTHER_BACKEND}"
        )
    return predicate, *terms


def _declare(items: Sequence[Any], query: _Query) -> None:
    if not all(isinstance(item, str) for item in items):
        raise UnsupportedGame(f"Expected variables and types under exists, got {str(items)[:80]}; {_OTHER_BACKEND}")
    for name, kind in typed_list(items, "the goal", untyped=""):
        if name in query.variables:
            raise UnsupportedGame(f"Expected each variable of the goal once, got {name} twice; {_OTHER_BACKEND}")
        if not kind:
            raise UnsupportedGame(f"Expected typed variables in the goal, got {name} untyped; {_OTHER_BACKEND}")
        query.variables[name] = kind


def _bind(atom: Atom, binding: Mapping[str, str]) -> Atom:
    return (atom[0], *(binding.get(x, x) for x in atom[1:]))


def _join(query: _Query, world: Grounding) -> Iterator[dict[str, str]]:
    """Every binding of the variables that the facts which never change allow."""
    pending = sorted(query.static, key=lambda atom: (sum(x.startswith("?") for x in atom), atom))
    bindings: list[dict[str, str]] = [{}]
    while pending:
        bound = set(bindings[0]) if bindings else set()
        atom = min(pending, key=lambda a: sum(x.startswith("?") and x not in bound for x in a))
        pending.remove(atom)
        rows = world.facts.get(atom[0], ())
        bindings = _few(b for binding in bindings for row in rows for b in _match(atom, row, binding, query, world))
    for name, kind in query.variables.items():
        if bindings and name not in bindings[0]:
            values = sorted(x for x, t in world.types.items() if t == kind)
            bindings = _few(binding | {name: value} for binding in bindings for value in values)
    for binding in bindings:
        if all(binding.get(a, a) != binding.get(b, b) for a, b in query.different):
            yield binding


def _few(bindings: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """``bindings``, stopped where a goal has too many."""
    found = list(islice(bindings, MAX_INSTANCES + 1))
    if len(found) > MAX_INSTANCES:
        raise UnsupportedGame(f"Expected a goal of at most {MAX_INSTANCES} instances, got more; {_OTHER_BACKEND}")
    return found


def _match(
    atom: Atom, row: Sequence[str], binding: dict[str, str], query: _Query, world: Grounding
) -> Iterator[dict[str, str]]:
    """``binding`` extended so that ``atom`` is the fact ``row``, or nothing."""
    extended = binding
    for term, value in zip(atom[1:], row, strict=False):
        known = extended.get(term, term)
        if known == value:
            continue
        if not known.startswith("?") or query.variables.get(term) != world.types.get(value):
            return
        extended = {**extended, term: value}
    yield extended


_FLAGS: Final = {"ishot": "hot", "iscool": "cool", "isclean": "clean", "istoggled": "toggled", "issliced": "sliced"}


def _groups(clause: Sequence[tuple[Atom, ...]], world: Grounding) -> tuple[Group, ...]:
    """The instances of a clause, by the receptacle that they look into."""
    by_receptacle: dict[int, list[Instance]] = {}
    for atoms in clause:
        receptacle, instance = _instance(atoms, world)
        by_receptacle.setdefault(receptacle, []).append(instance)
    groups: list[Group] = []
    for receptacle, instances in sorted(by_receptacle.items()):
        wanted = 0
        for instance in instances:
            wanted |= instance.inside
        groups.append((receptacle, wanted, tuple(instances)))
    return tuple(groups)


def _instance(atoms: Sequence[Atom], world: Grounding) -> tuple[int, Instance]:
    receptacle = held = location = -1
    masks = dict.fromkeys(("inside", "opened", *_FLAGS.values()), 0)
    for predicate, *terms in atoms:
        if predicate == "inreceptacle":
            place = world.receptacles[terms[1]]
            if receptacle not in (-1, place):
                raise UnsupportedGame(f"Expected one receptacle in a goal, got two; {_OTHER_BACKEND}")
            receptacle = place
            masks["inside"] |= 1 << world.objects[terms[0]]
        elif predicate == "holds":
            if held not in (-1, world.objects[terms[1]]):
                raise UnsupportedGame(f"Expected one thing in hand in a goal, got two; {_OTHER_BACKEND}")
            held = world.objects[terms[1]]
        elif predicate == "atlocation":
            location = world.locations[terms[1]]
        elif predicate == "opened":
            masks["opened"] |= 1 << world.receptacles[terms[0]]
        else:
            masks[_FLAGS[predicate]] |= 1 << world.objects[terms[0]]
    return receptacle, Instance(held=held, location=location, **masks)
