"""Credit rules: frozen configs that turn records into per-segment advantages. Pure, vectorised, repeatable.

With A_i the outcome term of rollout i in its group, c the worth of a role and λ its weight::

    GRPO     A_i = (R_i - mean) / std          RLOO    A_i = R_i - mean of the others
    Triage   A_i + λ c[role]                   Scalar  A_i ± λ/2, + for D and E, - for N and R

``Triage`` is TRIAGE (arXiv:2606.32017), which whitens over the batch's segments; so do ``Scalar`` and the controls, by
default. Whitening alone gives part of the gain: compare with ``GRPO(whiten=True)``. What is excluded, copied or unjudged
is said in :mod:`triage_gym.credit.terms`, the outcome term in :mod:`triage_gym.credit.outcome`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, final, get_args

from triage_gym.credit.outcome import EPS, outcome_advantages, outcome_varies
from triage_gym.credit.terms import CreditTerms, DType, Segments, check_number, combine, role_values
from triage_gym.errors import InputError
from triage_gym.protocols import Advantages
from triage_gym.records import ROLES, EpisodeRecord, Role

CONSTANTS: Final = (1.0, 0.5, -0.1, -0.5)
"""Worth of D, E, N, R in the TRIAGE paper."""
GroupNorm = Literal["mean_std", "mean"]


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeOptions:
    """Options of every rule.

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
        check_options(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class RoleOptions:
    """Options of every rule with a role term.

    Raises:
        InputError: For a value out of range.
    """

    lam: float = 0.2
    """Weight λ of the role term: 0.2 for ALFWorld and WebShop, 0.4 for Search-QA in the paper. 0 is GRPO."""
    norm: GroupNorm = "mean_std"
    """How the outcome term is normalised within a group."""
    whiten: bool = True
    """Whiten over the batch's judged segments."""
    guard: bool = False
    """Use roles only in groups whose outcomes differ. Stops a lenient judge from teaching alone; costs the bootstrap."""
    eps: float = EPS
    """Least standard deviation to divide by."""
    dtype: DType = "float64"
    """Type of the returned arrays; everything is computed in float64."""

    def __post_init__(self) -> None:
        check_options(self)


def check_options(options: Any) -> None:
    """Raise InputError for an option out of range; options that a rule lacks are not looked at."""
    check_number("eps", options.eps, above=0.0)
    for name in ("whiten", "guard"):
        if not isinstance(getattr(options, name, False), bool):
            raise InputError(f"Expected `{name}` to be True or False, got {getattr(options, name)!r}")
    if options.dtype not in get_args(DType):
        raise InputError(f"Expected `dtype` to be one of {get_args(DType)}, got {options.dtype!r}")
    if getattr(options, "norm", "mean") not in get_args(GroupNorm):
        raise InputError(f"Expected `norm` to be one of {get_args(GroupNorm)}, got {options.norm!r}")
    check_number("lam", getattr(options, "lam", 0.0), least=0.0)
    for name in ("good", "bad"):
        check_number(name, getattr(options, name, 0.0))
    constants = getattr(options, "constants", CONSTANTS)
    if not isinstance(constants, Sequence) or isinstance(constants, str) or len(constants) != len(ROLES):
        raise InputError(f"Expected `constants` to be the worth of {', '.join(ROLES)}, got {constants!r}")
    for role, worth in zip(ROLES, constants, strict=True):
        check_number(f"constants[{role}]", worth)


def worth_of(constants: Sequence[float]) -> dict[Role, float]:
    """The worth of each role, from numbers in the order D, E, N, R."""
    return dict(zip(ROLES, map(float, constants), strict=True))


def role_credit(
    options: RoleOptions,
    segments: Segments,
    roles: Sequence[Role | None],
    worth: dict[Role, float],
    *,
    with_outcome: bool = True,
) -> list[CreditTerms]:
    """Outcome term plus weighted worth of ``roles``, with all of ``options``."""
    records = segments.records
    outcome = outcome_advantages(records, options.norm, options.eps)
    return combine(
        segments,
        outcome if with_outcome else outcome * 0.0,
        role_values(roles, worth),
        lam=options.lam,
        live=outcome_varies(records) if options.guard else None,
        whitened=options.whiten,
        eps=options.eps,
        dtype=options.dtype,
    )


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class GRPO(OutcomeOptions):
    """Group-relative outcome advantage on every segment (GRPO, arXiv:2402.03300)."""

    norm: GroupNorm = "mean_std"
    """``mean_std``, or ``mean`` for the variant without division."""

    def terms(self, records: Sequence[EpisodeRecord]) -> list[CreditTerms]:
        """How each record's advantages came about."""
        outcome = outcome_advantages(records, self.norm, self.eps)
        return combine(Segments(records), outcome, whitened=self.whiten, eps=self.eps, dtype=self.dtype)

    def __call__(self, records: Sequence[EpisodeRecord]) -> Advantages:
        """Advantages, one array of shape ``(segments,)`` a record."""
        return [t.advantage for t in self.terms(records)]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RLOO(OutcomeOptions):
    """Outcome less the mean outcome of the other rollouts, on every segment (RLOO, arXiv:2402.14740)."""

    def terms(self, records: Sequence[EpisodeRecord]) -> list[CreditTerms]:
        """How each record's advantages came about."""
        outcome = outcome_advantages(records, "leave_one_out", self.eps)
        return combine(Segments(records), outcome, whitened=self.whiten, eps=self.eps, dtype=self.dtype)

    def __call__(self, records: Sequence[EpisodeRecord]) -> Advantages:
        """Advantages, one array of shape ``(segments,)`` a record."""
        return [t.advantage for t in self.terms(records)]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Scalar(RoleOptions):
    """The same judge's answer as one good/bad number: what the four roles must beat to be worth having."""

    good: float = 0.5
    """Worth of D and E."""
    bad: float = -0.5
    """Worth of N and R."""

    def terms(self, records: Sequence[EpisodeRecord]) -> list[CreditTerms]:
        """How each record's advantages came about."""
        segments = Segments(records)
        return role_credit(self, segments, segments.roles(), worth_of((self.good, self.good, self.bad, self.bad)))

    def __call__(self, records: Sequence[EpisodeRecord]) -> Advantages:
        """Advantages, one array of shape ``(segments,)`` a record."""
        return [t.advantage for t in self.terms(records)]


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Triage(RoleOptions):
    """Outcome advantage plus λ times the worth of the segment's role (TRIAGE, arXiv:2606.32017)."""

    constants: tuple[float, float, float, float] = CONSTANTS
    """Worth of D, E, N, R."""

    def terms(self, records: Sequence[EpisodeRecord]) -> list[CreditTerms]:
        """How each record's advantages came about."""
        segments = Segments(records)
        return role_credit(self, segments, segments.roles(), worth_of(self.constants))

    def __call__(self, records: Sequence[EpisodeRecord]) -> Advantages:
        """Advantages, one array of shape ``(segments,)`` a record."""
        return [t.advantage for t in self.terms(records)]
