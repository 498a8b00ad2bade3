"""Roles of TextWorld turns by rule, from the text of a window alone.

Where the task names its steps ("go east. Then, take the coin …"), they are followed through all earlier commands; where a
cookbook holds the recipe, the recipe counts as far as the window shows it.

- **D**: does a step that the task or the recipe names, the next one of the way or any other; takes the knife that the
  recipe needs; prepares and eats the meal. Each once.
- **E**: the first look at a room, into a container, closely at a thing, into the cookbook; an inventory with news.
- **R**: goes off the way to where nothing is new; where no way is named, walks into a known room and straight back; takes
  something else where the task is to fetch one thing; puts down what is needed, or what it took for nothing; shuts or locks what the next steps need open; takes away
  what was put where it belongs; eats, burns or spoils what is needed; every answer that the window already holds.
- **N**: the rest: a refusal, making good what was undone, known rooms on the way to others.

What these rules cannot know: the way, where the task does not name it (a needed walk through known rooms is N there); a
recipe that was read more than a window ago; needs that no text tells. A tour longer than the window makes an old text new.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from triage_gym.domains.textworld import (
    BACK,
    COOKED_WITH,
    MEAL,
    Quest,
    Recipe,
    Step,
    burns,
    carried,
    done,
    parse_command,
    parse_recipe,
    parse_task,
    reveals,
    room_of,
)
from triage_gym.judges.textworld_way import Way, answers
from triage_gym.protocols import Window
from triage_gym.records import Role

Verdict = tuple[Role, str]
_KNIFE: Final = "knife"
_COOKBOOK: Final = "cookbook"
_IDLE: Final = ("", "look", "inventory", "examine")


class TextWorldRules:
    """Judges windows one by one, each in time linear in its text."""

    def verdict(self, window: Window) -> Verdict | None:
        """Role and reason, or None for a task that is too long to be one."""
        quest = parse_task(window.task)
        if quest is None:
            return None
        command = parse_command(window.action)
        if not command.verb or not done(command, window.next_observation):
            return _repeated(window) or ("N", "refused, or without effect")
        turn = _Turn(window, command, quest)
        rule = _RULES.get(command.verb)
        verdict = rule(turn) if rule else None
        return verdict or _repeated(window) or ("N", "changes nothing that the task needs")


class _Turn:
    """A turn, with all that its rules look at."""

    def __init__(self, window: Window, command: Step, quest: Quest) -> None:
        self.window, self.command, self.quest = window, command, quest
        self.way = way = Way(quest)
        told = answers(window.earlier_actions, window.past)
        for at, action in enumerate(window.earlier_actions):
            earlier = parse_command(action)
            if earlier.verb and (at not in told or done(earlier, told[at])):
                way.apply(earlier)
        self.recipe = _recipe(window) if quest.cooking else None

    @property
    def before(self) -> bool:
        """Whether this very command worked before."""
        return self.command in self.way.once


def _recipe(window: Window) -> Recipe | None:
    """The recipe, when any text of the window shows it."""
    texts = [
        window.observation,
        window.next_observation,
        *[pair.observation for pair in (*window.past, *window.future)],
    ]
    return next((found for found in map(parse_recipe, texts) if found), None)


def _repeated(window: Window) -> Verdict | None:
    """R when the window holds the same action with the same answer."""
    if (window.action, window.next_observation) in window.past:
        return "R", "repeated: the answer was known"
    return None


def _go(turn: _Turn) -> Verdict:
    way, direction = turn.way, turn.command.thing
    room = room_of(turn.window.next_observation)
    new = way.beyond(direction) not in way.visited and room not in _rooms_seen(turn.window)
    if not turn.quest.way:
        return _explore(turn, room, new)
    if way.leads(direction) is not None:
        return "D", f"goes {direction} as the task says"
    if way.returns(direction):
        return "N", "back to the way that the task names"
    if new:
        return "E", f"first look at {room}, off the way that the task names"
    if way.nears(direction):
        return "N", f"{room} again, towards the way that the task names"
    return "R", f"{room} again, off the way that the task names: nothing new"


def _explore(turn: _Turn, room: str, new: bool) -> Verdict:
    """A walk where the task names no way."""
    if new:
        return "E", f"first look at {room}"
    if _turns_back(turn):
        return "R", f"{room} again, and straight back: a walk for nothing"
    return "N", f"{room} again"


def _turns_back(turn: _Turn) -> bool:
    """Whether the next thing that is done after a walk is to walk back."""
    for pair in turn.window.future:
        after = parse_command(pair.action)
        if after.verb not in _IDLE and done(after, pair.observation):
            return after == Step("go", BACK[turn.command.thing])
    return False


def _rooms_seen(window: Window) -> set[str]:
    return {room_of(text) for text in (window.observation, *[pair.observation for pair in window.past])}


def _take(turn: _Turn) -> Verdict | None:
    way, thing = turn.way, turn.command.thing
    if any(
        step.verb == "put" and step.thing == thing for at, step in enumerate(turn.quest.steps) if at not in way.left
    ):
        return "R", f"takes {thing} away from where it belongs"
    if any(step.verb == "take" and step.thing == thing for step in way.once):
        return "N", f"picks {thing} up again"
    if way.serves(turn.command) is not None or (way.needs(thing) and not turn.quest.cooking):
        return "D", f"takes {thing} as the task says"
    if turn.recipe is not None:
        return _take_for(turn, turn.recipe)
    if turn.quest.fetch:
        return "R", f"takes {thing}, and the task asks for {turn.quest.fetch} alone"
    return None


def _take_for(turn: _Turn, recipe: Recipe) -> Verdict | None:
    """Taking by the recipe."""
    thing = turn.command.thing
    if _base(thing, recipe) in recipe.ingredients:
        return "D", f"takes {thing}, an ingredient"
    if thing == _KNIFE and any(step.verb == "cut" for step in _undone(turn.way, recipe)):
        return "D", "takes the knife that the recipe needs"
    return None


def _put(turn: _Turn) -> Verdict | None:
    way, thing = turn.way, turn.command.thing
    served = way.serves(turn.command)
    if served is not None:
        return ("N", f"puts {thing} back where it was") if turn.before else ("D", f"puts {thing} where the task says")
    if way.needs(thing) or (thing == MEAL and turn.quest.cooking):
        return "R", f"puts {thing} down, which is still needed"
    if turn.recipe is not None:
        undone = _undone(way, turn.recipe)
        if _base(thing, turn.recipe) in turn.recipe.ingredients:
            return "R", f"puts {thing} down, an ingredient"
        if thing == _KNIFE and any(step.verb == "cut" for step in undone):
            return "R", "puts down the knife that the recipe needs"
        return None
    if not turn.quest.way and thing in way.held and not way.held[thing]:
        return "R", f"puts {thing} down again without having used it"
    return None


def _open(turn: _Turn) -> Verdict | None:
    way, thing = turn.way, turn.command.thing
    before = any(step.verb == "open" and step.thing == thing for step in way.once)
    if way.serves(turn.command) is not None:
        return "D", f"opens {thing} as the task says"
    if before:
        return "N", f"opens {thing} again"
    if reveals(turn.window.next_observation):
        return "E", f"first look into {thing}"
    return None


def _shut(turn: _Turn) -> Verdict | None:
    """Closing and locking."""
    way, command = turn.way, turn.command
    if way.serves(command) is not None:
        return "D", f"{command.verb}s {command.thing} as the task says"
    opened = [
        at
        for at, step in enumerate(turn.quest.steps)
        if step.verb in ("open", "unlock") and step.thing == command.thing and at not in way.left
    ]
    ahead = way.next_steps()
    if not opened or not any(step.verb in ("go", "take", "put", "open") for step in ahead):
        return None
    if opened[-1] + 1 in way.left or any(step.other == command.thing for step in ahead):
        return "R", f"{command.verb}s {command.thing}, which must be open next"
    return None


def _unlock(turn: _Turn) -> Verdict | None:
    thing = turn.command.thing
    if turn.way.serves(turn.command) is not None:
        return "D", f"unlocks {thing} as the task says"
    return ("N", f"unlocks {thing} again") if turn.before else ("N", f"unlocks {thing}, which the task does not name")


def _eat(turn: _Turn) -> Verdict | None:
    thing = turn.command.thing
    if turn.way.serves(turn.command) is not None:
        return "D", f"eats {thing} as the task says"
    if turn.quest.cooking:
        if thing == MEAL:
            return "D", "eats the meal"
        if turn.recipe is None or _base(thing, turn.recipe) in turn.recipe.ingredients:
            return "R", f"eats {thing}, which the meal may need"
    return ("R", f"eats {thing}, which is still needed") if turn.way.needs(thing) else None


def _prepare(turn: _Turn) -> Verdict:
    return "D", "prepares the meal"


def _treat(turn: _Turn) -> Verdict | None:
    """Cutting and cooking."""
    command, recipe = turn.command, turn.recipe
    if burns(turn.window.next_observation):
        return "R", f"burns {command.thing}"
    if not turn.quest.cooking:
        return None
    how = command.how or COOKED_WITH.get(command.other, "")
    if recipe is None:
        if any(step.verb == command.verb and step.thing == command.thing for step in turn.way.once):
            return "R", f"treats {command.thing} twice"
        return "N", f"treats {command.thing}; the recipe is not in sight"
    thing = _base(command.thing, recipe)
    wanted = [step for step in recipe.steps if step.thing == thing and step.verb == command.verb]
    if any(step.how == how for step in _undone(turn.way, recipe) if step in wanted):
        return "D", f"{how} {thing}: as the recipe says"
    if thing in recipe.ingredients:
        return "R", f"{how or command.verb} {thing}: not as the recipe says"
    return "N", f"treats {thing}, which the recipe does not need"


def _undone(way: Way, recipe: Recipe) -> list[Step]:
    """The steps of a recipe that no earlier command did."""
    did = {(s.verb, _base(s.thing, recipe), s.how or COOKED_WITH.get(s.other, "")) for s in way.once}
    return [step for step in recipe.steps if (step.verb, step.thing, step.how) not in did]


def _base(thing: str, recipe: Recipe) -> str:
    """The ingredient that a name such as "raw yellow potato" stands for."""
    while thing not in recipe.ingredients and " " in thing:
        thing = thing.partition(" ")[2]
    return thing


def _examine(turn: _Turn) -> Verdict | None:
    thing = turn.command.thing
    if turn.before:
        return _repeated(turn.window) or ("N", f"looks closely at {thing} again")
    if _COOKBOOK in thing:
        return "E", "reads the recipe"
    seen = (turn.window.observation, *[pair.observation for pair in turn.window.past])
    return None if turn.window.next_observation in seen else ("E", f"first close look at {thing}")


def _inventory(turn: _Turn) -> Verdict | None:
    if turn.before:
        return None
    taken = {step.thing for step in turn.way.once if step.verb == "take"} | {MEAL}
    new = [thing for thing in carried(turn.window.next_observation) if thing not in taken]
    return ("E", f"finds {new[0]} in hand") if new else None


_RULES: Final[dict[str, Callable[[_Turn], Verdict | None]]] = {
    "go": _go,
    "take": _take,
    "put": _put,
    "drop": _put,
    "open": _open,
    "close": _shut,
    "lock": _shut,
    "unlock": _unlock,
    "eat": _eat,
    "prepare": _prepare,
    "cook": _treat,
    "cut": _treat,
    "examine": _examine,
    "inventory": _inventory,
}
