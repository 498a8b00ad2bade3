"""Records: frozen, aligned, and strict about the JSON that they read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage_gym.errors import GroupError, InputError
from triage_gym.records import EpisodeRecord, Group, Reflection, RoleLabel, Segment

RECORD = EpisodeRecord(
    "g",
    task_id="t",
    seed=3,
    attempt=1,
    pivot=1,
    prefix_length=1,
    task="é \ud800",
    domain="d",
    start_observation="o0",
    segments=(Segment(0, "o0", "a", "o1", 0.5, {"invalid_action": True}), Segment(1, "o1", "b", "o2")),
    labels=(RoleLabel(0, "E", 0.5, (0.1, 0.7, 0.1, 0.1), "why", "rule"), RoleLabel(1, None, status="failed")),
    score=0.25,
    truncated=True,
)
READERS: dict[Callable[[Any], Any], Any] = {
    EpisodeRecord.from_json: RECORD,
    Group.from_json: Group("g", (RECORD, replace(RECORD, attempt=2))),
    Segment.from_json: RECORD.segments[0],
    RoleLabel.from_json: RECORD.labels[0],
    Reflection.from_json: Reflection("careful", 2, "policy"),
}
HUGE = 10**400


def test_what_is_written_is_read() -> None:
    for read, item in READERS.items():
        assert read(json.loads(json.dumps(item.to_json(), allow_nan=False))) == item


def with_label(**fields: Any) -> dict[str, Any]:
    data = RECORD.to_json()
    data["labels"][0] |= fields
    return data


@pytest.mark.parametrize(
    ("data", "names"),
    [
        ({**RECORD.to_json(), "schema": True}, "schema"),
        ({**RECORD.to_json(), "schema": 2}, "schema"),
        ({**RECORD.to_json(), "score": HUGE}, "score"),
        ({**RECORD.to_json(), "score": True}, "score"),
        ({**RECORD.to_json(), "success": 1}, "success"),
        ({**RECORD.to_json(), "seed": 1.0}, "seed"),
        ({**RECORD.to_json(), "prefix_length": 3}, "prefix_length"),
        ({"schema": 1, 3: 4}, "group_id"),
        (with_label(role="X"), "role"),
        (with_label(role=None), "None and 'judged'"),
        (with_label(status="failed"), "'E' and 'failed'"),
        (with_label(status="sure"), "status"),
        (with_label(step=1), "step 1 for segment 0"),
        (with_label(confidence=1.5), "confidence"),
        (with_label(confidence=HUGE), "confidence"),
        (with_label(probabilities=[HUGE, 0, 0, 0]), "probabilities"),
        (with_label(probabilities=[True, 0, 0, 0]), "probabilities"),
        (with_label(probabilities=[2, -1, 0, 0]), "probabilities"),
        (with_label(probabilities=[1, 0, 0]), "probabilities"),
        (with_label(probabilities=[float("nan"), 0, 0, 0]), "probabilities"),
        ([], "object"),
        (None, "object"),
    ],
)
def test_what_is_no_record_is_refused_by_name(data: Any, names: str) -> None:
    with pytest.raises(InputError, match=names):
        EpisodeRecord.from_json(data)


junk = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.just(HUGE),
        st.floats(),
        st.text(max_size=3),
        st.sampled_from(["D", "failed"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every container with a key in it, to any depth."""
    keys = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [place for key, item in keys for place in [(data, key), *places(item)]]


@settings(max_examples=2000)
@given(st.sampled_from(sorted(READERS, key=repr)), st.integers(0, 10**6), junk, st.booleans())
def test_any_damage_gives_a_record_or_an_input_error(read: Any, where: int, value: Any, drop: bool) -> None:
    data = json.loads(json.dumps(READERS[read].to_json()))
    found = places(data)
    inside, key = found[where % len(found)]
    if drop:
        del inside[key]
    else:
        inside[key] = value
    try:
        item = read(data)
    except (InputError, GroupError):
        return
    # As text, since an info may hold a NaN, which equals nothing.
    assert json.dumps(read(item.to_json()).to_json()) == json.dumps(item.to_json())


def test_labels_belong_to_their_segments() -> None:
    assert RECORD.with_labels([]).roles == (None, None)
    assert RECORD.roles == ("E", None)
    for labels in (RECORD.labels[:1], RECORD.labels[::-1], (RECORD.labels[0], RoleLabel(2, "D"))):
        with pytest.raises(InputError, match="labels"):
            RECORD.with_labels(labels)


def test_a_group_holds_its_own_records_only() -> None:
    with pytest.raises(GroupError, match="'h'"):
        Group("h", (RECORD,))


def test_records_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        RECORD.score = 1.0  # type: ignore[misc]
