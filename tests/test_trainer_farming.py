"""The farming guard: its states by hand, what it leaves alone, and a run that is caught farming and gets out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from trainer_runs import contents

from triage_gym.credit import make
from triage_gym.errors import CheckpointError, InputError
from triage_gym.records import EpisodeRecord, Role, RoleLabel, Segment
from triage_gym.report.load import load_report
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.farming import FarmingGuard, applies, without_roles
from triage_gym.trainers.loop import train
from triage_gym.trainers.metrics import Watch, worded
from triage_gym.trainers.run_dir import read_lines
from triage_gym.trainers.sums import COUNTS, Sums

GENERIC = {"name": "rule", "domain": "generic"}


def batch(explored: float, solved: int, attempts: int = 64, judged: int = 100) -> Sums:
    """The counts of a batch in which ``explored`` of the judged turns are E and the others N."""
    e = round(explored * judged)
    row = {"attempts": attempts, "turns": 100, "successes": solved, "E": e, "N": judged - e}
    return Sums.of(np.array([[row.get(name, 0) for name in COUNTS]], float))


def moves(guard: FarmingGuard, *batches: tuple[float, int]) -> list[Any]:
    return [guard.look(k + 1, batch(*numbers)) for k, numbers in enumerate(batches)]


# ---- the states ----


def test_the_worked_example() -> None:
    guard = FarmingGuard(64)
    assert moves(guard, (0.9, 3), (0.95, 1), (1.0, 0)) == [None, None, None]
    assert guard.row() == {"guard": False, "guard_since": None}
    assert guard.look(4, batch(1.0, 0)) == "go back"
    assert guard.row() == {"guard": True, "guard_since": 4}


@pytest.mark.parametrize(
    "quiet",
    [
        (0.85, 0),  # at the level and not above it
        (0.66, 0),  # ALFWorld's random start: nothing solved, and exploring is not all there is
        (0.95, 2),  # 8 of 256 are solved
        (0.0, 0),
    ],
)
def test_it_only_watches_what_is_no_farming(quiet: tuple[float, int]) -> None:
    guard = FarmingGuard(64)
    assert "go back" not in moves(guard, *[quiet] * 40)
    assert guard.since is None


def test_turns_without_a_label_are_no_farming() -> None:
    guard = FarmingGuard(64)
    assert [guard.look(k, batch(0.0, 0, judged=0)) for k in range(9)] == [None] * 9


def test_a_window_has_at_least_256_attempts() -> None:
    guard = FarmingGuard(8)
    found = [guard.look(k, batch(1.0, 0, attempts=8)) for k in range(1, 33)]
    assert found == [None] * 31 + ["go back"]


def test_the_weights_to_go_back_to_are_those_of_the_best_window() -> None:
    guard = FarmingGuard(64)
    found = moves(guard, (0.5, 0), (0.5, 0), (0.5, 0), (0.5, 4), (0.5, 8), (0.5, 2), (0.5, 0), (0.5, 0), (0.5, 16))
    #                     windows: 4/256, 12/256, 14/256, 14/256, 10/256, 18/256
    assert found == [None, None, None, "keep", "keep", "keep", None, None, "keep"]


def test_roles_count_again_when_success_is_back_and_a_second_time_they_do_not() -> None:
    guard = FarmingGuard(64)
    moves(guard, *[(1.0, 0)] * 4)
    assert guard.since == 4
    # .2 of 256 are 51.2: 12 a batch are not enough, 13 are.
    for update in range(5, 9):
        assert guard.look(update, batch(0.3, 12)) == ("keep" if update == 8 else None)
    assert guard.since == 4
    for update in range(9, 13):
        guard.look(update, batch(0.3, 13))
    assert guard.since is None
    found = [guard.look(update, batch(1.0, 0)) for update in range(13, 17)]
    assert found == [None, None, None, "go back"]
    for update in range(17, 40):
        guard.look(update, batch(0.3, 64))
    assert guard.row() == {"guard": True, "guard_since": 16}


def test_success_is_back_at_twice_the_best_before() -> None:
    guard = FarmingGuard(64)
    moves(guard, *[(0.5, 16)] * 4, *[(1.0, 0)] * 4)
    assert guard.since == 8
    for update in range(9, 20):
        guard.look(update, batch(0.5, 31))
    assert guard.since == 8
    for update in range(20, 24):
        guard.look(update, batch(0.5, 32))
    assert guard.since is None


def test_while_stepped_in_exploring_alone_changes_nothing() -> None:
    guard = FarmingGuard(64)
    assert moves(guard, *[(1.0, 0)] * 30).count("go back") == 1


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0.2, 0.86, 1.0]), st.sampled_from([0, 1, 2, 20, 64])), max_size=40),
    st.integers(0, 40),
)
def test_it_goes_on_from_its_state(history: list[tuple[float, int]], cut: int) -> None:
    straight, stopped = FarmingGuard(64), FarmingGuard(64)
    expected = moves(straight, *history)
    found = moves(stopped, *history[:cut])
    resumed = FarmingGuard(64)
    resumed.go_to(json.loads(json.dumps(stopped.to_json())))
    found += [resumed.look(cut + k + 1, batch(*numbers)) for k, numbers in enumerate(history[cut:])]
    assert found == expected
    assert resumed.to_json() == straight.to_json()
    assert expected.count("go back") <= 2


def test_a_foreign_state_is_refused() -> None:
    guard = FarmingGuard(64)
    for state in ({}, {**guard.to_json(), "recent": 3}, {**guard.to_json(), "best": "much"}):
        with pytest.raises(CheckpointError, match="the state of the farming guard"):
            guard.go_to(state)


# ---- which rules ----


def record(group: str, score: float, roles: str) -> EpisodeRecord:
    known: dict[str, Role] = {"D": "D", "E": "E", "N": "N", "R": "R"}
    segments = tuple(Segment(k, "o", f"a{k}", "p") for k in range(len(roles)))
    labels = tuple(RoleLabel(k, known[r]) for k, r in enumerate(roles))
    return EpisodeRecord(group, segments=segments, labels=labels, success=score > 0, score=score)


@pytest.mark.parametrize(
    ("credit", "guarded"),
    [
        ("triage", True),
        ("triage+guard", True),
        ("scalar", True),
        ("triage-shuffled", True),
        ("gigpo+triage", True),
        ("grpo", False),
        ("gigpo", False),
        ("roles-only", False),
    ],
)
def test_it_is_for_rules_that_add_roles_to_outcomes(credit: str, guarded: bool) -> None:
    rule = make(credit)
    assert applies(TrainConfig(), rule) is guarded
    assert not applies(TrainConfig(farming_guard="off"), rule)


def test_no_role_term_no_guard() -> None:
    assert not applies(TrainConfig(), make("triage", lam=0.0))
    assert not applies(TrainConfig(), lambda records: [])


def test_without_roles_triage_is_whitened_grpo() -> None:
    records = [record("a", 1, "EDR"), record("a", 0, "EEEEN"), record("b", 0, "ER"), record("b", 0, "NNE")]
    found, expected = without_roles(make("triage"))(records), make("grpo+whiten")(records)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, expected, strict=True))


def test_the_setting_is_checked() -> None:
    with pytest.raises(InputError, match="farming_guard"):
        TrainConfig(farming_guard="maybe")  # type: ignore[arg-type]


# ---- runs ----


def reading(**changes: Any) -> TrainConfig:
    """A run in which TRIAGE with a judge that pays for news goes straight to E 1.00 and success 0."""
    plain: dict[str, Any] = {
        "env": "triage_gym.testing.probes:EndlessReading",
        "judge": GENERIC,
        "limit": 8,
        "turns": 6000,
        "tasks": 64,
        "eval_tasks": 10,
        "eval_at": (),
        "trace_every": 0,
        "monitor_every": 2,
    }
    return TrainConfig(**{**plain, **changes})


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guarded") / "run"
    train(reading(), path)
    return path


def test_a_run_that_farms_is_caught_and_gets_out(guarded: Path) -> None:
    rows = list(read_lines(guarded / "metrics.jsonl"))
    assert rows[2]["role_E"] > 0.9
    assert rows[3]["success"] == 0.0
    caught = next(row for row in rows if row["guard"])
    assert caught["guard_since"] == caught["update"]
    assert "role_farming" in caught["warnings"]
    assert rows[-1]["success"] > 0.2
    assert [name for row in rows for name in row["warnings"]].count("role_farming") == 1
    assert any("farming_over" in row["warnings"] for row in rows)
    report = load_report(guarded, 0)
    assert any(text.startswith("The policy explored for its judge") and "update 4" in text for text in report.notices)


def test_off_it_stays_in_the_trap(tmp_path: Path) -> None:
    train(reading(farming_guard="off", turns=4500), tmp_path / "run")
    rows = list(read_lines(tmp_path / "run" / "metrics.jsonl"))
    assert rows[-1]["role_E"] > 0.95
    assert all(row["success"] == 0.0 for row in rows[3:])
    assert "guard" not in rows[-1]
    assert not any("role_farming" in row["warnings"] for row in rows)


class Stop(Exception):
    """Raised in the middle of a run."""


@pytest.mark.parametrize("at", [3, 5, 10])
def test_resumed_before_in_and_after_farming_it_is_the_same_run(guarded: Path, tmp_path: Path, at: int) -> None:
    def stop(update: Any) -> None:
        if update.update == at + 1:
            raise Stop

    config = reading(checkpoint_every=at)
    with pytest.raises(Stop):
        train(config, tmp_path / "run", progress=stop)
    train(config, tmp_path / "run", resume=True)
    found, expected = contents(tmp_path / "run"), contents(guarded)
    for name in ("metrics.jsonl", "eval.json", "checkpoint/weights.safetensors", "checkpoint/optim.safetensors"):
        assert found[name] == expected[name], name


def test_a_guard_that_only_watches_changes_nothing(tmp_path: Path) -> None:
    for guard in ("auto", "off"):
        config = reading(farming_guard=guard, turns=3000, demos=30, demo_noise=0.0, trace_every=1)
        train(config, tmp_path / guard)
    auto, off = contents(tmp_path / "auto"), contents(tmp_path / "off")
    for name in ("traces.jsonl", "eval.json", "checkpoint/weights.safetensors"):
        assert auto[name] == off[name], name
    rows = [list(read_lines(tmp_path / guard / "metrics.jsonl")) for guard in ("auto", "off")]
    assert not any(row["guard"] for row in rows[0])
    assert [{k: v for k, v in row.items() if not k.startswith("guard")} for row in rows[0]] == rows[1]


def test_kl_to_the_start_is_measured_now_and_then_and_begins_at_nothing(guarded: Path) -> None:
    rows = list(read_lines(guarded / "metrics.jsonl"))
    assert [row["update"] for row in rows if "kl_start" in row] == [k for k in range(1, len(rows) + 1) if k % 2]
    assert abs(rows[0]["kl_start"]) < 1e-6
    assert rows[2]["kl_start"] > 0.05
    assert all(row["kl"] is None for row in rows)


# ---- the other alarms ----


def watched(watch: Watch, **changes: Any) -> list[str]:
    plain = {"update": 1, "success": 0.1, "role_unjudged": 0.0, "role_E": 0.3, "outcome_variance": 0.5, "entropy": 2.0}
    return watch.look({**plain, **changes})


def test_a_policy_that_is_certain_and_solves_little_is_warned_of() -> None:
    watch = Watch()
    assert watched(watch) == []
    assert watched(watch, entropy=0.21) == []
    assert watched(watch, entropy=0.19) == ["entropy_collapse"]
    assert watched(watch, entropy=0.1) == []  # once
    able = Watch()
    assert [watched(able, success=0.6, entropy=h) for h in (2.0, 0.1, 0.1)] == [[], [], []]


def test_a_policy_that_went_far_and_solves_no_more_is_warned_of() -> None:
    watch = Watch()
    for far in (0.0, None, 1.9, None):
        assert watched(watch, **({} if far is None else {"kl_start": far})) == []
    assert watched(watch, kl_start=2.0) == ["far_from_start"]
    assert watched(watch) == []  # not measured: it still holds
    assert watch.active["far_from_start"]
    assert watched(watch, kl_start=2.5, success=0.5) == []  # it solves more now
    assert not watch.active["far_from_start"]


def test_warnings_go_on_from_their_state() -> None:
    straight, stopped, resumed = Watch(), Watch(), Watch()
    for watch in (straight, stopped):
        for _ in range(5):
            watched(watch)
    resumed.go_to(json.loads(json.dumps(stopped.to_json())))
    later: list[dict[str, Any]] = [{"entropy": 0.1}, {"kl_start": 3.0}, {"success": 0.9, "guard": True}, {}]
    assert [watched(resumed, **c) for c in later] == [watched(straight, **c) for c in later]
    assert resumed.to_json() == straight.to_json()
    older = Watch()
    older.go_to({"no_outcome_variance": True})
    assert older.active["no_outcome_variance"]
    assert watched(older) == []
    with pytest.raises(CheckpointError, match="the state of warnings"):
        older.go_to({"active": 3})


def test_the_warnings_name_their_numbers() -> None:
    row = {"role_E": 0.72, "role_unjudged": 0.2, "kl_start": 2.345}
    assert "E is 90 % of the turns" in worded("role_farming", row)
    assert "(KL 2.35)" in worded("far_from_start", row)
