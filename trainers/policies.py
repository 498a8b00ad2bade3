"""The built-in policy that a config asks for."""

from __future__ import annotations

from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.policy.alfworld_features import AlfworldFeatures
from triage_gym.trainers.policy.features import Features
from triage_gym.trainers.policy.hashed_features import HashedFeatures
from triage_gym.trainers.policy.text_scorer import TextScorer
from triage_gym.trainers.probing import check_device


def make_policy(config: TrainConfig) -> TextScorer:
    """A policy with fresh weights, which the seed decides.

    Two policies of different seeds differ in nothing but their weights, so one can load those of another.

    Raises:
        InputError: When there is no such device.
    """
    check_device(config.device)
    alfworld = config.policy == "alfworld" or (config.policy == "auto" and config.is_alfworld)
    features: Features = AlfworldFeatures(config.limit) if alfworld else HashedFeatures()
    return TextScorer(features, width=config.width, seed=config.seed, device=config.device)
