"""traces.jsonl: strict, append-only, torn at most in its last line, and cut exactly on resume."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage_gym import traces
from triage_gym.errors import InputError
from triage_gym.records import EpisodeRecord, RoleLabel, Segment
from triage_gym.traces import Trace, TraceWriter, encode, read_traces, truncate_after


def trace(update: int, text: str = "é \ud800 \u2028 </script>", **fields: Any) -> Trace:
    record = EpisodeRecord(
        f"g{update}",
        task=text,
        segments=(Segment(0, text, "a", "b", 0.5, {"n": 1}), Segment(1, "b", "c", "d")),
        labels=(RoleLabel(0, "D", 0.5, (0.7, 0.1, 0.1, 0.1)), RoleLabel(1, None, status="failed")),
    )
    return Trace(update, record, "triage", (0.25, -1.0), {"role_terms": [0.2, 0.0]}, **fields)


def write(path: Path, *items: Trace) -> None:
    with TraceWriter(path) as writer:
        for item in items:
            writer.write(item)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "traces.jsonl"
    items = [trace(1), replace(trace(1), advantages=None), trace(2)]
    write(path, *items)
    found = read_traces(path)
    assert found.items == tuple(items)
    assert (len(found), list(found), found.torn) == (3, items, 0)
    write(path, trace(3))
    assert [t.update for t in read_traces(path)] == [1, 1, 2, 3]


def test_a_line_is_ascii_json_and_an_episode_record(tmp_path: Path) -> None:
    line = encode(trace(4))
    assert line.isascii()
    assert line.count(b"\n") == 1
    data = json.loads(line)
    assert (data["schema"], data["update"], data["credit"], data["advantages"]) == (1, 4, "triage", [0.25, -1.0])
    assert EpisodeRecord.from_json(data) == trace(4).record
    assert encode(trace(4)) == line


@given(st.integers(0, 400), st.integers(0, 5))
def test_any_tear_of_the_last_line_is_reported_and_repaired(tmp_path_factory: Any, cut: int, update: int) -> None:
    path = tmp_path_factory.mktemp("t") / "traces.jsonl"
    lines = [encode(trace(k)) for k in range(4)]
    whole, torn = b"".join(lines[:3]), lines[3][: min(cut, len(lines[3]) - 1)]
    path.write_bytes(whole + torn)
    found = read_traces(path)
    assert [t.update for t in found] == [0, 1, 2]
    assert found.torn == len(torn)
    if torn:
        with pytest.raises(InputError, match="truncate_after"):
            TraceWriter(path)
    dropped = truncate_after(path, update)
    kept = min(3, update + 1)
    assert path.read_bytes() == b"".join(lines[:kept])
    assert dropped == 3 - kept + bool(torn)
    write(path, trace(3))
    assert path.read_bytes() == b"".join(lines[:kept]) + lines[3]


def test_a_resumed_run_writes_the_same_bytes(tmp_path: Path) -> None:
    straight, resumed = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    write(straight, *[trace(k) for k in range(6)])
    write(resumed, *[trace(k) for k in range(5)])
    with resumed.open("ab") as file:
        file.write(encode(trace(5))[:50])
    assert truncate_after(resumed, 2) == 3
    write(resumed, *[trace(k) for k in range(3, 6)])
    assert resumed.read_bytes() == straight.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl"]


def test_truncating_what_is_not_there_does_nothing(tmp_path: Path) -> None:
    assert truncate_after(tmp_path / "none.jsonl", 3) == 0
    assert not list(tmp_path.iterdir())
    (tmp_path / "empty.jsonl").touch()
    assert truncate_after(tmp_path / "empty.jsonl", 3) == 0
    assert len(read_traces(tmp_path / "empty.jsonl")) == 0
    write(tmp_path / "empty.jsonl", trace(1))


def test_a_failed_truncation_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(encode(trace(1)) + b"nonsense\n" + encode(trace(2)))
    before = path.read_bytes()
    with pytest.raises(InputError, match="line 2"):
        truncate_after(path, 1)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["traces.jsonl"]


@pytest.mark.parametrize(
    "bad",
    [
        replace(trace(1), advantages=(math.nan, 0.0)),
        replace(trace(1), advantages=(1.0,)),
        replace(trace(1), meta={"x": math.inf}),
        replace(trace(1), meta={"x": object()}),
        replace(trace(1), record=replace(trace(1).record, score=math.nan)),
    ],
    ids=["NaN advantage", "too few", "infinite meta", "live object", "NaN score"],
)
def test_what_is_no_strict_json_is_refused_and_nothing_is_written(tmp_path: Path, bad: Trace) -> None:
    with TraceWriter(tmp_path / "t.jsonl") as writer:
        writer.write(trace(0))
        with pytest.raises(InputError):
            writer.write(bad)
        writer.write(trace(2))
        writer.close()
    assert [t.update for t in read_traces(tmp_path / "t.jsonl")] == [0, 2]


def test_long_lines_are_refused_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.jsonl"
    write(path, trace(1, text="x" * 5000))
    monkeypatch.setattr(traces, "MAX_LINE", 4000)
    with pytest.raises(InputError, match="at most 4000"):
        encode(trace(1, text="x" * 5000))
    for read in (read_traces, lambda p: truncate_after(p, 9)):
        with pytest.raises(InputError, match="at most 4000"):
            read(path)


def changed(**fields: Any) -> bytes:
    return json.dumps({**trace(1).to_json(), **fields}).encode() + b"\n"


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{}\n",
        b"[1]\n",
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"schema": 1, "update": ' + b"9" * 5000 + b"}\n",
        changed(schema=2),
        changed(update="1"),
        changed(update=True),
        changed(credit=3),
        changed(meta=[]),
        changed(advantages=[1.0]),
        changed(advantages=[1.0, "2"]),
        changed(advantages=[1.0, math.nan]),
        changed(score=math.inf),
        changed(group_id=None),
    ],
    ids=lambda line: line[:40].decode("latin1"),
)
def test_what_is_no_trace_is_refused_with_its_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(encode(trace(1)) + line + encode(trace(2)))
    with pytest.raises(InputError, match="line 2 of"):
        read_traces(path)


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="readable file"):
        read_traces(tmp_path / "none.jsonl")


@pytest.mark.parametrize("field", ["score", "advantages", "update"])
def test_a_number_that_no_float_holds_is_refused_with_its_line(tmp_path: Path, field: str) -> None:
    data = trace(1).to_json() | {field: [10**400, 0] if field == "advantages" else 10**400}
    path = tmp_path / "traces.jsonl"
    path.write_bytes(encode(trace(1)) + json.dumps(data).encode() + b"\n")
    if field == "update":  # a whole number stays one, however large
        assert read_traces(path).items[1].update == 10**400
    else:
        with pytest.raises(InputError, match="line 2"):
            read_traces(path)
    with pytest.raises(InputError):
        encode(replace(trace(1), advantages=(10**400, 0.0)))
