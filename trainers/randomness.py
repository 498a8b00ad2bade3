"""Every source of randomness of a run, out to JSON and back, and the order of its tasks.

Streams are drawn from the run's seed by name, so that one more draw in one of them moves no other. The global generators
of Python and torch are seeded and saved too, for plug-ins that draw from them.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping
from typing import Any, Final
from zlib import crc32

import numpy as np
import torch

from triage_gym.errors import CheckpointError, InputError


def stream(seed: int, name: str, *more: int) -> np.random.Generator:
    """The generator called ``name`` of the run with ``seed``; ``more`` numbers tell its members apart."""
    return np.random.default_rng([seed, crc32(name.encode()), *more])


def seed_globals(seed: int) -> None:
    """Seed the global generators of Python and torch."""
    random.seed(seed)
    torch.manual_seed(seed)


def capture(streams: Mapping[str, np.random.Generator]) -> dict[str, Any]:
    """The state of ``streams`` and of the global generators, as JSON."""
    version, numbers, gauss = random.getstate()
    return {
        "numpy": {name: generator.bit_generator.state for name, generator in streams.items()},
        "python": [version, list(numbers), gauss],
        "torch": base64.b64encode(torch.get_rng_state().numpy().tobytes()).decode("ascii"),
    }


def restore(state: Mapping[str, Any], streams: Mapping[str, np.random.Generator]) -> None:
    """Go back to what :func:`capture` gave.

    Raises:
        CheckpointError: When ``state`` is none of that.
    """
    try:
        for name, generator in streams.items():
            generator.bit_generator.state = state["numpy"][name]
        version, numbers, gauss = state["python"]
        random.setstate((version, tuple(numbers), gauss))
        raw = np.frombuffer(base64.b64decode(state["torch"]), np.uint8)
        torch.set_rng_state(torch.from_numpy(raw.copy()))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"Expected the random state of a checkpoint, got one that does not fit: {error}"
        ) from error


class TaskOrder:
    """Which tasks the next update plays: every task once an epoch, each epoch in an order of its own.

    Args:
        seed: Seed of the run.
        tasks: Number of tasks.
        at_a_time: How many :meth:`take` will be asked for.

    Raises:
        InputError: When there are fewer tasks than that.
    """

    _NAME: Final = "task order"

    def __init__(self, seed: int, tasks: int, at_a_time: int) -> None:
        if tasks < at_a_time:
            raise InputError(f"Expected at least {at_a_time} training tasks, one a group of an update, got {tasks}")
        self._seed, self._tasks = seed, tasks
        self.epoch = self.position = 0
        self._order = self._permutation()

    def _permutation(self) -> list[int]:
        return [int(i) for i in stream(self._seed, self._NAME, self.epoch).permutation(self._tasks)]

    def take(self, count: int) -> list[int]:
        """The next ``count`` tasks, all different; what is left of an epoch and too short for that is passed over."""
        if self.position + count > self._tasks:
            self.epoch, self.position = self.epoch + 1, 0
            self._order = self._permutation()
        taken = self._order[self.position : self.position + count]
        self.position += count
        return taken

    def to_json(self) -> dict[str, int]:
        """The cursor."""
        return {"epoch": self.epoch, "position": self.position}

    def go_to(self, cursor: Mapping[str, Any]) -> None:
        """Go back to what :meth:`to_json` gave.

        Raises:
            CheckpointError: When ``cursor`` is none of that.
        """
        epoch, position = cursor.get("epoch"), cursor.get("position")
        if type(epoch) is not int or type(position) is not int or not 0 <= position <= self._tasks or epoch < 0:
            raise CheckpointError(f"Expected a data cursor within {self._tasks} tasks, got {dict(cursor)!r}")
        self.epoch, self.position = epoch, position
        self._order = self._permutation()
