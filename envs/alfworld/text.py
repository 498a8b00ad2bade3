"""ALFWorld's grammar files turned into phrases, and the names that ALFWorld gives to things.

A grammar (``.twl2``) is a small program that textworld runs anew for every sentence. Its structure is always the same
in ALFWorld, its wording is not (0.3 says ``put X in/on Y``, 0.4 ``move X to Y``): here the structure is checked against
what the fast engine implements, and the wording is kept as format strings. Promises: the phrases say what textworld's
interpreter would say, character for character. Leaves to you: which phrase applies
(:mod:`~triage_gym.envs.alfworld.engine`).

Raises :class:`~triage_gym.errors.UnsupportedGame` for any structure it does not know.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from triage_gym.domains import alfworld as domain_text
from triage_gym.errors import InputError, UnsupportedGame

NOTHING_HAPPENS: Final = domain_text.NOTHING_HAPPENS
"""The answer to a command that is not admissible; no grammar has a say in it."""
MAX_CHARACTERS: Final = 500_000

_OTHER_BACKEND: Final = 'use backend="textworld", which plays any grammar'
_TOKEN: Final = re.compile(r'"""(?:.|\n)*?"""|"[^"]*"|[\w/-]+|::|[{};]|\s+|#[^\n]*')
_PLACEHOLDER: Final = re.compile(r"\[[^\[\]]*\]|\{[^{}]*\}|#[^#]*#")
_UNSAFE: Final = frozenset(';|"<>[]#{}\t')
"""Characters that textworld's own parser stops at or drops."""

_HELD: Final = "[{o.indefinite + ' ' + o.name | holds(a:agent, o:object)}]"
_CONTENTS: Final = "[{o.indefinite + ' ' + o.name | inreceptacle(o:object, r:receptacle)}]"
_INSIDE: Final = "[{o2.indefinite + ' ' + o2.name | inreceptacleobject(o2:object, o:object)}]"
_HERE: Final = "atlocation(a:agent, l:location) & receptacleatlocation(r:receptacle, l:location)"
_ANYWHERE: Final = "receptacleatlocation(r:receptacle, l:location)"
_FLOOR: Final = (
    "atlocation(a:agent, l:location) & objectatlocation(o:object, l:location) & "
    "receptacleatlocation(r:receptacle, l:location) & not_inreceptacle(o:object, r:receptacle)"
)
_O: Final = {"{o.name}": "{o}"}
_R: Final = {"{r.name}": "{r}"}
_O_R: Final = _O | _R
_PLAIN: Final[dict[str, str]] = {}

_TEMPLATES: Final[dict[str, Mapping[str, str]]] = {
    "look": _PLAIN,
    "inventory": _PLAIN,
    "help": _PLAIN,
    "gotolocation": {"[{r.name | receptacleatlocation(r:receptacle, lend:location)}]": "{r}"},
    "openobject": {"{r}": "{r}"},
    "closeobject": {"{r}": "{r}"},
    "examinereceptacle": {"{r}": "{r}"},
    "examineobject": {"{o}": "{o}"},
    "toggleobject": {"{o}": "{o}"},
    "pickupobject": {"{o}": "{o}", "{r}": "{r}"},
    "putobject": {"{o}": "{o}", "{r}": "{r}"},
    "cleanobject": {"{o}": "{o}", "{r}": "{r}"},
    "heatobject": {"{o}": "{o}", "{r}": "{r}"},
    "coolobject": {"{o}": "{o}", "{r}": "{r}"},
    "sliceobject": {"{co}": "{o}", "{ko}": "{k}"},
}
"""What may stand in the command of each action."""

_Cases = tuple[tuple[str, Mapping[str, str]], ...]
_FEEDBACK: Final[dict[str, _Cases]] = {
    "look": (
        (_HERE, {"#look-variations#": "{facing}", "#list_objects_on_the_floor#": "{floor}"}),
        ("", {"#list_appliances#": "{receptacles}"}),
    ),
    "inventory": (("holdsany(a:agent)", {_HELD: "{held}"}), ("", _PLAIN)),
    "help": (("", _PLAIN),),
    "gotolocation": (("", _R | {"{lend.name}": "{l}", "#examineReceptacle.feedback#": "{view}"}),),
    "openobject": (("", _R | {"#examineReceptacle.feedback#": "{view}"}),),
    "closeobject": (("", _R),),
    "pickupobject": (("", _O_R),),
    "putobject": (("", _O_R),),
    "cleanobject": (("", _O_R),),
    "heatobject": (("", _O_R),),
    "coolobject": (("", _O_R),),
    "sliceobject": (("", {"{co.name}": "{o}", "{ko.name}": "{k}"}),),
    "toggleobject": (
        ("toggleable(o:object) & istoggled(o:object)", _O),
        ("toggleable(o:object)", _O),
        ("", _O),
    ),
    "examinereceptacle": (
        ("openable(r:receptacle) & opened(r:receptacle)", _R | {_CONTENTS: "{contents}"}),
        ("openable(r:receptacle)", _R),
        ("", _R | {_CONTENTS: "{contents}"}),
    ),
    "examineobject": (
        ("isreceptacleobject(o:object)", _O | {_INSIDE: "{inside}"}),
        ("isclean(o:object) & ishot(o:object) & issliced(o:object)", _O),
        ("isclean(o:object) & iscool(o:object) & issliced(o:object)", _O),
        ("isclean(o:object) & issliced(o:object)", _O),
        ("ishot(o:object) & issliced(o:object)", _O),
        ("iscool(o:object) & issliced(o:object)", _O),
        ("isclean(o:object) & ishot(o:object)", _O),
        ("isclean(o:object) & iscool(o:object)", _O),
        ("ishot(o:object)", _O),
        ("isclean(o:object)", _O),
        ("iscool(o:object)", _O),
        ("toggleable(o:object) & istoggled(o:object)", _O),
        ("toggleable(o:object) & not_istoggled(o:object)", _O),
        ("sliceable(o:object) & issliced(o:object)", _O),
        ("", _O),
    ),
}
"""The cases of each action's answer, first match wins: condition, and what may stand in the sentence."""

_RULES: Final[dict[str, _Cases]] = {
    "intro": (("", {"#look.feedback#": "{look}", "#task#": "{task}"}),),
    "task": (("", _PLAIN),),
    "look-variations": (("", {f"[{{r.name | {_HERE}}}]": "{receptacles}"}),),
    "list_objects_on_the_floor": ((_FLOOR, {f"[{{#overview(o)# | {_FLOOR}}}]": "{objects}"}), ("", _PLAIN)),
    "list_appliances": ((_ANYWHERE, {f"[{{#overview(r)# | {_ANYWHERE}}}]": "{receptacles}"}), ("", _PLAIN)),
    "overview(o)": (("", {"{o.indefinite}": "a", "{o.name}": "{o}"}),),
    "overview(r)": (("", {"{r.indefinite}": "a", "{r.name or r.id}": "{r}", "{r.name}": "{r}"}),),
    "list_empty": (("", _PLAIN),),
    "list_separator": (("", _PLAIN),),
    "list_last_separator": (("", _PLAIN),),
}
_Grammar = tuple[dict[str, tuple[str, str]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Phrases:
    """A checked grammar, as format strings."""

    commands: Mapping[str, str]
    """Action name (lower case) to its command, such as ``take {o} from {r}``."""
    answers: Mapping[str, tuple[str, ...]]
    """Action name to its answers, in the order of the grammar's cases."""
    rules: Mapping[str, tuple[str, ...]]
    """Every other rule that the engine uses, its cases in order."""

    def listing(self, items: Sequence[str]) -> str:
        """``items`` as the grammar joins them: ``a, b, and c``."""
        if len(items) < 2:
            return items[0] if items else self.rules["list_empty"][0]
        separator = self.rules["list_separator"][0]
        return separator.join(items[:-1]) + self.rules["list_last_separator"][0] + items[-1]


@lru_cache(maxsize=64)
def phrases(text: str, actions: frozenset[str]) -> Phrases:
    """The phrases of the grammar ``text`` for the domain's ``actions``.

    Raises:
        InputError: If the text is not a grammar.
        UnsupportedGame: If it has a structure that the fast engine does not implement.
    """
    known, rules = _read(text)
    commands: dict[str, str] = {}
    answers: dict[str, tuple[str, ...]] = {}
    for name in sorted(actions):
        if name not in known:
            raise UnsupportedGame(f"Expected the grammar to have the action {name!r}, got {sorted(known)}")
        template, feedback = known[name]
        commands[name] = _format(template, _TEMPLATES[name], f"the command of {name}")
        if not (feedback.startswith("#") and feedback.endswith("#") and len(feedback) > 2):
            raise UnsupportedGame(f"Expected one #rule# as the answer to {name}, got {feedback!r}; {_OTHER_BACKEND}")
        answers[name] = _cases(rules, feedback[1:-1], _FEEDBACK[name])
    for name, reused in (("look", "#look.feedback#"), ("examinereceptacle", "#examineReceptacle.feedback#")):
        if known[name][1] != reused:
            raise UnsupportedGame(f"Expected {name} to be answered by {reused}, got {known[name][1]}; {_OTHER_BACKEND}")
    return Phrases(commands, answers, {name: _cases(rules, name, cases) for name, cases in _RULES.items()})


def _cases(rules: Mapping[str, Any], name: str, expected: _Cases) -> tuple[str, ...]:
    """Format strings of the rule ``name``, whose conditions must be the expected ones."""
    cases = rules.get(name)
    if not isinstance(cases, list) or not all(isinstance(c, dict) and isinstance(c.get("rhs"), str) for c in cases):
        raise UnsupportedGame(f"Expected the grammar to have the rule {name!r} with its cases; {_OTHER_BACKEND}")
    conditions = [" ".join(str(c.get("condition", "")).split()) for c in cases]
    if conditions != [condition for condition, _ in expected]:
        raise UnsupportedGame(f"Expected ALFWorld's own cases of the rule {name!r}, got others; {_OTHER_BACKEND}")
    return tuple(
        _format(case["rhs"], allowed, f"the rule {name!r}") for case, (_, allowed) in zip(cases, expected, strict=True)
    )


def _format(text: str, allowed: Mapping[str, str], where: str) -> str:
    """``text`` as a format string: each placeholder becomes what ``allowed`` says for it.

    textworld's parser eats white space and ``//`` comments at the start of a text or line, which is why ALFWorld's help
    begins without its empty line; the same happens here, or the game is refused.
    """
    text = text.replace("\\n", "\n").lstrip()
    parts: list[str] = []
    at = 0
    for match in _PLACEHOLDER.finditer(text):
        parts.append(_literal(text, at, match.start(), where))
        if match.group() not in allowed:
            raise UnsupportedGame(f"Expected one of {sorted(allowed)} in {where}, got {match.group()!r}")
        parts.append(allowed[match.group()])
        at = match.end()
    parts.append(_literal(text, at, len(text), where))
    return "".join(parts)


def _literal(text: str, start: int, stop: int, where: str) -> str:
    literal = text[start:stop]
    bad = sorted(_UNSAFE.intersection(literal))
    if bad or literal.startswith("//"):
        raise UnsupportedGame(f"Expected plain words in {where}, got {bad or '//'} in it; {_OTHER_BACKEND}")
    return literal


def _read(text: str) -> _Grammar:
    """Actions (lower-case name to command and answer) and rules of a grammar file."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"Expected a grammar of at most {MAX_CHARACTERS} characters, got {len(text)}")
    tokens = _tokens(text)
    actions: dict[str, tuple[str, str]] = {}
    rules: dict[str, Any] = {}
    at = 0
    while at < len(tokens):
        if tokens[at] == "action" and tokens[at + 2 : at + 3] == ["{"]:
            end = tokens.index("}", at) if "}" in tokens[at:] else -1
            fields = _fields(tokens[at + 3 : end])
            if end < 0 or "template" not in fields or "feedback" not in fields:
                raise InputError(f"Expected a template and a feedback in action {tokens[at + 1]!r} of the grammar")
            actions[tokens[at + 1].lower()] = (fields["template"][1:-1], fields["feedback"][1:-1])
            rules.update(_json_rules(fields.get("grammar", '"""{}"""'), comments=True))
            at = end + 1
        else:
            fields = _fields(tokens[at : at + 4])
            if "grammar" not in fields:
                raise InputError(f"Expected `action` or `grammar` in the grammar, got {tokens[at][:40]!r}")
            rules.update(_json_rules(fields["grammar"], comments=False))
            at += 4
    return actions, rules


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise InputError(f"Expected a grammar in textworld's twl2 form, got {text[at : at + 20]!r} in it")
        at = match.end()
        token = match.group()
        if not token.isspace() and not token.startswith("#"):
            tokens.append(token)
    return tokens


def _fields(tokens: Sequence[str]) -> dict[str, str]:
    """``name :: value ;`` entries."""
    if len(tokens) % 4 or any(tokens[i + 1] != "::" or tokens[i + 3] != ";" for i in range(0, len(tokens), 4)):
        raise InputError(f"Expected `name :: value;` entries in the grammar, got {' '.join(tokens)[:80]!r}")
    return dict(zip(tokens[::4], tokens[2::4], strict=True))


def _json_rules(block: str, *, comments: bool) -> dict[str, Any]:
    text = textwrap.dedent(block[3:-3])
    if comments:
        text = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    try:
        rules = json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: not JSON, or a number too long to read
        raise InputError(f"Expected the grammar's rules to be JSON, could not read them: {error}") from error
    if not isinstance(rules, dict):
        raise InputError(f"Expected the grammar's rules to be a JSON object, got {type(rules).__name__}")
    return rules


def names(ids: Iterable[str]) -> dict[str, str]:
    """ALFWorld's name for every id that occurs in a start state: ``cup_bar_…`` becomes ``cup 2``.

    Numbers count down in the order of the ids; an id without ``_bar_`` (a type, the agent) keeps its text and gets a
    space, as alfworld does it.
    """
    ordered = sorted(set(ids))
    kinds = {i: _kind(i) for i in ordered}
    left = Counter(kind for kind in kinds.values() if kind is not None)
    named: dict[str, str] = {}
    for name, kind in kinds.items():
        if kind is None:
            named[name] = _plain(name) + " "
        else:
            named[name] = f"{_plain(kind)} {left[kind]}"
            left[kind] -= 1
    return named


def _kind(name: str) -> str | None:
    """The part of an id that is counted; ``basin`` anywhere in the id is part of it."""
    kind, bar, _ = name.partition("_bar_")
    if not bar:
        return None
    return kind + "basin" if "basin" in name else kind


def _plain(text: str) -> str:
    for word, sign in (("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ",")):
        text = text.replace(word, sign)
    return text
