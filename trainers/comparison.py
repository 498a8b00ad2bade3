"""What a finished comparison says: every seed, means with 95 % t intervals, and paired differences. Reads files, no torch.

Arms are compared at equal environment turns, on the same held-out tasks, with the policy's commands drawn from it. A pair
shares its seed, and so its start policy, the order of its tasks and its evaluation tasks. Nothing corrects for looking at
many differences, and no seed is left out; what failed is listed as failed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from triage_gym import statistics
from triage_gym.credit import options_of
from triage_gym.errors import InputError
from triage_gym.records import ROLES
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.resuming import refused
from triage_gym.trainers.run_dir import read_json, read_lines

PAIRED_LENGTH = "length_both_solved"


def arm_name(credit: str, seed: int) -> str:
    """Name of an arm's run directory."""
    return f"{credit.replace('/', '_').replace(':', '_')}-s{seed}"


def milestones(config: TrainConfig) -> list[int]:
    """Turns at which arms are compared; the last is the end of the run."""
    return [*sorted(at for at in set(config.eval_at) if 0 < at < config.turns), config.turns]


def is_finished(path: Path, config: TrainConfig) -> bool:
    """Whether the run in ``path`` is one of ``config`` and has its evaluations at the end."""
    if not (path / "config.json").exists() or not (path / "eval.json").exists():
        return False
    if refused(TrainConfig.from_json(read_json(path / "config.json")).resolved(), config):
        return False
    ends = {e["mode"] for e in read_json(path / "eval.json")["evaluations"] if e["turns"] >= config.turns}
    return ends == {"sampled", "greedy"}


def summarise(
    run_dir: Path,
    config: TrainConfig,
    credits: Sequence[str],
    seeds: Sequence[int],
    baseline: str,
    errors: Mapping[str, str],
) -> dict[str, Any]:
    """The content of ``comparison.json`` (described in :mod:`triage_gym.trainers.run_dir`).

    Args:
        run_dir: The comparison's directory.
        config: The arms' config, resolved; its ``credit`` and ``seed`` do not count.
        credits: The arms.
        seeds: Their seeds.
        baseline: The arm that the others are held against.
        errors: Why a run failed, by the name of its directory.
    """
    runs, results = [], {}
    for credit in credits:
        for seed in seeds:
            name = arm_name(credit, seed)
            run: dict[str, Any] = {"credit": credit, "seed": seed, "dir": name}
            if is_finished(run_dir / name, arm_config(config, credit, seed)):
                results[credit, seed] = found = read_run(run_dir / name, config)
                run |= {"status": "done", "metrics": found["metrics"], "by_type": found["by_type"]}
            elif name in errors:
                run |= {"status": "failed", "error": errors[name]}
            else:
                run["status"] = "missing"
            runs.append(run)
    shown = config.to_json()
    del shown["credit"], shown["seed"]
    return {
        "schema": 1,
        "config": shown,
        "baseline": baseline,
        "credits": list(credits),
        "seeds": list(seeds),
        "milestones": milestones(config),
        "complete": all(run["status"] == "done" for run in runs),
        "runs": runs,
        "summary": [row for credit in credits for row in _summary(credit, seeds, results)],
        "paired": [row for a, b in _pairs(credits, baseline) for row in _paired(a, b, seeds, results)],
    }


def arm_config(config: TrainConfig, credit: str, seed: int) -> TrainConfig:
    """The config of one arm and seed.

    Of ``credit_kwargs`` an arm has the options that its rule has, so that constants can be compared with a rule that has
    none; who compares sees to it that every option has a rule (:func:`check_options`). Pivots are tested by the arms that go back to one; an arm whose rule restarts in full has none to test.
    """
    known = _options(credit)
    own = {name: value for name, value in config.credit_kwargs.items() if known is None or name in known}
    arm = dataclasses.replace(config, credit=credit, credit_kwargs=own, seed=seed).resolved()
    if config.retry_from is None and arm.retry_from == "start":
        arm = dataclasses.replace(arm, verify=None, retries="all" if arm.retries == "verified" else arm.retries)
    return arm


def _options(credit: str) -> frozenset[str] | None:
    """Of a rule that cannot be built, any: its own run tells what is wrong, and the other arms are left alone."""
    try:
        return options_of(credit)
    except InputError:
        return None


def check_options(config: TrainConfig, credits: Sequence[str]) -> None:
    """See that each of ``credit_kwargs`` is an option of one of the compared rules.

    Raises:
        InputError: For one that none has.
    """
    known = [_options(credit) for credit in credits]
    for name in config.credit_kwargs:
        if not any(options is None or name in options for options in known):
            raise InputError(
                f"Expected `credit_kwargs` to be options of the compared rules {' '.join(credits)}, got {name!r}, which none has"
            )


def read_run(path: Path, config: TrainConfig) -> dict[str, Any]:
    """Metrics of a finished run, its success by task type, and the lengths of its solved tasks."""
    evaluations = read_json(path / "eval.json")["evaluations"]
    sampled = [e for e in evaluations if e["mode"] == "sampled"]
    greedy = [e for e in evaluations if e["mode"] == "greedy"]
    end = sampled[-1]
    metrics: dict[str, Any] = {"start": sampled[0]["success"] if sampled[0]["update"] == 0 else None}
    for at in milestones(config):
        metrics[f"success@{at}"] = next((e["success"] for e in sampled if e["turns"] >= at), None)
    metrics |= {f"pass@{k}": solved for k, solved in enumerate(end.get("pass_at", ())[1:], 2)}
    metrics["success_greedy"] = greedy[-1]["success"]
    metrics["length_success"] = end["length_success"]
    metrics["r_per_success"] = end["r_per_success_posthoc"]
    metrics |= _training(path)
    types: dict[str, list[bool]] = {}
    for task in end["tasks"]:
        types.setdefault(task["task_type"], []).append(task["success"])
    return {
        "metrics": metrics,
        "by_type": {kind: sum(won) / len(won) for kind, won in sorted(types.items())},
        "solved": {task["task"]: task["length"] for task in end["tasks"] if task["success"]},
    }


def _training(path: Path) -> dict[str, Any]:
    """Mean training success over turns, role shares of all training segments, turns and CPU seconds."""
    turns, success, shares = 0, 0.0, dict.fromkeys(ROLES, 0.0)
    for row in read_lines(path / "metrics.jsonl"):
        weight = row["turns"] - turns
        turns = row["turns"]
        success += weight * (row["success"] or 0.0)
        for role in ROLES:
            shares[role] += weight * (row[f"role_{role}"] or 0.0)
    parts = ("rollout_s", "judge_s", "credit_s", "update_s")
    cpu = sum(row[part] for row in read_lines(path / "timings.jsonl") for part in parts)
    return {
        "auc": success / turns if turns else None,
        **{f"share_{role}": share / turns if turns else None for role, share in shares.items()},
        "turns": turns,
        "cpu_s": cpu,
    }


_Results = Mapping[tuple[str, int], Mapping[str, Any]]


def _summary(credit: str, seeds: Sequence[int], results: _Results) -> list[dict[str, Any]]:
    """Mean and interval of each metric of an arm, over the seeds that have it."""
    found = [results[credit, seed]["metrics"] for seed in seeds if (credit, seed) in results]
    rows = []
    for metric in found[0] if found else ():
        values = [m[metric] for m in found if m[metric] is not None]
        if values:
            mean, half = statistics.t_interval(values)
            rows.append({"credit": credit, "metric": metric, "mean": mean, "half_width": half, "n": len(values)})
    return rows


def _pairs(credits: Sequence[str], baseline: str) -> list[tuple[str, str]]:
    """Every arm against the baseline, and TRIAGE against every other arm."""
    pairs = [(credit, baseline) for credit in credits if credit != baseline and baseline in credits]
    if "triage" in credits:
        pairs += [("triage", credit) for credit in credits if credit not in ("triage", baseline)]
    return pairs


def _paired(a: str, b: str, seeds: Sequence[int], results: _Results) -> list[dict[str, Any]]:
    """Differences ``a - b`` of the seeds that both finished."""
    both = [seed for seed in seeds if (a, seed) in results and (b, seed) in results]
    rows = []
    metrics = list(results[a, both[0]]["metrics"]) if both else []
    for metric in [*(m for m in metrics if m not in ("start", "turns", "cpu_s")), PAIRED_LENGTH]:
        values: dict[str, float] = {}
        for seed in both:
            found_difference = difference(results[a, seed], results[b, seed], metric)
            if found_difference is not None:
                values[str(seed)] = found_difference
        if values:
            found = statistics.paired_difference(list(values.values()), [0.0] * len(values))
            rows.append(
                {
                    "credit": a,
                    "baseline": b,
                    "metric": metric,
                    "mean": found.mean,
                    "half_width": found.half_width,
                    "n": found.n,
                    "positive": found.positive,
                    "values": values,
                }
            )
    return rows


def difference(a: Mapping[str, Any], b: Mapping[str, Any], metric: str) -> float | None:
    """``a - b`` in ``metric``; for lengths the percent by which a's solutions of tasks that both solve are longer."""
    if metric != PAIRED_LENGTH:
        first, second = a["metrics"][metric], b["metrics"][metric]
        return None if first is None or second is None else float(first - second)
    common = [task for task in a["solved"] if task in b["solved"]]
    if not common:
        return None
    first, second = (float(sum(run["solved"][t] for t in common)) for run in (a, b))
    return 100.0 * (first / second - 1.0)


def table(comparison: Mapping[str, Any]) -> str:
    """The comparison as plain text: arms, paired differences, every seed, failures."""
    lines = [*_arm_lines(comparison), "", *_pair_lines(comparison), "", *_seed_lines(comparison)]
    failures = [run for run in comparison["runs"] if run["status"] == "failed"]
    if failures:
        lines += ["", "failed:", *(f"  {run['dir']}: {run['error']}" for run in failures)]
    return "\n".join(lines)


def _arm_lines(comparison: Mapping[str, Any]) -> list[str]:
    metrics = [*(f"success@{at}" for at in comparison["milestones"]), *_passes(comparison), "success_greedy"]
    metrics.append("length_success")
    metrics += ["r_per_success", "share_E", "share_R", "start"]
    cells = {(row["credit"], row["metric"]): row for row in comparison["summary"]}
    rows = [["arm", "n", *metrics]]
    for credit in comparison["credits"]:
        own = [cells.get((credit, metric)) for metric in metrics]
        n = max((cell["n"] for cell in own if cell), default=0)
        rows.append([credit, str(n), *("-" if c is None else _number(c["mean"], c["half_width"]) for c in own)])
    return _aligned(rows)


def _pair_lines(comparison: Mapping[str, Any]) -> list[str]:
    final = f"success@{comparison['milestones'][-1]}"
    metrics = [*(f"success@{at}" for at in comparison["milestones"][:-1]), final, *_passes(comparison), "auc"]
    metrics += [PAIRED_LENGTH, "r_per_success"]
    rows = [["difference", *(f"{m} %" if m == PAIRED_LENGTH else m for m in metrics)]]
    cells = {(row["credit"], row["baseline"], row["metric"]): row for row in comparison["paired"]}
    for a, b in dict.fromkeys((row["credit"], row["baseline"]) for row in comparison["paired"]):
        own = [cells.get((a, b, metric)) for metric in metrics]
        rows.append(
            [
                f"{a} - {b}",
                *(
                    "-" if c is None else f"{_number(c['mean'], c['half_width'], '+')} ({c['positive']}/{c['n']})"
                    for c in own
                ),
            ]
        )
    return _aligned(rows)


def _passes(comparison: Mapping[str, Any]) -> list[str]:
    """Names of pass@2, pass@3, … where there are any; ``success`` is pass@1."""
    return [f"pass@{k}" for k in range(2, (comparison["config"].get("eval_attempts") or 1) + 1)]


def _seed_lines(comparison: Mapping[str, Any]) -> list[str]:
    final = f"success@{comparison['milestones'][-1]}"
    rows = [[f"{final} by seed", *(f"s{seed}" for seed in comparison["seeds"])]]
    for credit in comparison["credits"]:
        own = [run for run in comparison["runs"] if run["credit"] == credit]
        rows.append([credit, *(f"{r['metrics'][final]:.3f}" if r["status"] == "done" else r["status"] for r in own)])
    return _aligned(rows)


def _number(mean: float, half_width: float | None, sign: str = "") -> str:
    digits = 1 if abs(mean) >= 2 else 3
    shown = f"{mean:{sign}.{digits}f}"
    return shown if half_width is None else f"{shown} ± {half_width:.{digits}f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    out = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        out.append("  ".join(cells))
    return out
