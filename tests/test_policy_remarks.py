"""Remarks: two bits a candidate, their start weights, and nothing of either in a run without retries."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.policies import make_policy
from triage_gym.trainers.policy.alfworld_features import AlfworldFeatures
from triage_gym.trainers.policy.features import PATTERN_BITS, PATTERNS, Register
from triage_gym.trainers.policy.grid_features import GridFeatures
from triage_gym.trainers.policy.hashed_features import HashedFeatures
from triage_gym.trainers.policy.remarks import PRIORS, WARNED, WARNED_HERE
from triage_gym.trainers.policy.shop_features import ShopFeatures
from triage_gym.trainers.policy.text_scorer import TextScorer

ROOM = "You are in the middle of a room. Looking quickly around you, you see a fridge 1, and a cabinet 2."
CLOSED = "The fridge 1 is closed."
MENU = ["go to fridge 1", "go to cabinet 2", "look"]


def every_kind(remarks: bool) -> list[Any]:
    return [AlfworldFeatures(30, remarks=remarks), HashedFeatures(remarks=remarks), GridFeatures(remarks=remarks)]


def warned(made: Any, memory: Any) -> list[int]:
    """The bits of remarks of each command of the menu."""
    keys = made.encode(memory, MENU, Register(made.tokens_per_command)).keys
    return [(key & (PATTERNS - 1)) >> (made.candidate_features - 2) for key in keys]


@pytest.mark.parametrize("kind", range(3))
def test_a_remark_marks_its_command_here_and_elsewhere(kind: int) -> None:
    made = every_kind(True)[kind]
    memory = made.begin("heat some cup and put it in fridge", ROOM)
    assert warned(made, memory) == [0, 0, 0]
    memory.advise("The fridge was closed.", ROOM, "go to fridge 1")
    assert warned(made, memory) == [WARNED | WARNED_HERE, 0, 0]
    memory.observe("look", CLOSED)
    assert warned(made, memory) == [WARNED, 0, 0]
    memory.advise("Looking again was no use.", CLOSED, "look")
    memory.advise("It never was.", ROOM, "look")
    assert warned(made, memory) == [WARNED, 0, WARNED | WARNED_HERE]
    memory.observe("look", ROOM)
    assert warned(made, memory) == [WARNED | WARNED_HERE, 0, WARNED | WARNED_HERE]


@pytest.mark.parametrize("kind", range(3))
def test_without_remarks_nothing_is_marked(kind: int) -> None:
    made = every_kind(False)[kind]
    memories = [made.begin("put some cup in fridge", ROOM) for _ in range(2)]
    memories[0].advise("The fridge was closed.", ROOM, "go to fridge 1")
    register = Register(made.tokens_per_command)
    first, second = (made.encode(memory, MENU, register).keys for memory in memories)
    assert first == second
    assert all(key & (PATTERNS - 1) < 1 << made.candidate_features for key in first)
    assert made.candidate_features + 2 == every_kind(True)[kind].candidate_features <= PATTERN_BITS


def test_what_a_remark_warns_of_is_less_likely_from_the_start() -> None:
    policy = TextScorer(AlfworldFeatures(30, remarks=True), width=16)
    plain, told = (policy.begin("put some cup in fridge", ROOM) for _ in range(2))
    told.advise("The fridge was closed.", ROOM, "go to fridge 1")
    steps = policy.gather([policy.act([plain, told], [MENU, MENU], None).raw])
    before, after = policy.log_probs(steps)
    odds = (after - after[1]) - (before - before[1])
    torch.testing.assert_close(odds, torch.tensor([sum(PRIORS), 0.0, 0.0]), rtol=0, atol=1e-5)


def test_only_the_weights_of_remarks_are_new() -> None:
    plain, told = (
        TextScorer(AlfworldFeatures(30, remarks=r), width=16, seed=3).net.state_dict() for r in (False, True)
    )
    assert plain.keys() == told.keys()
    for name, weights in plain.items():
        same = told[name] if name not in ("feature", "feature_bias") else told[name][..., :12]
        assert torch.equal(weights, same), name
    assert told["feature"].shape == (16, 14)
    assert (told["feature"][:, 12:] == 0).all()
    assert told["feature_bias"][12:].tolist() == list(PRIORS)


@pytest.mark.parametrize(
    ("changes", "remarks", "heads"),
    [
        ({}, False, set()),
        ({"attempts": 1}, False, set()),
        ({"attempts": 3}, True, {"pointer"}),
        ({"attempts": 3, "reflector": "value"}, True, {"value"}),
        ({"attempts": 3, "reflector": {"name": "value"}}, True, {"value"}),
        ({"attempts": 3, "reflector": "oracle"}, True, set()),
        ({"eval_attempts": 2}, True, {"pointer"}),
        ({"attempts": 3, "eval_attempts": 1}, True, {"pointer"}),
    ],
)
@pytest.mark.parametrize(
    ("env", "own"), [("alfworld", 12), ("minesweeper", 3), ("sokoban", 3), ("textworld", 6), ("webshop", 11)]
)
def test_a_run_gets_what_it_needs(changes: dict[str, Any], remarks: bool, heads: set[str], env: str, own: int) -> None:
    config = TrainConfig(env=env, credit="grpo", width=8, **changes)
    for policy in (make_policy(config), make_policy(config.resolved())):
        assert policy.net.feature.shape == (8, own + 2 * remarks)
        assert {name.partition(".")[0] for name, _ in policy.net.named_parameters() if "." in name} == heads


def test_policies_are_chosen_by_name() -> None:
    sizes = {name: make_policy(TrainConfig(env="webshop", policy=name, width=8)).net.state.shape[0] for name in
             ("auto", "generic", "grid", "alfworld", "shop")}  # fmt: skip
    assert sizes["auto"] == sizes["shop"] == ShopFeatures.states
    assert sizes["generic"] == HashedFeatures.states
    assert (sizes["grid"], sizes["alfworld"]) == (GridFeatures.states, AlfworldFeatures.states)
    by_id = make_policy(TrainConfig(env="triage/Sokoban-v0", width=8)).net.state.shape[0]
    assert by_id == GridFeatures.states


def test_a_run_without_retries_draws_the_weights_it_always_drew() -> None:
    """In this order from the seed alone: anything else is another start policy for every run there ever was."""
    net = make_policy(TrainConfig(width=16, seed=7)).net
    generator = torch.Generator().manual_seed(7)
    names = ["state", "bias", "up", "up_bias", "down", "token", "feature", "feature_bias"]
    assert [name for name, _ in net.named_parameters()] == names
    for name, std in (("state", 0.1), ("up", 0.25), ("down", 32**-0.5), ("token", 0.1), ("feature", 0.025)):
        drawn = torch.empty(net.get_parameter(name).shape).normal_(0.0, std, generator=generator)
        if name == "token":
            drawn[0] = 0.0
        assert torch.equal(net.get_parameter(name), drawn), name
