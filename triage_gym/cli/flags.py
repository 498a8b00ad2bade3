"""The fields of the training config as flags, checked after parsing and not during it.

tyro reports what a constructor refuses as a parse error with an internal name; unchecked flags become a checked config
in :meth:`Flags.checked`, whose errors are ours.
"""

from __future__ import annotations

from dataclasses import fields

from triage_gym.trainers.config import TrainConfig


class Flags(TrainConfig):
    """What decides what a training run computes."""

    # The docstring stands in the help. Unchecked fields of TrainConfig, see the module.
    __slots__ = ()

    def __post_init__(self) -> None:
        """Check nothing yet."""

    @classmethod
    def of(cls, config: TrainConfig) -> Flags:
        """The flags that stand for ``config``."""
        return cls(**{f.name: getattr(config, f.name) for f in fields(TrainConfig)})

    def checked(self) -> TrainConfig:
        """The config; raises InputError for values that cannot be trained with."""
        return TrainConfig(**{f.name: getattr(self, f.name) for f in fields(TrainConfig)})
