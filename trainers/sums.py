"""Counts of a batch, summed over its groups: what the ratios of the monitors and their spreads are made of. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from triage_gym.records import ROLES, EpisodeRecord, Role

Numbers = NDArray[np.float64]
COUNTS: Final = ("attempts", "turns", "successes", *ROLES)
ATTEMPTS, TURNS, SUCCESSES = np.eye(len(COUNTS))[:3]
ROLE: Final[Numbers] = np.eye(len(COUNTS))[3:]
JUDGED: Final[Numbers] = ROLE.sum(0)
PAIRS: Final = ("pairs", "agreed", *(f"own {r}" for r in ROLES), *(f"other {r}" for r in ROLES))


class Sums:
    """Sums over groups of counts, and of their products: what ratios and their spreads are made of.

    Args:
        groups: How many groups.
        total: ``(counts,)``.
        products: ``(counts, counts)``.
    """

    def __init__(self, groups: int, total: Numbers, products: Numbers) -> None:
        self.groups, self.total, self.products = groups, total, products

    @classmethod
    def of(cls, rows: Numbers) -> Sums:
        """From ``(groups, counts)``."""
        return cls(len(rows), rows.sum(0), rows.T @ rows)

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.groups + other.groups, self.total + other.total, self.products + other.products)

    def sum(self, top: Numbers) -> float:
        """Sum of the combination ``top`` of the counts."""
        return float(top @ self.total)

    def ratio(self, top: Numbers, bottom: Numbers) -> tuple[float, float]:
        """Sum of ``top`` over sum of ``bottom``, and its standard error over groups (infinite for fewer than two)."""
        below = self.sum(bottom)
        if below <= 0:
            return 0.0, math.inf
        value = self.sum(top) / below
        if self.groups < 2:
            return value, math.inf
        left = top - value * bottom
        square = max(float(left @ self.products @ left), 0.0) * self.groups / (self.groups - 1)
        return value, math.sqrt(square) / below

    def to_json(self) -> list[Any]:
        """What :meth:`from_json` reads back. Counts are whole numbers."""
        return [self.groups, self.total.astype(int).tolist(), self.products.astype(int).tolist()]

    @classmethod
    def from_json(cls, data: Any) -> Sums:
        """The sums written by :meth:`to_json`."""
        groups, total, products = data
        return cls(int(groups), np.array(total, float), np.array(products, float))


def _grouped(rows: Sequence[tuple[str, Sequence[float]]]) -> Sums:
    """Sums over groups of rows of counts."""
    found: dict[str, Numbers] = {}
    for group, row in rows:
        found[group] = found.get(group, 0.0) + np.array(row, float)
    return Sums.of(np.array(list(found.values())))


def counted(records: Sequence[EpisodeRecord]) -> Sums:
    """What is counted of a batch: attempts, newly acted turns, successes and roles, by group."""
    rows = []
    for r in records:
        roles = r.roles[r.prefix_length :]
        rows.append((r.group_id, [1, len(roles), int(r.success), *(roles.count(role) for role in ROLES)]))
    return _grouped(rows)


def paired(pairs: Sequence[tuple[str, Role, Role]]) -> Sums:
    """What is counted of two judges on the same segments, by attempt: pairs, agreements, the roles of each."""
    rows = [(g, [1, a == b, *(a == r for r in ROLES), *(b == r for r in ROLES)]) for g, a, b in pairs]
    return _grouped(rows)
