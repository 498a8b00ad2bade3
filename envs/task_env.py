"""TaskEnv: what every built-in text environment shares, so that each one is only its game.

A *game* (:class:`TextGame`) is one running episode of one task: pure Python, no generator, no turn limit, text in and
text out. :class:`TaskEnv` makes it a Gymnasium environment: seeds and task ids, splits, the turn limit, the infos, the
whole state as JSON-able data in and out, copies and pickles. A subclass says which tasks there are and how a game is
made of a task id, or of a task id and a state.

What it promises: ``success`` and ``score`` come only at the end; ``terminated`` is what the task itself ends,
``truncated`` is the turn limit; no container is handed out twice; a state is looked at whole before anything changes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

import gymnasium
from gymnasium.error import ResetNeeded

from triage_gym.cards import EnvCard
from triage_gym.envs import generator_state
from triage_gym.envs.arguments import check_limit_and_mode, task_id_of
from triage_gym.errors import InputError, StateError
from triage_gym.spaces import UnicodeText

STATE_VERSION: Final = 1
MAX_TEXT: Final = 65_536
"""Longest observation and command, in code points."""
_STATE_TYPES: Final = {
    "env": str,
    "task_id": str,
    "fingerprint": str,
    "game": dict,
    "turns": int,
    "text": str,
    "done": bool,
}
_STATE_KEYS: Final = frozenset(_STATE_TYPES) | generator_state.KEYS | {"version"}


class Turn(NamedTuple):
    """What a game answers to an action."""

    text: str
    """The observation."""
    reward: float = 0.0
    ended: bool = False
    """Whether the task itself is over, won or lost."""
    invalid: bool = False
    """Whether the action was none of the game's: told apart from one that changed nothing."""
    extra: Mapping[str, Any] | None = None
    """Further entries of the info, of types that never change; handed out as they are."""


class TextGame(Protocol):
    """One running episode of one task."""

    task_id: str
    """Names the task for ``reset(options={"task_id": …})``."""
    task: str
    """The instruction in words."""
    task_type: str
    """Kind of task, for statistics."""
    fingerprint: str
    """Changes with anything that decides the task: another catalogue, level or version gives another one."""

    def start(self) -> str:
        """The first observation."""
        ...

    def act(self, action: str) -> Turn:
        """Play one action."""
        ...

    def outcome(self) -> tuple[bool, float]:
        """Success and score (0.0 to 1.0) of the game as it stands."""
        ...

    def commands(self) -> list[str]:
        """A new list of actions that are accepted now: all of them where they can be listed."""
        ...

    def templates(self) -> list[str]:
        """A new list of the forms of actions that cannot be listed, such as ``search[<query>]``."""
        ...

    def get_state(self) -> dict[str, Any]:
        """What :meth:`TaskEnv._restored` needs, as JSON-able data that shares nothing with the game."""
        ...

    def close(self) -> None:
        """Let go of what the game holds."""
        ...


G = TypeVar("G", bound=TextGame)


class TaskEnv(gymnasium.Env[str, str], Generic[G]):
    """Base of the built-in text environments.

    Args:
        split: One of :attr:`SPLITS`.
        max_turns: Turns after which an episode is truncated; None for no limit.
        render_mode: ``"ansi"`` or None.

    Raises:
        InputError: For an argument of the wrong form.
    """

    metadata: ClassVar[dict[str, Any]]  # type: ignore[misc]
    SPLITS: ClassVar[tuple[str, ...]] = ("train", "val", "test")

    def __init__(self, *, split: str = "train", max_turns: int | None = None, render_mode: str | None = None) -> None:
        if split not in self.SPLITS:
            raise InputError(f"Expected split to be one of {self.SPLITS}, got {split!r}")
        check_limit_and_mode(max_turns, render_mode, self.metadata["render_modes"])
        self.split = split
        self.max_turns = max_turns
        self.render_mode = render_mode
        self.observation_space = UnicodeText(MAX_TEXT)
        self.action_space = UnicodeText(MAX_TEXT)
        self._game: G | None = None
        self._turns = 0
        self._text = ""
        self._done = False

    @classmethod
    @abstractmethod
    def card(cls) -> EnvCard:
        """What ``triage-gym envs list`` says about this environment."""

    @abstractmethod
    def task_ids(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Ids of this split's tasks from ``start`` to before ``stop``; of all from there on when ``stop`` is None.

        Each is good for ``reset(options={"task_id": …})``. A list without end needs a ``stop``.

        Raises:
            InputError: If ``start`` or ``stop`` is negative or no integer, or ``stop`` is None and the list has no end.
        """

    @staticmethod
    def _check_range(start: int, stop: int | None) -> None:
        for name, value in (("start", start), ("stop", stop)):
            if (value is not None or name == "start") and (type(value) is not int or value < 0):
                raise InputError(f"Expected `{name}` to be an integer of 0 or more, got {value!r}")

    @abstractmethod
    def _draw(self) -> str:
        """The id of a task of this split, drawn by ``self.np_random``."""

    @abstractmethod
    def _new(self, task_id: str) -> G:
        """A new game of a task, of whatever split; raises InputError for an unknown id."""

    @abstractmethod
    def _restored(self, task_id: str, state: Mapping[str, Any]) -> G:
        """A game of a task in a state of its ``get_state``; raises StateError and changes nothing if it is none.

        It may be the running game, changed, when that plays this task: then the change is the last thing that can fail.
        """

    @property
    def game(self) -> G:
        """The running game.

        Raises:
            ResetNeeded: Before the first reset.
        """
        if self._game is None:
            raise ResetNeeded("Expected reset() first: no game is running")
        return self._game

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin the task that ``options["task_id"]`` names, else one of the split, drawn by the generator.

        Args:
            seed: Seeds the generator first, so that it alone decides the task.
            options: ``{"task_id": str}`` or nothing. A task of another split may be named.

        Returns:
            The first observation, and an info with ``admissible_commands``, ``command_templates``, ``task_id``,
            ``task`` and ``task_type``.

        Raises:
            InputError: For an unknown task id or option.
        """
        task_id = task_id_of(options)
        super().reset(seed=seed)
        game = self._new(self._draw() if task_id is None else task_id)
        self._replace(game)
        self._turns, self._done = 0, False
        self._text = game.start()
        return self._text, {
            "admissible_commands": game.commands(),
            "command_templates": game.templates(),
            "task_id": game.task_id,
            "task": game.task,
            "task_type": game.task_type,
            **self._reset_info(game),
        }

    def _reset_info(self, game: G) -> dict[str, Any]:
        """Further entries of the info of reset; none by default."""
        return {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one action.

        Returns:
            Observation, reward, terminated, truncated (the turn limit) and an info with ``admissible_commands``,
            ``command_templates`` and ``invalid_action``; ``success`` and ``score`` too at the end.

        Raises:
            InputError: If ``action`` is no text.
            ResetNeeded: Before the first reset and after the end.
        """
        game = self._game
        if game is None or self._done:
            raise ResetNeeded("Expected reset() before step(): no game is running, or the last one has ended")
        if not isinstance(action, str):
            raise InputError(f"Expected an action as text, got {type(action).__name__}")
        turn = game.act(action)
        self._turns += 1
        self._text = turn.text
        truncated = not turn.ended and self.max_turns is not None and self._turns >= self.max_turns
        self._done = turn.ended or truncated
        info: dict[str, Any] = {
            "admissible_commands": [] if turn.ended else game.commands(),
            "command_templates": [] if turn.ended else game.templates(),
            "invalid_action": turn.invalid,
        }
        if turn.extra is not None:
            info.update(turn.extra)
        if self._done:
            info["success"], info["score"] = self.outcome()
        return turn.text, turn.reward, turn.ended, truncated, info

    def outcome(self) -> tuple[bool, float]:
        """Success and score of the episode as it stands: what a time limit outside cuts off has this outcome.

        Raises:
            ResetNeeded: Before the first reset.
        """
        success, score = self.game.outcome()
        return bool(success), float(score)

    def render(self) -> str | None:
        """The last observation, in render mode ``"ansi"``.

        Raises:
            ResetNeeded: Before the first reset.
        """
        _ = self.game
        return self._text if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Let go of the game."""
        self._replace(None)

    def get_state(self) -> dict[str, Any]:
        """The whole state as JSON-able data: task by name, game, turns, generator. Independent of the environment.

        Raises:
            ResetNeeded: Before the first reset.
        """
        game = self.game
        return {
            "version": STATE_VERSION,
            "env": self.metadata["domain"],
            "task_id": game.task_id,
            "fingerprint": game.fingerprint,
            "game": game.get_state(),
            "turns": self._turns,
            "text": self._text,
            "done": self._done,
            **generator_state.get(self),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go to a state of :meth:`get_state`, of this environment or of another with the same arguments.

        Raises:
            StateError: If ``state`` is none of get_state's, or its task is not the one that has this name here.
        """
        rng = self._checked(state)
        try:
            game = self._restored(state["task_id"], state["game"])
        except InputError as error:
            raise StateError(f"Expected a state of one of this environment's tasks: {error}") from error
        try:
            self._check_fingerprint(game, state)
        except StateError:
            game.close()
            raise
        self._replace(game)
        self._turns, self._text, self._done = state["turns"], state["text"], state["done"]
        generator_state.put(self, rng, state["np_random_seed"])

    def _checked(self, state: Any) -> Any:
        """The generator of ``state``, everything else in which but the game's part is looked at too."""
        known = isinstance(state, Mapping) and state.get("version") == STATE_VERSION and state.keys() >= _STATE_KEYS
        if not known or type(state["version"]) is not int:
            raise StateError(f"Expected a state of version {STATE_VERSION} from get_state, got {str(state)[:80]}")
        for key, kind in _STATE_TYPES.items():
            if type(state[key]) is not kind:
                raise StateError(f"Expected {key} of the state to be a {kind.__name__}, got {str(state[key])[:80]!r}")
        if state["env"] != self.metadata["domain"]:
            raise StateError(f"Expected a state of {self.metadata['domain']!r}, got one of {state['env']!r}")
        if state["turns"] < 0:
            raise StateError(f"Expected turns of the state to be 0 or more, got {state['turns']}")
        if self._game is not None and self._game.task_id == state["task_id"]:
            self._check_fingerprint(self._game, state)  # before a game that is used again is changed
        return generator_state.check(state, self)

    @staticmethod
    def _check_fingerprint(game: TextGame, state: Mapping[str, Any]) -> None:
        if game.fingerprint != state["fingerprint"]:
            raise StateError(
                f"Expected {game.task_id!r} to be the task {state['fingerprint']}, got {game.fingerprint}: "
                "its data, or the version that made it, is another"
            )

    def _replace(self, game: G | None) -> None:
        before, self._game = self._game, game
        if before is not None and before is not game:
            before.close()

    def __getstate__(self) -> dict[str, Any]:
        held = {name: value for name, value in vars(self).items() if name != "_game"}
        return {"held": held, "state": None if self._game is None else self.get_state()}

    def __setstate__(self, saved: Mapping[str, Any]) -> None:
        vars(self).update(saved["held"])
        self._game = None
        if saved["state"] is not None:
            self.set_state(saved["state"])
