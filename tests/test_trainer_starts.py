"""Start policies handed to runs that retry more, or less, than the run they were made for."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from trainer_runs import small

from triage_gym.errors import CheckpointError
from triage_gym.trainers.evaluation import load_start
from triage_gym.trainers.policies import make_policy
from triage_gym.trainers.pretraining import make_start

PLAIN: dict[str, Any] = {"credit": "grpo", "attempts": 1, "eval_attempts": 1}
POINTER: dict[str, Any] = {"credit": "pivoarl"}
VALUE: dict[str, Any] = {"credit": "grpo", "attempts": 2, "reflector": "value"}


@cache
def cloned(*changes: tuple[str, Any]) -> dict[str, torch.Tensor]:
    """Weights of the start that a run makes for itself."""
    return make_start(small(**dict(changes)).resolved())[0].net.state_dict()


@pytest.mark.parametrize("made_for", [PLAIN, POINTER, VALUE])
@pytest.mark.parametrize("given_to", [PLAIN, POINTER, VALUE])
def test_a_start_is_the_same_whichever_run_it_was_made_for(made_for: dict[str, Any], given_to: dict[str, Any]) -> None:
    policy = make_policy(small(**given_to).resolved())
    load_start(policy, cloned(*made_for.items()))
    expected = cloned(*given_to.items())
    assert policy.net.state_dict().keys() == expected.keys()
    for name, value in policy.net.state_dict().items():
        assert torch.equal(value, expected[name]), name


def test_a_start_of_another_network_is_still_refused() -> None:
    start, _ = make_start(small(demos=0, width=8).resolved())
    with pytest.raises(CheckpointError, match="other"):
        load_start(make_policy(small(**POINTER).resolved()), start.net.state_dict())
