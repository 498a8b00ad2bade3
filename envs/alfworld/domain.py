"""The ALFWorld domain as the fast engine implements it, and the check that a game's own PDDL says the same.

Each game file carries its own domain. The engine plays it only when every action in it is, parameter for parameter,
one of the actions below (costs left out: they change nothing that is visible). What may vary is which receptacle types
clean, heat and cool, which object types slice, and whether there is ``help``: version 0.3 lets sinks clean, 0.4 only sink
basins. Anything else is an :class:`~triage_gym.errors.UnsupportedGame`, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from triage_gym.envs.alfworld.pddl_reader import Action, Domain, parse, parse_domain
from triage_gym.errors import UnsupportedGame

TYPES: Final = frozenset({"agent", "location", "receptacle", "object", "rtype", "otype"})

FACTS: Final[dict[str, tuple[str, ...]]] = {
    "atlocation": ("agent", "location"),
    "receptacleatlocation": ("receptacle", "location"),
    "objectatlocation": ("object", "location"),
    "openable": ("receptacle",),
    "opened": ("receptacle",),
    "inreceptacle": ("object", "receptacle"),
    "isreceptacleobject": ("object",),
    "inreceptacleobject": ("object", "object"),
    "receptacletype": ("receptacle", "rtype"),
    "cancontain": ("rtype", "otype"),
    "objecttype": ("object", "otype"),
    "holds": ("agent", "object"),
    "holdsany": ("agent",),
    "isclean": ("object",),
    "cleanable": ("object",),
    "ishot": ("object",),
    "heatable": ("object",),
    "iscool": ("object",),
    "coolable": ("object",),
    "pickupable": ("object",),
    "moveable": ("object",),
    "toggleable": ("object",),
    "ison": ("object",),
    "istoggled": ("object",),
    "sliceable": ("object",),
    "issliced": ("object",),
    # Nothing visible reads these, but their arguments count when names are given out.
    "isreceptacleobjectfull": ("object",),
    "wasinreceptacle": ("object", "receptacle"),
    "checked": ("receptacle",),
    "examined": ("location",),
    "holdsanyreceptacleobject": ("agent",),
    "full": ("receptacle",),
}
"""Predicates that may stand in the start state, with the types of their arguments."""

# `{types}` stands for any `(or (… type) …)`; see _open_types. examineobject copies the domain's own slip: fast-downward
# reads `?l - location, ?r` as the type "location,", which has no objects, so only the object in hand can be examined.
_ACTIONS: Final = """(
(look (?a - agent ?l - location) (and (atlocation ?a ?l)) (and (checked ?l)))
(inventory (?a - agent) () (and (checked ?a)))
(help (?a - agent) () (and (checked ?a)))
(examinereceptacle (?a - agent ?r - receptacle)
    (and (exists (?l - location) (and (atlocation ?a ?l) (receptacleatlocation ?r ?l)))) (and (checked ?r)))
(examineobject (?a - agent ?o - object)
    (or (exists (?l - location, ?r - receptacle)
            (and (atlocation ?a ?l) (receptacleatlocation ?r ?l) (inreceptacle ?o ?r)
                (or (not (openable ?r)) (opened ?r))))
        (holds ?a ?o))
    (and (checked ?o)))
(gotolocation (?a - agent ?lstart - location ?lend - location ?r - receptacle)
    (and (atlocation ?a ?lstart) (receptacleatlocation ?r ?lend))
    (and (not (atlocation ?a ?lstart)) (atlocation ?a ?lend)))
(openobject (?a - agent ?l - location ?r - receptacle)
    (and (openable ?r) (atlocation ?a ?l) (receptacleatlocation ?r ?l) (not (opened ?r)))
    (and (opened ?r) (checked ?r)))
(closeobject (?a - agent ?l - location ?r - receptacle)
    (and (openable ?r) (atlocation ?a ?l) (receptacleatlocation ?r ?l) (opened ?r))
    (and (not (opened ?r))))
(pickupobject (?a - agent ?l - location ?o - object ?r - receptacle)
    (and (pickupable ?o) (atlocation ?a ?l) (receptacleatlocation ?r ?l) (inreceptacle ?o ?r) (not (holdsany ?a))
        (or (not (openable ?r)) (opened ?r)))
    (and (not (inreceptacle ?o ?r)) (holds ?a ?o) (holdsany ?a) (not (objectatlocation ?o ?l))))
(putobject (?a - agent ?l - location ?o - object ?r - receptacle ?ot - otype ?rt - rtype)
    (and (holds ?a ?o) (atlocation ?a ?l) (receptacleatlocation ?r ?l) (or (not (openable ?r)) (opened ?r))
        (objecttype ?o ?ot) (receptacletype ?r ?rt) (cancontain ?rt ?ot))
    (and (inreceptacle ?o ?r) (objectatlocation ?o ?l) (not (holds ?a ?o)) (not (holdsany ?a))))
(cleanobject (?a - agent ?l - location ?r - receptacle ?o - object)
    (and (cleanable ?o) {types} (atlocation ?a ?l) (receptacleatlocation ?r ?l) (holds ?a ?o))
    (and (isclean ?o)))
(heatobject (?a - agent ?l - location ?r - receptacle ?o - object)
    (and (heatable ?o) {types} (atlocation ?a ?l) (receptacleatlocation ?r ?l) (holds ?a ?o))
    (and (ishot ?o) (not (iscool ?o))))
(coolobject (?a - agent ?l - location ?r - receptacle ?o - object)
    (and (coolable ?o) {types} (atlocation ?a ?l) (receptacleatlocation ?r ?l) (holds ?a ?o))
    (and (iscool ?o) (not (ishot ?o))))
(toggleobject (?a - agent ?l - location ?o - object ?r - receptacle)
    (and (toggleable ?o) (atlocation ?a ?l) (receptacleatlocation ?r ?l) (inreceptacle ?o ?r))
    (and (when (ison ?o) (not (ison ?o))) (when (not (ison ?o)) (ison ?o)) (istoggled ?o)))
(sliceobject (?a - agent ?l - location ?co - object ?ko - object)
    (and (sliceable ?co) {types} (atlocation ?a ?l) (objectatlocation ?co ?l) (holds ?a ?ko))
    (and (issliced ?co)))
)"""
_OPTIONAL: Final = frozenset({"help"})
_TYPED: Final = {
    "cleanobject": ("receptacletype", "?r"),
    "heatobject": ("receptacletype", "?r"),
    "coolobject": ("receptacletype", "?r"),
    "sliceobject": ("objecttype", "?ko"),
}
OTHER_BACKEND: Final = 'use backend="textworld", which plays any domain'
"""What an error says to do about a game that the fast engine cannot play."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a recognised domain leaves open."""

    cleaners: frozenset[str]
    """Receptacle types (``sinkbasintype``) at which things are cleaned."""
    heaters: frozenset[str]
    coolers: frozenset[str]
    knives: frozenset[str]
    """Object types (``knifetype``) that slice."""
    actions: frozenset[str]
    """Names of the domain's actions, lower case."""


@lru_cache(maxsize=1)
def _known() -> dict[str, Action]:
    return {str(a[0]): Action(a[1], a[2], a[3]) for a in parse(_ACTIONS, "the known actions")}


def _open_types(name: str, precondition: list[Any]) -> tuple[list[Any], frozenset[str]]:
    """The precondition with its one ``(or (type) …)`` clause replaced by ``{types}``, and those types."""
    predicate, variable = _TYPED[name]
    form: list[Any] = []
    found: list[str] = []
    for clause in precondition:
        options = clause[1:] if isinstance(clause, list) and clause[:1] == ["or"] else []
        if options and all(isinstance(o, list) and o[:2] == [predicate, variable] and len(o) == 3 for o in options):
            found.extend(o[2] for o in options)
            form.append("{types}")
        else:
            form.append(clause)
    return form, frozenset(found)


def _without_costs(effect: list[Any]) -> list[Any]:
    return [e for e in effect if not (isinstance(e, list) and e[:2] == ["increase", ["total-cost"]])]


@lru_cache(maxsize=16)
def rules(text: str) -> Rules:
    """What the PDDL domain ``text`` leaves open.

    Raises:
        InputError: If the text is not a PDDL domain.
        UnsupportedGame: If it is not a domain that the fast engine plays.
    """
    domain: Domain = parse_domain(text)
    if domain.types != TYPES:
        raise UnsupportedGame(f"Expected the types {sorted(TYPES)}, got {sorted(domain.types)}; {OTHER_BACKEND}")
    wrong = sorted(name for name, types in FACTS.items() if domain.predicates.get(name) != types)
    if wrong:
        raise UnsupportedGame(f"Expected ALFWorld's own predicates, got others for {wrong}; {OTHER_BACKEND}")
    known = _known()
    unknown = sorted(set(domain.actions) - set(known))
    missing = sorted(set(known) - _OPTIONAL - set(domain.actions))
    if unknown or missing:
        raise UnsupportedGame(
            f"Expected the actions of ALFWorld, got {unknown} more and {missing} less; {OTHER_BACKEND}"
        )
    types: dict[str, frozenset[str]] = {}
    for name, action in domain.actions.items():
        precondition = action.precondition
        if name in _TYPED:
            precondition, types[name] = _open_types(name, precondition)
        if Action(action.parameters, precondition, _without_costs(action.effect)) != known[name]:
            raise UnsupportedGame(f"Expected ALFWorld's own {name}, got another; {OTHER_BACKEND}")
    return Rules(
        cleaners=types["cleanobject"],
        heaters=types["heatobject"],
        coolers=types["coolobject"],
        knives=types["sliceobject"],
        actions=frozenset(domain.actions),
    )
