"""Search-QA as numbers: what a query is made of, and how a piece of a passage goes with what is asked.

All of it can be read in the episode's own text: the question, the queries sent, the passages shown
(:mod:`triage_gym.envs.searchqa.choices` cuts them into pieces). Words of questions go to buckets by CRC-32, as in
:mod:`triage_gym.trainers.policy.hashed_features`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final
from zlib import crc32

from triage_gym.envs.searchqa import choices
from triage_gym.envs.searchqa.protocol import RULES
from triage_gym.trainers.policy.features import PATTERN_BITS, Encoded, Register, count_try
from triage_gym.trainers.policy.remarks import PRIORS, Remarks

_STATES: Final = 1024
_FACTS: Final = 64
"""States kept for what is no word of the question."""
_SEARCH, _ANSWER = "<search>", "<answer>"
(ANSWERS, ASKED, MOST, TOLD_TITLE, SEARCHED_TITLE, IN_QUESTION, FOLLOWS, FITS, KNOWN) = (1 << i for i in range(3, 12))
"""Candidate features: it answers; its label has something of what is asked; no other answer has more; its passage holds what
is told of the subject; its passage's title was searched for; it stands in the question. A query holds a title that was read
and is not in the question; such a title of a passage that holds what is told; all that is told."""
_OWN_BITS: Final = 12
_TOKENS: Final = (
    "search", "answer", *(f"asked {n}" for n in range(5)), "number", "capital", "short", "long", "mark", "no answer",
)  # fmt: skip
_TOKEN: Final = {name: 1 + at for at, name in enumerate(_TOKENS)}


class QuestionMemory:
    """The question, the queries and the passages of an episode.

    Args:
        task: The question.
        observation: First observation.
    """

    __slots__ = ("bits", "last", "observation", "passages", "remarks", "searched", "task")

    def __init__(self, task: str, observation: str) -> None:
        self.task, self.observation, self.last = task, observation, ""
        self.searched: list[str] = []
        self.passages: list[str] = []
        self.bits: dict[str, int] = {}
        self.remarks = Remarks()

    def observe(self, action: str, observation: str) -> None:
        """Take in the answer to the action just sent."""
        count_try(self.bits, self.last, action)
        self.last, self.observation = action, observation
        if action.startswith(_SEARCH):
            self.searched.append(_inside(action))
            self.passages += _shown(observation)

    def advise(self, remark: str, observation: str, action: str) -> None:
        """Take in that ``remark`` names ``action``, sent at ``observation``; its words are not read."""
        self.remarks.add(observation, action)


@lru_cache(maxsize=4096)
def _shown(observation: str) -> tuple[str, ...]:
    preset = "verl-agent" if '<information>{"result"' in observation else "search-r1"
    return tuple(RULES[preset].shown(observation))  # type: ignore[index]


def _inside(action: str) -> str:
    return action.partition(">")[2].rpartition("</")[0]


@lru_cache(maxsize=65_536)
def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in choices.words_of(text))


@lru_cache(maxsize=4096)
def _question_states(task: str) -> tuple[int, ...]:
    parts = choices.parts_of(task)
    names = [*(f"asked {w}" for w in parts.asked), "bridge" if choices.is_bridge(task) else "single"]
    return tuple(dict.fromkeys(_FACTS + crc32(name.encode("utf-8", "replace")) % (_STATES - _FACTS) for name in names))


class QuestionFeatures:
    """Features of Search-QA.

    Args:
        remarks: Whether there are features of remarks.
    """

    states: Final = _STATES
    tokens: Final = 1 + len(_TOKENS)
    tokens_per_command: Final = 6

    def __init__(self, *, remarks: bool = False) -> None:
        self.priors = PRIORS if remarks else ()
        self.candidate_features = _OWN_BITS + len(self.priors)

    def begin(self, task: str, observation: str) -> QuestionMemory:
        """The memory of a new episode."""
        return QuestionMemory(task, observation)

    def encode(self, memory: QuestionMemory, admissible: Sequence[str], register: Register) -> Encoded:
        """The situation of an episode; every admissible command is a candidate."""
        task, passages = memory.task, memory.passages
        parts = choices.parts_of(task)
        told = _words(" ".join(parts.known))
        spans = {span.text: span for span in choices.answers(task, passages)}
        asked = {text: choices.overlap(span.label, parts) for text, span in spans.items()}
        most = max(asked.values(), default=0)
        holds = choices.titles_that_hold(passages, told)
        searched = _words(" ".join(memory.searched))
        keys = []
        for command in admissible:
            content = _inside(command)
            own = memory.bits.get(command, 0)
            if command.startswith(_ANSWER):
                own |= self._answer(content, spans.get(content), asked, most, holds, searched, told, task)
                tokens = _answer_tokens(content, asked.get(content, 0))
            else:
                own |= self._search(content, holds, passages, told, task)
                tokens = (_TOKEN["search"],)
            keys.append(register.number(tokens) << PATTERN_BITS | own)
        if self.priors and memory.remarks:
            keys = memory.remarks.mark(keys, admissible, memory.observation, _OWN_BITS)
        facts = [min(len(memory.searched), 7), 8 + min(most, 4), 16 + bool(holds), 18 + bool(passages)]
        return Encoded([*facts, *_question_states(task)], list(admissible), keys)

    @staticmethod
    def _answer(
        content: str,
        span: choices.Span | None,
        asked: dict[str, int],
        most: int,
        holds: frozenset[str],
        searched: frozenset[str],
        told: frozenset[str],
        task: str,
    ) -> int:
        bits = ANSWERS
        if span is None:
            return bits
        shared = asked[content]
        bits |= (ASKED if shared else 0) | (MOST if shared and shared == most else 0)
        title = _words(span.title)
        bits |= TOLD_TITLE if span.title in holds or (title and title <= told) else 0
        bits |= SEARCHED_TITLE if title and title <= searched else 0
        bits |= IN_QUESTION if content and content in task else 0
        return bits

    @staticmethod
    def _search(content: str, holds: frozenset[str], passages: Sequence[str], told: frozenset[str], task: str) -> int:
        title = next((t for t in choices.titles_of(passages) if content.startswith(f"{t} ")), "")
        bits = 0
        if title and title not in task:
            bits |= FOLLOWS | (FITS if title in holds else 0)
        return bits | (KNOWN if told and told <= _words(content) else 0)


@lru_cache(maxsize=65_536)
def _answer_tokens(content: str, shared: int) -> tuple[int, ...]:
    if not content:
        return (_TOKEN["answer"], _TOKEN["no answer"])
    names = ["answer", f"asked {min(shared, 4)}"]
    names += ["number"] if any(c.isdigit() for c in content) else []
    names += ["capital"] if content[0].isupper() else ["mark"] if not content[0].isalnum() else []
    names.append("short" if len(content.split()) <= 2 else "long")
    return tuple(_TOKEN[name] for name in names)
