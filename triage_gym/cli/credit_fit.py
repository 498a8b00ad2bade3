"""``triage-gym credit fit``: role constants from counterfactual rows, as a config that the trainer takes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from triage_gym.cli.judge_audit import write_text
from triage_gym.cli.output import say
from triage_gym.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class CreditFit:
    """Fit role constants, in order and bounded, to the rows of credit counterfactual."""

    file: Annotated[Path, tyro.conf.Positional]
    """Rows that credit counterfactual wrote with --out."""
    judge: str | None = None
    """Whose labels; needed where several judges labelled."""
    out: Path | None = None
    """File for the constants: settings for train --config, with what they were fitted to beside."""
    json: Path | None = None
    """File for all numbers, as JSON."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> int:
        """Fit, print, write."""
        from triage_gym.audit.fitting import fit
        from triage_gym.audit.lab_text import fitted
        from triage_gym.audit.labels import read_labels

        rows = read_labels(self.file)
        there = sorted({name for row in rows for name in row.labels})
        if self.judge is None and len(there) != 1:
            raise InputError(f"Expected --judge to name one of those who labelled {self.file}, {there}; got none")
        judge = self.judge or there[0]
        if judge not in there:
            raise InputError(f"Expected --judge to be one of {there}, who labelled {self.file}, got {judge!r}")
        found, held = fit(rows, judge)
        written = []
        if self.out is not None:
            settings = {"credit": "triage-audited", "lam": found.lam, "credit_kwargs": {"constants": found.constants}}
            settings |= rows[0].origin.get("settings", {})
            write_text(self.out, json.dumps(settings, allow_nan=False, indent=1) + "\n")
            where = "" if "env" in settings else " --env ENV"
            command = f"triage-gym train --config {self.out}{where} --judge JUDGE"
            written.append(f"settings: {self.out}\nnext: {command}, JUDGE being {judge} as it was measured")
        if self.json is not None:
            data = {"schema": 1, "judge": judge, "fit": found.to_json(), "held_out": held and held.to_json()}
            write_text(self.json, json.dumps(data, allow_nan=False, indent=1) + "\n")
            written.append(f"numbers: {self.json}")
        say("\n\n".join([fitted(judge, found, held), *written]))
        return 0
