"""``triage-gym judge audit``: judges held against labels, as tables and as a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from triage_gym.cli.output import say
from triage_gym.errors import InputError

if TYPE_CHECKING:
    from triage_gym.audit.labels import LabelledWindow
    from triage_gym.protocols import Judge


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeAudit:
    """Hold judges against labels: precision, recall, F1 by role and outcome, kappa, calibration, cost, benefit."""

    file: Annotated[str, tyro.conf.Positional]
    """A label file, or the word gold for the set that comes along."""
    judge: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """A judge: its name, or a JSON object with its options. May be given again for further judges."""
    reference: str | None = None
    """Take this annotator's labels for gold. Where there is no gold at all and one person labelled, that person's are
    taken anyway; without people, the oracle's."""
    html: Path | None = None
    """Page to write."""
    json: Path | None = None
    """File for all numbers and labels, as JSON."""
    resamples: int = 2000
    """Draws of the bootstrap that makes the intervals."""
    seed: int = 0
    """Of these draws."""
    bins: int = 10
    """Of the reliability curve."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> int:
        """Print the tables, write what was asked for; status 1 when a judge gave no label at all."""
        from triage_gym.audit.auditing import audit
        from triage_gym.audit.text import muteness, summary
        from triage_gym.judges.nesting import close

        if not 1 <= self.bins <= 100:
            raise InputError(f"Expected --bins from 1 to 100, got {self.bins}")
        if self.seed < 0:
            raise InputError(f"Expected --seed to be at least 0, got {self.seed}")
        rows, source = self._rows()
        judges = judges_of(self.judge)
        try:
            found = audit(rows, judges, source=source, resamples=self.resamples, seed=self.seed, bins=self.bins)
        finally:
            close(*judges.values())
        written = []  # before anything is printed, which a pager may cut short
        if self.json is not None:
            write_text(self.json, json.dumps(found.to_json(), allow_nan=False, indent=1) + "\n")
            written.append(f"numbers: {self.json}")
        if self.html is not None:
            from triage_gym.audit.page import render

            write_text(self.html, render(found))
            written.append(f"page: {self.html}")
        problems = [muteness(rater) for rater in found.mute]
        if problems and len(problems) == len(judges):  # tables of nothing would hide the reason
            say("\n".join([*problems, *written]))
            return 1
        say("\n\n".join([*problems, summary(found), *written]))
        return 1 if problems else 0

    def _rows(self) -> tuple[list[LabelledWindow], str]:
        """The rows of the file, with a reference's labels for gold, and what they are called."""
        from triage_gym.audit.auditing import ORACLE, against, natural_reference
        from triage_gym.audit.sources import load

        rows = load(self.file)
        if self.reference is not None:
            return against(rows, self.reference), f"{self.file}, gold by {self.reference}"
        name = natural_reference(rows)
        if name is None:
            return rows, self.file
        why = "no person labelled" if name == ORACLE else "nobody else labelled"
        return against(rows, name), f"{self.file}, labels of {name} for gold (none is settled, and {why})"


def write_text(path: Path, text: str) -> None:
    """Write a file, whatever foreign text is in it."""
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def judges_of(texts: tuple[str, ...]) -> dict[str, Judge]:
    """The judges that the flags name, by what they are shown as."""
    from triage_gym.judges.nesting import inner

    made: dict[str, Judge] = {}
    for text in texts:
        spec = _spec(text)
        name, again = described(spec), 2
        while name in made:
            name, again = f"{described(spec)} #{again}", again + 1
        made[name] = inner(spec)
    return made


def _spec(text: str) -> str | dict[str, Any]:
    from triage_gym.cli.parsing import plugin

    try:
        return plugin(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"Expected --judge to be a name or a JSON object, got {text!r:.200}: {error}") from error


def described(spec: Any) -> str:
    """A judge in few words: ``cache(llm)`` for one in another, options of the outermost left out but a model's name."""
    if isinstance(spec, str):
        return spec
    if not isinstance(spec, Mapping):
        return type(spec).__name__
    name, of = str(spec.get("name", "?")), spec.get("of")
    inside = of if isinstance(of, list | tuple) else [] if of is None else [of]
    said = [described(x) for x in inside] or [
        str(spec[key]) for key in ("model", "domain") if isinstance(spec.get(key), str)
    ]
    return f"{name}({', '.join(said)})" if said else name
