"""Sums of rules, written ``"triage+gigpo"``: one outcome term, and what each rule has besides it.

    A = A_first + Σ over the others of (A_rule - its outcome term) + Σ over rules with roles of λ c[role]

before whitening, which is done once, over all of it. The first rule gives the outcome term; of the others what remains when
their own is taken away: GiGPO's ω A^S, a value rule's GAE, a role rule's λ c. So ``triage+gigpo`` is the outcome once, the
anchors and the roles. A segment that one of the rules does not train is trained by none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from triage_gym.credit.batch import Segments
from triage_gym.credit.outcome import against_group
from triage_gym.credit.rules import OutcomeAndRoleOptions, RoleOptions, RuleOptions
from triage_gym.credit.terms import Raw
from triage_gym.credit.trials import GiGPO
from triage_gym.credit.value import Value
from triage_gym.errors import InputError


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Sum(RuleOptions):
    """The sum of some rules.

    Args:
        rules: At least two, the first of which gives the outcome term; as objects or config dicts.

    Raises:
        InputError: For fewer rules, two of a kind with roles, or one that cannot be taken apart.
    """

    rules: tuple[Any, ...]
    """What is added up."""

    def __post_init__(self) -> None:
        RuleOptions.__post_init__(self)
        from triage_gym.credit import make

        made = tuple(make(rule) if isinstance(rule, str | Mapping) else rule for rule in self.rules)
        odd = [rule for rule in made if not isinstance(rule, RuleOptions) or isinstance(rule, Sum)]
        if len(made) < 2 or odd:
            raise InputError(f"Expected at least two of the built-in rules to add up, got {self.rules!r:.200}")
        if idle := [rule for rule in made[1:] if not isinstance(rule, RoleOptions | GiGPO | Value)]:
            raise InputError(
                f"Expected rules that have something besides their outcome term behind the first of a sum (gigpo, value, or "
                f"one with roles), got {type(idle[0]).__name__}"
            )
        if sum(_reads_roles(rule) for rule in made) > 1:
            raise InputError(f"Expected at most one rule with roles in a sum, got {[type(r).__name__ for r in made]}")
        object.__setattr__(self, "rules", made)

    @property
    def needs_labels(self) -> bool:
        """Whether something must judge the segments first."""
        return any(_reads_roles(rule) for rule in self.rules)

    @property
    def needs_values(self) -> bool:
        """Whether a value head must say what it expects."""
        return any(getattr(rule, "needs_values", False) for rule in self.rules)

    @property
    def lam(self) -> float:
        """λ of the rule with roles; 0 without one."""
        return next((float(rule.lam) for rule in self.rules if _reads_roles(rule)), 0.0)

    @property
    def constants(self) -> tuple[float, ...]:
        """The constants of the rule with roles; empty without."""
        return next(
            (tuple(rule.constants) for rule in self.rules if hasattr(rule, "constants") and _reads_roles(rule)), ()
        )

    def raw(self, segments: Segments) -> Raw:
        """The parts of all rules together."""
        parts = [rule.raw(segments) for rule in self.rules]
        total = parts[0].outcome
        trained = segments.trained
        for rule, part in zip(self.rules, parts, strict=True):
            if part.trained is not None:
                trained = trained & part.trained
            if part is not parts[0]:
                total = total + (part.outcome - _own_outcome(rule, segments))
        roles = next((part for part in parts if part.worth is not None), Raw(total))
        return Raw(total, roles.worth, roles.lam, roles.live, trained, roles.after_whitening, roles.sign_guard)


def _reads_roles(rule: Any) -> bool:
    return isinstance(rule, RoleOptions) or bool(getattr(rule, "triage", False))


def _own_outcome(rule: Any, segments: Segments) -> NDArray[np.float64]:
    """The outcome term that an added rule begins with, shape ``(segments,)``; 0 for one that begins with none."""
    if isinstance(rule, OutcomeAndRoleOptions | GiGPO):
        return against_group(*segments.grouping, rule.norm, rule.eps)[segments.owner]
    return np.zeros(len(segments.owner))


def rules_named(name: str, flags: Sequence[str], rules: Sequence[str], accepted: Sequence[str]) -> list[str]:
    """Which suffixes of a name are further rules; the others are options.

    Args:
        name: The first rule.
        flags: What stands behind it.
        rules: Names of all rules.
        accepted: Options of the first rule.

    Raises:
        InputError: For one that is neither.
    """
    more = [flag for flag in flags if flag not in accepted and flag in rules]
    unknown = [flag for flag in flags if flag not in accepted and not more]
    if unknown:
        raise InputError(
            f"Expected +{unknown[0]} behind {name!r} to be one of its options {sorted(accepted)} or another rule out of "
            f"{sorted(rules)}, got neither"
        )
    return more
