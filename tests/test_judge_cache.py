"""A cache of labels: nothing is asked twice, nothing that is no label is kept, and no kill tears it."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from composed_judges import Fake, Silent, facts, window
from hypothesis import given, settings
from hypothesis import strategies as st

from triage_gym.errors import InputError
from triage_gym.judges import cache
from triage_gym.judges.cache import CachedJudge, cache_dir
from triage_gym.judges.label_store import LabelStore
from triage_gym.judges.labelling import label_record
from triage_gym.judges.rule import RuleJudge
from triage_gym.judges.selective import SelectiveJudge
from triage_gym.records import RoleLabel

WINDOWS = [window(k, f"a{k}") for k in range(5)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "judge.sqlite"


def text_of(labels: list[RoleLabel]) -> str:
    return json.dumps([x.to_json() for x in labels])


def counts(judge: CachedJudge) -> tuple[float, float, float]:
    return judge.usage["asked"], judge.usage["cached"], judge.usage["corrupt"]


def test_the_same_windows_again_ask_nothing_and_give_equal_labels(path: Path) -> None:
    within = Fake(lambda w: "DENR"[w.step % 4])
    first = CachedJudge(within, path)
    labels = first.judge(WINDOWS)
    assert counts(first) == (5, 0, 0)
    assert text_of(first.judge(WINDOWS)) == text_of(labels)
    assert counts(first) == (5, 5, 0)
    first.close()
    second = CachedJudge(Fake(), path)
    assert text_of(second.judge(WINDOWS)) == text_of(labels) == text_of(within.judge(WINDOWS))
    assert second.usage == {"asked": 0, "cached": 5, "corrupt": 0, "cache_errors": 0, "calls": 0}
    second.close()


def test_folder_and_file_are_the_users_alone(path: Path) -> None:
    CachedJudge(Fake(), path).close()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_step_is_not_part_of_what_is_asked(path: Path) -> None:
    within = Fake()
    judge = CachedJudge(within, path)
    here, there = window(3, observation="o"), window(8, observation="o")
    assert [x.step for x in judge.judge([here])] == [3]
    assert [x.step for x in judge.judge([there, here])] == [8, 3]
    assert within.usage["calls"] == 1


def test_equal_windows_of_a_call_are_asked_once(path: Path) -> None:
    within = Fake()
    judge = CachedJudge(within, path)
    labels = judge.judge([window(0, observation="o"), window(1, "b"), window(2, observation="o")])
    assert [x.step for x in labels] == [0, 1, 2]
    assert [w.step for w in within.asked[0]] == [0, 1]
    assert counts(judge) == (2, 1, 0)


@pytest.mark.parametrize("field", ["task", "domain", "observation", "action", "next_observation"])
def test_every_text_is_part_of_what_is_asked(path: Path, field: str) -> None:
    judge = CachedJudge(Fake(), path)
    judge.judge([window(0), window(0)._replace(**{field: "another"}), window(0, past=[("x", "y")])])
    assert counts(judge)[0] == 3


def test_facts_count_as_far_as_they_are_needed(path: Path) -> None:
    one, other = [window(0)._replace(facts=facts(changed=c, before=b)) for c, b in ((True, 3), (True, 4))]
    for needs, asked in (((), 1), (("changed",), 1), (("distance",), 2)):
        judge = CachedJudge(Fake(name=str(needs), needs_facts=needs), path)
        judge.judge([one, other, window(0)])
        assert counts(judge)[0] == asked + bool(needs)


def test_judges_of_another_identity_have_other_entries(path: Path) -> None:
    for asked, name in ((5, "a"), (5, "b"), (0, "a")):
        judge = CachedJudge(Fake(name=name), path)
        judge.judge(WINDOWS)
        assert counts(judge)[0] == asked


def test_only_judged_labels_are_kept(path: Path) -> None:
    answers: list[Any] = [
        None,
        RoleLabel(0, None, status="unsure"),
        RoleLabel(0, None, status="unjudged"),
        "X",
        RoleLabel(0, "N", source="rule:fallback"),
        "D",
        "R",
    ]
    for k, answer in enumerate(answers):
        judge = CachedJudge(Fake(lambda w, a=answer: replace(a, step=w.step) if isinstance(a, RoleLabel) else a), path)
        role = judge.judge([window(0)])[0].role
        assert role == ("D" if k >= 5 else "N" if k == 4 else None)
        assert counts(judge)[0] == (k < 6)


def test_modes(path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        CachedJudge(Fake(), path, "read")
    off = CachedJudge(Silent(), path, "off")
    assert [x.role for x in off.judge(WINDOWS)] == ["N"] * 5
    assert not path.parent.exists()
    CachedJudge(Fake(), path).judge(WINDOWS[:2])
    for _ in range(2):
        reading = CachedJudge(Fake(), path, "read")
        reading.judge(WINDOWS)
        assert counts(reading) == (3, 2, 0)
        reading.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE labels SET label = substr(label, 2)",
        "UPDATE labels SET crc = crc + 1",
        "UPDATE labels SET label = NULL",
        "UPDATE labels SET label = x'00ff'",
        "UPDATE labels SET label = '[]', crc = 223132457",
        "UPDATE labels SET label = 'NaN', crc = 3947551340",
        """UPDATE labels SET label = '{"role":"X"}', crc = 1217303180""",
    ],
)
def test_a_corrupt_entry_is_a_miss_and_is_written_anew(path: Path, damage: str) -> None:
    CachedJudge(Fake(), path).judge(WINDOWS)
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    for expected in ((5, 0, 5), (0, 5, 0)):
        judge = CachedJudge(Fake(), path)
        assert [x.role for x in judge.judge(WINDOWS)] == ["E"] * 5
        assert counts(judge) == expected


def test_a_file_that_fails_costs_no_label(path: Path) -> None:
    judge = CachedJudge(Fake(), path)
    judge.judge(WINDOWS)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE labels")
    assert [x.role for x in judge.judge(WINDOWS)] == ["E"] * 5
    assert judge.usage["cache_errors"] == 2
    assert judge.usage["asked"] == 10


def test_what_is_no_cache_is_refused(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    path.write_text("Dear diary, " * 1000)
    for mode in ("readwrite", "read"):
        with pytest.raises(InputError, match="cache of labels"):
            CachedJudge(Fake(), path, mode)  # type: ignore[arg-type]
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    with pytest.raises(InputError, match="another database"):
        CachedJudge(Fake(), other)
    with pytest.raises(InputError, match="write a cache"):
        CachedJudge(Fake(), tmp_path)
    with pytest.raises(InputError, match="mode"):
        CachedJudge(Fake(), path, "write")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="identity"):
        CachedJudge(Silent(), tmp_path / "new.sqlite")
    with pytest.raises(InputError, match="JSON values"):
        CachedJudge(Fake(name=object()), tmp_path / "new.sqlite").judge(WINDOWS)  # type: ignore[arg-type]


def test_threads_that_ask_the_same_ask_once(path: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(w: Any) -> str:
        inside.set()
        assert go_on.wait(60)
        return "D"

    within = Fake(slow)
    judges = [CachedJudge(within, path), CachedJudge(within, path)]
    found: dict[int, list[RoleLabel]] = {}
    threads = [threading.Thread(target=lambda k=k: found.update({k: judges[k].judge(WINDOWS)})) for k in range(2)]
    threads[0].start()
    assert inside.wait(60)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert found[0] == found[1]
    assert within.usage["calls"] == 1
    assert [counts(judge)[:2] for judge in judges] == [(5, 0), (0, 5)]


def test_a_thread_that_waits_for_an_interrupted_one_gets_failed_labels(path: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def interrupted(w: Any) -> str:
        inside.set()
        assert go_on.wait(60)
        raise SystemExit

    first, second = CachedJudge(Fake(interrupted), path), CachedJudge(Fake(), path)
    found: list[RoleLabel] = []

    def ask_first() -> None:
        with contextlib.suppress(SystemExit):
            first.judge(WINDOWS)

    threads = [threading.Thread(target=t) for t in (ask_first, lambda: found.extend(second.judge(WINDOWS)))]
    threads[0].start()
    assert inside.wait(60)
    flying = threading.Event()
    second.count = lambda name, by=1: flying.set()  # type: ignore[method-assign]
    threads[1].start()
    assert flying.wait(60)
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert [x.status for x in found] == ["failed"] * 5
    assert [x.role for x in CachedJudge(Fake(), path).judge(WINDOWS)] == ["E"] * 5


@settings(max_examples=25, deadline=None)
@given(st.text(), st.text(), st.floats(0, 1))
def test_any_label_comes_back_as_it_was(tmp_path_factory: Any, why: str, source: str, confidence: float) -> None:
    path = tmp_path_factory.mktemp("cache") / "c.sqlite"
    label = RoleLabel(0, "R", confidence, (confidence, 0.1, 0.2, 0.3), why[:2000] + "\ud800", source, "judged", 0.3)
    for within in (Fake(lambda w: label), Fake(lambda w: None)):
        judge = CachedJudge(within, path)
        assert judge.judge([window(0)]) == [label]
        judge.close()


def test_the_rule_judge_is_cached_like_any_other(path: Path) -> None:
    from composed_judges import attempt

    record = attempt(6)
    plain = label_record(record, RuleJudge(domain="generic"))
    for _ in range(2):
        assert label_record(record, CachedJudge({"name": "rule", "domain": "generic"}, path)) == plain


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_a_child_keeps_outlives_that_its_parent_closes_the_file(path: Path) -> None:
    # SQLite would take the locks that the child inherits for its own, and the parent would delete the log it writes to.
    script = Path(__file__).with_name("cache_after_fork.py")
    done = subprocess.run(
        [sys.executable, str(script), str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == {"asked": 0, "cached": 31, "corrupt": 0, "cache_errors": 0, "integrity": "ok"}


def test_no_connection_is_open_across_a_fork(path: Path) -> None:
    store = LabelStore(str(path), write=True, note=lambda name: None)
    store.hold()
    assert store._connection is None
    store.release()
    assert store.read([b"key"]) == {}
    store.close()


@pytest.mark.parametrize("between", [lambda judge: judge, SelectiveJudge])
def test_a_cache_around_a_cache_with_the_same_entries_does_not_wait_for_itself(path: Path, between: Any) -> None:
    fake = Fake()
    judge = CachedJudge(between(CachedJudge(fake, path)), path)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(judge.judge(WINDOWS)), daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert [x.role for x in found[0]] == ["E"] * 5
    assert len(fake.asked) == 1
    assert not cache._flights


def test_a_character_is_not_the_two_surrogates_that_stand_for_it(path: Path) -> None:
    fake = Fake()
    judge = CachedJudge(fake, path)
    for text in ("\U0001f600", "\ud83d\ude00", "\ud83d"):
        judge.judge([window(0, action=text)])
    assert len(fake.asked) == 3


def test_one_entry_that_is_no_text_costs_no_other(path: Path) -> None:
    judge = CachedJudge(Fake(), path)
    judge.judge(WINDOWS)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE labels SET label = CAST(x'ff41' AS TEXT) WHERE key = (SELECT min(key) FROM labels)")
    judge = CachedJudge(Fake(), path)
    judge.judge(WINDOWS)
    assert counts(judge) == (1, 4, 1)


def test_a_damaged_file_that_answers_with_another_key_is_not_believed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = CachedJudge(Fake(), path)
    rows = [(b"never asked for", b"{}", zlib.crc32(b"{}"))]
    monkeypatch.setattr(LabelStore, "_rows", staticmethod(lambda connection, keys: rows))
    assert [x.role for x in judge.judge(WINDOWS)] == ["E"] * 5
    assert counts(judge) == (5, 0, 1)


def test_only_a_file_that_is_busy_is_waited_for(path: Path) -> None:
    asked = []

    class Broken:
        def execute(self, statement: str) -> None:
            asked.append(statement)
            error = sqlite3.OperationalError("attempt to write a readonly database")
            error.sqlite_errorcode = sqlite3.SQLITE_READONLY
            raise error

    with pytest.raises(sqlite3.OperationalError):
        LabelStore._prepare(Broken())  # type: ignore[arg-type]
    assert len(asked) == 1


def test_a_path_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    for mode in ("readwrite", "read"):
        with pytest.raises(InputError, match="cache of labels"):
            CachedJudge(Fake(), str(tmp_path / "a\0b"), mode)  # type: ignore[arg-type]


def test_the_folder_of_the_cache_goes_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRIAGE_GYM_CACHE", str(tmp_path / "mine"))
    assert cache_dir() == tmp_path / "mine"
    CachedJudge(Fake()).close()
    assert (tmp_path / "mine" / "judge.sqlite").is_file()
    monkeypatch.delenv("TRIAGE_GYM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "triage_gym"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_dir() == Path.home() / ".cache" / "triage_gym"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_eight_processes_and_thirty_kills_leave_no_corrupt_entry(path: Path) -> None:
    script = Path(__file__).with_name("cache_under_fire.py")
    done = subprocess.run(
        [sys.executable, str(script), str(path), "8", "30"], capture_output=True, text=True, timeout=300, check=True
    )
    found = json.loads(done.stdout)
    assert (found["integrity"], found["right"], found["corrupt"], found["cache_errors"]) == ("ok", True, 0, 0)
    assert found["cached"] > 100
