"""Which failed attempts are retried: worked examples, and laws over any batch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage_gym.errors import GroupError, InputError
from triage_gym.records import EpisodeRecord
from triage_gym.reflection import allocate
from triage_gym.reflection.allocation import ALLOCATIONS, Allocation


def attempt(group: str, trial: str, number: int = 0, success: bool = False, error: str | None = None) -> EpisodeRecord:
    return EpisodeRecord(group, trial=trial, attempt=number, success=success, error=error)


BATCH = [
    attempt("half", "a"),  # 0
    attempt("half", "b", success=True),  # 1
    attempt("lost", "a"),  # 2
    attempt("lost", "b"),  # 3
    attempt("third", "a"),  # 4
    attempt("third", "b"),  # 5
    attempt("third", "c"),  # 6
    attempt("third", "c", 1, success=True),  # 7
    attempt("third", "b", 1),  # 8
    attempt("won", "a", success=True),  # 9
    attempt("half", "c", error="crashed"),  # 10
]


@pytest.mark.parametrize(
    ("how", "budget", "more", "chosen"),
    [
        ("all", None, {}, [0, 2, 3, 4, 8]),
        ("all", 0, {}, []),
        # One a group each round: half (1 of 2 solved), then third (1 of 3), then lost; then third and lost again.
        ("all", 1, {}, [0]),
        ("all", 2, {}, [0, 4]),
        ("all", 3, {}, [0, 2, 4]),
        ("all", 4, {}, [0, 2, 4, 8]),
        ("all", 99, {}, [0, 2, 3, 4, 8]),
        ("all", None, {"attempts": 2}, [0, 2, 3, 4]),
        ("all", None, {"attempts": 1}, []),
        ("differ", None, {}, [0, 4, 8]),
        ("differ", 2, {}, [0, 4]),
        ("verified", None, {"passed": {3: True, 8: True, 9: True, 0: False}}, [3, 8]),
        ("verified", 1, {"passed": {3: True, 8: True}}, [8]),
        ("verified", None, {"passed": [True] * 11}, [0, 2, 3, 4, 8]),
        ("verified", None, {"passed": {}}, []),
    ],
)
def test_worked_examples(how: Allocation, budget: int | None, more: dict[str, Any], chosen: list[int]) -> None:
    assert allocate(BATCH, how, budget, **more) == chosen


def test_no_records_no_retries() -> None:
    assert allocate([], "differ", 3) == []


def test_a_group_whose_only_failure_is_unsound_does_not_differ() -> None:
    batch = [attempt("g", "a"), attempt("g", "b", success=True, error="a lying state")]
    assert (allocate(batch), allocate(batch, "differ")) == ([0], [])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"how": "some"}, "'all', 'differ', 'verified'"),
        ({"budget": -1}, "budget"),
        ({"attempts": 0}, "attempts"),
        ({"how": "verified"}, "passed"),
        ({"how": "verified", "passed": [True]}, "11 records"),
        ({"how": "verified", "passed": {0: "passed"}}, "truth"),
    ],
)
def test_wrong_arguments_are_errors(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        allocate(BATCH, **arguments)


def test_two_records_of_one_attempt_are_an_error_that_names_the_option() -> None:
    with pytest.raises(GroupError, match="trial_id"):
        allocate([attempt("g", "a"), attempt("g", "a")])


@st.composite
def batches(draw: st.DrawFn) -> list[EpisodeRecord]:
    batch = []
    for group in draw(st.lists(st.sampled_from("abcd"), unique=True)):
        for trial in range(draw(st.integers(1, 4))):
            for number in range(draw(st.integers(1, 3))):
                success, broken = draw(st.booleans()), draw(st.integers(0, 4)) == 0
                batch.append(attempt(group, str(trial), number, success, "crashed" if broken else None))
                if success:
                    break
    return batch


@given(
    batches(), st.sampled_from(ALLOCATIONS), st.none() | st.integers(0, 8), st.randoms(use_true_random=False), st.data()
)
def test_laws(
    batch: list[EpisodeRecord], how: Allocation, budget: int | None, chance: Any, data: st.DataObject
) -> None:
    passed = data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch)))
    chosen = allocate(batch, how, budget, passed=passed)
    assert chosen == sorted(set(chosen))
    assert budget is None or len(chosen) <= budget
    for at in chosen:
        record = batch[at]
        assert not record.success
        assert record.error is None
        assert how != "verified" or passed[at]
        family = [other for other in batch if (other.group_id, other.trial) == (record.group_id, record.trial)]
        assert record.attempt == max(other.attempt for other in family)
        if how == "differ":
            assert any(other.success and other.error is None for other in batch if other.group_id == record.group_id)
    everyone = allocate(batch, how, None, passed=passed)
    assert set(chosen) <= set(everyone)
    assert budget is None or len(chosen) == min(budget, len(everyone)), "a budget is spent as far as it can be"
    if budget is not None:
        per_group = [
            sum(batch[at].group_id == group for at in chosen) for group in sorted({batch[a].group_id for a in everyone})
        ]
        wanted = [
            sum(batch[at].group_id == group for at in everyone)
            for group in sorted({batch[a].group_id for a in everyone})
        ]
        least = min((got for got, want in zip(per_group, wanted, strict=True) if got < want), default=None)
        assert least is None or max(per_group) <= least + 1, "round the groups"
    order = list(range(len(batch)))
    chance.shuffle(order)
    shuffled = allocate([batch[at] for at in order], how, budget, passed=[passed[at] for at in order])
    assert {order[at] for at in shuffled} == set(chosen)
