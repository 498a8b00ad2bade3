"""The set of games that an environment plays: generated ones by name, or files and games that were handed in.

A pool knows the names of its games without making or reading them, so a training set of thousands costs nothing until
it is played. Games are made again from their name (or file) when they fall out of a cache that all pools of a process
share for generated games. Pools never change after construction; copies of an environment share theirs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from triage_gym.envs.alfworld import games as game_files
from triage_gym.envs.alfworld import generator
from triage_gym.envs.alfworld.games import SPLITS, TASK_TYPES, Game
from triage_gym.envs.alfworld.world import World, world_of
from triage_gym.errors import InputError

UNBOUNDED: Final = 2**31
"""How many seeds a generated pool without ``num_games`` draws from."""
CACHED_GAMES: Final = 1536
"""Generated games that a process keeps, parsed: 0.1 to 0.15 MB each. A training run of default size has some 1,300."""
_UNSOLVABLE: Final = re.compile(rb'"solvable"\s*:\s*false')

GamesArgument = str | os.PathLike[str] | Sequence[Game | Mapping[str, Any]]


class GamePool(Protocol):
    """What an environment needs of a set of games."""

    def __len__(self) -> int:
        """How many games there are."""
        ...

    def name(self, index: int) -> str:
        """Task id of game ``index``."""
        ...

    def get(self, task_id: str) -> Game:
        """The game named ``task_id``; raises InputError when the pool has none."""
        ...


def draw(pool: GamePool, rng: np.random.Generator) -> str:
    """Task id of a game of ``pool``, all alike."""
    return pool.name(int(rng.integers(len(pool))))


def make_pool(
    games: GamesArgument | None, split: str, task_types: Iterable[str] | None, num_games: int | None
) -> GamePool:
    """The pool that an environment's arguments describe.

    Args:
        games: None for generated games; a game file, a folder of games, or an ALFWorld data tree; or games themselves.
            Files that say they are not solvable are left out, as alfworld does.
        split: Which split to generate, or to read of a data tree (a folder without splits is taken whole).
        task_types: Which task types; all six when None.
        num_games: How many games; all (of an unbounded number, when generated) when None.

    Raises:
        InputError: If an argument has the wrong form, or no game is left.
    """
    if split not in SPLITS:
        raise InputError(f"Expected split to be one of {SPLITS}, got {split!r}")
    if num_games is not None and (isinstance(num_games, bool) or not isinstance(num_games, int) or num_games < 1):
        raise InputError(f"Expected num_games to be a positive integer or None, got {num_games!r}")
    wanted = _check_types(task_types)
    if games is None:
        return GeneratedPool(split, wanted, num_games)
    if games == "":
        raise InputError("Expected the path of games, got an empty text (is ALFWORLD_DATA set?)")
    if isinstance(games, str | os.PathLike):
        return _file_pool(Path(games), split, wanted, num_games)
    if isinstance(games, Mapping | bytes) or not isinstance(games, Sequence):
        raise InputError(f"Expected games to be None, a path or a sequence of games, got {type(games).__name__}")
    read = [g if isinstance(g, Game) else Game.from_dict(g, where=f"games[{i}]") for i, g in enumerate(games)]
    return ListedPool.of_games([g for g in read if g.task_type in wanted or task_types is None][:num_games])


def _check_types(task_types: Iterable[str] | None) -> tuple[str, ...]:
    if task_types is None:
        return TASK_TYPES
    if isinstance(task_types, str):
        raise InputError(f'Expected task_types to be a sequence like ["{task_types}"], got the text {task_types!r}')
    found = tuple(dict.fromkeys(task_types))
    unknown = [t for t in found if t not in TASK_TYPES]
    if unknown or not found:
        raise InputError(f"Expected task_types out of {TASK_TYPES}, got {found!r}")
    return found


def _file_pool(path: Path, split: str, task_types: tuple[str, ...], num_games: int | None) -> ListedPool:
    """Games of a path: a file, a folder with one, a whole folder, or ``split`` of a data tree."""
    try:
        file = path / game_files.GAME_FILE if path.is_dir() else path
        is_file = file.is_file()
    except OSError as error:
        raise InputError(f"Expected the path of games, got {str(path)[:200]!r}: {error}") from error
    if is_file:
        return ListedPool.of_files([file])
    inside = [p.name for p in path.iterdir() if p.is_dir()] if path.is_dir() else []
    is_tree = any(name in SPLITS or name.startswith("json_") for name in inside)
    found = game_files.find(path, split if is_tree else None, task_types)
    playable = [f for f in found if not _UNSOLVABLE.search(game_files.read_bytes(f))]
    if not playable:
        raise InputError(
            f"Expected {game_files.GAME_FILE} files of {task_types} in {path}, got {len(found)}, none of them solvable"
        )
    return ListedPool.of_files(playable[:num_games])


class GeneratedPool:
    """Games from seeds, the task types taking turns: game ``i`` has type ``i % n`` and seed ``i // n``."""

    def __init__(self, split: str, task_types: Sequence[str], num_games: int | None) -> None:
        self.split = split
        self.task_types = tuple(task_types)
        self._size = UNBOUNDED if num_games is None else num_games

    def __len__(self) -> int:
        return self._size

    def name(self, index: int) -> str:
        """Task id of game ``index``."""
        seed, kind = divmod(index, len(self.task_types))
        return generator.name_of(seed, self.task_types[kind], self.split)

    def get(self, task_id: str) -> Game:
        """The game named ``task_id``, made anew when no environment of this process played it lately."""
        seed, task_type, split, floor_plan = generator.parse_task_id(task_id)
        kind = self.task_types.index(task_type) if task_type in self.task_types else -1
        inside = kind >= 0 and seed * len(self.task_types) + kind < self._size and floor_plan is None
        if split != self.split or not (inside or (kind >= 0 and self._size == UNBOUNDED)):
            raise InputError(
                f"Expected one of the {self._size} games of {self.split} with the task types {self.task_types}, "
                f"got {task_id!r}"
            )
        return _generated(task_id)[0]

    def __deepcopy__(self, memo: dict[int, Any]) -> GeneratedPool:
        return self


@lru_cache(maxsize=CACHED_GAMES)
def _generated(task_id: str) -> tuple[Game, World]:
    """A game with its parsed world, which is shared by every engine for as long as someone holds it."""
    game = generator.from_task_id(task_id)
    return game, world_of(game)


class ListedPool:
    """Games in a fixed order, at hand or in files; a file is read when it is first played, and kept.

    Args:
        games: Task id to game or game file.
    """

    def __init__(self, games: Mapping[str, Game | Path]) -> None:
        self._games = dict(games)
        self._names = tuple(self._games)

    @classmethod
    def of_files(cls, files: Sequence[Path]) -> ListedPool:
        """Game files, named ``<task>/<trial>`` by their folders, in order of the paths."""
        named = {f"{f.absolute().parent.parent.name}/{f.absolute().parent.name}": f for f in files}
        if len(named) != len(files):
            raise InputError("Expected game files in folders <task>/<trial> of different names, got two alike")
        return cls(named)

    @classmethod
    def of_games(cls, games: Sequence[Game]) -> ListedPool:
        """Games that were handed in, in the order given."""
        if not games:
            raise InputError("Expected at least one game of the wanted task types, got none")
        named = {g.task_id: g for g in games}
        if len(named) != len(games) or "" in named:
            raise InputError("Expected games with task ids of their own, got an empty one or two alike")
        return cls(named)

    def __len__(self) -> int:
        return len(self._names)

    def name(self, index: int) -> str:
        """Task id of game ``index``."""
        return self._names[index]

    def get(self, task_id: str) -> Game:
        """The game named ``task_id``."""
        found = self._games.get(task_id)
        if found is None:
            raise InputError(
                f"Expected the task id of one of {len(self)} games (the first is {self._names[0]!r}), got {task_id!r}"
            )
        if isinstance(found, Path):
            found = self._games[task_id] = replace(game_files.load(found), task_id=task_id)
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> ListedPool:
        return self
