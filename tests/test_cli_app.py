"""The command line: what it parses, what it refuses and how, and that help costs nothing."""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from triage_gym.cli import parsing
from triage_gym.cli.app import parse, run
from triage_gym.cli.train import Train
from triage_gym.errors import InputError
from triage_gym.trainers.config import TrainConfig

COMMANDS = (
    [],
    ["train"],
    ["pretrain"],
    ["eval"],
    ["play"],
    ["retry"],
    ["scaling"],
    ["report"],
    ["envs"],
    ["envs", "list"],
    ["envs", "show"],
    ["envs", "check"],
    ["envs", "prepare"],
    ["judge"],
    ["judge", "check"],
    ["judge", "audit"],
    ["judge", "label"],
    ["judge", "collect"],
)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    for name, text in {
        "broken.json": "{",
        "list.json": "[1]",
        "nan.toml": "lr = nan",
        "typo.toml": "lmit = 30",
        "wrong.json": '{"limit": "thirty"}',
        "compared.json": '{"credits": ["grpo", "triage"]}',
        "credits.json": '{"credits": "grpo"}',
        "broken.toml": "limit = ",
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "config.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    (tmp_path / "weights.pt").write_bytes(b"\x80\x04.")


def status(arguments: list[str]) -> int:
    try:
        return run(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)


BAD: list[tuple[list[str], int, str]] = [
    ([], 2, "Missing subcommand"),
    (["trian"], 2, "Available subcommands"),
    (["train", "--lmit", "3"], 2, "Perhaps you meant"),
    (["train", "--credt", "grpo"], 2, "--credit"),
    (["train", "--limit", "many"], 2, "--limit"),
    (["train", "--limit"], 2, "--limit"),
    (["train", "--policy", "transformer"], 2, "--policy"),
    (["train", "--env-kwargs", "backend"], 2, "KEY=VALUE"),
    (["train", "--seeds", "0", "one"], 2, "--seeds"),
    (["train", "--limit", "0"], 1, "`limit` to be an integer of at least 1"),
    (["train", "--lr", "nan"], 1, "`lr` to be a finite number"),
    (["train", "--group-size", "1"], 1, "nothing to compare with"),
    (["train", "--credit", "grop"], 1, "did you mean 'grpo'"),
    (["train", "--credits", "grpo", "grpo"], 1, "each of --credits once"),
    (["train", "--seeds", "1", "1"], 1, "each of --seeds once"),
    (["train", "--judge", "oracel", "--dry-run"], 1, "judges"),
    (["train", "--judge", '{"name": "rule"', "--dry-run"], 2, "--judge"),
    (["train", "--judge", '{"domain": "generic"}', "--dry-run"], 1, 'a config with a "name"'),
    (["train", "--judge", '{"name": "rule", "domain": "chess"}', "--dry-run"], 1, "chess"),
    (["train", "--workers", "0"], 1, "--workers"),
    (["train", "--credits", "grpo", "triage", "--start", "empty"], 1, "--start with a single run"),
    (["train", "--config", "nowhere.toml"], 1, "nowhere.toml"),
    (["train", "--config", "broken.json"], 1, "broken.json to be JSON"),
    (["train", "--config", "broken.toml"], 1, "broken.toml to be TOML"),
    (["train", "--config", "list.json"], 1, "settings by name"),
    (["train", "--config", "nan.toml"], 1, "`lr`"),
    (["train", "--config", "typo.toml"], 1, "did you mean limit"),
    (["train", "--config", "wrong.json"], 1, "`limit`"),
    (["train", "--config", "credits.json"], 1, "`credits` to be a list"),
    (["train", "--config", "binary.json"], 1, "binary.json"),
    (["train", "--config", "empty"], 1, "empty"),
    (["train", "--run-dir", "begun"], 1, "add --resume"),
    (["train", "--resume", "--run-dir", "empty"], 1, "found none"),
    (["train", "--resume"], 1, "found none"),
    (["train", "--run-dir", "begun"], 1, "--run-dir begun-2 to keep both"),
    (["train", "--credit", "grpo", "--credits", "grpo", "triage"], 1, "got --credit beside --credits"),
    (["train", "--seed", "1", "--seeds", "1", "2"], 1, "got --seed beside --seeds"),
    (["train", "--config", "compared.json", "--credit", "grpo"], 1, "beside the credits of the settings"),
    (["train", "--credits", "grpo", "triage", "--baseline", "scalar", "--dry-run"], 1, "--baseline to be one of"),
    (["train", "--turns", "900", "--eval-at", "500", "1000", "--dry-run"], 1, "at most the 900 of --turns, got 1000"),
    (["train", "--start", "nowhere", "--dry-run"], 1, "found none at nowhere"),
    (["train", "--env", "CartPole-v1", "--dry-run"], 1, "admissible_commands"),
    (["train", "--env", "triage/Nothing-v0", "--dry-run"], 1, "registered environment, got 'triage/Nothing-v0'"),
    (["train", "--env-kwargs", "doors=3", "--dry-run"], 1, "no option 'doors'; its options are"),
    (["train", "--split", "test", "--dry-run"], 1, "split"),
    (["train", "--device", "cuda:99", "--dry-run"], 1, "`device`"),
    (["pretrain", "--demos", "0"], 1, "--demos is 0"),
    (["pretrain", "--env", "sokoban"], 1, "'sokoban' makes none unless --demos says how many"),
    (["train", "--env", "triage_gym.testing.broken:Cellar", "--demos", "3"], 1, "expert_action() for `demos` above 0"),
    (["pretrain", "--env", "triage_gym.testing.broken:Cellar", "--demos", "3"], 1, "has no expert to imitate"),
    (["pretrain", "--lmit", "3"], 2, "triage-gym pretrain --help"),
    (["play", "--episodes", "x"], 2, "The flags of this command: triage-gym play --help"),
    (["pretrain", "--run-dir", "begun"], 1, "another --run-dir"),
    (["report"], 2, "Missing from triage-gym report"),
    (["report", "nowhere"], 1, "nowhere"),
    (["report", "empty"], 1, "triage-gym train --run-dir"),
    (["report", "begun", "--max-episodes", "-1"], 1, "max_episodes"),
    (["report", "begun", "--out", "no/such/folder/r.html"], 1, "no/such/folder"),
    (["envs"], 2, "list"),
    (["envs", "show", "alfwrold"], 1, "did you mean 'alfworld'"),
    (["envs", "show", "no.such.module:Env"], 1, "no.such.module"),
    (["envs", "check", "alfwrold"], 1, "did you mean 'alfworld'"),
    (["envs", "prepare", "alfworld", "--items", "x"], 2, "webshop"),
    (["envs", "prepare", "webshop", "--itemz", "x"], 2, "The flags of this command: triage-gym envs prepare --help"),
    (["envs", "prepare", "webshop", "--items", "nowhere.json"], 1, "nowhere.json"),
    (["play", "--policy", "checkpoint"], 1, "--checkpoint"),
    (["play", "--games", "ALFWORLD_DATA"], 1, "is not set"),
    (["play", "--games", "nowhere"], 1, "nowhere"),
    (["play", "--games", "empty"], 1, "empty"),
    (["play", "--episodes", "0"], 1, "--episodes"),
    (["play", "--split", "test"], 1, "split"),
    (["play", "--task", "no such game"], 1, "no such game"),
    (["play", "--env-kwargs", "backend=unity"], 1, "backend"),
    (["play", "triage/Nothing-v0"], 1, "Nothing"),
]


@pytest.mark.parametrize(("arguments", "code", "said"), BAD, ids=[" ".join(b[0]) or "nothing" for b in BAD])
def test_bad_input_is_one_clear_error(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(arguments) == code
    out, err = capsys.readouterr()
    shown = " ".join((out + err).replace("│", " ").split())
    assert said in shown
    assert "Traceback" not in shown
    if code == 1:
        assert err.startswith("error: ")
        assert out == ""
    assert not Path("runs").exists()


def test_debug_shows_where_it_went_wrong() -> None:
    with pytest.raises(InputError, match="add --resume"):
        run(["train", "--run-dir", "begun", "--debug"])


def test_a_fault_of_ours_is_not_a_traceback_either(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Not a function of this file, which would be the user's.
    monkeypatch.setattr(Train, "run", staticmethod(functools.partial({}.__getitem__, "\x1b[31mred")))
    assert status(["train"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: unexpected KeyError: '\\x1b[31mred'")
    assert "fault of triage_gym" in err
    assert "--debug" in err


MINE = """
import gymnasium


class NoEnv:
    pass


class Raises(gymnasium.Env):
    def __init__(self):
        self.rooms = {}["rooms"]


class Resets(gymnasium.Env):
    def reset(self, *, seed=None, options=None):
        return {}["start"], {}
"""


def test_an_environment_without_spaces_is_told_which(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("spaceless.py").write_text(
        "import gymnasium\n\n\nclass Env(gymnasium.Env):\n    def reset(self, *, seed=None, options=None):\n"
        "        return 'hi', {'admissible_commands': ['a']}\n"
    )
    monkeypatch.delitem(sys.modules, "spaceless", raising=False)
    monkeypatch.setattr(sys, "path", [os.getcwd(), *sys.path])
    importlib.invalidate_caches()
    assert status(["train", "--env", "spaceless:Env", "--dry-run"]) == 1
    assert "spaceless:Env to have an observation_space, got none" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["play"], ["envs", "show"], ["train", "--dry-run", "--env"]], ids=" ".join)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("wrong_import:Env", "Importing wrong_import failed: No module named 'numpyy', at wrong_import.py:1"),
        ("divides:Env", "Importing divides failed: ZeroDivisionError: division by zero, at divides.py:1"),
        ("mine:NoEnv", "Expected 'mine:NoEnv' to make a gymnasium.Env, got NoEnv"),
        ("mine:Raises", "KeyError: 'rooms', at mine.py:11"),
        ("mine:Resets", "KeyError: 'start'"),
    ],
)
def test_errors_in_the_users_own_code_are_not_called_ours(
    command: list[str], name: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module, text in {"wrong_import": "import numpyy\n", "divides": "1 / 0\n", "mine": MINE}.items():
        Path(f"{module}.py").write_text(text)
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "path", [os.getcwd(), *sys.path])
    importlib.invalidate_caches()
    assert status([*command, name]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert said in err
    assert "fault of triage_gym" not in err


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("torch", ["train", "--turns", "10", "--no-report"]),
        ("torch", ["eval", "begun"]),
        ("safetensors", ["train", "--start", "empty"]),
        ("safetensors", ["train", "--credits", "grpo", "triage"]),
        ("torch", ["pretrain"]),
        ("safetensors", ["play", "--policy", "checkpoint", "--checkpoint", "begun"]),
    ],
    ids=lambda x: x if isinstance(x, str) else " ".join(x),
)
def test_without_the_packages_of_training_their_extra_is_named(package: str, arguments: list[str]) -> None:
    script = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
from triage_gym.cli.app import run
sys.exit(run(sys.argv[2:]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, package, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"needs {package}; install it with: pip install 'triage-gym[train]'" in done.stderr
    assert "fault" not in done.stderr
    assert not Path("runs").exists()


def test_ctrl_c_and_the_systems_errors_have_their_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(self: Train) -> int:
        raise KeyboardInterrupt

    def full(self: Train) -> int:
        raise OSError(28, "No space left on device", "runs/x")

    monkeypatch.setattr(Train, "run", stop)
    assert status(["train"]) == 130
    monkeypatch.setattr(Train, "run", full)
    assert status(["train"]) == 1
    assert "error: No space left on device: runs/x" in capsys.readouterr().err


def test_a_trainer_that_was_asked_to_stop_keeps_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(self: Train) -> int:
        raise SystemExit(143)

    monkeypatch.setattr(Train, "run", leave)
    assert status(["train"]) == 143


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(c) or "top")
def test_help_imports_neither_torch_nor_a_room(command: list[str]) -> None:
    script = """
import sys
from triage_gym.cli.app import run
try:
    run(sys.argv[1:])
except SystemExit as stop:
    code = stop.code
rooms = [m for m in sys.modules if m.startswith(("triage_gym.envs", "triage_gym.wrappers", "triage_gym.trainers."))]
heavy = [m for m in ("torch", "safetensors", "scipy", "matplotlib", "alfworld", "textworld") if m in sys.modules]
print("\\n", code, sorted(set(rooms) - {"triage_gym.trainers.config"}), heavy)
"""
    environment = {**os.environ, "COLUMNS": "100", "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, *command, "--help"], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.splitlines()[-1] == " 0 [] []"
    assert "usage: triage-gym" in done.stdout
    assert done.stderr == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("triage-gym 0.")


# ---- settings ----


def test_flags_go_before_the_file_and_the_file_before_the_defaults() -> None:
    Path("run.toml").write_text('limit = 50\nlam = 0.4\ncredits = ["grpo", "triage"]\n[env_kwargs]\nbackend = "fast"\n')
    command = parse(["train", "--config", "run.toml", "--limit", "40", "--seeds", "3", "4"])
    assert command.training.checked() == TrainConfig(limit=40, lam=0.4, env_kwargs={"backend": "fast"})
    assert command.credits == ("grpo", "triage")
    assert command.seeds == (3, 4)
    assert parse(["train"]).training.checked() == TrainConfig()


def test_every_field_of_the_training_config_is_a_flag() -> None:
    changed = {
        "--lr": "0.002",
        "--eval-at": "100 200",
        "--task-types": "pick_and_place_simple",
        "--env-kwargs": "a=1 b=2.5 c=true d=text e=x=y f=null g=None h=True i=[7,7] j=(7,7) k={'level':3} l=1_000 m=\"7\"",
        "--demos": "7",
        "--split": "valid_seen",
    }
    config = parse(["train", *(w for k, v in changed.items() for w in (k, *v.split()))]).training
    assert config.lr == 0.002
    assert config.eval_at == (100, 200)
    assert config.task_types == ("pick_and_place_simple",)
    assert config.env_kwargs == {
        "a": 1,
        "b": 2.5,
        "c": True,
        "d": "text",
        "e": "x=y",
        "f": None,
        "g": None,
        "h": True,
        "i": [7, 7],
        "j": [7, 7],
        "k": {"level": 3},
        "l": "1_000",
        "m": "7",
    }
    assert (config.demos, config.split) == (7, "valid_seen")


@pytest.mark.parametrize("extra", [["--credit", "grpo"], ["--credits", "grpo", "triage", "--seeds", "5", "6"]])
def test_printed_settings_are_a_config_file(extra: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "--limit", "33", "--print-config", *extra]
    assert run(arguments) == 0
    first = capsys.readouterr().out
    Path("again.json").write_text(first)
    assert run(["train", "--config", "again.json", "--print-config"]) == 0
    assert capsys.readouterr().out == first
    assert json.loads(first)["limit"] == 33


@pytest.mark.parametrize("text", ["(1, 2", "{1, 2}", "[...]", "b'x'", "['\\d']", "(1j,)", "[" * 5000, "{'a': open}"])
def test_what_no_json_can_hold_is_text(text: str) -> None:
    assert parse(["play", "--env-kwargs", f"x={text}"]).env_kwargs == {"x": text}


def test_a_judge_is_named_or_configured(capsys: pytest.CaptureFixture[str]) -> None:
    """What the rule judge's warning advises is taken as it stands, on the command line and from a file."""
    generic = {"name": "rule", "domain": "generic"}
    arguments = ["train", "--judge", json.dumps(generic), "--env-kwargs", 'a="7"', "b=(1, 2)"]
    assert parse(arguments).training.checked().judge == generic
    assert run([*arguments, "--print-config"]) == 0
    Path("judged.json").write_text(capsys.readouterr().out)
    again = parse(["train", "--config", "judged.json"]).training
    assert (again.judge, again.env_kwargs) == (generic, {"a": "7", "b": [1, 2]})
    assert parse(["train", "--config", "judged.json", "--judge", "rule"]).training.judge == "rule"


@pytest.mark.parametrize("call", ["warnings.warn(", "logger.warn('%s', "])
def test_a_warning_is_one_line(call: str) -> None:
    script = f"""
import warnings
from gymnasium import logger
from triage_gym.cli import app
from triage_gym.cli.train import Train
Train.run = lambda self: {call}"look\\nhere \\x1b[31mred") or 0
app.run(["train"])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "warning: look\\nhere \\x1b[31mred\n"


def test_a_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--credits", "grpo", "triage", "--seeds", "0", "1", "--dry-run"]) == 0
    assert "4 runs of 100000 turns into runs/comparison" in capsys.readouterr().out
    assert not Path("runs").exists()


def test_resume_takes_the_settings_of_the_run_and_the_latest_run_by_itself() -> None:
    for name, limit, when in (("old", 20, 1), ("new", 21, 2)):
        path = Path("runs") / name
        path.mkdir(parents=True)
        (path / "config.json").write_text(json.dumps(TrainConfig(limit=limit).to_json()))
        os.utime(path / "config.json", (when, when))
    assert parse(["train", "--resume"]).training.limit == 21
    assert parse(["train", "--resume", "--run-dir", "runs/old"]).training.limit == 20
    assert parse(["train", "--resume", "--run_dir=runs/old"]).training.limit == 20


def test_resume_reads_a_comparison() -> None:
    Path("c").mkdir()
    data = {"config": {"limit": 22}, "credits": ["grpo", "triage"], "seeds": [1, 2], "baseline": "grpo"}
    Path("c/comparison.json").write_text(json.dumps(data))
    command = parse(["train", "--resume", "--run-dir", "c"])
    assert (command.training.limit, command.credits, command.seeds, command.baseline) == (
        22,
        ("grpo", "triage"),
        (1, 2),
        "grpo",
    )


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        (["--config", "a"], "a"),
        (["--config=a=b"], "a=b"),
        (["--config", "a", "--config", "b"], "b"),
        (["--config"], None),
        (["x"], None),
    ],
)
def test_options_are_found_before_parsing(argv: list[str], value: str | None) -> None:
    assert parsing.option(argv, "config") == value
