"""The generic rules: new, repeated, refused, undone."""

from __future__ import annotations

import warnings

import pytest

from triage_gym.judges import rule
from triage_gym.judges.labelling import label_record
from triage_gym.judges.rule import RuleJudge
from triage_gym.records import EpisodeRecord, Segment

HALL, CELLAR = "You are in a hall. A lamp hangs here.", "You are in a cellar. It smells of mould."


def roles(*turns: tuple[str, str], start: str = HALL) -> str:
    """The roles of (action, answer) turns as one word."""
    seen = [start, *(answer for _, answer in turns)]
    segments = tuple(Segment(k, seen[k], action, answer) for k, (action, answer) in enumerate(turns))
    record = EpisodeRecord("g", task="Find the crown.", start_observation=start, segments=segments)
    labels = label_record(record, RuleJudge("generic")).labels
    assert all(x.source == "rule:generic" and x.why and x.status == "judged" for x in labels)
    return "".join(x.role or "-" for x in labels)


@pytest.mark.parametrize(
    ("expected", "turns"),
    [
        ("E", [("down", CELLAR)]),
        ("ER", [("down", CELLAR), ("down", CELLAR)]),
        ("NR", [("sing", "Nothing happens."), ("sing", "Nothing happens.")]),
        ("NN", [("sing", "I don't understand that."), ("dance", "I don't understand this.")]),
        ("NR", [("wait", HALL), ("wait", HALL)]),
        ("EER", [("down", CELLAR), ("look", "A rat runs."), ("up", CELLAR)]),
        ("EN", [("down", CELLAR), ("look", "It smells of mould.")]),
        ("N", [("say crown", "crown")]),
        ("N", [("wait", "42 17")]),
        ("", []),
    ],
)
def test_roles(expected: str, turns: list[tuple[str, str]]) -> None:
    assert roles(*turns) == expected


def test_what_left_the_window_is_new_again() -> None:
    turns = [("down", CELLAR)] + [(f"go {k}", f"place{chr(97 + k) * 3}") for k in range(6)] + [("down", CELLAR)]
    assert roles(*turns) == "E" * 8


def test_nothing_is_ever_decisive() -> None:
    assert "D" not in roles(("take crown", "You take the crown. Well done."), ("wait", "You won!"))


@pytest.mark.parametrize(
    ("domain", "lacks"),
    [
        ("chess", "the domain 'chess'"),
        ("generic", "an environment that names no domain"),
        ("alfworld", "the task 'Find the crown.'"),
    ],
)
def test_generic_rules_that_nobody_chose_warn_once(domain: str, lacks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "_warned", set())
    segments = (Segment(0, HALL, "down", CELLAR), Segment(1, CELLAR, "up", HALL))
    record = EpisodeRecord("g", task="Find the crown.", domain=domain, segments=segments)
    with pytest.warns(UserWarning, match=rf'no rules for {lacks} and falls .*RuleJudge\(domain="generic"\)'):
        labels = label_record(record, RuleJudge()).labels
    assert [x.source for x in labels] == ["rule:generic"] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert label_record(record, RuleJudge()).labels == labels
        rule._warned.clear()
        assert label_record(record, RuleJudge("generic")).labels == labels
