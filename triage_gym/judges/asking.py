"""Questions of the language-model judge: asked together, read, asked again where the answer was none, each with an outcome.

=============  ====================================================================================================
failure        what is done
=============  ====================================================================================================
transport      the pool tries again within its deadline (:mod:`triage_gym.llm.pool`); then the question has failed
format         asked again, at most twice: with twice the tokens where the answer was cut off, else once with a word on
               what was wrong, then one rung further down the ladder json_schema → json_object → text
refusal, 4xx   nothing: the same question would fail again
budget         nothing: a cap of the user's was reached
=============  ====================================================================================================

What it promises: as many outcomes as questions, in order, and no exception but those that stop a program.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from triage_gym.errors import EndpointError, InputError, MissingDependency
from triage_gym.judges.answers import PROBLEMS, SCHEMAS, Answer, MalformedAnswer, read_answer
from triage_gym.judges.probing import RUNGS, Reply, Rung
from triage_gym.judges.prompting import Prompter
from triage_gym.llm import Question
from triage_gym.llm.client import FAILURES
from triage_gym.llm.completion import Completion
from triage_gym.llm.forks import renew_after_fork
from triage_gym.protocols import Window

KINDS: Final = (*FAILURES, *PROBLEMS, "setup", "internal")
"""Every kind of failure: of the transport, of an answer, ``setup`` (no key, no package) and ``internal`` (a defect)."""
RE_ASKS: Final = 2
"""Most further questions after an answer that was none."""
MENDED: Final = frozenset(
    ("empty", "unclosed_thought", "truncated", "too_long", "no_json", "ambiguous", "keys", "ids", "label")
)
"""Failures that asking again may mend."""
_HINTS: Final = {
    "request": "`triage-gym judge check` tells what the endpoint can do, and which mode to set",
    "truncated": "allow more max_tokens, or switch thinking off in options",
    "unclosed_thought": "allow more max_tokens, or switch thinking off in options",
    "refused": "another model may answer",
}
"""What to do about a failure, by its kind; transport says so itself."""


class Pool(Protocol):
    """What is needed of a :class:`~triage_gym.llm.pool.ChatPool`."""

    def ask_all(self, questions: Sequence[Question]) -> Sequence[Completion | EndpointError]:
        """An answer or a failure for each question, in order."""
        ...


class Outcome(NamedTuple):
    """How a question ended: with an answer, or with the kind of a failure."""

    answer: Answer | None = None
    kind: str = ""
    """One of :data:`KINDS`, or ""."""
    why: str = ""
    thought: bool = False
    """Whether the model was seen to think."""
    prompt_tokens: int = 0
    """Billed for it, all repetitions together."""
    completion_tokens: int = 0


class _Open:
    """A question without an outcome so far."""

    def __init__(self, windows: Sequence[Window], rung: Rung, tokens: int) -> None:
        self.windows, self.rung, self.tokens = windows, rung, tokens
        self.outcome = Outcome()
        self.times = 0

    def adapt(self) -> None:
        """Make the next time differ from this one, by what went wrong."""
        if self.outcome.kind == "truncated":
            self.tokens *= 2
        elif self.times > 1:
            self.rung = RUNGS[min(RUNGS.index(self.rung) + 1, len(RUNGS) - 1)]


class Asker:
    """Asks questions; safe to use from many threads.

    Args:
        pool: Who carries them.
        prompts: Who writes them.
        max_tokens: Most tokens of an answer.
        sure: Whether answers say how sure the model is.
    """

    def __init__(self, pool: Pool, prompts: Prompter, max_tokens: int, sure: bool) -> None:
        self._pool, self._prompts, self._tokens, self._sure = pool, prompts, max_tokens, sure
        self._count: Counter[str] = Counter()
        self.after_fork()

    def after_fork(self) -> None:
        """Take a new lock, as in the child of a fork."""
        self._lock = threading.Lock()
        renew_after_fork(self)

    def ask(
        self,
        questions: Sequence[Sequence[Window]],
        rung: Rung,
        re_asks: int = RE_ASKS,
        fields: Mapping[str, Any] | None = None,
    ) -> list[Outcome]:
        """How each question, consecutive windows of an attempt, ended.

        Args:
            questions: At least one window each.
            rung: Where all begin.
            re_asks: Most times that a question is asked again.
            fields: Of these requests, beside the client's.
        """
        asked = [_Open(windows, rung, self._tokens) for windows in questions]
        still = asked
        for again in range(1 + re_asks):
            if again:
                still = [question for question in still if question.outcome.kind in MENDED]
                self.counted(reasks=len(still))
                for question in still:
                    question.adapt()
            if still:
                self._round(still, fields or {})
        return [question.outcome for question in asked]

    def reply(self, windows: Sequence[Window], rung: Rung) -> Reply:
        """One question asked once, as a probe wants it."""
        (found,) = self.ask([windows], rung, re_asks=0)
        return Reply(
            found.answer.verdicts[0].role if found.answer else None,
            found.kind,
            found.why,
            found.thought,
            found.answer is not None and found.answer.in_reasoning,
            found.prompt_tokens,
            found.completion_tokens,
        )

    @property
    def count(self) -> dict[str, int]:
        """What was counted so far."""
        with self._lock:
            return dict(self._count)

    def counted(self, **more: int) -> None:
        """Add to the counts."""
        with self._lock:
            self._count.update(more)

    def _round(self, questions: Sequence[_Open], fields: Mapping[str, Any]) -> None:
        """Ask each question once more."""
        try:
            told = list(self._pool.ask_all([self._written(question, fields) for question in questions]))
            if len(told) != len(questions):
                raise InputError(f"Expected {len(questions)} answers of the pool, got {len(told)}")
        except Exception as error:  # noqa: BLE001 - whatever fails, the segments have no label and training goes on
            kind = "setup" if isinstance(error, InputError | MissingDependency) else "internal"
            outcome = Outcome(None, kind, f"{type(error).__name__}: {error}"[:300])
            for question in questions:
                question.outcome = _with_cost_of(question.outcome, outcome)
            return
        for question, one in zip(questions, told, strict=True):
            question.times += 1
            question.outcome = _with_cost_of(question.outcome, self._read(one, len(question.windows)))

    def _written(self, question: _Open, fields: Mapping[str, Any]) -> Question:
        prompt = self._prompts.write(question.windows, question.outcome.kind)
        own = {"max_tokens": question.tokens, **_response_format(question.rung, self._sure)}
        return Question(prompt.messages, {**fields, **own})

    def _read(self, told: Completion | EndpointError, asked: int) -> Outcome:
        if isinstance(told, EndpointError):
            return Outcome(None, told.kind, _hinted(told.kind, str(told)))
        spent = (told.prompt_tokens, told.completion_tokens)
        thought = bool(told.reasoning.strip()) or "</think>" in told.text
        if told.refusal or told.finish_reason == "content_filter":
            said = f"the model refused: {told.refusal[:80]!r}"
            return Outcome(None, "refused", _hinted("refused", said), thought, *spent)
        try:
            answer = read_answer(told.text, told.reasoning, asked, self._sure)
        except MalformedAnswer as error:
            kind = "truncated" if told.finish_reason == "length" else error.kind
            return Outcome(None, kind, _hinted(kind, str(error)), thought, *spent)
        if answer.in_reasoning:
            self.counted(json_in_reasoning=1)
        return Outcome(answer, "", "", thought and not answer.in_reasoning, *spent)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self.after_fork()


def _with_cost_of(before: Outcome, now: Outcome) -> Outcome:
    return now._replace(
        prompt_tokens=before.prompt_tokens + now.prompt_tokens,
        completion_tokens=before.completion_tokens + now.completion_tokens,
    )


def _hinted(kind: str, told: str) -> str:
    return f"{told}; {_HINTS[kind]}" if kind in _HINTS else told


def _response_format(rung: Rung, sure: bool) -> dict[str, Any]:
    if rung == "text":
        return {}
    if rung == "json_object":
        return {"response_format": {"type": "json_object"}}
    named = {"name": "labels", "strict": True, "schema": SCHEMAS[sure]}
    return {"response_format": {"type": "json_schema", "json_schema": named}}
