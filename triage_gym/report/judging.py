"""What a report says of the judge: whom was asked, how often it had no answer, what it cost, what was warned of and when.

Read from ``metrics.jsonl`` and ``timings.jsonl``; runs of before these numbers were logged just have fewer of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from triage_gym.report import files
from triage_gym.report.model import Alarm, JudgeLine
from triage_gym.report.runs import Run

ALARMS: Final = {
    "reward_without_return": "The judge paid a turn more than when the policy solved at least as much",
    "role_drift": "The role mix was like none at an earlier time with as much success",
    "longer_attempts": "Attempts took more turns than when the policy solved at least as much",
    "rule_disagreement": "The judge moved away from what the rule judge says of the same segments",
    "second_judge_disagreement": "The judge moved away from what the second judge says of the same segments",
}
"""The alarms about the judge, in words."""
_COSTS: Final = ("calls", "cached", "prompt_tokens", "completion_tokens", "tokens", "usd", "seconds")


def judge_name(spec: Any) -> str:
    """A judge as a reader sees it: ``cache of llm (some-model)``."""
    if not isinstance(spec, Mapping):
        return str(spec)
    name = str(spec.get("name", "?")).rpartition(":")[2]
    inside = spec.get("of")
    within = inside if isinstance(inside, list | tuple) else [] if inside is None else [inside]
    model = f" ({spec['model']})" if isinstance(spec.get("model"), str) else ""
    return name + model + (f" of {', '.join(map(judge_name, within))}" if within else "")


def judge_line(arm: str, runs: Sequence[Run], spec: Any) -> JudgeLine | None:
    """What the runs of an arm say of their judge; None where they have logged nothing."""
    runs = [run for run in runs if run.updates]
    if not runs:
        return None
    costs: dict[str, float] = {}
    for run in runs:
        for _, line in files.read_lines(run.path / "timings.jsonl"):
            for name in _COSTS:
                value = files.number(line, f"judge_{name}", str(run.path / "timings.jsonl"))
                if value is not None:
                    costs[name] = costs.get(name, 0.0) + value
    alarms = [
        Alarm(name, run.seed, update, _turns(run, update))
        for run in runs
        for update, name in run.warnings()
        if name in ALARMS
    ]
    means = {
        key: _mean(runs, key)
        for key in (
            "role_unjudged",
            "role_failed",
            "role_unsure",
            "judge_confidence",
            "rule_agreement",
            "second_agreement",
        )
    }
    return JudgeLine(arm, judge_name(spec), tuple(means.items()), tuple(costs.items()), tuple(alarms))


def _turns(run: Run, update: int) -> int:
    return next(int(u["turns"]) for u in run.updates if u["update"] == update)


def _mean(runs: Sequence[Run], key: str) -> float | None:
    """Mean over the updates of all runs that have ``key``."""
    values = [files.number(u, key, str(run.path / "metrics.jsonl")) for run in runs for u in run.updates]
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None
