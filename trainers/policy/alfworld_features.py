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
from functools import lru_cache
from typing import Final, get_args

from triage_gym.domains.alfworld import (
    LAMP_TYPES,
    OBJECT_TYPES,
    RECEPTACLE_TYPES,
    TASK_TYPES,
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
from triage_gym.trainers.policy.features import PATTERN_BITS, Encoded, Register, count_try
from triage_gym.trainers.policy.remarks import PRIORS, Remarks

_THINGS: Final = ("?", *sorted({*OBJECT_TYPES, *RECEPTACLE_TYPES, *LAMP_TYPES}))
_PLACES: Final = ("?", *RECEPTACLE_TYPES)
_FLAGS: Final = (
    "held is goal", "treated", "goal seen", "lamp seen", "at target", "placed one", "fifth 0", "fifth 1", "fifth 2",
    "fifth 3", "fifth 4",
)  # fmt: skip

GOAL_THERE, LAMP_THERE, OPENED = (1 << i for i in range(3, 6))
IS_GOAL, IS_TARGET, IS_LAMP, NUMBER_ONE, NUMBER_HIGH, IS_BOTH = (1 << i for i in range(6, 12))
"""Candidate features as bits, after the three of every policy: goal object seen there, lamp seen there, opened before;
its object is the goal's, its receptacle is the goal's, its object is the goal's lamp, its number is 1, its number is
above 4, object and receptacle are the goal's."""
_OWN_BITS: Final = 12
"""Candidate features besides those of remarks."""


def _number(words: Iterable[str], start: int) -> dict[str, int]:
    return {word: start + i for i, word in enumerate(words)}


def _state_words() -> list[str]:
    return [
        *(f"task:{t}" for t in ("?", *TASK_TYPES)),
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
_TOKEN: Final = {word: i for i, word in reversed(list(enumerate(TOKEN_WORDS)))} | {"": TOKEN_WORDS.index("", 1)}
_PREPOSITION: Final = {"take": "from", "put": "in"}
_FIFTHS: Final = [_STATE[f"fifth {i}"] for i in range(5)]
_GOAL_SEEN, _LAMP_SEEN, _PLACED_ONE = (_STATE[flag] for flag in ("goal seen", "lamp seen", "placed one"))
_KNOWN_THINGS: Final = frozenset(_THINGS)
_KNOWN_PLACES: Final = frozenset(_PLACES)


def _thing(kind: str) -> str:
    return kind if kind in _KNOWN_THINGS else "?"


def _place(kind: str) -> str:
    return kind if kind in _KNOWN_PLACES else "?"


class AlfworldMemory:
    """What a reader of the episode's text would remember.

    Args:
        goal: The goal, or None when the task's words are none of ALFWorld's.
        observation: First observation.
        limit: Turns of an episode, for the share of time used.
    """

    __slots__ = (
        "_contents", "_goal_words", "_hand_words", "_held", "_last", "_last_words", "_limit", "_opened", "_place_words",
        "_placed", "_seen_words", "_treated", "_turn", "_visited", "command_bits", "goal", "observation", "place_bits", "remarks",
    )  # fmt: skip

    def __init__(self, goal: Goal | None, observation: str, limit: int) -> None:
        self.goal = goal
        self.observation = observation
        self.remarks = Remarks()
        self.command_bits: dict[str, int] = {}
        """Candidate features by command."""
        self.place_bits: dict[str, int] = {}
        """Candidate features by receptacle; those that have none are left out."""
        self._limit = limit
        self._turn = 0
        self._held = self._last = ""
        self._treated: set[str] = set()
        self._placed: set[str] = set()
        self._opened: set[str] = set()
        self._contents: dict[str, tuple[str, ...]] = {}
        self._visited: dict[int, None] = {}
        self._goal_words = _words_of_goal(goal)
        self._seen_words = _read_observation(observation.strip().partition("\n\n")[2] or observation)[1]
        self._last_words: tuple[int, ...] = ()
        self._hand_words: tuple[int, ...] = ()
        self._place_words: tuple[int, ...] = ()

    def observe(self, action: str, observation: str) -> None:
        """Take in the answer to the action just sent."""
        self.observation = observation
        command, self._last_words = _read_command(action)
        seen, self._seen_words = _read_observation(observation)
        self._turn += 1
        count_try(self.command_bits, self._last, action)
        self._last = action
        if seen.kind == "nothing":
            return
        if command.verb == "go":
            self._go(command)
        elif seen.kind in ("open", "take", "put", "clean", "heat", "cool"):
            self._change(seen, command.receptacle)
        if seen.listed is not None and seen.kind in ("arrive", "open", "receptacle"):
            self._fill(seen.place or command.receptacle, seen.listed)

    def advise(self, remark: str, observation: str, action: str) -> None:
        """Take in that ``remark`` names ``action``, sent at ``observation``; its words are not read."""
        self.remarks.add(observation, action)

    def _go(self, command: Command) -> None:
        kind = _place(command.receptacle_type)
        self._visited[_STATE[f"visited:{kind}"]] = None
        at_target = self.goal is not None and command.receptacle_type == self.goal.receptacle
        self._place_words = (_STATE[f"place:{kind}"], *([_STATE["at target"]] if at_target else ()))

    def _change(self, seen: Observation, receptacle: str) -> None:
        """What an action that succeeded changed."""
        name, goal = seen.object, self.goal
        if seen.kind == "open":
            self._opened.add(receptacle)
            self.place_bits[receptacle] = self.place_bits.get(receptacle, 0) | OPENED
        elif seen.kind == "take":
            self._held = name
            self._placed.discard(name)
            self._fill(receptacle, tuple(x for x in self._contents.get(receptacle, ()) if x != name))
        elif seen.kind == "put":
            self._held = ""
            if goal and split_name(name)[0] == goal.object and split_name(receptacle)[0] == goal.receptacle:
                self._placed.add(name)
            self._fill(receptacle, (*self._contents.get(receptacle, ()), name))
        elif goal and seen.kind == goal.treatment:
            self._treated.add(name)
        self._hand_words = self._words_of_hand()

    def _words_of_hand(self) -> tuple[int, ...]:
        if not self._held:
            return ()
        kind = split_name(self._held)[0]
        words = [_STATE[f"held:{_thing(kind)}"]]
        if self.goal is not None and kind == self.goal.object:
            words.append(_STATE["held is goal"])
            if self._held in self._treated:
                words.append(_STATE["treated"])
        return tuple(words)

    def _fill(self, place: str, listed: tuple[str, ...]) -> None:
        """Remember what lies at ``place``."""
        self._contents[place] = listed
        goal = self.goal
        bits = OPENED if place in self._opened else 0
        if goal is not None:
            for name in listed:
                kind = split_name(name)[0]
                # One of two that was brought to its place is done with.
                if kind == goal.object and not (goal.count > 1 and name in self._placed):
                    bits |= GOAL_THERE
                elif kind == goal.lamp:
                    bits |= LAMP_THERE
        if bits:
            self.place_bits[place] = bits
        else:
            self.place_bits.pop(place, None)

    def state(self) -> list[int]:
        """State words that are on."""
        seen = 0
        for bits in self.place_bits.values():
            seen |= bits
        out = [
            *self._goal_words,
            *self._seen_words,
            *self._last_words,
            *self._visited,
            *self._hand_words,
            *self._place_words,
            _FIFTHS[min(4, 5 * self._turn // self._limit)],
        ]
        if seen & GOAL_THERE:
            out.append(_GOAL_SEEN)
        if seen & LAMP_THERE:
            out.append(_LAMP_SEEN)
        if self._placed:
            out.append(_PLACED_ONE)
        return out


def _words_of_goal(goal: Goal | None) -> tuple[int, ...]:
    if goal is None:
        return (_STATE["task:?"],)
    task = goal.task_type if goal.task_type in TASK_TYPES else "?"
    words = [_STATE[f"task:{task}"], _STATE[f"goal:{_thing(goal.object)}"]]
    if goal.receptacle is not None:
        words.append(_STATE[f"target:{_place(goal.receptacle)}"])
    return tuple(words)


@lru_cache(maxsize=65_536)
def _read_observation(text: str) -> tuple[Observation, tuple[int, ...]]:
    """What an observation says, and its state words."""
    seen = parse_observation(text)
    words = {_STATE[f"kind:{seen.kind}"]: None}
    if seen.closed:
        words[_STATE["closed"]] = None
    if seen.listed is not None:
        if not seen.listed:
            words[_STATE["empty"]] = None
        for name in seen.listed:
            words[_STATE[f"see:{_thing(split_name(name)[0])}"]] = None
    return seen, tuple(words)


@lru_cache(maxsize=65_536)
def _read_command(text: str) -> tuple[Command, tuple[int, ...]]:
    """A command taken apart, and its state words as the last action."""
    command = parse_command(text)
    words = [_STATE[f"did:{command.verb}"]]
    if command.object:
        words.append(_STATE[f"did to:{_thing(command.object_type)}"])
    if command.receptacle:
        words.append(_STATE[f"did at:{_place(command.receptacle_type)}"])
    return command, tuple(words)


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


def goal_bits(command: Command, goal: Goal | None) -> int:
    """The candidate features that the goal's types decide."""
    if goal is None:
        return 0
    bits = 0
    if command.object and command.object_type == goal.object:
        bits |= IS_GOAL
    elif command.object and command.object_type == goal.lamp:
        bits |= IS_LAMP
    if command.receptacle and command.receptacle_type == goal.receptacle:
        bits |= IS_TARGET | (IS_BOTH if bits & IS_GOAL else 0)
    return bits


@lru_cache(maxsize=65_536)
def _read_candidate(text: str) -> tuple[Command, tuple[int, ...], int]:
    """A command taken apart, its tokens, and the candidate features that its number decides."""
    command = parse_command(text)
    number = split_name(command.receptacle or command.object)[1]
    return command, command_tokens(command), NUMBER_ONE if number == 1 else NUMBER_HIGH if number > 4 else 0


class AlfworldFeatures:
    """Features of ALFWorld's text.

    Args:
        limit: Turns of an episode.
        remarks: Whether there are features of remarks.
    """

    states: Final = len(STATE_WORDS)
    tokens: Final = len(TOKEN_WORDS)
    tokens_per_command: Final = 3

    def __init__(self, limit: int, *, remarks: bool = False) -> None:
        self._limit = limit
        self.priors = PRIORS if remarks else ()
        self.candidate_features = _OWN_BITS + len(self.priors)
        self._rows: dict[Goal | None, dict[str, tuple[str, int, str]]] = {}

    def begin(self, task: str, observation: str) -> AlfworldMemory:
        """The memory of a new episode."""
        return AlfworldMemory(parse_task(task or observation), observation, self._limit)

    def encode(self, memory: AlfworldMemory, admissible: Sequence[str], register: Register) -> Encoded:
        """The situation of an episode; every admissible command but ``help`` is a candidate."""
        rows = self._rows.get(memory.goal)
        if rows is None:
            if len(self._rows) >= 64:  # a few goals are live at a time; old ones only take memory
                self._rows.clear()
            rows = self._rows[memory.goal] = {}
        commands = [text for text in admissible if text != "help"]
        try:
            found = [rows[text] for text in commands]
        except KeyError:
            rows.update({text: _row(text, memory.goal, register) for text in commands if text not in rows})
            found = [rows[text] for text in commands]
        tried, there = memory.command_bits.get, memory.place_bits.get
        keys = [key | tried(text, 0) | there(place, 0) for text, key, place in found]
        if self.priors and memory.remarks:
            keys = memory.remarks.mark(keys, commands, memory.observation, _OWN_BITS)
        return Encoded(memory.state(), commands, keys)


def _row(text: str, goal: Goal | None, register: Register) -> tuple[str, int, str]:
    """A command, what goal and command alone decide of its key, and its receptacle."""
    command, tokens, bits = _read_candidate(text)
    return text, register.number(tokens) << PATTERN_BITS | bits | goal_bits(command, goal), command.receptacle
