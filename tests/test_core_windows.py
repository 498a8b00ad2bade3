"""Windows: what a judge sees, and that nothing of the outcome is in it."""

from __future__ import annotations

import copy
import pickle
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage_gym.errors import InputError
from triage_gym.protocols import Pair, Window
from triage_gym.records import EpisodeRecord, RoleLabel, Segment
from triage_gym.windows import OUTCOME_LITERALS, Instead, build_windows, domain_of, outcome_text_of, redact


def attempt(*turns: tuple[str, str], start: str = "start", **fields: Any) -> EpisodeRecord:
    """A record of (action, answer) turns."""
    seen = [start, *(answer for _, answer in turns)]
    segments = tuple(Segment(k, seen[k], action, answer) for k, (action, answer) in enumerate(turns))
    return EpisodeRecord("g", start_observation=start, segments=segments, **fields)


def test_a_window_holds_the_segment_and_what_is_around_it() -> None:
    record = attempt(*[(f"a{k}", f"o{k}") for k in range(12)], task="do it", domain="d")
    window = build_windows(record)[6]
    assert window == Window(
        task="do it",
        domain="d",
        step=6,
        past=tuple(Pair(f"a{k}", f"o{k}") for k in range(1, 6)),
        observation="o5",
        action="a6",
        next_observation="o6",
        future=tuple(Pair(f"a{k}", f"o{k}") for k in range(7, 12)),
        earlier_actions=tuple(f"a{k}" for k in range(6)),
    )
    assert build_windows(record)[0].past == ()
    assert build_windows(record)[-1].future == ()
    assert build_windows(record, past=0, future=1)[6].past == ()
    assert build_windows(record, past=0, future=1)[6].future == (Pair("a7", "o7"),)


def test_without_a_task_the_first_observation_stands_for_it() -> None:
    assert build_windows(attempt(("a", "o"), start="Put the ball in the box."))[0].task == "Put the ball in the box."
    record = replace(attempt(("a", "o"), start="seen"), start_observation="")
    assert build_windows(record)[0].task == "seen"


def test_refused_actions_are_not_among_the_earlier_ones() -> None:
    record = attempt(("a0", "ok"), ("a1", "Nothing happens."), ("a2", "no"), ("a3", "ok"))
    marked = replace(record.segments[2], info={"invalid_action": True})
    record = replace(record, segments=(*record.segments[:2], marked, record.segments[3]))
    assert build_windows(record)[3].earlier_actions == ("a0",)
    assert [p.action for p in build_windows(record)[3].past] == ["a0", "a1", "a2"]


def test_an_empty_attempt_has_no_windows() -> None:
    assert build_windows(attempt()) == []


def test_some_windows_are_the_same_as_of_all() -> None:
    record = attempt(*[(f"a{k}", f"o{k} You won!") for k in range(9)])
    for start in range(9):
        for stop in range(start, 10):
            some = build_windows(record, 2, 3, ("o3",), steps=range(start, stop))
            assert some == build_windows(record, 2, 3, ("o3",))[start:stop]


@pytest.mark.parametrize("steps", [range(-1, 2), range(4), range(0, 3, 2), range(2, -1, -1)])
def test_steps_outside_are_refused(steps: range) -> None:
    with pytest.raises(InputError, match="steps"):
        build_windows(attempt(("a", "o"), ("b", "p"), ("c", "q")), steps=steps)


@pytest.mark.parametrize(
    "options", [{"past": -1}, {"future": -1}, {"outcome_text": "You won!"}, {"outcome_text": [""]}]
)
def test_bad_options_are_refused(options: Any) -> None:
    with pytest.raises(InputError):
        build_windows(attempt(("a", "o")), **options)


END = "*** The End ***\n\nYou scored 3 out of a possible 3, in 12 turns.\n\nWould you like to RESTART or QUIT?"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("You move the cup 2 to the fridge 1. You won!", "You move the cup 2 to the fridge 1."),
        (END, ""),
        ("Taken.\n\n\n\n " + END, "Taken."),
        ("Dark.\n*** You lost! ***", "Dark."),
        ("Dark.\n*** You lost! ***\n", "Dark.\n"),
        ("You won! Well done.", "Well done."),
        ("Done. You won! Well done.", "Done. Well done."),
        ("You wonYou won!!", ""),
        ("Thanks! [SEP] Your score (min 0.0, max 1.0): 1.0", "Thanks! [SEP]"),
        ("Taken.\n\nYour score has just gone up by one point.", "Taken."),
        ("Taken.\n\n\n\n>                 -= Dining Room =-4/17", "Taken."),
        ("Oh.\nYour score has just gone down by two points.\n\n>      -= Attic =--2/3\n", "Oh."),
        ("-= Attic =-\nA sign: -= 4/5 =-6/7, > none.", "-= Attic =-\nA sign: -= 4/5 =-6/7, > none."),
        (
            "You see a scorecard and a lost coin. You won a smile.",
            "You see a scorecard and a lost coin. You won a smile.",
        ),
    ],
)
def test_known_terminal_wording_is_hidden_without_being_declared(text: str, hidden: str) -> None:
    assert redact(text) == hidden
    window = build_windows(attempt(("a", text), ("b", text), ("c", text), task=text, start=text))[1]
    assert {window.task, window.observation, window.next_observation} == {hidden}
    assert {p.observation for p in window.past + window.future} == {hidden}


def test_declared_wording_is_hidden_everywhere_and_actions_stay() -> None:
    text = "The lamp glows green. GREEN means done."
    record = attempt(("say GREEN", text), ("b", text), ("c", text), task="make it GREEN", start="GREEN?")
    for window in build_windows(record, outcome_text=("GREEN", "The lamp glows green.", "GREEN means done.")):
        for shown in (window.task, window.observation, window.next_observation):
            assert "GREEN" not in shown
        for pair in window.past + window.future:
            assert pair.observation == ""
    assert build_windows(record)[0].action == "say GREEN"


texts = st.one_of(st.text(max_size=20), st.sampled_from([*OUTCOME_LITERALS, END, "Nothing happens.", "room"]))


@settings(max_examples=1000)
@given(
    st.lists(st.tuples(texts, texts), max_size=8),
    st.lists(
        st.tuples(st.floats(-5, 5), st.booleans(), st.dictionaries(st.text(max_size=3), st.integers())), max_size=8
    ),
    st.floats(-5, 5),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.one_of(st.none(), st.text(max_size=5)),
)
def test_windows_do_not_depend_on_how_it_ended(
    turns: list[tuple[str, str]],
    other: list[tuple[float, bool, dict[str, int]]],
    score: float,
    flags: tuple[bool, bool, bool],
    error: str | None,
) -> None:
    record = attempt(*turns, task="t")
    segments = list(record.segments)
    for k, (reward, won, info) in enumerate(other[: len(segments)]):
        segments[k] = replace(segments[k], reward=reward, info={**info, "success": won, "won": won, "score": reward})
    ended = replace(
        record,
        segments=tuple(segments),
        labels=tuple(RoleLabel(k, "D") for k in range(len(segments))),
        score=score,
        success=flags[0],
        terminated=flags[1],
        truncated=flags[2],
        error=error,
        seed=7,
    )
    assert build_windows(ended) == build_windows(record)


@settings(max_examples=1000)
@given(st.lists(st.tuples(texts, texts), max_size=6), st.lists(st.text("abc", min_size=1, max_size=3), max_size=3))
def test_no_declared_literal_is_left(turns: list[tuple[str, str]], literals: list[str]) -> None:
    for window in build_windows(attempt(*turns), outcome_text=literals):
        shown = [window.task, window.observation, window.next_observation]
        shown += [p.observation for p in window.past + window.future]
        assert not any(x in text for x in [*literals, *OUTCOME_LITERALS] for text in shown)


plain = st.text("abc .\n", max_size=20).map(str.strip)


@settings(max_examples=1000)
@given(
    st.lists(st.tuples(plain, plain), min_size=1, max_size=8),
    st.sampled_from([*OUTCOME_LITERALS, END, "You found it!", "You found it!\n*** The End ***"]),
    st.sampled_from(["", " ", "\n\n"]),
)
def test_a_won_attempt_looks_like_one_that_says_nothing(turns: list[tuple[str, str]], said: str, gap: str) -> None:
    action, answer = turns[-1]
    won = attempt(*turns[:-1], (action, answer + gap + said), start="a")
    silent = attempt(*turns, start="a")
    assert build_windows(won, outcome_text=("You found it!",)) == build_windows(silent)


def test_cutting_out_is_linear_in_the_text() -> None:
    text = " " * 200_000 + "x You won!" + " " * 200_000
    start = time.process_time()
    assert redact(text) == text.replace(" You won!", "")
    assert time.process_time() - start < 0.1


@pytest.mark.parametrize(("declared", "literals"), [("You won!", ("You won!",)), (["a", "b"], ("a", "b")), ((), ())])
def test_an_environment_may_declare_one_literal_or_several(declared: object, literals: tuple[str, ...]) -> None:
    assert outcome_text_of({"outcome_text": declared}) == literals


def test_an_environment_that_declares_nothing_is_generic_and_hides_nothing() -> None:
    assert (domain_of({}), outcome_text_of({})) == ("generic", ())


def test_what_a_gap_would_tell_is_shown_as_something_else() -> None:
    mine = Instead("*", "?")
    assert redact("1 * .\n? * *", (mine,)) == "1 ? .\n? ? ?"
    for other in (copy.deepcopy(mine), pickle.loads(pickle.dumps(mine))):  # noqa: S301 - our own bytes
        assert (other, type(other), redact("*", (other,))) == ("*", Instead, "?")
    with pytest.raises(InputError, match="does not hold it"):
        Instead("*", "**")
