"""Every command that the documentation shows parses, every file that it names exists, every block of Python runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import needs
import pytest

from triage_gym.cli.app import parse
from triage_gym.judges.labelling import label_record
from triage_gym.protocols import Window
from triage_gym.records import EpisodeRecord, Segment
from triage_gym.registry import make
from triage_gym.wrappers.pivot_retry import COUNTS

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def commands() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for line in page.read_text("utf-8").splitlines():
            match = re.match(r" {4}(triage-gym .*?)(?:  +#.*)?$", line)
            if match:
                found.append((page.name, match.group(1)))
            found += [(page.name, m) for m in re.findall(r"`(triage-gym [^`]+)`", line)]
    return found


def blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize(("page", "command"), commands())
def test_commands_parse(page: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text("limit = 50\n")
    Path("fit.json").write_text('{"credit": "triage-audited"}\n')
    words = shlex.split(command.partition(" > ")[0].replace(" N", " 7"))
    if words[-1] == "--help":
        with pytest.raises(SystemExit, match=r"^0$"):
            parse(words[1:])
    else:
        assert callable(parse(words[1:]).run)


def test_there_are_commands_to_check() -> None:
    assert len(commands()) > 20


def test_links_lead_to_files() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
            if not target.startswith("https://"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.fixture
def own() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in blocks("docs/judges.md"):
        exec(compile(block, "judges.md", "exec"), names)  # noqa: S102 - our own documentation
    return names


def test_the_judge_of_the_docs_judges(own: dict[str, Any]) -> None:
    window = Window("t", "generic", 3, (), "before", "look", "You see a plate.", ())
    (label,) = own["MyJudge"]().judge([window])
    assert (label.step, label.role, label.source) == (3, "E", "mine")


def test_the_rule_and_the_reflector_of_the_docs_work_by_path(
    own: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    package = ModuleType("my_plugins")
    package.__dict__.update(own)
    monkeypatch.setitem(sys.modules, "my_plugins", package)
    segments = (Segment(0, "o", "look", "A plate."), Segment(1, "A plate.", "sing", "Nothing happens."))
    records = [EpisodeRecord("g", segments=segments, score=score) for score in (1.0, 0.0)]
    advantages = make("credit", "my_plugins:my_rule")(records)
    assert [(a.dtype, a.tolist()) for a in advantages] == [("float64", [0.5, 0.5]), ("float64", [-0.5, -0.5])]
    assert make("reflectors", "my_plugins:my_reflector")(records[1]).pivot == 1
    role = make("reflectors", {"name": "role", "judge": "my_plugins:MyJudge"})
    assert role.reflect(records[1]).pivot == 0


def test_the_window_of_the_docs_has_every_field() -> None:
    table = (
        (ROOT / "docs" / "judges.md").read_text("utf-8").partition("A window has these fields")[2].partition("##")[0]
    )
    assert re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \| ", table, re.MULTILINE))) == list(Window._fields)


def test_every_count_of_a_retry_is_in_the_docs() -> None:
    text = (ROOT / "docs" / "wrappers.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)` \| [^|]+ \|$", text, re.MULTILINE)) == set(COUNTS)


def test_the_vector_environment_of_the_docs_plays() -> None:
    needs.require("alfworld")
    *_, block = blocks("docs/wrappers.md")
    names: dict[str, Any] = {}
    exec(compile(block, "wrappers.md", "exec"), names)  # noqa: S102 - our own documentation
    assert [len(record) for record in names["records"]] == [8] * 4


def test_the_state_of_the_docs_goes_on_in_another_process(tmp_path: Path) -> None:
    saves, goes_on, _ = blocks("docs/wrappers.md")
    told = []
    for script in (saves + "print(env.step(env.unwrapped.expert_action())[0])", goes_on):
        ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
        told.append(ran.stdout)
    assert told[0] == told[1]
    assert told[0].startswith("0: # #")


def test_the_environment_of_the_docs_resets(capsys: pytest.CaptureFixture[str]) -> None:
    needs.require("alfworld")
    (block,) = blocks("docs/alfworld.md")
    exec(compile(block, "alfworld.md", "exec"), {})  # noqa: S102 - our own documentation
    assert "go to" in capsys.readouterr().out


def test_the_training_of_the_docs_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("torch", "alfworld"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    (block,) = blocks("docs/training.md")
    exec(compile(block, "training.md", "exec"), {})  # noqa: S102 - our own documentation
    success, page = capsys.readouterr().out.split()
    assert 0.0 <= float(success) <= 1.0
    assert "TRIAGE on ALFWorld" in Path(page).read_text("utf-8")


def test_every_documented_credit_rule_exists() -> None:
    text = (ROOT / "docs" / "training.md").read_text("utf-8")
    rules = re.findall(r"^\| `([a-z+-]+)` \| ", text, re.MULTILINE)
    assert len(rules) >= 7
    for rule in rules:
        assert callable(make("credit", rule))


def test_the_turns_of_the_readme_get_the_roles_and_credit_that_it_shows() -> None:
    rows = re.findall(
        r"^ +> (.+?)(?:  +\(.*?\))? +(-\d\.\d) +([DENR]) +(-\d\.\d)$", PAGES[0].read_text("utf-8"), re.MULTILINE
    )
    answers = (
        "On the cabinet 4, you see a plate 1.",
        "You pick up the plate 1 from the cabinet 4.",
        "On the sinkbasin 1, you see a fork 1.",
        "On the cabinet 4, you see nothing.",
        "You move the plate 1 to the cabinet 4.",
    )
    start = "You are in the middle of a room.\n\nYour task is to: clean some plate and put it in fridge."
    shown = (start, *answers)
    steps = zip(rows, shown, answers, strict=False)
    segments = tuple(Segment(k, before, row[0], after) for k, (row, before, after) in enumerate(steps))
    failed = EpisodeRecord("g", domain="alfworld", task=start, start_observation=start, segments=segments)
    failed = label_record(failed, make("judges", "rule"))
    won = EpisodeRecord("g", domain="alfworld", task=start, start_observation=start, score=1.0, success=True)
    plain = make("credit", "grpo")([failed, won])[0]
    typed = make("credit", {"name": "triage", "whiten": False})([failed, won])[0]
    assert len(rows) == len(answers)
    assert [row[2] for row in rows] == list(failed.roles)
    assert [row[1] for row in rows] == [f"{value:.1f}" for value in plain]
    assert [row[3] for row in rows] == [f"{value:.1f}" for value in typed]
