"""A study: the cells of a table, run and read, with everything that is printed of it in one JSON object."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from triage_gym.audit.counterfactual import look
from triage_gym.errors import InputError
from triage_gym.judges import nesting
from triage_gym.trainers.counterfactual import Sampling, measure
from triage_gym.trainers.counterfactual_rows import labelled, rows_of
from triage_gym.trainers.evaluation import load_policy
from triage_gym.trainers.progress import Progress
from triage_gym.trainers.reproduce import measures, tables
from triage_gym.trainers.reproduce.arms import JUDGES, Arm, layout_of
from triage_gym.trainers.reproduce.cells import Cell, Plan, run_and_tell, write_found
from triage_gym.trainers.reproduce.claims import checked, claims_of
from triage_gym.trainers.reproduce.measures import LENGTH, METRICS, SUCCESS, Key, paired, paired_json
from triage_gym.trainers.run_dir import read_json, write_json

GATE_TURNS = 250_000
"""Turns that the gate is measured with, on the starts of all seeds together, for all judges. At a start that solves little,
A* is almost all noise: 60,000 turns were too few to tell."""

_SHOWN: Final = (
    *("turns", "limit", "demos", "tasks", "eval_tasks", "eval_split"),
    *("groups_per_update", "group_size", "lam", "lr"),
)
"""Settings that are told beside the numbers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    """What is to be reproduced.

    Raises:
        InputError: For a gate of less than 0 turns.
    """

    table: str = "main"
    envs: tuple[str, ...] | None = None
    """None for the table's own."""
    arms: tuple[str, ...] | None = None
    """Names out of the table's; None for all."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    turns: int | None = None
    """Turns of every run; None for each environment's own."""
    eval_tasks: int | None = None
    """Held-out tasks; None for 200."""
    gate_turns: int = GATE_TURNS
    """Turns that the gate of the ablation table is measured with; 0 leaves it out."""

    def __post_init__(self) -> None:
        if self.gate_turns < 0:
            raise InputError(f"Expected `gate_turns` to be at least 0, got {self.gate_turns}")

    def plan(self) -> Plan:
        """Its cells.

        Raises:
            InputError: For an unknown table or arm.
        """
        layout = layout_of(self.table)
        arms = layout.arms
        if self.arms is not None:
            by_name = {arm.name: arm for arm in arms}
            if unknown := [name for name in self.arms if name not in by_name]:
                raise InputError(f"Expected arms out of {sorted(by_name)}, got {unknown[0]!r}")
            arms = tuple(by_name[name] for name in self.arms)
        changes: dict[str, Any] = dict(layout.changes)
        if self.turns is not None:
            changes["turns"] = self.turns
        if self.eval_tasks is not None:
            changes["eval_tasks"] = self.eval_tasks
        return Plan(self.envs or layout.envs, arms, self.seeds, changes)

    @property
    def command(self) -> str:
        """The command line that makes it."""
        words = ["triage-gym", "reproduce", "--table", self.table]
        if self.envs is not None:
            words += ["--envs", ",".join(self.envs)]
        if self.arms is not None:
            words += ["--arms", ",".join(self.arms)]
        words += ["--seeds", ",".join(map(str, self.seeds))]
        gate = {"gate_turns": GATE_TURNS} if self.table == "ablation" else {}
        for name, plain in {"turns": None, "eval_tasks": None, **gate}.items():
            if getattr(self, name) != plain:
                words += [f"--{name.replace('_', '-')}", str(getattr(self, name))]
        return shlex.join(words)


def reproduce(
    study: Study,
    run_dir: Path,
    *,
    workers: int = 2,
    seconds: float | None = None,
    progress: Progress | None = None,
    on_signal: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Run what is not done yet, and write ``reproduce.json``, ``table.md`` and ``reproduce.html`` into ``run_dir``.

    They are written whatever ends it, a signal too, of what is done by then; the gate of the ablation table is measured last.

    Args:
        study: What.
        run_dir: Where; finished cells in it are kept.
        workers: Processes side by side.
        seconds: Wall seconds after which neither a further cell nor the gate is begun.
        progress: Called after each update of each cell.
        on_signal: As in :func:`~triage_gym.trainers.experiment.compare`.

    Returns:
        The content of ``reproduce.json``.

    Raises:
        InputError: For runs in ``run_dir`` that were made with other settings; nothing is written then.
        Interrupted: (a SystemExit) after SIGTERM or SIGINT.
    """
    until = None if seconds is None else time.monotonic() + seconds
    plan = study.plan()
    cells = plan.cells()

    def tell(errors: Mapping[str, str]) -> dict[str, Any]:
        told = read(study, plan, cells, run_dir, errors)
        _write(told, run_dir)
        return told

    found = run_and_tell(cells, tell, run_dir, workers=workers, seconds=seconds, progress=progress, on_signal=on_signal)
    if found["gate_asked"] and (until is None or time.monotonic() < until):
        found["gate"] = _gate(study, plan, measures.read_cells(cells, run_dir), run_dir, measuring=True)
        _write(found, run_dir)
    return found


def _write(found: Mapping[str, Any], run_dir: Path) -> None:
    texts = {"table.md": tables.as_markdown(found), "reproduce.html": tables.as_page(found)}
    write_found(found, run_dir, texts, "reproduce.json")


def read(study: Study, plan: Plan, cells: Sequence[Cell], run_dir: Path, errors: Mapping[str, str]) -> dict[str, Any]:
    """Everything that the cells say, and the gate where it was measured before."""
    results = measures.read_cells(cells, run_dir)
    layout = layout_of(study.table)
    names = [arm.name for arm in plan.arms]
    baseline = layout.baseline if layout.baseline in names else names[0]
    first = {env: next(cell.config for cell in cells if cell.env == env) for env in plan.envs}
    return {
        "schema": 1,
        "table": study.table,
        "command": study.command,
        "envs": list(plan.envs),
        "arms": [
            {"name": a.name, "about": a.about, "control": a.control, "changes": json.loads(json.dumps(dict(a.changes)))}
            for a in plan.arms
        ],
        "seeds": list(plan.seeds),
        "baseline": baseline,
        "passes": bool(layout.changes.get("eval_attempts")),
        "settings": {env: _settings(config) for env, config in first.items()},
        "start": {env: _start(results, env) for env in plan.envs},
        "cells": len(cells),
        "done": len(results),
        "failed": [
            {"env": c.env, "arm": c.arm, "seed": c.seed, "error": errors[c.name]} for c in cells if c.name in errors
        ],
        "summary": {env: {name: _summary(results, env, name) for name in names} for env in plan.envs},
        "paired": {
            env: {name: _paired(results, env, name, baseline) for name in names if name != baseline}
            for env in plan.envs
        },
        "over_envs": {name: _over(results, plan.envs, name, baseline) for name in names},
        "claims": checked(claims_of(study.table), results, plan.envs, names),
        "gate_asked": study.table == "ablation" and study.gate_turns > 0 and layout.baseline in names,
        "gate": _gate(study, plan, results, run_dir, measuring=False),
    }


def _settings(config: Any) -> dict[str, Any]:
    return {name: getattr(config, name) for name in _SHOWN}


def _start(results: Mapping[Key, Any], env: str) -> float | None:
    starts = {seed: r["metrics"]["start"] for (e, _, seed), r in results.items() if e == env}
    found = [value for value in starts.values() if value is not None]
    return sum(found) / len(found) if found else None


def _summary(results: Mapping[Key, Any], env: str, arm: str) -> dict[str, Any]:
    metrics = (*METRICS, "pass@2", "pass@3")
    found = {metric: measures.summary(results, env, arm, metric) for metric in metrics}
    return {metric: value for metric, value in found.items() if value is not None}


def _paired(results: Mapping[Key, Any], env: str, arm: str, baseline: str) -> dict[str, Any]:
    metrics = (*METRICS, "pass@2", "pass@3", LENGTH)
    found = {metric: paired_json(_try(results, env, arm, baseline, metric)) for metric in metrics}
    return {metric: value for metric, value in found.items() if value is not None}


def _try(results: Mapping[Key, Any], env: str, arm: str, baseline: str, metric: str) -> Any:
    there = {key: r for key, r in results.items() if metric == LENGTH or metric in r["metrics"]}
    return paired(there, env, arm, baseline, metric)


def _over(results: Mapping[Key, Any], envs: Sequence[str], arm: str, baseline: str) -> dict[str, Any]:
    iqm = measures.over_envs(results, envs, arm)
    difference = None if arm == baseline else measures.paired_over_envs(results, envs, arm, baseline)
    return {
        "iqm": None if iqm is None else {"iqm": iqm.estimate, "low": iqm.low, "high": iqm.high, "n": iqm.n},
        "paired": paired_json(difference),
    }


def _gate(
    study: Study, plan: Plan, results: Mapping[Key, Any], run_dir: Path, *, measuring: bool
) -> list[dict[str, Any]]:
    """What counterfactuals on the start policies foretold for each judge that TRIAGE was trained with.

    The policy is the start that all arms share: what is asked before a GPU week is asked before training. Without
    ``measuring`` only what was measured before is told. It foretells the gain over the layout's baseline, and says nothing
    where that was not trained.
    """
    if study.table != "ablation" or not study.gate_turns:
        return []
    baseline = layout_of(study.table).baseline
    judged = [arm for arm in plan.arms if (arm.judge or arm.name == "triage") and arm.changes.get("credit") == "triage"]
    out = []
    for env in plan.envs:
        seeds = [seed for seed in plan.seeds if (env, baseline, seed) in results]
        if not seeds or not judged:
            continue
        found = _foretold(env, judged, seeds, study.gate_turns, run_dir, measuring=measuring)
        for arm in judged if found is not None else ():
            gain = paired(results, env, arm.name, baseline, SUCCESS)
            assert found is not None
            known = found[arm.name]
            agrees = None if gain is None or known["foretold"] is None else known["foretold"] == (gain.mean > 0.0)
            out.append(
                {
                    "env": env,
                    "arm": arm.name,
                    "judge": arm.judge or "rule",
                    **known,
                    "gain": paired_json(gain),
                    "agrees": agrees,
                }
            )
    return out


def _foretold(
    env: str, arms: Sequence[Arm], seeds: Sequence[int], turns: int, run_dir: Path, *, measuring: bool
) -> dict[str, dict[str, Any]] | None:
    """Findings by arm, kept in ``gate.json`` of the environment while they are for the same seeds and turns.

    None when there are none kept and ``measuring`` is off.
    """
    asked = {"seeds": list(seeds), "turns": turns, "arms": [arm.name for arm in arms]}
    file = run_dir / env / "gate.json"
    if file.exists() and (kept := read_json(file)).get("asked") == asked:
        return dict(kept["found"])
    if not measuring:
        return None
    judges = {arm.name: nesting.inner(JUDGES[arm.judge or "rule"]) for arm in arms}
    facts = nesting.facts_needed(*judges.values())
    rows = []
    for seed in seeds:
        policy, config, _ = load_policy(run_dir / env / "starts" / f"s{seed}")
        config = replace(config, judge="rule", credit="grpo")
        measured = measure(
            config,
            policy,
            Sampling(turns=max(1, turns // len(seeds)), rollouts=2, segments=128, seed=seed),
            facts=facts,
        )
        own = rows_of(measured, f"{env}/s{seed}")
        rows += [replace(r, origin={**r.origin, "task_id": f"s{seed}/{r.origin['task_id']}"}) for r in own]
    found = {}
    for finding in look(labelled(rows, judges)):
        role, outcome = finding.role_corr, finding.outcome_corr
        found[finding.judge] = {
            "corr_role": None if role is None else role.estimate,
            "corr_outcome": None if outcome is None else outcome.estimate,
            "foretold": finding.foretold,
            "answer": finding.answer,
            "n": finding.n,
        }
    write_json(file, {"asked": asked, "found": found})
    return found
