"""SearchGame: one question being worked on. Text in, text out; no Gymnasium, no generator."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from triage_gym.envs.searchqa import choices, searching
from triage_gym.envs.searchqa.corpus import Retriever
from triage_gym.envs.searchqa.layout import Place, follow, reward, tells
from triage_gym.envs.searchqa.protocol import NO_ANSWER, TEMPLATES, Rules, asked, cut
from triage_gym.envs.searchqa.scoring import Metric, Scores, score
from triage_gym.envs.searchqa.tasks import Task
from triage_gym.envs.task_env import MAX_TEXT, Turn
from triage_gym.errors import InputError

REMEMBERED: Final = 4096
"""Searches whose passages a process keeps."""


@dataclass(frozen=True)
class Setting:
    """What all games of an environment have in common."""

    fingerprint: str
    """That of the retriever: settings are equal when everything but the retriever object is."""
    rules: Rules
    topk: int
    metric: Metric
    layout: bool
    """Whether the reward at the end is that for the layout (:mod:`.layout`), and not the metric."""
    retriever: Retriever = field(compare=False)


@lru_cache(maxsize=REMEMBERED)
def look_up(setting: Setting, query: str) -> str:
    """What is said to a search; the passages of the last searches are kept, and so cost nothing again.

    Passages beyond the longest observation are cut, and the closing tag with them, as Search-R1 does at its limit.

    Raises:
        InputError: If a retriever of the user's own gives something else than texts.
    """
    found = setting.retriever.search(query, setting.topk)
    if isinstance(found, str) or not all(isinstance(passage, str) for passage in found):
        raise InputError(f"Expected search() of the retriever to give a sequence of texts, got {found!r:.120}")
    return setting.rules.information(found[: setting.topk])[:MAX_TEXT]


class SearchGame:
    """A running game.

    Args:
        task: The question.
        setting: How it is played.
        turn: Turns that were played.
        answer: The answer that was given; None as long as there is none.
        place: Where its layout has come to; followed only where it is rewarded.
        retrieved: Whether passages told a right answer; likewise.
        searched: Queries of the searches that were carried out.
    """

    __slots__ = (
        *(
            "_passages",
            "_setting",
            "_source",
            "answer",
            "fingerprint",
            "place",
            "retrieved",
            "searched",
            "task",
            "task_id",
        ),
        *("task_type", "turn"),
    )

    def __init__(
        self,
        task: Task,
        setting: Setting,
        turn: int = 0,
        answer: str | None = None,
        place: Place = "start",
        retrieved: bool = False,
        searched: Sequence[str] = (),
    ) -> None:
        self._source, self._setting = task, setting
        self.task_id, self.task_type, self.task = task.task_id, task.task_type, asked(task.question)
        self.fingerprint = _fingerprint(task, setting)
        self.turn, self.answer, self.place, self.retrieved = turn, answer, place, retrieved
        self.searched = list(searched)
        self._passages: list[str] | None = None

    @property
    def definition(self) -> Task:
        """The task with its answers."""
        return self._source

    @property
    def last(self) -> bool:
        """Whether the next turn is the last one, in which no search is carried out."""
        return self.turn + 1 >= self._setting.rules.turns

    def start(self) -> str:
        """Instruction and question."""
        self.turn, self.answer, self.place, self.retrieved = 0, None, "start", False
        self.searched, self._passages = [], []
        return self._setting.rules.opening(self.task)

    def act(self, action: str) -> Turn:
        """Search, answer, or be told that it was neither.

        Raises:
            EnvironmentFailure: If the retriever cannot search; the game stays where it was.
        """
        rules = self._setting.rules
        kind, content, valid = rules.action(action)
        text = "" if kind == "answer" else rules.invalid()
        if kind == "search":
            text = rules.unread() if self.last else self._search(content)
        last = self.last
        self.turn += 1
        if kind == "answer":
            self.answer = content
        if self._setting.layout:
            self.place = follow(follow(self.place, cut(action)), text)
            self.retrieved = self.retrieved or (kind == "search" and tells(text, self._source.answers))
        if not last and kind != "answer":
            return Turn(text, invalid=not valid)
        scores = self.scores()
        return Turn(text, self._reward(scores), kind == "answer", not valid, scores._asdict())

    def _search(self, query: str) -> str:
        """What is said to a search that is carried out."""
        read = self.read()
        text = look_up(self._setting, query)
        self.searched.append(query)
        self._passages = [*read, *self._setting.rules.shown(text)]
        return text

    def read(self) -> list[str]:
        """The passages that were shown so far, in order."""
        if self._passages is None:  # a restored game looks its passages up when somebody asks for them
            found = [look_up(self._setting, query) for query in self.searched]
            self._passages = [passage for text in found for passage in self._setting.rules.shown(text)]
        return self._passages

    def scores(self) -> Scores:
        """What the answer is worth; nothing as long as there is none."""
        return score(self.answer, self._source.answers)

    def _reward(self, scores: Scores) -> float:
        if self._setting.layout:
            return reward(self.place, self.retrieved, self.answer, self._source.answers)
        return self._points(scores)

    def _points(self, scores: Scores) -> float:
        points: float = getattr(scores, self._setting.metric)
        return points

    def outcome(self) -> tuple[bool, float]:
        """Success: exact match (sub-exact match where that is the metric). Score: the metric."""
        scores = self.scores()
        return (scores.subem if self._setting.metric == "subem" else scores.em) == 1.0, self._points(scores)

    def commands(self) -> list[str]:
        """Some actions of many (:mod:`.choices`): searches, until none is carried out any more, answers, and to give up."""
        found = [] if self.last else [f"<search>{query}</search>" for query in choices.queries(self.task, self.read())]
        answers = [f"<answer>{span.text}</answer>" for span in choices.answers(self.task, self.read())]
        # What closes a tag inside of an action would end it.
        return [
            *(c for c in dict.fromkeys([*found, *answers]) if c.count("<") == 2),
            *([NO_ANSWER] if self.last else []),
        ]

    def advice(self) -> str:
        """What the expert does that knows only what it has read (:mod:`.searching`)."""
        return searching.next_action(self.task, self.searched, self.read(), self.last)

    def templates(self) -> list[str]:
        """The two forms of actions."""
        return list(TEMPLATES)

    def get_state(self) -> dict[str, Any]:
        """Turns, answer, layout and queries: what they showed can be looked up again."""
        return {
            "turn": self.turn,
            "answer": self.answer,
            "place": self.place,
            "retrieved": self.retrieved,
            "searched": list(self.searched),
        }

    def close(self) -> None:
        """Nothing is held."""


@lru_cache(maxsize=REMEMBERED)
def _fingerprint(task: Task, setting: Setting) -> str:
    told = repr(
        (task.question, task.answers, setting.fingerprint, setting.rules, setting.topk, setting.metric, setting.layout)
    )
    return hashlib.sha256(told.encode()).hexdigest()[:16]
