"""The report: one self-contained HTML page from a run directory, and the same numbers as text for a terminal.

Promises: the file loads nothing, sends nothing, and no text from an environment can become a tag, a script or a
terminal escape. Leaves to you: opening it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from triage_gym.errors import InputError

if TYPE_CHECKING:
    from triage_gym.report.model import Report

__all__ = ["build_report", "write_report"]


def build_report(run_dir: str | Path, out: str | Path | None = None, *, max_episodes: int = 1000) -> Path:
    """Write the report of a run or a comparison.

    Args:
        run_dir: Directory of a run (``config.json``) or of a comparison (``comparison.json``).
        out: File to write; ``report.html`` in ``run_dir`` by default.
        max_episodes: Episodes on the page, at most 10 000. When there are more, each arm and outcome gets an equal part,
            spread evenly over training, and the page says so.

    Returns:
        The path of the file.

    Raises:
        InputError: If ``run_dir`` is no run directory, or a file in it is not what it must be.
    """
    from triage_gym.report.load import load_report

    path = Path(run_dir)
    return write_report(load_report(path, max_episodes), Path(out) if out is not None else path / "report.html")


def write_report(report: Report, target: Path) -> Path:
    """Write the page of ``report`` to ``target``; the path, or InputError when it cannot be written."""
    from triage_gym.report.page import render

    page = render(report)
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        temporary.write_text(page, encoding="utf-8")
        temporary.replace(target)
    except OSError as error:
        raise InputError(f"Expected to write the report to {target}, got: {error}") from error
    return target
