"""RoleJudgeWrapper: each step's role, told as soon as it is final, once, and never written into an earlier info.

A segment's role depends on what follows it (at most ``future`` turns), so labels come late: a *settled stream*. What
happens below is never touched: rewards, observations and every info key stay as they are. What it leaves to you: to
place it where it sees the end, that is *outside* of the time limit. A limit further out cuts the tail off; then call
:meth:`RoleJudgeWrapper.flush`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, SupportsFloat

import gymnasium as gym
from gymnasium import logger
from gymnasium.utils import RecordConstructorArgs

from triage_gym.errors import InputError
from triage_gym.facts import FactsMeter
from triage_gym.judges.labelling import label_steps
from triage_gym.judges.nesting import facts_needed
from triage_gym.protocols import Facts, Judge
from triage_gym.records import RoleLabel
from triage_gym.reflection.expert import succeeded
from triage_gym.restore.stack import has_time_limit
from triage_gym.restore.values import text_of
from triage_gym.windows import FACTS, domain_of, outcome_text_of
from triage_gym.wrappers._attempt import Attempt
from triage_gym.wrappers._outcome import OutcomeReader
from triage_gym.wrappers._plugin import Plugin

Settle = Literal["window", "episode"]
SETTLE: Final[tuple[Settle, ...]] = ("window", "episode")


class RoleJudgeWrapper(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Labels every step with its role (D, E, N or R) in ``info["role_labels"]``, late but final.

    ``info["role_labels"]`` is a tuple of frozen :class:`~triage_gym.records.RoleLabel` in every info, often empty: the
    labels that became final at this step. With ``settle="window"`` the label of step k comes with step k + ``future``
    and the rest with the last step; with ``settle="episode"`` all come with the last step, from one call of the judge.
    Each step's label comes exactly once, in order. After a retry (PivotRetryWrapper below) the steps of the prefix are
    not labelled again. A judge that fails gives labels with ``role=None`` and ``status="failed"``, never an exception.
    An attempt that is reset before its end takes its unsettled labels with it.

    The judge sees text only: never rewards, ``success`` or what the environment declares as telling the outcome
    (TRIAGE, arXiv:2606.32017).

    Args:
        env: The environment, with its time limit inside.
        judge: A registered name, a ``"module:attr"`` path or a config dict, resolved at the first reset. ``"rule"`` falls
            back, with a warning, on rules that know no task where it has none for ``metadata["domain"]``. A
            :class:`~triage_gym.protocols.Judge` object works too; it is shared, never copied, and then the spec has no
            JSON form.
        past: Turns that the judge sees before a segment.
        future: Turns that it sees after it, and the delay of the labels.
        settle: When labels are made.

    Raises:
        InputError: For an unknown judge, a negative ``past`` or ``future`` or an unknown ``settle``.

    Example:
        >>> env = RoleJudgeWrapper(gym.make("triage_gym:triage/ALFWorld-v0"))  # doctest: +SKIP
        >>> observation, info = env.reset(seed=1)  # doctest: +SKIP
        >>> info["role_labels"]  # doctest: +SKIP
        ()
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        judge: str | dict[str, Any] | Judge = "rule",
        past: int = 5,
        future: int = 5,
        settle: Settle = "window",
    ) -> None:
        if past < 0 or future < 0:
            raise InputError(f"Expected `past` and `future` to be at least 0, got {past} and {future}")
        if settle not in SETTLE:
            raise InputError(f"Expected `settle` to be one of {SETTLE}, got {settle!r}")
        self._judge = Plugin("judges", judge, lambda x: isinstance(x, Judge), "an object with a judge method")
        RecordConstructorArgs.__init__(self, judge=self._judge.recorded, past=past, future=future, settle=settle)
        gym.Wrapper.__init__(self, env)
        if not has_time_limit(env):
            logger.warn(
                "RoleJudgeWrapper found no time limit inside: one that is further out would cut the last labels off. "
                "Put gymnasium.wrappers.TimeLimit inside, or call flush() when the episode is cut"
            )
        self._past, self._future, self._settle = past, future, settle
        self._domain, self._outcome_text = domain_of(self.metadata), outcome_text_of(self.metadata)
        self._attempt = Attempt()
        self._meter: FactsMeter | None = None
        self._read_outcome: OutcomeReader | None = None
        self._next = 0
        self._running = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an attempt; what was not settled of the one before is dropped."""
        self._running = False
        # A judge whose config does not fit is refused here, not at the first label.
        judge = self._judge.get()
        if callable(getattr(judge, "select", None)):
            if self._settle == "window":
                raise InputError(
                    f'Expected settle="episode" with {type(judge).__name__}, which selects turns of whole attempts, '
                    'got settle="window"'
                )
            self._read_outcome = self._read_outcome or OutcomeReader("RoleJudgeWrapper", compares=False)
        names = facts_needed(judge)
        if self._meter is None and names:
            self._meter = FactsMeter(self.env, names)
        observation, info = self.env.reset(seed=seed, options=options)
        self._attempt.begin(observation, info, seed)
        self._next = self._attempt.prefix_length
        if self._meter is not None:
            self._meter.begin(text_of(observation), self._next)
        self._running = True
        return observation, {**info, "role_labels": ()}

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and hand out the labels that became final.

        Raises:
            ResetNeeded: Before the first reset and after the end of an attempt.
        """
        if not self._running:
            raise gym.error.ResetNeeded("Cannot call env.step() before env.reset() or after the end; call env.reset()")
        observation, reward, terminated, truncated, info = self.env.step(action)
        ended = terminated or truncated
        # A step that cannot be recorded ends the attempt: those after it would be labelled by the wrong index.
        self._running = False
        known = info
        if self._meter is not None:
            total = self._attempt.total_reward + float(reward)
            won = succeeded(info, total, terminated=True) if terminated else None
            facts = self._meter.step(text_of(observation), cut=bool(truncated) and not terminated, won=won)
            known = {**info, FACTS: _filled(info.get(FACTS), facts)}
        self._attempt.add(action, observation, reward, known)
        self._running = not ended
        done = len(self._attempt.segments)
        if ended and self._read_outcome is not None:
            success, _ = self._read_outcome(info, self._attempt.total_reward, bool(terminated), self.env)
            labels = self._labels_until(done, success)
        elif ended:
            labels = self._labels_until(done)
        elif self._settle == "window":
            labels = self._labels_until(done - self._future)
        else:
            labels = ()
        return observation, reward, terminated, truncated, {**info, "role_labels": labels}

    def flush(self) -> tuple[RoleLabel, ...]:
        """The labels of all steps that have none yet, judged on what has been seen so far.

        For callers that end an attempt themselves. The labels are not handed out again, so a SegmentCreditWrapper
        further out never gets them: in its record, should the attempt go on, these steps are unjudged.
        """
        return self._labels_until(len(self._attempt.segments))

    def _labels_until(self, end: int, success: bool = False) -> tuple[RoleLabel, ...]:
        """Labels of the steps that have none yet; ``success`` is for judges that select turns by it, and for no other."""
        if end <= self._next:
            return ()
        steps, self._next = range(self._next, end), end
        record = self._attempt.record(group_id="", domain=self._domain, success=success)
        return tuple(label_steps(record, self._judge.get(), steps, self._past, self._future, self._outcome_text))


def _filled(found: Any, measured: Facts) -> Any:
    """The facts that came from below, with what was measured here where those know nothing."""
    if not isinstance(found, Mapping):
        return measured._asdict() if found is None else found
    return {**measured._asdict(), **{name: value for name, value in found.items() if value is not None}}
