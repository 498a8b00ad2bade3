"""Two small heads on the scorer network: a pointer at the turn that a failed attempt should be retried from, and values.

The *pointer* is the policy's own reflection: given the decisions of one attempt it is a distribution over its turns, so
that naming a turn is an action with a probability that can be trained. It sees each turn by itself: the hidden state, the
command taken (its embedding and candidate features), how likely and how open the decision was, and how far the end is. It
shares the policy's network, into which its gradient flows. Its last layer begins at 0: every turn is equally likely then.

The *value* head estimates the outcome from the hidden state, of which it changes nothing. It begins at 0.

Both are made on demand only, and the weights of the rest do not depend on whether they are there. What they are rewarded
with or fitted to is left to the learner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from triage_gym.errors import InputError
from triage_gym.trainers.policy.network import MASKED

HEADS: Final = ("pointer", "value")
"""The heads there are."""
_HIDDEN: Final = 32
_NEAR: Final = 4
"""Turns before the end that are told apart: the last one, and those 1, 2 and 3 before it."""
_FACTS: Final = 3 + _NEAR
"""Log-probability, entropy, share of the attempt that is over, and one of the last four turns."""
_SEED: Final = 0x7269
"""Added to the policy's seed, so that the heads draw other numbers than the network."""


class Head(nn.Module):
    """One number for each input, by one hidden layer; 0 for all at the start.

    Args:
        inputs: Size of an input.
        generator: Source of the initial weights.
    """

    def __init__(self, inputs: int, generator: torch.Generator) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.empty(inputs, _HIDDEN))
        self.up_bias = nn.Parameter(torch.zeros(_HIDDEN))
        self.down = nn.Parameter(torch.zeros(_HIDDEN))
        self.down_bias = nn.Parameter(torch.zeros(()))
        with torch.no_grad():
            self.up.normal_(0.0, inputs**-0.5, generator=generator)

    def forward(self, inputs: Tensor) -> Tensor:
        """``(n,)`` of ``(n, inputs)``."""
        hidden = torch.relu(torch.addmm(self.up_bias, inputs, self.up))
        return torch.addmv(self.down_bias, hidden, self.down)


def add_heads(net: nn.Module, names: Sequence[str], width: int, features: int, seed: int) -> None:
    """Put heads on ``net``, as modules of their names.

    Raises:
        InputError: For a name that is none of :data:`HEADS`, or one that is given twice.
    """
    if set(names) - set(HEADS) or len(set(names)) != len(names):
        raise InputError(f"Expected heads out of {HEADS}, each once, got {tuple(names)}")
    sizes = {"pointer": 2 * width + features + _FACTS, "value": width}
    for index, name in enumerate(HEADS):
        if name in names:
            generator = torch.Generator().manual_seed((seed + _SEED) * len(HEADS) + index)
            net.add_module(name, Head(sizes[name], generator))


def check_turns(turns: Tensor, decisions: int) -> Tensor:
    """``(M, T)`` of bool, where ``turns`` names a row.

    Raises:
        InputError: Unless ``turns`` holds rows of ``decisions`` decisions, padded with -1 behind, at least one an attempt.
    """
    if turns.dtype != torch.int64 or turns.dim() != 2 or turns.numel() == 0:
        raise InputError(f"Expected turns (M, T) of int64, got {tuple(turns.shape)} of {turns.dtype}")
    real = turns >= 0
    low, high = int(turns.min()), int(turns.max())
    if low < -1 or high >= decisions or not bool(real[:, 0].all()) or bool((real[:, 1:] & ~real[:, :-1]).any()):
        raise InputError(
            f"Expected rows of {decisions} decisions, at least one an attempt and padded with -1 behind, got numbers "
            f"from {low} to {high}, or padding before a row"
        )
    return real


def turn_facts(log_probs: Tensor, entropies: Tensor, real: Tensor) -> Tensor:
    """``(n, 7)`` facts of the ``n`` turns that are ``real``, attempt by attempt.

    Args:
        log_probs: ``(n,)`` of the commands taken.
        entropies: ``(n,)`` of the decisions.
        real: ``(M, T)``.
    """
    lengths = real.sum(1, keepdim=True)
    at = torch.arange(real.shape[1], device=real.device).expand_as(real)
    to_end = (lengths - 1 - at)[real]
    over = ((at + 1) / lengths)[real]
    near = nn.functional.one_hot(to_end.clamp(max=_NEAR), _NEAR + 1)[:, :_NEAR]
    return torch.cat([torch.stack([log_probs, entropies, over], 1), near], 1)


def pointer_log_probs(scores: Tensor, real: Tensor) -> Tensor:
    """``(M, T)`` log-probabilities of the turns from the scores ``(n,)`` of the real ones; padding is about -1e9."""
    out = torch.full(real.shape, MASKED, device=scores.device)
    return out.masked_scatter(real, scores).log_softmax(1)


def sample_pivots(log_probs: Tensor, rng: np.random.Generator | None) -> tuple[NDArray[np.int64], Tensor]:
    """Turns drawn from ``log_probs``, one number of ``rng`` an attempt, and their log-probabilities.

    Args:
        log_probs: ``(M, T)`` of ``Policy.pivot_log_probs``.
        rng: Source of randomness; None takes the likeliest turn, of equally likely ones the earliest.

    Returns:
        ``(M,)`` positions in the attempts, and ``(M,)`` log-probabilities, differentiable where ``log_probs`` is.
    """
    if rng is None:
        pivots = log_probs.detach().cpu().numpy().argmax(1)
    else:
        pivots = sample(log_probs.detach().cpu().numpy(), rng)
    chosen = torch.from_numpy(pivots).to(log_probs.device)
    return pivots, log_probs.gather(1, chosen.unsqueeze(1)).squeeze(1)


def sample(log_probs: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.int64]:
    """``(n,)`` columns, each by one uniform number through the inverse of the cumulative distribution of its row."""
    cumulative = np.exp(log_probs, dtype=np.float64).cumsum(1)
    drawn = rng.random(len(log_probs)) * cumulative[:, -1]
    # A number next to 1 may round up to the total, which would point behind the last column.
    drawn = np.minimum(drawn, np.nextafter(cumulative[:, -1], 0.0))
    out: NDArray[np.int64] = (cumulative <= drawn[:, None]).sum(1)
    return out
