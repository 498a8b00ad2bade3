"""PivotRetryWrapper: after a failed attempt, an episode that begins at the turn where it went wrong.

A retry is an episode of its own, begun by ``reset``; ``step`` never jumps. The failed attempt ends as what it is, so
every wrapper outside sees ordinary episodes. The way back is :class:`triage_gym.restore.Restorer`'s and is verified.

What it leaves to you: the order. The time limit goes inside (then the budget comes back with the prefix), judge and
credit go outside (then a prefix is never judged twice): ``SegmentCredit(RoleJudge(PivotRetry(TimeLimit(env))))``.
A new attempt sees the same noise as the one before it; only the actions make the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Literal, SupportsFloat, get_args

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from triage_gym.errors import InputError
from triage_gym.records import EpisodeRecord, Reflection, RetryFrom, Snapshot
from triage_gym.reflection.expert import expert_distance, why_no_distance
from triage_gym.reflection.reflectors import OracleReflector
from triage_gym.reflection.verification import Verdict
from triage_gym.restore.restorer import Choice, Restorer, Rewound
from triage_gym.restore.stack import layers
from triage_gym.windows import domain_of
from triage_gym.wrappers._checking import Checking
from triage_gym.wrappers._outcome import OutcomeReader
from triage_gym.wrappers._reflecting import OPTIONS, Reflecting, Request, failed_record, requested
from triage_gym.wrappers.role_judge import RoleJudgeWrapper
from triage_gym.wrappers.segment_credit import SegmentCreditWrapper

Phase = Literal["new", "running", "failed", "succeeded", "broken"]
After = Literal["failure", "any"]
"""Which attempts may be retried."""
COUNTS: Final = (
    "retries", "malformed_reflections", "failed_reflectors", "moved_pivots", "failed_checks", "restarts", "mismatches",
    "replayed_turns", "checked_turns",
)  # fmt: skip


class PivotRetryWrapper(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Retries a failed attempt from the turn where it went wrong, as a new episode begun by ``reset``.

    ``reset(options={"retry": k})`` keeps the first k turns of the failed attempt and acts anew from there;
    ``{"retry": True}`` asks the reflector for k. ``{"reflection": text}`` retries as the policy's own words say; malformed
    words are counted by kind (:attr:`malformed`) and give a full restart. ``{"turn_facts": [{"entropy": 0.3}, …]}``, one
    mapping for each turn of the failed attempt, is merged into the infos of the segments that the reflector sees. k is
    clamped to the attempt. With ``auto=True`` a bare ``reset()`` after a failed attempt retries until the attempts have
    run out, so any loop and any vector environment retries by itself; ``{"retry": False}``, a seed or an option for the
    environment still begins afresh.

    Every reset's info has, always with the same types:

    - ``attempt`` (int, 0 for the first), ``pivot_step`` (int, the first turn acted anew, -1 for the first attempt),
      ``prefix_length`` (int), ``prefix_return`` (float);
    - ``restore_status`` (``"none"``, ``"verified"``, ``"restarted"``: the point did not come back and the attempt began
      from its start, ``"mismatch"``: nor did the start, do not train this attempt) and ``restore_strategy`` (str);
    - ``reflection`` (str, the remark), ``reflection_pivot`` (int, the turn it names, -1 for none), ``reflection_source``
      (str, who), ``reflection_text`` (str, words as written) and ``reflection_problem`` (str, what was wrong with them);
    - ``pivot_check`` (``"none"``, ``"passed"``, ``"moved"``: an earlier turn passed, ``"failed"``: no turn passed and the
      reflected one is kept) and ``oracle_pivot`` (int, -1 unless measured).

    The observation is the one at the pivot; keys that only steps have are left out of the info.

    Pivotal retry after PivoARL (arXiv:2607.03702), where failures alone are retried; ``after="any"`` also goes back into a
    success, which is how what an action was worth is measured: continuations from the same point, whatever came of the
    first one, are unbiased, those after failures are not. An attempt has failed when it ended without success (``success`` in
    its last info, see :class:`~triage_gym.wrappers._outcome.OutcomeReader`).

    Args:
        env: The environment, with its time limit inside.
        reflector: ``"policy"`` (each retry brings the policy's words), ``"role"`` (earliest R of the rule judge),
            ``"random"``, ``"restart"``, ``"oracle"`` (needs an expert that tells distances), any other registered name, a
            path to a class or to a function of a record, a config dict such as
            ``{"name": "role", "judge": "module:MyJudge"}``, a :class:`~triage_gym.protocols.Reflector` or any function of
            a record (the last two are shared, never copied, and leave the spec without a JSON form). None: pivots
            come from the caller, and a retry without one is a full restart.
        max_attempts: Attempts at one task, the first included.
        auto: Whether a bare ``reset()`` after a failed attempt is a retry.
        restore: How to go back: ``"auto"`` takes the first that holds of ``"native"``, ``"copy"``, ``"replay"`` and
            ``"restart"``; one of these names takes only that.
        snapshot_every: Turns between two kept states. Larger costs less a step, and more a retry.
        retry_from: ``"pivot"``, or ``"start"``: the same reflection and remark, but the whole task anew (as LaMer,
            arXiv:2512.16848, does it).
        measure_oracle: Tell at each retry the turn that the environment's expert would have named. Asks the expert at
            every turn, which costs what the expert costs.
        verify: Test a pivot before it is used, and move one that fails half of the way to the start, again and again:
            ``"oracle"`` (the expert reaches the goal from there in the turns that are left), ``"rollouts"`` (one of
            three cheap rollouts does), a path, a config dict such as ``{"name": "rollouts", "k": 5, "player":
            "random"}`` or a :class:`~triage_gym.reflection.verification.PivotCheck`.
        after: ``"failure"``, or ``"any"`` to allow retries of a success too, when ``reset`` asks for them.

    Raises:
        InputError: For bad arguments, ``auto`` together with ``after="any"`` (a bare reset would never begin afresh), a ``restore`` that the stack cannot do, or a judge, credit or retry wrapper inside.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        reflector: str | dict[str, Any] | Any = None,
        max_attempts: int = 3,
        auto: bool = False,
        restore: Choice = "auto",
        snapshot_every: int = 8,
        retry_from: RetryFrom = "pivot",
        measure_oracle: bool = False,
        verify: str | dict[str, Any] | Any = None,
        after: After = "failure",
    ) -> None:
        if after not in get_args(After):
            raise InputError(f"Expected `after` to be one of {get_args(After)}, got {after!r}")
        if auto and after == "any":
            raise InputError('Expected after="failure" with auto=True, got after="any": a bare reset() would never end')
        _check_numbers(max_attempts=max_attempts, snapshot_every=snapshot_every)
        _check_flags(auto=auto, measure_oracle=measure_oracle)
        if retry_from not in ("pivot", "start"):
            raise InputError(f'Expected `retry_from` to be "pivot" or "start", got {retry_from!r}')
        _check_order(env)
        self._reflecting = Reflecting(reflector)
        if auto and self._reflecting.is_policy:
            raise InputError(
                'Expected auto=False with reflector="policy", got auto=True: a bare reset() brings no words; call '
                'reset(options={"reflection": text}), or choose another reflector'
            )
        if verify is not None and retry_from == "start":
            raise InputError('Expected no `verify` with retry_from="start", got both: no pivot is gone back to')
        self._checking = None if verify is None else Checking(verify)
        RecordConstructorArgs.__init__(
            self,
            reflector=self._reflecting.recorded,
            max_attempts=max_attempts,
            auto=auto,
            restore=restore,
            snapshot_every=snapshot_every,
            retry_from=retry_from,
            measure_oracle=measure_oracle,
            verify=None if self._checking is None else self._checking.recorded,
            after=after,
        )
        gym.Wrapper.__init__(self, env)
        self._max_attempts, self._auto = max_attempts, auto
        self._retried: tuple[Phase, ...] = ("failed",) if after == "failure" else ("failed", "succeeded")
        self._from_start, self._measures = retry_from == "start", measure_oracle
        self._restorer = Restorer(env, restore, snapshot_every)
        self._read_outcome = OutcomeReader("PivotRetryWrapper", compares=False)
        self._phase: Phase = "new"
        self._number, self._pivot = 0, -1
        self._success, self._score = False, 0.0
        self._needs_distance = False
        self._distances: list[Any] = []
        self._counts = dict.fromkeys(COUNTS, 0)

    @property
    def counts(self) -> dict[str, int]:
        """How often things happened since construction: retries, malformed reflections, restarts, mismatches, …"""
        return {
            **self._counts,
            "malformed_reflections": sum(self.malformed.values()),
            "failed_reflectors": self._reflecting.failures,
            "replayed_turns": self._restorer.walked,
            "checked_turns": 0 if self._checking is None else self._checking.turns,
        }

    @property
    def malformed(self) -> dict[str, int]:
        """How often words were malformed, by kind (the names of :mod:`triage_gym.reflection.parsing`)."""
        return dict(self._reflecting.problems)

    @property
    def restore_reasons(self) -> dict[str, str]:
        """Strategies that this stack cannot use, with the reason."""
        return dict(self._restorer.reasons)

    @property
    def drew(self) -> bool:
        """Whether the environment has drawn random numbers since the episode began; a retry sees the same ones again."""
        return self._restorer.drew

    def check_ready(self) -> bool:
        """Refuse now what the first reset would refuse; no environment is stepped or reset for it.

        Returns:
            Whether the environment's expert will be asked at every turn.

        Raises:
            InputError: If the reflector or the check of pivots cannot be built, or an expert is to be asked and the
                environment has none; or ``auto`` with a reflector that reads what only options bring.
        """
        needs_distance = self._reflecting.prepare(self.metadata, self._auto) or self._measures
        problem = why_no_distance(self.env) if needs_distance else ""
        if problem:
            raise InputError(
                f"Expected an expert to ask for the pivot, but {problem}; or choose another reflector than the oracle, "
                "and measure_oracle=False"
            )
        if self._checking is not None:
            self._checking.prepare(self.env)
        return needs_distance

    def snapshot(self) -> Snapshot:
        """The point where the episode stands now, in a form that any process can read.

        :func:`triage_gym.restore.restore` brings an environment there.
        """
        return self._restorer.snapshot()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a fresh episode, or a retry when ``options`` (or ``auto``) say so.

        Raises:
            ValueError: For a retry together with a seed or with options for the environment, malformed options, or a
                retry without the words that ``reflector="policy"`` means.
            ResetNeeded: For a retry when no attempt has just failed, or the attempts have run out.
        """
        asked = requested(options or {})
        rest = None if options is None else {k: v for k, v in options.items() if k not in OPTIONS}
        if asked.retry is None and self._auto and seed is None and not rest and not self._why_no_retry():
            asked = asked._replace(retry=True)
        if asked.retry is None or asked.retry is False:
            if asked.turn_facts is not None:
                raise InputError("Expected `turn_facts` with a retry, got them for a fresh episode; drop them")
            return self._fresh(seed, rest)
        if seed is not None:
            raise InputError(
                f"Expected a retry or a seed, got both (seed={seed}); a seed begins a fresh episode, drop one of them"
            )
        if rest:
            raise InputError(
                f"Expected a retry without options for the environment, got also {sorted(rest)}; drop them"
            )
        why = self._why_no_retry()
        if why:
            raise gym.error.ResetNeeded(f"There is nothing to retry: {why}; call reset() without a retry")
        turns = len(self._restorer.turns)
        if asked.turn_facts is not None and len(asked.turn_facts) != turns:
            raise InputError(
                f"Expected `turn_facts` with one mapping for each of the {turns} turns of the failed attempt, its prefix "
                f"included, got {len(asked.turn_facts)}"
            )
        self._reflecting.check(asked, self.metadata)
        return self._retry(asked)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step the environment; what it answers is passed on as it is.

        Raises:
            ResetNeeded: Before the first reset and after the end of an attempt.
        """
        if self._phase != "running":
            raise gym.error.ResetNeeded("Cannot call env.step() before env.reset() or after the end; call env.reset()")
        # An environment that raises leaves an attempt of which nothing can be said: it cannot be retried.
        self._phase = "broken"
        result = self._restorer.step(action)
        if self._needs_distance:
            self._distances.append(expert_distance(self.env))
        if result[2] or result[3]:
            total = sum(turn.reward for turn in self._restorer.turns)
            self._success, self._score = self._read_outcome(result[4], total, bool(result[2]), self.env)
            self._phase = "succeeded" if self._success else "failed"
        else:
            self._phase = "running"
        return result

    def _why_no_retry(self) -> str:
        """Why there is nothing to retry now; empty when there is."""
        if self._phase not in self._retried:
            return {
                "new": "no attempt was made yet",
                "running": "the attempt has not ended yet",
                "succeeded": 'the last attempt was a success, and after="failure"',
                "broken": "the environment failed in the last attempt",
            }[self._phase]
        if self._number + 1 >= self._max_attempts:
            return f"all {self._max_attempts} attempts have been made"
        return ""

    def _fresh(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        self._phase = "broken"
        needs_distance = self.check_ready()
        observation, info = self._restorer.reset(seed=seed, options=options)
        self._number, self._pivot = 0, -1
        self._needs_distance = needs_distance
        self._distances = [expert_distance(self.env)] if needs_distance else []
        self._phase = "running"
        return observation, {**info, **self._facts()}

    def _retry(self, asked: Request) -> tuple[Any, dict[str, Any]]:
        # Made once, and only for who reads it: a record costs more than the way back.
        record = cache(lambda: self._record(asked))
        reflection = self._reflecting.reflect(asked, len(self._restorer.turns), record, self.metadata)
        oracle_pivot = OracleReflector().reflect(record()).pivot if self._measures else -1
        pivot, verdict, visited = self._settled(reflection, record)
        self._phase = "broken"
        rewound = self._restorer.rewind(pivot, visited)
        self._number += 1
        self._pivot = rewound.prefix_length
        del self._distances[rewound.prefix_length + 1 :]
        self._counts["retries"] += 1
        self._counts["restarts"] += rewound.status == "restarted"
        self._counts["mismatches"] += rewound.status == "mismatch"
        self._phase = "running"
        return rewound.observation, {**rewound.info, **self._facts(rewound, reflection, verdict, oracle_pivot)}

    def _settled(
        self, reflection: Reflection, record: Callable[[], EpisodeRecord]
    ) -> tuple[int, Verdict, Rewound | None]:
        """Where the retry begins, what the check of it said, and where the stack stands already."""
        if self._from_start or self._checking is None:
            return 0 if self._from_start else reflection.pivot, "none", None
        settled = self._checking.settle(reflection.pivot, record(), self._restorer, self._succeeded)
        self._counts["moved_pivots"] += settled.verdict == "moved"
        self._counts["failed_checks"] += settled.verdict == "failed"
        return settled

    def _succeeded(self, info: Mapping[str, Any], total: float, terminated: bool) -> bool:
        return self._read_outcome(info, total, terminated, self.env)[0]

    def _facts(
        self,
        rewound: Rewound | None = None,
        reflection: Reflection | None = None,
        verdict: Verdict = "none",
        oracle_pivot: int = -1,
    ) -> dict[str, Any]:
        """What every reset's info tells, always with the same types."""
        said = reflection or Reflection("", -1)
        return {
            "attempt": self._number,
            "pivot_step": self._pivot,
            "prefix_length": max(self._pivot, 0),
            "prefix_return": float(sum(turn.reward for turn in self._restorer.turns)),
            "restore_status": "none" if rewound is None else rewound.status,
            "restore_strategy": "none" if rewound is None else rewound.strategy,
            "reflection": said.remark,
            "reflection_pivot": said.pivot,
            "reflection_source": said.source,
            "reflection_text": said.text,
            "reflection_problem": said.problem,
            "pivot_check": verdict,
            "oracle_pivot": oracle_pivot,
        }

    def _record(self, asked: Request) -> EpisodeRecord:
        """The failed attempt, for the reflector."""
        return failed_record(
            self._restorer.start,
            self._restorer.turns,
            self._distances,
            asked.turn_facts,
            attempt=self._number,
            parent=self._number - 1,
            pivot=self._pivot,
            prefix_length=max(self._pivot, 0),
            domain=domain_of(self.metadata),
            score=self._score,
            success=self._success,
        )


def _check_numbers(**given: Any) -> None:
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"Expected `{name}` to be a whole number of at least 1, got {value!r}")


def _check_flags(**given: Any) -> None:
    for name, value in given.items():
        if not isinstance(value, bool | np.bool_):
            raise InputError(f"Expected `{name}` to be True or False, got {value!r}")


def _check_order(env: gym.Env[Any, Any]) -> None:
    outer = (PivotRetryWrapper, RoleJudgeWrapper, SegmentCreditWrapper)
    wrong = [type(layer).__name__ for layer in layers(env) if isinstance(layer, outer)]
    if wrong:
        raise InputError(
            f"Expected {wrong[0]} outside of PivotRetryWrapper, got it inside; "
            "the order is SegmentCreditWrapper(RoleJudgeWrapper(PivotRetryWrapper(TimeLimit(env))))"
        )
