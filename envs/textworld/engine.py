"""One TextWorld game on the real interpreter: text, score, admissible commands, and the whole state as data.

:class:`Interpreter` drives jericho's Frotz as TextWorld's own stack (``textworld.start``) does and answers the same
text, score and admissible commands, turn by turn; the tests hold it against that stack. What differs is inside: the
state goes out and in in well under a millisecond, the commands are computed only when the world changed, and quests are
followed only when an expert asks, on a copy.

Needs the extra ``textworld``; this module is imported where games are played, in the worker process as a rule.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from triage_gym.envs.textworld import frotz
from triage_gym.envs.textworld.packages import load
from triage_gym.errors import InputError, StateError

SEED: Final = 1234
"""Of the interpreter's own dice; TextWorld's stories seed theirs by themselves."""
_EVENT: Final = re.compile(r"\[[^]]+ - (?:succeeded|failed)[^]]*\]")
_WON: Final = "*** The End ***"
_LOST: Final = "*** You lost! ***"


def story_digest(story: bytes) -> str:
    """Hash of a compiled story without the date of its compilation and the checksum of the header."""
    return hashlib.sha256(story[:0x12] + story[0x18:0x1C] + story[0x1E:]).hexdigest()[:16]


def world_digest(game: Any) -> str:
    """Hash of all that is in a game's world: facts, entities with their names and texts, objective, score.

    It is the same in every process, while TextWorld's own files vary with ``PYTHONHASHSEED`` and the date.
    """
    entities = sorted((i.id, i.type, i.name or "", i.desc or "") for i in game.infos.values())
    facts = sorted(str(fact) for fact in game.world.facts)
    content = [facts, entities, game.objective, str(game.max_score)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _Told:
    """What a game's ``.json`` tells; read only, so every interpreter of the game shares it."""

    game: Any
    world: str
    inform: Any
    actions: list[Any]
    """Possible at the beginning, like the commands."""
    commands: list[str]


@lru_cache(maxsize=8)
def _told(path: str, _changed: int) -> _Told:
    game = load("textworld").Game.load(path)
    inform = load("textworld.generator.inform7").Inform7Game(game)
    return _Told(game, world_digest(game), inform, *_possible(game, inform, game.world.state))


def _possible(game: Any, inform: Any, facts: Any) -> tuple[list[Any], list[str]]:
    """The actions that are possible where ``facts`` hold, and their commands, sorted."""
    actions = list(facts.all_applicable_actions(game.kb.rules.values(), game.kb.types.constants_mapping))
    return actions, sorted(set(inform.gen_commands_from_actions(actions)))


class Interpreter:
    """A game at its beginning; :meth:`restart` goes back there.

    Args:
        path: The ``.z8`` file; TextWorld's ``.json`` lies next to it.

    Raises:
        InputError: If the files cannot be read as a game.
        MissingDependency: If the packages are not installed.
    """

    score: int
    """Points so far."""
    won: bool
    lost: bool
    commands: list[str]
    """Every admissible command, sorted."""
    _facts: Any
    _actions: list[Any]

    def __init__(self, path: Path) -> None:
        jericho = load("jericho")
        self._tags = load("textworld.envs.wrappers.tw_inform7")
        self._logic = load("textworld.logic")
        try:
            self.story = story_digest(path.read_bytes())
            self._told = _told(str(path.with_suffix(".json")), path.with_suffix(".json").stat().st_mtime_ns)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._frotz = jericho.FrotzEnv(str(path), SEED)
                self._intro = self._frotz.reset()[0]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"Expected a game of TextWorld, could not read {path}: {error!r:.200}") from error
        self.game, self.world, self._inform = self._told.game, self._told.world, self._told.inform
        # A quest that can be repeated has no most points.
        self.max_score = int(self.game.max_score) if np.isfinite(self.game.max_score) else 0
        for switch in ("tw-extra-infos moves", "tw-extra-infos score", "tw-trace-actions"):
            self._frotz.step(switch)
        self._first = self._frotz.get_state()
        self.restart()

    def restart(self) -> str:
        """Go to the beginning; the text of the beginning."""
        self._frotz.set_state(self._first)
        self._facts = self.game.world.state.copy()
        self._actions, self.commands = self._told.actions, self._told.commands
        self._forget()
        return str(self._intro)

    def _forget(self) -> None:
        self.score, self.won, self.lost = 0, False, False
        self._events: list[str] = []
        self._followed: Any = None

    def step(self, command: str) -> tuple[str, bool]:
        """Do ``command``, which must be :func:`~triage_gym.envs.textworld.commands.plain`.

        Returns:
            The text, and whether the parser made an action of the command: one that failed counts, a word that it does
            not know does not.
        """
        raw = self._frotz.step(command)[0]
        told, text = self._tags._detect_extra_infos(raw, ["moves", "score"])
        if told["score"] is not None:
            self.score = int(told["score"].split("\n")[0])
        events, text = self._tags._detect_i7_events_debug_tags(text)
        self.won, self.lost = _WON in text, _LOST in text
        for event in events:
            action = self._inform.detect_action(event, self._actions)
            if action is not None:
                self._events.append(event)
                self._facts.apply(action)
                self._begin_world(self._facts)
        return text, self.won or self.lost or _EVENT.search(raw) is not None

    def _begin_world(self, facts: Any) -> None:
        self._facts = facts
        self._actions, self.commands = _possible(self.game, self._inform, facts)

    def facts(self) -> list[list[str]]:
        """What is true in the world, sorted: the name of each proposition, then what it is about."""
        return sorted([fact.name, *[variable.name for variable in fact.arguments]] for fact in self._facts.facts)

    def in_sight(self) -> list[list[str]]:
        """The room, the things in sight and in hand, and the containers whose inside is in sight; by their ids."""
        facts = self.facts()
        holds = {name: [rest for kind, *rest in facts if kind == name] for name in ("at", "in", "on", "link", "open")}
        room = next((where for what, where in holds["at"] if what == "P"), "")
        doors = {door for start, door, _ in holds["link"] if start == room}
        things = doors | {what for what, where in holds["at"] if where == room} - {"P"}
        things |= {what for what, where in holds["in"] if where == "I"}
        inside = (things - doors) & {what for (what,) in holds["open"]}
        things |= {what for what, where in holds["in"] if where in inside}
        things |= {what for what, where in holds["on"] if where in things}
        return [["room", room], *[["thing", i] for i in sorted(things)], *[["inside", i] for i in sorted(inside)]]

    def advice(self) -> tuple[str | None, int | None]:
        """The next command of TextWorld's winning policy and how many it has; None for both when it has none."""
        if self._followed is None:
            progress = load("textworld.generator.game").GameProgression
            self._followed, self._followed_events = progress(self.game, track_quests=True), 0
        for event in self._events[self._followed_events :]:
            self._followed.update(self._inform.detect_action(event, self._followed.valid_actions))
        self._followed_events = len(self._events)
        policy = self._followed.winning_policy
        if not policy:
            return None, None
        return self._inform.gen_commands_from_actions(policy[:1])[0], len(policy)

    def get_state(self) -> dict[str, Any]:
        """The whole state as JSON-able data: the interpreter's, and the facts of the world."""
        facts = sorted((fact.serialize() for fact in self._facts.facts), key=json.dumps)
        return {
            "story": self.story,
            **frotz.to_json(self._frotz.get_state(), self._first),
            "facts": frotz.packed(json.dumps(facts, separators=(",", ":")).encode()),
            "events": list(self._events),
            "score": self.score,
            "won": self.won,
            "lost": self.lost,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go to a state of :meth:`get_state`, of any interpreter of the same story.

        Raises:
            StateError: If it is none; nothing is changed then.
        """
        machine = frotz.from_json(state, self._first)
        try:
            facts = json.loads(frotz.unpacked(state["facts"], 1 << 24))
            propositions = [self._logic.Proposition.deserialize(fact) for fact in facts]
            events, score = [str(event) for event in state["events"]], int(state["score"])
            won, lost = bool(state["won"]), bool(state["lost"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"Expected the state of a TextWorld game, got something else: {error!r:.200}") from error
        self._frotz.set_state(machine)
        self._forget()
        self._begin_world(self._logic.State(self.game.kb.logic, propositions))
        self._events, self.score, self.won, self.lost = events, score, won, lost
