"""Before a run: what its judge's roles are worth to the start policy, and whether they will help at all.

With ``audit`` the run asks the gate of :mod:`triage_gym.audit.counterfactual` and trains as ``grpo+whiten`` when the answer
is no; when it cannot tell it says so and goes on as configured. ``triage-audited`` without constants takes those of
:mod:`triage_gym.audit.fitting`, or where it measured nothing that they could be fitted to those of its prior, which are the
paper's, and says so. Both measure on the policy that training begins with, on calibration tasks
(:func:`~triage_gym.trainers.counterfactual.calibration_split`), and what they play counts as turns of the run, so that
arms are compared at equal turns. The result is ``audit.json`` and part of every checkpoint.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from triage_gym.audit.counterfactual import LAM, look, verdict
from triage_gym.audit.fitting import NothingToFit, fit
from triage_gym.credit import make as make_credit
from triage_gym.credit import may_read_labels, worths
from triage_gym.credit.audited import TriageAudited
from triage_gym.credit.rules import CONSTANTS
from triage_gym.errors import CheckpointError, InputError, JudgeOutage
from triage_gym.judges import nesting
from triage_gym.judges.breaker import shortened
from triage_gym.protocols import CreditRule
from triage_gym.records import ROLES, RoleLabel
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.counterfactual import Player, Sampling, measure
from triage_gym.trainers.counterfactual_rows import labels_of, rows_of, with_labels

logger = logging.getLogger("triage_gym.trainers")
JUDGE: Final = "judge"
"""What the run's judge is called in the rows."""
SHARE: Final = 5
"""The audit takes one part in so many of the run's turns, unless told otherwise."""
OFF: Final = "grpo+whiten"
"""What is trained with when roles would not help."""


@dataclass(frozen=True, slots=True)
class Audited:
    """What was found before a run."""

    turns: int
    """Environment turns that it took."""
    verdict: str
    """In words."""
    roles_off: bool
    """Whether roles are left out because they would not help."""
    finding: Mapping[str, Any]
    """:class:`~triage_gym.audit.counterfactual.Finding` as JSON values."""
    fit: Mapping[str, Any] | None = None
    """:class:`~triage_gym.audit.fitting.Fit` as JSON values, where constants were asked for."""
    held_out: Mapping[str, Any] | None = None
    """How such a fit does on tasks that it has not seen."""

    def to_json(self) -> dict[str, Any]:
        """The content of ``audit.json``."""
        return {
            "schema": 1,
            "turns": self.turns,
            "verdict": self.verdict,
            "roles_off": self.roles_off,
            "finding": dict(self.finding),
            "fit": None if self.fit is None else dict(self.fit),
            "held_out": None if self.held_out is None else dict(self.held_out),
        }

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """What :meth:`to_json` gave.

        Raises:
            CheckpointError: For anything else.
        """
        try:
            names = ("turns", "verdict", "roles_off", "finding", "fit", "held_out")
            return cls(**{name: data[name] for name in names})
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"Expected an audit in the checkpoint, got one that does not fit: {error}") from error


def is_needed(config: TrainConfig, rule: CreditRule) -> bool:
    """Whether a run measures first."""
    if isinstance(rule, TriageAudited) and not rule.is_fitted:
        return True
    if config.audit and not may_read_labels(rule):
        logger.warning("nothing to audit: %s reads no roles", config.credit)
        return False
    return config.audit


def audit_start(config: TrainConfig, rule: CreditRule, policy: Player) -> Audited:
    """Measure what the judge's roles are worth to ``policy``.

    Args:
        config: The run, resolved.
        rule: Its credit rule.
        policy: What training begins with.

    Raises:
        InputError: When the audit would take all of the run's turns.
        TrainingError: When no turn could be measured.
        JudgeOutage: When the judge failed too often.
    """
    # Small rounds, so that a small budget is kept; few continuations of many turns say most of means over turns.
    turns = config.audit_turns or max(1, config.turns // SHARE)
    sampling = Sampling(turns=turns, rollouts=2, segments=32, seed=config.seed)
    _check_turns(config, sampling.turns, more=True)
    judge = nesting.inner(config.judge)
    try:
        measured = measure(config, policy, sampling, facts=nesting.facts_needed(judge))
        _check_turns(config, measured.spent, more=measured.rounds > 1)
        rows = rows_of(measured, config.env, config.judge_window)
        labels = labels_of(judge, rows, measured, config.judge_window)
    finally:
        nesting.close(judge)
    _check_answers(labels, config.judge_failures)
    rows = with_labels(rows, JUDGE, labels)
    worth = worths(rule)
    finding = look(rows, constants=[worth[role] for role in ROLES], lam=getattr(rule, "lam", config.lam))[0]
    words = verdict(finding, measured.spent)
    roles_off = config.audit and finding.answer == "no"
    if config.audit:
        logger.warning(
            "audit of the start policy, %d turns: %s%s", measured.spent, words, f"; training with {OFF}" * roles_off
        )
    found = Audited(measured.spent, words, roles_off, finding.to_json())
    if not roles_off and isinstance(rule, TriageAudited) and not rule.is_fitted:
        try:
            fitted, held = fit(rows, JUDGE)
        except NothingToFit as error:
            told = f"no constants could be fitted in {measured.spent} turns, so the paper's are taken ({error})"
            logger.warning("audit of the start policy: %s", told)
            return replace(found, verdict=f"{words}; {told}")
        found = replace(found, fit=fitted.to_json(), held_out=None if held is None else held.to_json())
    return found


def _check_turns(config: TrainConfig, spent: int, *, more: bool) -> None:
    """See that turns are left to train. ``more``: whether the audit could be smaller."""
    if spent >= config.turns:
        mend = (
            ", or lower `audit_turns`"
            if more
            else f" above {spent}: that was one round of 64 episodes, the least there is"
        )
        raise InputError(
            f"Expected more `turns` than the audit takes, got {config.turns} for a run whose audit takes {spent}; raise "
            f"`turns`{mend}"
        )


def _check_answers(labels: Sequence[RoleLabel], share: float) -> None:
    """Let no verdict come of a judge that did not answer."""
    reasons = Counter(shortened(label.why) for label in labels if label.status == "failed")
    if (failed := reasons.total()) > share * len(labels):
        why, times = reasons.most_common(1)[0]
        raise JudgeOutage(
            f"Expected the judge to answer in the audit, got {failed} failures among {len(labels)} turns, more than "
            f"`judge_failures` allows: {times} × {why}. Nothing was learnt; begin again when it answers"
        )


def applied(rule: CreditRule, found: Audited) -> CreditRule:
    """The credit rule that a run trains with after its audit."""
    if found.roles_off:
        return make_credit(OFF)
    if isinstance(rule, TriageAudited) and not rule.is_fitted:
        if found.fit is None:
            return replace(rule, constants=CONSTANTS, lam=LAM)
        d, e, n, r = found.fit["constants"]
        return replace(rule, constants=(d, e, n, r), lam=found.fit["lam"])
    return rule
