"""The network of the built-in policies: a multi-hot state against commands made of a few tokens.

``h = x W + b;  h ← h + W₂ relu(W₁ h);  score(c) = h · Σ_t E[token_t(c)] + (V h + v) · f(c)``

where ``x`` is the multi-hot state, ``E`` the token table and ``f(c)`` a few features of the candidate that change during
the episode (tried before, goal object seen there, …). Equal commands and equal feature patterns of a batch are scored
once and picked by number, which is several times faster than scoring every candidate of every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor, nn

MASKED: Final = -1e9
"""Score of padding: its probability underflows to exactly 0, and 0 · log-probability stays 0, unlike with -inf."""


class ScorerNet(nn.Module):
    """Scores candidate commands in a state.

    Args:
        states: Size ``S`` of the state vocabulary.
        tokens: Size of the token vocabulary, padding (number 0) included.
        features: Features ``F`` a candidate.
        width: Size of the hidden state.
        generator: Source of the initial weights.
        priors: Start weights of the last of the features, which are the same in every state at first. The others are
            drawn as if these were not there.
    """

    def __init__(
        self,
        states: int,
        tokens: int,
        features: int,
        width: int,
        generator: torch.Generator,
        priors: Sequence[float] = (),
    ) -> None:
        super().__init__()
        self.state = nn.Parameter(torch.empty(states, width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.up = nn.Parameter(torch.empty(width, 2 * width))
        self.up_bias = nn.Parameter(torch.zeros(2 * width))
        self.down = nn.Parameter(torch.empty(2 * width, width))
        self.token = nn.Parameter(torch.empty(tokens, width))
        self.feature = nn.Parameter(torch.zeros(width, features))
        self.feature_bias = nn.Parameter(torch.zeros(features))
        own = features - len(priors)
        feature = torch.empty(width, own)
        with torch.no_grad():
            for weight, std in (
                (self.state, 0.1),
                (self.up, width**-0.5),
                (self.down, (2 * width) ** -0.5),
                (self.token, 0.1),
                (feature, 0.1 * width**-0.5),
            ):
                weight.normal_(0.0, std, generator=generator)
            self.token[0] = 0.0
            self.feature[:, :own] = feature
            self.feature_bias[own:] = torch.tensor(priors)

    def hidden(self, words: Tensor) -> Tensor:
        """``(B, width)`` of ``(B, W)`` state words, padded with ``S``."""
        h = torch.addmm(self.bias, self.multi_hot(words), self.state)
        return torch.addmm(h, torch.relu(torch.addmm(self.up_bias, h, self.up)), self.down)

    def multi_hot(self, words: Tensor) -> Tensor:
        """``(B, S)`` of ``(B, W)``. A dense product with it is faster than summing rows, forward and backward."""
        size = self.state.shape[0]
        out = torch.zeros((words.shape[0], size + 1), device=words.device)
        return out.scatter_(1, words, 1.0)[:, :size]

    def embed(self, tokens: Tensor) -> Tensor:
        """``(U, width)`` of ``(U, T)`` token numbers."""
        return nn.functional.embedding_bag(tokens, self.token, mode="sum", padding_idx=0)

    def feature_weights(self, hidden: Tensor) -> Tensor:
        """``(B, F)`` of ``(B, width)``: how much each candidate feature counts in this state."""
        return torch.addmm(self.feature_bias, hidden, self.feature)

    def forward(
        self, words: Tensor, commands: Tensor, patterns: Tensor, counts: Tensor, tokens: Tensor, features: Tensor
    ) -> Tensor:
        """``(B, K)`` log-probabilities; the arguments are those of :class:`~triage_gym.trainers.policy.protocol.Steps`."""
        h = self.hidden(words)
        scores = (h @ self.embed(tokens).T).gather(1, commands)
        scores = scores + (self.feature_weights(h) @ features.T).gather(1, patterns)
        return mask(scores, counts).log_softmax(1)


def mask(scores: Tensor, counts: Tensor) -> Tensor:
    """``scores`` with everything from candidate ``counts`` on set to :data:`MASKED`."""
    return scores.masked_fill(torch.arange(scores.shape[1], device=scores.device) >= counts.unsqueeze(1), MASKED)
