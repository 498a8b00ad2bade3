"""The built-in policy that a config asks for."""

from __future__ import annotations

from triage_gym import registry
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.policy.alfworld_features import AlfworldFeatures
from triage_gym.trainers.policy.features import Features
from triage_gym.trainers.policy.hashed_features import HashedFeatures
from triage_gym.trainers.policy.text_scorer import TextScorer
from triage_gym.trainers.probing import check_device


def make_policy(config: TrainConfig) -> TextScorer:
    """A policy with fresh weights, which the seed decides.

    Two policies of different seeds differ in nothing but their weights, so one can load those of another. Only a run that
    retries, in training or in evaluation, has features of remarks and, where its reflector is ``policy``, the pointer that
    reflects; only one whose reflector is ``value`` has the head that estimates outcomes.

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
        heads=_heads(config) if retries else (),
    )


def _features(config: TrainConfig, remarks: bool) -> Features:
    name = config.policy
    if name == "auto":
        name = "alfworld" if config.is_alfworld else "generic"
    if name == "alfworld":
        return AlfworldFeatures(config.limit, remarks=remarks)
    return HashedFeatures(remarks=remarks)


def _heads(config: TrainConfig) -> tuple[str, ...]:
    reflector = registry.config("reflectors", config.reflector)["name"]
    return {"policy": ("pointer",), "value": ("value",)}.get(reflector, ())
