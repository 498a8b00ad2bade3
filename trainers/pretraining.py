"""The start policy: cloned from a few noisy demonstrations, so that some episodes succeed and others do not.

Demonstrations are successful episodes of an expert under random actions: in ALFWorld of the searching expert, which knows
what it has read and nothing else, in other environments of their own (:mod:`triage_gym.trainers.demonstrations`). Cloning is
plain maximum likelihood of the demonstrated commands over the admissible ones. The start depends on the config less its credit
rule, so all arms of a seed share theirs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from triage_gym.envs.alfworld import searching
from triage_gym.envs.alfworld.searching import Demonstration
from triage_gym.errors import TrainingError
from triage_gym.trainers import checkpoint
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.demonstrations import SHOWN, demonstrate, knowledge_of
from triage_gym.trainers.policies import make_policy
from triage_gym.trainers.policy.protocol import Policy, Steps
from triage_gym.trainers.policy.text_scorer import TextScorer, parameters_digest
from triage_gym.trainers.probing import probe
from triage_gym.trainers.randomness import stream
from triage_gym.trainers.run_dir import write_json
from triage_gym.trainers.tasks import make_env


def pretrain(
    config: TrainConfig, run_dir: str | os.PathLike[str], *, target: tuple[float, float] | None = None, tasks: int = 300
) -> Path:
    """Clone a start policy and save it as a checkpoint that ``train(…, start=run_dir)`` and ``evaluate`` take.

    Args:
        config: The run; ``demos`` may be 0, then the start is random.
        run_dir: Directory to write ``config.json``, ``pretrain.json`` and ``checkpoints/`` into.
        target: Lowest and highest success of the start: ``demos`` is then the smallest number that reaches it, and
            ``pretrain.json`` holds what was tried (:func:`triage_gym.trainers.start_search.find_start`).
        tasks: Tasks that success is measured on for that.

    Returns:
        The checkpoint's directory.

    Raises:
        InputError: When the environment does not fit, there is no expert, it does not win often enough to give
            ``demos`` successes, or no number of them reaches ``target``.
        TrainingError: When cloning diverges.
    """
    config = config.resolved()
    torch.set_num_threads(config.threads)
    probe(config)
    path = Path(run_dir)
    if target is None:
        policy, facts = make_start(config)
    else:
        from triage_gym.trainers.start_search import find_start  # it clones by this module

        found = find_start(config, target, tasks)
        config, policy, facts = found.config, found.policy, found.facts
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / "config.json", config.to_json())
    state = {"update": 0, "turns": 0, "config": config.to_json(), "config_digest": config.digest()}
    saved = checkpoint.save(path / "checkpoints", 0, policy.net.state_dict(), {}, state, keep=1)
    write_json(path / "pretrain.json", facts)  # last: by it others tell that the start is whole
    return saved


def make_start(config: TrainConfig) -> tuple[TextScorer, dict[str, Any]]:
    """The start policy of a resolved config and what it was made of, for ``pretrain.json``."""
    policy = make_policy(config)
    facts: dict[str, Any] = {"schema": 1, "demos": config.demos or 0, "turns": 0, "loss": []}
    if config.demos:
        found, facts["expert_knows"] = _demonstrations(config, config.demos)
        steps = demonstrated(policy, found)
        facts["turns"] = len(steps)
        facts["tasks"] = [d.task_id for d in found]
        facts["loss"] = clone(policy, steps, config)
    facts["weights_sha256"] = parameters_digest(policy.net)
    return policy, facts


def _demonstrations(config: TrainConfig, count: int) -> tuple[list[Demonstration], str]:
    """The demonstrations, and what the expert that made them knows."""
    rng = stream(config.seed, "demonstrations")
    env = make_env(config, config.split)
    try:
        if not config.is_alfworld:
            return demonstrate(config, rng), knowledge_of(env)
        return searching.demonstrate(env, rng, count, config.demo_noise), SHOWN
    finally:
        env.close()


def demonstrated(policy: Policy, demonstrations: Sequence[Demonstration]) -> Steps:
    """The demonstrations as decisions of ``policy``."""
    parts = []
    for demonstration in demonstrations:
        memory = policy.begin(demonstration.task, demonstration.turns[0].observation)
        for turn in demonstration.turns:
            parts.append(policy.act([memory], [turn.admissible], None, forced=[turn.command]).raw)
            memory.observe(turn.command, turn.next_observation)
    return policy.gather(parts)


def clone(policy: Policy, steps: Steps, config: TrainConfig) -> list[float]:
    """Fit ``policy`` to the decisions; the mean loss of each pass, or TrainingError when one is not finite."""
    rng = stream(config.seed, "cloning")
    optimizer = torch.optim.Adam(policy.net.parameters(), lr=config.lr, fused=True)
    losses = []
    for _ in range(config.bc_epochs):
        order = torch.from_numpy(rng.permutation(len(steps)))
        total = 0.0
        for rows in order.tensor_split(math.ceil(len(steps) / config.bc_minibatch)):
            part = steps.take(rows)
            found = -policy.log_probs(part).gather(1, part.choices.unsqueeze(1)).mean()
            optimizer.zero_grad(set_to_none=True)
            found.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(policy.net.parameters(), config.grad_norm)
            optimizer.step()
            total += float(found.detach()) * len(rows)
        losses.append(total / len(steps))
        if not math.isfinite(losses[-1]):
            raise TrainingError(f"Expected finite losses while cloning, got {losses}; lower `lr`")
    policy.weights_changed()
    return losses
