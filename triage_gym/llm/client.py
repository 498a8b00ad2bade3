"""ChatClient: one question to any OpenAI-compatible endpoint, with a deadline that holds and retries that end.

What it promises: an answer, or an :class:`~triage_gym.errors.EndpointError` with a ``kind``, within the deadline, whatever
the server does: hang, trickle, drop, flood, or answer with something else. Requests are tried again after 408, 409, 429,
5xx, time-outs, dropped connections and bodies that are no completion, as the server's ``Retry-After`` says or after a
random wait that doubles; never after another 4xx. The key is read from the environment, sent to the endpoint, and found
in no message, log, ``repr`` or pickle of ours. Tokens are counted whenever the server says that they were billed.

What it leaves to you: what an answer means. One that is empty, cut off or a refusal is a
:class:`~triage_gym.llm.completion.Completion` that says so, since its tokens were billed. Many questions at once are for
:class:`~triage_gym.llm.pool.ChatPool`. The ``openai`` package, which sends whatever goes over TLS or through a proxy, tells
the server the operating system and the Python version in headers of its own.
"""

from __future__ import annotations

import importlib.util
import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from triage_gym.errors import InputError
from triage_gym.llm.accounts import Accounts
from triage_gym.llm.address import check_url, plain
from triage_gym.llm.clock import Clock, MachineClock
from triage_gym.llm.completion import Billed, Completion, NoCompletion, read_completion
from triage_gym.llm.failures import FAILURES, LONGEST_WAIT, MOST_GARBLED, Failed, Failure, of_status, pause, words_of
from triage_gym.llm.forks import renew_after_fork
from triage_gym.llm.transport import (
    MOST_BYTES,
    Late,
    Lost,
    NotPlain,
    Packaged,
    Plain,
    Reply,
    Sending,
    TooLarge,
    Transport,
    Untrusted,
    missing,
)

__all__ = ["FAILURES", "LONGEST_WAIT", "MOST_BYTES", "ChatClient", "Failure", "Question"]
_OURS: Final = ("messages", "model", "n", "stream")
_NO_KEY: Final = "none"
_HIDDEN: Final = "[key]"
_GRACE: Final = 0.05
"""Seconds that a transport has to tell by itself that it is late."""
_LEAST_KEY: Final = 8
"""Characters of the shortest key that is kept secret."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a model is asked."""

    messages: Sequence[Mapping[str, str]]
    """``{"role": …, "content": …}``, the first ones first."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of this request beside the client's, such as ``response_format`` or ``max_tokens``; None leaves one out.
    ``max_tokens`` goes by the name that the client has for it."""


class ChatClient:
    """Asks one model of one endpoint.

    Args:
        model: The model's name, as the endpoint calls it.
        base_url: Where the endpoint is, such as ``"http://localhost:8000/v1"``; None for OpenAI's, or what
            ``OPENAI_BASE_URL`` says.
        api_key_env: Name of the environment variable that holds the key. With a ``base_url`` it may be unset: servers on
            one's own machine ask for none.
        max_tokens: Most tokens of an answer; None leaves it to the endpoint.
        options: Further fields of the request, such as ``{"temperature": 0}`` or
            ``{"chat_template_kwargs": {"enable_thinking": False}}``. ``max_completion_tokens`` there replaces ``max_tokens``.
        deadline: Seconds after which an answer has come or the question has failed, all tries included.
        timeout: Seconds after which one request is given up.
        tries: Most requests.
        backoff: Seconds of the first random pause at most; the next doubles, up to 120.
        prices: Dollars a million tokens, such as ``{"prompt": 0.15, "cached": 0.075, "completion": 0.6}``, for
            ``usage["usd"]``.
        clock: What deadlines and pauses are reckoned in; the machine's, if None.

    Raises:
        InputError: For an argument of the wrong form.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        *,
        max_tokens: int | None = 1024,
        options: Mapping[str, Any] | None = None,
        deadline: float = 180.0,
        timeout: float = 60.0,
        tries: int = 6,
        backoff: float = 0.5,
        prices: Mapping[str, float] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(model, str) or not model:
            raise InputError(f"Expected the name of a model, got {model!r}")
        check_positive(deadline=deadline, timeout=timeout, tries=tries, backoff=backoff, max_tokens=max_tokens)
        self.model, self.base_url, self.api_key_env = model, base_url, api_key_env
        self._fields = _checked(options or {})
        if max_tokens is not None and "max_completion_tokens" not in self._fields:
            self._fields.setdefault("max_tokens", max_tokens)
        self.timeout, self.backoff = timeout, backoff
        self._deadline, self._tries = deadline, tries
        self.clock: Clock = clock or MachineClock()
        self.accounts = Accounts(prices)
        self.after_fork()
        if base_url is not None:
            check_url(base_url, bool(os.environ.get(api_key_env)))

    def after_fork(self) -> None:
        """Begin anew, as in the child of a fork: connections that the parent has too are left to it."""
        self._transport: Transport | None = None
        self._lock = threading.Lock()
        renew_after_fork(self)

    def __repr__(self) -> str:
        return f"ChatClient({self.model!r}, base_url={self.base_url!r})"

    @property
    def usage(self) -> dict[str, float]:
        """Since construction: answers, failures, requests, tokens that were billed, dollars, seconds of answers."""
        return self.accounts.numbers

    def complete(self, messages: Sequence[Mapping[str, str]], **fields: Any) -> Completion:
        """The model's answer to ``messages`` (``{"role": …, "content": …}``); ``fields`` are those of a :class:`Question`.

        Raises:
            EndpointError: If there was none before the deadline; ``kind`` is one of :data:`FAILURES`.
            InputError: If a key is needed and the environment has none.
            MissingDependency: Without the extra ``judge``.
        """
        self.open()
        sending = self.prepared(Question(messages, fields))
        until = self.clock.now() + self._deadline
        billed, garbled, tries = Billed(), 0, 0
        while True:
            tries += 1
            try:
                answer = self._watched(sending, min(until - self.clock.now(), self.timeout))
            except Failed as failure:
                billed += failure.billed
                garbled += bool(failure.billed)
                seconds = pause(failure, tries, self.backoff)
                over = tries >= self._tries or garbled >= MOST_GARBLED
                if over or not failure.again or self.clock.now() + seconds >= until:
                    self.accounts.failed(failure.kind)
                    raise failure.told(tries) from None
                self.clock.sleep(seconds)
            else:
                self.accounts.answered()
                return with_all(answer, billed, tries)

    def open(self) -> None:
        """Look for what is needed to ask: the package and the key.

        Raises:
            InputError: If a key is needed and the environment has none.
            MissingDependency: Without the extra ``judge``.
        """
        self._opened()

    def prepared(self, question: Question) -> Sending:
        """The request that ``question`` becomes.

        Raises:
            InputError: If it has fields that are the client's own.
        """
        own = _checked(question.fields)
        if own.get("max_tokens") is not None and "max_completion_tokens" in self._fields:
            own.setdefault("max_completion_tokens", own.pop("max_tokens"))
        if own.get("max_completion_tokens") is not None:
            own.setdefault("max_tokens", None)
        fields = {**self._fields, **own}
        kept = {name: value for name, value in fields.items() if value is not None}
        return Sending({"model": self.model, "messages": [_sendable(one) for one in question.messages], **kept})

    def once(self, sending: Sending, seconds: float, counted: bool = False) -> Completion:
        """One request, given up after ``seconds``, or later where a server trickles its headers.

        Args:
            sending: What :meth:`prepared` made.
            seconds: Real ones, whatever the clock.
            counted: Whether the request is in the accounts already.

        Raises:
            Failed: If there was no completion.
        """
        if not counted:
            self.accounts.requested()
        began = self.clock.now()
        try:
            answer = self._read(self._sent(sending, time.monotonic() + max(seconds, 0.001)))
        except Failed as failure:
            self.accounts.paid(failure.billed)
            raise
        self.accounts.paid(answer.billed, self.clock.now() - began)
        return answer

    def late(self) -> Failed:
        """The failure of a request that took too long."""
        told = f"Expected a completion of {self._place()} in time, got none"
        return Failed("timeout", told, again=True, slows=True)

    def close(self) -> None:
        """Let go of the connections; the next question opens new ones."""
        with self._lock:
            transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_transport", "_lock")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self.after_fork()

    def _watched(self, sending: Sending, seconds: float) -> Completion:
        """One request, in a thread of its own: no time-out of a socket bounds a server that trickles its headers."""
        answers: queue.SimpleQueue[Completion | Exception] = queue.SimpleQueue()

        def work() -> None:
            try:
                answers.put(self.once(sending, seconds))
            except Exception as error:  # noqa: BLE001 - carried to the caller's thread and raised there
                answers.put(error)

        threading.Thread(target=work, name="triage_gym.llm", daemon=True).start()
        try:
            found = answers.get(timeout=max(seconds, 0.001) + _GRACE)
        except queue.Empty:
            found = self.late()
        if isinstance(found, Exception):
            raise found
        return found

    def _sent(self, sending: Sending, until: float) -> Reply:
        try:
            transport = self._opened()
            try:
                return transport.post(sending, until)
            except NotPlain:
                return self._replaced(transport).post(sending, until)
        except Late:
            raise self.late() from None
        except Lost as error:
            told = self._redacted(f"Expected a completion of {self._place()}, but the connection failed: {error}")
            if untrusted := isinstance(error, Untrusted):
                told += "; name the file of an authority that you trust in SSL_CERT_FILE"
            raise Failed("connection", told, again=not untrusted) from None
        except TooLarge:
            told = f"Expected a completion of at most {MOST_BYTES} bytes of {self._place()}, got more"
            raise Failed("too_large", told) from None

    def _read(self, reply: Reply) -> Completion:
        key = self._secret()
        # A server may send back what it was sent. Before the body is cut for a message, and in what the text says.
        body = reply.body.replace(key.encode(), _HIDDEN.encode()) if key else reply.body
        if not 200 <= reply.status < 300:
            words = self._redacted(words_of(body))[:300]
            told = f"Expected a completion of {self._place()}, got status {reply.status}: {words!r}"
            raise of_status(reply.status, reply.headers, told, self.api_key_env, body)
        try:
            answer = read_completion(body)
        except NoCompletion as error:
            told = f"Expected a completion of {self._place()}, got {error}"
            raise Failed("garbled", told, again=True, billed=error.billed) from None
        text, refusal, reasoning = map(self._redacted, (answer.text, answer.refusal, answer.reasoning))
        return replace(answer, text=text, refusal=refusal, reasoning=reasoning)

    def _opened(self) -> Transport:
        with self._lock:
            if self._transport is None:
                url = self.base_url or os.environ.get("OPENAI_BASE_URL")
                key = self._key()
                if url and self.base_url is None:
                    check_url(url, key != _NO_KEY, "OPENAI_BASE_URL")
                if url and plain(url):
                    _check_package()
                    self._transport = Plain(url, key)
                else:
                    self._transport = Packaged(self.base_url, key, self.timeout)
            return self._transport

    def _replaced(self, transport: Transport) -> Transport:
        """The ``openai`` package in the place of ``transport``, from now on."""
        with self._lock:
            if self._transport is transport:
                transport.close()
                self._transport = Packaged(self.base_url, self._key(), self.timeout)
            found = self._transport
        return found or self._opened()

    def _key(self) -> str:
        key = os.environ.get(self.api_key_env, "").strip()
        if not key and self.base_url is None:
            raise InputError(
                f"Expected a key in the environment variable {self.api_key_env}, got none; set it, or give the `base_url` "
                "of a server that needs none"
            )
        if not key.isascii() or not key.isprintable():
            raise InputError(f"Expected the key in {self.api_key_env} to be of printable ASCII characters; set it anew")
        return key or _NO_KEY

    def _place(self) -> str:
        return f"{self.model!r} at {self.base_url or os.environ.get('OPENAI_BASE_URL') or 'OpenAI'}"

    def _redacted(self, text: str) -> str:
        key = self._secret()
        return text.replace(key, _HIDDEN) if key else text

    def _secret(self) -> str:
        """The key, where it is one: servers of one's own take any word, and words stand in answers."""
        key = os.environ.get(self.api_key_env, "").strip()
        return key if len(key) >= _LEAST_KEY else ""


def with_all(answer: Completion, before: Billed, tries: int) -> Completion:
    """``answer`` with the number of tries, and what the ones before it cost added."""
    total = answer.billed + before
    return replace(
        answer,
        tries=tries,
        prompt_tokens=total.prompt_tokens,
        completion_tokens=total.completion_tokens,
        cached_tokens=total.cached_tokens,
        reasoning_tokens=total.reasoning_tokens,
    )


def check_positive(**numbers: float | None) -> None:
    """Refuse numbers that are none, or not above 0.

    Raises:
        InputError: Naming them.
    """
    wrong = [f"{name}={value!r}" for name, value in numbers.items() if value is not None and not _positive(value)]
    if wrong:
        raise InputError(f"Expected positive numbers for the client, got {', '.join(wrong)}")


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _checked(fields: Mapping[str, Any]) -> dict[str, Any]:
    reserved = [name for name in _OURS if name in fields]
    if reserved:
        raise InputError(f"Expected options of a request without {_OURS}, got {reserved}; drop them")
    return dict(fields)


def _sendable(message: Mapping[str, str]) -> dict[str, str]:
    """``message`` as UTF-8 can hold it: half a surrogate pair, as a game may print, becomes a question mark."""
    return {name: text.encode("utf-8", "replace").decode("utf-8") for name, text in message.items()}


def _check_package() -> None:
    """Refuse to begin without the package that whatever is not plain is left to: a run should not learn it half-way."""
    try:
        found = importlib.util.find_spec("openai") is not None
    except ValueError:
        found = False
    if not found:
        raise missing()
