"""PDDL text in, plain data out: the reader of ALFWorld's domain and problem files.

Reads as fast-downward's own parser does: lower case, ``;`` comments, ASCII, typed lists split at ``-``. Promises: a
clear :class:`~triage_gym.errors.InputError` for text that is not PDDL, and bounded work for text that is hostile.
Leaves to you: what the actions mean (:mod:`~triage_gym.envs.alfworld.domain`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from triage_gym.errors import InputError

MAX_CHARACTERS: Final = 2_000_000
MAX_DEPTH: Final = 40

_TOKEN: Final = re.compile(r"[()]|[^\s()]+")
_COMMENT: Final = re.compile(r";[^\n]*")


def parse(text: str, what: str = "PDDL text") -> list[Any]:
    """The one parenthesised expression that ``text`` holds, as nested lists of lower-case tokens.

    Raises:
        InputError: If the text is too long, nests too deep, is not ASCII or its parentheses do not match.
    """
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"Expected {what} of at most {MAX_CHARACTERS} characters, got {len(text)}")
    code = _COMMENT.sub("", text)
    if not code.isascii():
        raise InputError(f"Expected {what} in ASCII, got {next(c for c in code if not c.isascii())!r} in it")
    top: list[Any] = []
    stack = [top]
    for token in _TOKEN.findall(code.lower()):
        if token == "(":
            if len(stack) > MAX_DEPTH:
                raise InputError(f"Expected {what} to nest at most {MAX_DEPTH} deep, got more")
            inner: list[Any] = []
            stack[-1].append(inner)
            stack.append(inner)
        elif token == ")":
            if len(stack) == 1:
                raise InputError(f"Expected matching parentheses in {what}, got a ')' too many")
            stack.pop()
        else:
            stack[-1].append(token)
    if len(stack) > 1:
        raise InputError(f"Expected matching parentheses in {what}, got {len(stack) - 1} unclosed '('")
    if len(top) != 1 or not isinstance(top[0], list):
        raise InputError(f"Expected {what} to be one (define ...) form, got {len(top)} forms")
    form: list[Any] = top[0]
    return form


def typed_list(items: Sequence[Any], what: str, untyped: str = "object") -> Iterator[tuple[str, str]]:
    """Pairs (name, type) of ``a b - t c - u``; what has no type gets the type ``untyped``."""
    pending: list[str] = []
    rest = iter(items)
    for item in rest:
        if not isinstance(item, str):
            raise InputError(f"Expected names and types in {what}, got {str(item)[:80]}")
        if item != "-":
            pending.append(item)
            continue
        kind = next(rest, None)
        if not isinstance(kind, str):
            raise InputError(f"Expected a type after '-' in {what}, got {str(kind)[:80]}")
        yield from ((name, kind) for name in pending)
        pending = []
    yield from ((name, untyped) for name in pending)


@dataclass(frozen=True, slots=True)
class Action:
    """One ``:action`` of a domain, unread: lists of tokens."""

    parameters: list[Any]
    precondition: list[Any]
    effect: list[Any]


@dataclass(frozen=True, slots=True)
class Domain:
    """A PDDL domain: the names of its types and predicates, and its actions by name."""

    types: frozenset[str]
    predicates: dict[str, tuple[str, ...]]
    """Predicate to the types of its arguments."""
    actions: dict[str, Action]


@dataclass(frozen=True, slots=True)
class Problem:
    """A PDDL problem: typed objects, ground facts of the start, goal."""

    types: dict[str, str]
    """Object to its type."""
    facts: list[list[str]]
    """Each a predicate and its arguments, in the file's order."""
    costs: list[list[Any]]
    """The ``(= (function …) value)`` entries, without the ``=``."""
    goal: list[Any]


def _variable_types(items: Sequence[Any], what: str) -> tuple[str, ...]:
    pairs = list(typed_list(items, what))
    if not all(name.startswith("?") for name, _ in pairs):
        raise InputError(f"Expected variables such as ?x in {what}, got {[name for name, _ in pairs]}")
    return tuple(kind for _, kind in pairs)


def _sections(form: list[Any], kind: str, what: str) -> dict[str, list[Any]]:
    """The keyword sections of a ``(define (kind name) …)`` form; actions are left out."""
    if len(form) < 2 or form[0] != "define" or not isinstance(form[1], list) or form[1][:1] != [kind]:
        raise InputError(f"Expected {what} to start with (define ({kind} ...), got {str(form[:2])[:80]}")
    sections: dict[str, list[Any]] = {}
    for part in form[2:]:
        if not isinstance(part, list) or not part or not str(part[0]).startswith(":"):
            raise InputError(f"Expected (:keyword ...) sections in {what}, got {str(part)[:80]}")
        if part[0] == ":action":
            continue
        if part[0] in sections:
            raise InputError(f"Expected one {part[0]} section in {what}, got two")
        sections[part[0]] = part[1:]
    return sections


def _action(part: list[Any]) -> tuple[str, Action]:
    if len(part) < 2 or len(part) % 2 or not all(isinstance(key, str) for key in part[::2]):
        raise InputError(f"Expected (:action name :keyword ...), got {str(part)[:80]}")
    given = dict(zip(part[::2], part[1::2], strict=True))
    name = given[":action"]
    parts = [given.get(key, []) for key in (":parameters", ":precondition", ":effect")]
    if not isinstance(name, str) or not all(isinstance(x, list) for x in parts):
        raise InputError(f"Expected a name and lists for the parts of an action, got {str(part)[:80]}")
    return name, Action(*parts)


def parse_domain(text: str) -> Domain:
    """A PDDL domain; raises InputError when ``text`` is none."""
    what = "the PDDL domain"
    form = parse(text, what)
    sections = _sections(form, "domain", what)
    types = frozenset(name for name, _ in typed_list(sections.get(":types", []), f"(:types ...) of {what}"))
    predicates: dict[str, tuple[str, ...]] = {}
    for declared in sections.get(":predicates", []):
        if not isinstance(declared, list) or not declared or not isinstance(declared[0], str):
            raise InputError(f"Expected (predicate ?variable - type ...) in {what}, got {str(declared)[:80]}")
        predicates[declared[0]] = _variable_types(declared[1:], f"(:predicates ...) of {what}")
    actions = [_action(part) for part in form[2:] if part[0] == ":action"]
    if len(actions) != len({name for name, _ in actions}):
        raise InputError(f"Expected each action of {what} once, got {[name for name, _ in actions]}")
    return Domain(types, predicates, dict(actions))


def parse_problem(text: str) -> Problem:
    """A PDDL problem; raises InputError when ``text`` is none, or when an object is declared twice or not at all."""
    what = "the PDDL problem"
    sections = _sections(parse(text, what), "problem", what)
    for needed in (":objects", ":init", ":goal"):
        if needed not in sections:
            raise InputError(f"Expected {what} to have a {needed} section, got {sorted(sections)}")
    types: dict[str, str] = {}
    for name, kind in typed_list(sections[":objects"], f"(:objects ...) of {what}"):
        if name in types:
            raise InputError(f"Expected each object of {what} once, got {name!r} twice")
        types[name] = kind
    facts, costs = _initial(sections[":init"], types, what)
    goal = sections[":goal"]
    if len(goal) != 1 or not isinstance(goal[0], list):
        raise InputError(f"Expected one goal in {what}, got {len(goal)}")
    return Problem(types, facts, costs, goal[0])


def _initial(items: list[Any], types: dict[str, str], what: str) -> tuple[list[list[str]], list[list[Any]]]:
    facts: list[list[str]] = []
    costs: list[list[Any]] = []
    for item in items:
        if not isinstance(item, list) or not item or not isinstance(item[0], str):
            raise InputError(f"Expected facts in (:init ...) of {what}, got {str(item)[:80]}")
        if item[0] == "=":
            costs.append(item[1:])
            continue
        for name in item[1:]:
            if not isinstance(name, str) or name not in types:
                raise InputError(f"Expected declared objects in the facts of {what}, got {str(name)[:80]!r}")
        facts.append(item)
    return facts, costs
