"""Label files: what goes in comes out, equal rows have equal bytes, and nothing malformed is let through."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage_gym.audit.labels import GOLD, MAX_LINE, Annotation, LabelledWindow, read_labels, write_labels
from triage_gym.errors import InputError
from triage_gym.protocols import Facts, Pair, Window

WINDOW = Window(
    "put a mug on the desk",
    "alfworld",
    3,
    (Pair("look", "You see a desk."),),
    "You are at a desk.",
    "take mug 1",
    "You take the mug.",
    (Pair("go to desk 1", "Desk."),),
    ("look",),
    Facts(True, None, 4, 3),
)
ROW = LabelledWindow(
    "a:0:3",
    WINDOW,
    {"bob": Annotation("D", "takes it"), "alice": Annotation(None)},
    "D",
    True,
    -0.25,
    "seen twice",
    {"seed": 3, "advantage": 0.5},
)


def line(**changes: Any) -> str:
    data = {**ROW.to_json(), **changes}
    return json.dumps({key: value for key, value in data.items() if value is not ...})


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "deep/er/rows.jsonl"])
def test_round_trip(tmp_path: Path, name: str) -> None:
    rows = [ROW, LabelledWindow("b", WINDOW._replace(facts=None))]
    write_labels(tmp_path / name, rows)
    assert read_labels(tmp_path / name) == rows
    assert rows[0].advantage == 0.5
    assert rows[1].advantage is None
    assert [path.name for path in (tmp_path / name).parent.iterdir()] == [Path(name).name], "a temporary file is left"


def test_equal_rows_have_equal_bytes(tmp_path: Path) -> None:
    turned = replace(
        ROW, labels=dict(reversed(list(ROW.labels.items()))), origin=dict(reversed(list(ROW.origin.items())))
    )
    for name in ("a.jsonl", "a.jsonl.gz"):
        write_labels(tmp_path / name, [ROW])
        first = (tmp_path / name).read_bytes()
        write_labels(tmp_path / name, [turned])
        assert turned == ROW
        assert (tmp_path / name).read_bytes() == first
    assert gzip.decompress(first).startswith(b'{"schema":1,"id":"a:0:3","window":{"task":')


texts = st.text(max_size=20)
roles = st.sampled_from(["D", "E", "N", "R", None])
labelled = st.builds(
    LabelledWindow,
    st.text(min_size=1, max_size=9),
    st.builds(lambda a, b, c: WINDOW._replace(task=a, action=b, future=(Pair(b, c),)), texts, texts, texts),
    st.dictionaries(st.sampled_from(["ann", "bob"]), st.builds(Annotation, roles, texts)),
    roles,
    st.sampled_from([True, False, None]),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.dictionaries(texts.filter(lambda key: key != "advantage"), st.none() | st.integers() | texts),
)


@given(labelled)
def test_any_row_comes_back(row: LabelledWindow) -> None:
    assert LabelledWindow.from_json(json.loads(json.dumps(row.to_json()))) == row


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "got: "),
        ("[1]", "a labelled window with the fields"),
        ("{", "got: "),
        ("[" * 100_000, "got: "),
        (line(schema=2), "another version"),
        (line(schema=True), "another version"),
        (line(id=...), "a labelled window with the fields"),
        (line(id=""), "`id` to be text"),
        (line(extra=1), "no fields but"),
        (line(window={}), "a window with the fields"),
        (line(gold="X"), "`gold` to be one of"),
        (line(gold=["D"]), "`gold` to be one of"),
        (line(success=1), "`success` to be true"),
        (line(delta=True), "`delta` to be a finite"),
        (line(delta=10**400), "`delta` to be a finite"),
        (line().replace("-0.25", "NaN"), "NaN is no JSON number"),
        (line().replace("-0.25", "1e999"), "`delta` to be a finite"),
        (line(note=None), "`note` to be text"),
        (line(labels=[]), "`labels` to be an object"),
        (line(labels={"ann": {"role": "Q"}}), "role of ann"),
        (line(labels={"ann": {"why": ""}}), "`role` and `why` alone"),
        (line(labels={"ann": {"role": "D", "why": 3}}), "`why` of 'ann'"),
        (line(labels={GOLD: {"role": "D"}}), "the settled roles"),
        (line(labels={" ": {"role": "D"}}), "an annotator's name"),
        (line(labels={"a\x1b[2J": {"role": "D"}}), "an annotator's name"),
        (line(origin=3), "`origin` to be an object"),
        (line(origin={"advantage": "high"}), "origin.advantage"),
        ("x" * (MAX_LINE + 1), "lines of at most"),
        (line(id="first"), "each id once"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{line(id='first')}\n{text}\n")
    with pytest.raises(InputError) as raised:
        read_labels(path)
    assert says in str(raised.value)
    assert f"{path}:2" in str(raised.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "torn.gz").write_bytes(gzip.compress(line().encode() * 9)[:40])
    (tmp_path / "plain.gz").write_text(line())
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\n")
    for name in ("none.jsonl", ".", "torn.gz", "plain.gz", "bytes.jsonl"):
        with pytest.raises(InputError, match="Expected"):
            read_labels(tmp_path / name)


@pytest.mark.parametrize(
    "bad",
    [
        [ROW, ROW],
        [replace(ROW, delta=float("nan"))],
        [replace(ROW, origin={"what": object()})],
        [replace(ROW, note="x" * MAX_LINE)],
        [replace(ROW, labels={GOLD: Annotation("D")})],
    ],
    ids=["twice", "nan", "live", "long", "name"],
)
def test_what_could_not_be_read_back_is_not_written(tmp_path: Path, bad: list[LabelledWindow]) -> None:
    path = tmp_path / "rows.jsonl"
    write_labels(path, [ROW])
    with pytest.raises(InputError):
        write_labels(path, bad)
    assert read_labels(path) == [ROW]
    assert [p.name for p in tmp_path.iterdir()] == ["rows.jsonl"]
