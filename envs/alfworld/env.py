"""``triage/ALFWorld-v0``: ALFWorld households as a Gymnasium environment, text in and text out.

What it promises: the observations, commands and endings of the real ALFWorld. A seed names a game exactly, in every
process; two resets with the same seed, or the same ``options={"task_id": …}``, start the same game. The reward is 1.0 on
the step that reaches the goal and 0.0 on every other; ``terminated`` means won, so what ends a failure is the time limit
(:class:`gymnasium.wrappers.TimeLimit`, 50 turns under ``gymnasium.make``). The whole state, generator included, goes out
and in as JSON-able data; a copied or unpickled environment goes on where the original stood.

What it leaves to you: a policy. Commands that are not admissible are answered with "Nothing happens." and flagged in
``info["invalid_action"]``; they cost a turn, as in ALFWorld.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, ClassVar, Final, Literal, Protocol

from triage_gym.cards import EnvCard
from triage_gym.domains.alfworld import parse_observation
from triage_gym.envs.alfworld.engine import FastEngine
from triage_gym.envs.alfworld.expert import Expert
from triage_gym.envs.alfworld.games import SPLITS, Game
from triage_gym.envs.alfworld.lockstep import Player
from triage_gym.envs.alfworld.pool import draw, make_pool
from triage_gym.envs.alfworld.text import NOTHING_HAPPENS
from triage_gym.envs.task_env import TaskEnv, Turn
from triage_gym.errors import InputError, MissingDependency, StateError, UnsupportedGame

Backend = Literal["fast", "textworld"]
BACKENDS: Final = ("fast", "textworld")


class Engine(Player, Protocol):
    """What plays a game: :class:`FastEngine`, or the real one behind the same interface."""

    game: Game

    def close(self) -> None:
        """Let go of what the engine holds."""
        ...

    def get_state(self) -> dict[str, Any]:
        """The state as JSON-able data."""
        ...

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go to a state of :meth:`get_state`."""
        ...


class Household:
    """A running game: an engine, and the commands given so far where an expert needs them to follow.

    Args:
        engine: What plays the game.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.definition = engine.game
        self.task_id, self.fingerprint = engine.game.task_id, engine.game.fingerprint
        self.task, self.task_type = engine.game.task, engine.game.task_type
        self.backend: Backend = "fast" if isinstance(engine, FastEngine) else "textworld"
        self._given: list[str] = []

    def start(self) -> str:
        """The first observation."""
        self._given = []
        return self.engine.reset()

    def act(self, action: str) -> Turn:
        """Give a command."""
        text = self.engine.step(action)
        if self.backend != "fast":
            self._given.append(action)
        won = self.engine.won
        return Turn(text, float(won), ended=won, invalid=text == NOTHING_HAPPENS)

    def outcome(self) -> tuple[bool, float]:
        """Whether it is won, and the same as a score."""
        return self.engine.won, float(self.engine.won)

    def commands(self) -> list[str]:
        """The admissible commands."""
        return self.engine.admissible_commands()

    def templates(self) -> list[str]:
        """None: every command can be listed."""
        return []

    def get_state(self) -> dict[str, Any]:
        """Engine and commands as JSON-able data."""
        return {"backend": self.backend, "engine": self.engine.get_state(), "commands": list(self._given)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go to a state of :meth:`get_state` that :func:`_check_game_state` has looked at."""
        self.engine.set_state(state["engine"])
        self._given = list(state["commands"])

    def close(self) -> None:
        """Let go of the engine."""
        self.engine.close()

    def known(self) -> FastEngine:
        """The current state in a fast engine, which the expert reads."""
        if isinstance(self.engine, FastEngine):
            return self.engine
        twin = FastEngine(self.definition)
        for command in self._given:
            twin.step(command)
        return twin


class ALFWorldEnv(TaskEnv[Household]):
    """ALFWorld households.

    Args:
        backend: ``"fast"``, the engine of this package, or ``"textworld"``, the real one (extra ``alfworld``). A game
            that the fast engine cannot play faithfully goes to the real one by itself; ``info["backend"]`` of the reset
            and :attr:`playing` say which one plays.
        split: ``"train"``, ``"valid_seen"`` or ``"valid_unseen"``: which games to generate, or to read of a data tree.
        task_types: Task types to play; all six when None.
        games: None for generated games; the path of a game file, of a folder of games or of an ALFWorld data tree;
            or a sequence of games or of their dicts. The variable ``ALFWORLD_DATA`` is never read unasked: pass
            ``os.environ["ALFWORLD_DATA"]`` to use it.
        num_games: How many games there are to draw from; None for all (without end, when generated).
        render_mode: ``"ansi"`` or None.
        max_turns: Turns after which an episode is truncated; None leaves that to a time limit outside.

    Raises:
        InputError: For an argument of the wrong form, or when no game is left.
        MissingDependency: If the alfworld wheel is needed and not installed.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "render_modes": ["ansi"],
        "render_fps": 1,
        "domain": "alfworld",
        "outcome_text": ("You won!",),
    }
    SPLITS = SPLITS

    def __init__(
        self,
        backend: Backend = "fast",
        split: str = "train",
        task_types: Sequence[str] | None = None,
        games: str | os.PathLike[str] | Sequence[Game | Mapping[str, Any]] | None = None,
        num_games: int | None = None,
        render_mode: str | None = None,
        max_turns: int | None = None,
    ) -> None:
        super().__init__(split=split, max_turns=max_turns, render_mode=render_mode)
        if backend not in BACKENDS:
            raise InputError(f"Expected backend to be one of {BACKENDS}, got {backend!r}")
        self.backend = backend
        self.pool = make_pool(games, split, task_types, num_games)

    @classmethod
    def card(cls) -> EnvCard:
        """What ``triage-gym envs list`` says about this environment."""
        wheel = "found" if find_spec("alfworld") else "missing: pip install --no-deps alfworld==0.4.2"
        return EnvCard(
            source="ALFWorld (Shridhar et al. 2021), six types of household tasks",
            size="without end, generated: train and valid_seen on train floor plans, valid_unseen on test floor plans",
            restorable="yes",
            data=f"grammar and floor plans of the alfworld wheel ({wheel}); real games: games=PATH",
        )

    @property
    def playing(self) -> Backend:
        """Which engine plays the current game.

        Raises:
            ResetNeeded: Before the first reset.
        """
        return self.game.backend

    def task_ids(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Task ids of the games from ``start`` up to ``stop`` (all of them when None); each is good for ``reset``.

        Raises:
            InputError: If ``start`` is negative, or ``stop`` is None and the games are without end.
        """
        self._check_range(start, stop)
        last = len(self.pool) if stop is None else min(stop, len(self.pool))
        if last - start > 10_000_000:
            raise InputError("Expected a `stop`, or an environment made with `num_games`: its games are without end")
        return [self.pool.name(i) for i in range(start, last)]

    def expert_distance(self) -> int | None:
        """Commands left on a shortest way to win; 0 when won, None when the game cannot be won any more.

        Raises:
            ResetNeeded: Before the first reset.
            UnsupportedGame: If the fast engine cannot play the game, so that no expert plans it.
        """
        return Expert().distance(self.game.known())

    def expert_action(self) -> str | None:
        """The next command on a shortest way to win; None when there is none left or none at all.

        Raises:
            ResetNeeded: Before the first reset.
            UnsupportedGame: If the fast engine cannot play the game, so that no expert plans it.
        """
        return Expert().next_command(self.game.known())

    def expert_plan(self) -> list[str] | None:
        """All commands of a shortest way to win; None when the game cannot be won any more.

        Raises:
            ResetNeeded: Before the first reset.
            UnsupportedGame: If the fast engine cannot play the game, so that no expert plans it.
        """
        return Expert().plan(self.game.known())

    def task_state(self) -> dict[str, Any] | None:
        """The household without clock and text (:mod:`triage_gym.facts`); None where the fast engine cannot play the game.

        Raises:
            ResetNeeded: Before the first reset.
        """
        try:
            state = self.game.known().get_state()
        except UnsupportedGame:
            return None
        return {name: value for name, value in state.items() if name not in ("version", "game")}

    def belief(self) -> list[list[str]]:
        """What the last answer shows: places that were come to, places looked into, things (:mod:`triage_gym.facts`).

        Things by name alone: only the agent moves them, so that who has seen one knows where it is.
        """
        _ = self.game
        shown = parse_observation(self._text)
        if shown.kind == "room":
            return [["place", name] for name in shown.listed or ()]
        if shown.kind not in ("arrive", "open", "receptacle", "facing"):
            return []
        things = [["thing", name] for name in shown.listed or ()]
        if shown.kind == "facing":
            return things
        looked_into = [["inside", shown.place]] if shown.listed is not None else []
        return [["at", shown.place], *looked_into, *things]

    def _draw(self) -> str:
        return draw(self.pool, self.np_random)

    def _reset_info(self, game: Household) -> dict[str, Any]:
        return {"backend": game.backend}

    def _new(self, task_id: str) -> Household:
        """The running household again when it plays this game; a state of another backend may have put another there."""
        running = self._game
        if running is not None and running.task_id == task_id and running.backend == self.backend:
            return running
        definition = self.pool.get(task_id)
        return Household(_real_engine(definition) if self.backend == "textworld" else _any_engine(definition))

    def _restored(self, task_id: str, state: Mapping[str, Any]) -> Household:
        _check_game_state(state)
        household = self._game
        if household is None or (household.task_id, household.backend) != (task_id, state["backend"]):
            definition = self.pool.get(task_id)
            household = Household(FastEngine(definition) if state["backend"] == "fast" else _real_engine(definition))
        household.set_state(state)
        return household


def _check_game_state(state: Mapping[str, Any]) -> None:
    """Look at all of a household's state but the engine's part, which the engine looks at.

    Raises:
        StateError: If ``state`` is none of :meth:`Household.get_state`.
    """
    if not state.keys() >= {"backend", "engine", "commands"}:
        raise StateError(f"Expected backend, engine and commands in the state of a household, got {str(state)[:80]}")
    commands = state["commands"]
    if type(commands) is not list or not all(isinstance(command, str) for command in commands):
        raise StateError(f"Expected commands of the state to be a list of texts, got {str(commands)[:80]}")
    if state["backend"] not in BACKENDS:
        raise StateError(f"Expected backend of the state to be one of {BACKENDS}, got {state['backend']!r:.80}")


def _any_engine(game: Game) -> Engine:
    """The fast engine where it can play ``game``, else the real one."""
    try:
        return FastEngine(game)
    except UnsupportedGame as refusal:
        try:
            return _real_engine(game)
        except MissingDependency as missing:
            raise UnsupportedGame(f"{refusal} ({game.task_id}); {missing}") from refusal


def _real_engine(game: Game) -> Engine:
    from triage_gym.envs.alfworld.textworld_backend import TextWorldEngine

    engine: Engine = TextWorldEngine(game)
    return engine
