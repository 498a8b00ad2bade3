"""The learning step on numbers worked out by hand, its gradients, and what it does when numbers are not finite."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from safetensors.torch import load_file

from triage_gym.errors import CheckpointError, TrainingError
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.grpo import Learner, loss
from triage_gym.trainers.policy.alfworld_features import AlfworldFeatures
from triage_gym.trainers.policy.network import MASKED, mask
from triage_gym.trainers.policy.protocol import Steps
from triage_gym.trainers.policy.text_scorer import TextScorer

MENU = ["go to cabinet 1", "go to fridge 1", "open fridge 1", "look"]


def log(*rows: list[float]) -> Any:
    return torch.tensor(rows, dtype=torch.float64).log()


def test_loss_on_hand_numbers() -> None:
    """Two rows of two candidates, the first taken in both; old probabilities .5 and .5, clip .2, A = +1 and -1.

    Row 0: p = .8, ratio 1.6, clipped 1.2:  min(1.6, 1.2) = 1.2.   Row 1: p = .3, ratio .6, clipped .8:
    min(-.6, -.8) = -.8.  Policy loss -(1.2 - .8)/2 = -.2.  H = (-.8 ln .8 - .2 ln .2 - .3 ln .3 - .7 ln .7)/2.
    KL to the uniform start = ln 2 - H of each row, so their mean is ln 2 - H.
    """
    found = loss(
        log([0.8, 0.2], [0.3, 0.7]),
        torch.tensor([0, 0]),
        log([0.5, 0.5])[0],
        torch.tensor([1.0, -1.0], dtype=torch.float64),
        clip=0.2,
        entropy=0.1,
        kl=0.5,
        start_log_probs=log([0.5, 0.5], [0.5, 0.5]),
    )
    h = -(0.8 * math.log(0.8) + 0.2 * math.log(0.2) + 0.3 * math.log(0.3) + 0.7 * math.log(0.7)) / 2
    assert float(found.policy) == pytest.approx(-0.2, abs=1e-12)
    assert float(found.entropy) == pytest.approx(h, abs=1e-12)
    assert float(found.kl) == pytest.approx(math.log(2) - h, abs=1e-12)
    assert float(found.total) == pytest.approx(-0.2 - 0.1 * h + 0.5 * (math.log(2) - h), abs=1e-12)
    assert float(found.clip_fraction) == 1.0
    assert float(found.approx_kl) == pytest.approx((0.6 - math.log(1.6) + (-0.4) - math.log(0.6)) / 2, abs=1e-12)


@pytest.mark.parametrize(
    ("p", "advantage", "moves"),
    [(0.8, 1.0, False), (0.55, 1.0, True), (0.3, 1.0, True), (0.3, -1.0, False), (0.55, -1.0, True), (0.8, -1.0, True)],
)
def test_the_clip_stops_only_what_has_gone_too_far(p: float, advantage: float, moves: bool) -> None:
    scores = torch.tensor([[math.log(p / (1 - p)), 0.0]], dtype=torch.float64, requires_grad=True)
    found = loss(
        scores.log_softmax(1),
        torch.tensor([0]),
        log([0.5])[0],
        torch.tensor([advantage], dtype=torch.float64),
        clip=0.2,
        entropy=0.0,
    )
    found.total.backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    assert bool(scores.grad.abs().sum() > 0) is moves
    if moves:
        assert float(scores.grad[0, 0]) * advantage < 0  # descent raises what was good and lowers what was bad


def test_padding_gets_no_gradient_and_adds_nothing() -> None:
    scores = torch.randn((3, 5), dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    counts = torch.tensor([5, 3, 1])
    masked = mask(scores, counts)
    assert (masked[1, 3:] == MASKED).all()
    log_probs = masked.log_softmax(1)
    uniform = torch.full((3, 5), math.log(0.2), dtype=torch.float64)
    found = loss(
        log_probs,
        torch.tensor([4, 2, 0]),
        torch.zeros(3, dtype=torch.float64),
        torch.tensor([1.0, -1.0, 2.0], dtype=torch.float64),
        clip=0.2,
        entropy=0.3,
        kl=0.2,
        start_log_probs=uniform,
    )
    found.total.backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    assert torch.isfinite(found.total)
    assert (scores.grad[torch.arange(5) >= counts[:, None]] == 0).all()
    assert (scores.grad[2] == 0).all()  # a single candidate can only be taken
    assert (scores.grad[0] != 0).all()
    row, full = log_probs[1, :3].detach(), log_probs[0].detach()
    assert float(found.entropy.detach()) * 3 == pytest.approx(
        float(-(row.exp() * row).sum() - (full.exp() * full).sum()), abs=1e-12
    )


def batch(n: int = 40, seed: int = 0) -> tuple[TextScorer, Steps]:
    policy = TextScorer(AlfworldFeatures(30), width=16, seed=seed)
    memory = policy.begin("put a cup in fridge", "put a cup in fridge")
    raw = policy.act([memory] * n, [MENU] * n, np.random.default_rng(seed)).raw
    return policy, policy.gather([raw])


def learner(policy: TextScorer, path: Path, **changes: Any) -> Learner:
    made = Learner(policy, TrainConfig(**{"minibatch": 16, "entropy": 0.0, **changes}), path / "skipped")
    made.keep_start()
    return made


def test_learning_raises_what_was_good_and_lowers_what_was_bad(tmp_path: Path) -> None:
    policy, steps = batch()
    advantages = torch.where(steps.choices == 2, 1.0, -1.0)
    before = policy.log_probs(steps).exp()[0].detach()
    found = learner(policy, tmp_path).update(steps, advantages, np.random.default_rng(0))
    after = policy.log_probs(steps).exp()[0].detach()
    assert after[2] > before[2]
    assert (after[:2] < before[:2]).all()
    assert found["skipped"] == 0
    assert found["kl"] is None
    assert all(math.isfinite(found[name]) for name in ("loss", "policy_loss", "entropy", "approx_kl", "grad_norm"))


def test_zero_advantages_change_nothing(tmp_path: Path) -> None:
    policy, steps = batch()
    before = {k: v.clone() for k, v in policy.net.state_dict().items()}
    learner(policy, tmp_path).update(steps, torch.zeros(len(steps)), np.random.default_rng(0))
    assert all(torch.equal(v, before[k]) for k, v in policy.net.state_dict().items())


def test_segments_weigh_alike_whatever_the_minibatches(tmp_path: Path) -> None:
    """One pass in one minibatch equals the gradient of the mean over all rows."""
    policy, steps = batch()
    advantages = torch.linspace(-1, 1, len(steps))
    expected = -(
        advantages * torch.exp(policy.log_probs(steps).gather(1, steps.choices[:, None])[:, 0] - steps.old_log_probs)
    ).mean()
    found = learner(policy, tmp_path, minibatch=1000, epochs=1).update(steps, advantages, np.random.default_rng(0))
    assert found["policy_loss"] == pytest.approx(float(expected.detach()), abs=1e-5)


def test_the_kl_term_holds_on_to_the_start(tmp_path: Path) -> None:
    moved = []
    for kl in (0.0, 5.0):
        policy, steps = batch()
        made = learner(policy, tmp_path, kl=kl, lr=1e-2)
        start = policy.log_probs(steps).exp()[0].detach()
        advantages = torch.where(steps.choices == 2, 1.0, -1.0)
        for i in range(8):
            found = made.update(steps, advantages, np.random.default_rng(i))
        moved.append(float((policy.log_probs(steps).exp()[0].detach() - start).abs().sum()))
        assert (found["kl"] is None) == (kl == 0.0)
    assert moved[1] < 0.5 * moved[0]


def test_a_step_that_is_not_finite_is_not_taken_and_is_written_down(tmp_path: Path) -> None:
    policy, steps = batch(32)
    advantages = torch.ones(32)
    advantages[5] = float("nan")
    before = {k: v.clone() for k, v in policy.net.state_dict().items()}
    found = learner(policy, tmp_path, minibatch=32, epochs=2).update(steps, advantages, np.random.default_rng(0), 7)
    assert found["skipped"] == 2
    assert found["loss"] is None
    assert all(torch.equal(v, before[k]) for k, v in policy.net.state_dict().items())
    names = sorted(p.name for p in (tmp_path / "skipped").iterdir())
    assert names == [f"update_00000007_{i}.{kind}" for i in (1, 2) for kind in ("json", "safetensors")]
    dumped = load_file(tmp_path / "skipped" / names[1])
    assert int(torch.isnan(dumped["advantages"]).sum()) == 1
    assert dumped["words"].shape == steps.words.shape
    why = json.loads((tmp_path / "skipped" / names[0]).read_text())
    assert why == {
        "update": 7,
        "loss": "nan",
        "grad_norm": "nan",
        "finite_advantages": False,
        "weights_not_finite": [],
    }


def test_an_infinite_gradient_is_caught_too(tmp_path: Path) -> None:
    policy, steps = batch(16)
    with torch.no_grad():
        policy.net.up[0, 0] = float("inf")
    found = learner(policy, tmp_path, epochs=1).update(steps, torch.ones(16), np.random.default_rng(0))
    assert found["skipped"] == 1
    why = json.loads((tmp_path / "skipped" / "update_00000000_1.json").read_text())
    assert why["weights_not_finite"] == ["up"]


def test_the_third_in_a_row_ends_the_run_and_a_good_one_starts_the_count_anew(tmp_path: Path) -> None:
    policy, steps = batch(16)
    made = learner(policy, tmp_path, epochs=1)
    bad, rng = torch.full((16,), float("inf")), np.random.default_rng(0)
    for _ in range(3):
        made.update(steps, bad, rng)
        made.update(steps, bad, rng)
        assert made.update(steps, torch.zeros(16), rng)["skipped"] == 0
    made.update(steps, bad, rng)
    made.update(steps, bad, rng)
    with pytest.raises(TrainingError, match="3 gradient steps in a row"):
        made.update(steps, bad, rng)


@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_the_learner_goes_on_from_its_state(tmp_path: Path, kl: float) -> None:
    policy, steps = batch()
    made = learner(policy, tmp_path, kl=kl)
    advantages = torch.linspace(-1, 1, len(steps))
    made.update(steps, advantages, np.random.default_rng(0))
    weights = {k: v.clone() for k, v in policy.net.state_dict().items()}
    saved = {k: v.clone() for k, v in made.state().items()}
    made.update(steps, advantages, np.random.default_rng(1))

    other, _ = batch(seed=9)
    other.net.load_state_dict(weights)
    again = learner(other, tmp_path, kl=kl)
    again.load_state(saved)
    again.update(steps, advantages, np.random.default_rng(1))
    assert all(torch.equal(a, b) for a, b in zip(policy.net.parameters(), other.net.parameters(), strict=True))
    assert sorted(again.state()) == sorted(made.state())


def test_foreign_optimiser_tensors_are_refused(tmp_path: Path) -> None:
    policy, _ = batch()
    with pytest.raises(CheckpointError, match=r"layer\.exp_avg"):
        learner(policy, tmp_path).load_state({"layer.exp_avg": torch.zeros(2)})
