"""From a run directory to a :class:`~triage_gym.report.model.Report`: a single run, or a comparison of arms and seeds.

Reads the files that the trainer documents (``triage_gym.trainers.run_dir``); computes nothing that they already hold.
Files are taken as untrusted: what does not fit is an InputError that names the file.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from triage_gym.errors import InputError
from triage_gym.report import files
from triage_gym.report.arms import describe
from triage_gym.report.charts import turns_label
from triage_gym.report.comparison import Comparison
from triage_gym.report.episodes import LIMIT, pick
from triage_gym.report.judging import ALARMS, judge_line
from triage_gym.report.model import Curve, Episode, Estimate, JudgeLine, Report, RoleMix, Row
from triage_gym.report.runs import Run, Stretches, curve, find_episodes, read_episode, read_run, role_mix

WARNINGS: Final = {
    "no_outcome_variance": "In some batches all members of every group solved their task or none did, so the outcome taught nothing there",
    "roles_off": "The audit of the start policy found that this judge's roles would not help; this run trained as GRPO with "
    "whitening (audit.json has the numbers)",
    "exploration_share": "The share of E passed .85: look whether exploring pays without solving",
    "role_farming": "The policy explored for its judge and solved next to nothing: the farming guard went back to the best weights "
    "so far and left roles out of the credit",
    "farming_over": "Success was back, and the farming guard let roles count again",
    "entropy_collapse": "The policy had next to no entropy left and solved less than half",
    "far_from_start": "The policy was far from its start and solved no more than at first",
    "judge_fallback": "The judge failed on some turns, and its fallback, the rules, spoke instead: what was learnt there is the "
    "rules' opinion",
    "second_judge_silent": "The second judge gave no label for a good part of its sample, so that nothing was compared there",
    "no_magnitudes": "The credit option +magnitude did nothing, since the judge gave no magnitudes",
    "no_probabilities": "The credit option +soft did nothing, since the judge gave no probabilities",
}


def load_report(path: Path, max_episodes: int) -> Report:
    """Everything on the page of the run or comparison in ``path``.

    Args:
        path: A run directory (``config.json``) or a comparison directory (``comparison.json``).
        max_episodes: How many episodes to keep at most (:func:`triage_gym.report.episodes.pick`).

    Raises:
        InputError: If ``path`` is neither, a file in it is not what it must be, or ``max_episodes`` is out of range.
    """
    if not 0 <= max_episodes <= LIMIT:
        raise InputError(f"Expected `max_episodes` in [0, {LIMIT}], got {max_episodes}")
    if (path / "comparison.json").is_file():
        return _comparison(path, max_episodes)
    if (path / "config.json").is_file():
        return _single(path, max_episodes)
    raise InputError(
        f"Expected a run directory (with config.json) or a comparison (with comparison.json) at {path}, "
        "found neither; `triage-gym train --run-dir DIR` makes one"
    )


# ---- one run ----


def _single(path: Path, max_episodes: int) -> Report:
    config = files.read_json(path / "config.json")
    if "credits" in config:
        raise InputError(
            f"Expected a finished comparison in {path}, got one without comparison.json, which is written at its end; "
            f"`triage-gym train --resume --run-dir {path}` goes on with it"
        )
    arm, seed = str(config.get("credit", "run")), int(files.number(config, "seed", "config.json") or 0)
    run = read_run(path, arm, seed)
    evaluations = _evaluations(path)
    sampled = [e for e in evaluations if e.get("mode") == "sampled"]
    unfinished = _unfinished(config, run, sampled)
    # The start policy's evaluation is no result of training.
    trained = [e for e in evaluations if not unfinished or files.number(e, "turns", "eval.json")]
    last = [e for e in trained if e.get("mode") == "sampled"]
    greedy = [e for e in trained if e.get("mode") == "greedy"]
    row = Row(
        arm=arm,
        success=_last(last, "success", seed),
        greedy=_last(greedy, "success", seed),
        length=_last(last, "length_success", seed),
        regressions=_last(last, "r_per_success_posthoc", seed),
        retried=_retried(last, seed),
    )
    episodes, total = _episodes([run], max_episodes)
    training = _training([arm], [run])
    return Report(
        title=f"{describe(arm).label} on {_environment(config)}",
        facts=_facts(config, [seed], run.turns if unfinished else None),
        arms=(describe(arm),),
        reference=None,
        rows=(row,),
        held_out=_held_out_single(arm, sampled),
        training=training.success,
        lengths=training.lengths,
        roles=training.roles,
        judges=_judges([arm], [run], config),
        episodes=episodes,
        episodes_total=total,
        caveats=_caveats(config, 1, [arm]),
        notices=_notices([run]),
        unfinished=unfinished,
        config=config,
        command=_command(path),
    )


def _unfinished(config: Mapping[str, Any], run: Run, sampled: Sequence[Mapping[str, Any]]) -> str:
    """How far a run has come that has not taken all its turns."""
    planned = files.number(config, "turns", "config.json")
    if planned is None or run.turns >= planned:
        return ""
    text = f"{run.turns:,.0f} of {planned:,.0f} turns"
    at = files.number(sampled[-1], "turns", "eval.json") if sampled else None
    return text if at is None else f"{text}; last evaluation at turn {at:,.0f}"


def _evaluations(path: Path) -> list[Mapping[str, Any]]:
    file = path / "eval.json"
    if not file.exists():
        return []
    found = files.need(files.read_json(file), "evaluations", list, str(file))
    return [files.mapping(e, str(file)) for e in found]


def _last(evaluations: Sequence[Mapping[str, Any]], key: str, seed: int) -> Estimate | None:
    value = files.number(evaluations[-1], key, "eval.json") if evaluations else None
    return None if value is None else Estimate(value, None, ((seed, value),))


def _retried(evaluations: Sequence[Mapping[str, Any]], seed: int) -> Estimate | None:
    """What all attempts together solved; None where there was one."""
    passes = evaluations[-1].get("pass_at") if evaluations else None
    if not isinstance(passes, list) or len(passes) < 2:
        return None
    return _last([{"pass_at": passes[-1]}], "pass_at", seed)


def _held_out_single(arm: str, evaluations: Sequence[Mapping[str, Any]]) -> tuple[Curve, ...]:
    points = []
    for e in evaluations:
        turns, success = files.number(e, "turns", "eval.json"), files.number(e, "success", "eval.json")
        if turns is not None and success is not None:
            points.append((turns, success))
    if len(points) < 2:
        return ()
    line = tuple(success for _, success in points)
    return (Curve(arm, tuple(turns for turns, _ in points), line, line, line, 1),)


# ---- a comparison ----


def _comparison(path: Path, max_episodes: int) -> Report:
    data = Comparison(path)
    runs = data.runs()
    episodes, total = _episodes(runs, max_episodes)
    training = _training(data.credits, runs)
    return Report(
        title=f"{len(data.credits)} ways to credit on {_environment(data.config)}",
        facts=_facts(data.config, data.seeds),
        arms=tuple(describe(c) for c in data.credits),
        reference=data.reference,
        rows=data.rows(),
        differences=data.differences(),
        held_out=data.held_out(),
        training=training.success,
        lengths=training.lengths,
        roles=training.roles,
        judges=_judges(data.credits, runs, data.config),
        episodes=episodes,
        episodes_total=total,
        caveats=_caveats(data.config, len(data.seeds), data.credits),
        warnings=data.warnings(),
        notices=_notices(runs),
        config=data.config,
        command=_command(path),
    )


# ---- both ----


@dataclass(frozen=True, slots=True)
class _Training:
    """What the runs' logs show over turns."""

    success: tuple[Curve, ...]
    lengths: tuple[Curve, ...]
    roles: tuple[RoleMix, ...]


def _training(credits: Sequence[str], runs: Sequence[Run]) -> _Training:
    stretches = Stretches(runs)
    arms = {credit: [run for run in runs if run.arm == credit] for credit in credits}

    def curves(key: str) -> tuple[Curve, ...]:
        found = [curve(credit, arm, key, stretches) for credit, arm in arms.items()]
        return tuple(c for c in found if c)

    mixes = [role_mix(credit, arm, stretches) for credit, arm in arms.items()]
    return _Training(curves("success"), curves("length_success"), tuple(m for m in mixes if m))


def _judges(credits: Sequence[str], runs: Sequence[Run], config: Mapping[str, Any]) -> tuple[JudgeLine, ...]:
    """What there is to say of the judge; nothing where it always answered, cost nothing and gave no alarm."""
    found = [judge_line(c, [run for run in runs if run.arm == c], config) for c in credits]
    lines = [line for line in found if line is not None]
    rule = config.get("judge", "rule") == "rule"
    return () if rule and not any(line.alarms or line.costs for line in lines) else tuple(lines)


def _episodes(runs: Sequence[Run], limit: int) -> tuple[tuple[Episode, ...], int]:
    found = [f for run in runs for f in find_episodes(run)]
    kept = pick([(f.run.arm, f.success) for f in found], limit)
    return tuple(read_episode(found[i]) for i in kept), len(found)


def _environment(config: Mapping[str, Any]) -> str:
    name = str(config.get("env", "an environment"))
    return "ALFWorld" if "alfworld" in name.lower() else name


def _facts(config: Mapping[str, Any], seeds: Sequence[int], turns: float | None = None) -> tuple[tuple[str, str], ...]:
    """What was run; ``turns`` are those taken when they are fewer than planned."""
    out = [("environment", _environment(config))]
    if isinstance(config.get("task_types"), list):
        out.append(("task types", str(len(config["task_types"]))))
    for key, name, unit in (("limit", "limit", "turns"), ("turns", "training", "turns")):
        value = files.number(config, key, "config")
        if value is not None:
            taken = f"{turns_label(turns)} of " if key == "turns" and turns is not None else ""
            out.append((name, f"{taken}{turns_label(value)} {unit}"))
    out.append(("seeds" if len(seeds) > 1 else "seed", ", ".join(map(str, seeds))))
    tasks = files.number(config, "eval_tasks", "config")
    if tasks is not None:
        split = config.get("eval_split")
        out.append(("held out", f"{tasks:g} tasks" + (f", {split}" if split else "")))
    return tuple(out)


def _caveats(config: Mapping[str, Any], seeds: int, credits: Sequence[str]) -> tuple[str, ...]:
    out = []
    if seeds > 1:
        out.append(
            f"Intervals are 95 % t intervals over {seeds} seeds, one comparison at a time, uncorrected for their number."
        )
    else:
        out.append("One seed shows how a run went, not which rule is better: compare over at least five.")
    judge = config.get("judge")
    judge = judge if isinstance(judge, Mapping) else {"name": judge}
    if judge.get("name") == "rule" and judge.get("domain") in (None, "alfworld") and _environment(config) == "ALFWorld":
        recipe = (
            "The rule judge reads the goal and knows what it needs, so it is close to a recipe, and it looks at the same "
            "words as the built-in policy. Nothing here speaks for the quality of a language model as judge."
        )
        if "roles-only" in credits:
            recipe += " How far it leads without any outcome is the line “Roles only”."
        out.append(recipe)
    if "scalar" in credits and "triage" in credits:
        out.append(
            "“Scalar” has the same judge without the four-way split. Where it ends level with TRIAGE, the gain comes from "
            "credit by step, not from role types."
        )
    out.append(
        "“Turns of a success” is over each arm's own solved tasks, which are not the same tasks; the paired length uses "
        "only those that both solve."
    )
    out.append(
        "The policy chooses among the admissible commands; it generates no language and can make no invalid action."
    )
    return tuple(out)


def _notices(runs: Sequence[Run]) -> tuple[str, ...]:
    seen: dict[str, dict[str, list[str]]] = {}
    for run in runs:
        for update, name in run.warnings():
            if name in ALARMS:  # told in the section on the judge
                continue
            seen.setdefault(name, {}).setdefault(run.arm, []).append(f"seed {run.seed} at update {update}")
    return tuple(
        f"{WARNINGS.get(name, name)} ({'; '.join(f'{describe(arm).label}: {_some(at)}' for arm, at in arms.items())})"
        for name, arms in seen.items()
    )


def _some(places: Sequence[str], most: int = 3) -> str:
    return ", ".join(places[:most]) + (f" and {len(places) - most} more" if len(places) > most else "")


def _command(path: Path) -> str:
    if not (path / "config.json").is_file():
        return ""
    return shlex.join(["triage-gym", "train", "--config", str(path / "config.json"), "--run-dir", "NEW_DIRECTORY"])
