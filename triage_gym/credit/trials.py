"""Credit rules for trials, in which a failed attempt is retried: PivoARL and what it is compared with.

With g and G as in :mod:`triage_gym.credit.returns` and A_i the outcome term of GRPO::

    PivoARL, MetaRL, base="grpo"    (G_t - μ) / σ          μ, σ over the group's rollouts, each weighing the same
    PivoARL, MetaRL, base="gigpo"   A_i + ω (G_t - mean) / std    over the group's turns at the same observation
    GiGPO                           the same with g_t instead of G_t
    R3L                             amplified A_i from the pivot on, nothing before it, + ω A^S for base="gigpo"

``triage=True`` adds λ c[role] (``"pivoarl+triage"``). All attempts of all trials are rollouts of their group. Segments
that a retry copied are trained in the attempt that acted them and nowhere else. What is excluded, copied or unjudged is
said in :mod:`triage_gym.credit.terms`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, cast, final, get_args

import numpy as np
from numpy.typing import NDArray

from triage_gym.credit.baselines import against_anchors, against_rollouts, standardise
from triage_gym.credit.batch import NONE, Segments
from triage_gym.credit.outcome import against_group
from triage_gym.credit.returns import (
    Returns,
    Variant,
    across_attempts,
    at_start,
    discounted,
    next_attempts,
    paid_turns,
)
from triage_gym.credit.rules import (
    CONSTANTS,
    GroupNorm,
    RuleOptions,
    check_bool,
    check_choice,
    check_constants,
    check_worth_options,
)
from triage_gym.credit.terms import Raw, check_number
from triage_gym.credit.worth import CAPS, segment_worths
from triage_gym.errors import InputError
from triage_gym.records import POLICY, EpisodeRecord, RetryFrom

Base = Literal["grpo", "gigpo"]
Anchor = Literal["exact", "similar"]
ReflectionReturn = Literal["attempt", "trial"]
ReflectionBaseline = Literal["batch", "group"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnOptions(RuleOptions):
    """Every rule that credits turns rather than whole rollouts, with roles on top if asked."""

    attempts: ClassVar[int] = 1
    """Attempts at a task that a trainer makes unless told otherwise."""
    retry_from: ClassVar[RetryFrom] = "pivot"
    """Where a trainer's retries begin unless told otherwise."""

    norm: GroupNorm = "mean_std"
    """``mean_std``, or ``mean`` to leave out the division; for every comparison that the rule makes."""
    returns: Returns = "outcome"
    """What turns are paid with, see :func:`~triage_gym.credit.returns.turn_rewards`."""
    gamma_step: float = 0.95
    """Discount a turn, in [0, 1]."""
    omega: float = 1.0
    """Weight ω of the term from turns at the same observation."""
    triage: bool = False
    """Add the weighted worth of the segment's role; the records then need labels."""
    lam: float = 0.2
    """Weight λ of the role term. 0 is the rule without."""
    constants: tuple[float, float, float, float] = CONSTANTS
    """Worth of D, E, N, R."""
    soft: bool = False
    """Weigh all four roles by the judge's probabilities; as the next three, see :mod:`triage_gym.credit.worth`."""
    magnitude: bool = False
    """Multiply with the judge's magnitude."""
    capped: bool = False
    """Bound what an attempt collects for its labels."""
    caps: tuple[float, float, float] = CAPS
    """Most that it collects for D, E and R with ``capped``."""

    def __post_init__(self) -> None:
        RuleOptions.__post_init__(self)
        check_choice("norm", self.norm, get_args(GroupNorm))
        check_choice("returns", self.returns, get_args(Returns))
        check_number("gamma_step", self.gamma_step, least=0.0, most=1.0)
        check_number("omega", self.omega, least=0.0)
        check_bool("triage", self.triage)
        check_number("lam", self.lam, least=0.0)
        check_constants(self.constants)
        check_worth_options(self)
        idle = [name for name in ("soft", "magnitude", "capped") if getattr(self, name) and not self.triage]
        if idle:
            raise InputError(f"Expected `triage` with `{idle[0]}`, got a rule without roles; add triage=True (+triage)")

    @property
    def needs_labels(self) -> bool:
        """Whether something must judge the segments first."""
        return self.triage

    def raw(self, segments: Segments) -> Raw:
        """The credit of each turn, and what its label is worth where roles are added."""
        worth = None
        if self.triage:
            caps = self.caps if self.capped else None
            worth = segment_worths(segments, self.constants, soft=self.soft, magnitude=self.magnitude, caps=caps)
        return Raw(self.isolated(segments), worth, self.lam, trained=self.trained(segments))

    @abstractmethod
    def isolated(self, segments: Segments) -> NDArray[np.float64]:
        """Credit before roles, shape ``(segments,)``."""

    def trained(self, segments: Segments) -> NDArray[np.bool_]:
        """The turns that are trained, shape ``(segments,)``."""
        return segments.trained

    def base_outcome(self, segments: Segments) -> NDArray[np.float64]:
        """A^E, the outcome term of each segment's rollout."""
        return segments.on_segments(against_group(*segments.grouping, self.norm, self.eps))

    def with_anchors(
        self, outcome: NDArray[np.float64], returns: NDArray[np.float64], segments: Segments
    ) -> NDArray[np.float64]:
        """A^E + ω A^S of GiGPO, from the outcome term a segment and the returns of turns."""
        return outcome + self.omega * against_anchors(
            returns, self.anchors(segments), self.trained(segments), self.norm, self.eps
        )

    def anchors(self, segments: Segments) -> NDArray[np.int64]:
        """What turns of a group are compared by."""
        return segments.anchor

    def inside(self, segments: Segments) -> NDArray[np.float64]:
        """g of each turn, its return inside the attempt."""
        return discounted(paid_turns(segments, self.returns), segments.lengths, self.gamma_step)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class GiGPO(TurnOptions):
    """Outcome term plus ω times the turn's return against those from the same observation (GiGPO, arXiv:2505.10978).

    Returns stay inside the attempt.
    """

    anchor: Anchor = "exact"
    """``exact``: turns from the same observation are compared; ``similar``: from observations that are alike. Not fast."""
    similarity: float = 0.9
    """How alike, as difflib's ratio in (0, 1], as verl-agent's search task has it."""

    def __post_init__(self) -> None:
        TurnOptions.__post_init__(self)
        check_choice("anchor", self.anchor, get_args(Anchor))
        check_number("similarity", self.similarity, above=0.0, least=0.0, most=1.0)

    def anchors(self, segments: Segments) -> NDArray[np.int64]:
        """What turns of a group are compared by."""
        return segments.anchor if self.anchor == "exact" else segments.similar_anchor(self.similarity)

    def isolated(self, segments: Segments) -> NDArray[np.float64]:
        """A^E + ω A^S, shape ``(segments,)``."""
        return self.with_anchors(self.base_outcome(segments), self.inside(segments), segments)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialOptions(TurnOptions):
    """Every rule that looks across the attempts of a trial."""

    attempts: ClassVar[int] = 3

    base: Base = "grpo"
    """What the returns are compared with: the rollouts of the group, or turns at the same observation."""

    def __post_init__(self) -> None:
        TurnOptions.__post_init__(self)
        check_choice("base", self.base, get_args(Base))


@dataclass(frozen=True, kw_only=True, slots=True)
class AcrossAttempts(TrialOptions):
    """PivoARL and MetaRL: returns that reach into later attempts, and reflections paid by what came of them."""

    gamma_traj: float = 0.6
    """Discount an attempt, in [0, 1]."""
    reflection_return: ReflectionReturn = "attempt"
    """A reflection is paid the return of the next ``attempt`` from where it began, or of the rest of the ``trial``."""
    reflection_baseline: ReflectionBaseline = "batch"
    """Reflections are compared over the ``batch`` or within their ``group``, which often holds one or two."""

    def __post_init__(self) -> None:
        TrialOptions.__post_init__(self)
        check_number("gamma_traj", self.gamma_traj, least=0.0, most=1.0)
        check_choice("reflection_return", self.reflection_return, get_args(ReflectionReturn))
        check_choice("reflection_baseline", self.reflection_baseline, get_args(ReflectionBaseline))

    @abstractmethod
    def across(self, segments: Segments) -> NDArray[np.float64]:
        """G of each turn, shape ``(segments,)``."""

    def isolated(self, segments: Segments) -> NDArray[np.float64]:
        """The returns against the base, shape ``(segments,)``."""
        returns = self.across(segments)
        if self.base == "grpo":
            return against_rollouts(returns, segments, self.norm, self.eps)
        return self.with_anchors(self.base_outcome(segments), returns, segments)

    def reflections(self, records: Sequence[EpisodeRecord]) -> NDArray[np.float64]:
        """Advantage of the reflection that each record began with, shape ``(records,)``; 0 where none is trained.

        Trained are the policy's own, malformed ones as well: what the restart that they caused came to is what they
        were worth. The reward is the return from where the record began; it is compared over all trained reflections
        of the batch, each weighing the same. A group has one or two of them as a rule, too few for a mean that is not
        mostly the reflection itself; the baseline of a batch does not know how hard a task is, but pushes in no
        direction on the whole, since its advantages sum to 0.
        """
        segments = Segments(records)
        _ = segments.follows  # refuses what the rule itself refuses
        whole = self.across(segments) if self.reflection_return == "trial" else self.inside(segments)
        reward = at_start(segments, whole)
        bucket = np.full(len(records), -1, dtype=np.int64)
        numbers: dict[str, int] = {}
        for i, record in enumerate(records):
            if is_trained(record):
                name = record.group_id if self.reflection_baseline == "group" else ""
                bucket[i] = numbers.setdefault(name, len(numbers))
        return cast("NDArray[np.float64]", standardise(reward, bucket, self.norm, self.eps).astype(self.dtype))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class PivoARL(AcrossAttempts):
    """Turns before the pivot, which the next attempt kept, share in later attempts; those from it on do not.

    PivoARL, arXiv:2607.03702; the formulas are our reading of its prose.
    """

    def across(self, segments: Segments) -> NDArray[np.float64]:
        """G of each turn, shape ``(segments,)``."""
        return across_attempts(segments, "pivoarl", self.gamma_step, self.gamma_traj, returns=self.returns)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class MetaRL(AcrossAttempts):
    """All turns of a failed attempt share in later attempts (LaMer, arXiv:2512.16848); retries restart in full."""

    retry_from: ClassVar[RetryFrom] = "start"

    reflection_return: ReflectionReturn = "trial"
    """A reflection is paid the return of the rest of the ``trial``, as in LaMer, or of the next ``attempt`` alone."""
    variant: Variant = "paper"
    """The formula of the ``paper``, or of its ``code``, which also discounts by the turns left in the failed attempt."""

    def __post_init__(self) -> None:
        AcrossAttempts.__post_init__(self)
        check_choice("variant", self.variant, get_args(Variant))

    def across(self, segments: Segments) -> NDArray[np.float64]:
        """G of each turn, shape ``(segments,)``."""
        return across_attempts(segments, "metarl", self.gamma_step, self.gamma_traj, self.variant, self.returns)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class R3L(TrialOptions):
    """Nothing for turns before the pivot, in the failed attempt as in the retry; what went well is amplified.

    R3L, arXiv:2601.03715. R_max is the highest score of a group when it belongs to a ``success``; where outcomes are
    equal nothing is learnt (the paper has α there too; ours, so that only differences count).
    """

    norm: GroupNorm = "mean"
    """``mean`` as in the paper, or ``mean_std``; for every comparison that the rule makes."""
    alpha: float = 3.0
    """Amplification α of advantages above 0."""
    variant: Variant = "paper"
    """What a rollout with the highest score gets: α in the ``paper``, 1 in its ``code``."""

    def __post_init__(self) -> None:
        TrialOptions.__post_init__(self)
        check_number("alpha", self.alpha, least=0.0)
        check_choice("variant", self.variant, get_args(Variant))

    def trained(self, segments: Segments) -> NDArray[np.bool_]:
        """The turns from the pivot on."""
        found: NDArray[np.bool_] = segments.trained & (segments.place >= segments.kept[segments.owner])
        return found

    def isolated(self, segments: Segments) -> NDArray[np.float64]:
        """Amplified outcome from the pivot on, shape ``(segments,)``; the turns before it are not trained."""
        outcome = segments.on_segments(self.amplified(segments))
        if self.base == "grpo":
            return outcome
        return self.with_anchors(outcome, self.inside(segments), segments)

    def amplified(self, segments: Segments) -> NDArray[np.float64]:
        """Outcome term a rollout: α (or 1) for the maximum, α A for other A > 0, A for the rest; shape ``(rollouts,)``."""
        scores, group, count = segments.grouping
        outcome = against_group(scores, group, count, self.norm, self.eps)
        sound = group >= 0
        top = np.full(count + 1, -np.inf)  # the last is for excluded rollouts
        np.maximum.at(top, group[sound], scores[sound])
        best = sound & segments.success & (scores == top[group])
        amplified = np.where(outcome > 0.0, self.alpha * outcome, outcome)
        return np.where(best & segments.varies, 1.0 if self.variant == "code" else self.alpha, amplified)

    def reflections(self, records: Sequence[EpisodeRecord]) -> NDArray[np.float64]:
        """1 for a reflection of the policy that led from a failed attempt to a better, successful one, else 0.

        R3L imitates the reflections that helped and leaves out the others. Shape ``(records,)``.
        """
        helped = np.zeros(len(records), dtype=self.dtype)
        for i, after in enumerate(next_attempts(records)):
            if after != NONE and is_trained(records[after]):
                helped[after] = records[after].success and records[after].score > records[i].score
        return cast("NDArray[np.float64]", helped)


def is_trained(record: EpisodeRecord) -> bool:
    """Whether ``record`` began with a reflection that the policy itself wrote, and may be trained."""
    return record.error is None and record.reflection is not None and record.reflection.source == POLICY
