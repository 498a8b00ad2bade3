"""Any text environment as numbers: hashed words of the task, the observation and the last action. Small and general.

A command that is written in the observation as an entry of its own (a line, or a piece between ``[SEP]``, as a product of a
list is) also has what the next entry says of it: how many words of the task are there, and whether none has more.

Words go to buckets by CRC-32, which is the same in every process (Python's ``hash`` is not). Collisions are the price of
needing no vocabulary; knowledge of a domain, as in :mod:`triage_gym.trainers.policy.alfworld_features`, does far better.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final
from zlib import crc32

from triage_gym.trainers.policy.features import PATTERN_BITS, Encoded, Register, count_try
from triage_gym.trainers.policy.remarks import PRIORS, Remarks

_WORD: Final = re.compile(r"[^\W_]+|[^\w\s]")
_ABOUT: Final = re.compile(r"^\W*[^\W_]+\W+")
_BREAK: Final = re.compile(r"\[sep\]|\n")
_STATE_BUCKETS: Final = 2048
_TOKEN_BUCKETS: Final = 2048
_LENGTH: Final = 12
_MAX_TEXT: Final = 4096
"""Characters of a text that are read; what comes after is cut, so that a long page costs no more than a short one."""

IN_TASK, IN_OBSERVATION, ALL_IN_TASK = (1 << i for i in range(3, 6))
"""Candidate features: a word of the command, other than its first, is in the task; in the observation; all are in the task.
Marks are no words there."""
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
    return tuple(1 + _bucket(name, _TOKEN_BUCKETS - 1) for name in names[: _LENGTH - 1])


_MOST_SHARED: Final = 8
_BESIDE: Final = tuple(
    [
        tuple([1 + _bucket(f"{kind} beside {n}", _TOKEN_BUCKETS - 1) for n in range(_MOST_SHARED + 1)])
        for kind in ("", "most")
    ]
)
"""Tokens of how many of the task's words are beside a command, and of the same where no other command has more."""


@lru_cache(maxsize=65_536)
def _named(command: str) -> tuple[str, tuple[str, ...]]:
    """What a command is about, as an observation would write it, and the words of that."""
    about = _ABOUT.sub("", command.lower()).rstrip("]>) ")
    return about, tuple([word for word in words_of(about) if word[0].isalnum()])


@lru_cache(maxsize=4096)
def _entries(observation: str) -> dict[str, frozenset[str]]:
    """The words of the next entry, by entry; empty where the text has none."""
    found = [entry.strip() for entry in _BREAK.split(observation[:_MAX_TEXT].lower())]
    return {entry: frozenset(words_of(after)) for entry, after in pairwise(found) if entry}


def _beside(observation: str, commands: Sequence[str], task: set[str]) -> dict[str, tuple[int]]:
    """The token of how much of the task is beside each command that is an entry of the observation."""
    entries = _entries(observation)
    shared: dict[str, int] = {}
    for text in commands:
        after = entries.get(_named(text)[0])
        if after is not None:
            shared[text] = min(_MOST_SHARED, len(task & after))
    most = max(shared.values(), default=0)
    return {text: (_BESIDE[n == most][n],) for text, n in shared.items()}


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
        beside = _beside(memory.observation, admissible, task)
        keys = []
        for text in admissible:
            bits = memory.bits.get(text, 0)
            rest = _named(text)[1]
            if rest:
                shared = [word in task for word in rest]
                bits |= (IN_TASK if any(shared) else 0) | (ALL_IN_TASK if all(shared) else 0)
                bits |= IN_OBSERVATION if any(word in seen for word in rest) else 0
            keys.append(register.number(_tokens(text) + beside.get(text, ())) << PATTERN_BITS | bits)
        if self.priors and memory.remarks:
            keys = memory.remarks.mark(keys, admissible, memory.observation, _OWN_BITS)
        words = (
            *_state_words("task", memory.task),
            *_state_words("see", memory.observation),
            *_state_words("did", memory.last),
        )
        return Encoded(list(dict.fromkeys(words)), list(admissible), keys)
