"""A judge that is wrong in a known way."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from composed_judges import Fake, attempt, window

from triage_gym import registry
from triage_gym.errors import InputError
from triage_gym.judges.distorted import DistortedJudge
from triage_gym.judges.labelling import label_record
from triage_gym.records import ROLES, RoleLabel

SAID = (0.1, 0.2, 0.3, 0.4)


def says(role: Any) -> Fake:
    return Fake(lambda w: RoleLabel(w.step, role, 0.4, SAID, "seen", "me", "judged", 0.5))


def test_a_role_is_read_as_another_and_its_probability_goes_along() -> None:
    label = DistortedJudge(says("R"), read_as={"R": "E"}).judge([window(0)])[0]
    assert (label.role, label.why, label.source) == ("E", "distorted from R", "me:distorted")
    assert label.probabilities == pytest.approx((0.1, 0.6, 0.3, 0.0))
    assert (label.confidence, label.magnitude, label.status) == (0.4, 0.5, "judged")


def test_roles_can_change_places() -> None:
    judge = DistortedJudge(Fake(lambda w: "DR"[w.step], identity={"name": "two"}), read_as={"D": "R", "R": "D"})
    assert [x.role for x in judge.judge([window(0), window(1)])] == ["R", "D"]
    assert judge.usage["exchanged"] == 2


def test_without_errors_it_is_the_judge_within() -> None:
    windows = [window(k) for k in range(20)]
    assert DistortedJudge(says("N")).judge(windows) == says("N").judge(windows)


def test_noise_exchanges_its_share_evenly_for_the_others() -> None:
    labels = DistortedJudge(says("E"), noise=0.3, seed=3).judge([window(k % 40, f"go {k}") for k in range(4000)])
    counts = Counter(x.role for x in labels)
    assert counts["E"] == pytest.approx(2800, abs=4 * (4000 * 0.3 * 0.7) ** 0.5)
    for role in "DNR":
        assert counts[role] == pytest.approx(400, abs=4 * (4000 * 0.1 * 0.9) ** 0.5)
    swapped = next(x for x in labels if x.role == "R")
    assert swapped.probabilities == (0.1, 0.4, 0.3, 0.2)


def test_noise_comes_after_reading_and_all_noise_leaves_nothing() -> None:
    labels = DistortedJudge(says("R"), read_as={"R": "E"}, noise=1.0).judge([window(k) for k in range(50)])
    assert "E" not in {x.role for x in labels}
    assert {x.role for x in labels} == {"D", "N", "R"}


def test_an_error_hangs_on_its_window_and_seed_alone() -> None:
    windows = [window(k % 30, f"go {k}") for k in range(200)]
    one = DistortedJudge(says("D"), noise=0.5).judge(windows)
    assert DistortedJudge(says("D"), noise=0.5).judge(windows[::-1])[::-1] == one
    assert DistortedJudge(says("D"), noise=0.5, seed=1).judge(windows) != one


def test_what_has_no_role_stays_without_and_the_rules_can_be_distorted_by_config() -> None:
    assert DistortedJudge(Fake(lambda w: None), noise=1.0).judge([window(0)])[0].status == "failed"
    generic = {"name": "rule", "domain": "generic"}
    spec = {"name": "distorted", "of": generic, "read_as": {"R": "N"}}
    roles = set(label_record(attempt(4), registry.make("judges", spec)).roles)
    assert roles <= {"E", "N"}
    made = registry.make("judges", spec)
    assert made.identity["options"] == {"read_as": {"R": "N"}, "noise": 0.0, "seed": 0}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"noise": 1.5}, "noise"),
        ({"noise": True}, "noise"),
        ({"seed": 0.5}, "seed"),
        ({"read_as": {"X": "E"}}, "'X'"),
        ({"read_as": {"R": "good"}}, "'good'"),
        ({"read_as": "RE"}, "read_as"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        DistortedJudge(says(ROLES[0]), **options)
