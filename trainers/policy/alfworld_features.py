"""ALFWorld's text as numbers: state words, command tokens and twelve candidate features, all from goal and history.

The vocabularies are enumerated from the type lists of :mod:`triage_gym.domains.alfworld`, so equal weights mean the same
in every process, and a word outside of them is ``?``. Instance numbers are no tokens: ``cabinet 3`` and ``cabinet 7``
differ only by what was done and seen there.

State words (each 0 or 1): task type, goal object, goal receptacle; kind of the last observation, types it lists, whether
it says "closed"; verb and types of the last action; receptacle types visited; type in hand; type of the place; and
flags. A command is up to three tokens: verb, verb with the first type, preposition with the second type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, get_args

from triage_gym.domains.alfworld import (
    LAMP_TYPES,
    OBJECT_TYPES,
    RECEPTACLE_TYPES,
    Command,
    Goal,
    Kind,
    Observation,
    Verb,
    parse_command,
    parse_observation,
    parse_task,
    split_name,
)
from triage_gym.trainers.policy.features import PATTERN_BITS, Encoded, Register

_THINGS: Final = ("?", *sorted({*OBJECT_TYPES, *RECEPTACLE_TYPES, *LAMP_TYPES}))
_PLACES: Final = ("?", *RECEPTACLE_TYPES)
_TASK_TYPES: Final = (
    "?", "pick_and_place_simple", "look_at_obj_in_light", "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep", "pick_cool_then_place_in_recep", "pick_two_obj_and_place",
)  # fmt: skip
_FLAGS: Final = (
    "held is goal", "treated", "goal seen", "lamp seen", "at target", "placed one", "fifth 0", "fifth 1", "fifth 2",
    "fifth 3", "fifth 4",
)  # fmt: skip
_FIFTHS: Final = _FLAGS.index("fifth 0")

TRIED, TRIED_TWICE, LAST, GOAL_THERE, LAMP_THERE, OPENED = (1 << i for i in range(6))
IS_GOAL, IS_TARGET, IS_LAMP, NUMBER_ONE, NUMBER_HIGH, IS_BOTH = (1 << i for i in range(6, 12))
"""Candidate features as bits: tried before, tried twice, same as the last; goal object seen there, lamp seen there,
opened before; its object is the goal's, its receptacle is the goal's, its object is the goal's lamp, its number is 1,
its number is above 4, object and receptacle are the goal's."""


def _number(words: Iterable[str], start: int) -> dict[str, int]:
    return {word: start + i for i, word in enumerate(words)}


def _state_words() -> list[str]:
    return [
        *(f"task:{t}" for t in _TASK_TYPES),
        *(f"goal:{t}" for t in _THINGS),
        *(f"target:{t}" for t in _PLACES),
        *(f"kind:{k}" for k in get_args(Kind)),
        *(f"see:{t}" for t in _THINGS),
        "closed",
        "empty",
        *(f"did:{v}" for v in get_args(Verb)),
        *(f"did to:{t}" for t in _THINGS),
        *(f"did at:{t}" for t in _PLACES),
        *(f"visited:{t}" for t in _PLACES),
        *(f"held:{t}" for t in _THINGS),
        *(f"place:{t}" for t in _PLACES),
        *_FLAGS,
    ]


def _token_words() -> list[str]:
    verbs = get_args(Verb)
    return [
        "",  # padding
        *(f"{v}" for v in verbs),
        *(f"{v} {t}" for v in verbs if v for t in _THINGS),
        *(f"{p} {t}" for p in ("from", "in", "with") for t in _THINGS),
    ]


STATE_WORDS: Final = tuple(_state_words())
TOKEN_WORDS: Final = tuple(_token_words())
_STATE: Final = _number(STATE_WORDS, 0)
# Looked up once a word and not once a turn: most of the time of acting is spent here.
_TOKEN: Final = {word: i for i, word in reversed(list(enumerate(TOKEN_WORDS)))} | {"": TOKEN_WORDS.index("", 1)}
_PREPOSITION: Final = {"take": "from", "put": "in"}
_SEE: Final = {t: _STATE[f"see:{t}"] for t in _THINGS}
_FLAG: Final = [_STATE[f] for f in _FLAGS]


def _thing(kind: str) -> str:
    return kind if kind in _SEE else "?"


def _place(kind: str) -> str:
    return kind if kind in RECEPTACLE_TYPES else "?"


class AlfworldMemory:
    """What a reader of the episode's text would remember.

    Args:
        goal: The goal, or None when the task's words are none of ALFWorld's.
        observation: First observation.
        limit: Turns of an episode, for the share of time used.
    """

    __slots__ = (
        "_contents", "_goal_ids", "_limit", "_visited", "command_bits", "goal", "held", "last", "last_ids", "opened",
        "place", "place_bits", "placed", "seen_ids", "treated", "turn",
    )  # fmt: skip

    def __init__(self, goal: Goal | None, observation: str, limit: int) -> None:
        self.goal = goal
        self._limit = limit
        self.turn = 0
        self.place = self.held = self.last = ""
        self.treated: set[str] = set()
        self.placed: set[str] = set()
        self._visited: dict[int, None] = {}
        self._contents: dict[str, tuple[str, ...]] = {}
        self.command_bits: dict[str, int] = {}
        self.place_bits: dict[str, int] = {}
        self.opened: set[str] = set()
        self._goal_ids = _goal_words(goal)
        self.seen_ids = _seen_words(parse_observation(observation.strip().partition("\n\n")[2] or observation))
        self.last_ids: tuple[int, ...] = ()

    def observe(self, action: str, observation: str) -> None:
        """Take in the answer to the action just sent."""
        command, seen = parse_command(action), parse_observation(observation)
        self.turn += 1
        bits = self.command_bits
        if self.last:
            bits[self.last] &= ~LAST
        before = bits.get(action, 0)
        bits[action] = LAST | TRIED | (before & TRIED_TWICE) | (TRIED_TWICE if before & TRIED else 0)
        self.last = action
        self.last_ids, self.seen_ids = _did_words(command), _seen_words(seen)
        if seen.kind == "nothing":
            return
        if command.verb == "go":
            self.place = command.receptacle
            self._visited[_STATE[f"visited:{_place(command.receptacle_type)}"]] = None
        elif seen.kind in ("open", "take", "put", "clean", "heat", "cool"):
            self._change(seen, command.receptacle)
        if seen.listed is not None and seen.kind in ("arrive", "open", "receptacle"):
            self._fill(seen.place or command.receptacle, seen.listed)

    def _change(self, seen: Observation, receptacle: str) -> None:
        """What an action that succeeded changed."""
        name = seen.object
        if seen.kind == "open":
            self.opened.add(receptacle)
            self.place_bits[receptacle] = self.place_bits.get(receptacle, 0) | OPENED
        elif seen.kind == "take":
            self.held = name
            self.placed.discard(name)
            self._fill(receptacle, tuple(x for x in self._contents.get(receptacle, ()) if x != name))
        elif seen.kind == "put":
            self.held = ""
            goal = self.goal
            if goal and split_name(name)[0] == goal.object and split_name(receptacle)[0] == goal.receptacle:
                self.placed.add(name)
            self._fill(receptacle, (*self._contents.get(receptacle, ()), name))
        elif self.goal and seen.kind == self.goal.treatment:
            self.treated.add(name)

    def _fill(self, place: str, listed: tuple[str, ...]) -> None:
        """Remember what lies at ``place``."""
        self._contents[place] = listed
        goal = self.goal
        bits = OPENED if place in self.opened else 0
        if goal is not None:
            for name in listed:
                kind = split_name(name)[0]
                # An object that was brought to its place is done with, unless the goal wanted it treated first.
                if kind == goal.object and not (goal.count > 1 and name in self.placed):
                    bits |= GOAL_THERE
                elif kind == goal.lamp:
                    bits |= LAMP_THERE
        self.place_bits[place] = bits

    def state(self) -> list[int]:
        """State words that are on."""
        goal = self.goal
        out = [*self._goal_ids, *self.seen_ids, *self.last_ids, *self._visited]
        if self.held:
            kind = split_name(self.held)[0]
            out.append(_STATE[f"held:{_thing(kind)}"])
            if goal is not None and kind == goal.object:
                out.append(_FLAG[0])
                if self.held in self.treated:
                    out.append(_FLAG[1])
        if self.place:
            kind = split_name(self.place)[0]
            out.append(_STATE[f"place:{_place(kind)}"])
            if goal is not None and kind == goal.receptacle:
                out.append(_FLAG[4])
        seen = 0
        for bits in self.place_bits.values():
            seen |= bits
        if seen & GOAL_THERE:
            out.append(_FLAG[2])
        if seen & LAMP_THERE:
            out.append(_FLAG[3])
        if self.placed:
            out.append(_FLAG[5])
        out.append(_FLAG[_FIFTHS + min(4, 5 * self.turn // self._limit)])
        return out


def _goal_words(goal: Goal | None) -> tuple[int, ...]:
    if goal is None:
        return (_STATE["task:?"],)
    task = goal.task_type if goal.task_type in _TASK_TYPES else "?"
    words = [_STATE[f"task:{task}"], _STATE[f"goal:{_thing(goal.object)}"]]
    if goal.receptacle is not None:
        words.append(_STATE[f"target:{_place(goal.receptacle)}"])
    return tuple(words)


def _seen_words(seen: Observation) -> tuple[int, ...]:
    words = {_STATE[f"kind:{seen.kind}"]: None}
    if seen.closed:
        words[_STATE["closed"]] = None
    if seen.listed is not None:
        if not seen.listed:
            words[_STATE["empty"]] = None
        for name in seen.listed:
            words[_SEE[_thing(split_name(name)[0])]] = None
    return tuple(words)


def _did_words(command: Command) -> tuple[int, ...]:
    words = [_STATE[f"did:{command.verb}"]]
    if command.object:
        words.append(_STATE[f"did to:{_thing(command.object_type)}"])
    if command.receptacle:
        words.append(_STATE[f"did at:{_place(command.receptacle_type)}"])
    return tuple(words)


def command_tokens(command: Command) -> tuple[int, ...]:
    """The one to three tokens of a command."""
    tokens = [_TOKEN[command.verb]]
    if not command.verb:
        return tuple(tokens)
    if command.object:
        tokens.append(_TOKEN[f"{command.verb} {_thing(command.object_type)}"])
        if command.receptacle:
            word = _PREPOSITION.get(command.verb, "with")
            tokens.append(_TOKEN[f"{word} {_thing(command.receptacle_type)}"])
    elif command.receptacle:
        tokens.append(_TOKEN[f"{command.verb} {_thing(command.receptacle_type)}"])
    return tuple(tokens)


def static_bits(command: Command, goal: Goal | None) -> int:
    """The candidate features that goal and command alone decide."""
    bits = 0
    number = split_name(command.receptacle or command.object)[1]
    if number == 1:
        bits |= NUMBER_ONE
    elif number > 4:
        bits |= NUMBER_HIGH
    if goal is None:
        return bits
    if command.object and command.object_type == goal.object:
        bits |= IS_GOAL
    if command.receptacle and command.receptacle_type == goal.receptacle:
        bits |= IS_TARGET
    if command.object and command.object_type == goal.lamp:
        bits |= IS_LAMP
    if bits & IS_GOAL and bits & IS_TARGET:
        bits |= IS_BOTH
    return bits


class AlfworldFeatures:
    """Features of ALFWorld's text.

    Args:
        limit: Turns of an episode.
    """

    states: Final = len(STATE_WORDS)
    tokens: Final = len(TOKEN_WORDS)
    tokens_per_command: Final = 3
    candidate_features: Final = 12

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._menus: dict[Goal | None, dict[tuple[str, ...], _Menu]] = {}

    def begin(self, task: str, observation: str) -> AlfworldMemory:
        """The memory of a new episode."""
        return AlfworldMemory(parse_task(task or observation), observation, self._limit)

    def encode(self, memory: AlfworldMemory, admissible: Sequence[str], register: Register) -> Encoded:
        """The situation of an episode; every admissible command but ``help`` is a candidate."""
        menus = self._menus.get(memory.goal)
        if menus is None:
            if len(self._menus) >= 64:  # a few goals are live at a time; old ones only take memory
                self._menus.clear()
            menus = self._menus[memory.goal] = {}
        texts = tuple(admissible)
        menu = menus.get(texts)
        if menu is None:
            menu = menus[texts] = _Menu(texts, memory.goal, register)
        keys = menu.keys.copy()
        for text, bits in memory.command_bits.items():
            if text in menu.at:
                keys[menu.at[text]] |= bits
        for place, bits in memory.place_bits.items():
            for i in menu.near.get(place, ()):
                keys[i] |= bits
        return Encoded(memory.state(), menu.commands, keys)


class _Menu:
    """A set of admissible commands, read once: few sets come up, and most of a candidate's key never changes.

    Args:
        admissible: The commands.
        goal: The goal.
        register: Numbers the commands.
    """

    __slots__ = ("at", "commands", "keys", "near")

    def __init__(self, admissible: Sequence[str], goal: Goal | None, register: Register) -> None:
        self.commands: list[str] = []
        self.keys: list[int] = []
        """What goal and command alone decide."""
        self.at: dict[str, int] = {}
        """Where each command is."""
        self.near: dict[str, list[int]] = {}
        """Where the commands with each receptacle are."""
        for text in admissible:
            command = parse_command(text)
            if command.verb == "help":
                continue
            self.at[text] = len(self.keys)
            if command.receptacle:
                self.near.setdefault(command.receptacle, []).append(len(self.keys))
            self.commands.append(text)
            number = register.number(command_tokens(command))
            self.keys.append(number << PATTERN_BITS | static_bits(command, goal))
