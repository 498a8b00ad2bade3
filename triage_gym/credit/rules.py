"""Credit rules: frozen configs that turn records into per-segment advantages. Pure, vectorised, repeatable.

With A_i the outcome term of rollout i in its group, c the worth of a role and λ its weight::

    GRPO     A_i = (R_i - mean) / std          RLOO    A_i = R_i - mean of the others
    Triage   A_i + λ c[role]                   Scalar  A_i ± λ/2, + for D and E, - for N and R

``Triage`` is TRIAGE (arXiv:2606.32017), which whitens over the batch's segments; so do ``Scalar`` and the controls, by
default. Whitening alone gives part of the gain: compare with ``GRPO(whiten=True)``. What is excluded, copied or unjudged
is said in :mod:`triage_gym.credit.terms`, the outcome term in :mod:`triage_gym.credit.outcome`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, final, get_args

import numpy as np
from numpy.typing import NDArray

from triage_gym.credit.batch import Segments, as_segments
from triage_gym.credit.outcome import EPS, against_group
from triage_gym.credit.terms import CreditTerms, DType, Raw, check_number, combine, split
from triage_gym.credit.worth import CAPS, check_caps, role_worths, segment_worths
from triage_gym.errors import InputError
from triage_gym.protocols import Advantages
from triage_gym.records import ROLES, EpisodeRecord, Role

CONSTANTS: Final = (1.0, 0.5, -0.1, -0.5)
"""Worth of D, E, N, R in the TRIAGE paper."""
GroupNorm = Literal["mean_std", "mean"]
Batch = Sequence[EpisodeRecord] | Segments
"""What rules take: records, or arrays."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleOptions(ABC):
    """Every rule: its options, and advantages out of its terms.

    Raises:
        InputError: For a value out of range.
    """

    whiten: bool = False
    """Whiten over the batch's segments."""
    eps: float = EPS
    """Least standard deviation to divide by."""
    dtype: DType = "float64"
    """Type of the returned arrays; everything is computed in float64."""

    def __post_init__(self) -> None:
        check_number("eps", self.eps, above=0.0)
        check_bool("whiten", self.whiten)
        check_choice("dtype", self.dtype, get_args(DType))

    @abstractmethod
    def raw(self, segments: Segments) -> Raw:
        """What the rule makes of a batch before whitening."""

    def flat(self, records: Batch) -> CreditTerms:
        """How the advantages of a batch came about, its segments laid end to end: no loop over rollouts."""
        segments = as_segments(records)
        return combine(segments, self.raw(segments), whitened=self.whiten, eps=self.eps, dtype=self.dtype)

    def terms(self, records: Batch) -> list[CreditTerms]:
        """How each record's advantages came about."""
        segments = as_segments(records)
        return split(self.flat(segments), segments)

    def __call__(self, records: Batch) -> Advantages:
        """Advantages, one array of shape ``(segments,)`` a record."""
        segments = as_segments(records)
        found = self.flat(segments).advantage
        return [found[start:stop].copy() for start, stop in segments.bounds]


# Slots make a new class of the one that `super()` would know, so each check names the one that goes before it.
@dataclass(frozen=True, kw_only=True, slots=True)
class RoleOptions(RuleOptions):
    """Every rule with a role term."""

    lam: float = 0.2
    """Weight λ of the role term: 0.2 for ALFWorld and WebShop, 0.4 for Search-QA in the paper. 0 is GRPO."""
    whiten: bool = True
    """Whiten over the batch's judged segments."""
    guard: bool = False
    """Use roles only in groups whose outcomes differ. Stops a lenient judge from teaching alone; costs the bootstrap."""
    after_whitening: bool = False
    """Whiten the outcome term alone and add λ c then, so that λ keeps its size where no outcome differs. Needs ``whiten``."""
    sign_guard: bool = False
    """Let no role lift a segment above 0 whose outcome term is below: a failure stays one, whatever its judge says."""

    def __post_init__(self) -> None:
        RuleOptions.__post_init__(self)
        check_number("lam", self.lam, least=0.0)
        for name in ("guard", "after_whitening", "sign_guard"):
            check_bool(name, getattr(self, name))
        if self.after_whitening and not self.whiten:
            raise InputError(
                "Expected `whiten` with `after_whitening`, got a rule that does not whiten; drop one of them"
            )

    def with_roles(self, segments: Segments, outcome: NDArray[np.float64], worths: NDArray[np.float64]) -> Raw:
        """Outcome term plus weighted worth of roles, by these options.

        Args:
            segments: The batch.
            outcome: Outcome term a rollout, shape ``(rollouts,)``.
            worths: Of each segment, NaN for unjudged ones, shape ``(segments,)``.
        """
        return Raw(
            segments.on_segments(outcome),
            worths,
            self.lam,
            segments.varies if self.guard else None,
            after_whitening=self.after_whitening,
            sign_guard=self.sign_guard,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeAndRoleOptions(RoleOptions):
    """Every rule that adds a role term to an outcome term."""

    norm: GroupNorm = "mean_std"
    """How the outcome term is normalised within a group."""

    def __post_init__(self) -> None:
        RoleOptions.__post_init__(self)
        check_choice("norm", self.norm, get_args(GroupNorm))

    def outcome(self, segments: Segments) -> NDArray[np.float64]:
        """Outcome term a rollout, shape ``(rollouts,)``."""
        return against_group(*segments.grouping, self.norm, self.eps)


def check_bool(name: str, value: Any) -> None:
    """Raise InputError unless ``value`` is True or False."""
    if not isinstance(value, bool):
        raise InputError(f"Expected `{name}` to be True or False, got {value!r}")


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raise InputError unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise InputError(f"Expected `{name}` to be one of {choices}, got {value!r}")


def check_constants(constants: Any) -> None:
    """Raise InputError unless ``constants`` are four finite numbers, the worth of D, E, N, R."""
    if not isinstance(constants, Sequence) or isinstance(constants, str) or len(constants) != len(ROLES):
        raise InputError(f"Expected `constants` to be the worth of {', '.join(ROLES)}, got {constants!r}")
    for role, worth in zip(ROLES, constants, strict=True):
        check_number(f"constants[{role}]", worth)


def check_worth_options(rule: Any) -> None:
    """Raise InputError unless ``soft``, ``magnitude``, ``capped`` and ``caps`` of ``rule`` are sound."""
    for name in ("soft", "magnitude", "capped"):
        check_bool(name, getattr(rule, name))
    check_caps(rule.caps)


def worth_of(constants: Sequence[float]) -> dict[Role, float]:
    """The worth of each role, from numbers in the order D, E, N, R."""
    return dict(zip(ROLES, map(float, constants), strict=True))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class GRPO(RuleOptions):
    """Group-relative outcome advantage on every segment (GRPO, arXiv:2402.03300)."""

    norm: GroupNorm = "mean_std"
    """``mean_std``, or ``mean`` for the variant without division."""

    def __post_init__(self) -> None:
        RuleOptions.__post_init__(self)
        check_choice("norm", self.norm, get_args(GroupNorm))

    def raw(self, segments: Segments) -> Raw:
        """The outcome term on every segment."""
        return Raw(segments.on_segments(against_group(*segments.grouping, self.norm, self.eps)))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class DrGRPO(RuleOptions):
    """Outcome less the group's mean, without division (Dr. GRPO, arXiv:2503.20783): groups that differ little weigh little.

    A_i = R_i - mean. A group of one and equal outcomes give 0.
    """

    def raw(self, segments: Segments) -> Raw:
        """The outcome term on every segment."""
        return Raw(segments.on_segments(against_group(*segments.grouping, "mean", self.eps)))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RLOO(RuleOptions):
    """Outcome less the mean outcome of the other rollouts, on every segment (RLOO, arXiv:2402.14740)."""

    def raw(self, segments: Segments) -> Raw:
        """The outcome term on every segment."""
        return Raw(segments.on_segments(against_group(*segments.grouping, "leave_one_out", self.eps)))


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Scalar(OutcomeAndRoleOptions):
    """The same judge's answer as one good/bad number: what the four roles must beat to be worth having."""

    good: float = 0.5
    """Worth of D and E."""
    bad: float = -0.5
    """Worth of N and R."""

    def __post_init__(self) -> None:
        OutcomeAndRoleOptions.__post_init__(self)
        check_number("good", self.good)
        check_number("bad", self.bad)

    def raw(self, segments: Segments) -> Raw:
        """Outcome term and the scalar of each segment."""
        worths = role_worths(segments.role, (self.good, self.good, self.bad, self.bad))
        return self.with_roles(segments, self.outcome(segments), worths)


@dataclass(frozen=True, kw_only=True, slots=True)
class Triage(OutcomeAndRoleOptions):
    """Outcome advantage plus λ times the worth of the segment's role (TRIAGE, arXiv:2606.32017).

    The options beyond the paper are worked out in :mod:`triage_gym.credit.worth`.
    """

    constants: tuple[float, float, float, float] = CONSTANTS
    """Worth of D, E, N, R."""
    soft: bool = False
    """Weigh all four roles by the judge's probabilities, where it gives them."""
    magnitude: bool = False
    """Multiply with the judge's magnitude, where it gives one."""
    capped: bool = False
    """Bound what an attempt collects for its labels, against a policy that farms the judge."""
    caps: tuple[float, float, float] = CAPS
    """Most that an attempt collects for D, E and R with ``capped``."""

    def __post_init__(self) -> None:
        OutcomeAndRoleOptions.__post_init__(self)
        check_constants(self.constants)
        check_worth_options(self)

    def raw(self, segments: Segments) -> Raw:
        """Outcome term and what each segment's label is worth."""
        caps = self.caps if self.capped else None
        worths = segment_worths(segments, self.constants, soft=self.soft, magnitude=self.magnitude, caps=caps)
        return self.with_roles(segments, self.outcome(segments), worths)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TriageSoft(Triage):
    """Triage with soft roles: A_i + λ Σ_r p(r) c[r], p being the judge's probabilities; c[role] where it gives none."""

    soft: bool = True
