"""``triage-gym judge label``, driven through standard input as a pipe does."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from audit_rows import HOSTILE, SECRET, row, window

from triage_gym.audit.labels import Annotation, LabelledWindow, read_labels, write_labels
from triage_gym.cli.app import run
from triage_gym.cli.judge_label import RUN_SAMPLE
from triage_gym.protocols import Pair
from triage_gym.records import EpisodeRecord, Segment
from triage_gym.traces import Trace, TraceWriter

ROWS = [replace(row(f"r{k}", gold="D", success=True, bob="R"), delta=77.25) for k in range(4)]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_labels("in.jsonl", ROWS)


def label(monkeypatch: pytest.MonkeyPatch, typed: str, *arguments: str) -> int:
    """The status of the command with ``typed`` on its standard input."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    try:
        return run(["judge", "label", *arguments])
    except SystemExit as stop:
        return int(stop.code or 0)


ANN = ("in.jsonl", "--out", "out.jsonl", "--name", "ann")


def said(path: str = "out.jsonl", name: str = "ann") -> list[Annotation]:
    return [r.labels[name] for r in read_labels(path) if name in r.labels]


def test_a_sitting_from_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert label(monkeypatch, "d\nR looked in before\ns\nq\n", *ANN) == 0
    assert sorted(said()) == [Annotation("D"), Annotation("R", "looked in before")]
    out = capsys.readouterr().out
    assert "0 of 4 segments done, 4 to label, in an order of its own that is the same for everybody" in out
    assert "--- 3 of 4 ---" in out
    assert "2 of 4 segments done; labels of ann 2, bob 4, gold 4: out.jsonl" in out
    rows = read_labels("out.jsonl")
    assert [replace(r, labels={"bob": r.labels["bob"]}) for r in rows] == ROWS, "all else is as it was"
    # The next sitting asks for the rest alone, the skipped one too.
    assert label(monkeypatch, "e\nn\n", *ANN) == 0
    assert "2 of 4 segments done, 2 to label" in capsys.readouterr().out
    assert [a.role for a in sorted(said())] == ["D", "E", "N", "R"]
    assert label(monkeypatch, "", *ANN) == 0
    assert "4 of 4 segments done, nothing to ask" in capsys.readouterr().out


def test_only_the_window_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = LabelledWindow(
        "h",
        window(action=HOSTILE, next_observation=f"{HOSTILE}\nnew", future=(Pair(HOSTILE, HOSTILE),)),
        {"bob": Annotation("R", "their reason")},
        "D",
        True,
        77.25,
        "a note",
        {"episode": "treasure"},
    )
    write_labels("h.jsonl", [hostile])
    assert label(monkeypatch, "q\n", "h.jsonl", "--out", "o.jsonl", "--name", "ann") == 0
    out = capsys.readouterr().out
    shown = out[out.index("--- 1 of 1 ---") : out.index("labels of")]
    for secret in ("their reason", "bob", "77.25", "a note", "treasure", str(SECRET), "success", "True"):
        assert secret not in shown
    assert "Earlier: open fridge 1\n" in shown
    assert "> look\n    You see a desk." in shown
    assert "<<< turn 4, this one" in shown
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "\\x1b[31m" in shown


def test_taking_back_and_odd_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert label(monkeypatch, "u\nx\n\n?\nd first\nu\ne second\n", *ANN) == 0
    out = capsys.readouterr().out
    assert "nothing to take back" in out
    assert out.count("s skips, u takes") == 4, "shown at the start, and for x, an empty line and ?"
    assert said() == [Annotation("E", "second")]
    assert "1 of 4 segments done; labels" in out, "the end of the input saves and leaves"


def test_each_answer_is_saved_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "triage_gym", "judge", "label", *ANN]
    flags = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=tmp_path, stdin=-1, stdout=-1, stderr=-1, env=flags) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(b"d\n")
        running.stdin.flush()
        for line in running.stdout:  # it says this when the answer before is on the disk
            if line.startswith(b"--- 2 of 4"):
                break
        running.kill()
    assert said(str(tmp_path / "out.jsonl")) == [Annotation("D")]


def test_two_annotators_and_an_adjudicator(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write_labels("plain.jsonl", [row(f"r{k}", success=True) for k in range(3)])
    label(monkeypatch, "d\nd\nd\n", "plain.jsonl", "--out", "a.jsonl", "--name", "ann")
    label(monkeypatch, "d\nd\nr why not\n", "plain.jsonl", "--out", "b.jsonl", "--name", "bob")
    capsys.readouterr()
    assert label(monkeypatch, "", "a.jsonl", "b.jsonl", "--merge", "--out", "c.jsonl") == 0
    assert "3 segments of 2 files, labels of ann 3, bob 3, gold 0: c.jsonl" in capsys.readouterr().out
    assert label(monkeypatch, "r undoes it\n", "c.jsonl", "--adjudicate", "--out", "gold.jsonl") == 0
    out = capsys.readouterr().out
    assert "2 of 3 segments settled, 1 to decide" in out
    assert "ann: D\nbob: R why not\n" in out
    rows = read_labels("gold.jsonl")
    assert sorted(r.gold or "" for r in rows) == ["D", "D", "R"]
    assert next(r.note for r in rows if r.gold == "R") == "undoes it"
    assert label(monkeypatch, "", "gold.jsonl", "--adjudicate", "--out", "gold.jsonl") == 0
    assert "3 of 3 segments settled, nothing to ask" in capsys.readouterr().out


def test_an_adjudicator_is_not_shown_judges_unless_they_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_labels("c.jsonl", [row("a", success=True, ann="D", bob="R", oracle="N"), row("b", ann="E", oracle="E")])
    assert label(monkeypatch, "q\n", "c.jsonl", "--adjudicate", "--out", "g.jsonl") == 0
    out = capsys.readouterr().out
    assert "0 of 2 segments settled, 1 to decide" in out
    assert "bob: R" in out
    assert "oracle: N" not in out
    assert label(monkeypatch, "q\n", "c.jsonl", "--adjudicate", "--by", "ann", "oracle", "--out", "g.jsonl") == 0
    out = capsys.readouterr().out
    assert "1 of 2 segments settled, 1 to decide" in out
    assert "oracle: N" in out
    assert "bob: R" not in out


def test_merging_loses_nobodys_work(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("ann", "bob", "cat"):
        write_labels(f"{name}.jsonl", [row("a", **{name: "D"})])
    before = Path("cat.jsonl").read_bytes()
    assert label(monkeypatch, "", "ann.jsonl", "bob.jsonl", "--merge", "--out", "cat.jsonl") == 1
    assert "cat.jsonl, whose labels of cat the files do not hold" in capsys.readouterr().err
    assert Path("cat.jsonl").read_bytes() == before
    for _ in range(2):
        assert label(monkeypatch, "", "ann.jsonl", "bob.jsonl", "--merge", "--out", "both.jsonl") == 0


def test_a_run_is_sampled_and_gone_on_with(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Path("run").mkdir()
    with TraceWriter("run/traces.jsonl") as writer:
        for number in range(4):
            segments = tuple(Segment(k, f"see {k}", f"do {k}", f"see {k + 1}") for k in range(40))
            writer.write(Trace(0, EpisodeRecord(f"g{number}", task="do", segments=segments, success=number % 2 == 0)))
    assert label(monkeypatch, "d\n", "run", "--out", "out.jsonl", "--name", "ann") == 0
    assert f"0 of {RUN_SAMPLE} segments done, {RUN_SAMPLE} to label" in capsys.readouterr().out
    assert len(read_labels("out.jsonl")) == RUN_SAMPLE
    assert label(monkeypatch, "e\n", "run", "--out", "out.jsonl", "--name", "ann") == 0
    assert len(read_labels("out.jsonl")) == RUN_SAMPLE
    assert sorted(a.role or "" for a in said()) == ["D", "E"]
    few = ("run/traces.jsonl", "--sample", "6", "--out", "few.jsonl", "--name", "ann")
    assert label(monkeypatch, "", *few) == 0
    assert [r.success for r in read_labels("few.jsonl")].count(True) == 3


def test_the_page_goes_where_it_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert label(monkeypatch, "", "in.jsonl", "--html", "page.html", "--name", "ann") == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "77.25" not in page
    assert "4 segments to label in a browser: page.html" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 1, "Expected one file, or several with --merge, got 0"),
        (["in.jsonl", "--nmae", "ann"], 2, "judge label --help"),
        (["in.jsonl", "--name", "ann"], 1, "--out FILE"),
        (["in.jsonl", "--out", "o.jsonl"], 1, "--name"),
        (["in.jsonl", "--out", "o.jsonl", "--name", "gold"], 1, "the settled roles"),
        (["in.jsonl", "--html", "o.html", "--name", "gold"], 1, "the settled roles"),
        (["in.jsonl", "--out", "o.jsonl", "--name", "a\x1bb"], 1, "printable"),
        (["in.jsonl", "in.jsonl", "--out", "o.jsonl", "--name", "ann"], 1, "several with --merge, got 2"),
        (["in.jsonl", "--out", "o.jsonl", "--name", "rule"], 1, "is a judge's"),
        (["in.jsonl", "--html", "o.html", "--name", "rule"], 1, "is a judge's"),
        (["lone.jsonl", "--adjudicate", "--out", "o.jsonl"], 1, "got bob; one alone settles nothing"),
        (["in.jsonl", "--merge"], 1, "--out FILE with --merge"),
        (["in.jsonl", "--merge", "--adjudicate", "--out", "o.jsonl"], 1, "one of --merge, --adjudicate"),
        (["in.jsonl", "--adjudicate", "--by", "cat", "--out", "o.jsonl"], 1, "'cat' which has none"),
        (["in.jsonl", "--by", "bob", "--name", "ann", "--out", "o.jsonl"], 1, "--by with --adjudicate"),
        (["in.jsonl", "--merge", "--sample", "3", "--out", "o.jsonl"], 1, "--merge without --sample"),
        (["in.jsonl", "--adjudicate", "--name", "ann", "--out", "o.jsonl"], 1, "--adjudicate without --name"),
        (["in.jsonl", "--html", "p.html", "--out", "o.jsonl"], 1, "--html without --out"),
        (["in.jsonl", "--sample", "0", "--name", "ann", "--out", "o.jsonl"], 1, "--sample"),
        (["nowhere", "--name", "ann", "--out", "o.jsonl"], 1, "nowhere"),
        (["empty.jsonl", "--name", "ann", "--out", "o.jsonl"], 1, "got none"),
        (["bad.jsonl", "--name", "ann", "--out", "o.jsonl"], 1, "bad.jsonl:1"),
        (["in.jsonl", "other.jsonl", "--merge", "--out", "o.jsonl"], 1, "gold of 'r0'"),
        (["in.jsonl", "--name", "ann", "--out", "bad.jsonl"], 1, "bad.jsonl:1"),
    ],
)
def test_bad_input_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    Path("empty.jsonl").write_text("")
    Path("bad.jsonl").write_text('{"what": 1}\n')
    write_labels("lone.jsonl", [row("a", bob="R", oracle="R", rule="R")])
    write_labels("other.jsonl", [replace(ROWS[0], gold="N")])
    assert label(monkeypatch, "", *arguments) == code
    err = capsys.readouterr().err
    assert says in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err
    assert not Path("o.jsonl").exists()
    assert Path("bad.jsonl").read_text() == '{"what": 1}\n'
