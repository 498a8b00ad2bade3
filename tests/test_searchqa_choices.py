"""Actions to choose among, the expert that knows what it has read, and the features of a policy that chooses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage_gym.envs.searchqa import SearchQAEnv, choices
from triage_gym.envs.searchqa.choices import MOST_ANSWERS, MOST_TITLES, Span, answers, parts_of, queries, spans_of
from triage_gym.envs.searchqa.scoring import score
from triage_gym.envs.searchqa.searching import next_action

CAPITAL = (
    '(Title: "Albania: Government") Capital: name: Tirana (Tirane); geographic coordinates: 41 19 N, 19 49 E; '
    "time difference: UTC+1. Administrative divisions: 12 counties."
)
PEAK = '(Title: "Albania: Geography") Elevation: highest point: Maja e Korabit 2,764 m; lowest point: Adriatic Sea 0 m.'
TWO_HOP = "What is the highest point of the country whose capital is Tirana?"


@pytest.mark.parametrize(
    ("question", "asked", "known"),
    [
        ("What is the capital of the Solomon Islands?", ("capital",), ("Solomon", "Islands")),
        (TWO_HOP, ("highest", "point"), ("capital", "Tirana")),
        ("What is the capital of the only country that borders both Andorra and Morocco?", ("capital",),
         ("borders", "Andorra", "Morocco")),
        ("who wrote it?", ("wrote",), ()),
    ],
)  # fmt: skip
def test_questions_are_cut_by_hand(question: str, asked: tuple[str, ...], known: tuple[str, ...]) -> None:
    assert parts_of(question) == (asked, known)


def test_pieces_of_a_passage_by_hand() -> None:
    found = {(span.label, span.text) for span in spans_of(CAPITAL)}
    assert {("Capital name", "Tirana"), ("Capital name", "Tirane")} <= found
    assert ("Capital time difference", "UTC+1") in found
    assert {span.title for span in spans_of(CAPITAL)} == {"Albania"}
    texts = [span.text for span in spans_of(PEAK)]
    assert texts[:2] == ["Maja e Korabit", "Maja e Korabit 2,764 m"]
    quoted = spans_of('"X: Y"\nNational anthem(s): title: "Hymni i Flamurit" (Hymn to the Flag); history: adopted 1912')
    assert [span.text for span in quoted][:2] == ["Hymni i Flamurit", "Hymn to the Flag"]
    assert Span(".al", "Internet country code", "X") in spans_of('"X"\nInternet country code: .al. Users: 3')


def test_queries_are_made_of_the_question_and_of_titles_read() -> None:
    assert queries(TWO_HOP, []) == [TWO_HOP, "capital Tirana highest point", "capital Tirana"]
    assert queries(TWO_HOP, [CAPITAL])[-1] == "Albania highest point"
    many = [f'(Title: "T{k}: x") y' for k in range(20)]
    assert sum(query.startswith("T") for query in queries(TWO_HOP, many)) == MOST_TITLES
    assert queries("?", []) == ["?"]


def test_answers_that_say_what_is_asked_come_first_and_are_bounded() -> None:
    found = answers(TWO_HOP, [PEAK, CAPITAL])
    assert found[0].text == "Maja e Korabit"
    assert answers(TWO_HOP, []) == []
    long = '"L"\n' + "; ".join(f"item {k}: Value{k}" for k in range(300))
    assert len(answers(TWO_HOP, [long])) == MOST_ANSWERS


def test_the_expert_follows_the_title_that_told_what_is_told() -> None:
    assert next_action(TWO_HOP, [], [], last=False) == "<search>capital Tirana</search>"
    assert next_action(TWO_HOP, ["capital Tirana"], [CAPITAL], last=False) == "<search>Albania highest point</search>"
    seen = [CAPITAL, PEAK]
    assert next_action(TWO_HOP, ["capital Tirana", "Albania highest point"], seen, False) == (
        "<answer>Maja e Korabit</answer>"
    )
    assert next_action(TWO_HOP, ["a"], [CAPITAL], last=True).startswith("<answer>")
    assert next_action("?", ["?"], [], last=False) == "<answer></answer>"


def play(env: SearchQAEnv, task_id: str) -> tuple[list[str], dict[str, Any]]:
    _, info = env.reset(options={"task_id": task_id})
    sent = []
    over = False
    while not over:
        action = env.expert_action()
        assert action is not None
        assert action in info["admissible_commands"]
        sent.append(action)
        _, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    return sent, info


def test_the_expert_does_not_know_the_answer() -> None:
    """With another answer behind the same question it does the same."""
    env = SearchQAEnv(split="val")
    for task_id in env.task_ids()[::40]:
        sent, _ = play(env, task_id)
        env.reset(options={"task_id": task_id})
        game = env.game
        game._source = replace(game.definition, answers=("something else",), hops=())
        over, again = False, []
        while not over:
            action = env.expert_action()
            assert action is not None
            again.append(action)
            _, _, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
        assert again == sent


def test_the_expert_wins_well_above_half_and_its_actions_can_be_chosen() -> None:
    env = SearchQAEnv(split="val")
    ids = env.task_ids()[::8]
    won = Counter(bool(play(env, task_id)[1]["success"]) for task_id in ids)
    assert won[True] / len(ids) > 0.6


def test_right_answers_are_among_the_choices_once_they_were_read() -> None:
    env = SearchQAEnv(split="val")
    found = []
    for task_id in env.task_ids()[::8]:
        env.reset(options={"task_id": task_id})
        task = env.game.definition
        shown = [f"(Title: {p.partition(chr(10))[0]}) {p.partition(chr(10))[2]}" for p in env.gold_passages()]
        found.append(any(score(span.text, task.answers).em == 1.0 for span in answers(task.question, shown)))
        first = env.reset(options={"task_id": task_id})[1]["admissible_commands"]
        assert not any(command.startswith("<answer>") for command in first)
    assert sum(found) / len(found) > 0.95


def test_choices_come_back_with_the_state() -> None:
    env, other = SearchQAEnv(), SearchQAEnv()
    env.reset(options={"task_id": env.task_ids()[0]})
    other.reset(seed=1)
    info = env.step("<search>Albania capital name</search>")[4]
    other.set_state(env.get_state())
    step = "<search>Albania highest point</search>"
    assert other.step(step)[4]["admissible_commands"] == env.step(step)[4]["admissible_commands"]
    assert len(info["admissible_commands"]) > 5
    assert len(str(env.get_state())) < 2000


def test_an_action_of_odd_words_stays_one_action() -> None:
    passage = '"T"\nname: x</answer><search>y'
    assert choices.spans_of(passage)
    env = SearchQAEnv()
    _, info = env.reset(seed=0)
    assert all(command.count("<") == 2 for command in info["admissible_commands"])


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200), st.lists(st.text(max_size=300), max_size=4))
def test_any_text_can_be_cut(question: str, passages: list[str]) -> None:
    spans = answers(question, passages)
    assert len(spans) <= MOST_ANSWERS
    assert len({span.text for span in spans}) == len(spans)
    made = queries(question, passages)
    assert len(set(made)) == len(made)
    assert next_action(question, [], passages, last=False)


def test_features_read_the_episode_alone() -> None:
    pytest.importorskip("torch")
    from triage_gym.trainers.policy import question_features as q
    from triage_gym.trainers.policy.features import PATTERN_BITS, Register

    features = q.QuestionFeatures(remarks=True)
    assert features.candidate_features <= PATTERN_BITS
    memory = features.begin(TWO_HOP, "…")
    memory.observe("<search>capital Tirana</search>", f"\n\n<information>Doc 1{CAPITAL}</information>\n\n")
    commands = [f"<search>{query}</search>" for query in queries(TWO_HOP, memory.passages)]
    commands += ["<answer>Tirana</answer>", "<answer></answer>"]
    register = Register(features.tokens_per_command)
    bits = [key & ((1 << PATTERN_BITS) - 1) for key in features.encode(memory, commands, register).keys]
    follow = bits[commands.index("<search>Albania highest point</search>")]
    assert follow & q.FOLLOWS
    assert follow & q.FITS
    told = bits[commands.index("<answer>Tirana</answer>")]
    assert told & q.ANSWERS
    assert told & q.IN_QUESTION
    assert told & q.TOLD_TITLE
    assert not told & q.ASKED
    memory.observe("<search>Albania highest point</search>", f"\n\n<information>Doc 1{PEAK}</information>\n\n")
    right = "<answer>Maja e Korabit</answer>"
    found = features.encode(memory, [right, "<answer>Adriatic Sea</answer>"], register)
    first, second = (key & ((1 << PATTERN_BITS) - 1) for key in found.keys)
    assert first & q.MOST
    assert first & q.SEARCHED_TITLE
    assert not second & q.MOST
    assert len(set(found.state)) == len(found.state)
    assert max(found.state) < features.states
