"""Specs and names: what is found, and that every mistake says what would have been right."""

from __future__ import annotations

from typing import Any

import pytest

from triage_gym import registry
from triage_gym.credit.rules import GRPO
from triage_gym.errors import InputError
from triage_gym.judges.rule import RuleJudge


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


def test_an_import_error_inside_a_module_is_not_hidden(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_plugin.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
        registry.make("judges", "broken_plugin:Judge")
