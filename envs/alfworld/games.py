"""A game: one ALFWorld household with one task, and the readers of ``game.tw-pddl`` files.

A game file carries its own domain, grammar and problem, so that both generations of ALFWorld data (0.3 with
``put X in/on Y``, 0.4 with ``move X to Y``) play by their own rules. Promises: a file that is not a game is an
:class:`~triage_gym.errors.InputError` that names it; nothing outside the given path is read, but the ``traj_data.json``
beside it. Leaves to you: an engine, which is where a game's content is checked. Games from a seed are made by
:mod:`~triage_gym.envs.alfworld.generator`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from triage_gym.domains import alfworld as domain_text
from triage_gym.errors import InputError

TASK_TYPES: Final = domain_text.TASK_TYPES
SPLITS: Final = ("train", "valid_seen", "valid_unseen")
GAME_FILE: Final = "game.tw-pddl"
TRAJECTORY_FILE: Final = "traj_data.json"
MAX_BYTES: Final = 16_000_000


@dataclass(frozen=True)
class Game:
    """One household and its task, as text; immutable, comparable and cheap to share."""

    task_id: str
    """Unique name, ``<task>/<trial>`` as in ALFWorld's data tree."""
    task_type: str
    """One of :data:`TASK_TYPES`, or the name that the data give to another kind of task."""
    split: str
    """``train``, ``valid_seen`` or ``valid_unseen``; empty when the file lies in no such folder."""
    pddl_domain: str = field(repr=False)
    grammar: str = field(repr=False)
    pddl_problem: str = field(repr=False)
    seed: int | None = None
    """Seed of a generated game."""
    solvable: bool | None = None
    """None when nobody has tried."""
    walkthrough: tuple[str, ...] = field(default=(), repr=False)
    """Commands that win, when known."""

    @cached_property
    def fingerprint(self) -> str:
        """Hash of what an engine plays (domain, grammar, problem): 16 hex digits; states carry it."""
        digest = hashlib.sha256()
        for text in (self.pddl_domain, self.grammar, self.pddl_problem):
            digest.update(hashlib.sha256(text.encode()).digest())
        return digest.hexdigest()[:16]

    @cached_property
    def task(self) -> str:
        """The instruction in words, such as ``heat some cup and put it in fridge``."""
        _, found, rest = self.grammar.partition(domain_text.TASK_MARK)
        return rest.partition('"')[0].strip().removesuffix(".") if found else ""

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def to_dict(self) -> dict[str, Any]:
        """The content of a ``game.tw-pddl`` file, which alfworld's own tools read as well."""
        return {
            "pddl_domain": self.pddl_domain,
            "grammar": self.grammar,
            "pddl_problem": self.pddl_problem,
            "solvable": self.solvable,
            "walkthrough": list(self.walkthrough),
            "task_id": self.task_id,
            "task_type": self.task_type,
            "split": self.split,
            "seed": self.seed,
        }

    @classmethod
    def from_dict(
        cls, data: Any, *, task_id: str = "", task_type: str = "", split: str = "", where: str = "the game"
    ) -> Game:
        """The game in ``data``, the content of a ``game.tw-pddl`` file.

        Args:
            data: What :meth:`to_dict` made, or alfworld wrote.
            task_id: Used when the data has none (alfworld's own has none), as are ``task_type`` and ``split``.
            task_type: See ``task_id``; when neither says, it is read off the goal.
            split: See ``task_id``.
            where: Name of the source for error messages.

        Raises:
            InputError: If a field is missing or has the wrong type.
        """
        if not isinstance(data, Mapping):
            raise InputError(f"Expected {where} to be a JSON object, got {type(data).__name__}")
        domain, grammar, problem = (_text(data, key, where) for key in ("pddl_domain", "grammar", "pddl_problem"))
        seed = data.get("seed")
        solvable = data.get("solvable")
        walkthrough = data.get("walkthrough") or []
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise InputError(f"Expected seed of {where} to be an integer or null, got {seed!r}")
        if solvable is not None and not isinstance(solvable, bool):
            raise InputError(f"Expected solvable of {where} to be true, false or null, got {solvable!r}")
        if not isinstance(walkthrough, list | tuple) or not all(isinstance(c, str) for c in walkthrough):
            raise InputError(f"Expected walkthrough of {where} to be a list of commands, got {str(walkthrough)[:80]}")
        return cls(
            task_id=_text(data, "task_id", where, task_id),
            task_type=_text(data, "task_type", where, task_type) or _classify(problem),
            split=_text(data, "split", where, split),
            pddl_domain=domain,
            grammar=grammar,
            pddl_problem=problem,
            seed=seed,
            solvable=solvable,
            walkthrough=tuple(walkthrough),
        )


def _text(data: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    value = data.get(key, default)
    if not isinstance(value, str):
        raise InputError(f"Expected {where} to have the text {key!r}, got {type(value).__name__}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"Expected {key!r} of {where} to be text that can be written down, got {error}") from error
    return value


def _classify(problem: str) -> str:
    """Task type read off the goal of a PDDL problem."""
    goal = problem.lower().rpartition("(:goal")[2]
    for mark, task_type in (
        ("inreceptacleobject", "pick_and_place_with_movable_recep"),
        ("istoggled", "look_at_obj_in_light"),
        ("isclean", "pick_clean_then_place_in_recep"),
        ("ishot", "pick_heat_then_place_in_recep"),
        ("iscool", "pick_cool_then_place_in_recep"),
        ("(not", "pick_two_obj_and_place"),
    ):
        if mark in goal:
            return task_type
    return "pick_and_place_simple"


def read_bytes(path: Path) -> bytes:
    """What is in a file of at most :data:`MAX_BYTES`; raises InputError when it is none, or larger, or unreadable."""
    try:
        if not path.is_file():
            raise InputError(f"Expected a file at {path}, found none")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(f"Expected {path} to have at most {MAX_BYTES} bytes, got {size}")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"Expected a file at {str(path)[:200]}, could not read it: {error}") from error


def _read_json(path: Path) -> Any:
    data = read_bytes(path)
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, a number too long to read
        raise InputError(f"Expected JSON in {path}, could not read it: {error}") from error


def load(path: str | os.PathLike[str]) -> Game:
    """The game in a ``game.tw-pddl`` file, or in a folder that holds one.

    ``traj_data.json`` beside it, where there is one, names the task type; the folders name task and split.

    Raises:
        InputError: If there is no such file, or it is not a game.
    """
    file = Path(path)
    if file.is_dir():
        file = file / GAME_FILE
    data = _read_json(file)
    folder = file.absolute().parent
    split = folder.parent.parent.name
    task_type = ""
    trajectory = folder / TRAJECTORY_FILE
    if trajectory.is_file():
        described = _read_json(trajectory)
        if not isinstance(described, Mapping):
            raise InputError(f"Expected a JSON object in {trajectory}, got {type(described).__name__}")
        task_type = _text(described, "task_type", str(trajectory))
    return Game.from_dict(
        data,
        task_id=f"{folder.parent.name}/{folder.name}",
        task_type=task_type,
        split=split if split in SPLITS else "",
        where=str(file),
    )


def find(root: str | os.PathLike[str], split: str | None = None, task_types: Iterable[str] | None = None) -> list[Path]:
    """Game files of an ALFWorld data tree, sorted by path.

    Args:
        root: What ``ALFWORLD_DATA`` names (the folder of ``json_2.1.1``), that folder itself, or one split of it.
        split: Only this split's games (the name of a folder: ``train``, ``valid_seen``, ``valid_unseen``).
        task_types: Only games whose task folder begins with one of these names.

    Raises:
        InputError: If ``root`` is no folder, holds several ``json_*`` versions, or holds no such split.
    """
    base = Path(root)
    if not base.is_dir():
        raise InputError(f"Expected a folder with ALFWorld games, got {base}")
    versions = sorted(p for p in base.glob("json_*") if p.is_dir())
    if len(versions) > 1:
        raise InputError(f"Expected one version of the data in {base}, got {[p.name for p in versions]}; name one")
    if versions:
        base = versions[0]
    if split is not None:
        if base.name != split:
            base = base / split
        if split != base.name or not base.is_dir():
            raise InputError(f"Expected a folder of the split {split!r} in {root}, found none")
    wanted = None if task_types is None else tuple(f"{t}-" for t in task_types)
    found = []
    for folder, subfolders, names in os.walk(base):
        subfolders.sort()
        here = Path(folder)
        if GAME_FILE in names and (wanted is None or here.parent.name.startswith(wanted)):
            found.append(here / GAME_FILE)
    return sorted(found)
