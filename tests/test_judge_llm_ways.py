"""A judge finds the way to ask whatever state an endpoint is in, and goes on in the child of a fork."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llm_server import Endpoint, Handler, endpoint
from needs import require

from triage_gym.errors import InputError
from triage_gym.judges import llm
from triage_gym.judges.llm import LLMJudge
from triage_gym.judges.probing import CANARIES, Reply, first_rung

require("openai")

WINDOWS = [window for window, _ in CANARIES]
LABEL = json.dumps({"labels": [{"i": 0, "why": "so", "label": "N"}]})
Way = Callable[[str], str]


@pytest.fixture(autouse=True)
def nothing_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm, "_found_rungs", {})


@pytest.fixture
def by_way(monkeypatch: pytest.MonkeyPatch) -> Callable[[Endpoint, Way], None]:
    """Makes an endpoint answer by the way in which it is asked for JSON: a mode, by its name."""
    ways: dict[int, Way] = {}

    def respond(self: Handler, mode: str) -> None:
        asked = self.asked.get("response_format", {}).get("type", "text")
        plain(self, ways[id(self.server)](asked))

    plain = Handler.respond
    monkeypatch.setattr(Handler, "respond", respond)
    return lambda server, way: ways.update({id(server): way})


def judge(server: Endpoint, **options: Any) -> LLMJudge:
    return LLMJudge("m", server.url, **{"deadline": 20.0, "client": {"backoff": 0.01}, **options})


def test_a_stricter_way_that_failed_while_the_server_was_down_is_tried_again() -> None:
    replies = {"json_schema": [Reply(None, "server"), Reply("D")], "json_object": [Reply("D")]}
    assert first_rung(lambda windows, rung: replies[rung].pop(0)) == ("json_schema", Reply("D"))
    replies = {"json_schema": [Reply(None, "server")] * 2, "json_object": [Reply("E")]}
    assert first_rung(lambda windows, rung: replies[rung].pop(0)) == ("json_object", Reply("E"))
    replies = {"json_schema": [Reply(None, "request")], "json_object": [Reply("D")]}
    assert first_rung(lambda windows, rung: replies[rung].pop(0))[0] == "json_object"


def test_a_server_that_fails_on_schemas_does_not_hold_up_the_first_question(
    by_way: Callable[[Endpoint, Way], None],
) -> None:
    with endpoint(text=LABEL) as server:
        by_way(server, lambda asked: "500" if asked == "json_schema" else "ok")
        made = judge(server)
        assert [label.role for label in made.judge(WINDOWS)] == ["N"] * 4
        assert len(server.requests) == 2 * llm.PROBE_TRIES + 1 + 4
        made.close()


def test_a_server_that_was_down_at_first_and_knows_no_schema_loses_no_label(
    by_way: Callable[[Endpoint, Way], None],
) -> None:
    with endpoint(text=LABEL) as server:
        down = 4 * llm.PROBE_TRIES

        def way(asked: str) -> str:
            if len(server.requests) <= down:
                return "503"
            return "400" if asked == "json_schema" else "ok"

        by_way(server, way)
        made = judge(server)
        assert [label.role for label in made.judge(WINDOWS)] == ["N"] * 4
        assert made.usage["failures"] == 0
        assert list(llm._found_rungs.values()) == ["json_object"]
        made.close()


def test_what_was_found_of_one_address_says_nothing_of_another(
    by_way: Callable[[Endpoint, Way], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-1234567890")
    with endpoint(text=LABEL) as first, endpoint(text=LABEL) as second:
        by_way(first, lambda asked: "ok")
        by_way(second, lambda asked: "400" if asked == "json_schema" else "ok")
        for server in (first, second):
            monkeypatch.setenv("OPENAI_BASE_URL", server.url)
            made = LLMJudge("m")
            assert [label.role for label in made.judge(WINDOWS)] == ["N"] * 4
            made.close()


@pytest.mark.parametrize("own", [{"options": {"temperature": 1}}, {"max_tokens": 5}, {"base_url": "http://a/v1"}])
def test_what_labels_depend_on_is_not_slipped_past_the_identity(own: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="among the arguments of the judge itself"):
        LLMJudge("m", "http://localhost:1/v1", client=own)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_asks_over_connections_of_its_own() -> None:
    with endpoint(text=LABEL) as server:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(Path(__file__).with_name("judge_after_fork.py")), server.url],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    assert json.loads(done.stdout) == {"parent": ["N"] * 100, "children": [["N"] * 20] * 2}
