"""``triage-gym report``: the page of a run or a comparison, and its table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from triage_gym.cli.output import say


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Write report.html of a run or a comparison, and print its table."""

    run_dir: Annotated[Path, tyro.conf.Positional]
    """Directory of a run or of a comparison."""
    out: Path | None = None
    """File to write; report.html in the directory by default."""
    max_episodes: int = 1000
    """Episodes to read on the page, at most 10000; more are thinned out evenly."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> int:
        """Write the page, print the table and the path."""
        show(self.run_dir, self.out, self.max_episodes)
        return 0


def show(run_dir: Path, out: Path | None = None, max_episodes: int = 1000) -> None:
    """Write the page of ``run_dir``, print its table and where the page is."""
    from triage_gym.report import write_report
    from triage_gym.report.load import load_report
    from triage_gym.report.text import summary

    report = load_report(run_dir, max_episodes)
    page = write_report(report, out or run_dir / "report.html")
    say(summary(report))
    say()
    say(f"report: {page}")
