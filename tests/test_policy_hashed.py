"""Hashed words: what the candidate features say, and what stands beside a command in the observation."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from triage_gym.trainers.policy.features import PATTERN_BITS, PATTERNS, Register
from triage_gym.trainers.policy.hashed_features import ALL_IN_TASK, IN_OBSERVATION, IN_TASK, HashedFeatures

TASK = "i want a natural oak shelf, and price lower than 40.00 dollars"
PAGE = "Results [SEP] B01 [SEP] Shelf in Natural Oak [SEP] $30 [SEP] B02 [SEP] Blue Chair [SEP] $20 [SEP] Buy Now"


def encode(task: str, observation: str, commands: list[str]) -> list[tuple[int, set[int]]]:
    """Bits and tokens of each command."""
    made = HashedFeatures()
    register = Register(made.tokens_per_command)
    keys = made.encode(made.begin(task, observation), commands, register).keys
    rows = register.tokens(np.array([key >> PATTERN_BITS for key in keys]))
    return [(key & (PATTERNS - 1), set(row.tolist()) - {0}) for key, row in zip(keys, rows, strict=True)]


def test_marks_are_no_words_of_a_command() -> None:
    found = encode(TASK, PAGE, ["click[natural oak]", "click[natural pine]", "click[b02]", "look", "take shelf"])
    assert [bits for bits, _ in found] == [
        IN_TASK | ALL_IN_TASK | IN_OBSERVATION,
        IN_TASK | IN_OBSERVATION,
        IN_OBSERVATION,
        0,
        IN_TASK | ALL_IN_TASK | IN_OBSERVATION,
    ]


def test_what_stands_beside_a_command_is_compared_with_the_task() -> None:
    """Beside B01 stand three words of the task, natural, oak and shelf, more than beside any other; beside B02 none."""
    commands = ["click[b01]", "click[b02]", "click[buy now]", "click[other]"]
    without = encode(TASK, "Results", commands)
    found = encode(TASK, PAGE, commands)
    new = [tokens - plain for (_, tokens), (_, plain) in zip(found, without, strict=True)]
    assert [len(tokens) for tokens in new] == [1, 1, 0, 0]
    swapped = encode("i want a blue chair in blue", PAGE, commands)
    assert new[1] != {*swapped[1][1]} - without[1][1]
    same = encode("some natural oak shelf", PAGE, commands)
    assert same[0][1] - without[0][1] == new[0]
    lines = encode(TASK, PAGE.replace(" [SEP] ", "\n"), commands)
    assert [tokens for _, tokens in lines] == [tokens for _, tokens in found]
