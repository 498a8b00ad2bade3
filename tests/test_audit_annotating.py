"""Labelling by people without a terminal: the questions, taking back, joining files, settling gold, where rows come from."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from audit_rows import HOSTILE, SECRET, row, window
from hypothesis import given
from hypothesis import strategies as st

from triage_gym.audit import sources
from triage_gym.audit.annotating import (
    Session,
    annotators_of,
    check_kept,
    differ,
    merged,
    people_of,
    resumed,
    settle,
)
from triage_gym.audit.label_page import render
from triage_gym.audit.labels import Annotation, LabelledWindow, read_labels, write_labels
from triage_gym.errors import InputError
from triage_gym.records import EpisodeRecord, RoleLabel, Segment
from triage_gym.traces import Trace, TraceWriter

ROWS = [row(f"r{k}") for k in range(6)]


def test_a_sitting_asks_each_open_row_once() -> None:
    session = Session([*ROWS, row("done", ann="D")], "ann")
    assert (session.asked, session.left) == (6, 6)
    seen = []
    while session.current is not None:
        seen.append(session.current.id)
        if len(seen) == 2:
            session.skip()
        else:
            session.answer("E", "why not")
    assert sorted(seen) == [r.id for r in ROWS]
    assert session.left == 0
    assert [r.id for r in session.rows] == [*(r.id for r in ROWS), "done"], "the file keeps its order"
    assert sum(r.labels.get("ann") == Annotation("E", "why not") for r in session.rows) == 5
    again = Session(session.rows, "ann")
    assert again.current is not None
    assert (again.asked, again.current.id) == (1, seen[1])
    with pytest.raises(InputError, match="end of the sitting"):
        session.answer("D")


def test_taking_back_restores_what_was() -> None:
    session = Session(ROWS, "ann")
    assert not session.undo()
    first = session.current
    session.answer("D")
    session.skip()
    assert session.undo()
    assert session.undo()
    assert session.current == first
    assert session.rows == ROWS
    assert not session.undo()


@given(st.lists(st.sampled_from("DENRsu"), max_size=30))
def test_any_answers_taken_back_leave_the_rows(keys: list[str]) -> None:
    session = Session(ROWS, "ann")
    for key in keys:
        if key == "u":
            session.undo()
        elif session.current is None:
            break
        elif key == "s":
            session.skip()
        else:
            session.answer(key)  # type: ignore[arg-type]
    while session.undo():
        pass
    assert session.rows == ROWS
    assert session.left == 6


def test_the_order_is_everybodys_and_not_that_of_the_file() -> None:
    rows = [row(f"r{k}", success=k < 50) for k in range(100)]

    def order(name: str, given: list[LabelledWindow]) -> list[str]:
        session, found = Session(given, name), []
        while session.current is not None:
            found.append(session.current.id)
            session.skip()
        return found

    ann = order("ann", rows)
    assert ann == order("ann", rows[::-1])
    assert ann == order("bob", rows), "two who label a part label the same part"
    half = [r for r in rows if r.id in ann[::2]]
    assert order("cat", half) == ann[::2], "a part of the file is asked about in the same order"
    found = Tags()
    found.feed(render(rows, "dan"))
    assert [r["id"] for r in json.loads(found.scripts[0])["rows"]] == ann, "and so in the page"
    assert 15 < sum(int(name[1:]) < 50 for name in ann[:50]) < 35, "the strata of the file are mixed"


def test_names() -> None:
    for bad in ("gold", "", " ann", "a\nb", "x" * 101):
        with pytest.raises(InputError, match="name"):
            Session(ROWS, bad)
    listed = replace(row("x", Mine="D"), origin={"judges": ["Mine"]})
    for judges in ("rule", "rule:generic", "oracle", "Mine"):
        with pytest.raises(InputError, match="is a judge's"):
            Session([listed], judges)
    Session([row("x", Mine="D")], "Mine")


def test_judges_settle_nothing_unless_they_are_named() -> None:
    said = {"oracle": "D", "rule": "D", "rule:generic": "D", "Mine": "D"}
    rows = [
        replace(row("two", ann="R", bob="R", **said), origin={"judges": ["Mine"]}),
        replace(row("alone", ann="D", **said), origin={"judges": ["Mine"]}),
        replace(row("against", ann="R", **said), origin={"judges": ["Mine"]}),
    ]
    assert people_of(rows) == ["ann", "bob"]
    assert annotators_of(rows) == sorted(["ann", "bob", *said])
    assert [r.gold for r in settle(rows)] == ["R", None, None]
    assert Session(rows, None).asked == 0, "one person differs from nobody"
    assert [r.gold for r in settle(rows, ["ann", "oracle"])] == [None, "D", None]
    assert Session(rows, None, ["ann", "oracle"]).asked == 2
    with pytest.raises(
        InputError, match=r"got ann; one alone .* labels of Mine, oracle, rule, rule:generic are judges'"
    ):
        settle(rows[1:])
    with pytest.raises(InputError, match="got oracle; one alone"):
        settle(rows, ["oracle"])
    assert settle([row("a", gold="D", ann="N")]) == [row("a", gold="D", ann="N")], "nothing to settle"


def test_what_is_written_over_must_be_held() -> None:
    old = [row("a", gold="D", ann="D", rule="D"), row("b", ann="R")]
    check_kept("f", old, [row("a", gold="D", ann="D"), row("b", ann="R", bob="D"), row("c")])
    for new, lost in (([old[0]], "ann"), ([row("a", ann="D"), old[1]], "gold")):
        with pytest.raises(InputError, match=f"labels of {lost} the files do not hold"):
            check_kept("f", old, new)


def test_gold_is_settled_where_two_agree() -> None:
    rows = [
        row("agree", ann="D", bob="D"),
        row("differ", ann="D", bob="R"),
        row("alone", ann="D"),
        row("unable", ann="D", bob=None),
        row("kept", gold="N", ann="D", bob="D"),
        row("third", ann="D", bob="D", cat="R"),
    ]
    assert [r.gold for r in settle(rows)] == ["D", None, None, None, "N", None]
    assert [r.gold for r in settle(rows, ["ann", "bob"])] == ["D", None, None, None, "N", "D"]
    assert differ(rows[5])
    assert not differ(rows[5], ["ann", "bob"])
    with pytest.raises(InputError, match="'dan' which has none"):
        settle(rows, ["ann", "dan"])


def test_an_adjudicator_is_asked_where_they_differ_alone() -> None:
    rows = [row("agree", ann="D", bob="D"), row("differ", ann="D", bob="R"), row("alone", ann="D")]
    session = Session(rows, None)
    assert session.current is not None
    assert (session.asked, session.current.id) == (1, "differ")
    session.answer("R", "undone later")
    assert [(r.gold, r.note) for r in session.rows] == [("D", ""), ("R", "undone later"), (None, "")]
    assert session.rows[1].labels == rows[1].labels


def test_merging_fills_what_was_open() -> None:
    whole = replace(row("a", gold="D", success=True, ann="D"), delta=0.5, note="n", origin={"episode": "e"})
    blank = LabelledWindow("a", window()._replace(facts=None), {"bob": Annotation("R")})
    for files in ([whole, blank], [blank, whole]):
        found = merged([(f"f{k}", [r]) for k, r in enumerate([*files, row("b")][:2])])
        assert found == [replace(whole, labels={**whole.labels, **blank.labels})]
    assert [r.id for r in merged([("x", [row("b"), whole]), ("y", [row("c"), blank])])] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (row("a", ann="R"), "the label of ann of 'a'"),
        (row("a", gold="R"), "gold of 'a'"),
        (row("a", success=False), "success of 'a'"),
        (replace(row("a"), delta=1.0), "delta of 'a'"),
        (replace(row("a"), note="other"), "the note of 'a'"),
        (replace(row("a"), origin={"episode": "f"}), "origin.episode of 'a'"),
        (LabelledWindow("a", window(action="wait")), "the same window under 'a'"),
    ],
)
def test_files_that_contradict_each_other_are_refused(other: LabelledWindow, says: str) -> None:
    whole = replace(row("a", gold="D", success=True, ann="D"), delta=0.5, note="n", origin={"episode": "e"})
    with pytest.raises(InputError, match=re.escape(says)) as raised:
        merged([("one.jsonl", [whole]), ("two.jsonl", [other])])
    assert "one.jsonl and two.jsonl" in str(raised.value)


def test_going_on_keeps_what_was_saved() -> None:
    fresh = [row("a", ann="D"), row("b"), row("c", gold="N")]
    saved = [replace(row("b", gold="E", bob="E"), note="said"), row("a", ann="R"), row("gone", bob="D")]
    found = resumed(fresh, saved)
    assert [(r.id, r.gold, {n: x.role for n, x in r.labels.items()}, r.note) for r in found] == [
        ("a", None, {"ann": "R"}, ""),
        ("b", "E", {"bob": "E"}, "said"),
        ("c", "N", {}, ""),
        ("gone", None, {"bob": "D"}, ""),
    ]
    with pytest.raises(InputError, match="the same window"):
        resumed([LabelledWindow("a", window(action="wait"))], saved)


# ---- where rows come from ----


def attempt(number: int, success: bool, prefix: int = 0, **changes: Any) -> EpisodeRecord:
    segments = tuple(Segment(k, f"see {k}", f"do {k}", f"see {k + 1}" + " You won!" * (k == 3)) for k in range(4))
    labels = tuple(
        RoleLabel(k, "D", why="so", source="rule") if k != 1 else RoleLabel(k, None, status="unjudged")
        for k in range(4)
    )
    return EpisodeRecord(
        f"g{number}",
        task_id=f"t{number}",
        task="do it",
        prefix_length=prefix,
        segments=segments,
        labels=labels,
        success=success,
        domain="alfworld",
        **changes,
    )


def run_of(folder: Path, *records: EpisodeRecord) -> Path:
    with TraceWriter(folder / "traces.jsonl") as writer:
        for number, record in enumerate(records):
            writer.write(Trace(number, record))
    return folder


def test_a_run_is_cut_into_rows(tmp_path: Path) -> None:
    run = run_of(tmp_path, attempt(0, True), attempt(0, False, prefix=2, attempt=1), attempt(1, False, error="crash"))
    rows = sources.load(str(run))
    assert rows == sources.load(str(run / "traces.jsonl"))
    assert [r.id for r in rows[:2]] == ["t0/u0/0/0", "t0/u0/0/1"]
    assert [(r.window.step, r.success) for r in rows] == [
        *((k, True) for k in range(4)),
        (2, False),
        (3, False),
        *((k, None) for k in range(4)),
    ]
    assert [dict(r.labels) for r in rows[:2]] == [{"rule": Annotation("D", "so")}, {}]
    assert rows[3].window.next_observation == "see 4", "how it ended is cut out"
    assert len({r.origin["episode"] for r in rows}) == 3
    assert [r.origin.get("judges") for r in rows[:2]] == [["rule"], None]
    assert people_of(rows) == []
    write_labels(tmp_path / "cut.jsonl", rows)
    assert read_labels(tmp_path / "cut.jsonl") == rows
    assert sources.is_run(str(run))
    assert not sources.is_run(str(tmp_path / "cut.jsonl"))


def test_outcome_text_of_a_family_comes_from_its_environments() -> None:
    from triage_gym.envs.sokoban import SokobanEnv

    declared = SokobanEnv.metadata.get("outcome_text", ())
    assert sources.outcome_text_of_domain("sokoban") == tuple(declared)
    assert sources.outcome_text_of_domain("chess") == ()


def test_a_sample_takes_from_every_stratum() -> None:
    rows = [row(f"w{k}", success=True) for k in range(90)] + [row(f"l{k}", success=False, ann="R") for k in range(6)]
    found = sources.sample(rows, 10)
    assert sum(r.success is False for r in found) == 5
    assert found == sources.sample(rows[::-1], 10)
    assert found != sources.sample(rows, 10, seed=1)
    assert sorted(r.id for r in sources.sample(rows, 500)) == sorted(r.id for r in rows)
    with pytest.raises(InputError, match="at least 1"):
        sources.sample(rows, 0)


# ---- the page to label in ----


class Tags(HTMLParser):
    """The tags of a document, and the text of its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag == "script"
        if self._inside:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data


def test_the_page_shows_windows_and_nothing_that_must_not_be_seen() -> None:
    hidden = LabelledWindow(
        HOSTILE,
        window(action=HOSTILE),
        {"somebody": Annotation("R", "their reason")},
        "R",
        True,
        -123.5,
        "a note",
        {"episode": "e", "reward": "treasure"},
    )
    page = render([hidden, row("b")], name="Ann")
    found = Tags()
    found.feed(page)
    assert found.tags.count("script") == 2, "the island and ours; the text opened none"
    assert "\x1b" not in page
    assert "\u202e" not in page
    for secret in (str(SECRET), "somebody", "their reason", "-123.5", "a note", "treasure"):
        assert secret not in page
    data = json.loads(found.scripts[0])
    assert data["name"] == "Ann"
    assert {"gold", "rule", "oracle"} <= set(data["taken"])
    own = next(r for r in data["rows"] if r["id"] == HOSTILE)
    assert own["window"]["action"] == HOSTILE, "what is saved is the text as it came"
    assert set(own) == {"id", "window"}
    assert own["window"]["facts"] is None
    assert "innerHTML" not in page
    assert "default-src 'none'" in page


def test_what_a_browser_keeps_is_the_annotators_own() -> None:
    keys = set()
    for rows, name in ((ROWS, "ann"), (ROWS, "bob"), (ROWS[:2], "ann")):
        found = Tags()
        found.feed(render(rows, name))
        keys.add(json.loads(found.scripts[0])["key"])
    assert len(keys) == 3


def test_the_script_writes_the_form_that_is_read(tmp_path: Path) -> None:
    """The keys that the script saves are those of a row, and a row made of them merges with the original."""
    page = render([row("a", success=True)], name="Ann")
    found = Tags()
    found.feed(page)
    saved = re.search(r"JSON\.stringify\(\{\s*(schema: data\.schema.*?)\}\) \+", found.scripts[1], re.DOTALL)
    assert saved is not None
    keys = re.findall(r"(\w+):", saved[1].replace("data.schema", "1").replace("[name]:", ""))
    assert keys == list(row("a").to_json())
    shown = json.loads(found.scripts[0])["rows"][0]
    line = {
        "schema": 1,
        **shown,
        "labels": {"Ann": {"role": "R", "why": ""}},
        "gold": None,
        "success": None,
        "delta": None,
        "note": "",
        "origin": {},
    }
    (tmp_path / "saved.jsonl").write_text(json.dumps(line) + "\n")
    rows = merged([("a", [row("a", success=True)]), ("saved", read_labels(tmp_path / "saved.jsonl"))])
    assert rows == [replace(row("a", success=True), labels={"Ann": Annotation("R")})]
