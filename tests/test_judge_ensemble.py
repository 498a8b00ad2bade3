"""Judges that vote: shares, ties, agreement, and who leaves the vote."""

from __future__ import annotations

from typing import Any

import pytest
from composed_judges import Fake, Sampled, attempt, window
from hypothesis import given
from hypothesis import strategies as st

from triage_gym.errors import InputError
from triage_gym.judges.cache import CachedJudge
from triage_gym.judges.ensemble import EnsembleJudge
from triage_gym.judges.labelling import judge_windows
from triage_gym.protocols import Window
from triage_gym.records import RoleLabel


def saying(roles: str) -> list[Any]:
    return [Fake(lambda w, r=r: None if r == "-" else RoleLabel(w.step, r, magnitude=0.5)) for r in roles]


def vote(roles: str, **options: Any) -> RoleLabel:
    return EnsembleJudge(saying(roles), **options).judge([window(3)])[0]


def test_the_winner_has_its_share_as_confidence() -> None:
    label = vote("DDE")
    assert (label.step, label.role, label.status, label.source) == (3, "D", "judged", "ensemble")
    assert label.confidence == pytest.approx(2 / 3)
    assert label.probabilities == pytest.approx((2 / 3, 1 / 3, 0.0, 0.0))
    assert label.magnitude == 0.5
    assert label.why == "2 x D (: ); 1 x E (: )"


@pytest.mark.parametrize(
    ("roles", "options", "role", "status"),
    [
        ("DE", {}, None, "unsure"),
        ("DDEE", {}, None, "unsure"),
        ("DDER", {}, "D", "judged"),
        ("DDER", {"agree": 0.6}, None, "unsure"),
        ("DDE", {"agree": 0.6}, "D", "judged"),
        ("DDD", {"agree": 1.0}, "D", "judged"),
        ("DDE", {"agree": 1.0}, None, "unsure"),
        ("D--", {"agree": 1.0}, "D", "judged"),
        ("D--", {"agree": 1.0, "least_votes": 2}, None, "unsure"),
        ("---", {}, None, "failed"),
    ],
)
def test_votes_by_hand(roles: str, options: dict[str, Any], role: str | None, status: str) -> None:
    label = vote(roles, **options)
    assert (label.role, label.status) == (role, status)


def test_unsure_and_unjudged_voters_leave_without_a_failure() -> None:
    quiet = Fake(lambda w: RoleLabel(w.step, None, why="do not know", status="unsure"))
    assert EnsembleJudge([quiet, quiet]).judge([window(0)])[0].status == "unsure"
    assert EnsembleJudge([quiet, Fake(lambda w: None)]).judge([window(0)])[0].status == "failed"
    assert EnsembleJudge([quiet, *saying("R")]).judge([window(0)])[0].role == "R"


def test_usage_tells_agreement() -> None:
    judge = EnsembleJudge(
        [Fake(lambda w: "D"), Fake(lambda w: "DEDD"[w.step]), Fake(lambda w: "DDD"[w.step] if w.step < 3 else None)]
    )
    judge.judge([window(k) for k in range(4)])
    assert {k: judge.usage[k] for k in ("votes", "unanimous", "contested", "undecided")} == {
        "votes": 11,
        "unanimous": 3,
        "contested": 1,
        "undecided": 0,
    }


def test_votes_of_one_judge_are_its_samples_in_shuffled_order() -> None:
    within = Sampled("DDE")
    judge = EnsembleJudge([within], votes=3)
    windows = [window(k, f"a{k}") for k in range(8)]
    labels = judge.judge(windows)
    assert [x.step for x in labels] == list(range(8))
    assert {x.role for x in labels} == {"D"}
    first, second, third = within.asked
    assert first == windows
    assert sorted(second) == sorted(third) == sorted(windows)
    assert second != windows
    assert second != third
    again = Sampled("DDE")
    EnsembleJudge([again], votes=3).judge(windows)
    assert again.asked == within.asked
    other = Sampled("DDE")
    EnsembleJudge([other], votes=3, seed=1).judge(windows)
    assert other.asked[1:] != within.asked[1:]
    straight = Sampled("DDE")
    EnsembleJudge([straight], votes=3, shuffle=False).judge(windows)
    assert straight.asked == [windows] * 3


def test_turns_of_different_attempts_are_not_mixed() -> None:
    within = Fake()
    windows = [window(k, f"{name}{k}") for name in "ab" for k in range(6)]
    EnsembleJudge([within], votes=2).judge(windows)
    assert [w.action[0] for w in within.asked[1]] == ["a"] * 6 + ["b"] * 6


def test_votes_through_a_cache_are_entries_of_their_own(tmp_path: Any) -> None:
    within = Sampled("DER")
    for asked in (3, 3):
        judge = EnsembleJudge([CachedJudge(within, tmp_path / "c.sqlite")], votes=3)
        label = judge.judge([window(0)])[0]
        assert label.status == "unsure"
        assert len(within.asked) == asked
        judge.close()


@given(st.lists(st.text("DENR-", min_size=3, max_size=3), min_size=1, max_size=6))
def test_shares_sum_to_one_and_labels_are_sound(rows: list[str]) -> None:
    windows: list[Window] = [window(k) for k in range(len(rows))]
    judges = [
        Fake(lambda w, j=j: None if rows[w.step][j] == "-" else RoleLabel(w.step, rows[w.step][j])) for j in range(3)
    ]  # type: ignore[arg-type]
    labels = EnsembleJudge(judges).judge(windows)
    assert judge_windows(EnsembleJudge(judges), windows) == labels
    for row, label in zip(rows, labels, strict=True):
        counts = [row.count(r) for r in "DENR"]
        assert (label.role is None) == (counts.count(max(counts)) > 1 or not max(counts))
        if label.probabilities is not None:
            assert sum(label.probabilities) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "bad",
    [
        {"of": []},
        {"of": "rule"},
        {"of": ["rule"], "votes": 0},
        {"of": ["rule"], "votes": 101},
        {"of": ["rule"], "agree": 0.0},
        {"of": ["rule"], "agree": 1.1},
        {"of": ["rule"], "least_votes": 2},
        {"of": ["rule"], "seed": -1},
        {"of": ["rule"], "shuffle": 1},
        {"of": ["nobody"]},
    ],
)
def test_bad_options_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        EnsembleJudge(**bad)


def test_records_without_turns_are_no_trouble() -> None:
    assert attempt(0).labels == ()
    assert EnsembleJudge(saying("D")).judge([]) == []
