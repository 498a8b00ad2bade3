"""The generic rules: undone effects, repeated refusals, and facts that beat words."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage_gym.judges import generic
from triage_gym.judges.labelling import label_record
from triage_gym.judges.rule import RuleJudge
from triage_gym.protocols import Facts, Pair, Window
from triage_gym.records import EpisodeRecord, Segment

HALL, CELLAR, SHED = "You are in a hall.", "You are in a dark cellar.", "A shed full of spades."
NO = "Nothing happens."
Turn = tuple[str, str]


def roles(*turns: Turn, start: str = HALL) -> str:
    """The roles of (action, answer) turns as one word."""
    seen = [start, *(answer for _, answer in turns)]
    segments = tuple(Segment(k, seen[k], action, answer) for k, (action, answer) in enumerate(turns))
    record = EpisodeRecord("g", task="Find it.", start_observation=start, segments=segments)
    return "".join(x.role or "-" for x in label_record(record, RuleJudge("generic")).labels)


@pytest.mark.parametrize(
    ("expected", "turns"),
    [
        # An undone step is R, what comes after it as before.
        ("EER", [("down", CELLAR), ("east", SHED), ("west", CELLAR)]),
        ("EERR", [("down", CELLAR), ("east", SHED), ("west", CELLAR), ("east", SHED)]),
        # The same refusal of the same action is known; that of another one is not.
        ("NR", [("sing", NO), ("sing", "You can't sing.")]),
        ("NR", [("sing", NO), (" SING  ", NO)]),
        ("NN", [("sing", NO), ("dance", NO)]),
        ("N", [("sing", "** Invalid action")]),
        # White space and case tell something in maps.
        ("N", [("left", "You are in  a hall.")]),
        # What the agent has said itself is no news.
        ("NN", [("say open sesame", NO), ("wait", "sesame")]),
    ],
)
def test_roles(expected: str, turns: list[Turn]) -> None:
    assert roles(*turns) == expected


def test_the_reason_of_a_way_back_names_what_is_undone() -> None:
    window = Window("t", "x", 2, (Pair("down", CELLAR), Pair("east", SHED)), SHED, "west", CELLAR, ())
    assert generic.verdict(window) == ("R", "undoes 'east'")
    far = window._replace(past=(Pair("down", CELLAR), Pair("up", HALL), Pair("east", SHED)))
    assert generic.verdict(far) == ("R", "back to what was seen before")
    assert generic.verdict(window._replace(past=(Pair("east", SHED),), task=CELLAR))[0] == "R"


@pytest.mark.parametrize(
    ("facts", "reply", "expected"),
    [
        (Facts(changed=False, learnt=False), CELLAR, "N"),
        (Facts(changed=True, learnt=False), CELLAR, "N"),
        (Facts(changed=False, learnt=True), CELLAR, "E"),
        (Facts(changed=False), CELLAR, "E"),
        (Facts(changed=True, learnt=True), "in a hall", "E"),
        (Facts(changed=True, learnt=True), HALL, "E"),
        (Facts(changed=True, learnt=False), HALL, "N"),
        (Facts(changed=True, learnt=True), "You cannot see the bottom.", "E"),
        (Facts(changed=False, learnt=False), "You cannot see the bottom.", "N"),
        (Facts(before=3, after=9), CELLAR, "E"),
        (Facts(before=9, after=3), "in a hall", "N"),
    ],
)
def test_facts_beat_words_and_distances_are_not_looked_at(facts: Facts, reply: str, expected: str) -> None:
    window = Window("t", "x", 0, (), HALL, "down", reply, (), (), facts)
    assert generic.verdict(window)[0] == expected


pieces = st.one_of(st.text(max_size=40), st.sampled_from([HALL, CELLAR, SHED, NO]))
facts = st.one_of(
    st.none(), st.builds(Facts, st.sampled_from([None, True, False]), st.sampled_from([None, True, False]))
)


@given(st.lists(st.tuples(pieces, pieces), max_size=5), pieces, pieces, pieces, facts)
def test_any_text_gets_a_verdict(turns: Sequence[Turn], text: str, action: str, reply: str, told: Facts | None) -> None:
    past = tuple(Pair(*turn) for turn in turns)
    window = Window(text, "x", len(past), past, past[-1].observation if past else text, action, reply, (), (), told)
    role, why = generic.verdict(window)
    assert role in "ENR"
    assert why
    assert generic.verdict(window) == (role, why)
    if told is not None and told.learnt is False:
        assert role != "E"


def seconds(unit: str, size: int) -> float:
    """CPU time of a verdict on a window with texts of ``size`` characters in every place."""
    text = (unit * (size // len(unit) + 1))[:size]
    pairs = tuple(Pair(f"{k}{text}", f"{text}{k}") for k in range(5))
    window = Window(text, "x", 5, pairs, text, f"{text}!", f"{text}?", pairs)
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        generic.verdict(window)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("unit", ["a ", "-", "you can't ", " \n"])
def test_time_is_linear_in_the_text(unit: str) -> None:
    # Four times the text takes 4 times as long if linear, 16 times if quadratic.
    assert seconds(unit, 80_000) < 10 * seconds(unit, 20_000) + 0.01
