"""What turns text into the numbers that the scorer network reads: the contract, and the register of commands."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from triage_gym.trainers.policy.protocol import Memory

PATTERN_BITS: Final = 14
"""Bits of a candidate's key that hold its features; the rest is the command's number in the register."""
PATTERNS: Final = 1 << PATTERN_BITS
TRIED, TRIED_TWICE, LAST = (1 << i for i in range(3))
"""The first candidate features of every :class:`Features`, as bits: sent before, sent twice, the last one sent."""


def count_try(bits: dict[str, int], last: str, action: str) -> None:
    """Enter into ``bits``, features by command, that ``action`` was sent after ``last`` (empty at first)."""
    if last:
        bits[last] &= ~LAST
    before = bits.get(action, 0)
    bits[action] = LAST | TRIED | (before & TRIED_TWICE) | (TRIED_TWICE if before & TRIED else 0)


class Register:
    """Numbers commands by their tokens, in the order in which they are first met.

    The numbers are a cache: they never reach the weights, which belong to the tokens, and :meth:`ordered` brings any set
    of commands into an order that does not depend on them. Sums over commands then round alike whatever was met before,
    so that a resumed run, whose register begins empty, equals a straight one.

    Args:
        length: Tokens a command; shorter ones are padded with 0.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._numbers: dict[tuple[int, ...], int] = {}
        self._rows = np.zeros((256, length), np.int64)
        self._ranks = np.zeros(256, np.int64)

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, tokens: tuple[int, ...]) -> int:
        """The number of the command made of ``tokens``."""
        found = self._numbers.get(tokens)
        if found is None:
            found = len(self._numbers)
            if found == len(self._rows):
                self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
                self._ranks = np.concatenate([self._ranks, np.zeros_like(self._ranks)])
            self._rows[found, : len(tokens)] = tokens
            digest = hashlib.blake2b(self._rows[found].tobytes(), digest_size=8).digest()
            self._ranks[found] = int.from_bytes(digest, "little", signed=True)
            self._numbers[tokens] = found
        return found

    def tokens(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """``(U, T)`` tokens of the commands ``(U,)``."""
        out: NDArray[np.int64] = self._rows[numbers]
        return out

    def ordered(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same commands in an order that their tokens alone decide."""
        return numbers[np.argsort(self._ranks[numbers])]


@dataclass(frozen=True, slots=True)
class Encoded:
    """One episode's situation as numbers."""

    state: list[int]
    """State words that are on, each once."""
    commands: list[str]
    """The candidates: the admissible commands less those that can never help."""
    keys: list[int]
    """For each candidate: number in the register, shifted by :data:`PATTERN_BITS`, and its features as bits."""


class Features(Protocol):
    """Text to numbers. The vocabularies are fixed when it is made, never learnt in the order of the data."""

    @property
    def states(self) -> int:
        """Size of the state vocabulary."""
        ...

    @property
    def tokens(self) -> int:
        """Size of the token vocabulary, padding 0 included."""
        ...

    @property
    def tokens_per_command(self) -> int:
        """Longest command."""
        ...

    @property
    def candidate_features(self) -> int:
        """Features a candidate, at most :data:`PATTERN_BITS`."""
        ...

    @property
    def priors(self) -> tuple[float, ...]:
        """Start weights of the last candidate features, those of remarks; the others begin without any."""
        ...

    def begin(self, task: str, observation: str) -> Memory:
        """The memory of a new episode."""
        ...

    def encode(self, memory: Any, admissible: Sequence[str], register: Register) -> Encoded:
        """The situation of an episode that may now send ``admissible``."""
        ...


def pattern_table(features: int) -> NDArray[np.float32]:
    """``(2^14, F)`` float32: the bits of every pattern, lowest first."""
    patterns = np.arange(PATTERNS)[:, None] >> np.arange(features)[None, :]
    return (patterns & 1).astype(np.float32)
