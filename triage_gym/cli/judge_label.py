"""``triage-gym judge label``: a person labels segments, in the terminal or in a page, and two become gold."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import tyro

from triage_gym.cli.output import count, say
from triage_gym.display import sanitize_line
from triage_gym.errors import InputError

if TYPE_CHECKING:
    from triage_gym.audit.annotating import Session
    from triage_gym.audit.labels import LabelledWindow

HELP: Final = """\
d  decisive progress: changes the task for the better, or completes a part of it
e  useful exploration: learns something needed, completes nothing yet
n  no progress: harmless, changes nothing and tells nothing
r  regression: damages the task, or repeats what is known already
What holds first: damage is r, then d, then e; a first harmless try is n, the same again is r.
A reason may follow on the line, as in: r looked in there before
s skips, u takes the last answer back, ? shows this again, q saves and leaves."""
RUN_SAMPLE: Final = 135
"""Segments drawn from a run unless told otherwise: as many as the audit in TRIAGE's paper has."""

_USELESS: Final = {"merge": ("name", "sample"), "adjudicate": ("name",), "html": ("out",)}


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeLabel:
    """Label segments by hand, in the terminal or in a page; join the files of two annotators; settle gold."""

    files: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Label files, a run's directory or its traces.jsonl, or the word gold; several with --merge."""
    out: Path | None = None
    """Label file to write, after every answer; what it holds already is gone on with."""
    name: str | None = None
    """Who labels."""
    merge: bool = False
    """Join several files, by id, into --out and leave."""
    adjudicate: bool = False
    """Settle gold: where annotators agree by itself, where they differ by asking."""
    by: tuple[str, ...] = ()
    """Annotators that --adjudicate goes by and shows; all people in the file by default, judges only if named here."""
    html: Path | None = None
    """Write a page to label in instead; it saves a file for --merge."""
    sample: int | None = None
    """Draw so many segments, evenly from family, outcome and labels so far; 135 of a run, else all."""
    seed: int = 0
    """Of the draw."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> int:
        """Do what the flags ask for."""
        self._check()
        if self.merge:
            return self._merge()
        rows = self._rows()
        if self.html is not None:
            return self._page(self.html, rows)
        if self.out is None:
            raise InputError("Expected --out FILE, where the labels go")
        return self._sit(self.out, rows)

    def _check(self) -> None:
        chosen = [flag for flag in ("merge", "adjudicate", "html") if getattr(self, flag)]
        if len(chosen) > 1:
            raise InputError(f"Expected one of --merge, --adjudicate and --html, got --{' and --'.join(chosen)}")
        for mode, flags in _USELESS.items():
            beside = [flag for flag in flags if mode in chosen and getattr(self, flag) is not None]
            if beside:
                raise InputError(f"Expected --{mode} without --{beside[0]}, which it has no use for, got both")
        if not self.files or (len(self.files) > 1 and not self.merge):
            raise InputError(f"Expected one file, or several with --merge, got {len(self.files)}")
        if self.by and not self.adjudicate:
            raise InputError("Expected --by with --adjudicate, got it alone")
        if self.sample is not None and self.sample < 1:
            raise InputError(f"Expected --sample to be at least 1, got {self.sample}")
        if not chosen and self.name is None:
            raise InputError("Expected --name, under which the labels are kept")

    def _rows(self) -> list[LabelledWindow]:
        from triage_gym.audit import annotating, sources
        from triage_gym.audit.labels import read_labels

        rows = sources.load(self.files[0])
        n = RUN_SAMPLE if self.sample is None and sources.is_run(self.files[0]) else self.sample
        if n is not None:
            rows = sources.sample(rows, n, self.seed)
        if self.out is not None and self.out.exists() and self.html is None:
            rows = annotating.resumed(rows, read_labels(self.out))
        if not rows:
            raise InputError(f"Expected segments in {self.files[0]}, got none")
        return rows

    def _merge(self) -> int:
        from triage_gym.audit.annotating import check_kept, merged
        from triage_gym.audit.labels import read_labels, write_labels
        from triage_gym.audit.sources import load

        if self.out is None:
            raise InputError("Expected --out FILE with --merge")
        rows = merged([(name, load(name)) for name in self.files])
        if self.out.exists():
            check_kept(str(self.out), read_labels(self.out), rows)
        write_labels(self.out, rows)
        say(f"{count(len(rows), 'segment')} of {count(len(self.files), 'file')}, {_labelled(rows)}: {self.out}")
        return 0

    def _page(self, path: Path, rows: list[LabelledWindow]) -> int:
        from triage_gym.audit.annotating import check_person
        from triage_gym.audit.label_page import render

        name = "" if self.name is None else check_person(self.name, rows)
        path.write_text(render(rows, name), encoding="utf-8")
        say(f"{count(len(rows), 'segment')} to label in a browser: {path}")
        say(f"Then: triage-gym judge label {sanitize_line(self.files[0])} THE-SAVED-FILE --merge --out OUT")
        return 0

    def _sit(self, out: Path, rows: list[LabelledWindow]) -> int:
        from triage_gym.audit.annotating import Session
        from triage_gym.audit.labels import write_labels

        session = Session(rows, None if self.adjudicate else self.name, self.by)
        write_labels(out, session.rows)
        done = f"{{}} of {count(len(rows), 'segment')} {'settled' if self.adjudicate else 'done'}"
        before = done.format(session.done)
        if session.left:
            order = "" if self.adjudicate else ", in an order of its own that is the same for everybody"
            say(f"{before}, {session.left} to {'decide' if self.adjudicate else 'label'}{order}\n\n{HELP}")
        else:
            say(f"{before}, nothing to ask")
        while session.current is not None and _ask(session, self.adjudicate, self.by):
            write_labels(out, session.rows)
        say(f"\n{done.format(session.done)}; {_labelled(session.rows)}: {out}")
        return 0


def _labelled(rows: list[LabelledWindow]) -> str:
    """How many labels each annotator gave."""
    names = sorted({name for row in rows for name in row.labels})
    said = [f"{name} {sum(name in row.labels for row in rows)}" for name in names]
    said.append(f"gold {sum(row.gold is not None for row in rows)}")
    return "labels of " + ", ".join(said)


def _ask(session: Session, adjudicate: bool, by: tuple[str, ...]) -> bool:
    """Show the current segment until it is answered; False to leave."""
    from triage_gym.records import ROLES

    row = session.current
    assert row is not None
    say(f"\n--- {session.asked - session.left + 1} of {session.asked} ---")
    _show(row, by, adjudicate)
    while True:
        word, _, why = (_line() or "q").strip().partition(" ")
        role = next((r for r in ROLES if word.lower() == r.lower()), None)
        if role is not None:
            session.answer(role, why.strip())
            return True
        match word.lower():
            case "s":
                session.skip()
                return True
            case "u":
                if session.undo():
                    return True
                say("nothing to take back")
            case "q":
                return False
            case _:
                say(HELP)


def _line() -> str:
    """A line of standard input; empty at its end."""
    if sys.stdin.isatty():
        try:
            return input("d/e/n/r, s, u, q? ") or "?"
        except EOFError:
            return ""
    line = sys.stdin.readline()
    return line.strip() or ("?" if line else "")


def _show(row: LabelledWindow, by: tuple[str, ...], adjudicate: bool) -> None:
    """The window as text; what a judge is not told is not told here. An adjudicator sees what those said who count."""
    from triage_gym.audit.annotating import roles_of

    window = row.window
    earlier = list(window.earlier_actions)
    for pair in reversed(window.past):  # those that are shown below, with their answers; refused ones are not listed
        if earlier and earlier[-1] == pair.action:
            earlier.pop()
    say(f"Task: {window.task}\n")
    if earlier:
        say(f"Earlier: {'; '.join(map(sanitize_line, earlier))}\n")
    for pair in window.past:
        say(f"  > {sanitize_line(pair.action)}\n{_indented(pair.observation)}")
    if not window.past or window.past[-1].observation != window.observation:
        say(_indented(window.observation))
    say(f"\n>>> {sanitize_line(window.action)}   <<< turn {window.step + 1}, this one\n{window.next_observation}\n")
    for pair in window.future:
        say(f"  > {sanitize_line(pair.action)}\n{_indented(pair.observation)}")
    if adjudicate:
        say()
        for name in roles_of(row, by):
            label = row.labels[name]
            say(f"{sanitize_line(name)}: {label.role} {sanitize_line(label.why)}".rstrip())


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
