"""Values kept apart from an environment, compared exactly, hashed and put into words."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from triage_gym.errors import InputError
from triage_gym.records import RoleLabel
from triage_gym.restore.values import Kept, fingerprint, independent, same, same_state, text_of


def test_independent_copies_only_what_can_change() -> None:
    text, array, nested = "é\n", np.arange(3), {"a": [1]}
    assert independent(text) is text
    copied = independent(array)
    array[0] = 9
    assert copied.tolist() == [0, 1, 2]
    copied_nested = independent(nested)
    nested["a"].append(2)
    assert copied_nested == {"a": [1]}


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("x", "x", True),
        ("x", "y", False),
        ("x", b"x", False),
        (np.array([1, 2]), np.array([1, 2]), True),
        (np.array([1, 2]), np.array([1.0, 2.0]), False),
        (np.array([1.0]), np.array([1.0 + 1e-9]), False),
        ({"a": np.zeros(2)}, {"a": np.zeros(2)}, True),
        ((1, 2), [1, 2], False),
        (1, True, False),
    ],
)
def test_same_is_exact(a: object, b: object, equal: bool) -> None:
    assert same(a, b) is equal


def test_same_state_tells_true_from_one_and_falls_back_to_arrays() -> None:
    assert same_state({"b": 1, "a": [1, 2]}, {"a": [1, 2], "b": 1})
    assert not same_state({"a": 1}, {"a": True})
    assert not same_state({"a": 1}, {"a": 1.0})
    assert same_state({"a": np.arange(2)}, {"a": np.arange(2)})
    assert not same_state({"a": np.arange(2)}, {"a": np.arange(3)})


def test_text_of_is_json_for_what_is_not_text() -> None:
    assert text_of("Wörter\n") == "Wörter\n"
    assert text_of(np.int64(3)) == "3"
    assert text_of({"b": np.array([1, 2]), "a": (None, 0.5)}) == '{"a": [null, 0.5], "b": [1, 2]}'
    assert text_of(RoleLabel(1, "D")) == (
        '{"confidence": 1.0, "magnitude": 1.0, "probabilities": null, "role": "D", "source": "", '
        '"status": "judged", "step": 1, "why": ""}'
    )
    with pytest.raises(InputError, match="object"):
        text_of(object())


def test_fingerprint_tells_observations_and_states_apart_and_repeats_in_another_process() -> None:
    assert fingerprint("a") != fingerprint("b")
    assert fingerprint("a", {"x": 1}) != fingerprint("a", {"x": 2})
    assert fingerprint("a", {"x": 1, "y": 2}) == fingerprint("a", {"y": 2, "x": 1})
    code = "from triage_gym.restore.values import fingerprint; print(fingerprint('\\ud800 é', {'s': [1, 2]}))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert seen == {fingerprint("\ud800 é", {"s": [1, 2]})}


@pytest.mark.parametrize("value", [["a", "b"], {"a": 1, "b": None}, {"a": [1]}, [["a"], "b"], [], {}])
def test_independent_shares_nothing_that_can_be_written_to(value: Any) -> None:
    copied = independent(value)
    assert (copied, type(copied)) == (value, type(value))
    assert copied is not value
    inner = value[0] if isinstance(value, list) and value else value.get("a") if isinstance(value, dict) else None
    if isinstance(inner, list):
        assert (copied[0] if isinstance(value, list) else copied["a"]) is not inner


class Handle:
    """Cannot be pickled, but copied."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __getstate__(self) -> Any:
        raise TypeError("a handle")

    def __deepcopy__(self, memo: Any) -> Handle:
        return Handle(self.number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and self.number == other.number

    def __hash__(self) -> int:
        return self.number


@pytest.mark.parametrize(
    ("make", "other"),
    [
        (lambda: {"at": (1, 2), "seen": {3, 4}}, {"at": (1, 2), "seen": {3}}),
        (lambda: {"a": 1, "b": [1.0]}, {"b": [1], "a": 1}),
        (lambda: np.arange(3), np.arange(4)),
        (lambda: [Handle(3)], [Handle(4)]),
    ],
)
def test_a_kept_state_comes_out_new_each_time_and_tells_others_apart(make: Any, other: Any) -> None:
    value = make()
    kept = Kept(value)
    if isinstance(value, dict):
        value["later"] = True
    first, second = kept.value(), kept.value()
    assert first is not second
    assert same(first, make()) or first == make()
    assert type(first) is type(make())
    assert kept.same_as(make())
    assert not kept.same_as(other)


def test_the_order_of_keys_makes_no_other_state() -> None:
    assert Kept({"a": 1, "b": 2}).same_as({"b": 2, "a": 1})
