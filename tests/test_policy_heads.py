"""The heads: a pointer over the turns of attempts that can be trained, values, and weights that they leave alone."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from torch import Tensor

from triage_gym.errors import InputError
from triage_gym.trainers import checkpoint
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.grpo import Learner
from triage_gym.trainers.policy.alfworld_features import STATE_WORDS, AlfworldFeatures
from triage_gym.trainers.policy.heads import HEADS, sample_pivots
from triage_gym.trainers.policy.protocol import Steps
from triage_gym.trainers.policy.text_scorer import TextScorer

ROOM = "You are in the middle of a room. Looking quickly around you, you see a fridge 1, and a cabinet 2."
MENU = ["go to fridge 1", "go to cabinet 2", "look", "inventory"]


def scorer(*heads: str, seed: int = 0) -> TextScorer:
    return TextScorer(AlfworldFeatures(30), width=16, seed=seed, heads=heads)


def attempts(policy: TextScorer, lengths: list[int], marked: dict[int, int] | None = None) -> tuple[Steps, Tensor]:
    """Random attempts of such lengths, turn by turn as in a vector; at the marked turn of each, the command is to look."""
    rng = np.random.default_rng(sum(lengths))
    memories = [policy.begin("put some cup in fridge", ROOM) for _ in lengths]
    turns = torch.full((len(lengths), max(lengths)), -1)
    parts, row = [], 0
    for turn in range(max(lengths)):
        for i, memory in enumerate(memories):
            if turn < lengths[i]:
                own = MENU[2] if marked and marked[i] == turn else MENU[int(rng.integers(2))]
                parts.append(policy.act([memory], [MENU], None, forced=[own]).raw)
                memory.observe(own, "Nothing happens." if rng.random() < 0.5 else ROOM)
                turns[i, turn] = row
                row += 1
    return policy.gather(parts), turns


def test_every_turn_is_equally_likely_at_first_and_padding_never_is() -> None:
    policy = scorer("pointer")
    steps, turns = attempts(policy, [3, 1, 5])
    found = policy.pivot_log_probs(steps, turns).exp()
    expected = [[1 / 3] * 3 + [0, 0], [1, 0, 0, 0, 0], [0.2] * 5]
    torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=1e-6)
    assert (found[turns < 0] == 0).all()


def disturbed(policy: TextScorer) -> TextScorer:
    """The same policy with heads that tell turns apart."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name in HEADS:
            if hasattr(policy.net, name):
                policy.net.get_parameter(f"{name}.down").normal_(0.0, 1.0, generator=generator)
    return policy


def test_an_attempt_does_not_depend_on_its_neighbours() -> None:
    policy = disturbed(scorer("pointer"))
    steps, turns = attempts(policy, [3, 1, 5])
    together = policy.pivot_log_probs(steps, turns)
    for row, length in enumerate([3, 1, 5]):
        alone = policy.pivot_log_probs(steps, turns[row : row + 1, :length])
        torch.testing.assert_close(alone[0], together[row, :length], rtol=0, atol=1e-5)
    swapped = policy.pivot_log_probs(steps, turns.flip(0))
    torch.testing.assert_close(swapped.flip(0), together, rtol=0, atol=1e-5)
    assert float(together[2].detach().std()) > 0.01


def test_the_gradient_of_the_pointer_reaches_the_network_and_that_of_values_does_not() -> None:
    policy = disturbed(scorer("pointer", "value"))
    steps, turns = attempts(policy, [3, 4])
    policy.values(steps).sum().backward()
    grads = {name for name, p in policy.net.named_parameters() if p.grad is not None}
    assert grads == {"value.up", "value.up_bias", "value.down", "value.down_bias"}
    policy.net.zero_grad(set_to_none=True)
    policy.pivot_log_probs(steps, turns)[:, 0].sum().backward()
    for name in ("state", "token", "up", "pointer.up", "pointer.down"):
        grad = policy.net.get_parameter(name).grad
        assert grad is not None, name
        assert float(grad.abs().sum()) > 0, name
    assert policy.net.get_parameter("value.up").grad is None


def test_values_begin_at_nothing_and_fit_outcomes() -> None:
    policy = scorer("value")
    steps, _ = attempts(policy, [4] * 8)
    assert (policy.values(steps) == 0).all()
    goal = (steps.words == STATE_WORDS.index("did at:fridge")).any(1).float()  # the command before led to the fridge
    assert 0.1 < float(goal.mean()) < 0.9
    optimizer = torch.optim.Adam(policy.net.parameters(), lr=0.01)
    before = parameters(policy)
    for _ in range(200):
        loss = ((policy.values(steps) - goal) ** 2).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.1 * float(goal.var())
    after = parameters(policy)
    assert all(torch.equal(before[n], after[n]) for n in before if not n.startswith("value."))


def test_entropies_are_exact_and_have_no_gradient() -> None:
    policy = scorer()
    steps, _ = attempts(policy, [2, 3])
    probs = policy.log_probs(steps).exp().detach().double()
    expected = -torch.special.xlogy(probs, probs).sum(1)
    found = policy.entropies(steps)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)
    assert not found.requires_grad


@pytest.mark.parametrize("goal", ["last", "first", "marked"])
def test_the_pointer_learns_from_rewards_alone(goal: str) -> None:
    """REINFORCE: 1 for naming the turn, 0 for another, of attempts of two to nine turns; then on attempts never seen."""
    policy = scorer("pointer")
    optimizer = torch.optim.Adam(policy.net.parameters(), lr=3e-3)
    rng = np.random.default_rng(0)

    def batch(n: int) -> tuple[Steps, Tensor, np.ndarray[Any, Any]]:
        lengths = rng.integers(2, 10, n).tolist()
        marked = {i: int(rng.integers(length)) for i, length in enumerate(lengths)}
        wanted = {"last": [x - 1 for x in lengths], "first": [0] * n, "marked": list(marked.values())}[goal]
        return (*attempts(policy, lengths, marked), np.array(wanted))

    batches = [batch(32) for _ in range(8)]
    for update in range(240):
        steps, turns, wanted = batches[update % len(batches)]
        log_probs = policy.pivot_log_probs(steps, turns)
        pivots, taken = sample_pivots(log_probs, rng)
        reward = torch.from_numpy((pivots == wanted).astype(np.float32))
        loss = -((reward - reward.mean()) * taken).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    policy.weights_changed()
    steps, turns, wanted = batch(100)
    pivots, _ = sample_pivots(policy.pivot_log_probs(steps, turns), None)
    assert (pivots == wanted).mean() > 0.9


def test_pivots_are_drawn_with_their_probabilities() -> None:
    log_probs = torch.tensor([[0.5, 0.3, 0.2]]).log().repeat(4000, 1).requires_grad_()
    pivots, taken = sample_pivots(log_probs, np.random.default_rng(0))
    assert np.abs(np.bincount(pivots, minlength=3) / 4000 - [0.5, 0.3, 0.2]).max() < 0.03
    assert torch.equal(taken.detach(), log_probs.detach()[0, torch.from_numpy(pivots)])
    assert taken.requires_grad
    again, _ = sample_pivots(log_probs, np.random.default_rng(0))
    assert (pivots == again).all()
    likeliest, _ = sample_pivots(torch.tensor([[0.2, 0.4, 0.4], [0.9, 0.1, 0.0]]).log(), None)
    assert likeliest.tolist() == [1, 0]


def parameters(policy: TextScorer) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in policy.net.named_parameters()}


@pytest.mark.parametrize("heads", [("pointer",), ("value",), ("pointer", "value"), ("value", "pointer")])
def test_heads_change_no_other_weight_and_no_other_head(heads: tuple[str, ...]) -> None:
    plain, both, made = (parameters(scorer(*names, seed=5)) for names in ((), HEADS, heads))
    assert all(torch.equal(weights, made[name]) for name, weights in plain.items())
    assert all(torch.equal(weights, both[name]) for name, weights in made.items())
    assert {name.partition(".")[0] for name in made.keys() - plain.keys()} == set(heads)


def test_heads_go_through_checkpoints_with_their_optimiser(tmp_path: Path) -> None:
    config = TrainConfig(width=16, attempts=3)
    policy = disturbed(scorer("pointer", "value"))
    learner = Learner(policy, config, tmp_path / "skipped")
    steps, turns = attempts(policy, [3, 5])

    def step(policy: TextScorer, learner: Learner) -> None:
        learner.optimizer.zero_grad(set_to_none=True)
        (policy.values(steps).mean() - policy.pivot_log_probs(steps, turns)[:, 1].mean()).backward()
        learner.optimizer.step()

    step(policy, learner)
    checkpoint.save(tmp_path, 1, policy.net.state_dict(), learner.state(), {"update": 1}, keep=1)
    found = checkpoint.find(tmp_path)
    other = scorer("pointer", "value", seed=9)
    other.net.load_state_dict(found.weights)
    copied = copy.deepcopy(other)
    resumed = Learner(other, config, tmp_path / "skipped")
    resumed.load_state(found.optim)
    assert torch.equal(copied.pivot_log_probs(steps, turns), policy.pivot_log_probs(steps, turns))
    for _ in range(3):
        step(policy, learner)
        step(other, resumed)
    assert all(torch.equal(a, b) for a, b in zip(policy.net.parameters(), other.net.parameters(), strict=True))


@pytest.mark.parametrize(
    "turns", [[[0, 9]], [[-1, 0]], [[0, -1, 1]], [[-2, 0]], [[0], [-1]], [[]], [0, 1], [[0.0, 1.0]]]
)
def test_other_turns_are_refused(turns: Any) -> None:
    policy = scorer("pointer")
    steps, _ = attempts(policy, [3])
    with pytest.raises(InputError, match="Expected"):
        policy.pivot_log_probs(steps, torch.tensor(turns))


def test_missing_and_unknown_heads_are_named() -> None:
    policy = scorer()
    steps, turns = attempts(policy, [3])
    with pytest.raises(InputError, match="head 'pointer'"):
        policy.pivot_log_probs(steps, turns)
    with pytest.raises(InputError, match="head 'value'"):
        policy.values(steps)
    for heads in (("crown",), ("value", "value")):
        with pytest.raises(InputError, match="Expected heads out of"):
            scorer(*heads)
