"""What is read from bodies, what is reckoned from it, and how limits, pauses and hints follow."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage_gym.errors import InputError
from triage_gym.llm.accounts import Accounts
from triage_gym.llm.completion import Billed, NoCompletion, read_completion
from triage_gym.llm.failures import LONGEST_WAIT, Failed, of_status, pause, words_of
from triage_gym.llm.limit import AdaptiveLimit

USAGE = {"prompt_tokens": 11, "completion_tokens": 7}


def body(message: Any, usage: Any = None) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}).encode()


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "a"}, "a", ""),
        ({"content": "a", "reasoning": "b"}, "a", "b"),
        ({"content": None, "reasoning_content": "b"}, "", "b"),
        ({"content": "a", "reasoning": "b", "reasoning_content": "c"}, "a", "b"),
        ({"content": "a", "reasoning": None, "reasoning_content": "c"}, "a", "c"),
        ({"content": "a", "reasoning": {"steps": 3}}, "a", ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", ""),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "b"}]},
                    {"type": "text", "text": "a"},
                ]
            },
            "a",
            "b",
        ),
    ],
)
def test_text_is_of_the_content_and_thoughts_are_kept_apart(message: Any, text: str, reasoning: str) -> None:
    found = read_completion(body(message))
    assert (found.text, found.reasoning) == (text, reasoning)


@pytest.mark.parametrize("content", [["a"], [{"text": "a"}], [{"type": "output_text", "text": "a"}]])
def test_parts_of_a_content_may_be_written_in_other_ways(content: Any) -> None:
    assert read_completion(body({"content": content})).text == "a"


def test_half_a_character_costs_no_answer() -> None:
    found = read_completion(body({"content": "a!"}, USAGE).replace(b"a!", b"a\xe2\x82"))
    assert found.text == "a\ufffd"
    assert found.billed == Billed(11, 7)


def test_an_error_in_the_place_of_a_message_is_told() -> None:
    with pytest.raises(NoCompletion, match="the model is loading") as caught:
        read_completion(json.dumps({"error": {"message": "the model is loading"}, "usage": USAGE}).encode())
    assert caught.value.billed == Billed(11, 7)


@pytest.mark.parametrize(
    ("usage", "billed"),
    [
        (USAGE, Billed(11, 7)),
        ({**USAGE, "prompt_tokens_details": {"cached_tokens": 4}}, Billed(11, 7, cached_tokens=4)),
        ({**USAGE, "prompt_tokens_details": {"cached_tokens": 40}}, Billed(11, 7, cached_tokens=11)),
        ({**USAGE, "prompt_cache_hit_tokens": 4}, Billed(11, 7, cached_tokens=4)),
        ({**USAGE, "completion_tokens_details": {"reasoning_tokens": 3}}, Billed(11, 7, reasoning_tokens=3)),
        ({**USAGE, "reasoning_tokens": 3, "completion_tokens_details": None}, Billed(11, 7, reasoning_tokens=3)),
        ({"prompt_tokens": float("nan"), "completion_tokens": 7}, Billed(0, 7)),
        ({"prompt_tokens": 11.0, "completion_tokens": 0.5}, Billed(11, 0)),
        ({"prompt_tokens": 10**400, "completion_tokens": True}, Billed()),
    ],
)
def test_what_was_billed_is_read_with_and_without_a_message(usage: Any, billed: Billed) -> None:
    assert read_completion(body({"content": "a"}, usage)).billed == billed
    for message in (None, {}, {"content": 7}, {"content": [7]}):
        with pytest.raises(NoCompletion) as caught:
            read_completion(body(message, usage))
        assert caught.value.billed == billed


@given(st.binary() | st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["choices", "message", "content", "usage", "type", "text", "prompt_tokens", "thinking"]), inner
    ),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_any_body_is_a_completion_or_none(data: bytes) -> None:
    try:
        found = read_completion(data)
    except NoCompletion:
        return
    assert all(type(number) is int and number >= 0 for number in (found.prompt_tokens, found.completion_tokens))


def test_money_by_hand() -> None:
    accounts = Accounts({"prompt": 2.0, "cached": 0.5, "completion": 8.0})
    accounts.paid(Billed(1_000_000, 500_000, cached_tokens=400_000, reasoning_tokens=300_000))
    # 600,000 fresh at 2 + 400,000 cached at 0.5 + 500,000 at 8, dollars a million; thoughts are part of the answer.
    assert accounts.numbers["usd"] == pytest.approx(1.2 + 0.2 + 4.0)
    plain = Accounts({"prompt": 2.0, "completion": 8.0})
    plain.paid(Billed(1_000_000, 0, cached_tokens=400_000))
    assert plain.numbers["usd"] == pytest.approx(2.0)
    assert not Accounts().priced


@pytest.mark.parametrize(
    "prices", [{}, {"prompt": 1.0}, {"prompt": 1.0, "completion": -1.0}, {"prompt": 1, "completion": 1, "x": 1},
               {"prompt": "1", "completion": 1}, {"prompt": float("nan"), "completion": 1}]
)  # fmt: skip
def test_prices_of_another_form_are_refused(prices: Any) -> None:
    with pytest.raises(InputError, match="dollars a million tokens"):
        Accounts(prices)


@given(st.lists(st.floats(0.002, 3000.0), min_size=1, max_size=60))
def test_latencies_are_known_to_ten_percent(seconds: list[float]) -> None:
    accounts = Accounts()
    for one in seconds:
        accounts.paid(Billed(), one)
    accounts = pickle.loads(pickle.dumps(accounts))  # noqa: S301 - our own bytes
    found = accounts.latency
    assert found["count"] == len(seconds)
    assert found["sum"] == pytest.approx(sum(seconds))
    assert found["max"] == max(seconds)
    for share in (50, 95):
        exact = sorted(seconds)[max(-(-share * len(seconds) // 100), 1) - 1]
        assert exact / 1.1 <= found[f"p{share}"] <= exact * 1.1
    assert Accounts().latency["p50"] == 0.0


@given(st.integers(1, 8), st.integers(0, 30), st.integers(0, 30), st.lists(st.booleans(), max_size=300))
def test_the_limit_stays_in_its_bounds(least: int, more: int, room: int, events: list[bool]) -> None:
    limit = AdaptiveLimit(least + more, least, least + more + room)
    for now, good in enumerate(events):
        before = limit.value
        limit.succeeded() if good else limit.slowed(now, now + 0.5)
        assert least <= limit.value <= least + more + room
        assert limit.value in ((before, before + 1) if good else (max(before // 2, least),))


def test_the_limit_halves_once_a_round_trip_and_grows_by_one_a_limit_full() -> None:
    limit = AdaptiveLimit(16, 1, 32)
    for sent in (0.0, 0.1, 0.2):
        limit.slowed(sent, 1.0)
    assert limit.value == 8
    limit.slowed(1.1, 2.0)
    assert limit.value == 4
    for _ in range(4 + 5 + 6 - 1):
        limit.succeeded()
    assert limit.value == 6
    limit.succeeded()
    assert limit.value == 7


@given(st.integers(1, 5000), st.none() | st.floats(0, 1e9))
def test_pauses_are_what_the_server_says_or_bounded_chance(attempt: int, said: float | None) -> None:
    seconds = pause(Failed("server", "no", retry_after=said), attempt, 0.5)
    most = min(0.5 * 2 ** min(attempt - 1, 20), LONGEST_WAIT)
    assert 0 <= seconds <= max(most, min(said or 0, LONGEST_WAIT))
    if said is not None:
        assert seconds >= min(said, LONGEST_WAIT)
    if said is not None and attempt == 1:
        assert seconds == min(said, LONGEST_WAIT)


@pytest.mark.parametrize(
    ("status", "said", "kind", "hint"),
    [
        (401, "no", "key", "look at the key in MY_KEY"),
        (403, "no", "key", "look at the key in MY_KEY"),
        (404, "no", "request", "base_url, which usually ends in /v1"),
        (400, "This model's maximum context length is 4096 tokens", "request", "show it less"),
        (413, "no", "request", "show it less"),
        (402, "no", "request", "no credit left"),
        (422, "response_format is not supported", "request", "the fields of the request"),
        (302, "", "request", "the fields of the request"),
    ],
)
def test_what_stays_as_it_is_says_what_to_mend(status: int, said: str, kind: str, hint: str) -> None:
    found = of_status(status, {}, f"got {said}", "MY_KEY")
    assert (found.kind, found.again) == (kind, False)
    assert hint in str(found)
    assert "\n" not in str(found)


@pytest.mark.parametrize(("status", "slows"), [(408, False), (429, True), (500, False), (503, True), (529, True)])
def test_what_may_pass_says_whether_there_was_too_much(status: int, slows: bool) -> None:
    found = of_status(status, {"retry-after": "7"}, "no", "MY_KEY")
    assert (found.again, found.slows, found.retry_after) == (True, slows, 7.0)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b'{"error": {"message": "no model"}}', "no model"),
        (b'{"error": "no model"}', "no model"),
        (b'{"detail": "no model"}', "no model"),
        (b'{"message": "no model"}', "no model"),
        (b'{"error": {"code": 3}}', '{"error": {"code": 3}}'),
        (b"<html>\xff", "<html>\ufffd"),
        (b"[" * 9999, "[" * 9999),
    ],
)
def test_the_words_of_an_error_are_found(said: bytes, words: str) -> None:
    assert words_of(said) == words
