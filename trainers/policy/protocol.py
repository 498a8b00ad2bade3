"""What the trainer asks of a policy, and the arrays that pass between them.

A policy scores the admissible commands of many live episodes at once. For each episode it keeps a *memory* (pure text
history, never the environment's state). :meth:`Policy.act` returns the chosen commands and, as :class:`Steps`, all that
is needed to compute their probabilities again under other weights; the trainer keeps those and hands back any subset of
them to :meth:`Policy.log_probs`.

Shapes: ``B`` decisions (rows), ``S`` size of the state vocabulary, ``W`` state words that are on (padded), ``K`` candidates (padded), ``U`` distinct commands, ``T`` tokens a
command, ``P`` distinct feature patterns, ``F`` features a candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Memory(Protocol):
    """What a policy remembers of one episode."""

    def observe(self, action: str, observation: str) -> None:
        """Take in the answer to the action just sent."""
        ...

    def advise(self, remark: str, observation: str, action: str) -> None:
        """Take in a remark on a failed attempt of the same trial; any number of them may come, at any time.

        A policy made without remarks takes them in too, and has no use for them.

        Args:
            remark: Its words.
            observation: What was seen at the turn that it names.
            action: What was sent there.
        """
        ...


@dataclass(frozen=True, slots=True)
class Steps:
    """Decisions as arrays."""

    words: Tensor
    """``(B, W)`` int64, the state words that are on, each once; padded with the size of the vocabulary."""
    commands: Tensor
    """``(B, K)`` int64, number of each candidate command in ``tokens``; padded with 0."""
    patterns: Tensor
    """``(B, K)`` int64, number of each candidate's feature pattern in ``features``; padded with 0."""
    counts: Tensor
    """``(B,)`` int64, candidates of each row."""
    choices: Tensor
    """``(B,)`` int64, the candidate taken."""
    old_log_probs: Tensor
    """``(B,)`` float32, its log-probability under the policy that acted."""
    tokens: Tensor
    """``(U, T)`` int64, token numbers of each distinct command; 0 is padding."""
    features: Tensor
    """``(P, F)`` float32 of 0 and 1, each distinct pattern of candidate features."""

    def __len__(self) -> int:
        return int(self.choices.shape[0])

    def take(self, rows: Tensor) -> Steps:
        """The decisions at ``rows``, in that order; the tables are shared."""
        return Steps(
            self.words[rows],
            self.commands[rows],
            self.patterns[rows],
            self.counts[rows],
            self.choices[rows],
            self.old_log_probs[rows],
            self.tokens,
            self.features,
        )

    def tensors(self) -> dict[str, Tensor]:
        """Every array by name, for a dump."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class Decision:
    """What :meth:`Policy.act` decided for each live episode."""

    commands: list[str]
    """The command to send, an episode each."""
    raw: RawSteps
    """The same decisions for learning, not yet gathered into one :class:`Steps`."""


@dataclass(frozen=True, slots=True)
class RawSteps:
    """Decisions of one moment, before equal commands and patterns of a batch are numbered together."""

    words: NDArray[np.int64]
    """``(n, W)`` state words that are on; -1 pads."""
    keys: NDArray[np.int64]
    """``(n, K)`` command number in the policy's own register and pattern, as one integer; -1 pads."""
    choices: Tensor
    """``(n,)`` int64."""
    log_probs: Tensor
    """``(n,)`` float32."""


class Policy(Protocol):
    """A policy that the built-in trainer can train. ``copy.deepcopy`` must copy it: the KL term keeps the start policy."""

    @property
    def net(self) -> torch.nn.Module:
        """The weights."""
        ...

    def begin(self, task: str, observation: str) -> Memory:
        """The memory of a new episode."""
        ...

    def act(
        self,
        memories: Sequence[Memory],
        admissible: Sequence[Sequence[str]],
        rng: np.random.Generator | None,
        forced: Sequence[str] | None = None,
    ) -> Decision:
        """Choose a command for each live episode.

        Args:
            memories: One an episode.
            admissible: The commands that each may send.
            rng: Source of randomness, one number an episode; None takes the likeliest command.
            forced: Commands to take instead of choosing, when demonstrations are being recorded.
        """
        ...

    def gather(self, parts: Iterable[RawSteps]) -> Steps:
        """One :class:`Steps` of many moments, in order."""
        ...

    def log_probs(self, steps: Steps) -> Tensor:
        """``(B, K)`` log-probabilities of all candidates, differentiable; padding is about -1e9, probability 0."""
        ...

    def weights_changed(self) -> None:
        """Called after each change of the weights: whatever was computed from the old ones is stale."""
        ...

    def entropies(self, steps: Steps) -> Tensor:
        """``(B,)`` entropies of the decisions in nats, without gradient."""
        ...

    def values(self, steps: Steps) -> Tensor:
        """``(B,)`` estimates of the outcome before each decision; their gradient changes nothing but the head.

        Raises:
            InputError: When the policy was made without such a head.
        """
        ...

    def pivot_log_probs(self, steps: Steps, turns: Tensor) -> Tensor:
        """Log-probabilities of naming each turn of some attempts as the one to retry from, differentiable.

        Args:
            steps: Decisions, ``B`` of them.
            turns: ``(M, T)`` int64, the rows of each attempt's decisions, all of them in order; -1 pads behind.

        Returns:
            ``(M, T)``; padding is about -1e9, probability 0.

        Raises:
            InputError: When the policy was made without such a head, or ``turns`` has another form.
        """
        ...
