"""Specs and names: what is found, and that every mistake says what would have been right."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triage_gym import credit, registry
from triage_gym.credit.rules import GRPO
from triage_gym.errors import InputError
from triage_gym.judges.rule import RuleJudge
from triage_gym.records import EpisodeRecord, Reflection, Segment


def test_names_paths_and_configs() -> None:
    assert registry.make("judges", "rule") == RuleJudge()
    assert registry.make("judges", "triage_gym.judges.rule:RuleJudge") == RuleJudge()
    assert registry.make("judges", {"name": "rule", "domain": "generic"}) == RuleJudge("generic")
    assert registry.make("judges", {"name": "rule", "domain": "generic"}, domain="alfworld") == RuleJudge("generic")
    assert registry.make("credit", "grpo", whiten=True) == GRPO(whiten=True)


def test_a_spec_is_not_changed_by_using_it() -> None:
    spec = {"name": "grpo+whiten", "norm": "mean"}
    assert registry.make("credit", spec) == GRPO(whiten=True, norm="mean")
    assert spec == {"name": "grpo+whiten", "norm": "mean"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rul", "did you mean 'rule'"),
        ("nothing like it", "module:attr path"),
        ("triage_gym.nowhere:X", "No module named"),
        ("nowhere_at_all:X", "No module named"),
        ("triage_gym.judges.rule:Nobody", "no attribute 'Nobody'"),
        ("triage_gym.judges.rule:", "package.module:attribute"),
        ("triage_gym.judges.rule:DOMAINS", "class or a function"),
        ("rule+loud", "Could not build"),
        ({"name": "rule+loud", "loud": False}, "loud or another value"),
        ({"domain": "alfworld"}, '"name"'),
        (["rule"], "config dict"),
        (None, "config dict"),
    ],
)
def test_mistakes_say_what_would_be_right(spec: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        registry.make("judges", spec)


def test_registering() -> None:
    registry.register("judges", "mine", "triage_gym.judges.rule:RuleJudge")
    registry.register("judges", "mine", "triage_gym.judges.rule:RuleJudge")
    assert "mine" in registry.names("judges")
    assert registry.make("judges", "mine") == RuleJudge()
    with pytest.raises(InputError, match="new name"):
        registry.register("judges", "rule", RuleJudge)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import a_package_that_is_not_there",
            "No module named 'a_package_that_is_not_there', at .*broken_plugin.py:1$",
        ),
        ("x = 1\ny = x / 0", "ZeroDivisionError: division by zero, at .*broken_plugin.py:2$"),
        ("from json import nothing_like_it", "cannot import name 'nothing_like_it' .*, at .*broken_plugin.py:1$"),
        ("x = 1\n\ny = (", "SyntaxError: .*, at .*broken_plugin.py:3$"),
    ],
)
def test_a_module_that_fails_to_import_is_named_with_the_line(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_plugin.py").write_text(text + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "broken_plugin", raising=False)
    with pytest.raises(InputError, match=f"Importing broken_plugin failed: {message}") as caught:
        registry.make("judges", "broken_plugin:Judge")
    assert caught.value.__cause__ is not None


def test_a_constructor_that_raises_is_named_with_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raising_plugin.py").write_text(
        "class Judge:\n    def __init__(self):\n        {}['seed']\n\n\n"
        "class Typed:\n    def __init__(self):\n        1 + 'a'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match=r"'raising_plugin:Judge' .*: KeyError: 'seed', at .*raising_plugin.py:3$"):
        registry.make("judges", "raising_plugin:Judge")
    with pytest.raises(InputError, match=r"unsupported operand .*, at .*raising_plugin.py:8"):
        registry.make("judges", "raising_plugin:Typed")


def test_a_fault_of_this_package_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: RuleJudge) -> None:
        raise KeyError("inside")

    monkeypatch.setattr(RuleJudge, "__post_init__", fail)
    with pytest.raises(KeyError, match="inside"):
        registry.make("judges", "rule")


# ---- functions as plug-ins ----

FUNCTIONS = """
import numpy as np

def rule(records):
    return [np.full(len(r.segments), float(r.score)) for r in records]

def scaled(scale=2.0):
    return lambda records: [scale * a for a in rule(records)]

def reflector(record):
    return len(record) - 1
"""


@pytest.fixture
def functions(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain_functions.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))


def attempt(score: float) -> EpisodeRecord:
    return EpisodeRecord("g", segments=(Segment(0, "a", "b", "c"), Segment(1, "c", "d", "e")), score=score)


@pytest.mark.usefixtures("functions")
def test_a_function_that_needs_an_argument_is_the_rule_itself() -> None:
    def own(records: Sequence[EpisodeRecord]) -> list[Any]:
        return [np.full(len(r.segments), -r.score) for r in records]

    registry.register("credit", "own-function", own)
    records = [attempt(1.0), attempt(3.0)]
    for spec, expected in (
        ("plain_functions:rule", [1.0, 3.0]),
        ({"name": "plain_functions:rule"}, [1.0, 3.0]),
        ("own-function", [-1.0, -3.0]),
        ("plain_functions:scaled", [2.0, 6.0]),
        ({"name": "plain_functions:scaled", "scale": 5.0}, [5.0, 15.0]),
    ):
        for rule in (registry.make("credit", spec), credit.make(spec, lam=0.2)):
            assert [a.tolist() for a in rule(records)] == [[x, x] for x in expected]


@pytest.mark.usefixtures("functions")
def test_a_function_of_a_record_is_the_reflector_itself() -> None:
    assert registry.make("reflectors", "plain_functions:reflector")(attempt(0.0)) == 1
    registry.register("reflectors", "own-function", lambda record: Reflection("x", 0))
    assert registry.make("reflectors", "own-function")(attempt(0.0)) == Reflection("x", 0)


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        ("credit", {"name": "plain_functions:rule", "lam": 0.2}, r"or \(without options\) the rule itself"),
        (
            "reflectors",
            {"name": "plain_functions:reflector", "seed": 1},
            r"or \(without options\) the reflector itself",
        ),
        ("judges", "plain_functions:rule", "a class or a function that returns the plug-in$"),
    ],
)
def test_a_function_that_fits_neither_way_says_what_would(kind: registry.Kind, spec: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        registry.make(kind, spec)


def test_a_wrong_or_missing_option_is_named_with_what_would_do() -> None:
    with pytest.raises(InputError, match=r"no option 'domian'; did you mean 'domain'\? its options are domain"):
        registry.make("judges", {"name": "rule", "domian": "alfworld"})
    with pytest.raises(InputError, match=r'it needs of; write \{"name": "cache", "of": …\}'):
        registry.make("judges", "cache")
    with pytest.raises(InputError, match=r"no option 'domian'"):  # the inner one's, by its own name
        registry.make("judges", {"name": "threshold", "of": {"name": "rule", "domian": "alfworld"}})
