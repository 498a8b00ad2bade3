"""Each rule of the Search-QA judge on written-out searches, in the wordings of Search-R1 and of verl-agent."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage_gym.domains import searchqa as qa
from triage_gym.judges.rule import RuleJudge
from triage_gym.judges.searchqa import SearchQARules
from triage_gym.protocols import Pair, Window
from triage_gym.records import EpisodeRecord, Segment
from triage_gym.windows import build_windows

TASK = "What is the currency of the country whose capital is Monrovia?"
START = f"Answer the question below.\nQuestion: {TASK}\n"
CAPITAL = '"Liberia: Government" Capital: name: Monrovia; time: UTC 0'
MONEY = '"Liberia: Economy" Exports: gold. Exchange rates: currency: Liberian dollars (LRD) per US dollar'
CUBA = '"Cuba: Economy" Exports: sugar. Exchange rates: currency: Cuban pesos (CUP)'
WATER = (
    '"Liberia: Geography" ' + "Hills, plains, rivers and lakes. " * 5 + "Area: 15,049 sq km; highest point Mount Wuteve"
)
INVALID = "\nMy previous action is invalid. Let me try again.\n"
Turn = tuple[str, str]
Say = Callable[..., str]


def say(*passages: str) -> str:
    """Passages as Search-R1 shows them."""
    docs = "\n".join(f"Doc {i}(Title: {p.partition(' ')[0]}) {p}" for i, p in enumerate(passages, 1))
    return f"\n\n<information>{docs}</information>\n\n"


def say_verl(*passages: str) -> str:
    """Passages as verl-agent shows them."""
    docs = "".join(f"Doc {i}: {p}\n" for i, p in enumerate(passages, 1))
    return f"\n<information>{json.dumps({'result': docs})}</information>\n"


def search(query: str, *passages: str, said: Say = say) -> Turn:
    return f"<think>let me see <b></think><search> {query} </search>", said(*passages)


def answer(text: str) -> Turn:
    return f"<answer>{text}</answer>", ""


def windows(turns: Sequence[Turn], task: str = TASK) -> list[Window]:
    seen = [START, *(reply for _, reply in turns)]
    segments = tuple(Segment(k, seen[k], action, reply) for k, (action, reply) in enumerate(turns))
    record = EpisodeRecord("s", task=task, domain="searchqa", start_observation=START, segments=segments)
    return build_windows(record)


def roles(*turns: Turn) -> str:
    """The roles of an attempt as one word."""
    labels = RuleJudge().judge(windows(turns))
    assert all(x.source == "rule" and x.why and x.status == "judged" for x in labels)
    return "".join(x.role or "-" for x in labels)


HOP, NEXT = search("capital Monrovia", CAPITAL, WATER), search("Liberia exchange rates", MONEY, CUBA)


@pytest.mark.parametrize("said", [say, say_verl])
@pytest.mark.parametrize(
    ("expected", "turns"),
    [
        ("EED", [HOP, NEXT, answer("Liberian dollars")]),
        ("EED", [HOP, NEXT, answer("the Liberian dollar.")]),
        # Searches.
        ("ER", [HOP, HOP]),
        ("ER", [HOP, search("Monrovia, the CAPITAL", CAPITAL, WATER)]),
        ("ER", [HOP, search("capital city Monrovia", WATER, CAPITAL)]),
        ("EE", [HOP, search("Wuteve", MONEY)]),
        ("EN", [HOP, search("football results", CUBA)]),
        ("N", [search("football results", CUBA)]),
        ("N", [search("capital Monrovia")]),
        ("EEER", [HOP, NEXT, search("currency", '"Fiji: Economy" dollars'), search("currency Liberia")]),
        # Answers.
        ("EER", [HOP, NEXT, answer("")]),
        ("EER", [HOP, NEXT, answer("the")]),
        ("EEN", [HOP, NEXT, answer("Euro")]),
        ("EER", [HOP, NEXT, answer("Monrovia")]),
        ("EEN", [HOP, NEXT, answer("dollars Liberian")]),
        ("EER", [HOP, NEXT, answer("sq km")]),
        ("N", [answer("Liberian dollars")]),
        # Forms.
        ("NR", [("I should search.", INVALID), ("Search for Monrovia!", INVALID)]),
        ("NE", [("<search>Monrovia", INVALID), HOP]),
        ("NER", [("Liberian dollars", INVALID), HOP, ("<answer>", INVALID)]),
        ("", []),
    ],
)
def test_roles(expected: str, turns: list[Turn], said: Say) -> None:
    if said is say_verl:
        turns = [
            (action, said(*[p.text for p in qa.passages_of(reply) or ()]) if "<info" in reply else reply)
            for action, reply in turns
        ]
    assert roles(*turns) == expected


def test_reasons_are_concrete() -> None:
    def last(*turns: Turn) -> str:
        return RuleJudge().judge(windows(turns))[-1].why

    assert last(HOP) == "the first search: 2 new passages"
    assert last(HOP, answer("Euro")) == "answers what no passage seen says: from memory, or a guess"
    assert last(HOP, answer("Monrovia")) == "answers with words of the question"


@pytest.mark.parametrize(
    ("response", "action"),
    [
        ("<search> a </search>", ("search", "a")),
        ("<think><search>no</search></think><answer>b</answer>", ("answer", "b")),
        ("<search>c</search><think>fine</think>", ("search", "c")),
        ("<SEARCH>d</Search>", ("search", "d")),
        ("<answer><search>e</search>", ("search", "e")),
        ("<answer>f", ("", "")),
        ("", ("", "")),
    ],
)
def test_actions(response: str, action: tuple[str, str]) -> None:
    assert qa.parse_action(response) == action


texts = st.one_of(
    st.text(max_size=80), st.builds(say, st.sampled_from([CAPITAL, MONEY])), st.just('<information>{"result": 3}')
)
actions = st.one_of(
    st.text(max_size=40),
    st.builds(
        lambda kind, text: f"<{kind}>{text}</{kind}>", st.sampled_from(["search", "answer"]), st.text(max_size=20)
    ),
    st.sampled_from([HOP[0], answer("Liberian dollars")[0]]),
)


@given(st.lists(st.tuples(actions, texts), max_size=8), st.one_of(st.just(TASK), st.text(max_size=60)))
def test_any_text_gets_a_verdict_and_a_window_alone_decides_it(turns: list[Turn], task: str) -> None:
    made = windows(turns, task)
    rules = SearchQARules()
    together = [rules.verdict(window) for window in made]
    assert together == [SearchQARules().verdict(window) for window in made]
    assert all(v is None or (v[0] in "DENR" and v[1]) for v in together)


def seconds(unit: str, size: int) -> float:
    """CPU time of verdicts on windows with texts of ``size`` characters in every place."""
    text = (unit * (size // len(unit) + 1))[:size]
    best = float("inf")
    for _ in range(3):
        qa.passages_of.cache_clear()
        pairs = tuple(Pair(f"<search>{k}{text}</search>", f"{k}<information>{text}</information>") for k in range(5))
        window = Window(f"{text} {TASK}", "searchqa", 5, pairs, text, text, f"<information>{text}", pairs)
        start = time.process_time()
        for action in (text, f"<search>{text}</search>", f"<answer>{unit * 20}</answer>"):
            SearchQARules().verdict(window._replace(action=action))
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize(
    "unit",
    ["a ", "b a ", "<search>", "<answer><search>", "\nDoc 1(Title: ", "</think>", "{", "[", " ", "\n", "a b c d e f "],
)
def test_time_is_linear_in_the_text(unit: str) -> None:
    # Four times the text takes 4 times as long if linear, 16 times if quadratic.
    assert seconds(unit, 80_000) < 10 * seconds(unit, 20_000) + 0.01
