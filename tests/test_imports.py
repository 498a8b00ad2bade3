"""The house's rule of imports, read from the source: they run down only, and what is optional stays optional.

trainers → wrappers → core, trainers → envs → core; wrappers and envs do not know each other; torch lives in trainers/.
The command line is the roof: it reaches every room, but inside functions, so that it starts at once.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("wrappers", "envs", "trainers")
MAY_IMPORT = {
    "core": {"core"},
    "wrappers": {"core", "wrappers"},
    "envs": {"core", "envs"},
    "trainers": {"core", "wrappers", "envs", "trainers"},
    "roof": {"core"},
}
TORCH_INSIDE_FUNCTIONS = "triage_gym/judges/local.py"
"""The one module beside the trainers that runs a model in this process."""
ROOF = ("triage_gym/__main__.py", "triage_gym/cli/")
# The options of the command line are made from its fields; it is a plain dataclass and imports no torch.
ROOF_AT_TOP = "triage_gym.trainers.config"
OPTIONAL = (
    "torch",
    "safetensors",
    "tensorboard",
    "alfworld",
    "textworld",
    "fast_downward",
    "tatsu",
    "jericho",
    "minigrid",
    "textarena",
    "gem",
    "openenv",
    "scipy",
    "matplotlib",
    "hypothesis",
)
TRAINER_NEEDS = ("torch", "safetensors")


class Import(NamedTuple):
    file: str
    line: int
    module: str
    deferred: bool
    """Inside a function, or for type checkers only."""


def sources() -> list[Path]:
    """Every module of the four rooms, each once: links are not followed."""
    inner = [
        path
        for path in (ROOT / "triage_gym").rglob("*.py")
        if path.relative_to(ROOT / "triage_gym").parts[0] not in ROOMS
    ]
    return sorted(inner + [path for room in ROOMS for path in (ROOT / room).rglob("*.py")])


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] in ROOMS:
        parts.insert(0, "triage_gym")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[Import]:
    file = path.relative_to(ROOT).as_posix()
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package.pop()

    def walk(node: ast.AST, deferred: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (Import(file, node.lineno, alias.name, deferred) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            # "from triage_gym import envs" imports triage_gym.envs, so the names count too.
            yield from (Import(file, node.lineno, f"{base}.{alias.name}", deferred) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "__import__"):
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield Import(file, node.lineno, name.value, deferred)
        for child in ast.iter_child_nodes(node):
            inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (
                isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and child in node.body
            )
            yield from walk(child, deferred or inside)

    yield from walk(ast.parse(path.read_text(encoding="utf-8"), str(path)), False)


def room_of_file(file: str) -> str:
    if file.startswith(ROOF):
        return "roof"
    first = file.split("/")[0]
    return first if first in ROOMS else "core"


def room_of_module(module: str) -> str | None:
    parts = module.split(".")
    if parts[0] != "triage_gym":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else "core"


def broken_rules(found: Import) -> Iterator[str]:
    room, target = room_of_file(found.file), room_of_module(found.module)
    top = found.module.split(".")[0]
    where = f"{found.file}:{found.line} imports {found.module}"
    if target is not None and target not in MAY_IMPORT[room]:
        on_the_roof = room == "roof" and (found.deferred or f"{found.module}.".startswith(f"{ROOF_AT_TOP}."))
        if not on_the_roof:
            yield f"{where}: {room} must not know {target}" + (" outside functions" if room == "roof" else "")
    if top in ROOMS:
        yield f"{where}: a second copy of triage_gym.{top}"
    if top == "torch" and room != "trainers" and not (found.deferred and found.file == TORCH_INSIDE_FUNCTIONS):
        yield f"{where}: torch belongs in trainers/"
    if top == "triage_gym" and found.module.startswith("triage_gym.cli") and room != "roof":
        yield f"{where}: nothing looks up to the roof"


def test_imports_run_down_only() -> None:
    found = [item for path in sources() for item in imports(path)]
    assert {room_of_file(item.file) for item in found} >= set(MAY_IMPORT) - {"roof"}
    assert [rule for item in found for rule in broken_rules(item)] == []


@pytest.mark.parametrize(
    ("file", "source", "broken"),
    [
        ("triage_gym/windows.py", "from triage_gym import envs", 1),
        ("triage_gym/windows.py", "def f():\n    import triage_gym.trainers.loop", 1),
        ("triage_gym/windows.py", "from .wrappers import history", 1),
        ("triage_gym/judges/rule.py", "from ..envs import alfworld", 1),
        ("triage_gym/judges/rule.py", "from .. import records", 0),
        ("triage_gym/windows.py", "import importlib\nimportlib.import_module('triage_gym.envs.alfworld')", 1),
        ("triage_gym/windows.py", "if TYPE_CHECKING:\n    import torch", 1),
        ("triage_gym/windows.py", "from triage_gym.cli.app import run", 1),
        ("triage_gym/__main__.py", "def main():\n    from triage_gym.trainers import loop", 0),
        ("triage_gym/__main__.py", "from triage_gym.trainers import loop", 1),
        ("triage_gym/__main__.py", "def main():\n    import torch", 1),
        ("triage_gym/judges/local.py", "def load():\n    import torch", 0),
        ("triage_gym/judges/local.py", "import torch", 1),
        ("triage_gym/cli/train.py", "from triage_gym.trainers.config import TrainConfig", 0),
        ("triage_gym/cli/train.py", "if TYPE_CHECKING:\n    from triage_gym.trainers.loop import train", 0),
        ("wrappers/history.py", "import triage_gym.envs.alfworld", 1),
        (
            "wrappers/history.py",
            "from triage_gym.wrappers import _worker_wire\nfrom triage_gym.records import Segment",
            0,
        ),
        ("wrappers/history.py", "from wrappers import vector", 1),
        ("envs/alfworld/env.py", "from triage_gym.wrappers.history import HistoryWrapper", 1),
        ("trainers/loop.py", "import torch\nfrom triage_gym.envs import alfworld\nfrom triage_gym import wrappers", 0),
        ("trainers/loop.py", "from triage_gym.cli.output import say", 1),
    ],
)
def test_the_rule_finds_what_breaks_it(file: str, source: str, broken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda self, encoding: source)
    rules = [rule for item in imports(ROOT / file) for rule in broken_rules(item)]
    assert len(rules) == broken, rules


def in_a_new_process(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_pulls_little() -> None:
    script = """
import json, sys
before = {name.partition(".")[0] for name in sys.modules}
import triage_gym
names = {name.partition(".")[0] for name in sys.modules} - before - set(sys.stdlib_module_names) - {"triage_gym"}
print(json.dumps([sorted(names), [name for name in sys.modules if name.startswith("triage_gym.")]]))
"""
    third_party, ours = json.loads(in_a_new_process(script))
    assert {"gymnasium", "numpy"} <= set(third_party)
    assert len(third_party) <= 10, third_party
    assert not {*OPTIONAL, "openai"} & set(third_party)
    assert not [name for name in ours if name.split(".")[1] in ROOMS]


def test_attempts_are_labelled_through_the_front_door() -> None:
    script = "from triage_gym.judges import label_record, label_records; import sys; print(*sys.modules)"
    names = {name.partition(".")[0] for name in in_a_new_process(script).split()}
    assert not {*OPTIONAL, "openai"} & names


def test_every_module_can_be_imported_without_the_extras() -> None:
    script = f"""
import importlib, json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
failed = {{}}
for module in {[module_name(path) for path in sources()]!r}:
    try:
        importlib.import_module(module)
    except ImportError as error:
        failed[module] = [type(error).__name__, str(error.name)]
print(json.dumps(failed))
"""
    failed = json.loads(in_a_new_process(script))
    # The trainer cannot do without torch; everything else, and the trainer's own front door, can.
    allowed = {
        module
        for module, (_, missing) in failed.items()
        if module.startswith("triage_gym.trainers.") and missing.split(".")[0] in TRAINER_NEEDS
    }
    assert {module: why for module, why in failed.items() if module not in allowed} == {}
    assert "triage_gym.trainers" not in failed
