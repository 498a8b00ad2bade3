"""Roles of ALFWorld turns by rule, from the text of a window alone.

- **D**: takes an object of the goal's type; cleans, heats or cools it as asked; puts it in the target; switches the lamp
  on with it in hand; arrives with it for the first time where it is needed; opens the needed target.
- **E**: the first look at a place or into a container that the window has not shown, while something is to be found.
- **R**: damage (putting the object down elsewhere, taking a placed one out, undoing a treatment, shutting the needed
  target); taking what is not asked for; looking elsewhere for what has been seen; every inspection or refused action
  whose answer the window already holds.
- **N**: the rest.

Damage beats D, D beats E; a first harmless no-op is N, its repetition R. What is in hand, what was done to it, where
goal objects were put and which lamps were used are read off all earlier actions; what has been seen, off the window
only. Each take, arrival, opening, treatment and placing is D once an object, so undoing and doing again does not pay.
Left open: a tour of more places than the window is long makes an old place new again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from triage_gym.domains.alfworld import NOTHING_HAPPENS, Command, Goal, parse_command, parse_observation, parse_task
from triage_gym.judges.inventory import TREATS, UNDOES, Inventory
from triage_gym.protocols import Window
from triage_gym.records import Role

Verdict = tuple[Role, str]


class ALFWorldRules:
    """Judges windows one by one; those of one attempt in order cost one step of the inventory each."""

    def __init__(self) -> None:
        self._inventory: Inventory | None = None
        self._read: tuple[str, ...] = ()

    def verdict(self, window: Window) -> Verdict | None:
        """Role and reason, or None when the task is none of ALFWorld's goals."""
        goal = parse_task(window.task)
        if goal is None:
            return None
        command = parse_command(window.action)
        if window.next_observation.startswith(NOTHING_HAPPENS):
            return _repeated(window) or ("N", "refused: nothing happens")
        rule = _RULES.get(command.verb)
        verdict = rule(window, command, self._inventory_of(goal, window.earlier_actions)) if rule else None
        return verdict or _repeated(window) or ("N", "changes nothing that the task needs")

    def _inventory_of(self, goal: Goal, earlier: tuple[str, ...]) -> Inventory:
        inventory, done = self._inventory, len(self._read)
        # Goals come out of a cache, so one attempt's are the same object; equality would cost more than the rest.
        if inventory is None or inventory.goal is not goal or earlier[:done] != self._read:
            inventory, done = Inventory(goal), 0
        for action in earlier[done:]:
            inventory.apply(action)
        self._inventory, self._read = inventory, earlier
        return inventory


def _repeated(window: Window) -> Verdict | None:
    """R when the window holds the same action with the same answer."""
    for pair in window.past:
        if pair.action == window.action and pair.observation == window.next_observation:
            return "R", "repeated: the answer was known"
    return None


def _go(window: Window, command: Command, inventory: Inventory) -> Verdict:
    place, held = command.receptacle, inventory.held
    if not inventory.carries_goal:
        return _search(window, place, inventory, _visited(window, place))
    needed = inventory.needs(command) or _shows(inventory.lamp_words, window.next_observation)
    if needed:
        if (inventory.stage(held), held, place) in inventory.once:
            return "N", f"back with {held} where it is needed"
        return "D", f"arrives with {held} where it is needed"
    visited = _visited(window, place)
    if inventory.goal.lamp is not None and not _lamp_is_known(window, inventory):
        return _look_for_lamp(place, visited)
    return ("R", f"back at {place}: nothing new") if visited else ("N", f"{held} is not needed at {place}")


def _look_for_lamp(place: str, seen: bool) -> Verdict:
    return ("R", f"{place} again: nothing new") if seen else ("E", f"first look at {place} for the lamp")


def _search(window: Window, place: str, inventory: Inventory, seen: bool) -> Verdict:
    """A look at ``place`` while a goal object is to be fetched."""
    known = _known_place(window, inventory)
    if known == place:
        return "N", f"goes for what was seen at {place}"
    if seen:
        new = _news(window)
        return ("E", f"{new} is new at {place}") if new else ("R", f"{place} again: nothing new")
    if known:
        return "R", f"looks at {place} for what was seen at {known}"
    return "E", f"first look at {place}"


def _open(window: Window, command: Command, inventory: Inventory) -> Verdict:
    place, held = command.receptacle, inventory.held
    seen = _contents_seen(window, place)
    if not inventory.carries_goal:
        return _search(window, place, inventory, seen)
    if inventory.is_target(command) and inventory.stage(held) == "place":
        if ("open", held, place) not in inventory.once:
            return "D", f"opens {place}, where {held} belongs"
        return "N", f"opens {place} again"
    if inventory.goal.lamp is not None and not _lamp_is_known(window, inventory):
        return _look_for_lamp(place, seen)
    return ("R", f"opens {place} again: contents known") if seen else ("N", f"{place} need not be open")


def _close(window: Window, command: Command, inventory: Inventory) -> Verdict | None:
    place = command.receptacle
    if inventory.carries_goal:
        if inventory.is_target(command) and inventory.stage(inventory.held) == "place":
            return "R", f"shuts {place}, where {inventory.held} belongs"
    elif _known_place(window, inventory) == place:
        return "R", f"shuts {place} on what is sought"
    return None


def _take(window: Window, command: Command, inventory: Inventory) -> Verdict:
    name = command.object
    if command.object_type != inventory.goal.object:
        return "R", f"takes {name}, which is not asked for"
    if name in inventory.placed:
        return "R", f"takes {name} out of where it belongs"
    if ("take", name, "") in inventory.once:
        return "N", f"picks {name} up again"
    return "D", f"takes {name}"


def _put(window: Window, command: Command, inventory: Inventory) -> Verdict | None:
    name, place = command.object, command.receptacle
    if command.object_type != inventory.goal.object:
        return None
    if inventory.stage(name) == "treat":
        return "R", f"puts {name} away before it is treated"
    if inventory.is_target(command):
        return ("N", f"puts {name} back where it was") if ("put", name, "") in inventory.once else (
            "D", f"puts {name} where it belongs")  # fmt: skip
    if command.receptacle_type == inventory.goal.receptacle:
        return "N", f"puts {name} in {place}, not with the other"
    return "R", f"puts {name} down at {place}, where it does not belong"


def _treat(window: Window, command: Command, inventory: Inventory) -> Verdict | None:
    name, wanted = command.object, inventory.goal.treatment
    done = inventory.treated.get(name, ())
    if command.object_type != inventory.goal.object or wanted is None:
        return None
    if UNDOES.get(command.verb) == wanted and wanted in done:
        return "R", f"undoes the {wanted} of {name}"
    if TREATS.get(command.verb) != wanted:
        return None
    if wanted in done:
        return "R", f"{name} had this treatment already"
    if (command.verb, name, "") in inventory.once:
        return "N", f"treats {name} again after undoing it"
    return "D", f"{command.verb}s {name} as asked"


def _use(window: Window, command: Command, inventory: Inventory) -> Verdict | None:
    lamp, held = command.object, inventory.held
    if command.object_type != inventory.goal.lamp or not inventory.carries_goal:
        return None
    if ("use", held, lamp) in inventory.once:
        return None
    return "D", f"switches {lamp} on with {held} in hand"


def _examine(window: Window, command: Command, inventory: Inventory) -> Verdict | None:
    answer = parse_observation(window.next_observation)
    if answer.kind != "receptacle":
        return None
    place = answer.place
    seen = _contents_seen(window, place) or (answer.closed and _visited(window, place))
    if not inventory.carries_goal:
        return _search(window, place, inventory, seen)
    return ("R", f"examines {place} again: nothing new") if seen else None


def _look(window: Window, command: Command, inventory: Inventory) -> Verdict | None:
    if not inventory.carries_goal and _shows(inventory.object_words, window.next_observation):
        new = _news(window)
        if new and not _known_place(window, inventory):
            return "E", f"finds {new}"
    return None


_RULES: Final[dict[str, Callable[[Window, Command, Inventory], Verdict | None]]] = {
    "go": _go,
    "open": _open,
    "close": _close,
    "take": _take,
    "put": _put,
    "clean": _treat,
    "heat": _treat,
    "cool": _treat,
    "use": _use,
    "examine": _examine,
    "look": _look,
}


def _shows(words: str, text: str) -> bool:
    """Whether the text may list such a thing; cheap, to be confirmed by parsing where it matters."""
    return bool(words) and words in text


def _visited(window: Window, place: str) -> bool:
    """Whether an accepted command of the window was about ``place``."""
    for pair in window.past:
        command = parse_command(pair.action)
        if (command.receptacle == place or command.object == place) and not pair.observation.startswith(
            NOTHING_HAPPENS
        ):
            return True
    return False


def _seen(window: Window) -> list[str]:
    """What the agent had seen: the observation that it acted on, then the answers of the past, oldest first."""
    return [window.observation, *[pair.observation for pair in window.past]]


def _contents_seen(window: Window, place: str) -> bool:
    """Whether the window shows what ``place`` holds."""
    for text in _seen(window):
        if place in text:
            shown = parse_observation(text)
            if shown.place == place and shown.listed is not None:
                return True
    return False


def _known_place(window: Window, inventory: Inventory) -> str:
    """Where a goal object is known to lie that can still be fetched; "" when none is known."""
    for place in inventory.dropped.values():
        return place
    for text in _seen(window):
        if inventory.object_words in text:
            found = _fetchable(text, inventory)
            if found:
                return found
    return ""


def _fetchable(text: str, inventory: Inventory) -> str:
    """The place that the text shows, if a goal object lies there which the agent never took."""
    shown = parse_observation(text)
    if shown.kind == "room" or not inventory.wanted_from(shown.place):
        return ""
    for name in shown.listed or ():
        if name.startswith(inventory.object_start) and ("take", name, "") not in inventory.once:
            return shown.place
    return ""


def _lamp_is_known(window: Window, inventory: Inventory) -> bool:
    words = inventory.lamp_words
    return bool(inventory.lamps) or any(words in text for text in _seen(window))


def _news(window: Window) -> str:
    """A thing that the answer lists, that the window had not shown and that the agent did not bring; "" for none."""
    listed = parse_observation(window.next_observation).listed
    if not listed:
        return ""
    known = set(parse_observation(window.observation).listed or ())
    for pair in window.past:
        known.update(parse_observation(pair.observation).listed or ())
        known.add(parse_command(pair.action).object)
    return next((name for name in listed if name not in known), "")
