"""Answers of a language model, read strictly, and asked for again where they are none."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage_gym.errors import EndpointError, InputError
from triage_gym.judges.answers import PROBLEMS, SCHEMAS, Answer, MalformedAnswer, Verdict, read_answer
from triage_gym.judges.asking import MENDED
from triage_gym.judges.llm import LLMJudge
from triage_gym.judges.probing import CANARIES
from triage_gym.llm import Completion, Question
from triage_gym.protocols import Window

WINDOWS = [window for window, _ in CANARIES]


def said(*labels: tuple[Any, Any], **more: Any) -> str:
    return json.dumps({"labels": [{"i": i, "why": "so", "label": label, **more} for i, label in labels]})


GOOD = said((0, "D"))


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  {GOOD}\n",
        f"```json\n{GOOD}\n```",
        f"Here it is: {GOOD} That is all.",
        f"<think>{said((0, 'R'))} or so?</think>{GOOD}",
        f"no opening tag</think>\n{GOOD}",
        f"<think>a</think><think>b</think>{GOOD}",
        f'The form: {{"labels": [{{"i": 0, "why": "...", "label": "D|E|N|R"}}]}}. Mine: {GOOD}',
        f"{GOOD} Once more: {GOOD}",
        '{"labels": [{"i": 0, "why": "it says </think> there", "label": "D"}]}',
        f'{{"other": 1}} {{"labels" {GOOD}',
        said(("0", "D")),
        said((0.0, "D")),
        said((0, " d ")),
        '\ufeff{"labels": [{"i": 0, "why": "two\nlines", "label": "D"}]}',
        '```json\n{"labels": [{"i": 0, "why": "it says </think> and <think> there", "label": "D"}]}\n```',
    ],
)
def test_an_answer_is_found_in_what_surrounds_it(text: str) -> None:
    assert read_answer(text, "", 1).verdicts[0].role == "D"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        (" \n", "empty"),
        (f"<think>{GOOD}</think>", "empty"),
        (f"<think>{GOOD}", "unclosed_thought"),
        (f"<think>a</think><think>{GOOD}", "unclosed_thought"),
        ("I'm sorry, but no.", "no_json"),
        ("D", "no_json"),
        (GOOD[:-5], "no_json"),
        ('{"labels": [{"i": NaN, "why": "", "label": "D"}]}', "no_json"),
        ('{"labels": [{"i": 0, "i": 0, "why": "", "label": "D"}]}', "no_json"),
        ('{"labels": [], "labels": []}', "no_json"),
        ("[" + GOOD[10:], "no_json"),
        (f"{GOOD} or {said((0, 'R'))}", "ambiguous"),
        (GOOD * 21, "ambiguous"),
        (said((0, "D"), mood="good"), "keys"),
        ('{"labels": [{"i": 0, "label": "D"}]}', "keys"),
        ('{"labels": [{"i": 0, "why": 1, "label": "D"}]}', "keys"),
        ('{"labels": {"i": 0}}', "keys"),
        ('{"labels": [], "and": 1}', "keys"),
        ('{"labels": ["D"]}', "keys"),
        ('{"labels": [{"labels": []}]}', "keys"),
        (said(), "ids"),
        (said((1, "D")), "ids"),
        (said((0, "D"), (1, "D")), "ids"),
        (said((0, "D"), (0, "D")), "ids"),
        (said((True, "D")), "ids"),
        (said((0.5, "D")), "ids"),
        (said(("0x0", "D")), "ids"),
        (said(("٠", "D")), "ids"),
        (said(("0" * 5000, "D")), "ids"),
        (said((0, "D"), ("0", "R")), "ids"),
        (said((-1, "D")), "ids"),
        (said((0, "GREAT")), "label"),
        (said((0, "DE")), "label"),
        (said((0, "ｄ")), "label"),
        (said((0, None)), "label"),
        (said((0, ["D"])), "label"),
        ("x" * 300_000, "too_long"),
    ],
)
def test_what_is_no_answer_has_a_kind(text: str, kind: str) -> None:
    with pytest.raises(MalformedAnswer, match="Expected") as refused:
        read_answer(text, "", 1)
    assert refused.value.kind == kind
    assert kind in PROBLEMS


def test_a_reason_can_be_written_down_whatever_it_says() -> None:
    (verdict,) = read_answer(GOOD.replace('"so"', '"half of \\ud83d"'), "", 1).verdicts
    assert verdict.why == "half of ?"


def test_several_turns_come_back_in_order_whatever_their_order() -> None:
    answer = read_answer(said((2, "R"), (0, "D"), (1, "N")), "", 3)
    assert [verdict.role for verdict in answer.verdicts] == ["D", "N", "R"]
    with pytest.raises(MalformedAnswer, match="none for 1"):
        read_answer(said((2, "R"), (0, "D")), "", 3)


def test_how_sure_the_model_is_becomes_a_number() -> None:
    assert read_answer(said((0, "D"), sure="medium"), "", 1, sure=True) == Answer((Verdict("D", "so", 0.7),))
    for text, kind in (
        (GOOD, "keys"),
        (said((0, "D"), sure="very"), "label"),
        (said((0, "D"), sure=["low"]), "label"),
        (said((0, "D"), sure=1), "label"),
    ):
        with pytest.raises(MalformedAnswer) as refused:
            read_answer(text, "", 1, sure=True)
        assert refused.value.kind == kind


def test_an_answer_that_came_as_thoughts_is_taken_only_whole_and_alone() -> None:
    assert read_answer("", GOOD, 1) == Answer((Verdict("D", "so"),), in_reasoning=True)
    for content, thoughts in (("", f"Perhaps {GOOD}"), ("", GOOD + " but"), ("", "[1]"), ("hm", GOOD)):
        with pytest.raises(MalformedAnswer):
            read_answer(content, thoughts, 1)
    assert read_answer(GOOD, said((0, "R")), 1) == Answer((Verdict("D", "so"),))


@given(st.text(max_size=200), st.text(max_size=50))
def test_any_text_is_an_answer_or_a_malformed_one(content: str, thoughts: str) -> None:
    kind = None
    try:
        read_answer(content, thoughts, 1)
    except MalformedAnswer as error:
        kind = error.kind
    assert kind in (None, *PROBLEMS)


@given(st.integers(0, 4), st.data())
def test_whatever_is_changed_in_an_answer_it_has_the_asked_ids_once_or_is_none(asked: int, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(-1, 5), max_size=6))
    roles = data.draw(st.lists(st.sampled_from("DENRX"), min_size=len(ids), max_size=len(ids)))
    text = said(*zip(ids, roles, strict=True))
    if sorted(ids) == list(range(asked)) and "X" not in roles:
        verdicts = read_answer(text, "", asked).verdicts
        assert [verdict.role for verdict in verdicts] == [role for _, role in sorted(zip(ids, roles, strict=True))]
    else:
        with pytest.raises(MalformedAnswer):
            read_answer(text, "", asked)


@pytest.mark.parametrize("piece", ['{"labels":', '{"labels" ', "{", '[{"labels":[1]}]', "{ ", "</think>", "<think>"])
def test_hostile_answers_take_linear_time(piece: str) -> None:
    begun = time.process_time()
    with pytest.raises(MalformedAnswer):
        read_answer((piece * 300_000)[:260_000], "", 1)
    assert time.process_time() - begun < 2.0


def test_the_schema_is_flat_and_closed() -> None:
    for sure, schema in SCHEMAS.items():
        item = schema["properties"]["labels"]["items"]
        assert list(item["properties"]) == ["i", "why", "label", *(["sure"] if sure else [])]
        assert item["required"] == list(item["properties"])
        assert item["additionalProperties"] is schema["additionalProperties"] is False
        assert item["properties"]["label"] == {"type": "string", "enum": ["D", "E", "N", "R"]}
        assert not {"$ref", "anyOf", "oneOf"} & set(json.dumps(schema).split('"'))


class Scripted:
    """A pool that answers by a script, one entry a question, and keeps what it was asked."""

    def __init__(self, *script: str | Completion | EndpointError) -> None:
        self.script, self.asked = list(script), list[Question]()

    def ask_all(self, questions: Sequence[Question]) -> list[Completion | EndpointError]:
        self.asked += questions
        return [self._next() for _ in questions]

    def _next(self) -> Completion | EndpointError:
        told = self.script.pop(0)
        return Completion(told, "stop", prompt_tokens=3, completion_tokens=2) if isinstance(told, str) else told

    def formats(self) -> list[str | None]:
        return [question.fields.get("response_format", {}).get("type") for question in self.asked]


def judge(pool: Scripted, **options: Any) -> LLMJudge:
    return LLMJudge("fake", **{"mode": "json_schema", "pool": pool, **options})


def test_each_window_gets_its_label_and_the_model_its_reason() -> None:
    pool = Scripted(*[said((0, role)) for role in "DENR"])
    labels = judge(pool).judge(WINDOWS)
    assert [(label.role, label.status, label.source, label.why) for label in labels] == [
        (role, "judged", "llm", "so") for role in "DENR"
    ]
    assert [label.step for label in labels] == [window.step for window in WINDOWS]
    assert pool.formats() == ["json_schema"] * 4


def test_a_bad_answer_is_asked_for_again_with_a_word_on_it_and_then_a_rung_down() -> None:
    pool = Scripted(said((0, "X")), "never", GOOD)
    made = judge(pool)
    assert made.judge(WINDOWS[:1])[0].role == "D"
    assert pool.formats() == ["json_schema", "json_schema", "json_object"]
    tails = [question.messages[1]["content"] for question in pool.asked]
    assert "could not be used" not in tails[0]
    assert "a label was none of the four" in tails[1]
    assert "it held no such JSON object" in tails[2]
    assert made.usage["reasks"] == 2
    assert made.usage["failures"] == 0


def test_two_repetitions_are_the_most_and_the_last_kind_is_told() -> None:
    pool = Scripted(said((0, "X")), said((0, "X")), "never", GOOD)
    made = judge(pool)
    (label,) = made.judge(WINDOWS[:1])
    assert (label.role, label.status) == (None, "failed")
    assert label.why.startswith("no_json: Expected")
    assert len(pool.asked) == 3
    assert made.usage | {"failures": 1, "failed_no_json": 1, "reasks": 2, "judged": 0, "segments": 1} == made.usage


def test_an_answer_that_was_cut_off_gets_twice_the_tokens() -> None:
    cut_off = Completion(GOOD[:20], "length")
    pool = Scripted(cut_off, cut_off, GOOD)
    assert judge(pool, max_tokens=100).judge(WINDOWS[:1])[0].role == "D"
    assert [question.fields["max_tokens"] for question in pool.asked] == [100, 200, 400]
    assert pool.formats() == ["json_schema"] * 3
    whole = Scripted(Completion(GOOD, "length"))
    assert judge(whole).judge(WINDOWS[:1])[0].role == "D"


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (Completion("", "stop", refusal="no"), "refused"),
        (Completion("", "content_filter"), "refused"),
        (EndpointError("request", "status 400"), "request"),
        (EndpointError("key", "status 401"), "key"),
        (EndpointError("timeout", "late"), "timeout"),
        (EndpointError("budget", "max_usd"), "budget"),
    ],
)
def test_what_would_fail_again_is_not_asked_again(told: Completion | EndpointError, kind: str) -> None:
    pool = Scripted(told)
    made = judge(pool)
    (label,) = made.judge(WINDOWS[:1])
    assert (label.role, label.status) == (None, "failed")
    assert label.why.startswith(f"{kind}: ")
    assert made.usage[f"failed_{kind}"] == 1
    assert len(pool.asked) == 1
    assert kind not in MENDED


def test_a_failure_leaves_the_labels_beside_it() -> None:
    pool = Scripted(said((0, "D")), EndpointError("timeout", "late"), said((0, "N")), said((0, "R")))
    assert [label.role for label in judge(pool).judge(WINDOWS)] == ["D", None, "N", "R"]


@pytest.mark.parametrize("error", [RuntimeError("oh"), KeyError("k"), ValueError("v"), OSError("o")])
def test_whatever_the_pool_raises_is_a_failed_label(error: Exception) -> None:
    class Raising:
        def ask_all(self, questions: Sequence[Question]) -> list[Completion | EndpointError]:
            raise error

    labels = LLMJudge("fake", mode="text", pool=Raising()).judge(WINDOWS)
    assert [(label.role, label.status) for label in labels] == [(None, "failed")] * 4
    assert all(label.why.startswith("internal: ") for label in labels)


def test_a_pool_that_loses_answers_is_found_out() -> None:
    class Losing:
        def ask_all(self, questions: Sequence[Question]) -> list[Completion | EndpointError]:
            return []

    assert [label.status for label in LLMJudge("fake", mode="text", pool=Losing()).judge(WINDOWS)] == ["failed"] * 4


def test_the_rule_judge_steps_in_only_where_that_is_asked_for() -> None:
    made = judge(Scripted(GOOD, EndpointError("server", "500")), fallback="rule")
    windows = [window._replace(domain="alfworld") for window in (WINDOWS[0], WINDOWS[2])]
    first, second = made.judge(windows)
    assert (first.source, second.source) == ("llm", "rule:fallback")
    assert second.role is not None
    assert made.usage["fallbacks"] == 1
    assert made.usage["failed_server"] == 1


def test_several_turns_in_a_question_are_asked_once_each() -> None:
    steps: list[Window] = []
    for k in range(5):
        seen = f"o{k - 1}" if k else "start"
        steps.append(Window("do", "d", k, (), seen, f"a{k}", f"o{k}", ()))
    pool = Scripted(said((0, "D"), (1, "E"), (2, "N")), said((0, "R"), (1, "N")))
    assert [label.role for label in judge(pool, batch=3).judge(steps)] == list("DENRN")
    again = Scripted(said((0, "D"), (1, "E")), said((0, "R"), (1, "N")), said((0, "D"), (1, "E"), (2, "N")))
    assert [label.role for label in judge(again, batch=3).judge(steps)] == list("DENRN")


def test_another_answer_has_another_seed_where_there_is_one() -> None:
    pool = Scripted(GOOD, GOOD, GOOD)
    made = judge(pool, options={"seed": 7})
    made.judge(WINDOWS[:1])
    made.sample(WINDOWS[:1], 2)
    assert [question.fields.get("seed") for question in pool.asked] == [None, 9]
    judge(pool).sample(WINDOWS[:1], 2)
    assert "seed" not in pool.asked[2].fields


def test_nothing_is_asked_about_nothing() -> None:
    assert judge(Scripted()).judge([]) == []


def test_the_identity_holds_what_labels_depend_on_and_nothing_else() -> None:
    def identity(**options: Any) -> str:
        return json.dumps(judge(Scripted(), **options).identity, sort_keys=True)

    plain = identity()
    assert identity(nonce_seed=4) == identity(base_url="http://localhost:1/v1") == plain
    changes: tuple[dict[str, Any], ...] = (
        {"batch": 2},
        {"view": "thoughts"},
        {"options": {"temperature": 0}},
        {"mode": "text"},
        {"confidence": True},
        {"max_tokens": 5},
        {"max_characters": 20_000},
        {"fallback": "rule"},
    )
    assert len({plain, *(identity(**change) for change in changes)}) == len(changes) + 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "xml"},
        {"view": "all"},
        {"batch": 0},
        {"batch": True},
        {"max_tokens": 1.5},
        {"limit": 0},
        {"fallback": "oracle"},
        {"max_characters": 10},
        {"options": {"response_format": {}}},
        {"options": {"messages": []}},
        {"pool": {"deadline": -1}},
        {"client": {"timeout": 0}},
        {"base_url": "localhost"},
    ],
)
def test_arguments_of_the_wrong_form_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="Expected"):
        LLMJudge("fake", **{"mode": "json_schema", "base_url": "http://127.0.0.1:9/v1", **wrong})
