"""What a finished cell measured, and what cells of an arm come to over seeds and environments. Reads files, no torch.

Success is that of held-out tasks with commands drawn from the policy, at equal generated turns. Over seeds: mean,
interquartile mean and a stratified percentile bootstrap, the environments being the strata (after Agarwal et al.,
arXiv:2108.13264). Differences are taken seed by seed, with Student's t. With few seeds these intervals are wide, and nothing
corrects for looking at many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from triage_gym import statistics
from triage_gym.statistics import Interval, Paired
from triage_gym.trainers.comparison import PAIRED_LENGTH, difference, is_finished, read_run
from triage_gym.trainers.reproduce.cells import Cell
from triage_gym.trainers.run_dir import read_json, read_lines

SUCCESS: Final = "success"
METRICS: Final[Mapping[str, str]] = {
    SUCCESS: "held-out success, %",
    "auc": "mean training success, %",
    "length_success": "turns of a success",
    "r_per_success": "R per success",
    "e_in_failures": "E in failures, % of turns",
    "turns_per_success": "turns trained a training success",
    "share_E": "E in training, %",
}
"""What is measured of each cell, in words."""
PERCENT: Final = (SUCCESS, "auc", "e_in_failures", "share_E", "pass@2", "pass@3")
Key = tuple[str, str, int]
"""Environment, arm, seed."""


def read_cells(cells: Sequence[Cell], run_dir: Path) -> dict[Key, dict[str, Any]]:
    """What the finished cells measured: ``metrics`` and ``solved`` (length of each task that it solved)."""
    found = {}
    for cell in cells:
        path = run_dir / cell.name
        if is_finished(path, cell.config):
            read = read_run(path, cell.config)
            metrics = dict(read["metrics"])
            metrics[SUCCESS] = metrics.pop(f"success@{cell.config.turns}")
            metrics |= {"e_in_failures": _explored(path), "turns_per_success": _cost(path)}
            found[cell.env, cell.arm, cell.seed] = {"metrics": metrics, "solved": read["solved"]}
    return found


def _explored(path: Path) -> float | None:
    """Share of E among the turns of failed held-out episodes."""
    end = [e for e in read_json(path / "eval.json")["evaluations"] if e["mode"] == "sampled"][-1]
    failed = [t for t in end["tasks"] if not t["success"] and t.get("e_posthoc") is not None]
    turns = sum(t["length"] for t in failed)
    return sum(t["e_posthoc"] for t in failed) / turns if turns else None


def _cost(path: Path) -> float | None:
    """Generated turns of training for each success among its first attempts."""
    turns, episodes, won = 0, 0, 0.0
    for row in read_lines(path / "metrics.jsonl"):
        won += (row["success"] or 0.0) * (row["episodes"] - episodes)
        turns, episodes = row["turns"], row["episodes"]
    return turns / won if won else None


def values(results: Mapping[Key, Any], env: str, arm: str, metric: str) -> dict[int, float]:
    """A metric of an arm by seed, where it was measured."""
    return {
        seed: float(found["metrics"][metric])
        for (e, a, seed), found in sorted(results.items())
        if (e, a) == (env, arm) and found["metrics"].get(metric) is not None
    }


def summary(results: Mapping[Key, Any], env: str, arm: str, metric: str) -> dict[str, Any] | None:
    """Mean, interquartile mean and their intervals; None where nothing was measured."""
    own = values(results, env, arm, metric)
    if not own:
        return None
    mean, half = statistics.t_interval(list(own.values()))
    middle = statistics.bootstrap_interval([list(own.values())])
    return {
        "n": len(own),
        "mean": mean,
        "half_width": half,
        "iqm": middle.estimate,
        "iqm_low": middle.low,
        "iqm_high": middle.high,
        "by_seed": {str(seed): value for seed, value in own.items()},
    }


def over_envs(results: Mapping[Key, Any], envs: Sequence[str], arm: str, metric: str = SUCCESS) -> Interval | None:
    """Interquartile mean over all environments and seeds, bootstrapped within each environment; None where one lacks it."""
    strata = [list(values(results, env, arm, metric).values()) for env in envs]
    return statistics.bootstrap_interval(strata) if all(strata) else None


def paired(results: Mapping[Key, Any], env: str, arm: str, other: str, metric: str) -> Paired | None:
    """``arm - other`` in ``metric``, seed by seed; for :data:`~triage_gym.trainers.comparison.PAIRED_LENGTH` the per cent by
    which the arm's solutions of tasks that both solve are longer. None without a common seed."""
    found = []
    for env_, arm_, seed in sorted(results):
        if (env_, arm_) == (env, arm) and (env, other, seed) in results:
            d = difference(results[env, arm, seed], results[env, other, seed], metric)
            if d is not None:
                found.append(d)
    return statistics.paired_difference(found, [0.0] * len(found)) if found else None


def paired_over_envs(
    results: Mapping[Key, Any], envs: Sequence[str], arm: str, other: str, metric: str = SUCCESS
) -> Paired | None:
    """Mean over environments of ``arm - other``, seed by seed, over seeds that all environments have."""
    by_env = [_by_seed(results, env, arm, other, metric) for env in envs]
    common = sorted(set.intersection(*(set(d) for d in by_env))) if by_env else []
    if not common:
        return None
    means = [sum(d[seed] for d in by_env) / len(by_env) for seed in common]
    return statistics.paired_difference(means, [0.0] * len(means))


def _by_seed(results: Mapping[Key, Any], env: str, arm: str, other: str, metric: str) -> dict[int, float]:
    first, second = values(results, env, arm, metric), values(results, env, other, metric)
    return {seed: first[seed] - second[seed] for seed in first if seed in second}


def paired_json(found: Paired | None) -> dict[str, Any] | None:
    """A paired difference as JSON values."""
    if found is None:
        return None
    return {
        "mean": found.mean,
        "half_width": found.half_width,
        "n": found.n,
        "positive": found.positive,
        "values": list(found.values),
    }


LENGTH: Final = PAIRED_LENGTH
