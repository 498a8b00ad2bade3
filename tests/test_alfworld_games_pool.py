"""Pools name their games without making them, and refuse what they do not hold."""

from __future__ import annotations

import copy
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triage_gym.envs.alfworld import generator
from triage_gym.envs.alfworld.games import TASK_TYPES, Game
from triage_gym.envs.alfworld.pool import draw, make_pool
from triage_gym.errors import InputError

FIVE = TASK_TYPES[:5]


def test_generated_games_take_turns_by_type() -> None:
    pool = make_pool(None, "train", FIVE, 12)
    names = [pool.name(i) for i in range(len(pool))]
    assert names[:6] == [f"train/{t}/0" for t in FIVE] + [f"train/{FIVE[0]}/1"]
    assert len(set(names)) == 12
    assert pool.get(names[7]) == generator.from_task_id(names[7])
    assert pool.get(names[7]) is pool.get(names[7])


@pytest.mark.parametrize(
    "name",
    [
        "train/pick_two_obj_and_place/0",  # not of the five types
        "train/pick_heat_then_place_in_recep/2",  # number 13 of 12
        "valid_seen/pick_and_place_simple/0",
        "train/pick_and_place_simple/0/7",
        "train/pick_and_place_simple/" + "9" * 5000,
        "nonsense",
    ],
)
def test_a_bounded_pool_refuses_what_is_outside(name: str) -> None:
    with pytest.raises(InputError):
        make_pool(None, "train", FIVE, 12).get(name)


def test_an_unbounded_pool_draws_without_end() -> None:
    pool = make_pool(None, "train", None, None)
    drawn = [draw(pool, np.random.default_rng(seed)) for seed in range(50)]
    assert len(set(drawn)) == 50
    assert drawn == [draw(pool, np.random.default_rng(seed)) for seed in range(50)]
    assert pool.get("train/pick_two_obj_and_place/5/210").task_id.endswith("/210")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, "test", None, None), "split"),
        ((None, "train", "pick_two_obj_and_place", None), "sequence"),
        ((None, "train", [], None), "task_types"),
        ((None, "train", ["pick"], None), "task_types"),
        ((None, "train", None, 0), "num_games"),
        ((None, "train", None, True), "num_games"),
        ((5, "train", None, None), "games"),
        (([], "train", None, None), "at least one game"),
        (("", "train", None, None), "empty text"),
        (("x" * 5000, "train", None, None), "path of games"),
        (([{"pddl_domain": 1}], "train", None, None), "pddl_domain"),
    ],
)
def test_arguments_of_the_wrong_form_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_pool(*arguments)


def test_given_games_go_by_their_own_names() -> None:
    games = [generator.generate(i) for i in range(3)]
    pool = make_pool([games[0], games[1].to_dict(), games[2]], "train", None, 2)
    assert [pool.name(i) for i in range(len(pool))] == [g.task_id for g in games[:2]]
    assert pool.get(games[1].task_id) == games[1]
    with pytest.raises(InputError, match="one of 2 games"):
        pool.get(games[2].task_id)
    with pytest.raises(InputError, match="two alike"):
        make_pool([games[0], games[0]], "train", None, None)


def tree(root: Path) -> dict[str, Game]:
    """A small data tree: two games in each of two splits, one of them unsolvable."""
    written: dict[str, Game] = {}
    for split in ("train", "valid_unseen"):
        for task_type in FIVE[:2]:
            game = generator.generate(0, task_type, split)
            folder = generator.write(root / "json_2.1.1", game)
            written[f"{folder.parent.name}/{folder.name}"] = game
    bad = generator.write(root / "json_2.1.1", generator.generate(1, FIVE[0], "train")) / "game.tw-pddl"
    bad.write_text(json.dumps({**json.loads(bad.read_text()), "solvable": False}))
    return written


def test_a_data_tree_gives_one_split_without_unsolvable_games(tmp_path: Path) -> None:
    written = tree(tmp_path)
    pool = make_pool(tmp_path, "train", None, None)
    names = [pool.name(i) for i in range(len(pool))]
    assert names == sorted(n for n, g in written.items() if g.split == "train")
    for name in names:
        game = pool.get(name)
        assert game.task_id == name
        assert game.fingerprint == written[name].fingerprint
        assert game.walkthrough == written[name].walkthrough
    assert len(make_pool(tmp_path, "train", FIVE[1:2], None)) == 1
    assert len(make_pool(str(tmp_path / "json_2.1.1"), "valid_unseen", None, 1)) == 1
    with pytest.raises(InputError):
        make_pool(tmp_path, "valid_seen", None, None)


@pytest.mark.parametrize("kind", ["fifo", "dangling link", "too large"])
def test_a_data_tree_with_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    tree(tmp_path)
    folder = tmp_path / "json_2.1.1" / "train" / "pick_and_place_simple-Odd-None-Desk-1" / "trial"
    folder.mkdir(parents=True)
    file = folder / "game.tw-pddl"
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "dangling link":
        file.symlink_to(tmp_path / "nowhere")
    else:
        with file.open("wb") as stream:
            stream.truncate(20_000_000_000)
    with pytest.raises(InputError, match="pick_and_place_simple-Odd"):
        make_pool(tmp_path, "train", None, None)


def test_any_other_folder_is_taken_whole(tmp_path: Path) -> None:
    written = tree(tmp_path)
    folder = tmp_path / "json_2.1.1" / "valid_unseen"
    assert len(make_pool(folder, "train", None, None)) == 2
    one = next(folder.glob("*/*"))
    for path in (one, one / "game.tw-pddl"):
        pool = make_pool(path, "train", None, None)
        assert len(pool) == 1
        assert pool.name(0) in written
    with pytest.raises(InputError):
        make_pool(tmp_path / "nothing", "train", None, None)


def test_copies_share_and_unpickled_pools_are_equal(tmp_path: Path) -> None:
    tree(tmp_path)
    given = [generator.generate(0)]
    for pool in (
        make_pool(None, "train", None, 3),
        make_pool(tmp_path, "train", None, None),
        make_pool(given, "train", None, None),
    ):
        assert copy.deepcopy(pool) is pool
        other = pickle.loads(pickle.dumps(pool))  # noqa: S301
        assert other.name(0) == pool.name(0)
        assert other.get(pool.name(0)) == pool.get(pool.name(0))
