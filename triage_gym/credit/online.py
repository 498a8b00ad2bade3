"""TRIAGE whose constants are measured while it trains, by retries from turns that roles choose.

A retry from the state of turn k is a counterfactual sample: the first continuation took the action a_k, which the judge
called ρ, and came to R₁; the retried one takes whatever the policy takes and comes to R₂. R₁ is a sample of Q(s_k, a_k), R₂
one of V(s_k), so ``d = R₁ - R₂`` is an unbiased sample of A*(s_k, a_k), *provided that the turn was drawn whatever came of
the attempt*. After failures alone, as PivoARL retries (arXiv:2607.03702), R₁ is always the lowest: d is then at most 0 for
every role, and lowest where the state was good, which is where D is found. So here successes are gone back into too, at
turns drawn by role alone (:func:`drawn_turn`), without a remark. The chance of a turn still hangs on what followed it: where
few turns got a role, each of them is likelier. So pairs weigh by the inverse of their chance, which makes every turn of a
role count alike.

What is left of selection: a judge sees some turns *after* the one it labels, and so a little of R₁'s luck.

Nothing is played for the measure alone: every retried turn is trained, once. The retry's outcome is compared with its
pair's, which began at the same state: ``A = (R₂ - R₁) / σ``, a baseline that no action of the retry can move. First attempts
are compared with each other, as in TRIAGE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from triage_gym.credit.batch import NONE, Segments
from triage_gym.credit.constants import shrunk
from triage_gym.credit.outcome import against_group, deviations, grouped
from triage_gym.credit.rules import Triage
from triage_gym.credit.terms import check_number
from triage_gym.errors import CheckpointError
from triage_gym.records import ROLES, EpisodeRecord, Role

_STATE: Final = ("weight", "square_weight", "total", "squares")


class Pair(NamedTuple):
    """A first continuation and a retried one from the same state."""

    role: Role
    """Of the first continuation's action there."""
    difference: float
    """R₁ - R₂."""
    spread: float
    """Population deviation of the first attempts' outcomes in their group."""
    weight: float = 1.0
    """Inverse of the chance with which its turn was drawn."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class TriageOnline(Triage):
    """Triage with constants that a trainer moves by :class:`RoleWorths`; alone it has those of the paper.

    Batches may hold pairs: a retry (``attempt`` 1, ``parent`` 0) of a first attempt of its trial. Its outcome term is (R₂ - R₁)/σ, σ being
    the deviation of its group's first attempts, or of those of the batch's other groups where its own do not differ.
    """

    share: float = 0.5
    """Share of first attempts that are paired with a retry, in [0, 1]."""
    keep: float = 0.98
    """What is kept of earlier pairs at each update, in (0, 1]: smaller follows the policy faster, and is noisier."""
    spread: float = 0.05
    """Standard deviation of the prior of λ c around the paper's. Smaller trusts the paper more."""

    def __post_init__(self) -> None:
        Triage.__post_init__(self)
        check_number("share", self.share, least=0.0, most=1.0)
        check_number("keep", self.keep, above=0.0, least=0.0, most=1.0)
        check_number("spread", self.spread, above=0.0)

    def outcome(self, segments: Segments) -> NDArray[np.float64]:
        """Outcome term a rollout, shape ``(rollouts,)``: of retries against their pair, of others within their group."""
        first = segments.attempt == 0
        group = np.where(first, segments.group, NONE)
        out = against_group(segments.score, group, segments.groups, self.norm, self.eps)
        spreads = deviations(segments.score, group, segments.groups)
        above = spreads[spreads > 0.0]
        typical = float(np.sqrt((above**2).mean())) if len(above) else 1.0
        before = np.flatnonzero(segments.follows != NONE)
        retry = segments.follows[before]
        own = spreads[segments.group[retry]]
        scale = np.where(own > 0.0, own, typical)
        scale = np.ones(len(own)) if self.norm == "mean" else np.maximum(scale, self.eps)
        out[retry] = (segments.score[retry] - segments.score[before]) / scale
        return out


def paired(records: Sequence[EpisodeRecord]) -> list[tuple[int, int]]:
    """Positions of each sound retry and of the sound first attempt that it went back into."""
    follows = Segments(records).follows
    return [(int(after), i) for i, after in enumerate(follows) if after != NONE and records[i].attempt == 0]


def inverse_chance(roles: Sequence[Role | None], turn: int) -> float:
    """One over the chance with which :func:`drawn_turn` draws ``turn``: roles present times turns of its role."""
    return float(len({role for role in roles if role is not None}) * sum(role == roles[turn] for role in roles))


def drawn_turn(roles: Sequence[Role | None], rng: np.random.Generator) -> int | None:
    """A turn to go back to, by the roles alone: a role evenly among those present, then one of its turns evenly.

    Returns:
        None where no turn has a role.
    """
    present = [role for role in ROLES if role in roles]
    if not present:
        return None
    role = present[int(rng.integers(len(present)))]
    places = [k for k, own in enumerate(roles) if own == role]
    return places[int(rng.integers(len(places)))]


def pairs_of(records: Sequence[EpisodeRecord]) -> list[Pair]:
    """The pairs of a batch whose turn has a role, and whose retry came back to the turn it was begun from."""
    scores, group, count = grouped(records)
    first = np.array([r.attempt == 0 for r in records], dtype=bool)
    spreads = deviations(scores, np.where(first, group, NONE), count)
    out = []
    for i, parent in paired(records):
        retry, before = records[i], records[parent]
        if retry.prefix_length != retry.pivot or not 0 <= retry.pivot < len(before.roles):
            continue
        role = before.roles[retry.pivot]
        if role is not None:
            weight = inverse_chance(before.roles, retry.pivot)
            out.append(Pair(role, before.score - retry.score, float(spreads[group[parent]]), weight))
    return out


class RoleWorths:
    """What each role was worth in the pairs so far, the latest weighing most.

    Args:
        rule: Whose constants are the prior; its ``keep`` and ``spread`` count.

    Example:
        Two pairs of D, d = 1 and 0, in groups of deviation 0.5: the mean is 0.5 / 0.5 = 1 in units of A_i, the population
        variance of d 0.25, the standard error sqrt(0.25 / (2 - 1)) / 0.5 = 1.
    """

    def __init__(self, rule: TriageOnline) -> None:
        self._rule = rule
        self._sums = {name: np.zeros(len(ROLES)) for name in _STATE}
        self._spread = [0.0, 0.0]

    def add(self, pairs: Sequence[Pair]) -> None:
        """Take in the pairs of an update; what was before weighs less now."""
        for sums in self._sums.values():
            sums *= self._rule.keep
        self._sums["square_weight"] *= self._rule.keep
        self._spread = [x * self._rule.keep for x in self._spread]
        for pair in pairs:
            at = ROLES.index(pair.role)
            self._sums["weight"][at] += pair.weight
            self._sums["square_weight"][at] += pair.weight**2
            self._sums["total"][at] += pair.weight * pair.difference
            self._sums["squares"][at] += pair.weight * pair.difference**2
            if pair.spread > 0.0:
                self._spread[0] += pair.spread**2
                self._spread[1] += 1.0

    @property
    def scale(self) -> float:
        """Root mean square deviation of the groups, which brings differences into the units of A_i; 1 before any."""
        return float(np.sqrt(self._spread[0] / self._spread[1])) if self._spread[1] > 0.0 else 1.0

    def estimates(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Mean worth of D, E, N, R in units of A_i, its standard error (infinite below two pairs), and the pairs that count."""
        weight = self._sums["weight"]
        known = weight > 0.0
        safe = np.where(known, weight, 1.0)
        mean = np.where(known, self._sums["total"] / safe, 0.0)
        count = np.where(known, weight**2 / np.where(known, self._sums["square_weight"], 1.0), 0.0)
        variance = np.maximum(self._sums["squares"] / safe - mean**2, 0.0)
        several = count > 1.0 + 1e-9
        # A role whose pairs all came to the same is no surer than one of which half a pair did not.
        least = 0.25 / np.maximum(count, 1.0) * self.scale**2
        error = np.sqrt(np.maximum(variance, least) / np.where(several, count - 1.0, 1.0))
        return mean / self.scale, np.where(several, error / self.scale, np.inf), count

    def rule(self) -> TriageOnline:
        """The rule with the constants that the pairs so far speak for."""
        mean, error, _ = self.estimates()
        constants, lam = shrunk(
            mean, error, spread=self._rule.spread, prior=self._rule.constants, prior_lam=self._rule.lam
        )
        d, e, n, r = (float(c) for c in constants)
        return replace(self._rule, constants=(d, e, n, r), lam=lam)

    def metrics(self) -> dict[str, float | None]:
        """λ and, of each role, its constant, its measured worth with its standard error, and the pairs that count."""
        rule = self.rule()
        mean, error, count = self.estimates()
        found: dict[str, float | None] = {"online_lam": rule.lam}
        for at, role in enumerate(ROLES):
            known = bool(np.isfinite(error[at]))
            found |= {
                f"online_c_{role}": rule.constants[at],
                f"online_worth_{role}": float(mean[at]) if known else None,
                f"online_error_{role}": float(error[at]) if known else None,
                f"online_pairs_{role}": float(count[at]),
            }
        return found

    def to_json(self) -> dict[str, Any]:
        """What the rest of a run depends on, as JSON."""
        return {**{name: sums.tolist() for name, sums in self._sums.items()}, "spread": list(self._spread)}

    def go_to(self, state: Any) -> None:
        """Go back to what :meth:`to_json` gave.

        Raises:
            CheckpointError: For anything else.
        """
        try:
            if not isinstance(state, Mapping):
                raise TypeError(type(state).__name__)
            sums = {name: np.array(state[name], dtype=np.float64).reshape(len(ROLES)) for name in _STATE}
            spread = [float(x) for x in state["spread"]]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"Expected the worths of roles in a checkpoint, got: {error}") from error
        self._sums, self._spread = sums, spread
