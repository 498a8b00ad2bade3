"""The bars of ``benchmarks/farming.py``: each can be missed, and is met by runs that are as they should be."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from triage_gym.trainers.config import TrainConfig


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).parent.parent / "benchmarks" / "farming.py"
    spec = importlib.util.spec_from_file_location("farming_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for their module
    spec.loader.exec_module(module)
    return module


def run(held_out: float = 0.9, explored: float = 0.3, success: float | None = None) -> dict[str, Any]:
    return {"held_out": held_out, "explored": explored, "success": held_out if success is None else success}


TRAPPED = run(0.0, 1.0)


def found(bench: ModuleType, **changes: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """What is measured when all is well, but for the runs named."""
    out = {bench.BOOTSTRAP: {arm: [run(0.3 + 0.01 * k) for k in range(5)] for arm in bench.ARMS}}
    for cell in bench.FARMABLE:
        out[cell] = {arm: [run()] * 5 for arm in bench.ARMS} | {bench.PLAIN: [TRAPPED] * 5}
    for cell, arms in changes.items():
        out[bench.BOOTSTRAP if cell == "bootstrap" else bench.FARMABLE[0]].update(arms)
    return out


def test_all_bars_are_met_when_all_is_well(bench: ModuleType) -> None:
    bars = bench.verdicts(found(bench))
    assert len(bars) == 6
    assert all(bars.values())


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({"bootstrap": {"default": [TRAPPED, *[run(0.5)] * 4]}}, "no run of the default ends with E"),
        ({"reading": {"triage": [run()] * 5}}, "plain TRIAGE collapses in 0 of 5 runs"),
        ({"reading": {"default": [run(0.4)] * 5}}, "the default solves at least half"),
        ({"bootstrap": {"default": [run(0.1 + 0.01 * k) for k in range(5)]}}, "default − triage -20.0"),
    ],
)
def test_each_bar_can_be_missed(bench: ModuleType, changes: dict[str, Any], missed: str) -> None:
    bars = bench.verdicts(found(bench, **changes))
    assert [words for words, met in bars.items() if not met and missed in words]
    assert sum(not met for met in bars.values()) == 1


def test_a_run_that_solves_something_or_explores_less_has_not_collapsed(bench: ModuleType) -> None:
    cases = [run(0.0, 1.0), run(0.0, 0.85), run(0.011, 1.0), run(0.5, 1.0, success=0.0)]
    assert [bench.collapsed(case) for case in cases] == [True, False, False, True]


def test_every_cell_and_arm_is_a_run_that_can_be_made(bench: ModuleType) -> None:
    jobs = [bench.Job(cell, arm, seed) for cell in bench.CELLS for arm in bench.arms_of(cell) for seed in (0, 1)]
    assert all(isinstance(job.config, TrainConfig) for job in jobs)
    assert len({job.folder(Path("runs")) for job in jobs}) == len(jobs)


def test_e_is_a_share_of_what_was_judged(bench: ModuleType) -> None:
    rows = [{"role_E": 0.4, "role_unjudged": 0.5}, {"role_E": 0.2, "role_unjudged": 0.5}]
    assert bench.explored(rows) == pytest.approx(0.6)
    assert bench.explored([{"role_E": 0.0, "role_unjudged": 1.0}]) == 0.0
