"""Which engine plays a game: the fast one by default, the real one on request or where the fast one declines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, get_args

from triage_gym.envs.alfworld.engine import FastEngine
from triage_gym.envs.alfworld.games import Game
from triage_gym.errors import InputError, MissingDependency, UnsupportedGame

Backend = Literal["fast", "textworld"]


class Engine(Protocol):
    """What every engine can do; see :class:`~triage_gym.envs.alfworld.engine.FastEngine`."""

    game: Game
    won: bool

    def reset(self) -> str:
        """Go to the game's first state; the text that starts the game."""
        ...

    def step(self, command: str) -> str:
        """Do ``command``; the text that answers it."""
        ...

    def admissible_commands(self) -> list[str]:
        """Every command that does something now, sorted; a fresh list."""
        ...

    def get_state(self) -> dict[str, Any]:
        """The whole state as JSON-able data."""
        ...

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go to a state of the same game; raises StateError for any other."""
        ...

    def close(self) -> None:
        """Free what the engine holds."""
        ...


def make_engine(game: Game, backend: Backend = "fast") -> Engine:
    """An engine for ``game``, in its first state.

    Args:
        game: What to play.
        backend: ``"fast"`` falls back to the real engine for a game that it cannot play faithfully;
            ``"textworld"`` is always the real one.

    Raises:
        InputError: If the game cannot be read, or there is no such backend.
        MissingDependency: If ``backend="textworld"`` is not installed.
        UnsupportedGame: If no engine plays the game, or only the real one would and it is not installed.
    """
    from triage_gym.envs.alfworld.textworld_backend import TextWorldEngine

    if backend not in get_args(Backend):
        raise InputError(f"Expected a backend in {get_args(Backend)}, got {backend!r}")
    if backend == "textworld":
        return TextWorldEngine(game)
    try:
        return FastEngine(game)
    except UnsupportedGame as refusal:
        try:
            return TextWorldEngine(game)
        except MissingDependency as missing:
            raise UnsupportedGame(
                f"{refusal}. The real engine, which might play it, is missing: {missing}"
            ) from missing
