"""Joining attempts into groups, and segments into tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage_gym.credit.ledger import GroupLedger
from triage_gym.credit.tokens import broadcast, broadcast_batch
from triage_gym.errors import GroupError, InputError
from triage_gym.records import EpisodeRecord, Segment


def record(group: str = "g", start: str = "You are in a room.", **fields: Any) -> EpisodeRecord:
    return EpisodeRecord(group, start_observation=start, **fields)


def test_the_last_member_brings_the_group_in_order() -> None:
    ledger, members = GroupLedger(3), [record(seed=i) for i in range(3)]
    assert ledger.add(members[0]) is None
    assert ledger.add(record("other")) is None
    assert ledger.add(members[1]) is None
    group = ledger.add(members[2])
    assert group is not None
    assert group.records == tuple(members)
    assert len(ledger) == 1


def test_a_group_of_one_is_complete_at_once_and_an_id_can_come_again() -> None:
    ledger = GroupLedger(1)
    for seed in (0, 1):
        group = ledger.add(record(seed=seed))
        assert group is not None
        assert group.records[0].seed == seed
    assert len(ledger) == 0


@pytest.mark.parametrize("size", [0, -1, True, 2.0, "8"])
def test_a_bad_group_size_is_refused(size: Any) -> None:
    with pytest.raises(InputError, match="group_size"):
        GroupLedger(size)


def test_members_that_started_elsewhere_are_refused_with_the_reason() -> None:
    ledger = GroupLedger(3)
    ledger.add(record())
    with pytest.raises(GroupError, match="ignores its seed"):
        ledger.add(record(start="You are in a cellar." + "x" * 500))
    assert ledger.add(record(seed=2)) is None  # a refused member leaves the group as it was
    assert ledger.add(record(seed=3)) is not None


def test_members_of_another_task_are_refused_though_they_look_alike() -> None:
    ledger = GroupLedger(2)
    ledger.add(record(task_id="mug in the fridge"))
    with pytest.raises(GroupError, match=r"same task, got 'mug in the fridge' and 'mug in the safe'"):
        ledger.add(record(task_id="mug in the safe"))
    ledger.check_start("g", "mug in the fridge", "You are in a room.")
    ledger.check_start("another", "mug in the safe", "You are in a cellar.")
    assert ledger.add(record(task_id="mug in the fridge")) is not None


def test_a_crashed_member_fills_its_place_whatever_it_saw() -> None:
    ledger = GroupLedger(3)
    assert ledger.add(record(start="", error="crashed at reset")) is None
    assert ledger.add(record()) is None
    with pytest.raises(GroupError, match="same first observation"):
        ledger.add(record(start="elsewhere"))
    group = ledger.add(record(seed=1))
    assert group is not None
    assert len(group.records) == 3


def test_the_same_record_twice_is_refused_but_equal_attempts_are_not() -> None:
    ledger, first = GroupLedger(3), record()
    ledger.add(first)
    with pytest.raises(GroupError, match="twice"):
        ledger.add(first)
    assert ledger.add(replace(first)) is None


def test_incomplete_groups_come_back_oldest_first_and_once() -> None:
    ledger = GroupLedger(2)
    for group in ("b", "a", "c", "a"):
        ledger.add(record(group))
    assert [g.group_id for g in ledger.pop_incomplete()] == ["b", "c"]
    assert ledger.pop_incomplete() == []


@given(st.lists(st.integers(0, 4), max_size=40), st.integers(1, 4))
def test_no_record_is_lost_or_doubled(groups: list[int], size: int) -> None:
    ledger, seen = GroupLedger(size), []
    for i, group in enumerate(groups):
        full = ledger.add(record(str(group), seed=i))
        if full:
            assert len(full.records) == size
            seen += [r.seed for r in full.records]
    left = ledger.pop_incomplete()
    assert all(0 < len(g.records) < size for g in left)
    seen += [r.seed for g in left for r in g.records]
    assert sorted(s for s in seen if s is not None) == list(range(len(groups)))


def attempt(segments: int, **fields: Any) -> EpisodeRecord:
    return EpisodeRecord("g", segments=tuple(Segment(k, "", "", "") for k in range(segments)), **fields)


def test_tokens_get_their_segments_number() -> None:
    values, mask = broadcast(attempt(2), np.array([0.5, -1.0]), [(2, 4), (6, 7)], 8)
    assert values.tolist() == [0, 0, 0.5, 0.5, 0, 0, -1, 0]
    assert mask.tolist() == [False, False, True, True, False, False, True, False]


def test_copied_and_excluded_segments_are_masked() -> None:
    _, mask = broadcast(attempt(2, prefix_length=1), np.array([1.0, 1.0]), [(0, 1), (1, 2)], 2)
    assert mask.tolist() == [False, True]
    values, mask = broadcast(attempt(1, error="crashed"), np.array([1.0]), [(0, 2)], 2)
    assert not values.any()
    assert not mask.any()


@pytest.mark.parametrize(
    "spans", [[(0, 1)], [(0, 2), (1, 3)], [(2, 3), (0, 1)], [(0, 1), (1, 9)], [(1, 0), (2, 3)], [(-1, 0), (1, 2)]]
)
def test_bad_spans_are_refused(spans: list[tuple[int, int]]) -> None:
    with pytest.raises(InputError, match="span"):
        broadcast(attempt(2), np.zeros(2), spans, 4)


def test_batches() -> None:
    values, mask = broadcast_batch([attempt(1), attempt(0)], [np.ones(1), np.zeros(0)], [[(0, 1)], []], 3)
    assert values.tolist() == [[1, 0, 0], [0, 0, 0]]
    assert mask.sum() == 1
    assert broadcast_batch([], [], [], 4)[0].shape == (0, 4)
    with pytest.raises(InputError, match="as many"):
        broadcast_batch([attempt(1)], [], [[]], 3)
