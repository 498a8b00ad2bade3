"""The papers' tables with the small policy: which runs they take, what comes of them, and what is claimed.

:mod:`.arms` says what is compared, :mod:`.cells` runs it, :mod:`.measures` reads the runs, :mod:`.claims` holds what the
papers say against it, :mod:`.tables` writes it down.
"""

from triage_gym.trainers.reproduce.cells import Cell, Plan, run_cells
from triage_gym.trainers.reproduce.study import Study, reproduce

__all__ = ["Cell", "Plan", "Study", "reproduce", "run_cells"]
