"""The built-in policy: scores the admissible commands of all live episodes in one pass of a small network.

It promises that the same weights, texts and random numbers give the same choices in every process, and that an episode's
choices depend on nothing but its own text (and its random number). Which numbers stand for the text is left to
:class:`~triage_gym.trainers.policy.features.Features`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from triage_gym.errors import InputError
from triage_gym.trainers.policy.features import PATTERN_BITS, PATTERNS, Features, Register, pattern_table
from triage_gym.trainers.policy.heads import add_heads, check_turns, pointer_log_probs, sample, turn_facts
from triage_gym.trainers.policy.network import ScorerNet, mask
from triage_gym.trainers.policy.protocol import Decision, Memory, RawSteps, Steps


class TextScorer:
    """A policy over admissible commands.

    Args:
        features: Turns text into numbers.
        width: Size of the hidden state.
        seed: Seed of the initial weights.
        device: torch device.
        heads: Names of further heads of the network: ``"pointer"``, ``"value"``. They change no other weight.

    Raises:
        InputError: For an unknown head.
    """

    def __init__(
        self,
        features: Features,
        *,
        width: int = 64,
        seed: int = 0,
        device: str = "cpu",
        heads: Sequence[str] = (),
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self._features = features
        self._register = Register(features.tokens_per_command)
        self._device = torch.device(device)
        count = features.candidate_features
        self.net = ScorerNet(features.states, features.tokens, count, width, generator, features.priors)
        add_heads(self.net, heads, width, count, seed)
        self.net.to(self._device)
        self._patterns = torch.from_numpy(pattern_table(features.candidate_features)).to(self._device)
        self._embedded = torch.zeros((0, width), device=self._device)
        self._fresh = np.zeros(0, bool)

    @property
    def reads_remarks(self) -> bool:
        """Whether remarks on failed attempts change what it does."""
        return bool(self._features.priors)

    def begin(self, task: str, observation: str) -> Memory:
        """The memory of a new episode."""
        return self._features.begin(task, observation)

    def act(
        self,
        memories: Sequence[Memory],
        admissible: Sequence[Sequence[str]],
        rng: np.random.Generator | None,
        forced: Sequence[str] | None = None,
    ) -> Decision:
        """Choose a command for each live episode; see :class:`~triage_gym.trainers.policy.protocol.Policy`.

        Raises:
            InputError: When an episode has no candidate, or a forced command is none.
        """
        encoded = [self._features.encode(m, a, self._register) for m, a in zip(memories, admissible, strict=True)]
        if not all(e.commands for e in encoded):
            raise InputError("Expected admissible commands to choose from, got none; does the environment list them?")
        words = _padded([e.state for e in encoded])
        keys = _padded([e.keys for e in encoded])
        with torch.inference_mode():
            log_probs = self._score(words, keys).cpu()
        if forced is not None:
            choices = torch.tensor([_index(e.commands, c) for e, c in zip(encoded, forced, strict=True)])
        elif rng is None:
            choices = log_probs.argmax(1)
        else:
            choices = torch.from_numpy(sample(log_probs.numpy(), rng))
        taken = log_probs.gather(1, choices.unsqueeze(1)).squeeze(1)
        commands = [e.commands[i] for e, i in zip(encoded, choices.tolist(), strict=True)]
        return Decision(commands, RawSteps(words, keys, choices, taken))

    def _score(self, words: NDArray[np.int64], keys: NDArray[np.int64]) -> Tensor:
        """``(n, K)`` log-probabilities; those of ``log_probs``, with embeddings kept while the weights stay."""
        commands, numbers, patterns, bits = self._tables(keys)
        embedded = self._embeddings(numbers)
        h = self.net.hidden(self._words(words))
        scores = (h @ embedded.T).gather(1, commands)
        scores += (self.net.feature_weights(h) @ self._patterns[bits].T).gather(1, patterns)
        return mask(scores, self._counts(keys)).log_softmax(1)

    def _words(self, words: NDArray[np.int64]) -> Tensor:
        """The same words with the network's padding."""
        return torch.from_numpy(np.where(words < 0, self._features.states, words)).to(self._device)

    def _counts(self, keys: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy((keys >= 0).sum(1)).to(self._device)

    def _tables(self, keys: NDArray[np.int64]) -> tuple[Tensor, NDArray[np.int64], Tensor, Tensor]:
        """Candidates by number in a table of distinct commands ``(U,)`` and one of distinct patterns ``(P,)``."""
        real = keys >= 0
        commands, patterns = keys >> PATTERN_BITS, keys & (PATTERNS - 1)
        numbers = self._register.ordered(_distinct(commands[real], len(self._register)))
        bits = _distinct(patterns[real], PATTERNS)
        at_command = _positions(commands, real, numbers, len(self._register))
        at_pattern = _positions(patterns, real, bits, PATTERNS)
        arrays = (torch.from_numpy(array).to(self._device) for array in (at_command, at_pattern, bits))
        command_rows, pattern_rows, bit_rows = arrays
        return command_rows, numbers, pattern_rows, bit_rows

    def _embeddings(self, numbers: NDArray[np.int64]) -> Tensor:
        """``(U, width)`` embeddings of commands; those computed since the weights changed are not computed again."""
        if len(self._fresh) < len(self._register):
            size = max(1024, 2 * len(self._register))
            fresh = np.zeros(size, bool)
            fresh[: len(self._fresh)] = self._fresh
            embedded = torch.zeros((size, self._embedded.shape[1]), device=self._device)
            embedded[: len(self._embedded)] = self._embedded
            self._fresh, self._embedded = fresh, embedded
        stale = numbers[~self._fresh[numbers]]
        if len(stale):
            tokens = torch.from_numpy(self._register.tokens(stale)).to(self._device)
            self._embedded[torch.from_numpy(stale).to(self._device)] = self.net.embed(tokens)
            self._fresh[stale] = True
        return self._embedded[torch.from_numpy(numbers).to(self._device)]

    def weights_changed(self) -> None:
        """Forget every embedding."""
        self._fresh[:] = False

    def gather(self, parts: Iterable[RawSteps]) -> Steps:
        """One :class:`Steps` of many moments, equal commands and equal patterns numbered once."""
        parts = list(parts)
        if not parts:
            raise InputError("Expected at least one decision to gather, got none")
        keys = _stacked([p.keys for p in parts])
        commands, numbers, patterns, bits = self._tables(keys)
        to = self._device
        return Steps(
            words=self._words(_stacked([p.words for p in parts])),
            commands=commands,
            patterns=patterns,
            counts=self._counts(keys),
            choices=torch.cat([p.choices for p in parts]).to(to),
            old_log_probs=torch.cat([p.log_probs for p in parts]).to(to),
            tokens=torch.from_numpy(self._register.tokens(numbers)).to(to),
            features=self._patterns[bits],
        )

    def log_probs(self, steps: Steps) -> Tensor:
        """``(B, K)`` log-probabilities of all candidates, differentiable."""
        out: Tensor = self.net(steps.words, steps.commands, steps.patterns, steps.counts, steps.tokens, steps.features)
        return out

    def entropies(self, steps: Steps) -> Tensor:
        """``(B,)`` entropies of the decisions in nats, without gradient."""
        with torch.no_grad():
            return _entropies(self.log_probs(steps))

    def pivot_log_probs(self, steps: Steps, turns: Tensor) -> Tensor:
        """``(M, T)`` log-probabilities of naming each turn; see :class:`~triage_gym.trainers.policy.protocol.Policy`.

        Raises:
            InputError: When the policy was made without the head ``"pointer"``, or ``turns`` has another form.
        """
        pointer = self._head("pointer")
        turns = turns.to(self._device)
        real = check_turns(turns, len(steps))
        part = steps.take(turns[real])
        with torch.no_grad():
            log_probs = self.log_probs(part)
            taken = log_probs.gather(1, part.choices.unsqueeze(1)).squeeze(1)
            facts = turn_facts(taken, _entropies(log_probs), real)
        chosen = part.choices.unsqueeze(1)
        embedded = self.net.embed(part.tokens[part.commands.gather(1, chosen).squeeze(1)])
        features = part.features[part.patterns.gather(1, chosen).squeeze(1)]
        scores = pointer(torch.cat([self.net.hidden(part.words), embedded, features, facts], 1))
        return pointer_log_probs(scores, real)

    def values(self, steps: Steps) -> Tensor:
        """``(B,)`` estimates of the outcome before each decision, any real number; the gradient ends at the head.

        Raises:
            InputError: When the policy was made without the head ``"value"``.
        """
        head = self._head("value")
        with torch.no_grad():
            hidden = self.net.hidden(steps.words)
        out: Tensor = head(hidden)
        return out

    def _head(self, name: str) -> torch.nn.Module:
        found = getattr(self.net, name, None)
        if found is None:
            raise InputError(
                f"Expected a policy with the head {name!r}, got one without; make it with heads=({name!r},)"
            )
        module: torch.nn.Module = found
        return module


def _entropies(log_probs: Tensor) -> Tensor:
    """``(B,)`` of ``(B, K)``; padding counts nothing."""
    return -(log_probs.exp() * log_probs).sum(1)


def _padded(rows: list[list[int]]) -> NDArray[np.int64]:
    """``(n, most)`` of lists of unequal length, padded with -1."""
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    out = np.full((len(rows), int(counts.max())), -1, np.int64)
    out[np.arange(out.shape[1]) < counts[:, None]] = np.fromiter(chain.from_iterable(rows), np.int64, int(counts.sum()))
    return out


def _stacked(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """One array of parts of unequal width, padded with -1."""
    out = np.full((sum(len(p) for p in parts), max(p.shape[1] for p in parts)), -1, np.int64)
    at = 0
    for part in parts:
        out[at : at + len(part), : part.shape[1]] = part
        at += len(part)
    return out


def _distinct(values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Each of ``values``, which lie in ``[0, size)``, once and ascending.

    By a table instead of ``np.unique``: no sorting, ten times faster here.
    """
    there = np.zeros(size, bool)
    there[values] = True
    return np.flatnonzero(there)


def _positions(
    values: NDArray[np.int64], real: NDArray[np.bool_], distinct: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """Where in ``distinct`` each of ``values`` is; 0 where not ``real``."""
    table = np.zeros(size, np.int64)
    table[distinct] = np.arange(len(distinct))
    return np.where(real, table[values], 0)


def _index(commands: list[str], command: str) -> int:
    try:
        return commands.index(command)
    except ValueError:
        raise InputError(f"Expected one of the {len(commands)} candidates, got {command!r}") from None


def parameters_digest(net: torch.nn.Module) -> str:
    """SHA-256 of all weights, in hex."""
    digest = hashlib.sha256()
    state: dict[str, Any] = net.state_dict()
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
