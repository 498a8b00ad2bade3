"""What the README and the examples show is run here, so that it stays true."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_block_of_the_readme_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"<!-- own-env -->\n```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    code = [line for line in block.splitlines() if line.strip()]
    assert len(code) <= 12
    own = example("own_env")
    rng = np.random.default_rng(0)

    def agent(observation: str, info: dict[str, Any]) -> str:
        command: str = own.random_agent(observation, info, rng)
        return command

    names: dict[str, Any] = {"YourEnv": own.LockedDoor, "your_agent": agent}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102 - our own README
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == sum(len(r.segments) for r in names["info"]["group"].records)
    assert all(re.fullmatch(r".+ [DENR] -?\d+\.\d+", line) for line in lines)
    # The rule judge sees that something was found and that something was repeated.
    assert {"E", "R"} <= {line.split()[-2] for line in lines}


def test_own_env_gives_each_role_its_advantage(capsys: pytest.CaptureFixture[str]) -> None:
    example("own_env").main()
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines if line.startswith("  ")]
    assert lines.count("solved") + lines.count("not solved") == 4
    assert {row[0] for row in rows} == set("DENR")
    by_role: dict[str, list[float]] = {}
    block: list[list[str]] = []
    for line in [*lines[1:], "solved"]:
        if line.startswith("  "):
            block.append(line.split())
            continue
        by_role = {}
        for role, advantage, *_ in block:
            by_role.setdefault(role, []).append(float(advantage))
        means = [sum(v) / len(v) for v in (by_role.get(r) for r in "DENR") if v]
        assert means == sorted(means, reverse=True)
        assert all(len(set(values)) == 1 for values in by_role.values())
        block = []


def test_retry_restores_verified_prefixes(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("alfworld")
    example("retry").main()
    text = capsys.readouterr().out
    assert text.count("attempt 1: ") == 3
    retries = re.findall(r"attempt [23] from turn \d+ \((\w+), (\w+)\)", text)
    assert retries
    assert set(retries) == {("native", "verified")}
    assert "'mismatches': 0" in text
