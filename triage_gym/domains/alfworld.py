"""What ALFWorld's sentences mean: goals, commands and observations as facts, from text alone.

One place for this knowledge, used by the rule judge, the searching expert and the features of the built-in policy. Both
grammars are read: 0.3 (``put X in/on Y``, "You arrive at loc 12.") and 0.4 (``move X to Y``, "You arrive at shelf 1.").
Parsing is by string operations, linear in the length of the text, and cached; nothing here knows an environment or a
game file. A text that is none of ALFWorld's sentences gives ``None`` or an empty ``verb``/``kind``, never an error, since
agents may send anything.

The sentences are those of ``alfred.twl2`` and ``goal_library.py`` in alfworld 0.4.2 and of the game files of json_2.1.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

Treatment = Literal["clean", "heat", "cool"]
Verb = Literal[
    "",
    "go",
    "open",
    "close",
    "take",
    "put",
    "clean",
    "heat",
    "cool",
    "use",
    "slice",
    "examine",
    "look",
    "inventory",
    "help",
]
Kind = Literal[
    "", "nothing", "room", "arrive", "open", "close", "take", "put", "clean", "heat", "cool", "use", "slice",
    "receptacle", "object", "facing", "inventory",
]  # fmt: skip

TASK_TYPES: Final = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""ALFWorld's six task types, in ALFWorld's order."""
RECEPTACLE_TYPES: Final = (
    "armchair", "bathtubbasin", "bed", "bowl", "box", "cabinet", "cart", "coffeemachine", "coffeetable", "countertop",
    "cup", "desk", "diningtable", "drawer", "dresser", "fridge", "garbagecan", "handtowelholder", "laundryhamper",
    "microwave", "mug", "ottoman", "paintinghanger", "pan", "plate", "pot", "safe", "shelf", "sidetable", "sinkbasin",
    "sofa", "stoveburner", "toaster", "toilet", "toiletpaperhanger", "towelholder", "tvstand",
)  # fmt: skip
"""Every type that can hold something, sorted."""
OBJECT_TYPES: Final = (
    "alarmclock", "apple", "baseballbat", "basketball", "book", "bowl", "box", "bread", "butterknife", "candle", "cd",
    "cellphone", "cloth", "creditcard", "cup", "dishsponge", "egg", "fork", "glassbottle", "handtowel", "kettle",
    "keychain", "knife", "ladle", "laptop", "lettuce", "mug", "newspaper", "pan", "papertowel", "papertowelroll", "pen",
    "pencil", "peppershaker", "pillow", "plate", "plunger", "pot", "potato", "remotecontrol", "saltshaker", "soapbar",
    "soapbottle", "spatula", "spoon", "spraybottle", "statue", "tennisracket", "tissuebox", "toiletpaper",
    "toiletpaperroll", "tomato", "towel", "vase", "watch", "wateringcan", "winebottle",
)  # fmt: skip
"""Every type that can be picked up, sorted."""
LAMP_TYPES: Final = ("desklamp", "floorlamp")
TREATMENT_PLACE: Final[dict[Treatment, str]] = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
"""Receptacle type that each treatment needs; the agent must be there with the object in hand, the door may be shut."""
NOTHING_HAPPENS: Final = "Nothing happens."
"""The answer to every command that is not admissible."""
TASK_MARK: Final = "Your task is to: "

MAX_COMMAND: Final = 256
"""Longer texts are no ALFWorld command; they are not parsed and not kept in a cache."""
MAX_OBSERVATION: Final = 16_384
"""Longer texts are no ALFWorld observation."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a task asks for."""

    task_type: str
    """ALFRED's name, such as ``pick_heat_then_place_in_recep``."""
    object: str
    """Type of the object to bring or to look at."""
    receptacle: str | None = None
    """Type of the receptacle that it must end in; None for look_at_obj_in_light."""
    treatment: Treatment | None = None
    """What must be done to the object first."""
    count: int = 1
    """How many different objects must be in one receptacle: 2 for pick_two_obj_and_place."""
    lamp: str | None = None
    """Type of the lamp to switch on, for look_at_obj_in_light."""

    @property
    def treatment_place(self) -> str | None:
        """Receptacle type where the treatment is done, or None."""
        return None if self.treatment is None else TREATMENT_PLACE[self.treatment]


@dataclass(frozen=True, slots=True)
class Command:
    """A command, taken apart. An unknown one has ``verb == ""``."""

    verb: Verb
    object: str = ""
    """Name of the first thing, such as ``"cup 2"``; for ``examine`` it may be a receptacle."""
    receptacle: str = ""
    """Name of the receptacle; for ``slice`` the knife."""
    object_type: str = ""
    receptacle_type: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """What an answer says. An unknown one has ``kind == ""``."""

    kind: Kind
    """``arrive``, ``open``, … after a command; ``receptacle``/``object`` for examine; ``facing``/``room`` for look."""
    place: str = ""
    """Receptacle that the text is about, such as ``"fridge 1"``."""
    object: str = ""
    """Object that was taken, put, treated, used or examined."""
    closed: bool = False
    """The receptacle is said to be closed, so its contents are not shown."""
    listed: tuple[str, ...] | None = None
    """Names shown, in order: contents, things on the floor, receptacles of the room, what is carried. None: no list."""


_TEMPLATES: Final[tuple[tuple[tuple[str, ...], str, Treatment | None, int], ...]] = (
    (("put", "a", "{obj}", "in", "{recep}"), "pick_and_place_simple", None, 1),
    (("put", "some", "{obj}", "on", "{recep}"), "pick_and_place_simple", None, 1),
    (("put", "a", "clean", "{obj}", "in", "{recep}"), "pick_clean_then_place_in_recep", "clean", 1),
    (("clean", "some", "{obj}", "and", "put", "it", "in", "{recep}"), "pick_clean_then_place_in_recep", "clean", 1),
    (("put", "a", "hot", "{obj}", "in", "{recep}"), "pick_heat_then_place_in_recep", "heat", 1),
    (("heat", "some", "{obj}", "and", "put", "it", "in", "{recep}"), "pick_heat_then_place_in_recep", "heat", 1),
    (("put", "a", "cool", "{obj}", "in", "{recep}"), "pick_cool_then_place_in_recep", "cool", 1),
    (("cool", "some", "{obj}", "and", "put", "it", "in", "{recep}"), "pick_cool_then_place_in_recep", "cool", 1),
    (("put", "two", "{obj}", "in", "{recep}"), "pick_two_obj_and_place", None, 2),
    (("find", "two", "{obj}", "and", "put", "them", "in", "{recep}"), "pick_two_obj_and_place", None, 2),
    (("look", "at", "{obj}", "under", "the", "{lamp}"), "look_at_obj_in_light", None, 1),
    (("examine", "the", "{obj}", "with", "the", "{lamp}"), "look_at_obj_in_light", None, 1),
)
_SLOTS: Final = {
    "{obj}": frozenset(OBJECT_TYPES),
    "{recep}": frozenset(RECEPTACLE_TYPES),
    "{lamp}": frozenset(LAMP_TYPES),
}


def parse_task(text: str) -> Goal | None:
    """The goal that an instruction in words states.

    Args:
        text: The bare instruction, or a first observation that holds it after "Your task is to: ".

    Returns:
        The goal, or None when the text is none of the twelve sentences of the six ALFRED task types: goals written by
        people, sliced objects and movable receptacles.
    """
    at = text.find(TASK_MARK)
    if at >= 0:
        text = text[at + len(TASK_MARK) :].partition("\n")[0]
    return _parse_task(text) if len(text) <= MAX_COMMAND else None


@lru_cache(maxsize=8192)
def _parse_task(text: str) -> Goal | None:
    words = tuple(text.strip().rstrip(".").lower().split())
    for template, task_type, treatment, count in _TEMPLATES:
        if len(template) != len(words):
            continue
        found: dict[str, str] = {}
        for want, word in zip(template, words, strict=True):
            if word in _SLOTS.get(want, ()):
                found[want] = word
            elif word != want:
                break
        else:
            return Goal(task_type, found["{obj}"], found.get("{recep}"), treatment, count, found.get("{lamp}"))
    return None


@lru_cache(maxsize=8192)
def split_name(name: str) -> tuple[str, int]:
    """Type and number of a thing: ``"cup 2"`` is ``("cup", 2)``; a name without a number has number 0."""
    kind, _, number = name.strip().rpartition(" ")
    if kind and number.isascii() and number.isdigit():
        return kind, int(number)
    return name.strip(), 0


_PLACE_VERBS: Final[dict[str, Verb]] = {"open": "open", "close": "close"}
_THING_VERBS: Final[dict[str, Verb]] = {"use": "use", "examine": "examine"}
_WITH_VERBS: Final[dict[str, Verb]] = {"clean": "clean", "heat": "heat", "cool": "cool", "slice": "slice"}
_PUT_WORDS: Final = (" in/on ", " into ", " in ", " on ")
_BARE: Final[dict[str, Verb]] = {"look": "look", "inventory": "inventory", "help": "help"}
_UNKNOWN_COMMAND: Final = Command("")


def parse_command(text: str) -> Command:
    """A command of either grammar, taken apart.

    ``put X in/on Y`` and ``move X to Y`` are both ``put``. A text that is no ALFWorld command, or longer than
    :data:`MAX_COMMAND`, has ``verb == ""``.
    """
    return _parse_command(text) if len(text) <= MAX_COMMAND else _UNKNOWN_COMMAND


@lru_cache(maxsize=65_536)
def _parse_command(text: str) -> Command:
    text = text.strip()
    if text in _BARE:
        return Command(_BARE[text])
    verb, _, rest = text.partition(" ")
    if verb == "go" and rest.startswith("to "):
        return _command("go", "", rest[3:])
    if verb in _PLACE_VERBS:
        return _command(_PLACE_VERBS[verb], "", rest)
    if verb in _THING_VERBS:
        return _command(_THING_VERBS[verb], rest, None)
    if verb == "take":
        return _two("take", rest, " from ")
    if verb == "move":
        return _two("put", rest, " to ")
    if verb == "put":
        return next((c for word in _PUT_WORDS if (c := _two("put", rest, word)).verb), _UNKNOWN_COMMAND)
    if verb in _WITH_VERBS:
        return _two(_WITH_VERBS[verb], rest, " with ")
    return _UNKNOWN_COMMAND


def _two(verb: Verb, rest: str, word: str) -> Command:
    first, found, second = rest.partition(word)
    return _command(verb, first, second) if found else _UNKNOWN_COMMAND


def _command(verb: Verb, thing: str, receptacle: str | None) -> Command:
    """A command of these two names; unknown when a name that it needs is empty (None: needs no receptacle)."""
    thing, place = thing.strip(), (receptacle or "").strip()
    if not (thing or place) or (receptacle is not None and not place):
        return _UNKNOWN_COMMAND
    if not thing and verb not in ("go", "open", "close"):
        return _UNKNOWN_COMMAND
    return Command(verb, thing, place, split_name(thing)[0], split_name(place)[0])


_UNKNOWN_OBSERVATION: Final = Observation("")
_ROOM: Final = "Looking quickly around you, you see "
_DID: Final[tuple[tuple[str, Kind, str], ...]] = (
    ("You pick up the ", "take", " from the "),
    ("You move the ", "put", " to the "),
    ("You heat the ", "heat", " using the "),
    ("You clean the ", "clean", " using the "),
    ("You cool the ", "cool", " using the "),
    ("You sliced the ", "slice", " with the "),
)
_ONE: Final[tuple[tuple[str, Kind], ...]] = (
    ("You turn on the ", "use"),
    ("You turn off the ", "use"),
    ("You don't see any switch on the ", "use"),
    ("There's nothing special about ", "object"),
)


def parse_observation(text: str) -> Observation:
    """What an answer of either grammar says; ``kind == ""`` for a text that is none of ALFWorld's sentences.

    Words after the sentence (such as "You won!") do no harm.
    """
    return _parse_observation(text) if len(text) <= MAX_OBSERVATION else _UNKNOWN_OBSERVATION


@lru_cache(maxsize=65_536)
def _parse_observation(text: str) -> Observation:
    text = text.strip()
    if text.startswith("Nothing happens"):
        return Observation("nothing")
    if text.startswith("You arrive at "):
        where, _, rest = text[14:].partition(". ")
        shown = _receptacle(rest, "arrive")
        return shown if shown is not None else Observation("arrive", where.strip(" ."))
    if text.startswith("You open the "):
        where, _, rest = text[13:].partition(". ")
        shown = _receptacle(rest, "open")
        return shown if shown is not None else Observation("open", where.strip(" ."))
    if text.startswith("You close the "):
        return Observation("close", _until_stop(text[14:]))
    shown = _receptacle(text, "receptacle")
    return shown if shown is not None else _parse_other(text)


def _parse_other(text: str) -> Observation:
    """Answers that show no receptacle."""
    if text.startswith(("Pickup", "Put")):  # some answers of the grammar begin with the name of their rule
        text = text.partition(": ")[2]
    for start, kind, word in _DID:
        if text.startswith(start):
            thing, _, place = _until_stop(text[len(start) :]).partition(word)
            return Observation(kind, place.strip(), thing.strip())
    if text.startswith("You put the "):
        rest = _until_stop(text[12:])
        thing, _, place = rest.partition(" in/on the ")
        if not place:
            thing, _, place = rest.partition(" in the ")
        return Observation("put", place.strip(), thing.strip())
    for start, kind in _ONE:
        if text.startswith(start):
            return Observation(kind, object=_until_stop(text[len(start) :]))
    if text.startswith("You are carrying: "):
        return Observation("inventory", listed=_names(text[18:]))
    if text.startswith("You are not carrying"):
        return Observation("inventory", listed=())
    if text.startswith("You are facing the "):
        place, _, rest = text[19:].partition(". Next to it, you see ")
        return Observation("facing", place.partition(",")[0].strip(), listed=_names(rest))
    if _ROOM in text:
        return Observation("room", listed=_names(text.partition(_ROOM)[2]))
    if text.startswith("This "):
        return _examined(text)
    return _UNKNOWN_OBSERVATION


def _examined(text: str) -> Observation:
    """The answer to ``examine <object in hand>``: "This is a hot and clean cup 1.", "This desklamp 1 is on."."""
    first = _until_stop(text)
    if first.endswith((" is on", " is off")):
        return Observation("object", object=first[5:].rpartition(" is ")[0])
    return Observation("object", object=" ".join(first.split()[-2:]))


def _receptacle(text: str, kind: Kind) -> Observation | None:
    """What the sentence about a receptacle shows: "On the …, you see …", "The … is open. In it, …", "… is closed."."""
    if text.startswith("On the "):
        place, found, rest = text[7:].partition(", you see ")
        return Observation(kind, place, listed=_names(rest)) if found else None
    if text.startswith("The "):
        place, found, rest = text[4:].partition(" is open. In it, you see ")
        if found:
            return Observation(kind, place, listed=_names(rest))
        place, found, _ = text[4:].partition(" is closed")
        return Observation(kind, place, closed=True) if found else None
    return None


def _until_stop(text: str) -> str:
    return text.partition(".")[0].strip()


def _names(text: str) -> tuple[str, ...]:
    """Names in "a cup 2, a egg 1, and a mug 3." up to the full stop; "nothing" is the empty list."""
    listing = text.partition(".")[0]
    if listing.strip() in ("nothing", ""):
        return ()
    found = []
    for item in listing.split(", "):
        item = item.strip().removeprefix("and ")
        article, _, name = item.partition(" ")
        found.append(name.strip() if article in ("a", "an") else item)
    return tuple(found)
