"""Facts beat words: what a turn cannot have been, it is not called."""

from __future__ import annotations

from typing import Any

import pytest
from composed_judges import Fake, facts, window

from triage_gym.judges.checked import CheckedJudge
from triage_gym.judges.labelling import MAX_WHY, judge_windows
from triage_gym.protocols import Facts, Window
from triage_gym.records import RoleLabel

NEW: dict[str, Any] = {"observation": "A room.", "next_observation": "A plate lies here."}
SAME: dict[str, Any] = {"observation": "A room.", "next_observation": "A room."}
AGAIN: dict[str, Any] = {**NEW, "past": [("look", "A plate lies here.")]}
AGAIN_SAME: dict[str, Any] = {**SAME, "past": [("look", "A room.")]}


@pytest.mark.parametrize(
    ("known", "texts", "said", "is_said"),
    [
        (facts(changed=False, learnt=True), NEW, "DENR", "EENR"),
        (facts(changed=False, learnt=False), NEW, "DENR", "NNNR"),
        (facts(changed=False, learnt=False), AGAIN, "DENR", "RRNR"),
        (facts(changed=False), NEW, "DENR", "EENR"),
        (facts(changed=False), SAME, "DENR", "NENR"),
        (facts(changed=False), AGAIN, "DENR", "RENR"),
        (facts(changed=True, learnt=False), SAME, "DENR", "DENR"),
        (facts(learnt=False), NEW, "DENR", "DENR"),
        (facts(learnt=False), SAME, "DENR", "NENR"),
        (None, NEW, "DENR", "DENR"),
        (None, SAME, "DENR", "NENR"),
        (None, AGAIN_SAME, "DENR", "RENR"),
        (None, AGAIN, "DENR", "DENR"),
    ],
)
def test_what_facts_and_text_rule_out(known: Facts | None, texts: dict[str, Any], said: str, is_said: str) -> None:
    judge = CheckedJudge(Fake(lambda w: said[w.step]))
    windows: list[Window] = [window(k, **texts)._replace(facts=known) for k in range(4)]
    labels = judge.judge(windows)
    assert "".join(str(x.role) for x in labels) == is_said
    assert judge.usage["overruled"] == sum(a != b for a, b in zip(said, is_said, strict=True))
    assert judge_windows(judge, windows) == labels


def test_the_label_says_what_overruled_it() -> None:
    label = CheckedJudge(Fake(lambda w: "D")).judge([window(0)._replace(facts=facts(changed=False, learnt=True))])[0]
    assert label.why == "the state of the task did not change, so it is no D; the judge said: said of look"
    assert (label.confidence, label.source) == (1.0, "fake")


def test_roles_that_are_ruled_out_lose_their_probability() -> None:
    known = facts(changed=False, learnt=False)

    def shares(role: str, *p: float) -> tuple[float, ...] | None:
        within = Fake(lambda w: RoleLabel(w.step, role, 0.5, tuple(p) or None))  # type: ignore[arg-type]
        return CheckedJudge(within).judge([window(0)._replace(facts=known)])[0].probabilities

    assert shares("R", 0.3, 0.2, 0.1, 0.4) == pytest.approx((0.0, 0.0, 0.2, 0.8))
    assert shares("D", 0.6, 0.2, 0.2, 0.0) == pytest.approx((0.0, 0.0, 1.0, 0.0))
    assert shares("D", 1.0, 0.0, 0.0, 0.0) == (0.0, 0.0, 1.0, 0.0)
    assert shares("D") is None


def test_what_is_overruled_is_never_worth_more() -> None:
    within = Fake(lambda w: RoleLabel(w.step, "D", magnitude=0.25))
    small = CheckedJudge(within).judge([window(0)._replace(facts=facts(changed=False, learnt=True))])[0]
    assert (small.role, small.magnitude) == ("E", 0.25)
    idle = CheckedJudge(within).judge([window(0)._replace(facts=facts(changed=False, learnt=False))])[0]
    assert (idle.role, idle.magnitude) == ("N", 1.0)


def test_labels_without_a_role_and_long_reasons() -> None:
    still = window(0, **SAME)
    assert CheckedJudge(Fake(lambda w: None)).judge([still])[0].status == "failed"
    long = Fake(lambda w: RoleLabel(w.step, "D", why="x" * MAX_WHY))
    assert judge_windows(CheckedJudge(long), [still])[0].role == "N"


def test_it_needs_the_facts_that_it_checks() -> None:
    assert CheckedJudge(Fake()).needs_facts == ("changed", "learnt")
    assert CheckedJudge(Fake(needs_facts=("distance", "learnt"))).needs_facts == ("changed", "learnt", "distance")
