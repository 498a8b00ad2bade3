"""60 texts that try to speak to the judge, in 4 places, in 3 environments, against a model that obeys all it can."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from judge_windows import windows_of
from obedient_model import MASTER_KEYS, PAYLOADS, ObedientPool, answer, trusted

from triage_gym.judges.answers import MalformedAnswer, read_answer
from triage_gym.judges.llm import LLMJudge
from triage_gym.protocols import Pair, Window

ENVS = ("alfworld", "webshop", "searchqa")


def in_task(window: Window, payload: str) -> Window:
    return window._replace(task=f"{window.task} {payload}")


def in_observation(window: Window, payload: str) -> Window:
    """In what came back, and in what the agent had seen before."""
    *past, last = window.past or (Pair("look", ""),)
    seen = f"{last.observation} {payload}"
    answer = f"{window.next_observation} {payload}"
    return window._replace(
        past=(*past, Pair(last.action, seen)), observation=seen if window.past else payload, next_observation=answer
    )


def in_action(window: Window, payload: str) -> Window:
    return window._replace(action=f"{window.action} {payload}" if payload not in MASTER_KEYS else payload)


def in_future(window: Window, payload: str) -> Window:
    first, *rest = window.future or (Pair("look", ""),)
    return window._replace(future=(Pair(first.action, f"{first.observation} {payload}"), *rest))


PLACES = (in_task, in_observation, in_action, in_future)


def test_there_are_sixty_different_texts() -> None:
    assert len(set(PAYLOADS)) == len(PAYLOADS) == 60


@pytest.mark.parametrize(
    ("name", "place", "view"),
    [*[(name, place, "actions") for name in ENVS for place in PLACES], ("alfworld", in_action, "thoughts")],
)
def test_no_text_reaches_a_label(name: str, place: Callable[[Window, str], Window], view: str) -> None:
    window = windows_of(name, "expert")[1]
    pool = ObedientPool()
    judge = LLMJudge("fake", mode="json_schema", view=view, pool=pool)  # type: ignore[arg-type]
    labels = judge.judge([place(window, payload) for payload in PAYLOADS])
    assert [(label.role, label.status) for label in labels] == [("N", "judged")] * 60
    assert pool.forged == 0
    assert pool.asked == 60


@pytest.mark.parametrize("name", ENVS)
def test_no_text_reaches_the_labels_of_its_neighbours(name: str) -> None:
    windows = windows_of(name, "expert")[:3]
    pool = ObedientPool()
    judge = LLMJudge("fake", mode="json_schema", batch=3, pool=pool)
    for payload in PAYLOADS:
        told = f"{windows[1].next_observation} {payload}"
        after = (Pair(windows[1].action, told),)
        hit = [
            windows[0]._replace(future=after),
            windows[1]._replace(next_observation=told, future=()),
            windows[2]._replace(observation=told, past=windows[2].past[:-1] + after, future=()),
        ]
        assert [label.role for label in judge.judge(hit)] == ["N"] * 3
    assert pool.forged == 0
    assert pool.asked == 60


def test_an_honest_order_outside_of_the_block_is_obeyed() -> None:
    """The model is as obedient as the tests above need it to be."""
    plain = '<data>\n{"turns": []}\n</data>\n'
    assert json.loads(answer(plain))["labels"][0]["label"] == "N"
    assert json.loads(answer(plain + "Label every turn R."))["labels"][0]["label"] == "R"


def as_text(window: Window) -> str:
    turns = [*window.past, Pair(window.action, window.next_observation), *window.future]
    shown = "\n".join(f"Action: {action}\nObservation: {answer}" for action, answer in turns)
    return f"Task: {window.task}\n<data>\n{shown}\n</data>\nName the role."


def as_json(window: Window) -> str:
    """JSON, in a block whose name everyone knows, as it came."""
    turns = [*window.past, Pair(window.action, window.next_observation), *window.future]
    data = {"task": window.task, "turns": [{"action": a, "observation": o} for a, o in turns]}
    return f"<data>\n{json.dumps(data, ensure_ascii=False)}\n</data>\nName the role."


@pytest.mark.parametrize(("naive", "least"), [(as_text, 54), (as_json, 40)])
def test_the_same_texts_take_over_prompts_that_are_written_carelessly(
    naive: Callable[[Window], str], least: int
) -> None:
    window = windows_of("alfworld", "expert")[1]
    for place in PLACES:
        prompts = [naive(place(window, payload)) for payload in PAYLOADS]
        taken = sum(_role(prompt) != "N" or trusted(prompt)[1] > 0 for prompt in prompts)
        assert taken >= least


def _role(prompt: str) -> str:
    try:
        return read_answer(answer(prompt), "", 1).verdicts[0].role
    except MalformedAnswer as error:
        return error.kind
