"""What a household's things are called in every sentence of its grammar, filled in when first needed.

Promises: the text of textworld's interpreter, character for character, with bounded memory. Leaves to you: when to say
what (:mod:`~triage_gym.envs.alfworld.engine`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from triage_gym.envs.alfworld.text import Phrases

MAX_VIEWS: Final = 128
"""Descriptions of receptacles with their contents that one household keeps."""
MAX_ENTRIES: Final = 96
"""Command lists that one household keeps."""

_HOLE: Final = "\0"


class Wording:
    """The sentences of one household; objects, receptacles and locations go by their numbers.

    Args:
        phrases: The household's grammar.
        objects: Names of the objects.
        receptacles: Names of the receptacles.
        locations: Names of the locations.
        location_of: Location of each receptacle, -1 for none.
        inside: For each object that is a container, the names of the things in it.
    """

    __slots__ = (
        "_arrivals",
        "_inside",
        "_views",
        "_walks",
        "entries",
        "location_of",
        "locations",
        "objects",
        "phrases",
        "receptacles",
        "walks",
    )

    def __init__(
        self,
        phrases: Phrases,
        objects: Sequence[str],
        receptacles: Sequence[str],
        locations: Sequence[str],
        location_of: Sequence[int],
        inside: Mapping[int, tuple[str, ...]],
    ) -> None:
        self.phrases = phrases
        self.objects = objects
        self.receptacles = receptacles
        self.locations = locations
        self.location_of = location_of
        self._inside = inside
        self._arrivals: dict[int, list[str]] = {}
        self._views: dict[tuple[int, int], str] = {}
        self._walks: dict[int, list[str]] = {}
        goto = phrases.commands["gotolocation"]
        self.walks = {goto.format(r=name): r for r, name in enumerate(receptacles) if location_of[r] >= 0}
        """Every command that walks, and the receptacle it walks to."""
        self.entries: dict[Any, Any] = {}
        """Commands by what they depend on; the engine fills it, up to :data:`MAX_ENTRIES`."""

    def command(self, action: str, **names: str) -> str:
        """The command of ``action`` for things called ``names`` (``o``, ``r``, ``k``)."""
        return self.phrases.commands[action].format(**names)

    def always(self, location: int) -> list[str]:
        """Commands that are admissible at ``location`` whatever the state, sorted."""
        found = self._walks.get(location)
        if found is None:
            walks = [c for c, r in self.walks.items() if self.location_of[r] != location]
            free = [self.phrases.commands[a] for a in ("look", "inventory", "help") if a in self.phrases.commands]
            found = self._walks[location] = sorted({*walks, *free})
        return found

    def view(self, receptacle: int, closed: bool, openable: bool, contents: int) -> str:
        """What is seen at a receptacle that holds the objects of the mask ``contents``."""
        kinds = self.phrases.answers["examinereceptacle"]
        name = self.receptacles[receptacle]
        if closed:
            return kinds[1].format(r=name)
        key = (receptacle, contents)
        found = self._views.get(key)
        if found is None:
            if len(self._views) >= MAX_VIEWS:
                self._views.clear()
            listed = self.list_objects(contents)
            found = self._views[key] = kinds[0 if openable else 2].format(r=name, contents=listed)
        return found

    def list_objects(self, mask: int) -> str:
        """``a cup 1, a mug 2, and a pan 1``."""
        names: list[str] = []
        while mask:
            low = mask & -mask
            names.append("a " + self.objects[low.bit_length() - 1])
            mask ^= low
        return self.phrases.listing(names)

    def arrive(self, receptacle: int, view: str) -> str:
        """The answer to walking to a receptacle that looks like ``view``."""
        parts = self._arrivals.get(receptacle)
        if parts is None:
            place = self.locations[self.location_of[receptacle]]
            said = self.phrases.answers["gotolocation"][0]
            parts = said.format(r=self.receptacles[receptacle], l=place, view=_HOLE).split(_HOLE)
            self._arrivals[receptacle] = parts
        return view.join(parts)

    def say(self, action: str, case: int = 0, **names: str) -> str:
        """The answer to ``action`` in the grammar's ``case``, with the names filled in."""
        return self.phrases.answers[action][case].format(**names)

    def look(self, receptacles: Sequence[int], on_the_floor: Sequence[str]) -> str:
        """The answer to looking around at a location with ``receptacles``; without any, nothing is seen."""
        near, far = self.phrases.answers["look"]
        rules = self.phrases.rules
        if not receptacles:
            return far.format(receptacles=rules["list_appliances"][1])
        facing = self.phrases.listing([self.receptacles[r] for r in receptacles])
        things = [rules["overview(o)"][0].format(o=name) for name in on_the_floor]
        some, none = rules["list_objects_on_the_floor"]
        floor = some.format(objects=self.phrases.listing(things)) if things else none
        return near.format(facing=rules["look-variations"][0].format(receptacles=facing), floor=floor)

    def intro(self, receptacles_here: Sequence[int]) -> str:
        """The first observation: the room and the task."""
        rules = self.phrases.rules
        if receptacles_here:
            seen = self.look(receptacles_here, ())
        else:
            all_of_them = [r for r, x in enumerate(self.location_of) if x >= 0]
            listed = [rules["overview(r)"][0].format(r=self.receptacles[r]) for r in all_of_them]
            some, none = rules["list_appliances"]
            room = some.format(receptacles=self.phrases.listing(listed)) if listed else none
            seen = self.phrases.answers["look"][1].format(receptacles=room)
        return rules["intro"][0].format(look=seen, task=rules["task"][0])

    def container(self, o: int) -> str | None:
        """What examining the container ``o`` says; None for an object that is no container."""
        names = self._inside.get(o)
        if names is None:
            return None
        inside = self.phrases.listing(["a " + name for name in names])
        return self.phrases.answers["examineobject"][0].format(o=self.objects[o], inside=inside)
