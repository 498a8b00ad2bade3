"""Doubtful labels are withheld."""

from __future__ import annotations

from typing import Any

import pytest
from composed_judges import Fake, window

from triage_gym.errors import InputError
from triage_gym.judges.labelling import MAX_WHY, judge_windows
from triage_gym.judges.threshold import ThresholdJudge
from triage_gym.records import RoleLabel


def confidences(*values: float) -> Fake:
    return Fake(lambda w: RoleLabel(w.step, "D", values[w.step], (1.0, 0.0, 0.0, 0.0), "clear", "me", "judged", 0.5))


def test_labels_below_the_threshold_are_unsure_and_say_why() -> None:
    judge = ThresholdJudge(confidences(0.9, 0.7, 0.69, 0.0))
    labels = judge.judge([window(k) for k in range(4)])
    assert [(x.role, x.status) for x in labels] == [("D", "judged")] * 2 + [(None, "unsure")] * 2
    assert labels[2].why == "withheld: D at 0.69 is below 0.7; clear"
    assert (labels[2].confidence, labels[2].probabilities, labels[2].source) == (0.69, (1.0, 0.0, 0.0, 0.0), "me")
    assert judge.usage["withheld"] == 2


def test_what_has_no_role_stays_as_it_is() -> None:
    labels = ThresholdJudge(Fake(lambda w: None), least=1.0).judge([window(0)])
    assert labels[0].status == "failed"


def test_long_reasons_stay_labels() -> None:
    long = Fake(lambda w: RoleLabel(w.step, "D", 0.1, why="x" * MAX_WHY))
    assert judge_windows(ThresholdJudge(long), [window(0)])[0].status == "unsure"


@pytest.mark.parametrize("least", [-0.1, 1.1, True, "0.5", float("nan")])
def test_bad_thresholds_are_refused(least: Any) -> None:
    with pytest.raises(InputError, match="least"):
        ThresholdJudge(Fake(), least=least)
