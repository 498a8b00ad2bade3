"""A judge in front of an endpoint that fails in every way: a typed outcome each time, in time, and all that was billed."""

from __future__ import annotations

import json
import pickle
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llm_server import FAULTS, Endpoint, endpoint
from needs import require

from triage_gym import registry
from triage_gym.cli.judge_check import JudgeCheck
from triage_gym.judges import asking, llm
from triage_gym.judges.llm import LLMJudge
from triage_gym.judges.probing import CANARIES
from triage_gym.llm import VirtualClock
from triage_gym.protocols import Judge

require("openai")

WINDOWS = [window for window, _ in CANARIES]
DEADLINE = 0.6
KINDS: dict[str, str] = {
    "ok": "",
    "429": "rate_limited",
    "429-now": "rate_limited",
    "500": "server",
    "529": "server",
    "hang": "timeout",
    "drop": "connection",
    "half": "connection",
    "drip": "timeout",
    "html200": "garbled",
    "empty": "empty",
    "truncated": "truncated",
    "wrong-enum": "label",
    "missing-id": "ids",
    "extra-id": "ids",
    "duplicate-id": "ids",
    "json-in-reasoning": "",
    "unclosed-think": "unclosed_thought",
    "nan": "no_json",
    "refusal": "refused",
    "huge": "too_large",
    "nan-usage": "",
}
"""What each fault ends as; "" for those that leave an answer."""
ASKED = {"empty": 3, "truncated": 3, "wrong-enum": 3, "missing-id": 3, "extra-id": 3, "duplicate-id": 3, "nan": 3}
ASKED |= {"unclosed-think": 3, "refusal": 1, "ok": 1, "json-in-reasoning": 1, "nan-usage": 1}
"""Requests of one question that are answered, and billed, by fault."""


_made: list[LLMJudge] = []


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(llm, "_found_rungs", {})
    yield
    while _made:
        _made.pop().close()


def label_all(request: dict[str, Any]) -> str:
    """The right role for the canaries, N for others."""
    prompt = request["messages"][1]["content"]
    asked = re.findall(r'Label the turns with "i" ([\d, ]+)', prompt)[0].strip(" ,").split(", ")
    block = json.loads(re.findall(r"<data-\w+>\n(.*)\n</data-", prompt, re.DOTALL)[0])
    turn = next(turn for turn in block["turns"] if "i" in turn)
    role = next((role for window, role in CANARIES if _shows(window, turn)), "N")
    return json.dumps({"labels": [{"i": int(i), "why": "so it is", "label": role} for i in asked]})


def _shows(window: Any, turn: dict[str, Any]) -> bool:
    return (window.action, window.next_observation) == (turn["action"], turn["observation"])


def judge(server: Endpoint, **options: Any) -> LLMJudge:
    _made.append(LLMJudge("m", server.url, **{"mode": "json_schema", "deadline": DEADLINE, **options}))
    return _made[-1]


def test_every_fault_of_the_endpoint_is_among_those_tested() -> None:
    assert set(KINDS) == set(FAULTS)
    assert len(KINDS) >= 20
    assert set(KINDS.values()) <= {"", *asking.KINDS}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_ends_as_a_typed_outcome_in_time_and_all_is_counted(fault: str) -> None:
    seconds = []
    for _ in range(3):  # a machine that stalls for a second is no fault of ours, three times in a row it would be
        with endpoint(fault, answer=label_all) as server:
            made = judge(server, client={"backoff": 0.05})
            begun = time.monotonic()
            (label,) = made.judge(WINDOWS[:1])
            seconds.append(time.monotonic() - begun)
            usage = made.usage
        kind = KINDS[fault]
        if kind:
            assert (label.role, label.status, label.why.split(":")[0]) == (None, "failed", kind)
            assert usage["failures"] == usage[f"failed_{kind}"] == 1
        else:
            assert (label.role, label.status) == ("D", "judged")
            assert usage["failures"] == 0
        assert usage["json_in_reasoning"] == (fault == "json-in-reasoning")
        assert usage["calls"] == len(server.requests)
        billed = ASKED.get(fault, 0)
        assert usage["prompt_tokens"] == 11 * billed
        assert usage["completion_tokens"] == (0 if fault == "nan-usage" else 7 * billed)
        if seconds[-1] <= DEADLINE + 1:
            break
    assert min(seconds) <= DEADLINE + 1


def test_faults_of_some_questions_leave_the_labels_of_the_others() -> None:
    with endpoint("ok", "refusal", "ok", answer=label_all) as server:
        labels = judge(server, limit=1).judge(WINDOWS)
    assert [label.role for label in labels] == ["D", None, "N", "R"]


def test_an_outage_of_ten_minutes_loses_no_label() -> None:
    clock = VirtualClock()
    with endpoint(answer=label_all) as server:
        server.mode = lambda: "503" if clock.now() < 600 else "ok"  # type: ignore[method-assign]
        made = judge(server, deadline=900.0, client={"clock": clock}, limit=4)
        labels = made.judge(WINDOWS * 5)
    assert [label.role for label in labels] == [role for _, role in CANARIES] * 5
    assert clock.now() >= 600


def test_an_outage_longer_than_the_deadline_leaves_every_segment_without_a_label() -> None:
    clock = VirtualClock()
    with endpoint("503") as server:
        made = judge(server, deadline=900.0, client={"clock": clock}, limit=4)
        labels = made.judge(WINDOWS * 3)
    assert [(label.role, label.status) for label in labels] == [(None, "failed")] * 12
    assert all(label.why.startswith("server: ") for label in labels)


@pytest.mark.parametrize(
    ("modes", "rung"),
    [(("ok",), "json_schema"), (("400", "ok"), "json_object"), (("400", "wrong-enum", "ok"), None)],
)
def test_the_mode_auto_finds_the_strictest_way_that_works_once_a_process(modes: tuple[str, ...], rung: str) -> None:
    with endpoint(*modes, answer=label_all) as server:
        first, second = (judge(server, mode="auto") for _ in range(2))
        assert [label.role for label in first.judge(WINDOWS)] == ["D", "E", "N", "R"]
        assert len(server.requests) == len(modes) + 4
        assert [label.role for label in second.judge(WINDOWS)] == ["D", "E", "N", "R"]
        assert len(server.requests) == len(modes) + 8
        assert {r.get("response_format", {}).get("type") for r in server.requests[len(modes) :]} == {rung}
        assert first.usage["failures"] == 0


def test_where_no_way_works_the_labels_say_so_and_the_next_call_looks_again() -> None:
    with endpoint("400", "400", "400", "ok", answer=label_all) as server:
        made = judge(server, mode="auto")
        labels = made.judge(WINDOWS)
        assert [label.status for label in labels] == ["failed"] * 4
        assert labels[0].why.startswith("request: no way to ask for JSON works")
        assert len(server.requests) == 3
        assert [label.role for label in made.judge(WINDOWS)] == ["D", "E", "N", "R"]


def test_a_key_that_is_refused_or_missing_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint("401") as server:
        made = judge(server, mode="auto")
        assert all(label.why.startswith("key: ") for label in made.judge(WINDOWS))
        assert len(server.requests) == 1
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    labels = LLMJudge("m").judge(WINDOWS)
    assert all(label.status == "failed" for label in labels)
    assert labels[0].why.startswith("setup: ")
    assert "OPENAI_API_KEY" in labels[0].why


def test_an_endpoint_that_is_not_there_yet_is_waited_for_by_the_first_question_too() -> None:
    with endpoint("drop", "drop", "ok", answer=label_all) as server:
        made = judge(server, mode="auto", deadline=20.0, client={"backoff": 0.01})
        assert [label.role for label in made.judge(WINDOWS)] == ["D", "E", "N", "R"]
    with endpoint("429", answer=label_all) as server:
        waiting = judge(server, mode="auto", client={"backoff": 0.01})
        assert all(label.why.startswith("rate_limited: Expected") for label in waiting.judge(WINDOWS))


def test_a_cap_ends_the_asking() -> None:
    with endpoint(answer=label_all) as server:
        made = judge(server, limit=1, pool={"max_calls": 3})
        labels = made.judge(WINDOWS)
        assert [label.role for label in labels] == ["D", "E", "N", None]
        assert labels[-1].why.startswith("budget: ")
        assert made.usage["failed_budget"] == 1


def test_a_judge_is_made_from_a_config_and_survives_a_pickle() -> None:
    prices = {"prompt": 1e6, "completion": 0.0}
    with endpoint(answer=label_all) as server:
        config = {"name": "llm", "model": "m", "base_url": server.url, "mode": "text", "client": {"prices": prices}}
        made = registry.make("judges", config)
        assert isinstance(made, Judge)
        _made.append(made)
        copy = pickle.loads(pickle.dumps(made))  # noqa: S301 - its own, as worker processes are given it
        assert [label.role for label in copy.judge(WINDOWS)] == ["D", "E", "N", "R"]
        _made.append(copy)
        assert copy.identity == made.identity
        assert copy.usage["usd"] == 44.0
        assert made.usage["usd"] == 0


def test_the_check_prints_what_works_and_the_config_to_paste(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with endpoint("400", "ok", answer=label_all) as server:
        path = tmp_path / "check.json"
        assert JudgeCheck(model="m", base_url=server.url, options={"temperature": 0}, json=path).run() == 0
        config = {"name": "llm", "model": "m", "base_url": server.url, "options": {"temperature": 0}}
    told = json.loads(path.read_text())
    assert told["mode"] == "json_object"
    assert told["judge"] == {**config, "mode": "json_object"}
    assert [(one["mode"], one["works"], one["right"]) for one in told["tried"]] == [
        ("json_schema", False, 0),
        ("json_object", True, 4),
        ("text", True, 4),
    ]
    assert told["tried"][1]["prompt_tokens"] == 44
    assert len(server.requests) == 9
    printed = capsys.readouterr().out
    pasted = re.findall(r"--judge '(.*)'", printed)[0]
    assert json.loads(pasted) == told["judge"]
    assert isinstance(registry.make("judges", json.loads(pasted)), LLMJudge)


def test_the_check_says_when_nothing_works_or_labels_are_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint("404") as server:
        assert JudgeCheck(model="m", base_url=server.url).run() == 1
    assert "No way to ask works" in capsys.readouterr().out
    gone = server.url
    assert JudgeCheck(model="m", base_url=gone, timeout=0.3).run() == 1
    printed = capsys.readouterr().out
    assert "connection" in printed
    assert "json_object" not in printed  # whoever cannot be reached is not asked in other ways
    always = json.dumps({"labels": [{"i": 0, "why": "", "label": "D"}]})
    with endpoint(answer=lambda request: {"content": always, "reasoning": "Hm."}) as server:
        assert JudgeCheck(model="m", base_url=server.url).run() == 0
    printed = capsys.readouterr().out
    assert "Of 4 clear turns 1 got the right role" in printed
    assert "thinks before it answers" in printed
    with endpoint("json-in-reasoning", answer=label_all) as server:
        assert JudgeCheck(model="m", base_url=server.url).run() == 0
    assert "json_in_reasoning" in capsys.readouterr().out
