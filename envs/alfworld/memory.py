"""What a reader of ALFWorld's text knows: where it is, what it holds, what it saw lying where.

Built from the first observation and then from (command, answer) pairs alone; no game, no engine. Commands of anyone may
be fed to it, admissible or not: an answer "Nothing happens." teaches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from triage_gym.domains.alfworld import Command, Goal, parse_command, parse_observation, parse_task, split_name


class Memory:
    """A running reading of one episode.

    Args:
        observation: The first observation: the list of receptacles and the task.
        task: The instruction, when the observation does not hold it.
    """

    def __init__(self, observation: str, task: str = "") -> None:
        self.goal: Goal | None = parse_task(observation) or parse_task(task)
        self.places: tuple[str, ...] = parse_observation(observation).listed or ()
        """Receptacles of the room, in the order of the text."""
        self.contents: dict[str, list[str]] = {}
        """What each place that was seen holds now; a place that is missing was never seen."""
        self.closed: set[str] = set()
        """Places that were last seen closed."""
        self.holding: str = ""
        self.treated: dict[str, set[str]] = {}
        """Object to the treatments that still hold for it."""
        self.lit: set[str] = set()
        """Lamps that were switched on."""

    def update(self, command: str, observation: str) -> None:
        """Take in what ``command`` was answered with."""
        seen = parse_observation(observation)
        if seen.kind in ("", "nothing"):
            return
        did = parse_command(command)
        if seen.kind in ("arrive", "open", "receptacle"):
            self._look_at(seen.place or did.receptacle, seen.closed, seen.listed)
        elif seen.kind == "close":
            self.closed.add(seen.place)
        elif seen.kind == "inventory":
            self.holding = seen.listed[0] if seen.listed else ""
        else:
            self._change(did)

    def _look_at(self, place: str, closed: bool, listed: Sequence[str] | None) -> None:
        if closed:
            self.closed.add(place)
            return
        self.closed.discard(place)
        if listed is not None:
            self.contents[place] = list(listed)

    def _change(self, did: Command) -> None:
        if did.verb == "take":
            self.holding = did.object
            held = self.contents.get(did.receptacle, [])
            if did.object in held:
                held.remove(did.object)
        elif did.verb == "put":
            self.holding = ""
            self.contents.setdefault(did.receptacle, []).append(did.object)
        elif did.verb in ("clean", "heat", "cool"):
            done = self.treated.setdefault(did.object, set())
            done.discard({"heat": "cool", "cool": "heat"}.get(did.verb, ""))
            done.add(did.verb)
        elif did.verb == "use":
            self.lit.add(did.object)

    def where(self, kind: str) -> list[tuple[str, str]]:
        """(object, place) of every object of type ``kind`` that is known to lie somewhere, in order of the places."""
        return [
            (o, place) for place in self.places for o in self.contents.get(place, ()) if split_name(o)[0] == kind
        ]  # fmt: skip

    def unseen(self) -> list[str]:
        """Places whose contents were never seen, in order of the text."""
        return [place for place in self.places if place not in self.contents]

    def of_kind(self, kind: str) -> list[str]:
        """Places of type ``kind``, in order of the text."""
        return [place for place in self.places if split_name(place)[0] == kind]

    def ready(self, thing: str) -> bool:
        """Whether ``thing`` has had the treatment that the goal asks for, if any."""
        goal = self.goal
        return goal is None or goal.treatment is None or goal.treatment in self.treated.get(thing, ())
