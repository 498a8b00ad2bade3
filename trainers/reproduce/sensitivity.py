"""How much a gain hangs on one or two settings: a grid of runs, each held against ``grpo+whiten`` on the same seeds.

The grid's cells are cells of :mod:`.cells`, so they are kept when done. Where group size is an axis, each size has its own
reference, since GRPO's baseline is another one too.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from triage_gym.errors import InputError
from triage_gym.trainers.progress import Progress
from triage_gym.trainers.reproduce import heat
from triage_gym.trainers.reproduce.arms import Arm, distorted
from triage_gym.trainers.reproduce.cells import Cell, Plan, run_and_tell, write_found
from triage_gym.trainers.reproduce.measures import SUCCESS, paired, paired_json, read_cells, summary

CONSTANT_SETS: Final[Mapping[str, tuple[float, float, float, float]]] = {
    "paper": (1.0, 0.5, -0.1, -0.5),
    "no-D": (0.0, 0.5, -0.1, -0.5),
    "no-E": (1.0, 0.0, -0.1, -0.5),
    "no-R": (1.0, 0.5, -0.1, 0.0),
    "shrunk": (1.0, 0.1, 0.0, -0.3),
    "good-bad": (0.5, 0.5, -0.5, -0.5),
}
"""Constants by name: the paper's, those without a role, those that an audit of another environment shrank, a scalar's."""
REFERENCE: Final = "grpo+whiten"


def _lam(text: str) -> dict[str, Any]:
    return {"lam": _number("lam", text, 0.0)}


def _constants(text: str) -> dict[str, Any]:
    if text not in CONSTANT_SETS:
        raise InputError(f"Expected constants out of {sorted(CONSTANT_SETS)}, got {text!r}")
    return {"credit_kwargs": {"constants": list(CONSTANT_SETS[text])}}


def _window(text: str) -> dict[str, Any]:
    return {"judge_window": int(_number("window", text, 0.0, whole=True))}


def _noise(text: str) -> dict[str, Any]:
    share = _number("noise", text, 0.0, most=1.0)
    return {"judge": distorted(noise=share) if share else "rule"}


def _group_size(text: str) -> dict[str, Any]:
    return {"group_size": int(_number("group-size", text, 2.0, whole=True))}


AXES: Final[Mapping[str, Callable[[str], dict[str, Any]]]] = {
    "lam": _lam,
    "constants": _constants,
    "window": _window,
    "noise": _noise,
    "group-size": _group_size,
}
"""What can be varied: λ, the constants by name, the pairs that the judge sees before and after a turn, the share of its
labels that are exchanged at random, the rollouts of a group."""


def _number(name: str, text: str, least: float, most: float = float("inf"), *, whole: bool = False) -> float:
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if not least <= found <= most or (whole and found != int(found)):
        kind = "a whole number" if whole else "a number"
        raise InputError(f"Expected {name} to be {kind} of at least {least:g}, got {text!r}")
    return found


@dataclass(frozen=True, slots=True)
class Axis:
    """One setting and its values, as they are written."""

    name: str
    values: tuple[str, ...]


def axis_of(text: str) -> Axis:
    """The axis that ``lam=0,0.1,0.2`` stands for.

    Raises:
        InputError: For an unknown setting, a bad value, no values, or one given twice.
    """
    name, equals, rest = text.partition("=")
    values = tuple(value for value in rest.split(",") if value)
    if name not in AXES or not equals or not values:
        raise InputError(f"Expected an axis such as lam=0,0.1,0.2 out of {sorted(AXES)}, got {text!r}")
    settings = [AXES[name](value) for value in values]
    if twice := [value for i, value in enumerate(values) if settings[i] in settings[:i]]:
        raise InputError(f"Expected different values of {name}, got {twice[0]} again in {text!r}")
    return Axis(name, values)


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """What is varied.

    Raises:
        InputError: For other than one or two different axes.
    """

    axes: tuple[Axis, ...]
    env: str = "alfworld"
    seeds: tuple[int, ...] = (0, 1, 2)
    turns: int | None = None
    eval_tasks: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.axes) <= 2 or len({axis.name for axis in self.axes}) < len(self.axes):
            raise InputError(f"Expected one or two different axes, got {[axis.name for axis in self.axes]}")

    def points(self) -> list[tuple[str, ...]]:
        """All combinations of values, the last axis fastest."""
        return list(itertools.product(*(axis.values for axis in self.axes)))

    def changes(self, point: Sequence[str]) -> dict[str, Any]:
        """The settings of a point."""
        found: dict[str, Any] = {}
        for axis, value in zip(self.axes, point, strict=True):
            found |= AXES[axis.name](value)
        return found

    def reference(self, point: Sequence[str]) -> str:
        """Name of the run that a point is held against."""
        size = self.changes(point).get("group_size")
        return REFERENCE if size is None else f"{REFERENCE},group-size={size}"

    def plan(self) -> Plan:
        """Its cells."""
        arms: dict[str, Arm] = {}
        for point in self.points():
            changes = self.changes(point)
            sizes = {key: value for key, value in changes.items() if key == "group_size"}
            arms.setdefault(self.reference(point), Arm(self.reference(point), {"credit": REFERENCE, **sizes}))
            arms[self.name(point)] = Arm(self.name(point), {"credit": "triage", **changes})
        common = {name: getattr(self, name) for name in ("turns", "eval_tasks") if getattr(self, name) is not None}
        return Plan((self.env,), tuple(arms.values()), self.seeds, common)

    @property
    def command(self) -> str:
        """The command line that makes it."""
        words = ["triage-gym", "credit", "sensitivity", "--env", self.env, "--over"]
        words += [f"{axis.name}={','.join(axis.values)}" for axis in self.axes]
        words += ["--seeds", ",".join(map(str, self.seeds))]
        for name in ("turns", "eval_tasks"):
            if getattr(self, name) is not None:
                words += [f"--{name.replace('_', '-')}", str(getattr(self, name))]
        return shlex.join(words)

    def name(self, point: Sequence[str]) -> str:
        """Name of a point's runs."""
        return ",".join(f"{axis.name}={value}" for axis, value in zip(self.axes, point, strict=True))


def sensitivity(
    grid: Grid,
    run_dir: Path,
    *,
    workers: int = 2,
    seconds: float | None = None,
    progress: Progress | None = None,
    on_signal: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Run what is not done yet, and write ``sensitivity.json``, ``sensitivity.md`` and ``sensitivity.html``.

    They are written whatever ends it, a signal too, of what is done by then.

    Args:
        grid: What.
        run_dir: Where; finished cells in it are kept.
        workers: Processes side by side.
        seconds: Wall seconds after which no further cell is begun.
        progress: Called after each update of each cell.
        on_signal: As in :func:`~triage_gym.trainers.experiment.compare`.

    Returns:
        The content of ``sensitivity.json``.

    Raises:
        InputError: For runs in ``run_dir`` that were made with other settings; nothing is written then.
        Interrupted: (a SystemExit) after SIGTERM or SIGINT.
    """
    cells = grid.plan().cells()

    def tell(errors: Mapping[str, str]) -> dict[str, Any]:
        found = read(grid, cells, run_dir, errors)
        texts = {"sensitivity.md": heat.as_markdown(found), "sensitivity.html": heat.as_page(found)}
        write_found(found, run_dir, texts, "sensitivity.json")
        return found

    return run_and_tell(cells, tell, run_dir, workers=workers, seconds=seconds, progress=progress, on_signal=on_signal)


def read(grid: Grid, cells: Sequence[Cell], run_dir: Path, errors: Mapping[str, str]) -> dict[str, Any]:
    """Everything that the cells say."""
    results = read_cells(cells, run_dir)
    points = []
    for point in grid.points():
        name, reference = grid.name(point), grid.reference(point)
        points.append(
            {
                "point": list(point),
                "success": summary(results, grid.env, name, SUCCESS),
                "reference": summary(results, grid.env, reference, SUCCESS),
                "difference": paired_json(paired(results, grid.env, name, reference, SUCCESS)),
            }
        )
    references = dict.fromkeys(grid.reference(point) for point in grid.points())
    return {
        "schema": 1,
        "command": grid.command,
        "env": grid.env,
        "axes": [{"name": axis.name, "values": list(axis.values)} for axis in grid.axes],
        "seeds": list(grid.seeds),
        "turns": cells[0].config.turns,
        "references": {name: summary(results, grid.env, name, SUCCESS) for name in references},
        "points": points,
        "cells": len(cells),
        "done": len(results),
        "failed": [{"arm": c.arm, "seed": c.seed, "error": errors[c.name]} for c in cells if c.name in errors],
    }
