"""Games from a seed: repeatable everywhere, solvable, apart from each other, and readable by alfworld's own tools."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from triage_gym.envs.alfworld import games, generator, layouts, placements, tasks, wheel
from triage_gym.envs.alfworld.engine import FastEngine
from triage_gym.envs.alfworld.expert import Expert
from triage_gym.envs.alfworld.games import SPLITS, TASK_TYPES, Game
from triage_gym.envs.alfworld.world import bits
from triage_gym.errors import InputError

REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "alfworld"

DIGEST = """
import hashlib, json
from triage_gym.envs.alfworld import generator
from triage_gym.envs.alfworld.games import TASK_TYPES
digest = hashlib.sha256()
for task_type in TASK_TYPES:
    for seed in range({count}):
        digest.update(json.dumps(generator.generate(seed, task_type).to_dict()).encode())
print(digest.hexdigest())
"""


def digest_elsewhere(hash_seed: str, count: int) -> str:
    """Digest of the games that a fresh process makes."""
    done = subprocess.run(
        [sys.executable, "-c", DIGEST.format(count=count)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.slow
def test_six_hundred_games_are_solvable_and_the_same_in_every_process() -> None:
    digest = hashlib.sha256()
    for task_type in TASK_TYPES:
        for seed in range(100):
            game = generator.generate(seed, task_type)
            digest.update(json.dumps(game.to_dict()).encode())
            assert game.solvable is True
            engine = FastEngine(game)
            assert not engine.won
            for command in game.walkthrough:
                assert not engine.won
                assert engine.step(command) != "Nothing happens."
            assert engine.won
    assert digest_elsewhere("1", 100) == digest_elsewhere("2", 100) == digest.hexdigest()


def test_the_name_of_a_game_is_enough_to_make_it() -> None:
    for seed in range(8):
        game = generator.generate(seed, split=SPLITS[seed % 3])
        assert generator.from_task_id(game.task_id) == game
        assert generator.generate(seed, game.task_type, game.split) == game
        assert game.task_id == generator.name_of(seed, game.task_type, game.split)
    there = generator.generate(3, "pick_two_obj_and_place", floor_plan=210)
    assert there.task_id == "train/pick_two_obj_and_place/3/210"
    assert generator.from_task_id(there.task_id) == there


def test_games_of_different_splits_and_seeds_differ() -> None:
    seen: dict[str, str] = {}
    for split in ("train", "valid_seen"):
        for seed in range(150):
            game = generator.generate(seed, "pick_and_place_simple", split, floor_plan=316)
            assert seen.setdefault(_household(game), game.task_id) == game.task_id
    assert len(seen) == 300


def _household(game: Game) -> str:
    """The problem without its name, which holds split and seed."""
    return game.pddl_problem.partition("(:objects")[2]


def test_splits_use_alfreds_scenes() -> None:
    constants = wheel.constants()
    train, test = set(constants.TRAIN_SCENE_NUMBERS), set(constants.TEST_SCENE_NUMBERS)
    assert set(layouts.floor_plan_numbers("train")) == set(layouts.floor_plan_numbers("valid_seen")) == train
    assert set(layouts.floor_plan_numbers("valid_unseen")) == test
    assert len(train | test) == 120
    assert not train & test
    for split in SPLITS:
        for task_type in TASK_TYPES:
            assert tasks.floor_plans(task_type, split)
            assert set(tasks.floor_plans(task_type, split)) <= set(layouts.floor_plan_numbers(split))


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_a_household_keeps_its_promises(task_type: str) -> None:
    for seed in range(20):
        household, _ = generator._household(seed, task_type, "train", None)
        wanted, target = household.task.object, household.task.receptacle
        kinds = {r.id: r.kind for r in household.receptacles}
        assert household.start not in {r.location for r in household.receptacles}
        asked = [i for i in household.items if i.kind == wanted]
        assert (2 if task_type == "pick_two_obj_and_place" else 1) <= len(asked) <= 4
        assert all(i.receptacle and kinds[i.receptacle] != target for i in asked)
        names = [x.id for x in (*household.receptacles, *household.items)]
        assert len(set(names)) == len(names)
        for item in household.items:
            if item.receptacle and item.kind not in layouts.FIXTURES:
                assert item.kind in layouts.holds()[kinds[item.receptacle]]


def test_no_household_has_a_dead_end() -> None:
    for seed in range(30):
        world = FastEngine(generator.generate(seed)).world
        acceptable = 0
        for r, mask in enumerate(world.accepts):
            acceptable |= mask if world.location_of[r] >= 0 else 0
        assert not [world.objects[o] for o in bits(world.pickupable & ~acceptable)]


def test_the_goal_is_said_in_one_of_alfreds_sentences() -> None:
    for task_type in TASK_TYPES:
        said = {generator.generate(seed, task_type).task.split()[0] for seed in range(12)}
        templates = wheel.goal_library()[task_type]["templates"]
        assert said == {t.split()[0] for t in templates}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "non-negative"),
        ({"seed": True}, "non-negative"),
        ({"seed": 2**128}, "one of 129 bits"),
        ({"seed": 2**20_000}, "one of 20001 bits"),
        ({"seed": 0, "split": "test"}, "split"),
        ({"seed": 0, "task_type": "pick_it"}, "task type"),
        ({"seed": 0, "floor_plan": 1}, "floor plan"),
        ({"seed": 0, "task_type": "look_at_obj_in_light", "floor_plan": 7}, "floor plan"),
        ({"seed": 0, "split": "valid_unseen", "floor_plan": 7}, "floor plan"),
    ],
)
def test_arguments_that_name_no_game_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        generator.generate(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "train", "train/x/1", "train/pick_two_obj_and_place/01", "a/b/c/d/e", "train//1"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="name of a generated game"):
        generator.from_task_id(name)


def test_a_written_game_reads_back(tmp_path: Path) -> None:
    game = generator.generate(4, "pick_heat_then_place_in_recep", "valid_unseen")
    folder = generator.write(tmp_path / "json_2.1.1", game)
    assert sorted(p.name for p in folder.iterdir()) == ["game.tw-pddl", "initial_state.pddl", "traj_data.json"]
    assert folder.parent.parent.name == "valid_unseen"
    assert re.fullmatch(r"pick_heat_then_place_in_recep-\w+-None-\w+-[1-6]", folder.parent.name)
    assert games.load(folder) == game
    assert games.find(tmp_path, "valid_unseen", [game.task_type]) == [folder / "game.tw-pddl"]
    described = json.loads((folder / "traj_data.json").read_text())
    assert described["pddl_params"]["object_target"] in folder.parent.name
    assert (folder / "initial_state.pddl").read_text() == game.pddl_problem
    real = games.Game.from_dict({**game.to_dict(), "task_id": "other/trial"})
    with pytest.raises(InputError, match="generated"):
        generator.write(tmp_path, real)


@pytest.mark.skipif(not REAL.is_dir(), reason="needs ../shared/data/alfworld")
def test_the_shipped_counts_are_those_of_the_real_states() -> None:
    allowed = {r: set(objects) for r, objects in layouts.holds().items()}
    for kind, receptacles in layouts.FIXTURES.items():
        for r in receptacles:
            allowed[r].add(kind)
    states = []
    for file in sorted(REAL.glob("*/*/*/*/initial_state.pddl")):
        text = file.read_text().partition("(:goal")[0]
        states.append(
            (
                dict(re.findall(r"\(receptacleType (\S+) (\w+)Type\)", text)),
                dict(re.findall(r"\(objectType (\S+) (\w+)Type\)", text)),
                re.findall(r"\(inReceptacle (\S+) (\S+)\)", text),
            )
        )
    assert len(states) == 36
    counted = placements.count_placements(states, allowed)
    assert counted == {o: {r: list(pair) for r, pair in by.items()} for o, by in placements.load_counts().items()}


def test_rates_are_chances() -> None:
    for kind in layouts.object_kinds():
        for r in layouts.receptacle_kinds():
            assert 0 < placements.rate(kind, r) < 1


@pytest.mark.textworld
def test_alfworlds_own_environment_plays_a_written_game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("textworld")
    game = generator.generate(2, "pick_clean_then_place_in_recep", "valid_unseen")
    generator.write(tmp_path / "json_2.1.1", game)
    script = f"""
import os, sys
os.environ["ALFWORLD_DATA"] = {str(tmp_path)!r}
from alfworld.agents.environment.alfred_tw_env import AlfredTWEnv
data = {str(tmp_path / "json_2.1.1" / "valid_unseen")!r}
config = {{
    "env": {{"goal_desc_human_anns_prob": 0, "task_types": [1, 2, 3, 4, 5, 6], "domain_randomization": False,
             "expert_type": "handcoded"}},
    "dataset": {{"data_path": data, "eval_id_data_path": data, "eval_ood_data_path": data, "num_train_games": -1,
                 "num_eval_games": -1}},
    "general": {{"training_method": "dqn"}},
    "rl": {{"training": {{"max_nb_steps_per_episode": 50}}}},
}}
env = AlfredTWEnv(config, train_eval="eval_out_of_distribution").init_env(batch_size=1)
env.reset()
for command in {list(game.walkthrough)!r}:
    observation, score, done, info = env.step([command])
print("WON", info["won"][0])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "WON True" in done.stdout, done.stderr[-2000:]


def test_the_walkthrough_is_a_shortest_plan() -> None:
    game = generator.generate(11)
    assert list(game.walkthrough) == Expert().plan(FastEngine(game))
