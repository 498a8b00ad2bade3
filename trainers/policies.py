"""The built-in policy that a config asks for."""

from __future__ import annotations

from typing import Final

from triage_gym import registry
from triage_gym.credit import needs_values
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.policy.alfworld_features import AlfworldFeatures
from triage_gym.trainers.policy.features import Features
from triage_gym.trainers.policy.grid_features import GridFeatures
from triage_gym.trainers.policy.hashed_features import HashedFeatures
from triage_gym.trainers.policy.question_features import QuestionFeatures
from triage_gym.trainers.policy.shop_features import ShopFeatures
from triage_gym.trainers.policy.text_scorer import TextScorer
from triage_gym.trainers.probing import check_device

_BEST: Final[dict[str, str]] = {
    "alfworld": "alfworld",
    "minesweeper": "grid",
    "sokoban": "grid",
    "searchqa": "questions",
    "webshop": "shop",
}
"""What ``auto`` stands for, by environment; ``generic`` for the others."""


def make_policy(config: TrainConfig) -> TextScorer:
    """A policy with fresh weights, which the seed decides.

    Two policies of different seeds differ in nothing but their weights, so one can load those of another. Only a run that
    retries, in training or in evaluation, has features of remarks and, where its reflector is ``policy``, the pointer that
    reflects; only one whose reflector, or credit rule, is ``value`` has the head that estimates outcomes.

    Raises:
        InputError: When there is no such device.
    """
    config = config.resolved()
    check_device(config.device)
    retries = max(config.attempts or 1, config.eval_attempts or 1) > 1
    return TextScorer(
        _features(config, retries),
        width=config.width,
        seed=config.seed,
        device=config.device,
        heads=tuple(dict.fromkeys([*(config.heads if retries else ()), *(["value"] if _values(config) else [])])),
    )


def _values(config: TrainConfig) -> bool:
    """Whether the credit rule reads what a value head expects."""
    return needs_values(config.credit_rule())


def _features(config: TrainConfig, remarks: bool) -> Features:
    name: str = config.policy
    if name == "auto":
        name = _BEST.get(registry.env_name(config.env), "generic")
    if name == "alfworld":
        return AlfworldFeatures(config.limit, remarks=remarks)
    if name == "questions":
        return QuestionFeatures(remarks=remarks)
    if name == "shop":
        return ShopFeatures(remarks=remarks)
    return GridFeatures(remarks=remarks) if name == "grid" else HashedFeatures(remarks=remarks)
