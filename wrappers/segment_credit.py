"""SegmentCreditWrapper: each attempt as a record at its end, and a group's advantages when the group is whole.

The wrapper records, pure functions compute (:mod:`triage_gym.credit`), so a trainer in any process can do the same from
``info["episode_record"]`` with a :class:`~triage_gym.credit.ledger.GroupLedger` of its own. With ``group_size`` the
wrapper keeps that ledger itself: right for one environment that plays the members of a group one after another, wrong
inside a vector environment, whose members share nothing.

What it leaves to you: to step through it and nothing below it, to have role labels made below it
(:class:`~triage_gym.wrappers.RoleJudgeWrapper`) for rules that need them, and the training.
"""

from __future__ import annotations

from typing import Any, Final, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import logger
from gymnasium.utils import RecordConstructorArgs

from triage_gym.credit import needs_labels
from triage_gym.credit.controls import ShuffledTriage
from triage_gym.credit.ledger import GroupLedger
from triage_gym.credit.rules import Scalar, worth_of
from triage_gym.credit.trials import TurnOptions
from triage_gym.errors import GroupError, InputError
from triage_gym.protocols import CreditRule
from triage_gym.records import EpisodeRecord, Group, Role, RoleLabel
from triage_gym.restore.stack import has_time_limit, layers
from triage_gym.restore.values import fingerprint
from triage_gym.windows import domain_of
from triage_gym.wrappers._attempt import Attempt
from triage_gym.wrappers._outcome import OutcomeReader
from triage_gym.wrappers._plugin import Plugin
from triage_gym.wrappers.role_judge import RoleJudgeWrapper

_OPTIONS: Final = ("group_id", "trial_id")


class SegmentCreditWrapper(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Records each attempt as ``info["episode_record"]`` and credits its segments when its group is whole.

    The last info of an attempt carries ``episode_record``, a frozen :class:`~triage_gym.records.EpisodeRecord` with the
    labels that came from below. With ``group_size=G`` the last info of the G-th member also carries ``group`` (a
    :class:`~triage_gym.records.Group` of all members in the order they ended) and ``group_advantages`` (a tuple of
    read-only float64 arrays of shape ``(segments,)``, one a member, by the credit rule; a rule that whitens does so over
    this group: to whiten over a batch of groups, call the rule on the records of all of them).

    A group is named by ``reset(options={"group_id": …})``, else by the seed (and the task, when an option chooses it),
    else by the task and its first observation; never by the index of the environment. A retry is a member too, of the
    group of the attempt that it retries, with its prefix marked by ``prefix_length``. Members with different tasks or
    first observations are refused: the environment ignores its seed.

    An attempt and its retries are one *trial*, named by ``reset(options={"trial_id": …})`` of the first, else
    ``"<group_id>/<n>"`` for the n-th fresh attempt of this wrapper: right for one environment, but several that play
    the same group need names of the caller's, since (group, trial, attempt) must be unique. A record has the whole
    lineage: ``trial``, ``parent``, ``pivot``, ``restore_strategy``, ``restore_status``, ``reflection``, ``oracle_pivot``.

    Success and score come from the last info, see :class:`~triage_gym.wrappers._outcome.OutcomeReader`. An attempt whose
    retry did not come back to its start carries an ``error`` and is never trained.

    Args:
        env: The environment, with judge, retry and time limit inside.
        credit: A registered rule such as ``"grpo"``, ``"grpo+whiten"`` or ``"triage"``, a ``"module:attr"`` path to a
            class or to a function of records, a config dict such as ``{"name": "triage", "lam": 0.4}``, or a
            :class:`~triage_gym.protocols.CreditRule` (shared, never copied; the spec then has no JSON form). A rule of
            your own that reads roles says so by an attribute ``needs_labels = True``.
        group_size: Members of a group; None leaves grouping to the caller.
        as_reward: Add the weighted worth λc of the labels that became final at a step to its reward, for libraries that
            compute their own advantages. The record keeps the environment's own rewards.

    Raises:
        InputError: For a bad rule or ``group_size``, or ``as_reward`` with a rule that gives single roles no worth.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        credit: str | dict[str, Any] | CreditRule = "triage",
        group_size: int | None = None,
        as_reward: bool = False,
    ) -> None:
        self._rule = Plugin("credit", credit, callable, "a function of records")
        RecordConstructorArgs.__init__(self, credit=self._rule.recorded, group_size=group_size, as_reward=as_reward)
        gym.Wrapper.__init__(self, env)
        rule = self._rule.get()
        self._needs_labels = needs_labels(rule)
        self._worth = _worth(rule) if as_reward else None
        self._ledger = None if group_size is None else GroupLedger(group_size)
        if not (has_time_limit(env) or any(isinstance(layer, RoleJudgeWrapper) for layer in layers(env))):
            logger.warn(
                "SegmentCreditWrapper found no time limit inside: one further out would leave it without an end"
            )
        self._read_outcome = OutcomeReader("SegmentCreditWrapper", compares=True)
        self._domain = domain_of(self.metadata)
        self._attempt = Attempt()
        self._labels: list[RoleLabel | None] = []
        self._group_id = self._trial = ""
        self._fresh_attempts = 0
        self._running = False
        self.last_record: EpisodeRecord | None = None
        """The last attempt that ended, or that the environment broke off by raising (then with an ``error``)."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an attempt; an unfinished one leaves no record.

        Raises:
            InputError: If ``options["group_id"]`` or ``options["trial_id"]`` is neither text nor a number, or the rule
                needs role labels and nothing below makes any.
            GroupError: If the group's other members had another task or started from another observation, a new
                ``group_id`` came with a retry that only ``auto=True`` asked for, or another ``trial_id`` with a retry.
        """
        group_id, trial_id = _name_in(options, "group_id"), _name_in(options, "trial_id")
        rest = None if options is None else {k: v for k, v in options.items() if k not in _OPTIONS}
        self._running = False
        observation, info = self.env.reset(seed=seed, options=rest)
        if self._needs_labels and "role_labels" not in info:
            raise InputError(
                "Expected role labels for this credit rule, got none from below; wrap the environment in "
                'RoleJudgeWrapper first, or choose a rule without roles such as credit="grpo"'
            )
        attempt = self._attempt
        attempt.begin(observation, info, seed)
        del self._labels[attempt.prefix_length :]
        if attempt.number > 0:
            self._check_retry(group_id, trial_id, rest or {})
        if group_id is not None:
            self._group_id = group_id
        elif attempt.number == 0:
            self._group_id = _group_name(attempt, seed, rest)
        if attempt.number == 0:
            self._trial = f"{self._group_id}/{self._fresh_attempts}" if trial_id is None else trial_id
            self._fresh_attempts += 1
        if self._ledger is not None and attempt.error is None:
            # Refused now, not after it was played.
            self._ledger.check_start(self._group_id, attempt.task_id, attempt.start_observation)
        self._running = True
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; the last info of an attempt carries its record.

        Raises:
            ResetNeeded: Before the first reset and after the end of an attempt.
        """
        if not self._running:
            raise gym.error.ResetNeeded("Cannot call env.step() before env.reset() or after the end; call env.reset()")
        self._running = False
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except Exception as error:
            self._attempt.error = f"the environment raised {type(error).__name__}: {error}"
            self.last_record = self._record(False, 0.0, False, False)
            raise
        self._attempt.add(action, observation, reward, info)
        self._labels.append(None)
        settled: tuple[RoleLabel, ...] = info.get("role_labels", ())
        for label in settled:
            self._labels[label.step] = label
        if self._worth is not None:
            reward = float(reward) + sum(self._worth[label.role] for label in settled if label.role is not None)
        if terminated or truncated:
            info = {**info, **self._end(info, bool(terminated), bool(truncated))}
        else:
            self._running = True
        return observation, reward, terminated, truncated, info

    def _check_retry(self, group_id: str | None, trial_id: str | None, options: dict[str, Any]) -> None:
        asked = options.get("retry") is not None or options.get("reflection") is not None
        if group_id is not None and not asked and group_id != self._group_id:
            raise GroupError(
                f"Expected the retry of an attempt of group {self._group_id!r} to stay there, got group {group_id!r}; "
                'PivotRetryWrapper(auto=True) below made a retry of this reset: add "retry": False or a seed to begin '
                'afresh, or "retry": True to have the retry in that group'
            )
        if trial_id is not None and trial_id != self._trial:
            raise GroupError(
                f"Expected the retry of an attempt of trial {self._trial!r} to stay in it, got trial_id {trial_id!r}; "
                'drop the trial_id, or add "retry": False or a seed to begin another trial'
            )

    def pop_incomplete(self) -> list[Group]:
        """The groups that are not whole, oldest first; the wrapper forgets them.

        Raises:
            InputError: Without a ``group_size``, when there are no groups here.
        """
        if self._ledger is None:
            raise InputError("Expected a wrapper with `group_size`, got one that leaves grouping to its caller")
        return self._ledger.pop_incomplete()

    def _end(self, info: dict[str, Any], terminated: bool, truncated: bool) -> dict[str, Any]:
        success, score = self._read_outcome(info, self._attempt.total_reward, terminated, self.env)
        record = self.last_record = self._record(success, score, terminated, truncated)
        found: dict[str, Any] = {"episode_record": record}
        group = None if self._ledger is None else self._ledger.add(record)
        if group is not None:
            advantages = tuple(np.array(a, dtype=np.float64) for a in self._rule.get()(group.records))
            for array in advantages:
                array.setflags(write=False)
            found |= {"group": group, "group_advantages": advantages}
        return found

    def _record(self, success: bool, score: float, terminated: bool, truncated: bool) -> EpisodeRecord:
        labels: tuple[RoleLabel, ...] = ()
        if any(label is not None for label in self._labels):
            labels = tuple(label or RoleLabel(k, None, status="unjudged") for k, label in enumerate(self._labels))
        return self._attempt.record(
            group_id=self._group_id,
            trial=self._trial,
            domain=self._domain,
            labels=labels,
            success=success,
            score=score,
            terminated=terminated,
            truncated=truncated,
        )


def _name_in(options: dict[str, Any] | None, key: str) -> str | None:
    """The name that the options give under ``key``, as text."""
    given = None if options is None else options.get(key)
    if given is not None and (not isinstance(given, str | int | np.integer) or isinstance(given, bool)):
        raise InputError(f'Expected options["{key}"] to be text or a whole number, got {given!r}')
    return None if given is None else str(given)


def _group_name(attempt: Attempt, seed: int | None, options: dict[str, Any] | None) -> str:
    chosen = (options or {}).get("task_id")
    if seed is not None:
        return f"seed={seed}" if chosen is None else f"seed={seed},task={chosen}"
    return f"start={fingerprint([attempt.task_id, attempt.start_observation])}"


def _worth(rule: Any) -> dict[Role, float]:
    """λ times the worth of each role."""
    constants = (
        (rule.good, rule.good, rule.bad, rule.bad) if isinstance(rule, Scalar) else getattr(rule, "constants", None)
    )
    without_roles = isinstance(rule, TurnOptions) and not rule.triage
    lam = getattr(rule, "lam", None)
    if constants is None or lam is None or without_roles or isinstance(rule, ShuffledTriage):
        raise InputError(
            f"Expected a rule that gives single roles a worth for as_reward=True, got {type(rule).__name__}; "
            'choose credit="triage", "scalar" or "roles-only"'
        )
    beyond = [name for name in ("soft", "magnitude", "capped", "guard") if getattr(rule, name, False)]
    if beyond:
        raise InputError(
            f"Expected a rule that gives single roles a worth for as_reward=True, got one with `{beyond[0]}`, whose worth "
            "depends on more than the role; train on group_advantages or drop that option"
        )
    return {role: float(lam) * worth for role, worth in worth_of(constants).items()}
