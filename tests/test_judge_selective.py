"""Only turns that may be repeats in successes and news in failures are judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from composed_judges import Fake, attempt, window

from triage_gym.errors import InputError
from triage_gym.judges.labelling import judge_attempts, label_record, label_records
from triage_gym.judges.selective import SelectiveJudge, candidate, candidates
from triage_gym.protocols import Judge, Window
from triage_gym.records import EpisodeRecord, RoleLabel, Segment


def played(*turns: tuple[str, str], success: bool, prefix: int = 0) -> EpisodeRecord:
    before, segments = "You wake up.", []
    for k, (action, answer) in enumerate(turns):
        segments.append(Segment(k, before, action, answer))
        before = answer
    return EpisodeRecord(
        "g",
        task="find the plate",
        segments=tuple(segments),
        success=success,
        prefix_length=prefix,
        start_observation="x",
    )


TURNS = (
    ("open box", "The box holds a fork."),
    ("look", "A kitchen."),
    ("open box", "The box holds a fork."),
    ("sing", "A kitchen."),
    ("dance", "Nothing happens."),
    ("take fork", "You hold the fork."),
)


def test_candidates_by_hand() -> None:
    assert candidates(played(*TURNS, success=True)) == [2, 3]
    assert candidates(played(*TURNS, success=False)) == [0, 1, 5]
    assert candidates(played(*TURNS, success=False, prefix=1)) == [1, 5]
    assert candidates(played(success=True)) == []


@pytest.mark.parametrize(
    ("fields", "in_success", "in_failure"),
    [
        ({"next_observation": "A spoon."}, 0, 2),
        ({"next_observation": "A spoon.", "past": [("look", "A spoon.")]}, 3, 0),
        ({"next_observation": "A spoon.", "past": [("wait", "A spoon.")]}, 2, 0),
        ({"next_observation": "A spoon.", "earlier_actions": ("look",)}, 2, 2),
        ({"observation": "Here.", "next_observation": "Here."}, 0, 0),
        ({"next_observation": "Nothing happens."}, 0, 0),
        ({"action": "put fork on shelf 1", "earlier_actions": ("take fork from shelf 1",)}, 1, 0),
        ({"action": "close fridge", "earlier_actions": ("put milk into the fridge",)}, 1, 0),
        ({"action": "open fridge", "earlier_actions": ("go to fridge", "look at fridge")}, 0, 0),
        ({"action": "put fork", "earlier_actions": ("put fork and knife",)}, 0, 0),
        ({"observation": "x 1", "next_observation": "x 2"}, 0, 1),
    ],
)
def test_what_makes_a_turn_a_candidate(fields: dict[str, Any], in_success: int, in_failure: int) -> None:
    given = {"observation": "A room.", "next_observation": "A room now.", **fields}
    if "action" in fields:
        given["past"] = [("x", "now a room")]
    turn = window(0, given.pop("action", "look"), **given)
    assert candidate(turn, True) == in_success
    assert candidate(turn, False) == in_failure


def test_only_candidates_are_asked_about() -> None:
    within = Fake(lambda w: "R")
    judge = SelectiveJudge(within)
    records = [played(*TURNS, success=True), played(*TURNS, success=False)]
    found = label_records(records, judge)
    assert ["".join(r or "-" for r in record.roles) for record in found] == ["--RR--", "RR---R"]
    assert {x.status for record in found for x in record.labels if x.role is None} == {"unjudged"}
    assert len(within.asked) == 1
    assert (judge.usage["selected"], judge.usage["skipped"]) == (5, 7)


def test_the_rest_goes_to_the_cheap_judge() -> None:
    costly, cheap = Fake(lambda w: "R"), Fake(lambda w: "N")
    judge = SelectiveJudge(costly, rest=cheap)
    first, retry = played(*TURNS, success=False), played(*TURNS, success=True, prefix=3)
    found = label_records([first, retry, first], judge)
    assert ["".join(r or "-" for r in record.roles) for record in found] == ["RRNNNR", "---RNN", "RRNNNR"]
    assert (len(costly.asked), len(cheap.asked)) == (1, 1)
    assert judge.usage["without_selection"] == 0
    assert judge.identity is None


def test_a_batch_asked_about_in_parts_keeps_its_selection() -> None:
    costly, cheap = Fake(lambda w: "R"), Fake(lambda w: "N")
    judge = SelectiveJudge(costly, rest=cheap, budget=5)
    records = [played(*TURNS, success=k != 1) for k in range(4)]

    def in_parts(judge: Judge, attempts: Sequence[Sequence[Window]]) -> list[list[RoleLabel]]:
        return [labels for attempt in attempts for labels in judge_attempts(judge, [attempt])]

    found = ["".join(r or "-" for r in x.roles) for x in label_records(records, judge, ask=in_parts)]
    assert found == [
        "".join(r or "-" for r in x.roles) for x in label_records(records, SelectiveJudge(costly, budget=5, rest=cheap))
    ]
    assert sum(roles.count("R") for roles in found) == judge.usage["selected"] == 5
    assert judge.usage["without_selection"] == 0


def test_a_selection_that_was_never_asked_about_is_not_taken_for_another() -> None:
    costly, cheap = Fake(lambda w: "R"), Fake(lambda w: "N")
    judge = SelectiveJudge(costly, rest=cheap)
    assert judge.select(played(*[(f"wave {k}", "Nothing happens.") for k in range(6)], success=False)) is not None
    found = label_record(played(*TURNS, success=True), judge)
    assert found == label_record(played(*TURNS, success=True), SelectiveJudge(costly, rest=cheap))
    assert judge.usage["without_selection"] == 0


def test_without_a_selection_everything_is_judged() -> None:
    costly, cheap = Fake(lambda w: "R"), Fake(lambda w: "N")
    judge = SelectiveJudge(costly, rest=cheap)
    assert [x.role for x in judge.judge([window(0), window(1)])] == ["R", "R"]
    assert judge.usage["without_selection"] == 2
    judge.select(played(*TURNS, success=True))
    assert [x.role for x in judge.judge([window(7)])] == ["R"]
    assert [x.role for x in SelectiveJudge(costly).judge([window(0)])] == ["R"]


def test_budgets() -> None:
    record = played(*TURNS, success=True)
    one = SelectiveJudge(Fake(lambda w: "R"), per_attempt=1)
    assert ["".join(r or "-" for r in label_record(record, one).roles) for _ in range(2)] == ["--R---"] * 2
    three = SelectiveJudge(Fake(lambda w: "R"), budget=3)
    found = ["".join(r or "-" for r in label_record(record, three).roles) for _ in range(3)]
    assert found == ["--RR--", "--R---", "------"]
    none = SelectiveJudge(Fake(), budget=0)
    assert {x.status for x in label_record(record, none).labels} == {"unjudged"}


@pytest.mark.parametrize("bad", [{"per_attempt": -1}, {"budget": 1.5}, {"budget": True}, {"rest": 3}])
def test_bad_options_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        SelectiveJudge(Fake(), **bad)


def test_the_judge_within_sees_the_windows_it_would_see_anyway() -> None:
    all_of, some = Fake(), Fake()
    record = played(*TURNS, success=True)
    label_record(record, all_of)
    label_record(record, SelectiveJudge(some))
    assert some.asked[0] == [all_of.asked[0][k] for k in (2, 3)]
    assert attempt(0).labels == ()


def test_the_gold_set_needs_half_of_the_calls_at_equal_quality() -> None:
    from triage_gym.audit.gold import gold_rows
    from triage_gym.judges import nesting

    rows = gold_rows()
    chosen = [candidate(row.window, bool(row.success)) > 0 for row in rows]
    assert sum(chosen) <= len(rows) / 2
    labels = nesting.ask(nesting.inner("rule"), [row.window for row in rows])
    for role, success in (("R", True), ("E", False)):
        own = [
            (x.role == role, c, row.gold == role)
            for x, c, row in zip(labels, chosen, rows, strict=True)
            if row.success is success
        ]
        hits = sum(said and true for said, _, true in own)
        kept = sum(said and c and true for said, c, true in own)
        golden = sum(true for _, _, true in own)
        full = 2 * hits / (golden + sum(said for said, _, _ in own))
        assert 2 * kept / (golden + sum(said and c for said, c, _ in own)) >= full - 0.01
