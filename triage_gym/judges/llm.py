"""The language-model judge: roles from any OpenAI-compatible endpoint, or a typed reason why there is none.

What it promises: one label a window, in order; a window that got no answer is ``role=None`` with status ``failed`` and the
kind of failure first in ``why``, never a guess and never an exception; every token that an endpoint says it billed is in
``usage``, whatever the answer was worth. Prompts hold texts alone (:mod:`triage_gym.judges.prompting`), answers are read
strictly (:mod:`triage_gym.judges.answers`), bad ones are asked for again (:mod:`triage_gym.judges.asking`).

What it leaves to you: whether the model judges well. Measure that before you train with it (``triage-gym judge audit``),
and look first at what the endpoint can do (``triage-gym judge check``).
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

from triage_gym.errors import InputError
from triage_gym.judges.asking import Asker, Outcome, Pool
from triage_gym.judges.labelling import MAX_WHY, failed_labels
from triage_gym.judges.probing import RUNGS, UNREACHED, Rung, Tried, first_rung, probe
from triage_gym.judges.prompting import Prompter, View, batches
from triage_gym.judges.rule import RuleJudge
from triage_gym.llm.client import ChatClient
from triage_gym.llm.pool import ChatPool
from triage_gym.protocols import Window
from triage_gym.records import RoleLabel

Mode = Literal["auto", "json_schema", "json_object", "text"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
VERSION: Final = 2
"""Raised when labels may differ though the prompt does not, as when answers are read in another way."""
MAX_TOKENS: Final = 4096
"""Most tokens of an answer by default; models that think need the room."""
DEADLINE: Final = 900.0
"""Seconds from the first request for an answer to the last, by default."""
PROBE_DEADLINE: Final = 60.0
"""The same of a canary."""
PROBE_TRIES: Final = 3
"""Most requests of a canary."""
SOURCE: Final = "llm"
_probing = threading.Lock()
_found_rungs: Final[dict[str, Rung]] = {}
"""By endpoint, model and options, the rung that mode ``auto`` has found in this process."""


class LLMJudge:
    """Asks a language model for the role of each turn.

    Args:
        model: The model's name, as the endpoint calls it.
        base_url: Where the endpoint is, such as ``"http://localhost:8000/v1"``; None for OpenAI's, or what
            ``OPENAI_BASE_URL`` says.
        api_key_env: Name of the environment variable that holds the key.
        batch: Most consecutive turns of an attempt in one question. 1 is the paper's (TRIAGE, arXiv:2606.32017); more
            costs less, and the first turns of a question are then seen with up to ``batch - 1`` more turns after them.
        mode: How to ask for JSON: a rung of the ladder, or ``"auto"``, which finds the strictest that works with one
            canary a rung before the first question, once a process.
        view: ``"actions"`` leaves out what the agent thought, since rewriting thoughts alone sways judges;
            ``"thoughts"`` shows it.
        options: Further fields of the request, such as ``{"temperature": 0}`` or
            ``{"chat_template_kwargs": {"enable_thinking": False}}``.
        max_tokens: Most tokens of an answer, thoughts included; doubled after one that was cut off. For models that know
            ``max_completion_tokens`` instead, set that in ``options``.
        max_characters: Longest prompt.
        confidence: Ask how sure the model is, and say it as 0.4, 0.7 or 0.95. These numbers are not calibrated.
        fallback: ``"rule"`` gives failed windows the label of the rule judge, with the source ``rule:fallback``. None, the
            default, leaves them failed: their segments then get the outcome term alone.
        deadline: Seconds from the first request for an answer to the last; an answer that is asked for again has as many
            again. An outage that is shorter loses no label.
        limit: Most requests at a time; fewer when the endpoint says that these are too many.
        nonce_seed: Makes the marks in prompts repeatable, for tests; None draws them.
        client: Further keyword arguments of :class:`~triage_gym.llm.client.ChatClient`, such as ``{"timeout": 120}`` or
            ``{"prices": {"prompt": 0.15, "completion": 0.6}}``.
        pool: Further keyword arguments of :class:`~triage_gym.llm.pool.ChatPool`, such as ``{"max_usd": 5.0}``; or an
            object to ask instead, with its method ``ask_all``.

    Raises:
        InputError: For an argument of the wrong form.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        *,
        batch: int = 1,
        mode: Mode = "auto",
        view: View = "actions",
        options: Mapping[str, Any] | None = None,
        max_tokens: int = MAX_TOKENS,
        max_characters: int = 24_000,
        confidence: bool = False,
        fallback: Literal["rule"] | None = None,
        deadline: float = DEADLINE,
        limit: int = 32,
        nonce_seed: int | None = None,
        client: Mapping[str, Any] | None = None,
        pool: Mapping[str, Any] | Pool | None = None,
    ) -> None:
        _check(mode, fallback, batch=batch, max_tokens=max_tokens, limit=limit)
        options = dict(options or {})
        if "response_format" in options:
            raise InputError("Expected options without response_format; set `mode` instead")
        self._mode, self._fallback, self._batch, self._seed = mode, fallback, batch, options.get("seed")
        prompts = Prompter(view, max_characters, confidence, batch, nonce_seed)
        max_tokens = options.get("max_completion_tokens", options.get("max_tokens", max_tokens))
        self._client: ChatClient | None = None
        if pool is None or isinstance(pool, Mapping):
            _check_client(client or {})
            asked = self._client = ChatClient(
                model, base_url, api_key_env, **{"options": options, "max_tokens": max_tokens, **(client or {})}
            )
            pool = ChatPool(asked, limit, **{"deadline": deadline, **(pool or {})})
            # What finds the rung must not wait for as long as what asks: a server may fail on a schema for ever.
            probing: Pool = ChatPool(asked, 1, deadline=min(deadline, PROBE_DEADLINE), tries=PROBE_TRIES, patient=False)
        else:
            probing = pool
        self._pool = pool
        self._asker = Asker(pool, prompts, max_tokens, confidence)
        self._prober = Asker(probing, prompts, max_tokens, confidence)
        self._asks = [base_url, model, options]
        self._identity = {
            "judge": SOURCE,
            "version": VERSION,
            "model": model,
            "template": prompts.template,
            "options": options,
            "max_tokens": max_tokens,
            "max_characters": max_characters,
            "mode": mode,
            "view": view,
            "batch": batch,
            "fallback": fallback,
        }

    @property
    def identity(self) -> dict[str, Any]:
        """All that labels depend on but the windows, as JSON values: neither the mark of a prompt nor the address counts."""
        return dict(self._identity)

    @property
    def usage(self) -> dict[str, float]:
        """Since construction: segments asked about and judged, requests, tokens, dollars, repetitions, failures by kind.

        ``failures`` and ``failed_…`` count questions that ended without a label; ``calls`` are requests.
        """
        told = {name: n for name, n in getattr(self._pool, "usage", {}).items() if not name.startswith("fail")}
        own = dict.fromkeys(_COUNTED, 0) | self._asker.count
        own["json_in_reasoning"] += self._prober.count.get("json_in_reasoning", 0)
        return {**told, "calls": told.get("requests", 0), **own}

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        """One label a window, in order."""
        return self.sample(windows, 0)

    def sample(self, windows: Sequence[Window], index: int) -> list[RoleLabel]:
        """The ``index``-th answer: with another ``seed`` where ``options`` have one, else as the sampling has it."""
        if not windows:
            return []
        questions = batches(windows, self._batch)
        asked = [[windows[at] for at in positions] for positions in questions]
        outcomes = self._outcomes(asked, self._varied(index))
        labels: list[RoleLabel] = []
        for positions, outcome in zip(questions, outcomes, strict=True):
            labels += _labels([windows[at] for at in positions], outcome)
            if outcome.kind:
                self._asker.counted(**{"failures": 1, f"failed_{outcome.kind}": 1})
        self._asker.counted(segments=len(windows), judged=sum(label.role is not None for label in labels))
        return self._mended(windows, labels) if self._fallback else labels

    def probe(self) -> list[Tried]:
        """How each rung of the ladder does on four canaries."""
        return probe(self._prober.reply)

    def open(self) -> None:
        """Look, without asking anything, whether it can be asked: :meth:`judge` would only tell of it in failed labels.

        Raises:
            InputError: If a key is needed and the environment has none, or the address is none.
            MissingDependency: Without the extra ``judge``.
        """
        if self._client is not None:
            self._client.open()

    def close(self) -> None:
        """Let go of threads and connections; the next question makes new ones."""
        closing = getattr(self._pool, "close", None)
        if callable(closing):
            closing()

    def _outcomes(self, asked: Sequence[Sequence[Window]], fields: Mapping[str, Any]) -> list[Outcome]:
        """How each question ended."""
        rung, failure = self._rung()
        if rung is None and failure.kind not in UNREACHED:
            return [failure] * len(asked)
        # One that cannot be reached is asked all the same: the pool knows how to wait.
        outcomes = self._asker.ask(asked, rung or RUNGS[0], fields=fields)
        refused = [at for at, outcome in enumerate(outcomes) if outcome.kind == "request"]
        if rung is None and refused and (found := self._rung()[0]) not in (None, RUNGS[0]):
            # It can be reached by now, and what was taken for granted is not what it takes.
            again = self._asker.ask([asked[at] for at in refused], found, fields=fields)
            for at, outcome in zip(refused, again, strict=True):
                outcomes[at] = outcome
        return outcomes

    def _rung(self) -> tuple[Rung | None, Outcome]:
        """The rung to begin with, or why there is none so far."""
        if self._mode != "auto":
            return self._mode, Outcome()
        url, *rest = self._asks
        place = json.dumps([url or os.environ.get("OPENAI_BASE_URL"), *rest], sort_keys=True, default=str)
        with _probing:
            if place not in _found_rungs:
                rung, reply = first_rung(self._prober.reply)
                if rung is None:
                    return None, Outcome(None, reply.kind, f"no way to ask for JSON works: {reply.why}")
                _found_rungs[place] = rung
            return _found_rungs[place], Outcome()

    def _varied(self, index: int) -> dict[str, Any]:
        return {"seed": self._seed + index} if index and type(self._seed) is int else {}

    def _mended(self, windows: Sequence[Window], labels: list[RoleLabel]) -> list[RoleLabel]:
        """The labels, with those of the rule judge where there is none; their source says so."""
        failed = [at for at, label in enumerate(labels) if label.role is None]
        ruled = RuleJudge().judge([windows[at] for at in failed])
        for at, label in zip(failed, ruled, strict=True):
            labels[at] = RoleLabel(label.step, label.role, why=label.why, source="rule:fallback")
        self._asker.counted(fallbacks=len(failed))
        return labels


_COUNTED: Final = ("segments", "judged", "reasks", "failures", "json_in_reasoning", "fallbacks")


def _labels(windows: Sequence[Window], outcome: Outcome) -> list[RoleLabel]:
    if outcome.answer is None:
        return failed_labels(windows, f"{outcome.kind}: {outcome.why}", SOURCE)
    return [
        RoleLabel(window.step, said.role, said.confidence, why=said.why[:MAX_WHY], source=SOURCE)
        for window, said in zip(windows, outcome.answer.verdicts, strict=True)
    ]


def _check_client(client: Mapping[str, Any]) -> None:
    """Refuse what labels depend on anywhere but among the judge's own arguments, which are its identity."""
    wrong = sorted({"model", "base_url", "api_key_env", "options", "max_tokens"} & set(client))
    if wrong:
        raise InputError(f"Expected {wrong} among the arguments of the judge itself, got them in `client`")


def _after_fork() -> None:
    """No thread that looked for a rung in the parent is in its child."""
    global _probing
    _probing = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _check(mode: object, fallback: object, **counts: object) -> None:
    if mode not in MODES:
        raise InputError(f"Expected the mode to be one of {MODES}, got {mode!r}")
    if fallback not in (None, "rule"):
        raise InputError(f'Expected the fallback to be "rule" or None, got {fallback!r}')
    wrong = [f"{name}={value!r}" for name, value in counts.items() if type(value) is not int or value < 1]
    if wrong:
        raise InputError(f"Expected whole numbers of at least 1, got {', '.join(wrong)}")
