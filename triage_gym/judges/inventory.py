"""What an agent's actions in ALFWorld say about its hand and the goal's objects, kept up action by action."""

from __future__ import annotations

from typing import Final

from triage_gym.domains.alfworld import Command, Goal, Treatment, parse_command, split_name

TREATS: Final[dict[str, Treatment]] = {"clean": "clean", "heat": "heat", "cool": "cool"}
UNDOES: Final[dict[str, Treatment]] = {"heat": "cool", "cool": "heat"}
"""Heating an object makes it lose its cold, and the other way round (``alfred.pddl``)."""


class Inventory:
    """State read off the valid actions so far. It trusts them: leave refused ones out.

    Args:
        goal: What the task asks for.
    """

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self.object_start = f"{goal.object} "
        self.object_words = f" a {goal.object} "
        """How every list that shows a goal object contains it."""
        self.lamp_words = f" a {goal.lamp} " if goal.lamp is not None else ""
        self.place = ""
        """Where the agent went last; "" at the start."""
        self.held = ""
        """Name of the object in hand, or ""."""
        self.carries_goal = False
        """The object in hand is of the goal's type."""
        self.treated: dict[str, set[Treatment]] = {}
        """What was done to each object and still holds."""
        self.placed: dict[str, str] = {}
        """Goal objects where the goal wants them, by name: their receptacle."""
        self.dropped: dict[str, str] = {}
        """Goal objects that the agent put down elsewhere, by name: their receptacle."""
        self.lamps: dict[str, str] = {}
        """Lamps of the goal's type that were used, by name: the place."""
        self.once: set[tuple[str, str, str]] = set()
        """(what, object, place) that counted as decisive, or would have, and will not again."""

    def stage(self, name: str) -> str:
        """What the goal object ``name`` needs next: ``treat`` or ``place``."""
        treatment = self.goal.treatment
        return "place" if treatment is None or treatment in self.treated.get(name, ()) else "treat"

    def needs(self, command: Command) -> bool:
        """Whether the goal object in hand is needed at the receptacle of ``command`` now."""
        goal = self.goal
        if goal.lamp is not None:
            return command.receptacle in self.lamps.values()
        if self.stage(self.held) == "treat":
            return command.receptacle_type == goal.treatment_place
        return self.is_target(command)

    def is_target(self, command: Command) -> bool:
        """Whether goal objects belong in the command's receptacle: the right type, and the second of two by the first."""
        if command.receptacle_type != self.goal.receptacle:
            return False
        return not self.placed or command.receptacle in self.placed.values()

    def wanted_from(self, place: str) -> bool:
        """Whether a goal object lying at ``place`` has still to be moved: with no treatment to do, not in a target."""
        return self.goal.treatment is not None or split_name(place)[0] != self.goal.receptacle

    def apply(self, action: str) -> None:
        """Take in one valid action."""
        command = parse_command(action)
        verb = command.verb
        if verb == "go":
            self.place = command.receptacle
            if self.carries_goal:
                self.once.add((self.stage(self.held), self.held, command.receptacle))
        elif verb == "take":
            self._take(command)
        elif verb == "put":
            self._put(command)
        elif verb in TREATS:
            self._treat(command)
        elif verb == "open" and self.carries_goal:
            if self.stage(self.held) == "place":
                self.once.add(("open", self.held, command.receptacle))
        elif verb == "use" and command.object_type == self.goal.lamp:
            self.lamps[command.object] = self.place
            if self.carries_goal:
                self.once.add(("use", self.held, command.object))

    def _take(self, command: Command) -> None:
        self.held = command.object
        self.carries_goal = command.object_type == self.goal.object
        if self.carries_goal:
            self.placed.pop(command.object, None)
            self.dropped.pop(command.object, None)
            self.once.add(("take", command.object, ""))

    def _put(self, command: Command) -> None:
        name = command.object
        if command.object_type == self.goal.object:
            if self.stage(name) == "place" and self.is_target(command):
                self.placed[name] = command.receptacle
                self.once.add(("put", name, ""))
            else:
                self.dropped[name] = command.receptacle
        self.held, self.carries_goal = "", False

    def _treat(self, command: Command) -> None:
        done = self.treated.setdefault(command.object, set())
        done.add(TREATS[command.verb])
        undone = UNDOES.get(command.verb)
        if undone is not None:
            done.discard(undone)
        self.once.add((command.verb, command.object, ""))
