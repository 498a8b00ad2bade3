"""What a report says of the judge: whom was asked, how often it had no answer, what it cost, what was warned of and when.

Read from ``metrics.jsonl`` and ``timings.jsonl``; runs of before these numbers were logged just have fewer of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from triage_gym.report import files
from triage_gym.report.model import Alarm, JudgeLine
from triage_gym.report.runs import Run

_LOOK: Final = "look at the traces for what is rewarded"
_WHERE: Final = "look at where they differ (triage-gym judge audit)"
ALARMS: Final = {
    "reward_without_return": "The judge paid a turn more than when the policy solved at least as much: "
    f"{_LOOK}; a smaller `lam`, +guard or another judge prevents it",
    "role_drift": f"The role mix was like none at an earlier time with as much success: {_LOOK}",
    "longer_attempts": f"Attempts took more turns than when the policy solved at least as much: {_LOOK}",
    "rule_disagreement": "The judge moved away from what the rule judge says of the same segments, or was far more "
    f"generous: {_WHERE}",
    "judge_unlike_rules": "The judge agreed with the rule judge no better than chance, from the start: one of them does not "
    f"judge what the roles mean; {_WHERE}",
    "no_labels": "Next to no turn had a label, so that roles taught nothing: see what failed, was withheld or not asked about",
    "one_role": "The judge called almost every turn the same from the start, so that its roles said nothing: try another "
    "model or judge",
    "second_judge_disagreement": "The judge moved away from what the second judge says of the same segments, or was far more "
    f"generous: {_WHERE}",
}
"""The alarms about the judge, in words and with what to do."""
COSTS: Final = (
    "calls",
    "cached",
    "prompt_tokens",
    "completion_tokens",
    "tokens",
    "usd",
    "seconds",
    "wall_s",
    "segments",
)
"""What is summed of ``timings.jsonl``, by names without their ``judge_``."""
SHARES: Final = (
    "role_unjudged",
    "role_failed",
    "role_unsure",
    "role_fallback",
    "judge_confidence",
    "rule_agreement",
    "second_agreement",
    "second_failed",
)
"""What is averaged of ``metrics.jsonl``."""
_WINDOW: Final = 4
_GROUPS: Final = 16
"""The monitors' window in updates, and the groups for which it is longer: a drift shows after two."""


def judge_name(spec: Any) -> str:
    """A judge as a reader sees it: ``cache of llm (some-model)``."""
    if not isinstance(spec, Mapping):
        return str(spec)
    name = str(spec.get("name", "?"))
    inside = spec.get("of")
    within = inside if isinstance(inside, list | tuple) else [] if inside is None else [inside]
    model = f" ({spec['model']})" if isinstance(spec.get("model"), str) else ""
    return name + model + (f" of {', '.join(map(judge_name, within))}" if within else "")


def judge_line(arm: str, runs: Sequence[Run], config: Mapping[str, Any]) -> JudgeLine | None:
    """What the runs of an arm, of these settings, say of their judge; None where they have logged nothing."""
    runs = [run for run in runs if run.updates]
    if not runs:
        return None
    costs: dict[str, float] = {}
    for run in runs:
        for _, line in files.read_lines(run.path / "timings.jsonl"):
            for name in COSTS:
                value = files.number(line, f"judge_{name}", str(run.path / "timings.jsonl"))
                if value is not None:
                    costs[name] = costs.get(name, 0.0) + value
    alarms = [
        Alarm(name, run.seed, update, _turns(run, update))
        for run in runs
        for update, name in run.warnings()
        if name in ALARMS
    ]
    means = tuple((key, _mean(runs, key)) for key in SHARES)
    window = max(_WINDOW, math.ceil(_GROUPS / max(1.0, files.number(config, "groups_per_update", "config") or 8.0)))
    short = 2 * window if all(len(run.updates) < 2 * window for run in runs) else 0
    return JudgeLine(arm, judge_name(config.get("judge")), means, tuple(costs.items()), tuple(alarms), short)


def _turns(run: Run, update: int) -> int:
    return next(int(u["turns"]) for u in run.updates if u["update"] == update)


def _mean(runs: Sequence[Run], key: str) -> float | None:
    """Mean over the updates of all runs that have ``key``."""
    values = [files.number(u, key, str(run.path / "metrics.jsonl")) for run in runs for u in run.updates]
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None
