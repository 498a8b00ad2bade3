"""ChatClient: one question to any OpenAI-compatible endpoint, with a deadline that holds and retries that end.

What it promises: an answer, or an :class:`~triage_gym.errors.EndpointError` with a ``kind``, within the deadline, whatever
the server does: hang, trickle, drop, flood, or answer with something else. Requests are tried again after 408, 409, 429,
5xx, time-outs, dropped connections and bodies that are no completion, as the server's ``Retry-After`` says or after a
random wait that doubles; never after another 4xx. The key is read from the environment, sent to the endpoint, and found
in no message, log, ``repr`` or pickle of ours.

What it leaves to you: what an answer means. One that is empty, cut off or a refusal is a
:class:`~triage_gym.llm.completion.Completion` that says so, since its tokens were billed. The ``openai`` package tells the
server the operating system and the Python version in headers of its own.
"""

from __future__ import annotations

import os
import queue
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

from gymnasium import logger

from triage_gym.errors import EndpointError, InputError, MissingDependency
from triage_gym.llm.completion import Completion, read_completion

Failure = Literal["timeout", "connection", "rate_limited", "server", "garbled", "too_large", "key", "request"]
"""``key``: 401 and 403. ``request``: any other 4xx. ``garbled``: a body that is no completion. ``server``: 5xx, 408, 409."""
FAILURES: Final[tuple[Failure, ...]] = get_args(Failure)
MOST_BYTES: Final = 4_000_000
"""Longest body that is read."""
LONGEST_WAIT: Final = 120.0
"""Seconds of the longest pause between two requests."""
_OURS: Final = ("messages", "model", "n", "stream")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_NO_KEY: Final = "none"
_HIDDEN: Final = "[key]"
_LEAST_KEY: Final = 8
"""Characters of the shortest key that is kept secret."""


class _Transient(EndpointError):
    """A failure after which the same request may succeed."""

    retry_after: float | None = None


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
    ) -> None:
        if not isinstance(model, str) or not model:
            raise InputError(f"Expected the name of a model, got {model!r}")
        numbers = {"deadline": deadline, "timeout": timeout, "tries": tries, "backoff": backoff}
        wrong = [f"{name}={value!r}" for name, value in numbers.items() if not 0 < value < float("inf")]
        if wrong or (max_tokens is not None and max_tokens < 1):
            raise InputError(f"Expected positive numbers for the client, got {', '.join(wrong) or f'{max_tokens=}'}")
        reserved = [name for name in _OURS if name in (options or {})]
        if reserved:
            raise InputError(f"Expected options of a request without {_OURS}, got {reserved}; drop them")
        self.model, self.base_url, self.api_key_env = model, base_url, api_key_env
        self._fields = dict(options or {})
        if max_tokens is not None and "max_completion_tokens" not in self._fields:
            self._fields.setdefault("max_tokens", max_tokens)
        self._deadline, self._timeout, self._tries, self._backoff = deadline, timeout, tries, backoff
        self._client: Any = None
        self._lock = threading.Lock()
        self._usage = dict.fromkeys(("answers", "failures", "requests", "prompt_tokens", "completion_tokens"), 0)
        if base_url is not None:
            _check_url(base_url, bool(os.environ.get(api_key_env)))

    def __repr__(self) -> str:
        return f"ChatClient({self.model!r}, base_url={self.base_url!r})"

    @property
    def usage(self) -> dict[str, int]:
        """Since construction: answers, failures, requests, and the tokens that were billed."""
        with self._lock:
            return dict(self._usage)

    def complete(self, messages: Sequence[Mapping[str, str]]) -> Completion:
        """The model's answer to ``messages`` (``{"role": …, "content": …}``).

        Raises:
            EndpointError: If there was none before the deadline; ``kind`` is one of :data:`FAILURES`.
            InputError: If a key is needed and the environment has none.
            MissingDependency: Without the extra ``judge``.
        """
        client = self._opened()
        retrying = self._retrying()
        until = time.monotonic() + self._deadline
        try:
            answer: Completion = retrying(self._ask, client, [_sendable(message) for message in messages], until)
        except EndpointError as error:
            tries = int(retrying.statistics["attempt_number"])
            self._count(failures=1, requests=tries)
            told = f"{error} ({tries} {'try' if tries == 1 else 'tries'})"
            raise EndpointError(error.kind, told) from None
        tries = int(retrying.statistics["attempt_number"])
        tokens = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.completion_tokens}
        self._count(answers=1, requests=tries, **tokens)
        return replace(answer, tries=tries)

    def close(self) -> None:
        """Let go of the connections; the next question opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_client", "_lock")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._client, self._lock = None, threading.Lock()

    def _count(self, **more: int) -> None:
        with self._lock:
            for name, value in more.items():
                self._usage[name] += value

    def _opened(self) -> Any:
        try:
            import openai
        except ImportError as error:
            raise _missing("openai") from error
        with self._lock:
            if self._client is None:
                self._client = openai.OpenAI(
                    api_key=self._key(), base_url=self.base_url, max_retries=0, timeout=self._timeout
                )
            return self._client

    def _key(self) -> str:
        key = os.environ.get(self.api_key_env, "").strip()
        if not key and self.base_url is None:
            raise InputError(
                f"Expected a key in the environment variable {self.api_key_env}, got none; set it, or give the `base_url` "
                "of a server that needs none"
            )
        return key or _NO_KEY

    def _retrying(self) -> Any:
        try:
            import tenacity
        except ImportError as error:
            raise _missing("tenacity") from error
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Transient),
            stop=tenacity.stop_after_attempt(self._tries) | tenacity.stop_before_delay(self._deadline),
            wait=self._pause,
            reraise=True,
        )

    def _pause(self, state: Any) -> float:
        """Seconds to wait after the failure in ``state``: as the server says, else by chance, doubling."""
        after = getattr(state.outcome.exception(), "retry_after", None)
        if after is not None:
            return min(float(after), LONGEST_WAIT)
        most = min(self._backoff * 2.0 ** (state.attempt_number - 1), LONGEST_WAIT)
        return random.SystemRandom().uniform(0.0, most)

    def _ask(self, client: Any, messages: list[dict[str, str]], until: float) -> Completion:
        """One request, in a thread of its own: no time-out of a socket bounds a server that trickles its headers."""
        answers: queue.SimpleQueue[Completion | Exception] = queue.SimpleQueue()
        until = min(until, time.monotonic() + self._timeout)

        def work() -> None:
            try:
                answers.put(self._request(client, messages, until))
            except Exception as error:  # noqa: BLE001 - carried to the caller's thread and raised there
                answers.put(error)

        threading.Thread(target=work, name="triage_gym.llm", daemon=True).start()
        try:
            found = answers.get(timeout=max(until - time.monotonic(), 0.001))
        except queue.Empty:
            found = self._late()
        if isinstance(found, Exception):
            raise found
        return found

    def _request(self, client: Any, messages: list[dict[str, str]], until: float) -> Completion:
        import openai

        left = max(until - time.monotonic(), 0.001)
        ask = client.chat.completions.with_streaming_response.create
        try:
            with ask(model=self.model, messages=messages, extra_body=self._fields, timeout=left) as response:
                body = self._body(response, until)
        except openai.APIStatusError as error:
            raise self._of_status(error.status_code, error.response.headers, error.message) from None
        except openai.APITimeoutError:
            raise self._late() from None
        except openai.APIConnectionError as error:
            raise self._lost(error.__cause__ or error) from None
        key = self._secret()
        try:
            # A server may send back what it was sent. Before the body is cut for a message, and in what the text says.
            answer = read_completion(body.replace(key.encode(), _HIDDEN.encode()) if key else body)
        except ValueError as error:
            raise _Transient("garbled", f"Expected a completion of {self._place()}, got {error}") from None
        return replace(answer, text=self._redacted(answer.text), refusal=self._redacted(answer.refusal))

    def _body(self, response: Any, until: float) -> bytes:
        body = bytearray()
        try:
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise EndpointError(
                        "too_large", f"Expected a completion of at most {MOST_BYTES} bytes of {self._place()}, got more"
                    )
                if time.monotonic() > until:
                    raise self._late()
        except EndpointError:
            raise
        except Exception as error:  # noqa: BLE001 - what a body fails with belongs to one of two HTTP libraries
            raise (self._late() if "Timeout" in type(error).__name__ else self._lost(error)) from None
        return bytes(body)

    def _of_status(self, status: int, headers: Mapping[str, str], message: str) -> EndpointError:
        told = f"Expected a completion of {self._place()}, got status {status}: {self._redacted(message)[:300]!r}"
        if status in (408, 409, 429) or status >= 500:
            failure = _Transient("rate_limited" if status == 429 else "server", told)
            failure.retry_after = _retry_after(headers)
            return failure
        if status in (401, 403):
            return EndpointError("key", f"{told}; look at the key in {self.api_key_env}")
        return EndpointError("request", told)

    def _late(self) -> _Transient:
        return _Transient("timeout", f"Expected a completion of {self._place()} in time, got none")

    def _lost(self, error: BaseException) -> _Transient:
        told = self._redacted(f"{type(error).__name__}: {error}")
        return _Transient("connection", f"Expected a completion of {self._place()}, but the connection failed: {told}")

    def _place(self) -> str:
        return f"{self.model!r} at {self.base_url or os.environ.get('OPENAI_BASE_URL') or 'OpenAI'}"

    def _redacted(self, text: str) -> str:
        key = self._secret()
        return text.replace(key, _HIDDEN) if key else text

    def _secret(self) -> str:
        """The key, where it is one: servers of one's own take any word, and words stand in answers."""
        key = os.environ.get(self.api_key_env, "").strip()
        return key if len(key) >= _LEAST_KEY else ""


Clock = Callable[[], float]


def _retry_after(headers: Mapping[str, str], now: Clock = time.time) -> float | None:
    """Seconds that a server asks to wait, by ``Retry-After-Ms`` or ``Retry-After`` (seconds or a date)."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        return max(parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def _sendable(message: Mapping[str, str]) -> dict[str, str]:
    """``message`` as UTF-8 can hold it: half a surrogate pair, as a game may print, becomes a question mark."""
    return {name: text.encode("utf-8", "replace").decode("utf-8") for name, text in message.items()}


def _check_url(url: str, has_key: bool) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"Expected base_url to be like http://localhost:8000/v1, got {url!r:.80}")
    if parts.username or parts.password:
        raise InputError("Expected base_url without a user and a password; put the key into the environment variable")
    if parts.scheme == "http" and has_key and parts.hostname not in _LOOPBACK:
        logger.warn("%s", f"The key goes to {parts.hostname} unencrypted; use https or unset the variable")


def _missing(package: str) -> MissingDependency:
    return MissingDependency(
        f"Expected the package {package}, got none; install it with: pip install 'triage-gym[judge]'"
    )
