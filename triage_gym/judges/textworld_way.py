"""Where a TextWorld game stands, as far as its commands tell: place, things in hand, steps of the task done.

A :class:`Way` takes in all earlier commands of an attempt, one by one, each in constant time for tasks of a length. Rooms
lie on a grid in TextWorld, so that places can be counted. Of the turns in a window the answer is known, and what failed is
left out; older commands are taken to have worked, which those that the game allows do.
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import Final

from triage_gym.domains.textworld import BACK, DIRECTIONS, Quest, Step, done, parse_command
from triage_gym.protocols import Pair

FLOATING: Final = ("eat", "drop", "examine")
"""Steps that can be done wherever the player is."""
_PASSED: Final = ("go", "open", "unlock", "examine")
"""Steps that must have been done, one way or another, when a later one was."""

AHEAD: Final = 32
"""Steps left that are looked at for where the way goes on."""

Place = tuple[int, int]


class Way:
    """The running position of an attempt.

    Args:
        quest: What the task asks for.
    """

    def __init__(self, quest: Quest) -> None:
        self.quest = quest
        self.left = dict(enumerate(quest.steps))
        """Steps not done yet, by their position."""
        self.place: Place = (0, 0)
        self.visited = {self.place}
        self.strayed: list[str] = []
        """Directions from the way that the task names to here."""
        self.held: dict[str, bool] = {}
        """Things taken and not put down, with whether they were used since."""
        self.once: set[Step] = set()
        """All commands that worked."""
        self.last_go = ""
        """The direction that led here, if nothing was done here yet."""
        self.due: Place = (0, 0)
        """Where the way that the task names has come to."""
        self._places = _places(quest)
        self._about: dict[tuple[str, str], list[int]] = {}
        for at, step in enumerate(quest.steps):
            if step.verb != "go":
                self._about.setdefault((step.verb, step.thing), []).append(at)

    def apply(self, command: Step) -> None:
        """Take in a command that worked."""
        verb, thing, other = command.verb, command.thing, command.other
        if verb == "go":
            self._go(thing)
        else:
            found = self.serves(command)
            if found is not None:
                self._do(found)
        if verb == "take":
            self.held[thing] = False
        elif verb in ("put", "drop", "eat"):
            self.held.pop(thing, None)
        elif other in self.held:
            self.held[other] = True
        if verb not in ("go", "look", "inventory"):
            self.last_go = ""
        self.once.add(command)

    def serves(self, command: Step) -> int | None:
        """The position of the first step left that a command does, other than going; None when it does none."""
        for at in self._about.get((command.verb, command.thing), ()):
            other = self.quest.steps[at].other
            if at in self.left and (command.verb == "take" or not other or command.other in ("", other)):
                return at
        return None

    def leads(self, direction: str) -> int | None:
        """The last step of going that this direction does: the next one, or a later one by another way; else None."""
        there = self.beyond(direction)
        found, first = None, True
        for at, step in islice(self.left.items(), AHEAD):
            if step.verb != "go":
                if step.verb in FLOATING:
                    continue
                break
            if self._places[at + 1] == there or (first and not self.strayed and step.thing == direction):
                found = at
            first = False
        return found

    def beyond(self, direction: str) -> Place:
        """The place in a direction."""
        x, y = DIRECTIONS[direction]
        return self.place[0] + x, self.place[1] + y

    def returns(self, direction: str) -> bool:
        """Whether a direction leads back towards the way that the task names."""
        return bool(self.strayed) and (BACK[self.strayed[-1]] == direction or self.beyond(direction) == self.due)

    def nears(self, direction: str) -> bool:
        """Whether a direction leads nearer to where the way has come to, or to where it goes on from there."""
        ahead = [self.due]
        for at, step in islice(self.left.items(), AHEAD):
            if step.verb == "go":
                ahead.append(self._places[at + 1])
            elif step.verb not in FLOATING:
                break
        return _nearest(self.beyond(direction), ahead) < _nearest(self.place, ahead)

    def needs(self, thing: str) -> bool:
        """Whether a step left is about this thing or done with it, or may be: the key of an unlocking is not always named."""
        key = any(step.verb == "take" and step.thing == thing for step in self.quest.steps)
        return any(
            thing in (step.thing, step.other) or (key and step.verb == "unlock" and not step.other)
            for step in self.left.values()
        )

    def next_steps(self, count: int = 2) -> list[Step]:
        """The first steps left."""
        return list(self.left.values())[:count]

    def _go(self, direction: str) -> None:
        found = self.leads(direction)
        home = self.returns(direction) and self.beyond(direction) == self.due
        self.place = self.beyond(direction)
        self.visited.add(self.place)
        self.last_go = direction
        if found is not None:
            self._pass(found + 1, ("go",))
        elif home:
            self.strayed = []
        elif self.strayed and BACK[self.strayed[-1]] == direction:
            self.strayed.pop()
        else:
            self.strayed.append(direction)

    def _do(self, found: int) -> None:
        """Cross out a step, and what must have been passed for it."""
        self.left.pop(found)
        if any(at < found and step.verb == "go" for at, step in islice(self.left.items(), AHEAD)):  # by another way
            self._pass(found, _PASSED)

    def _pass(self, until: int, verbs: tuple[str, ...]) -> None:
        """Cross out the steps before a position that are of these verbs, and be on the way again."""
        for at in list(takewhile(lambda at: at < until, self.left)):
            if self.left[at].verb in verbs:
                del self.left[at]
        self.due, self.strayed = self._places[until], []


def _places(quest: Quest) -> list[Place]:
    """Where each step of a task is done; one more for where the last one ends."""
    places: list[Place] = [(0, 0)]
    for step in quest.steps:
        x, y = DIRECTIONS.get(step.thing, (0, 0)) if step.verb == "go" else (0, 0)
        places.append((places[-1][0] + x, places[-1][1] + y))
    return places


def _nearest(place: Place, places: list[Place]) -> int:
    return min(abs(x - place[0]) + abs(y - place[1]) for x, y in places)


def answers(earlier: tuple[str, ...], past: tuple[Pair, ...]) -> dict[int, str]:
    """The answers that a window knows of earlier commands, by their position; refused ones of the past are none of them."""
    found = {}
    at = len(earlier) - 1
    for k in reversed(range(len(past))):
        action, answer = past[k]
        if at < 0 or earlier[at] != action:
            continue
        # Said twice and worked once: the environment counts the refused one out, and so must this.
        twice = k > 0 and past[k - 1].action == action and (at == 0 or earlier[at - 1] != action)
        if not twice or done(parse_command(action), answer):
            found[at] = answer
            at -= 1
    return found
