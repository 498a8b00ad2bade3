"""The gold set: its shape, that it reads back, and that it is what playing the episodes again gives."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from triage_gym.audit.gold import PATH, gold_rows
from triage_gym.audit.labels import write_labels
from triage_gym.cli.judge_collect import ORACLE, JudgeCollect, collect
from triage_gym.judges.labelling import judge_windows
from triage_gym.judges.oracle import OracleJudge
from triage_gym.protocols import Facts
from triage_gym.windows import OUTCOME_LITERALS, OUTCOME_OPENINGS

FAMILIES = ("alfworld", "webshop", "searchqa", "sokoban", "minesweeper", "textworld")
HIDDEN = ("alfworld", "webshop", "searchqa", "textworld")
DECISIONS = Path(__file__).parents[1] / "benchmarks" / "judge_gold.json"


def test_it_covers_every_family_role_and_outcome() -> None:
    rows = gold_rows()
    counts = Counter((row.window.domain, row.gold, row.success) for row in rows)
    assert len(rows) >= 240
    assert len({row.id for row in rows}) == len(rows)
    assert {row.window.domain for row in rows} == set(FAMILIES)
    for family in FAMILIES:
        assert sum(n for (domain, _, _), n in counts.items() if domain == family) >= 40
        assert counts[family, "R", True] >= 8
        for role in "DNR":
            assert counts[family, role, True] >= 3
            assert counts[family, role, True] + counts[family, role, False] >= 5
    for family in HIDDEN:
        assert counts[family, "E", False] >= 5


def test_it_is_small_and_is_written_as_it_was_read(tmp_path: Path) -> None:
    assert PATH.stat().st_size < 300_000
    write_labels(tmp_path / PATH.name, gold_rows())
    assert (tmp_path / PATH.name).read_bytes()[:10] == PATH.read_bytes()[:10]
    write_labels(tmp_path / "plain.jsonl", gold_rows())
    write_labels(tmp_path / "again.jsonl", gold_rows())
    assert (tmp_path / "plain.jsonl").read_bytes() == (tmp_path / "again.jsonl").read_bytes()


def test_every_row_says_where_it_comes_from_and_carries_facts() -> None:
    for row in gold_rows():
        assert row.gold is not None
        assert type(row.success) is bool
        assert type(row.window.facts) is Facts
        assert None not in row.window.facts
        assert row.origin["task_id"] in row.id
        assert row.id == f"{row.origin['episode']}/{row.window.step}"
        assert len(row.window.past) <= 5
        assert len(row.window.future) <= 5
        assert (row.gold == row.labels[ORACLE].role) or row.note


def test_windows_tell_nothing_of_the_outcome() -> None:
    for row in gold_rows():
        window = row.window
        shown = [window.next_observation, *[pair.observation for pair in (*window.past, *window.future)]]
        for text in shown:
            assert not any(literal in text for literal in (*OUTCOME_LITERALS, *OUTCOME_OPENINGS))


def test_the_oracle_says_of_the_windows_what_stands_in_the_file() -> None:
    rows = gold_rows()
    labels = [judge_windows(OracleJudge(first), [row.window for row in rows]) for first in (False, True)]
    for row, plain, careful in zip(rows, *labels, strict=True):
        assert row.labels[ORACLE].role in (plain.role, careful.role)


def test_decisions_are_those_in_the_file() -> None:
    decisions = json.loads(DECISIONS.read_text())
    rows = {row.id: row for row in gold_rows()}
    assert [*rows] == decisions["segments"]
    assert decisions["gold"].keys() <= rows.keys()
    noted = {name for name, row in rows.items() if row.note}
    assert noted == decisions["gold"].keys()
    for name, said in decisions["gold"].items():
        assert (rows[name].gold, rows[name].note) == (said["role"], said["note"])
        assert said["oracle"] == rows[name].labels[ORACLE].role


@pytest.mark.parametrize("family", ["sokoban", "minesweeper", "alfworld"])
def test_playing_the_episodes_again_gives_the_same_windows(family: str) -> None:
    shipped = [row for row in gold_rows() if row.window.domain == family]
    origin = shipped[0].origin
    seeds = sorted({row.origin["seed"] for row in shipped})[:3]
    for seed in seeds:
        setting = JudgeCollect(
            env=origin["env"],
            env_kwargs=origin["env_kwargs"],
            split=origin["split"],
            limit=origin["limit"],
            noise=origin["noise"],
            episodes=1,
            seed=seed,
            explore_first=family == "alfworld",
        )
        again = {row.id: row for row in collect(setting)}
        for row in shipped:
            if row.origin["seed"] == seed:
                found = again[row.id]
                assert replace(found, labels={ORACLE: found.labels[ORACLE]}, gold=row.gold, note=row.note) == row
