"""What the engine reads: the wheel's data, game files, PDDL and grammars, sound and broken."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from triage_gym.envs.alfworld import domain, games, generator, pddl_reader, text, wheel
from triage_gym.envs.alfworld.engine import FastEngine
from triage_gym.envs.alfworld.games import Game
from triage_gym.errors import InputError, MissingDependency, UnsupportedGame

REAL_GAMES = Path(__file__).parents[2] / "shared" / "data" / "alfworld"


@pytest.fixture(scope="module")
def game() -> Game:
    return generator.generate(3)


# The wheel --------------------------------------------------------------------------------------------------------------


def test_reading_the_wheel_neither_imports_alfworld_nor_touches_home_or_environment(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from triage_gym.envs.alfworld import generator\n"
        "from triage_gym.envs.alfworld.engine import FastEngine\n"
        "FastEngine(generator.generate(0)).reset()\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('alfworld', 'textworld', 'fast_downward')], "
        "'ALFWORLD_DATA' in os.environ, os.listdir(os.environ['HOME']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[] False []\n"


def test_the_wheel_has_what_the_games_are_made_of() -> None:
    assert len(wheel.floor_plans()) == 120
    plan = wheel.floor_plan(1)
    assert plan.points.shape == (129, 2)
    assert all(len(pose) == 4 for pose in plan.poses.values())
    assert "Cup" in wheel.constants().VAL_RECEPTACLE_OBJECTS["Cabinet"]
    assert "UNKNOWN GOAL" in wheel.grammar()
    assert set(games.TASK_TYPES) <= set(wheel.goal_library())
    with pytest.raises(InputError, match="floor plan in 1-30"):
        wheel.floor_plan(31)


def test_a_missing_wheel_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    wheel.root.cache_clear()
    try:
        with pytest.raises(MissingDependency, match=r"--no-deps alfworld==0\.4\.2.*triage-gym\[alfworld\]"):
            wheel.root()
    finally:
        wheel.root.cache_clear()


def test_a_script_called_alfworld_does_not_hide_the_wheel(tmp_path: Path) -> None:
    (tmp_path / "alfworld.py").write_text(
        "from triage_gym.envs.alfworld import wheel\nprint(len(wheel.floor_plans()))\n", encoding="utf-8"
    )
    done = subprocess.run([sys.executable, tmp_path / "alfworld.py"], capture_output=True, text=True, check=True)
    assert done.stdout == "120\n"


# Game files -------------------------------------------------------------------------------------------------------------


def save(root: Path, data: Any, trajectory: Any = None) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / "game.tw-pddl").write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    if trajectory is not None:
        (root / "traj_data.json").write_text(json.dumps(trajectory), encoding="utf-8")
    return root / "game.tw-pddl"


def test_a_game_goes_through_a_file_and_a_pickle(tmp_path: Path, game: Game) -> None:
    path = save(tmp_path / "json_2.1.1" / "train" / "task-a" / "trial-b", game.to_dict())
    assert games.load(path) == games.load(path.parent) == game
    assert pickle.loads(pickle.dumps(game)) == game  # noqa: S301 - our own bytes
    assert games.load(path).fingerprint == game.fingerprint


def test_a_game_of_alfworlds_own_is_named_by_its_folders(tmp_path: Path, game: Game) -> None:
    data = {key: game.to_dict()[key] for key in ("pddl_domain", "grammar", "pddl_problem", "solvable")}
    folder = tmp_path / "json_2.1.1" / "valid_seen" / "look_at_obj_in_light-Pen-None-DeskLamp-308" / "trial_1"
    loaded = games.load(save(folder, data, {"task_type": "look_at_obj_in_light"}))
    assert loaded.task_id == "look_at_obj_in_light-Pen-None-DeskLamp-308/trial_1"
    assert (loaded.task_type, loaded.split, loaded.seed) == ("look_at_obj_in_light", "valid_seen", None)
    assert loaded.task == game.task
    elsewhere = games.load(save(tmp_path / "somewhere", data))
    assert (elsewhere.task_type, elsewhere.split) == (game.task_type, "")


@pytest.mark.parametrize("task_type", games.TASK_TYPES)
def test_the_task_type_is_read_off_the_goal_where_nothing_names_it(task_type: str) -> None:
    data = generator.generate(1, task_type).to_dict()
    del data["task_type"]
    assert Game.from_dict(data).task_type == task_type


def test_games_are_found_in_a_data_tree(tmp_path: Path, game: Game) -> None:
    tree = tmp_path / "json_2.1.1"
    for split, task in (
        ("train", "pick_two_obj_and_place-A"),
        ("train", "look_at_obj_in_light-B"),
        ("valid_seen", "x-C"),
    ):
        save(tree / split / task / "trial_1", game.to_dict())
    everything = [p.relative_to(tree).parts[:2] for p in games.find(tmp_path)]
    assert everything == [
        ("train", "look_at_obj_in_light-B"),
        ("train", "pick_two_obj_and_place-A"),
        ("valid_seen", "x-C"),
    ]
    assert games.find(tmp_path, "train") == games.find(tree, "train") == games.find(tree / "train", "train")
    assert len(games.find(tmp_path, "train")) == 2
    assert len(games.find(tmp_path, task_types=["look_at_obj_in_light"])) == 1
    with pytest.raises(InputError, match="split 'valid_unseen'"):
        games.find(tmp_path, "valid_unseen")
    with pytest.raises(InputError, match="folder with ALFWorld games"):
        games.find(tmp_path / "nowhere")
    (tmp_path / "json_2.1.3").mkdir()
    with pytest.raises(InputError, match="one version"):
        games.find(tmp_path)


BROKEN: dict[str, Any] = {
    "no JSON": "{",
    "nested without end": "[" * 100_000,
    "a list": [],
    "no problem": {"pddl_domain": "", "grammar": ""},
    "a number for a text": {"pddl_domain": 1, "grammar": "", "pddl_problem": ""},
    "a text for a seed": {"pddl_domain": "", "grammar": "", "pddl_problem": "", "seed": "1"},
    "a text for a truth": {"pddl_domain": "", "grammar": "", "pddl_problem": "", "solvable": "yes"},
    "numbers for commands": {"pddl_domain": "", "grammar": "", "pddl_problem": "", "walkthrough": [1]},
    "a number too long to read": '{"seed": ' + "9" * 5000 + "}",
    "half a character": {"pddl_domain": "", "grammar": "", "pddl_problem": "\ud800"},
    "a name of half a character": {"pddl_domain": "", "grammar": "", "pddl_problem": "", "task_id": "\ud800"},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    path = save(tmp_path / "task" / "trial", BROKEN[name])
    with pytest.raises(InputError, match=r"game\.tw-pddl"):
        games.load(path)


def test_what_is_no_file_too_large_or_beside_bad_company_is_refused(
    tmp_path: Path, game: Game, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="found none"):
        games.load(tmp_path)
    path = save(tmp_path, game.to_dict(), ["no object"])
    with pytest.raises(InputError, match="traj_data"):
        games.load(path)
    monkeypatch.setattr(games, "MAX_BYTES", 1000)
    with pytest.raises(InputError, match="at most 1000 bytes"):
        games.load(path)


@pytest.mark.skipif(not REAL_GAMES.is_dir(), reason="no real games beside the checkout")
def test_real_games_speak_their_own_generation_of_the_grammar() -> None:
    files = games.find(REAL_GAMES)
    assert len(files) == 36
    for path in files:
        engine = FastEngine(games.load(path))
        assert "help" not in engine.admissible_commands()
        assert engine.step(engine.admissible_commands()[0]).startswith("You arrive at loc ")
        assert engine.world.words.command("putobject", o="cup 1", r="desk 1") == "put cup 1 in/on desk 1"


# Text -------------------------------------------------------------------------------------------------------------------


def test_names_count_down_in_the_order_of_ids() -> None:
    ids = ["cup_bar__minus_01", "cup_bar__plus_02", "sink_bar_1_bar_sinkbasin", "sink_bar_1", "agent1", "cup_bar_00"]
    assert text.names(ids) == {
        "agent1": "agent1 ",
        "cup_bar_00": "cup 3",
        "cup_bar__minus_01": "cup 2",
        "cup_bar__plus_02": "cup 1",
        "sink_bar_1": "sink 1",
        "sink_bar_1_bar_sinkbasin": "sinkbasin 1",
    }


ODD_GRAMMARS: dict[str, tuple[Callable[[str], str], type[Exception]]] = {
    "no grammar": (lambda g: "hello", InputError),
    "no twl2": (lambda g: "?" + g, InputError),
    "broken JSON": (lambda g: g.replace('"intro": [', '"intro": [,', 1), InputError),
    "an unclosed action": (lambda g: g.rpartition("}")[0], InputError),
    "an action without feedback": (lambda g: g.replace('feedback :: "#look.feedback#";', "", 1), InputError),
    "another condition": (lambda g: g.replace("ishot(o:object)", "isdry(o:object)", 1), UnsupportedGame),
    "a case less": (lambda g: g.replace('"intro"', '"outro"', 1), UnsupportedGame),
    "code": (lambda g: g.replace("{o.name}", "{__import__('os').getcwd()}", 1), UnsupportedGame),
    "a task with a list": (lambda g: g.replace("Your task is to: ", "Your task is to: [x]"), UnsupportedGame),
    "a task with a semicolon": (lambda g: g.replace("Your task is to: ", "Your task is to: sit; "), UnsupportedGame),
    "another answer to look": (lambda g: g.replace('"#look.feedback#";', '"#help.feedback#";', 1), UnsupportedGame),
}


@pytest.mark.parametrize("name", ODD_GRAMMARS)
def test_a_grammar_that_it_does_not_know_is_refused(game: Game, name: str) -> None:
    change, error = ODD_GRAMMARS[name]
    grammar = change(game.grammar)
    assert grammar != game.grammar
    with pytest.raises(error, match="Expected"):
        FastEngine(Game.from_dict({**game.to_dict(), "grammar": grammar}))


def test_other_words_in_a_known_structure_are_spoken(game: Game) -> None:
    grammar = game.grammar.replace("You open the {r.name}.", "{r.name} springs open!\\n").replace(
        "open {r}", "pull {r}"
    )
    engine = FastEngine(Game.from_dict({**game.to_dict(), "grammar": grammar}))
    room = engine.view().openable[0]
    engine.step(f"go to {room}")
    assert engine.step(f"pull {room}").startswith(f"{room} springs open!\n The {room} is open.")


# PDDL -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "problem",
    [
        "",
        "(",
        ")",
        "a b",
        "(a) (b)",
        "(define (problem x))",
        "(define (problem x) (:objects) (:objects) (:init) (:goal (a)))",
        "(define (problem x) (:objects a - object a - object) (:init) (:goal (a)))",
        "(define (problem x) (:objects a -) (:init) (:goal (a)))",
        "(define (problem x) (:objects (a)) (:init) (:goal (a)))",
        "(define (problem x) (:objects a) (:init (f b)) (:goal (a)))",
        "(define (problem x) (:objects a) (:init (not (f a))) (:goal (a)))",
        "(define (problem x) (:objects a) (:init f) (:goal (a)))",
        "(define (problem x) (:objects a) (:init) (:goal))",
        "(define (domain x) (:objects a) (:init) (:goal (a)))",
        "(define (problem x) (objects a) (:init) (:goal (a)))",
        "(define (problem x) é)",
        "(" * 50 + ")" * 50,
        " " * (pddl_reader.MAX_CHARACTERS + 1),
    ],
)
def test_what_is_no_problem_is_refused(problem: str) -> None:
    with pytest.raises(InputError, match="Expected"):
        pddl_reader.parse_problem(problem)


@pytest.mark.parametrize(
    "text",
    [
        "(define (domain x) (:action))",
        "(define (domain x) (:action a :effect))",
        "(define (domain x) (:action a :effect e))",
        "(define (domain x) (:action a) (:action a))",
        "(define (domain x) (:predicates p))",
        "(define (domain x) (:predicates (p a)))",
    ],
)
def test_what_is_no_domain_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="Expected"):
        pddl_reader.parse_domain(text)


def test_comments_and_case_are_nothing() -> None:
    read = pddl_reader.parse_problem("(DEFINE (Problem x) ; é (\n(:objects A b - Cup) (:init (F a)) (:goal (F A)))")
    assert (read.types, read.facts, read.goal) == ({"a": "cup", "b": "cup"}, [["f", "a"]], ["f", "a"])


def test_the_wheels_domain_is_known_and_cleans_in_basins_only() -> None:
    rules = domain.rules(wheel.domain())
    assert rules.cleaners == {"sinkbasintype"}
    assert rules.knives == {"knifetype", "butterknifetype"}
    assert "help" in rules.actions


def test_damaged_goals_raise_nothing_but_our_errors(game: Game) -> None:
    rng = random.Random(0)
    start, _, goal = game.pddl_problem.rpartition("(:goal")
    tokens = goal.replace("(", " ( ").replace(")", " ) ").split()
    refused = 0
    for _ in range(400):
        damaged = list(tokens)
        for _ in range(rng.randrange(1, 3)):
            at = rng.randrange(len(damaged))
            damaged[at : at + rng.randrange(3)] = rng.choice([[], [rng.choice(tokens)], ["(", rng.choice(tokens), ")"]])
        missing = damaged.count("(") - damaged.count(")") + 1
        problem = start + " ".join(["(:goal", *damaged, *([")"] * missing)])
        try:
            FastEngine(Game.from_dict({**game.to_dict(), "pddl_problem": problem})).reset()
        except (InputError, UnsupportedGame):
            refused += 1
    assert 200 < refused < 400


def test_damaged_games_raise_nothing_but_our_errors(game: Game) -> None:
    rng = random.Random(0)
    refused = 0
    for _ in range(150):
        data = game.to_dict()
        field = rng.choice(["pddl_domain", "grammar", "pddl_problem"])
        start = rng.randrange(len(data[field]))
        damage = rng.choice(["", "(", ")", '"', "{", "}", "x", "\n", "?o", "é", ";"])
        data[field] = data[field][:start] + damage + data[field][start + rng.randrange(1, 60) :]
        try:
            engine = FastEngine(Game.from_dict(data))
        except (InputError, UnsupportedGame):
            refused += 1
            continue
        engine.reset()
        for command in engine.admissible_commands():
            engine.step(command)
    assert refused > 75
