"""Controls that stand beside every result of role-typed credit: do the steps matter, does the outcome?

``ShuffledTriage`` keeps the roles of an episode and loses which step had which; ``RolesOnly`` keeps the steps and loses
the outcome. On ALFWorld the first falls back to whitened GRPO, the second teaches early and stalls in exploration.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from triage_gym.credit.batch import NONE, Segments
from triage_gym.credit.rules import CONSTANTS, OutcomeAndRoleOptions, RoleOptions, check_constants
from triage_gym.credit.terms import Raw
from triage_gym.credit.worth import role_worths
from triage_gym.records import ROLES, EpisodeRecord, Role


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class ShuffledTriage(OutcomeAndRoleOptions):
    """Triage with the roles of each episode in random order over its judged segments.

    The order depends on ``seed`` and on what the episode holds (group, attempt, judged actions), not on a global state
    or on the place in the batch, so it repeats.
    """

    constants: tuple[float, float, float, float] = CONSTANTS
    """Worth of D, E, N, R."""
    seed: int = 0
    """Another seed, another order."""

    def __post_init__(self) -> None:
        OutcomeAndRoleOptions.__post_init__(self)
        check_constants(self.constants)

    def raw(self, segments: Segments) -> Raw:
        """As TRIAGE, with the roles of each rollout in another order."""
        worths = role_worths(shuffled(segments, self.seed), self.constants)
        return self.with_roles(segments, self.outcome(segments), worths)


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class RolesOnly(RoleOptions):
    """λ times the worth of the segment's role and no outcome: what the judge teaches alone."""

    constants: tuple[float, float, float, float] = CONSTANTS
    """Worth of D, E, N, R."""

    def __post_init__(self) -> None:
        RoleOptions.__post_init__(self)
        check_constants(self.constants)

    def raw(self, segments: Segments) -> Raw:
        """Nothing of the outcome, and what each role is worth."""
        # Read and thrown away, so that a score which cannot be compared is refused here as by every rule.
        outcome = 0.0 * segments.score
        return self.with_roles(segments, outcome, role_worths(segments.role, self.constants))


def shuffled(segments: Segments, seed: int) -> NDArray[np.int8]:
    """The roles of a batch, those of each rollout's judged, newly acted segments in another order.

    Of records the order comes from what they hold; a batch of arrays brings the keys that it is sorted by
    (``shuffle``), which ``seed`` does not change.
    """
    if "shuffle" not in segments.__dict__:
        roles = [role for record in segments.records for role in shuffled_roles(record, seed)]
        return np.array([NONE if role is None else ROLES.index(role) for role in roles], dtype=np.int8)
    keys: NDArray[np.float64] = segments.__dict__["shuffle"]
    new = segments.place >= segments.on_segments(segments.prefix)
    judged = np.flatnonzero((segments.role != NONE) & new)
    if not len(judged):
        return segments.role
    # One sort for all rollouts: each has the numbers from its own to the next.
    own = keys[judged]
    low, high = float(own.min()), float(own.max())
    place = segments.owner[judged] + (own - low) / max(high - low, 1e-300) * (1.0 - 2.0**-20)
    found = segments.role.copy()
    found[judged] = segments.role[judged[np.argsort(place)]]
    return found


def shuffled_roles(record: EpisodeRecord, seed: int) -> list[Role | None]:
    """The record's roles with those of its judged, newly acted segments in another order."""
    roles = list(record.roles)
    judged = [k for k in range(record.prefix_length, len(roles)) if roles[k] is not None]
    for k, other in zip(judged, _order(record, judged, seed), strict=True):
        roles[k] = record.roles[other]
    return roles


def _order(record: EpisodeRecord, judged: Sequence[int], seed: int) -> list[int]:
    """The judged positions sorted by a hash, which no version of a random generator can change."""
    parts = [str(seed), record.group_id, record.task_id, str(record.attempt)]
    parts += [record.segments[k].action for k in judged]
    content = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        content.update(len(data).to_bytes(8, "little") + data)
    start = content.digest()
    keys = [hashlib.sha256(start + place.to_bytes(8, "little")).digest() for place in range(len(judged))]
    return [judged[place] for place in sorted(range(len(judged)), key=keys.__getitem__)]
