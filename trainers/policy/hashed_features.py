"""Any text environment as numbers: hashed words of the task, the observation and the last action. Small and general.

Words go to buckets by CRC-32, which is the same in every process (Python's ``hash`` is not). Collisions are the price of
needing no vocabulary; knowledge of a domain, as in :mod:`triage_gym.trainers.policy.alfworld_features`, does far better.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final
from zlib import crc32

from triage_gym.trainers.policy.features import PATTERN_BITS, Encoded, Register, count_try
from triage_gym.trainers.policy.remarks import PRIORS, Remarks

_WORD: Final = re.compile(r"[^\W_]+|[^\w\s]")
_STATE_BUCKETS: Final = 2048
_TOKEN_BUCKETS: Final = 2048
_LENGTH: Final = 12
_MAX_TEXT: Final = 4096
"""Characters of a text that are read; what comes after is cut, so that a long page costs no more than a short one."""

IN_TASK, IN_OBSERVATION, ALL_IN_TASK = (1 << i for i in range(3, 6))
_OWN_BITS: Final = 6
"""Candidate features besides those of remarks."""


@lru_cache(maxsize=16_384)
def words_of(text: str) -> tuple[str, ...]:
    """The words and marks of a text, each once."""
    return tuple(dict.fromkeys(_WORD.findall(text[:_MAX_TEXT].lower())))


def _bucket(word: str, buckets: int) -> int:
    return crc32(word.encode("utf-8", "replace")) % buckets


@lru_cache(maxsize=16_384)
def _state_words(kind: str, text: str) -> tuple[int, ...]:
    return tuple(_bucket(f"{kind}:{word}", _STATE_BUCKETS) for word in words_of(text))


@lru_cache(maxsize=65_536)
def _tokens(command: str) -> tuple[int, ...]:
    """Up to 12 tokens: the first word (the verb), the verb with each other word, and each word."""
    words = words_of(command)
    if not words:
        return (1,)
    names = [f"verb {words[0]}", *(f"{words[0]} {w}" for w in words[1:6]), *(f"word {w}" for w in words[1:6])]
    return tuple(1 + _bucket(name, _TOKEN_BUCKETS - 1) for name in names[:_LENGTH])


class HashedMemory:
    """Task, last action and observation, and how often each command was sent.

    Args:
        task: The instruction, "" when there is none.
        observation: First observation.
    """

    __slots__ = ("bits", "last", "observation", "remarks", "task")

    def __init__(self, task: str, observation: str) -> None:
        self.task, self.observation, self.last = task, observation, ""
        self.bits: dict[str, int] = {}
        self.remarks = Remarks()

    def observe(self, action: str, observation: str) -> None:
        """Take in the answer to the action just sent."""
        count_try(self.bits, self.last, action)
        self.last, self.observation = action, observation

    def advise(self, remark: str, observation: str, action: str) -> None:
        """Take in that ``remark`` names ``action``, sent at ``observation``; its words are not read."""
        self.remarks.add(observation, action)


class HashedFeatures:
    """Features of any text.

    Args:
        remarks: Whether there are features of remarks.
    """

    states: Final = _STATE_BUCKETS
    tokens: Final = _TOKEN_BUCKETS
    tokens_per_command: Final = _LENGTH

    def __init__(self, *, remarks: bool = False) -> None:
        self.priors = PRIORS if remarks else ()
        self.candidate_features = _OWN_BITS + len(self.priors)

    def begin(self, task: str, observation: str) -> HashedMemory:
        """The memory of a new episode."""
        return HashedMemory(task, observation)

    def encode(self, memory: HashedMemory, admissible: Sequence[str], register: Register) -> Encoded:
        """The situation of an episode; every admissible command is a candidate."""
        task, seen = set(words_of(memory.task)), set(words_of(memory.observation))
        keys = []
        for text in admissible:
            bits = memory.bits.get(text, 0)
            rest = words_of(text)[1:]
            if rest:
                shared = [word in task for word in rest]
                bits |= (IN_TASK if any(shared) else 0) | (ALL_IN_TASK if all(shared) else 0)
                bits |= IN_OBSERVATION if any(word in seen for word in rest) else 0
            keys.append(register.number(_tokens(text)) << PATTERN_BITS | bits)
        if self.priors and memory.remarks:
            keys = memory.remarks.mark(keys, admissible, memory.observation, _OWN_BITS)
        words = (
            *_state_words("task", memory.task),
            *_state_words("see", memory.observation),
            *_state_words("did", memory.last),
        )
        return Encoded(list(dict.fromkeys(words)), list(admissible), keys)
