"""The client of language models, against a server on loopback that fails in every way that servers fail in."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from gymnasium import logger
from llm_server import endpoint
from needs import require

from triage_gym import registry
from triage_gym.errors import EndpointError, InputError, MissingDependency
from triage_gym.llm import ChatClient
from triage_gym.llm.client import FAILURES
from triage_gym.llm.completion import read_completion
from triage_gym.llm.failures import retry_after

KEY = "sk-planted-1234567890"
ASKED = [{"role": "user", "content": "hi"}]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A key in the environment, which no log of any level may hold."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    yield
    assert KEY not in caplog.text


@pytest.fixture(params=["plain", "openai"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way to send a request; the variable is one that only the ``openai`` package heeds."""
    if request.param == "openai":
        monkeypatch.setenv("OPENAI_ORG_ID", "an-organization")


def client(url: str, **more: Any) -> ChatClient:
    require("openai")
    return ChatClient("m", url, **{"deadline": 30.0, "timeout": 15.0, "tries": 4, "backoff": 0.02, **more})


@pytest.mark.parametrize(
    ("modes", "tries"),
    [
        (("ok",), 1),
        (("429", "ok"), 2),
        (("429-now", "429-soon", "ok"), 3),
        (("500", "529", "ok"), 3),
        (("408", "409", "ok"), 3),
        (("drop", "ok"), 2),
        (("half", "ok"), 2),
        (("html200", "no-choices", "odd-content", "ok"), 4),
    ],
)
@pytest.mark.usefixtures("way")
def test_what_may_pass_is_tried_again(modes: tuple[str, ...], tries: int) -> None:
    with endpoint(*modes) as server:
        asks = client(server.url)
        answer = asks.complete(ASKED)
        asks.close()
        assert (answer.text, answer.finish_reason, answer.tries) == ("hello", "stop", tries)
        billed = 1 + modes.count("odd-content")
        assert (answer.prompt_tokens, answer.completion_tokens) == (11 * billed, 7 * billed)
        usage = asks.usage
        assert (usage["answers"], usage["failures"], usage["requests"]) == (1, 0, tries)
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (11 * billed, 7 * billed)
        assert len(server.requests) == tries
        assert set(server.keys) == {f"Bearer {KEY}"}
        assert server.requests[-1] == {"model": "m", "messages": ASKED, "max_tokens": 1024}


@pytest.mark.parametrize(
    ("mode", "kind", "requests"),
    [
        ("429-now", "rate_limited", 4),
        ("429-late", "rate_limited", 1),
        ("500", "server", 4),
        ("529", "server", 4),
        ("400", "request", 1),
        ("404", "request", 1),
        ("401", "key", 1),
        ("html200", "garbled", 4),
        ("no-choices", "garbled", 4),
        ("drop", "connection", 4),
        ("huge", "too_large", 1),
    ],
)
@pytest.mark.usefixtures("way")
def test_what_does_not_pass_is_a_typed_failure(mode: str, kind: str, requests: int) -> None:
    assert kind in FAILURES
    with endpoint(mode) as server:
        asks = client(server.url)
        with pytest.raises(EndpointError, match="Expected a completion") as caught:
            asks.complete(ASKED)
        asks.close()
        assert caught.value.kind == kind
        assert len(server.requests) == requests
        assert (asks.usage["failures"], asks.usage["requests"]) == (1, requests)
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert (again.kind, str(again)) == (kind, str(caught.value))


@pytest.mark.parametrize("mode", ["hang", "drip", "drip-headers", "429-soon"])
@pytest.mark.usefixtures("way")
def test_the_deadline_holds_whatever_the_server_does(mode: str) -> None:
    with endpoint(mode) as server:
        asks = client(server.url, deadline=0.9, timeout=0.4, tries=99)
        began = time.monotonic()
        with pytest.raises(EndpointError) as caught:
            asks.complete(ASKED)
        took = time.monotonic() - began
        asks.close()
    assert took < 1.9
    assert asks.usage["requests"] > 1
    assert mode == "429-soon" or caught.value.kind == "timeout"


def test_after_a_time_out_it_is_tried_again() -> None:
    with endpoint("hang", "ok") as server:
        asks = client(server.url, timeout=1.0)
        assert asks.complete(ASKED).tries == 2
        asks.close()


@pytest.mark.parametrize(
    ("mode", "text", "finish", "refusal"),
    [
        ("empty", "", "stop", ""),
        ("truncated", "hello thou", "length", ""),
        ("refusal", "", "stop", "I would rather not."),
    ],
)
def test_an_answer_that_says_little_is_an_answer(mode: str, text: str, finish: str, refusal: str) -> None:
    with endpoint(mode, text="hello thousand worlds") as server:
        asks = client(server.url)
        answer = asks.complete(ASKED)
        asks.close()
    assert (answer.text, answer.finish_reason, answer.refusal, answer.completion_tokens) == (text, finish, refusal, 7)


def test_a_server_that_is_not_there_fails_in_time() -> None:
    with endpoint() as server:
        url = server.url
    with pytest.raises(EndpointError, match="connection failed") as caught:
        client(url, tries=2).complete(ASKED)
    assert caught.value.kind == "connection"


def test_the_key_stays_with_its_host() -> None:
    with endpoint() as other, endpoint("redirect", target=other.url) as server:
        asks = client(server.url)
        asks.complete(ASKED)
        asks.close()
        assert (set(server.keys), other.keys) == ({f"Bearer {KEY}"}, [""])


@pytest.mark.usefixtures("way")
def test_a_server_that_sends_the_key_back_gets_it_into_no_message() -> None:
    with endpoint("echo-page", "echo-answer") as server:
        asks = client(server.url, tries=1)
        with pytest.raises(EndpointError) as caught:
            asks.complete(ASKED)
        assert KEY[:4] not in str(caught.value), "nor a part of it"
        answer = asks.complete(ASKED)
        asks.close()
    assert (answer.text, answer.refusal) == ("Bearer [key]", "Bearer [key]")


def test_a_word_that_stands_for_no_key_may_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "ell")
    with endpoint() as server:
        asks = client(server.url)
        assert asks.complete(ASKED).text == "hello"
        asks.close()


@pytest.mark.usefixtures("way")
def test_half_a_surrogate_pair_is_sent_as_a_question_mark() -> None:
    with endpoint() as server:
        asks = client(server.url)
        asks.complete([{"role": "user", "content": "a \ud800 b 😀"}])
        asks.close()
        assert server.requests[0]["messages"] == [{"role": "user", "content": "a ? b 😀"}]


def test_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint() as server:
        asks = client(server.url, api_key_env="NO_SUCH_KEY")
        asks.complete(ASKED)
        asks.close()
        assert server.keys == ["Bearer none"], "the key of another variable is never sent"
    with pytest.raises(InputError, match="NO_SUCH_KEY"):
        ChatClient("m", api_key_env="NO_SUCH_KEY").complete(ASKED)


def test_options_are_fields_of_the_request() -> None:
    options = {"temperature": 0, "max_completion_tokens": 9, "chat_template_kwargs": {"enable_thinking": False}}
    with endpoint() as server:
        asks = client(server.url, options=options)
        asks.complete(ASKED)
        asks.close()
        assert server.requests == [{"model": "m", "messages": ASKED, **options}]


def test_it_goes_where_copies_and_pickles_go_and_shows_no_key() -> None:
    with endpoint() as server:
        asks = client(server.url)
        asks.complete(ASKED)
        carried = pickle.dumps(asks)
        assert KEY.encode() not in carried
        for other in (pickle.loads(carried), copy.deepcopy(asks)):  # noqa: S301 - our own bytes
            assert other.complete(ASKED).text == "hello"
            other.close()
        asks.close()
        assert KEY not in repr(asks) + str(vars(asks))
        assert asks.complete(ASKED).text == "hello", "a closed client opens again"
        asks.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": ""},
        {"base_url": "localhost:8000"},
        {"base_url": "ftp://x/v1"},
        {"base_url": "https://me:secret@x/v1"},
        {"deadline": 0},
        {"timeout": float("inf")},
        {"tries": 0},
        {"max_tokens": 0},
        {"options": {"stream": True}},
    ],
)
def test_wrong_arguments_are_errors(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="Expected") as caught:
        ChatClient(**{"model": "m", **wrong})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("spec", ["llm", {"name": "llm", "model": ""}])
def test_a_reflector_without_a_model_says_what_to_give(spec: Any) -> None:
    with pytest.raises(InputError, match="give it one with `model`") as caught:
        registry.make("reflectors", spec)
    assert "__init__" not in str(caught.value)


def test_a_key_over_plain_http_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logger, "min_level", logger.WARN)
    with pytest.warns(UserWarning, match="example.org unencrypted"):
        ChatClient("m", "http://example.org/v1")
    ChatClient("m", "http://localhost:1/v1")
    ChatClient("m", "http://example.org/v1", api_key_env="NO_SUCH_KEY")


@pytest.mark.parametrize("url", ["http://localhost:1/v1", "https://localhost:1/v1"])
def test_a_missing_package_names_the_extra(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    asks = ChatClient("m", url)
    with pytest.raises(MissingDependency, match=r"triage-gym\[judge\]"):
        asks.complete(ASKED)
    asks.close()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 60.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.0),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_how_long_a_server_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, lambda: 40.0) == seconds


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [3]}',
        b'{"choices": [{"message": null}]}',
        b"[" * 9999,
    ],
)
def test_a_body_that_is_no_completion_says_so(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|message"):
        read_completion(body)


def test_a_completion_without_numbers_costs_nothing() -> None:
    message = {"content": "x"}
    for usage in (None, [], {}, {"prompt_tokens": -1, "completion_tokens": 1.5}):
        body = json.dumps({"choices": [{"message": message}], "usage": usage}).encode()
        answer = read_completion(body)
        assert (answer.text, answer.prompt_tokens, answer.completion_tokens) == ("x", 0, 0)
