"""``triage-gym eval``: a checkpoint on held-out tasks or on real game files, without any judge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True, slots=True)
class Eval:
    """Evaluate a checkpoint on held-out tasks or on real game files."""

    checkpoint: Annotated[Path, tyro.conf.Positional]
    """Run directory, checkpoint folder or checkpoint."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> int:
        """Evaluate, print."""
        return 0
