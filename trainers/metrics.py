"""What an update tells of itself: the numbers of ``metrics.jsonl`` and its warnings."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from triage_gym.credit.outcome import outcome_varies
from triage_gym.errors import CheckpointError
from triage_gym.records import ROLES, EpisodeRecord, LabelStatus
from triage_gym.trainers.monitors import ALARMS
from triage_gym.trials import trials_of

EXPLORATION_SHARE: Final = 0.85
"""Share of E among judged segments above which a policy may be farming exploration."""
_SILENT: Final[tuple[LabelStatus, ...]] = ("failed", "unsure")
"""Statuses of segments that the judge was asked about and has no role; told apart from those it was not asked about."""
SECOND_SILENT: Final = 0.2
"""Share of a sample that the second judge gave no label, above which that is warned of."""
FALLBACK: Final = ":fallback"
"""What the source of a label ends with that stands in for a failed one."""
CERTAIN: Final = 0.1
"""Share of the first update's entropy below which a policy counts as certain."""
FAR: Final = 2.0
"""KL to the start, in nats a turn, from which on a policy counts as far away."""
SOLVED: Final = 0.5
"""Success from which on being certain is no alarm."""
STRETCH: Final = 4
"""Updates whose mean success counts."""
logger = logging.getLogger("triage_gym.trainers")

_OWN: Final = {
    "no_outcome_variance": "no group's outcomes differ in this batch, so only roles (or nothing) teach now. Near success 1 "
    "the tasks are learnt; near 0 roles alone decide where this lasts: use a stronger start or the credit option +guard",
    "exploration_share": f"the share of E passed {EXPLORATION_SHARE}: the policy may be exploring for the judge and not "
    "for the task. Look at the traces. Where nothing is solved the farming guard steps in (`farming_guard`); the credit option +guard prevents it",
    "roles_off": "the audit of the start policy found that this judge's roles would not help (audit.json), so they are left out "
    "and the run trains as grpo+whiten",
    "role_farming": "E is {explored} of the turns and next to nothing is solved: the policy explores for its judge and not for "
    "the task. The farming guard goes back to the best weights so far and leaves roles out until success is back, or for the "
    "rest of the run when it is not the first time",
    "farming_over": "success is back, and the farming guard lets roles count again",
    "entropy_collapse": "the policy has next to no entropy left (a tenth of what it began with) and solves less than half: it "
    "repeats itself and will find nothing new. A larger `entropy`, a smaller `lr` or an earlier checkpoint helps",
    "far_from_start": "the policy is far from its start (KL {kl}) and solves no more than at first: what it has learnt is "
    "something else. Look at the traces; a `kl` above 0 holds it back",
    "judge_fallback": "the judge failed on {fallback} of the turns with a label, and its fallback, the rules, spoke instead: "
    "what is learnt from these is the rules' opinion. `triage-gym judge check` tells what the endpoint can do",
    "second_judge_silent": "the second judge gave no label for {silent} of its sample ({why}): nothing is compared with it "
    "there. Training goes on",
    "no_magnitudes": "the credit option +magnitude does nothing, since the judge gives no magnitudes (all are 1.0): wrap it as "
    '{{"name": "magnitude", …}} or leave the option out',
    "no_probabilities": "the credit option +soft does nothing, since the judge gives no probabilities: a judge such as "
    "`ensemble` or `lm` gives some; or leave the option out",
}
WARNINGS: Final = {**_OWN, **ALARMS}
"""The conditions that are warned of, in words for :func:`worded`: of single updates, and those of
:mod:`triage_gym.trainers.monitors`."""


def batch_metrics(records: Sequence[EpisodeRecord]) -> dict[str, Any]:
    """Success, length, role shares and outcome variance of the sound attempts of a batch; nulls where there are none.

    Success, score and length are those of first attempts, so that runs with and without retries can be compared; role
    shares are those of all newly acted segments.
    """
    first = [r for r in records if r.attempt == 0]
    lengths = [len(r) for r in first]
    successes = [len(r) for r in first if r.success]
    labels = [label for r in records for label in r.labels[r.prefix_length :]]
    roles = [role for r in records for role in r.roles[r.prefix_length :]]
    stand_ins = sum(label.role is not None and label.source.endswith(FALLBACK) for label in labels)
    sure = [label.confidence for label in labels if label.role is not None]
    shares = {f"role_{role}": _share(roles.count(role), len(roles)) for role in ROLES}
    varies: dict[str, bool] = {}
    for record, differs in zip(records, outcome_varies(records), strict=True):
        varies[record.group_id] = bool(differs)
    return {
        "success": _share(len(successes), len(first)),
        "score": _share(sum(r.score for r in first), len(first)),
        "length": _share(sum(lengths), len(first)),
        "length_success": _share(sum(successes), len(successes)),
        **shares,
        "role_unjudged": _share(roles.count(None), len(roles)),
        **{f"role_{status}": _share(sum(x.status == status for x in labels), len(roles)) for status in _SILENT},
        "role_fallback": _share(stand_ins, len(sure)),
        "judge_confidence": _share(sum(sure), len(sure)),
        "outcome_variance": _share(sum(varies.values()), len(varies)),
    }


def trial_metrics(records: Sequence[EpisodeRecord], attempts: int, refused: int) -> dict[str, Any]:
    """What the retries of a batch came to.

    Args:
        records: Sound attempts.
        attempts: Most attempts at a task.
        refused: Retries that were not played, since their pivot did not pass the check.

    Returns:
        ``pass@k`` (share of trials solved within k attempts), counts of retries by what became of them, mean pivot as a
        share of the attempt reflected on, and turns generated and replayed.
    """
    trials = trials_of(records)
    retries = [(trial.records[r.parent], r) for trial in trials for r in trial.records[1:]]
    return {
        **{f"pass@{k}": _share(sum(t.solved_within(k) for t in trials), len(trials)) for k in range(1, attempts + 1)},
        "retries": len(retries),
        "retries_verified": sum(r.restore_status == "verified" for _, r in retries),
        "retries_restarted": sum(r.restore_status == "restarted" for _, r in retries),
        "retries_refused": refused,
        "malformed_reflections": sum(r.reflection is not None and r.reflection.problem != "" for _, r in retries),
        "pivot": _share(sum(max(r.pivot, 0) / len(parent) for parent, r in retries), len(retries)),
        "generated_turns": sum(sum(t.generated) for t in trials),
        "replayed_turns": sum(sum(t.replayed) for t in trials),
    }


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None


class Watch:
    """Warns when a condition begins, once each time it does."""

    def __init__(self) -> None:
        self.active = dict.fromkeys(_OWN, False)
        """Which conditions held at the last update; part of a checkpoint."""
        self._first: list[float] = []
        self._last: deque[float] = deque(maxlen=STRETCH)
        self._entropy: float | None = None

    def look(self, metrics: Mapping[str, Any], why: str = "", **more: bool) -> list[str]:
        """The conditions that began with this update, logged as warnings.

        Args:
            metrics: The line of ``metrics.jsonl``.
            why: Why the second judge gave no label.
            more: Conditions that the line does not tell, by name.
        """
        variance, explored = metrics["outcome_variance"], metrics["role_E"]
        judged = 1.0 - (metrics["role_unjudged"] or 0.0)
        silent = metrics.get("second_failed")  # not there in updates that do not ask
        farming = bool(metrics.get("guard"))
        now = {
            "no_outcome_variance": variance == 0.0,
            "exploration_share": bool(explored) and explored > EXPLORATION_SHARE * judged,
            "role_farming": farming,
            "farming_over": self.active.get("role_farming", False) and not farming,
            **self._against_the_first(metrics),
            "judge_fallback": bool(metrics.get("role_fallback")),
            "roles_off": bool(metrics.get("roles_off")),
            "second_judge_silent": self.active.get("second_judge_silent", False)
            if silent is None
            else silent > SECOND_SILENT,
            **more,
        }
        began = [name for name, holds in now.items() if holds and not self.active.get(name)]
        self.active = dict.fromkeys(_OWN, False) | now
        warn(began, metrics, why)
        return began

    def _against_the_first(self, metrics: Mapping[str, Any]) -> dict[str, bool]:
        """The conditions that look back at the first updates."""
        success, entropy, far = metrics["success"], metrics.get("entropy"), metrics.get("kl_start")
        if success is not None:
            self._last.append(success)
            if len(self._first) < STRETCH:
                self._first.append(success)
        if self._entropy is None:
            self._entropy = entropy
        if not self._last or self._entropy is None:
            return {"entropy_collapse": False, "far_from_start": False}
        now, first = sum(self._last) / len(self._last), sum(self._first) / len(self._first)
        certain = entropy is not None and entropy < CERTAIN * self._entropy
        # Not measured in every update.
        away = self.active.get("far_from_start", False) if far is None else far >= FAR
        return {"entropy_collapse": certain and now < SOLVED, "far_from_start": away and now <= first}

    def to_json(self) -> dict[str, Any]:
        """What the rest of a run depends on, as JSON."""
        return {
            "active": self.active,
            "first": self._first,
            "last": list(self._last),
            "entropy": self._entropy,
        }

    def go_to(self, state: Mapping[str, Any]) -> None:
        """Go back to what :meth:`to_json` gave; an older checkpoint has the conditions alone.

        Raises:
            CheckpointError: When ``state`` is none of that.
        """
        try:
            active = state.get("active", state)
            self.active |= {name: bool(holds) for name, holds in active.items()}
            self._first = [float(value) for value in state.get("first", ())]
            self._last.clear()
            self._last.extend(float(value) for value in state.get("last", ()))
            entropy = state.get("entropy")
            self._entropy = None if entropy is None else float(entropy)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"Expected the state of warnings in the checkpoint, got: {error!r}") from error


def worded(name: str, metrics: Mapping[str, Any], why: str = "") -> str:
    """A warning in words, with the numbers of its update; one of another version is told by its name."""
    judged = 1.0 - (metrics.get("role_unjudged") or 0.0)
    explored = (metrics.get("role_E") or 0.0) / judged if judged > 0.0 else None
    shares = {
        "fallback": metrics.get("role_fallback"),
        "silent": metrics.get("second_failed"),
        "explored": explored,
    }
    told = {key: "a part" if share is None else f"{100 * share:.3g} %" for key, share in shares.items()}
    far = metrics.get("kl_start")
    told["kl"] = "large" if far is None else f"{far:.2f}"
    return WARNINGS[name].format(**told, why=why or "no reason given") if name in WARNINGS else name


def warn(names: Sequence[str], metrics: Mapping[str, Any], why: str = "") -> None:
    """Log what began with an update."""
    for name in names:
        words = worded(name, metrics, why)
        logger.warning("update %d, success %.2f: %s", metrics["update"], metrics["success"] or 0.0, words)
