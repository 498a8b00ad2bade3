"""Scalars for tensorboard, when the config asks for them; ``metrics.jsonl`` has the same numbers in any case."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triage_gym.errors import MissingDependency


class Scalars:
    """Writes each number of an update as a scalar over environment turns.

    Args:
        folder: Where the event file goes.
        purge_from: Turn from which on an earlier, interrupted run's scalars are void.

    Raises:
        MissingDependency: When tensorboard is not installed.
    """

    def __init__(self, folder: Path, purge_from: int = 0) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingDependency(
                "`tensorboard: true` needs tensorboard; install it with: pip install 'triage-gym[train]'"
            ) from error
        self._writer: Any = SummaryWriter(str(folder), purge_step=purge_from)

    def write(self, row: Mapping[str, Any], turns: int) -> None:
        """Write every number of ``row``."""
        for name, value in row.items():
            if isinstance(value, int | float) and name not in ("update", "turns"):
                self._writer.add_scalar(name, value, turns)

    def close(self) -> None:
        """Write everything out."""
        self._writer.close()
