"""The papers' tables: cells, measures, claims, and one small study from end to end."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from triage_gym.credit import make
from triage_gym.errors import InputError
from triage_gym.judges import nesting
from triage_gym.statistics import Paired, iqm, paired_difference
from triage_gym.trainers.comparison import is_finished
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.pretraining import pretrain
from triage_gym.trainers.reproduce import Cell, Plan, Study, reproduce, run_cells
from triage_gym.trainers.reproduce.arms import JUDGES, LAYOUTS, TABLES, Arm, layout_of
from triage_gym.trainers.reproduce.claims import CLAIMS, Claim, checked, claims_of
from triage_gym.trainers.reproduce.measures import over_envs, paired, paired_over_envs, summary
from triage_gym.trainers.reproduce.paper import beside
from triage_gym.trainers.reproduce.tables import as_markdown, as_text, gate_rows, pair_rows
from triage_gym.trainers.setups import SETUPS, setup_of
from triage_gym.trainers.signals import Interrupted
from triage_gym.trainers.tasks import make_env

# Layouts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
def test_every_arm_of_every_table_can_be_built(table: str) -> None:
    layout = layout_of(table)
    names = [arm.name for arm in layout.arms]
    assert len(set(names)) == len(names)
    assert layout.baseline in names
    for cell in Plan(layout.envs, layout.arms, (0,), layout.changes).cells():
        make({"name": cell.config.credit, **cell.config.credit_kwargs}, lam=cell.config.lam)
        nesting.close(nesting.inner(cell.config.judge))
        assert cell.config.eval_split in ("test", "valid_unseen")
    for claim in claims_of(table):
        assert {claim.first, claim.second} <= set(names), claim


@pytest.mark.parametrize("env", SETUPS)
def test_settings_are_those_of_a_run(env: str) -> None:
    config = TrainConfig(**setup_of(env)).resolved()
    make_env(config, config.split).close()
    with pytest.raises(InputError, match="environment out of"):
        setup_of("chess")


def test_cells_come_seed_by_seed_and_share_their_start() -> None:
    arms = (Arm("a", {"credit": "grpo"}), Arm("b/c", {"credit": "triage", "lam": 0.4}))
    cells = Plan(("minesweeper", "sokoban"), arms, (3, 4), {"turns": 50}).cells()
    assert [(c.seed, c.env, c.arm) for c in cells[:4]] == [
        (3, "minesweeper", "a"),
        (3, "minesweeper", "b/c"),
        (3, "sokoban", "a"),
        (3, "sokoban", "b/c"),
    ]
    assert cells[1].name == "minesweeper/b_c-s3"
    assert {c.start for c in cells[:2]} == {"minesweeper/starts/s3"}
    assert (cells[1].config.lam, cells[0].config.lam, cells[1].config.turns) == (0.4, 0.2, 50)
    with pytest.raises(InputError, match="`seeds`"):
        Plan(("sokoban",), arms, (1, 1)).cells()
    with pytest.raises(InputError, match="arms out of"):
        Study(arms=("nobody",)).plan()
    with pytest.raises(InputError, match="table out of"):
        Study(table="5").plan()


# Measures --------------------------------------------------------------------------------------------------------------


def found(**by_arm: list[float]) -> dict[tuple[str, str, int], Any]:
    return {
        (env, arm, seed): {"metrics": {"success": value + 0.1 * (env == "y")}, "solved": {"t": 10, f"u{seed}": 4}}
        for env in ("x", "y")
        for arm, values in by_arm.items()
        for seed, value in enumerate(values)
    }


def test_summaries_by_hand() -> None:
    results = found(a=[0.1, 0.2, 0.6, 0.5])
    own = summary(results, "x", "a", "success")
    assert own is not None
    assert own["mean"] == pytest.approx(0.35)
    assert own["iqm"] == pytest.approx(0.35)  # the middle two: .2 and .5
    assert own["iqm_low"] <= own["iqm"] <= own["iqm_high"]
    assert own["by_seed"] == {"0": 0.1, "1": 0.2, "2": 0.6, "3": 0.5}
    assert summary(results, "x", "b", "success") is None
    assert summary(results, "x", "a", "auc") is None


def test_over_environments_by_hand() -> None:
    results = found(a=[0.1, 0.2, 0.6, 0.5], b=[0.0, 0.1, 0.2, 0.3])
    whole = over_envs(results, ("x", "y"), "a")
    assert whole is not None
    assert whole.estimate == pytest.approx(iqm([0.1, 0.2, 0.6, 0.5, 0.2, 0.3, 0.7, 0.6]))
    assert over_envs(results, ("x", "z"), "a") is None
    difference = paired_over_envs(results, ("x", "y"), "a", "b")
    assert difference is not None
    assert difference.values == pytest.approx((0.1, 0.1, 0.4, 0.2))
    del results["y", "a", 2]
    again = paired_over_envs(results, ("x", "y"), "a", "b")
    assert again is not None
    assert again.n == 3


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_the_bootstrap_keeps_each_environments_weight(x: list[float], y: list[float]) -> None:
    """With no spread inside the environments nothing differs between resamples."""
    results = {("x", "a", k): {"metrics": {"success": x[0]}} for k in range(len(x))}
    results |= {("y", "a", k): {"metrics": {"success": y[0]}} for k in range(len(y))}
    whole = over_envs(results, ("x", "y"), "a")
    assert whole is not None
    assert whole.low == pytest.approx(whole.estimate)
    assert whole.high == pytest.approx(whole.estimate)


def test_lengths_are_of_tasks_that_both_solve() -> None:
    results = found(a=[0.1, 0.1], b=[0.1, 0.1])
    for seed in (0, 1):
        results["x", "a", seed]["solved"] = {"t": 8, "only a": 30}
        results["x", "b", seed]["solved"] = {"t": 10, "only b": 1}
    difference = paired(results, "x", "a", "b", "length_both_solved")
    assert difference is not None
    assert difference.mean == pytest.approx(-20.0)


# Claims ----------------------------------------------------------------------------------------------------------------


def difference(mean: float, half: float) -> Paired:
    return Paired(mean, half, 5, 3, ())


@pytest.mark.parametrize(
    ("kind", "least", "mean", "half", "verdict"),
    [
        ("above", 0.0, 0.1, 0.05, "holds"),
        ("above", 0.0, 0.1, 0.15, "undecided"),
        ("above", 0.0, -0.1, 0.05, "does not hold"),
        ("above", 10.0, 12.0, 1.0, "holds"),
        ("above", 10.0, 12.0, 3.0, "undecided"),
        ("above", 10.0, 5.0, 3.0, "does not hold"),
        ("below", -10.0, -12.0, 1.0, "holds"),
        ("below", -10.0, -12.0, 3.0, "undecided"),
        ("below", -10.0, -5.0, 3.0, "does not hold"),
        ("level", 0.0, 0.01, 0.03, "holds"),
        ("level", 0.0, 0.01, 0.08, "undecided"),
        ("level", 0.0, 0.2, 0.1, "does not hold"),
        ("level", 0.0, -0.2, 0.1, "does not hold"),
    ],
)
def test_verdicts(kind: Any, least: float, mean: float, half: float, verdict: str) -> None:
    assert Claim("", "a", "b", kind=kind, least=least).verdict(difference(mean, half)) == verdict


def test_what_was_not_measured_is_undecided() -> None:
    assert Claim("", "a", "b").verdict(None) == "undecided"
    assert Claim("", "a", "b").verdict(paired_difference([0.3], [0.0])) == "undecided"


def test_seeds_that_happen_to_agree_decide_nothing() -> None:
    """Two seeds of six tasks each, both half of them better: ± 0 is no certainty. Equal arms are level all the same."""
    assert Claim("", "a", "b").verdict(paired_difference([0.5, 0.5], [0.0, 0.0])) == "undecided"
    assert Claim("", "a", "b", kind="level").verdict(paired_difference([0.3, 0.3], [0.0, 0.0])) == "undecided"
    assert Claim("", "a", "b", kind="level").verdict(paired_difference([0.3, 0.4], [0.3, 0.4])) == "holds"


def test_tables_of_retries_tell_the_differences_of_every_attempt() -> None:
    d = {"mean": 0.1, "half_width": 0.05, "n": 2, "positive": 2, "values": [0.1, 0.1]}
    study = {"baseline": "b", "passes": True, "arms": [{"name": "a"}, {"name": "b"}],
             "paired": {"x": {"a": {"success": d, "pass@2": {**d, "mean": 0.2}, "pass@3": {**d, "mean": 0.3}}}}}  # fmt: skip
    title, rows = pair_rows(study, "x")
    assert title[1:4] == ["success, points", "pass@2, points", "pass@3, points"]
    assert rows == [
        ["a − b", "+10.0 ± 5.0 (2/2)", "+20.0 ± 5.0 (2/2)", "+30.0 ± 5.0 (2/2)", "–", "–", "–", "+10.0, +10.0"]
    ]
    title, rows = pair_rows({**study, "passes": False}, "x")
    assert len(title) == len(rows[0]) == 6


def test_claims_are_checked_where_they_are_made() -> None:
    results = found(a=[0.5, 0.51, 0.5], b=[0.1, 0.12, 0.1])
    claims = (Claim("a wins", "a", "b"), Claim("only there", "a", "b", envs=("y",)), Claim("no arm", "a", "c"))
    rows = checked(claims, results, ("x", "y"), ("a", "b"))
    assert [(r["env"], r["claim"], r["verdict"]) for r in rows] == [
        ("x", "a wins", "holds"),
        ("y", "a wins", "holds"),
        ("y", "only there", "holds"),
    ]
    assert all(isinstance(c, Claim) for table in CLAIMS.values() for c in table)


def test_papers_numbers_stand_beside() -> None:
    assert beside("main", "alfworld", "triage") == "87.5"
    assert beside("main", "alfworld", "scalar") == ""
    assert beside("pass_k", "sokoban", "metarl") == "42.4 / 52.0 / 55.9"
    assert beside("length", "webshop", "triage") == "-14.8 %"
    assert beside("ablation", "alfworld", "no-R") == "-6.1 points"
    assert set(JUDGES) >= {arm.judge for layout in LAYOUTS.values() for arm in layout.arms if arm.judge}


# From end to end -------------------------------------------------------------------------------------------------------

TINY = Study(
    table="ablation",
    envs=("minesweeper",),
    arms=("grpo+whiten", "triage", "noise-50"),
    seeds=(0, 1),
    turns=300,
    eval_tasks=6,
    gate_turns=600,
)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    path = tmp_path_factory.mktemp("study")
    return path, reproduce(TINY, path, workers=2)


def test_a_study_writes_numbers_table_and_figure(done: tuple[Path, dict[str, Any]]) -> None:
    path, study = done
    assert (study["done"], study["cells"], study["failed"]) == (6, 6, [])
    assert json.loads((path / "reproduce.json").read_text())["summary"] == study["summary"]
    text, markdown = as_text(study), (path / "table.md").read_text()
    assert markdown == as_markdown(study)
    for shown in ("minesweeper", "grpo+whiten", "noise-50", "undecided", "n = 2 seeds", "no target for a small policy"):
        assert shown in text
        assert shown in markdown
    page = (path / "reproduce.html").read_text()
    assert page.count("<svg") == 2
    drawn = [c for c in study["claims"] if c["difference"]["half_width"] is not None]
    assert drawn
    for claim in drawn:
        assert f"{claim['first']} − {claim['second']} ({claim['verdict']})" in page
    success = study["summary"]["minesweeper"]["triage"]["success"]
    assert success["n"] == 2
    assert success["mean"] == pytest.approx(np.mean(list(success["by_seed"].values())))
    assert {gate["judge"] for gate in study["gate"]} == {"rule", "noise-50"}
    assert study["command"] == (
        "triage-gym reproduce --table ablation --envs minesweeper --arms grpo+whiten,triage,noise-50 --seeds 0,1 "
        "--turns 300 --eval-tasks 6 --gate-turns 600"
    )


def test_a_cell_says_what_its_evaluation_says(done: tuple[Path, dict[str, Any]]) -> None:
    path, study = done
    for seed in ("0", "1"):
        ends = json.loads((path / "minesweeper" / f"triage-s{seed}" / "eval.json").read_text())["evaluations"]
        tasks = next(e["tasks"] for e in ends if e["mode"] == "sampled" and e["turns"] >= 300)
        own = {name: value["by_seed"].get(seed) for name, value in study["summary"]["minesweeper"]["triage"].items()}
        assert own["success"] == pytest.approx(sum(t["success"] for t in tasks) / 6)
        failed = [t for t in tasks if not t["success"]]
        explored = sum(t["e_posthoc"] for t in failed) / sum(t["length"] for t in failed)
        assert own["e_in_failures"] == pytest.approx(explored)


def test_finished_cells_are_kept_and_missing_ones_made(done: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    path, study = done
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    kept = copy / "minesweeper" / "triage-s0" / "eval.json"
    before = kept.stat().st_mtime_ns
    shutil.rmtree(copy / "minesweeper" / "triage-s1")
    again = reproduce(TINY, copy, workers=1)
    assert kept.stat().st_mtime_ns == before
    assert _without_clock(again) == _without_clock(study)


def _without_clock(study: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in study.items() if key in ("summary", "paired", "claims", "gate", "over_envs")}


def test_no_time_begins_nothing_and_says_so(tmp_path: Path) -> None:
    study = reproduce(TINY, tmp_path, seconds=0.0)
    assert (study["done"], study["failed"]) == (0, [])
    assert "not run" in as_text(study)
    assert "goes on where this one stopped" in as_text(study)
    page = (tmp_path / "reproduce.html").read_text()
    assert "No intervals yet" in page
    assert "nothing differs" not in page


def test_a_cell_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    arms = (Arm("good", {"credit": "grpo"}), Arm("bad", {"credit": "triage", "credit_kwargs": {"constants": [1]}}))
    plan = Plan(("minesweeper",), arms, (0,), {"turns": 200, "eval_tasks": 4})
    errors = run_cells(plan.cells(), tmp_path, workers=1)
    assert list(errors) == ["minesweeper/bad-s0"]
    assert "constants" in errors["minesweeper/bad-s0"]
    good = plan.cells()[0]
    assert is_finished(tmp_path / good.name, good.config)


def test_a_cell_with_other_settings_is_refused(tmp_path: Path) -> None:
    arm = (Arm("a", {"credit": "grpo"}),)
    cells = Plan(("minesweeper",), arm, (0,), {"turns": 200, "eval_tasks": 4}).cells()
    assert run_cells(cells, tmp_path, workers=1) == {}
    other = [Cell(c.env, c.arm, c.seed, TrainConfig.from_json({**c.config.to_json(), "lr": 0.01})) for c in cells]
    with pytest.raises(
        InputError, match=r"a-s0 to be of the settings asked for, got lr 0.001 and not 0.01; .*--run-dir"
    ):
        run_cells(other, tmp_path, workers=1)


def test_other_settings_leave_a_table_as_it_is(done: tuple[Path, dict[str, Any]]) -> None:
    path, _ = done
    before = (path / "table.md").read_bytes()
    with pytest.raises(InputError, match="turns 300 and not 200"):
        reproduce(replace(TINY, turns=200), path)
    assert (path / "table.md").read_bytes() == before


def test_a_start_with_other_settings_is_refused(tmp_path: Path) -> None:
    """What an arm trains from must be what its config says, though no arm of it has begun."""
    arm = (Arm("a", {"credit": "grpo"}),)
    cells = Plan(("minesweeper",), arm, (0,), {"turns": 200, "eval_tasks": 4}).cells()
    pretrain(cells[0].config, tmp_path / cells[0].start)
    assert run_cells(cells, tmp_path, workers=1, seconds=0.0) == {}
    other = Plan(("minesweeper",), arm, (0,), {"turns": 300, "eval_tasks": 4, "group_size": 4}).cells()
    assert run_cells(other, tmp_path, workers=1, seconds=0.0) == {}
    other = Plan(("minesweeper",), arm, (0,), {"turns": 200, "eval_tasks": 4, "width": 32}).cells()
    with pytest.raises(InputError, match="starts/s0 to be of the settings asked for, got width 64 and not 32"):
        run_cells(other, tmp_path, workers=1)
    (tmp_path / cells[0].start / "pretrain.json").unlink()  # not whole: made anew, whatever it was to be
    assert run_cells(other, tmp_path, workers=1, seconds=0.0) == {}


def test_an_interrupted_study_tells_what_is_done(
    done: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, study = done
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    shutil.rmtree(copy / "minesweeper" / "triage-s1")

    def stopped(*_: Any, **__: Any) -> None:
        raise Interrupted(15)

    monkeypatch.setattr("triage_gym.trainers.reproduce.cells.run_cells", stopped)
    with pytest.raises(Interrupted):
        reproduce(TINY, copy)
    found = json.loads((copy / "reproduce.json").read_text())
    assert (found["done"], found["failed"]) == (5, [])
    assert "5 of 6 cells are done" in (copy / "table.md").read_text()
    assert found["summary"]["minesweeper"]["triage"]["success"]["n"] == 1
    assert [gate["judge"] for gate in found["gate"]] == [gate["judge"] for gate in study["gate"]]


def test_the_gate_waits_for_time(done: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(done[0], copy)
    (copy / "minesweeper" / "gate.json").unlink()
    found = reproduce(TINY, copy, seconds=0.0)
    assert (found["done"], found["gate"]) == (6, [])
    assert "The gate was not measured" in as_markdown(found)
    assert not (copy / "minesweeper" / "gate.json").exists()


def test_the_gate_foretells_the_gain_over_the_layouts_baseline_alone(
    done: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(done[0], copy)
    found = reproduce(replace(TINY, arms=("triage", "noise-50")), copy)
    assert (found["baseline"], found["gate"]) == ("triage", [])
    assert "The gate" not in as_text(found)


def test_what_the_gate_cannot_tell_is_no_no() -> None:
    gate = {"env": "x", "judge": "rule", "corr_role": None, "corr_outcome": None, "foretold": None, "gain": None,
            "agrees": None}  # fmt: skip
    assert gate_rows({"gate": [gate]})[1] == [["x", "rule", "–", "–", "–", "–", "–"]]


def test_an_error_stays_on_its_line() -> None:
    """A bullet of markdown that goes on in column 0 is another paragraph, or a heading."""
    study = {"seeds": [0], "done": 0, "cells": 1, "claims": [], "gate": [], "gate_asked": False, "table": "main",
             "command": "x", "envs": [], "arms": [], "failed": [{"env": "e", "arm": "a", "seed": 0, "error": "one\n# two"}]}  # fmt: skip
    assert "\n# two" not in as_markdown(study)
    assert "one\\n# two" in as_markdown(study)
