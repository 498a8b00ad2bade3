"""Many questions at once: every one ends, in order, in time, within the caps, whatever the endpoint does."""

from __future__ import annotations

import copy
import gc
import json
import logging
import pickle
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llm_server import FAULTS, endpoint
from needs import require

from triage_gym.errors import EndpointError, InputError
from triage_gym.llm import ChatClient, ChatPool, Completion, MachineClock, Question, VirtualClock
from triage_gym.llm import pool as pool_module
from triage_gym.llm.completion import Billed
from triage_gym.llm.failures import Failed
from triage_gym.llm.transport import Sending

KEY = "sk-planted-1234567890"
ASKED = [{"role": "user", "content": "hi"}]
LABELS = json.dumps({"labels": [{"i": 0, "label": "D"}, {"i": 1, "label": "N"}]})
PRICES = {"prompt": 1.0, "cached": 0.5, "completion": 10.0}
DOLLARS = (11 * 1.0 + 7 * 10.0) / 1e6


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A key in the environment, which no log of any level may hold."""
    require("openai")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    yield
    assert KEY not in caplog.text


def client(url: str = "http://localhost:1/v1", **more: Any) -> ChatClient:
    return ChatClient("m", url, **{"timeout": 15.0, "backoff": 0.02, **more})


def kinds(found: list[Any]) -> list[str]:
    return [one.kind if isinstance(one, EndpointError) else "ok" for one in found]


class Scripted(ChatClient):
    """A client whose requests are a function of the virtual time, the text and the number of the request."""

    def __init__(self, script: Callable[[float, str], Completion | Failed], **more: Any) -> None:
        super().__init__("m", "http://localhost:1/v1", **{"clock": VirtualClock(), **more})
        self.script = script
        self.tried: list[tuple[float, str]] = []

    def once(self, sending: Sending, seconds: float, counted: bool = False) -> Completion:
        assert counted
        text = sending.fields["messages"][0]["content"]
        now = self.clock.now()
        self.tried.append((now, text))
        found = self.script(now, text)
        self.accounts.paid(found.billed)
        if isinstance(found, Failed):
            raise found
        return found


def asked(count: int) -> list[list[dict[str, str]]]:
    return [[{"role": "user", "content": f"q{i}"}] for i in range(count)]


def answer(text: str = "yes") -> Completion:
    return Completion(text, prompt_tokens=11, completion_tokens=7)


def no(kind: Any = "server", **more: Any) -> Failed:
    return Failed(kind, f"no: {kind}", **{"again": True, **more})


def test_answers_come_in_the_order_of_the_questions() -> None:
    def said(request: dict[str, Any]) -> str:
        text = request["messages"][0]["content"]
        time.sleep(0.03 if text == "q0" else 0.0)
        return f"a{text}"

    with endpoint(answer=said) as server:
        pool = ChatPool(client(server.url), limit=4)
        found = pool.ask_all(asked(20))
        assert [one.text for one in found if isinstance(one, Completion)] == [f"aq{i}" for i in range(20)]
        assert server.most_at_once <= 4
        assert server.connections <= 4, "connections are kept"
        assert pool.ask_all([]) == []
        pool.close()
        assert isinstance(pool.ask_all(asked(1))[0], Completion), "a closed pool opens again"
        pool.close()


def test_a_question_has_fields_of_its_own() -> None:
    form = {"type": "json_object"}
    with endpoint() as server:
        pool = ChatPool(client(server.url, options={"temperature": 0}), limit=1)
        pool.ask_all([
            Question(ASKED, {"response_format": form, "max_tokens": 9, "temperature": None}),
            Question(ASKED, {"max_completion_tokens": 5}),
        ])  # fmt: skip
        pool.close()
        new = ChatPool(client(server.url, options={"max_completion_tokens": 3}), limit=1)
        new.ask_all([Question(ASKED), Question(ASKED, {"max_tokens": 8})])
        new.close()
        common = {"model": "m", "messages": ASKED}
        assert server.requests == [
            {**common, "max_tokens": 9, "response_format": form},
            {**common, "temperature": 0, "max_completion_tokens": 5},
            {**common, "max_completion_tokens": 3},
            {**common, "max_completion_tokens": 8},
        ]


OUTCOMES = {
    "429": "rate_limited", "429-now": "rate_limited", "500": "server", "529": "server", "hang": "timeout",
    "drop": "connection", "half": "connection", "drip": "timeout", "html200": "garbled", "huge": "too_large",
}  # fmt: skip


@pytest.mark.parametrize("mode", FAULTS)
def test_every_fault_is_an_answer_or_a_typed_failure_in_time(mode: str) -> None:
    with endpoint(mode, text=LABELS) as server:
        pool = ChatPool(client(server.url, timeout=0.3), limit=4, deadline=0.7, tries=3)
        began = time.monotonic()
        found = pool.ask_all(asked(3))
        took = time.monotonic() - began
        pool.close()
        usage = pool.usage
        requests = len(server.requests)
    assert took < 1.7
    assert set(kinds(found)) == {OUTCOMES.get(mode, "ok")}
    billed = 0 if mode in OUTCOMES else 3
    assert usage["prompt_tokens"] == 11 * billed
    assert usage["completion_tokens"] == (0 if mode == "nan-usage" else 7 * billed)
    assert usage["answers"] + usage["failures"] == 3
    assert usage["failures"] == usage.get(f"failed_{OUTCOMES.get(mode)}", 0)
    # One that was given up before the server got to it, on a busy machine, was asked all the same.
    assert requests <= usage["requests"]
    assert mode == "hang" or usage["requests"] == requests
    assert all(KEY not in str(one) for one in found)


def test_the_deadline_holds_where_no_time_out_of_a_socket_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "only-the-package-heeds-it")
    with endpoint("drip-headers") as server:
        pool = ChatPool(client(server.url, timeout=0.3), limit=4, deadline=0.7)
        pool.ask_all([])  # the package is imported before the time is taken
        began = time.monotonic()
        found = pool.ask_all(asked(4))
        took = time.monotonic() - began
        pool.close()
    assert kinds(found) == ["timeout"] * 4
    assert took < 1.7


def test_billed_tokens_are_counted_when_the_message_cannot_be_read_and_not_paid_for_for_ever() -> None:
    with endpoint("odd-content") as server:
        pool = ChatPool(client(server.url, prices=PRICES), limit=2)
        found = pool.ask_all(asked(1))
        pool.close()
        assert kinds(found) == ["garbled"]
        assert (len(server.requests), pool.usage["prompt_tokens"], pool.usage["completion_tokens"]) == (3, 33, 21)
        assert pool.usage["usd"] == pytest.approx(3 * DOLLARS)
    with endpoint("odd-content", "ok") as server:
        pool = ChatPool(client(server.url), limit=2)
        (found_one,) = pool.ask_all(asked(1))
        pool.close()
    assert isinstance(found_one, Completion)
    assert (found_one.tries, found_one.prompt_tokens, found_one.completion_tokens) == (2, 22, 14)
    assert pool.usage["prompt_tokens"] == 22


def test_one_that_waits_for_another_try_delays_no_other() -> None:
    def script(now: float, text: str) -> Completion | Failed:
        return no("rate_limited", retry_after=100.0) if text == "q0" and now < 90 else answer()

    asks = Scripted(script)
    found = ChatPool(asks, limit=1).ask_all(asked(5))
    assert kinds(found) == ["ok"] * 5
    assert [text for _, text in asks.tried] == ["q0", "q1", "q2", "q3", "q4", "q0"]
    assert [when for when, _ in asks.tried] == [0.0] * 5 + [100.0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["server", "connection", "rate_limited"])
def test_no_outage_shorter_than_the_deadline_loses_a_question(kind: str, seed: int) -> None:
    asks = Scripted(lambda now, text: no(kind, slows=True) if now < 600 else answer(text))
    pool = ChatPool(asks, deadline=900.0)
    found = pool.ask_all(asked(100 + seed))
    assert [one.text for one in found if isinstance(one, Completion)] == [f"q{i}" for i in range(100 + seed)]
    assert pool.usage["answers"] == 100 + seed
    assert pool.usage["failures"] == 0
    assert 600 <= asks.clock.now() <= 720


def test_an_outage_longer_than_the_deadline_is_a_failure_for_each_and_not_for_the_next_call() -> None:
    asks = Scripted(lambda now, text: no("server", slows=True) if now < 5000 else answer(text))
    pool = ChatPool(asks, deadline=300.0)
    found = pool.ask_all(asked(50))
    assert kinds(found) == ["server"] * 50
    assert 180 <= asks.clock.now() <= 900
    assert all("tries)" in str(one) for one in found)
    asks.clock.sleep(5000)
    assert kinds(pool.ask_all(asked(50))) == ["ok"] * 50


def test_nothing_new_is_asked_of_an_endpoint_that_is_silent_for_a_whole_deadline() -> None:
    clock = VirtualClock()

    def script(now: float, text: str) -> Failed:
        clock.sleep(60.0)
        return no("timeout", slows=True)

    asks = Scripted(script, clock=clock)
    found = ChatPool(asks, limit=2, deadline=300.0).ask_all(asked(1000))
    assert kinds(found) == ["timeout"] * 1000
    assert "nothing was answered for" in str(found[-1])
    assert len(asks.tried) < 20
    assert clock.now() <= 700


@pytest.mark.parametrize(("kind", "tries"), [("timeout", 3), ("garbled", 3)])
def test_requests_that_may_have_been_paid_for_end_after_the_tries(kind: str, tries: int) -> None:
    asks = Scripted(lambda now, text: no(kind))
    found = ChatPool(asks, tries=tries).ask_all(asked(1))
    assert len(asks.tried) == tries
    assert f"({tries} tries)" in str(found[0])


@pytest.mark.parametrize(("kind", "ends"), [("server", True), ("connection", True), ("rate_limited", False)])
def test_a_question_that_a_server_cannot_bear_is_not_tried_for_ever(kind: str, ends: bool) -> None:
    clock = VirtualClock()

    def script(now: float, text: str) -> Completion | Failed:
        if text == "q0":
            return no(kind, retry_after=10.0)
        clock.sleep(5.0)
        return answer()

    asks = Scripted(script, clock=clock)
    pool = ChatPool(asks, limit=1, tries=3, deadline=900.0)
    found = pool.ask_all(asked(500))
    assert kinds(found) == [kind] + ["ok"] * 499
    tries = sum(text == "q0" for _, text in asks.tried)
    assert tries == 4 if ends else tries > 4, "the first was before any answer"


def test_a_copy_shares_the_virtual_time() -> None:
    asks = Scripted(lambda now, text: answer())
    other = copy.deepcopy(ChatPool(asks))
    asks.clock.sleep(5.0)
    assert other._clock.now() == 5.0


def test_what_stays_as_it_is_is_asked_once() -> None:
    asks = Scripted(lambda now, text: Failed("request", "no"))
    assert kinds(ChatPool(asks).ask_all(asked(4))) == ["request"] * 4
    assert len(asks.tried) == 4


@pytest.mark.parametrize(
    ("caps", "answered"),
    [({"max_calls": 7}, 7), ({"max_usd": 4.5 * DOLLARS}, 5), ({"max_calls": 7, "max_usd": 2 * DOLLARS}, 2)],
)
def test_a_cap_that_is_reached_ends_the_asking(caps: dict[str, float], answered: int) -> None:
    with endpoint() as server:
        pool = ChatPool(client(server.url, prices=PRICES), limit=1, **caps)
        found = pool.ask_all(asked(10))
        assert kinds(found) == ["ok"] * answered + ["budget"] * (10 - answered)
        assert kinds(pool.ask_all(asked(2))) == ["budget"] * 2
        assert len(server.requests) == answered
        pool.close()
    assert next(iter(caps)) in str(found[-1]) or len(caps) > 1
    assert pool.usage["failed_budget"] == 12 - answered


def test_the_cap_of_calls_counts_every_try() -> None:
    asks = Scripted(lambda now, text: no())
    assert kinds(ChatPool(asks, max_calls=9).ask_all(asked(5))) == ["budget"] * 5
    assert len(asks.tried) == 9


def test_the_cap_of_seconds_ends_waits_and_counts_over_calls() -> None:
    asks = Scripted(lambda now, text: no("server", retry_after=40.0) if text == "q0" else answer())
    pool = ChatPool(asks, max_seconds=100.0)
    assert kinds(pool.ask_all(asked(2))) == ["budget", "ok"]
    assert asks.clock.now() == 100.0
    assert kinds(pool.ask_all(asked(1))) == ["budget"]


def test_the_limit_follows_what_the_endpoint_takes() -> None:
    slow = [True]

    def script(now: float, text: str) -> Completion | Failed:
        return no("rate_limited", slows=True, retry_after=1.0) if slow[0] and now < 2.5 else answer()

    asks = Scripted(script)
    pool = ChatPool(asks, limit=16, least=3, most=24)
    pool.ask_all(asked(16))
    assert pool.limit < 16
    slow[0] = False
    pool.ask_all(asked(1000))
    assert pool.limit == 24


def test_several_threads_may_ask_at_once() -> None:
    with endpoint("429", "drop", "ok") as server:
        pool = ChatPool(client(server.url), limit=6)
        found: list[list[Any]] = []
        threads = [threading.Thread(target=lambda: found.append(pool.ask_all(asked(20)))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        pool.close()
        assert [kinds(one) for one in found] == [["ok"] * 20] * 4
        assert server.most_at_once <= 6
    assert (pool.usage["answers"], pool.usage["requests"]) == (80, 82)


def test_as_many_threads_as_the_system_has_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scarce(pool_module.Worker):
        left = 2

        def __init__(self) -> None:
            if not Scarce.left:
                raise RuntimeError("can't start new thread")
            Scarce.left -= 1
            super().__init__()

    monkeypatch.setattr(pool_module, "Worker", Scarce)
    with endpoint() as server:
        pool = ChatPool(client(server.url), limit=8)
        assert kinds(pool.ask_all(asked(20))) == ["ok"] * 20
        assert server.most_at_once <= 2
        pool.close()
        with pytest.raises(RuntimeError, match="thread"):
            pool.ask_all(asked(1))


def test_an_interrupted_call_leaves_nothing_behind() -> None:
    class Impatient(MachineClock):
        def wait(self, news: Any, seconds: float, busy: bool) -> None:
            super().wait(news, 0.2, busy)
            if impatient:
                raise KeyboardInterrupt

    impatient = [True]
    with endpoint("hang", "hang", "ok") as server:
        pool = ChatPool(client(server.url, clock=Impatient()), limit=2)
        with pytest.raises(KeyboardInterrupt):
            pool.ask_all(asked(20))
        impatient.clear()
        assert kinds(pool.ask_all(asked(3))) == ["ok"] * 3
        assert len(server.requests) == 2 + 3, "what was not under way is not asked any more"
        pool.close()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_comes_together_every_question_ends_and_the_accounts_agree(seed: int) -> None:
    chance = random.Random(seed)
    some = ["ok", "429", "429-now", "500", "529", "drop", "half", "html200", "empty", "truncated", "refusal", "400",
            "odd-content", "hang", "drip", "slow", "closing", "leaving", "chunked"]  # fmt: skip
    modes = [chance.choice(some) for _ in range(120)]
    with endpoint(*modes, "ok") as server:
        pool = ChatPool(client(server.url, timeout=0.3), limit=chance.choice([2, 8, 32]), deadline=20.0, tries=4)
        found = pool.ask_all(asked(80))
        pool.close()
        usage, requests = pool.usage, len(server.requests)
    assert len(found) == 80
    answers = [one for one in found if isinstance(one, Completion)]
    assert (usage["answers"], usage["failures"]) == (len(answers), 80 - len(answers))
    assert usage["failures"] == sum(count for name, count in usage.items() if name.startswith("failed_"))
    assert usage["requests"] >= requests
    assert usage["completion_tokens"] >= sum(one.completion_tokens for one in answers)
    assert pool.latency["count"] == len(answers)
    assert (pool._running, pool._batches, pool._waiting, pool._alarms) == (0, set(), [], [])


def test_threads_are_kept_and_let_go() -> None:
    before = set(threading.enumerate())

    def ours() -> int:
        return sum(thread.name == "triage_gym.llm" for thread in set(threading.enumerate()) - before)

    with endpoint("slow") as server:
        pool = ChatPool(client(server.url), limit=3)
        for _ in range(3):
            pool.ask_all(asked(6))
        assert ours() == 3
        pool._client.close()
    del pool
    gc.collect()
    until = time.monotonic() + 20
    while ours() and time.monotonic() < until:
        time.sleep(0.01)
    assert not ours(), "also when nobody closes it"


def test_what_is_wrong_with_a_question_is_raised_where_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint() as server:
        pool = ChatPool(client(server.url), limit=2)
        with pytest.raises(InputError, match="stream"):
            pool.ask_all([Question(ASKED), Question(ASKED, {"stream": True})])
        with pytest.raises(InputError, match="JSON values"):
            pool.ask_all([Question(ASKED, {"temperature": float("nan")})])
        assert kinds(pool.ask_all(asked(3))) == ["ok"] * 3, "and it goes on"
        pool.close()
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(InputError, match="OPENAI_API_KEY"):
        ChatPool(ChatClient("m")).ask_all(asked(1))


def test_it_goes_where_copies_and_pickles_go() -> None:
    with endpoint() as server:
        pool = ChatPool(client(server.url, prices=PRICES), limit=2, max_calls=3)
        pool.ask_all(asked(2))
        carried = pickle.dumps(pool)
        assert KEY.encode() not in carried
        for other in (pickle.loads(carried), copy.deepcopy(pool)):  # noqa: S301 - our own bytes
            assert kinds(other.ask_all(asked(2))) == ["ok", "budget"]
            other.close()
        pool.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 0},
        {"limit": 2, "least": 3},
        {"limit": 4, "most": 3},
        {"deadline": 0},
        {"tries": -1},
        {"max_calls": 0},
        {"max_usd": 1.0},
        {"max_seconds": float("nan")},
    ],
)
def test_wrong_arguments_are_errors(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="Expected"):
        ChatPool(client(), **wrong)


def test_tokens_of_failures_are_billed_to_the_answer() -> None:
    failures = [no("garbled", billed=Billed(5, 2, 1, 1))]
    asks = Scripted(lambda now, text: failures.pop() if failures else answer())
    (found,) = ChatPool(asks).ask_all(asked(1))
    assert isinstance(found, Completion)
    assert found.billed == Billed(16, 9, 1, 1)
