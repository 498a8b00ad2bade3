"""Whatever a judge does, an attempt gets one checked label a segment."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from triage_gym import registry
from triage_gym.errors import InputError
from triage_gym.judges.labelling import MAX_WHY, failed_labels, judge_windows, label_record
from triage_gym.judges.rule import RuleJudge
from triage_gym.protocols import Judge, Window
from triage_gym.records import EpisodeRecord, RoleLabel, Segment
from triage_gym.windows import build_windows


def attempt(n: int = 3, **fields: Any) -> EpisodeRecord:
    segments = tuple(Segment(k, f"o{k}", f"a{k}", f"o{k + 1}") for k in range(n))
    return EpisodeRecord("g", segments=segments, start_observation="o0", **fields)


class Says:
    """A judge that answers as it is told."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.calls = answer, 0
        self.windows: Sequence[Window] = ()

    def judge(self, windows: Sequence[Window]) -> Any:
        self.calls += 1
        self.windows = windows
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer(windows) if callable(self.answer) else self.answer


def good(windows: Sequence[Window]) -> list[RoleLabel]:
    return [RoleLabel(w.step, "E", 0.5, why="new", source="me") for w in windows]


def test_good_labels_arrive_as_they_are_after_one_call() -> None:
    judge = Says(good)
    record = label_record(attempt(), judge)
    assert record.labels == tuple(good(build_windows(attempt())))
    assert judge.calls == 1
    assert label_record(attempt(), Says(lambda w: tuple(good(w)))) == record
    assert label_record(attempt(), Says(lambda w: iter(good(w)))) == record


def test_labels_out_of_order_are_put_in_order() -> None:
    assert [x.step for x in label_record(attempt(), Says(lambda w: good(w)[::-1])).labels] == [0, 1, 2]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def many(windows: Sequence[Window]) -> Any:
    while True:
        yield from good(windows)


@pytest.mark.parametrize(
    "answer",
    [
        ValueError("the server is down"),
        Unprintable(),
        None,
        3,
        "DEN",
        [],
        lambda w: good(w)[:-1],
        lambda w: [*good(w), good(w)[0]],
        many,
        lambda w: [good(w)[0]] * 3,
        lambda w: [*good(w)[:2], RoleLabel(7, "E")],
        lambda w: [good(w)[1], None, good(w)[0]],
        {"labels": []},
    ],
    ids=[
        "raises",
        "raises unprintable",
        "None",
        "number",
        "text",
        "none",
        "too few",
        "too many",
        "endless",
        "one step",
        "foreign step",
        "shuffled with a hole",
        "dict",
    ],
)
def test_answers_that_cannot_be_aligned_fail_the_whole_attempt(answer: Any) -> None:
    labels = label_record(attempt(), Says(answer)).labels
    assert [(x.step, x.role, x.status) for x in labels] == [(k, None, "failed") for k in range(3)]
    assert all(x.why and x.source == "Says" for x in labels)


class Trap(str):
    """Text that must never be compared with."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "D",
        {"step": 1, "role": "D"},
        RoleLabel(1, "X"),  # type: ignore[arg-type]
        RoleLabel(1, "d"),  # type: ignore[arg-type]
        RoleLabel(1, ["D"]),  # type: ignore[arg-type]
        RoleLabel(1, Trap("D")),  # type: ignore[arg-type]
        RoleLabel(1, None),
        RoleLabel(1, "D", status="failed"),
        RoleLabel(1, "D", status="sure"),  # type: ignore[arg-type]
        RoleLabel(1, "D", 1.5),
        RoleLabel(1, "D", float("nan")),
        RoleLabel(1, "D", "high"),  # type: ignore[arg-type]
        RoleLabel(1, "D", True),
        RoleLabel(1, "D", why="x" * (MAX_WHY + 1)),
        RoleLabel(1, "D", why=3),  # type: ignore[arg-type]
        RoleLabel(1, "D", source=None),  # type: ignore[arg-type]
        RoleLabel(1, "D", probabilities=(1.0, 0.0, 0.0)),  # type: ignore[arg-type]
        RoleLabel(1, "D", probabilities=(1.0, 0.0, 0.0, float("inf"))),
        RoleLabel(1, "D", probabilities=[1.0, 0.0, 0.0, 0.0]),  # type: ignore[arg-type]
        RoleLabel("1", "D"),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_one_malformed_label_fails_its_segment_only(bad: Any) -> None:
    labels = label_record(attempt(), Says(lambda w: [good(w)[0], bad, good(w)[2]])).labels
    assert (labels[1].step, labels[1].role, labels[1].status) == (1, None, "failed")
    assert "malformed" in labels[1].why
    assert (labels[0], labels[2]) == (good(build_windows(attempt()))[0], good(build_windows(attempt()))[2])


def test_a_judge_may_say_that_it_could_not() -> None:
    own = RoleLabel(1, None, why="rate limit", source="llm", status="failed")
    labels = label_record(attempt(), Says(lambda w: [good(w)[0], own, good(w)[2]])).labels
    assert labels[1] is own


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit()])
def test_the_user_can_still_interrupt(stop: BaseException) -> None:
    with pytest.raises(type(stop)):
        label_record(attempt(), Says(stop))


def test_a_judge_that_takes_windows_out_of_its_list_loses_no_label() -> None:
    def emptying(windows: Any) -> Any:
        return [RoleLabel(windows.pop(0).step, "E") for _ in range(len(windows))]

    assert label_record(attempt(), Says(emptying)).roles == ("E", "E", "E")
    windows = build_windows(attempt())
    assert len(judge_windows(Says(emptying), windows)) == len(windows) == 3


def test_nothing_to_judge_asks_nobody() -> None:
    judge = Says(good)
    assert label_record(attempt(0), judge).labels == ()
    assert label_record(attempt(2, prefix_length=2), judge).labels[0].status == "unjudged"
    assert judge.calls == 0


def test_a_copied_prefix_is_not_judged_again_but_seen() -> None:
    judge = Says(good)
    record = label_record(attempt(4, prefix_length=2, attempt=1, pivot=2), judge)
    assert [w.step for w in judge.windows] == [2, 3]
    assert [p.action for p in judge.windows[0].past] == ["a0", "a1"]
    assert [x.status for x in record.labels] == ["unjudged", "unjudged", "judged", "judged"]
    kept = replace(attempt(4, prefix_length=2), labels=tuple(RoleLabel(k, "R") for k in range(4)))
    assert [x.role for x in label_record(kept, Says(good)).labels] == ["R", "R", "E", "E"]


def test_failed_labels_are_cut_to_length() -> None:
    [label] = failed_labels(build_windows(attempt(1)), "x" * 9999, "me")
    assert (len(label.why), label.source, label.status, label.role) == (MAX_WHY, "me", "failed", None)


def test_window_options_reach_the_judge() -> None:
    judge = Says(good)
    label_record(attempt(5), judge, past=1, future=2, outcome_text=("o3",))
    window = judge.windows[2]
    assert (len(window.past), len(window.future)) == (1, 2)
    assert window.next_observation == ""
    with pytest.raises(InputError):
        label_record(attempt(), judge, past=-1)


def test_the_rule_judge_is_a_judge_by_name() -> None:
    judge = registry.make("judges", "rule")
    assert isinstance(judge, Judge)
    assert judge == RuleJudge()
    assert registry.make("judges", {"name": "rule", "domain": "generic"}) == RuleJudge("generic")
    with pytest.raises(InputError, match="domain"):
        RuleJudge("chess")


@pytest.mark.parametrize("domain", ["alfworld", "generic", "something else"])
@pytest.mark.parametrize("filler", ["a", "go to ", "take x from ", " ", "é\n"])
def test_huge_actions_cost_little(domain: str, filler: str) -> None:
    huge = (filler * 100_000)[:100_000] + "!"
    segments = tuple(Segment(k, "o", huge, "Nothing happens.") for k in range(3))
    record = EpisodeRecord("g", task="put a mug in desk", domain=domain, segments=segments)
    start = time.process_time()
    labels = label_record(record, RuleJudge()).labels
    assert time.process_time() - start < 0.15  # 50 ms each
    assert [x.role for x in labels] == ["N", "R", "R"]
    assert all(len(x.why) < 500 for x in labels)


def test_judging_windows_directly() -> None:
    assert judge_windows(RuleJudge(), []) == []
    windows = build_windows(attempt())
    assert judge_windows(Says(good), windows) == good(windows)
