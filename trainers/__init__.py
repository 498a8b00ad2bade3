"""The built-in trainer: GRPO on a small text-action policy, with any credit rule. Only its inner modules import torch.

``train`` runs one arm, ``pretrain`` makes a start policy, ``evaluate`` plays held-out tasks without any judge,
``compare`` runs arms × seeds. Each name is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from triage_gym.errors import MissingDependency

if TYPE_CHECKING:
    from triage_gym.trainers.config import TrainConfig as TrainConfig
    from triage_gym.trainers.evaluation import Evaluation as Evaluation
    from triage_gym.trainers.evaluation import evaluate as evaluate
    from triage_gym.trainers.experiment import compare as compare
    from triage_gym.trainers.loop import train as train
    from triage_gym.trainers.pretraining import pretrain as pretrain
    from triage_gym.trainers.progress import Update as Update

_WHERE = {
    "TrainConfig": "config",
    "Update": "progress",
    "Evaluation": "evaluation",
    "evaluate": "evaluation",
    "compare": "experiment",
    "train": "loop",
    "pretrain": "pretraining",
}
__all__ = ["Evaluation", "TrainConfig", "Update", "compare", "evaluate", "pretrain", "train"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_WHERE[name]}")
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "safetensors"):
            raise
        raise MissingDependency(
            f"triage_gym.trainers.{name} needs {error.name}; install it with: pip install 'triage-gym[train]'"
        ) from error
    return getattr(module, name)
