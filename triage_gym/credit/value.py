"""Credit against a value head: generalised advantage estimation (GAE, Schulman et al., arXiv:1506.02438).

With V_t the outcome that a value head expects before turn t (trained on outcomes alone), r_t what the turn is paid and V = 0
after the last one::

    δ_t = r_t + γ V_{t+1} - V_t        A_t = Σ_{l>=t} (γ κ)^(l-t) δ_l

κ is what the paper calls λ. Outcomes are paid as they are, at the last turn, so that they are what the head expects: adding a
constant to all outcomes changes nothing once the head has learnt it. κ = 1 with γ = 1 is the outcome less V_t; κ = 0 is one
step. Turns that a retry copied are in no sum, excluded rollouts get 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from triage_gym.credit.batch import Segments
from triage_gym.credit.returns import discounted
from triage_gym.credit.rules import RuleOptions
from triage_gym.credit.terms import Raw, check_number


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class Value(RuleOptions):
    """GAE with an outcome-trained value head.

    Needs the value of every segment: ``info["value"]`` of records, which the built-in trainer gives, or ``value`` of arrays.
    A group of one and equal outcomes are no special cases here: nobody is compared with anybody.
    """

    whiten: bool = True
    """Whiten over the batch's segments, as PPO does."""
    gamma: float = 1.0
    """Discount a turn, in [0, 1]."""
    kappa: float = 0.95
    """Weight of later turns' surprises, in [0, 1]: 0 trusts the head, 1 the outcome. The paper's λ."""

    needs_values = True

    def __post_init__(self) -> None:
        RuleOptions.__post_init__(self)
        check_number("gamma", self.gamma, least=0.0, most=1.0)
        check_number("kappa", self.kappa, least=0.0, most=1.0)

    def raw(self, segments: Segments) -> Raw:
        """A_t of each turn."""
        value = np.where(segments.trained, segments.value, 0.0)
        last = np.zeros(len(value), dtype=bool)
        last[segments.ends[segments.lengths > 0] - 1] = True
        after = np.where(last, 0.0, np.append(value[1:], 0.0))
        paid = np.where(last, segments.on_segments(segments.score), 0.0)
        surprise = np.where(segments.trained, paid + self.gamma * after - value, 0.0)
        return Raw(discounted(surprise, segments.lengths, self.gamma * self.kappa))
