"""TextWorld's texts taken apart: the steps that a task names, commands, answers, recipes.

TextWorld words its tasks by a grammar ("After that, make an effort to go west. Then, retrieve the coin from the floor of
the chamber."). :func:`parse_task` reads every wording of single steps of its house grammar into :class:`Step`; sentences
that it does not know, such as blended ones, are passed over. Promised: linear time, no exception for any text, None for
texts that are too long. Left to you: games that state their goal in words of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

MAX_TASK: Final = 32_768
"""Longer texts are no task."""
MAX_ANSWER: Final = 16_384
"""Characters of an answer that are looked at."""
MAX_STEPS: Final = 1024
"""Sentences of a task that are read."""
_MAX_COMMAND: Final = 256
_MAX_SENTENCE: Final = 512
DIRECTIONS: Final = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}
BACK: Final = {"north": "south", "south": "north", "east": "west", "west": "east"}
MEAL: Final = "meal"


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do, as a task names it or as a command says it. An unknown command has ``verb == ""``."""

    verb: str
    """go, take, put, drop, open, close, unlock, lock, eat, cook, cut, examine, look, inventory or prepare."""
    thing: str = ""
    """What it is done to; the direction for ``go``."""
    other: str = ""
    """Where it is put, what it is taken from, unlocked, cut or cooked with; "" when that is not said."""
    how: str = ""
    """dice, slice or chop for ``cut``; roast, grill or fry for ``cook`` where a recipe says so."""


@dataclass(frozen=True, slots=True)
class Quest:
    """What a task asks for."""

    steps: tuple[Step, ...] = ()
    """The steps that it names, in order."""
    way: bool = False
    """Whether the steps name the way to go."""
    cooking: bool = False
    """Whether a cookbook tells the rest."""
    fetch: str = ""
    """The one thing to fetch, where the task is nothing else than to go and take it."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a cookbook says."""

    ingredients: frozenset[str]
    steps: tuple[Step, ...]
    """What is to be cut and cooked, and how."""


_IN_ROOM: Final = re.compile(r" (?:in|within|inside|that's in) the .*$")
_GO: Final = re.compile(
    r"(?:go to the|go through the|take a trip|go|head|venture|travel|move)(?: through the)? (north|south|east|west)(?: .*)?"
)
_THE: Final = r"the ([^,]{1,120}?)"
_PATTERNS: Final = tuple(
    (verb, re.compile(pattern))
    for verb, pattern in (
        ("unlock*", rf"insert {_THE} into {_THE}'s lock to unlock it"),
        ("lock*", rf"(?:insert|put|place|deposit) {_THE} into {_THE} to lock it"),
        ("unlock", rf"unlock {_THE}(?: with {_THE})?"),
        ("unlock", rf"(?:that )?{_THE} is unlocked(?: with {_THE})?"),
        ("lock", rf"lock {_THE}(?: with {_THE})?"),
        ("lock", rf"(?:that )?{_THE} is locked(?: with {_THE})?"),
        ("open", rf"open {_THE}"),
        ("open", rf"(?:that )?{_THE} is (?:opened|open|wide open|ajar)"),
        ("close", rf"close {_THE}"),
        ("close", rf"(?:that )?{_THE} is (?:closed|shut)"),
        ("take", rf"(?:take|retrieve|recover|pick[ -]up|lift) {_THE}(?: (?:from|in|that's in) {_THE})?"),
        ("drop", rf"(?:place|drop|ditch|throw|toss|deposit) {_THE} on the floor.*"),
        ("put", rf"(?:insert|put|place|deposit|sit|rest) {_THE} (?:into|inside|on) {_THE}"),
        ("eat", rf"eat {_THE}"),
        ("examine", rf"examine {_THE}"),
    )
)
_STARTS: Final = re.compile(
    r"\b(?:unlock|lock|open|close|take|retrieve|recover|pick[ -]up|lift|place|drop|ditch|throw|toss|deposit|insert|put|sit|"
    r"rest|eat|examine|go|head|venture|travel|move|that the)\b"
)
_STARTS_TRIED: Final = 8
_MISSING: Final = re.compile(r"It's only missing a grilled ([^.]{1,80})\.")
_COOKBOOK: Final = "Check the cookbook"


def parse_task(text: str) -> Quest | None:
    """What a task asks for; None for a text that is too long to be one."""
    return _parse_task(text) if len(text) <= MAX_TASK else None


@lru_cache(maxsize=1024)
def _parse_task(text: str) -> Quest:
    if _COOKBOOK in text:
        return Quest(cooking=True)
    missing = _MISSING.search(text)
    if missing:
        name = missing[1].lower()
        return Quest((Step("take", name), Step("put", name, "stove")))
    sentences = re.split(r"[.!]\s", text.strip().replace("\n", " ") + " ", maxsplit=MAX_STEPS)
    steps = tuple([step for step in map(_step, sentences) if step is not None])
    fetch = steps[-1].thing if steps and [s.verb for s in steps if s.verb not in ("go", "open")] == ["take"] else ""
    return Quest(steps, any(step.verb == "go" for step in steps), fetch=fetch)


def _step(sentence: str) -> Step | None:
    """The step that a sentence asks for: what comes last in it, behind all courtesies."""
    clause = sentence[-_MAX_SENTENCE:].lower().rpartition(",")[2].strip()
    for start in islice(_STARTS.finditer(clause), _STARTS_TRIED):
        rest = clause[start.start() :]
        went = _GO.fullmatch(rest)
        if went:
            return Step("go", went[1])
        for verb, pattern in _PATTERNS:
            found = pattern.fullmatch(rest)
            if found:
                first, second = [_name(group) for group in (*found.groups(), "")[:2]]
                return Step(verb[:-1], second, first) if verb.endswith("*") else Step(verb, first, second)
    return None


def _name(text: str | None) -> str:
    """A thing without the room that it is in."""
    return _IN_ROOM.sub("", text or "")


_GOES: Final = {word: way for way in DIRECTIONS for word in (way, way[0])}
_BARE: Final = {"look": "look", "l": "look", "inventory": "inventory", "i": "inventory"}
_ONE: Final = {"drop": "drop", "open": "open", "close": "close", "eat": "eat", "drink": "eat"}
_LOOKS: Final = {"examine": "examine", "x": "examine", "read": "examine"}
_TWO: Final = {
    "take": ("take", " from "),
    "get": ("take", " from "),
    "put": ("put", " on "),
    "insert": ("put", " into "),
    "unlock": ("unlock", " with "),
    "lock": ("lock", " with "),
    "cook": ("cook", " with "),
    "dice": ("cut", " with "),
    "slice": ("cut", " with "),
    "chop": ("cut", " with "),
}
UNKNOWN: Final = Step("")


def parse_command(text: str) -> Step:
    """A command taken apart; ``verb == ""`` for one that is none of TextWorld's."""
    return _parse_command(text) if len(text) <= _MAX_COMMAND else UNKNOWN


@lru_cache(maxsize=16_384)
def _parse_command(text: str) -> Step:
    words = text.lower().strip().removesuffix(".").split()
    verb, rest = (words[0], words[1:]) if words else ("", [])
    if rest[:1] == ["the"]:
        del rest[0]
    name = " ".join(rest)
    if verb in _BARE and not rest:
        return Step(_BARE[verb])
    if (verb == "go" and name in _GOES) or (verb in _GOES and not rest):
        return Step("go", _GOES[name if rest else verb])
    if verb == "prepare":
        return Step("prepare", name)
    if verb in _ONE or verb in _LOOKS:
        return Step((_ONE | _LOOKS)[verb], name) if name else UNKNOWN
    if verb in _TWO:
        kind, word = _TWO[verb]
        thing, _, other = name.partition(word)
        return Step(kind, thing, other.removeprefix("the "), verb if kind == "cut" else "")
    return UNKNOWN


_HEADER: Final = re.compile(r"-= ([^\n=]{1,80}) =-")
_DONE: Final = {
    "take": ("You pick up ", "You take "),
    "put": ("You put ",),
    "drop": ("You drop ",),
    "open": ("You open ",),
    "close": ("You close ",),
    "unlock": ("You unlock ",),
    "lock": ("You lock ",),
    "eat": ("You eat ", "You drink "),
    "cook": ("You roast", "You grill", "You fried", "You fry", "You burn"),
    "cut": ("You dice ", "You slice ", "You chop "),
    "prepare": ("Adding ",),
    "inventory": ("You are carrying",),
}
_REFUSALS: Final = ("You can't see any such thing", "That's not a verb", "I only understood", "What do you want to")


def room_of(answer: str) -> str:
    """The room whose description the text shows last; "" for none."""
    found = ""
    for header in _HEADER.finditer(answer[:MAX_ANSWER]):
        found = header[1]
    return found


def done(command: Step, answer: str) -> bool:
    """Whether an answer says that the command did what it is for."""
    if command.verb in ("go", "look"):
        return answer.lstrip().startswith("-= ") or "\n-= " in answer[:MAX_ANSWER]
    start = answer[:MAX_ANSWER].lstrip()
    if command.verb == "examine":
        return bool(start) and not start.startswith(_REFUSALS)
    return start.startswith(_DONE.get(command.verb, ("\0",)))


def reveals(answer: str) -> bool:
    """Whether opening brought something to light: a container, and no door."""
    return ", revealing " in answer[:MAX_ANSWER]


def burns(answer: str) -> bool:
    """Whether cooking went too far."""
    return answer[:MAX_ANSWER].lstrip().startswith("You burn")


def carried(answer: str) -> tuple[str, ...]:
    """The things that an inventory lists, without their articles."""
    _, found, rest = answer[:MAX_ANSWER].partition("You are carrying: ")
    if not found:
        return ()
    items = rest.partition(".")[0].replace(" and ", ", ").split(", ")
    return tuple(
        [item.partition(" ")[2].lower() if item.startswith(("a ", "an ", "some ")) else item for item in items]
    )


_CUTS: Final = ("dice", "slice", "chop")
_COOKS: Final = ("roast", "grill", "fry")


def parse_recipe(text: str) -> Recipe | None:
    """The recipe that an answer shows; None for none."""
    return _parse_recipe(text) if "Directions:" in text and len(text) <= MAX_ANSWER else None


@lru_cache(maxsize=1024)
def _parse_recipe(text: str) -> Recipe | None:
    _, found, rest = text.partition("Ingredients:")
    listed, told, directions = rest.partition("Directions:")
    if not found or not told:
        return None
    ingredients = frozenset(line.strip().lower() for line in listed.split("\n") if line.strip())
    steps = []
    for line in directions.split("\n"):
        verb, _, thing = line.strip().lower().partition(" the ")
        if verb in _CUTS or verb in _COOKS:
            steps.append(Step("cut" if verb in _CUTS else "cook", thing, how=verb))
    return Recipe(ingredients, tuple(steps))


COOKED_WITH: Final = {"oven": "roast", "stove": "fry", "bbq": "grill"}
"""What cooking with a thing does."""
