"""What a small policy makes of the remarks on its failed attempts: two bits a candidate command.

A remark names a turn: the observation that the agent saw there and the command that it sent. The small policies read this
and not the remark's words. :data:`WARNED_HERE` is on for that command at that very observation, :data:`WARNED` for it
anywhere in the trial; remarks add up.

The bits begin with the weights of :data:`PRIORS` instead of 0. A language model that reads "this was the mistake" does not
repeat it even before it was trained on remarks; a policy of random weights would, and its first retries would be what its
first attempts were. Training is free to unlearn this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import torch
from torch import Tensor

WARNED_HERE, WARNED = 1, 2
"""Named by a remark at this very observation; named by one at any. They come after the other candidate features."""
PRIORS: Final = (-2.0, -1.0)
"""Start weights of :data:`WARNED_HERE` and :data:`WARNED`, added to a candidate's score; both count where both are on."""


class Remarks:
    """The turns that the remarks of a trial name."""

    __slots__ = ("_named",)

    def __init__(self) -> None:
        self._named: dict[str, set[str]] = {}

    def add(self, observation: str, action: str) -> None:
        """Take in a remark on ``action``, which was sent at ``observation``."""
        self._named.setdefault(action, set()).add(observation)

    def __bool__(self) -> bool:
        return bool(self._named)

    def bits(self, observation: str, command: str) -> int:
        """:data:`WARNED_HERE` and :data:`WARNED` of a command that may be sent at ``observation``."""
        named = self._named.get(command)
        return 0 if named is None else WARNED | (WARNED_HERE if observation in named else 0)

    def mark(self, keys: Sequence[int], commands: Sequence[str], observation: str, shift: int) -> list[int]:
        """The candidates' keys with the bits of each, moved up by ``shift``."""
        return [key | self.bits(observation, text) << shift for key, text in zip(keys, commands, strict=True)]


def without_remarks(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a policy that knows remarks, for one that does not: the two bits, which it never has, go."""
    own = len(weights["feature_bias"]) - len(PRIORS)
    return {**weights, "feature": weights["feature"][:, :own], "feature_bias": weights["feature_bias"][:own]}


def with_remarks(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a policy that knows no remarks, for one that does: the two bits are added with :data:`PRIORS`."""
    feature, bias = weights["feature"], weights["feature_bias"]
    more = torch.zeros((feature.shape[0], len(PRIORS)), dtype=feature.dtype)
    return {
        **weights,
        "feature": torch.cat([feature, more], 1),
        "feature_bias": torch.cat([bias, torch.tensor(PRIORS, dtype=bias.dtype)]),
    }
