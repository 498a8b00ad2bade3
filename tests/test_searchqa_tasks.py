"""Questions from files: both forms of lines, splits that share no file, and errors that say what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from triage_gym.envs.searchqa import SearchQAEnv, load_tasks
from triage_gym.envs.searchqa.question_files import share_of
from triage_gym.errors import InputError

REAL = Path(__file__).parents[2] / "shared" / "data" / "searchqa"


def write(path: Path, *lines: dict[str, Any] | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in ("train", "dev", "test"):
        lines = [{"id": f"{part}_{i}", "question": f"nq {part} {i}", "golden_answers": [str(i), "é"]} for i in range(3)]
        write(tmp_path / "nq" / f"{part}.jsonl", *lines)
    for part in ("train", "dev"):
        write(
            tmp_path / "hotpotqa" / f"{part}.jsonl", {"id": "a", "question": f"hotpot {part}?", "golden_answers": ["b"]}
        )
    write(tmp_path / "2wiki.jsonl", {"question": "Who?", "answer": ["x"]}, "", {"question": "Where?", "answer": "y"})
    return tmp_path


def test_the_splits_are_those_of_search_r1(folder: Path) -> None:
    splits = {split: load_tasks(folder, split) for split in ("train", "val", "test")}
    assert list(splits["train"]) == [*(f"nq/train/train_{i}" for i in range(3)), "hotpotqa/train/a"]
    assert list(splits["val"]) == [f"nq/dev/dev_{i}" for i in range(3)]
    assert list(splits["test"]) == [
        *(f"nq/test/test_{i}" for i in range(3)),
        "hotpotqa/dev/a",
        "2wikimultihopqa/test/0",
        "2wikimultihopqa/test/2",
    ]
    task = splits["test"]["nq/test/test_1"]
    assert (task.question, task.answers, task.task_type) == ("nq test 1", ("1", "é"), "nq")
    assert splits["test"]["2wikimultihopqa/test/2"].answers == ("y",)


def test_data_sets_are_chosen_by_name(folder: Path) -> None:
    assert list(load_tasks(folder, "test", ["hotpotqa"])) == ["hotpotqa/dev/a"]
    assert list(load_tasks(folder, "train", "nq")) == [f"nq/train/train_{i}" for i in range(3)]


@pytest.mark.parametrize(
    ("split", "datasets", "message"),
    [
        ("test", ["popqa"], r"popqa.*FOLDER/nq/test\.jsonl"),
        ("val", ["hotpotqa"], "val split of hotpotqa"),
        ("train", ["squad"], "squad"),
        ("test", [], "none"),
        ("test", [3], "names of data sets"),
        ("test", [""], "names of data sets"),
    ],
)
def test_what_is_missing_is_said(folder: Path, split: str, datasets: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_tasks(folder, split, datasets)


def test_a_folder_without_files_says_where_to_get_them(tmp_path: Path) -> None:
    for where in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match=r"https://huggingface\.co/datasets/RUC-NLPIR.*put them at FOLDER"):
            load_tasks(where, "train")


def own(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"question": f"Which is {number}?", "answer": ["x"]} for number in range(first, first + count)]


def test_one_file_of_any_name_is_divided_by_its_questions(tmp_path: Path) -> None:
    write(tmp_path / "My questions.jsonl", *own(400))
    splits = {split: load_tasks(tmp_path / "My questions.jsonl", split) for split in ("train", "val", "test")}
    assert sorted(task for tasks in splits.values() for task in tasks) == sorted(
        f"My questions/{number}" for number in range(400)
    )
    shares = {split: len(tasks) / 400 for split, tasks in splits.items()}
    assert shares == pytest.approx({"train": 0.8, "val": 0.1, "test": 0.1}, abs=0.05)
    # In a folder it is the same data set, with the same splits.
    assert {split: load_tasks(tmp_path, split, "My questions") for split in splits} == splits
    # The same question, written a little differently, is in the same split.
    same = ["Who is it?", "who  is it", " WHO is it ? "]
    assert len({share_of(question) for question in same}) == 1


@pytest.mark.parametrize("dev", ["dev", "val", "valid", "validation"])
def test_a_folder_of_any_name_has_parts(tmp_path: Path, dev: str) -> None:
    for number, part in enumerate(("train", dev, "test")):
        write(tmp_path / "mine" / f"{part}.jsonl", *own(2, number * 10))
    parts = {"train": "train", "val": "dev", "test": "test"}
    for split, part in parts.items():
        names = [f"mine/{part}/{number}" for number in range(2)]
        # The folder above, the one that is the data set itself, and the name alone or in a list.
        assert list(load_tasks(tmp_path, split)) == list(load_tasks(tmp_path / "mine", split)) == names
        assert list(load_tasks(tmp_path, split, "mine")) == list(load_tasks(tmp_path, split, ["mine"])) == names


def test_data_sets_of_ones_own_stand_beside_the_known_ones(folder: Path) -> None:
    write(folder / "pets" / "cats.jsonl", *own(50))
    assert {task.split("/")[0] for task in load_tasks(folder, "train")} == {"nq", "hotpotqa"}
    both = load_tasks(folder, "train", ["nq", "pets/cats"])
    assert {task.task_type for task in both.values()} == {"nq", "pets/cats"}
    assert load_tasks(folder, "test", "2wiki") == load_tasks(folder, "test", "2wikimultihopqa")


def test_an_error_lists_the_files_and_their_splits(tmp_path: Path) -> None:
    lines = own(2)
    write(tmp_path / "mine.jsonl", *lines)
    write(tmp_path / "yours" / "train.jsonl", *own(3, 5))
    own_splits = [share_of(line["question"]) for line in lines]
    missing = next(split for split in ("val", "test") if split not in own_splits)
    told = ", ".join(f"{split} {own_splits.count(split)}" for split in ("train", "val", "test"))
    with pytest.raises(InputError) as error:
        load_tasks(tmp_path, missing)
    assert f"mine (mine.jsonl, by a hash of each question: {told})" in str(error.value)
    assert "yours (train: train.jsonl)" in str(error.value)
    with pytest.raises(InputError, match=r"test split of yours.*mine \(mine\.jsonl, every split by a hash"):
        load_tasks(tmp_path, "test", "yours")


def test_files_that_cannot_be_told_apart_are_named(tmp_path: Path) -> None:
    write(tmp_path / "mine.jsonl", *own(40))
    write(tmp_path / "mine" / "train.jsonl", *own(40))
    write(tmp_path / "corpus.jsonl", {"id": "1", "contents": "Cats"})
    with pytest.raises(InputError, match=r"Expected one file for each split of mine.*mine\.jsonl"):
        load_tasks(tmp_path, "train", "mine")
    (tmp_path / "mine.jsonl").unlink()
    with pytest.raises(InputError, match=r"corpus\.jsonl, line 1.*name those that are with datasets="):
        load_tasks(tmp_path, "train")
    assert len(load_tasks(tmp_path, "train", "mine")) == 40


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '"text"',
        {"question": "?"},
        {"question": 3, "answer": ["x"]},
        {"question": " ", "answer": ["x"]},
        {"question": "why?", "answer": []},
        {"question": "why?", "answer": [1]},
        {"question": "why?", "golden_answers": {"a": "b"}},
        {"id": {"a": 1}, "question": "why?", "answer": ["x"]},
        {"id": True, "question": "why?", "answer": ["x"]},
        "[" * 100_000,
        '{"question": "caf\\ud800"',
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: Any) -> None:
    write(tmp_path / "nq.jsonl", {"question": "Who?", "answer": ["x"]}, line)
    with pytest.raises(InputError, match=r"nq\.jsonl, line 2"):
        load_tasks(tmp_path, "test")


def test_an_id_comes_once(tmp_path: Path) -> None:
    line = {"id": 1, "question": "Who?", "answer": ["x"]}
    write(tmp_path / "nq.jsonl", line, line)
    with pytest.raises(InputError, match="line 2"):
        load_tasks(tmp_path, "test")


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    for number in (1, 20):
        write(tmp_path / "nq.jsonl", *({"question": f"Who {i}?", "answer": ["x"]} for i in range(number)))
        assert len(load_tasks(tmp_path, "test")) == number


def test_questions_of_your_own_need_a_corpus(folder: Path) -> None:
    with pytest.raises(InputError, match=r"Expected a corpus or a server.*prepare\(FILE, FOLDER\)"):
        SearchQAEnv(questions=folder)


def test_questions_from_files_are_played(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl", {"id": "1", "contents": '"Cats"\nA cat is red.'}, {"id": 2, "contents": "Dogs"})
    env = SearchQAEnv(questions=folder, corpus=tmp_path / "corpus.jsonl", split="test")
    observation, info = env.reset(options={"task_id": "hotpotqa/train/a"})
    assert (info["task"], info["task_type"], info["task_id"]) == ("hotpot train?", "hotpotqa", "hotpotqa/train/a")
    assert observation.endswith("Question: hotpot train?\n")
    assert (
        env.step("<search>cat</search>")[0] == '\n\n<information>Doc 1(Title: "Cats") A cat is red.</information>\n\n'
    )
    assert env.gold_passages() == []
    assert env.expert_plan() == ["<answer>b</answer>"]
    assert env.step("<answer>B!</answer>")[4]["success"] is True
    seen = {env.reset(seed=seed)[1]["task_id"] for seed in range(200)}
    assert seen == set(env.task_ids()) == set(load_tasks(folder, "test"))
    state = env.get_state()
    other = SearchQAEnv(questions=folder, corpus=tmp_path / "corpus.jsonl", split="train")
    other.set_state(state)
    assert other.get_state() == state
    with pytest.raises(InputError, match="Expected the id of a question"):
        env.reset(options={"task_id": "nq/test/9"})


@pytest.mark.skipif(not REAL.exists(), reason="needs the real questions")
def test_real_files_are_read() -> None:
    tasks = load_tasks(REAL, "test")
    counts = {name: sum(task.task_type == name for task in tasks.values()) for name in ("2wikimultihopqa", "hotpotqa")}
    assert counts == {"2wikimultihopqa": 200, "hotpotqa": 200}
    assert len(tasks) == 725
    assert tasks["bamboogle/test/0"].answers == ("james madison",)
    with pytest.raises(InputError, match="FOLDER"):
        load_tasks(REAL, "train")


def test_an_id_that_is_null_is_none(tmp_path: Path) -> None:
    line = {"id": None, "question": "Who?", "answer": ["x"]}
    write(tmp_path / "nq.jsonl", line, line)
    assert list(load_tasks(tmp_path, "test")) == ["nq/test/0", "nq/test/1"]
