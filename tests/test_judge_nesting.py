"""What every judge made of judges passes on, and that whole trees are written in a config."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from composed_judges import Fake, Sampled, attempt, window

from triage_gym import registry
from triage_gym.errors import InputError
from triage_gym.judges import nesting
from triage_gym.judges.cache import CachedJudge
from triage_gym.judges.checked import CheckedJudge
from triage_gym.judges.ensemble import EnsembleJudge
from triage_gym.judges.labelling import label_record, label_records
from triage_gym.judges.magnitude import MagnitudeJudge
from triage_gym.judges.selective import SelectiveJudge
from triage_gym.judges.threshold import ThresholdJudge
from triage_gym.protocols import Judge, Window
from triage_gym.records import RoleLabel

WRAPPERS: list[Any] = [
    lambda of: CachedJudge(of, mode="off"),
    CheckedJudge,
    lambda of: EnsembleJudge([of]),
    MagnitudeJudge,
    SelectiveJudge,
    ThresholdJudge,
]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_wrapper_passes_on_what_the_judge_within_has(wrap: Any) -> None:
    judge = Fake(needs_facts=("distance",))
    outer = wrap(judge)
    assert isinstance(outer, Judge)
    assert set(outer.needs_facts) >= {"distance"}
    labels = outer.judge([window(0), window(1)])
    assert [x.step for x in labels] == [0, 1]
    assert outer.usage["calls"] == judge.usage["calls"] == 1
    assert "fake" in str(nesting.identity_of(outer))
    outer.close()
    assert judge.closed == 1


PASSING = [lambda of: CachedJudge(of, mode="off"), CheckedJudge, MagnitudeJudge, ThresholdJudge]


@pytest.mark.parametrize("wrap", PASSING)
def test_a_selection_within_is_passed_on(wrap: Any) -> None:
    assert nesting.selection_of(wrap(Fake())) is None
    outer, judge = wrap(SelectiveJudge(Fake())), Fake()
    assert nesting.selection_of(outer) is not None
    alone = label_record(attempt(4), SelectiveJudge(judge))
    assert [x.status for x in label_record(attempt(4), outer).labels] == [x.status for x in alone.labels]


@pytest.mark.parametrize(
    "wrap", [lambda of: EnsembleJudge([of]), SelectiveJudge, lambda of: SelectiveJudge("rule", rest=of)]
)
def test_a_selection_that_could_not_be_kept_is_refused(wrap: Any) -> None:
    with pytest.raises(InputError, match="selects"):
        wrap(SelectiveJudge(Fake()))


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_whatever_the_judge_within_does_every_window_gets_a_label(wrap: Any) -> None:
    def breaks(w: Any) -> Any:
        raise RuntimeError("down")

    for say in (breaks, lambda w: "X", lambda w: 3):
        labels = wrap(Fake(say)).judge([window(0), window(1), window(0, "other")])
        assert [x.status for x in labels] == ["failed"] * 3
    assert wrap(Fake()).judge([]) == []


def test_a_tree_is_written_in_a_config(tmp_path: Any) -> None:
    spec = {
        "name": "threshold",
        "least": 0.6,
        "of": {
            "name": "ensemble",
            "votes": 3,
            "of": [
                {"name": "cache", "path": str(tmp_path / "c.sqlite"), "of": {"name": "rule", "domain": "generic"}},
                {"name": "checked", "of": "rule"},
            ],
        },
    }
    with pytest.raises(InputError, match="identity"):
        registry.make(
            "judges", {"name": "cache", "path": str(tmp_path / "x"), "of": {"name": "composed_judges:Silent"}}
        )
    judge = registry.make("judges", spec)
    record = label_record(attempt(6), judge)
    assert {x.status for x in record.labels} <= {"judged", "unsure"}
    assert judge.needs_facts == ("changed", "learnt")
    assert judge.usage["votes"] == 6 * 6
    judge.close()


@pytest.mark.parametrize("of", [3, None, "nobody", {"of": "rule"}, Fake])
def test_what_is_no_judge_is_refused(of: Any) -> None:
    with pytest.raises(InputError):
        ThresholdJudge(of)


def test_attempts_are_told_apart_by_their_steps_and_tasks() -> None:
    runs = nesting.attempts_of(
        [window(0), window(1), window(1), window(5), window(0), window(1)._replace(task="other")]
    )
    assert [[w.step for w in run] for run in runs] == [[0, 1], [1, 5], [0], [1]]


def test_one_odd_window_costs_the_labels_of_its_own_attempt() -> None:
    def say(w: Any) -> str:
        if w.action == "odd1":
            raise ValueError("odd")
        return "N"

    records = [attempt(3, "a"), attempt(3, "odd"), attempt(2, "b")]
    found = label_records(records, ThresholdJudge(Fake(say)))
    assert [[x.status for x in r.labels] for r in found] == [["judged"] * 3, ["failed"] * 3, ["judged"] * 2]


def test_a_judge_listed_twice_is_counted_once() -> None:
    judge = Fake()
    ensemble = EnsembleJudge([judge, judge])
    ensemble.judge([window(0)])
    assert ensemble.usage["calls"] == 2


def test_samples_reach_the_judge_that_makes_them() -> None:
    within = Sampled("DEN")
    outer = MagnitudeJudge(ThresholdJudge(CheckedJudge(within)))
    assert [outer.sample([window(0)], k)[0].role for k in range(4)] == ["D", "E", "N", "D"]
    assert nesting.ask(Fake(), [window(0)], sample=2)[0].role == "E"


def test_a_config_without_an_end_is_refused() -> None:
    spec: dict[str, Any] = {"name": "threshold"}
    spec["of"] = spec
    with pytest.raises(InputError, match="come to an end"):
        nesting.inner(spec)


def test_an_unknown_option_is_refused_by_the_name_of_the_judge_that_has_it() -> None:
    with pytest.raises(InputError, match=r"'threshold'.*'leest'"):
        nesting.inner(
            {
                "name": "ensemble",
                "of": ["rule", {"name": "checked", "of": {"name": "threshold", "leest": 0.3, "of": "rule"}}],
            }
        )


def test_labels_of_a_batch_in_another_order_are_not_given_to_other_attempts() -> None:
    class Backwards(Fake):
        def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
            return super().judge(windows)[::-1]

    roles = {"a": "DENR", "b": "RRNN"}
    judge = Backwards(lambda w: roles[w.action[0]][w.step])
    found = label_records([attempt(4, "a"), attempt(4, "b")], judge)
    assert ["".join(map(str, record.roles)) for record in found] == ["DENR", "RRNN"]
    assert [len(asked) for asked in judge.asked] == [8, 4, 4]
