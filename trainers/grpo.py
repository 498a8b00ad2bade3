"""The learning step: PPO's clipped objective with one advantage a segment, from any credit rule.

``L = -mean_B min(ρ A, clip(ρ, 1-ε, 1+ε) A) - β_H H(π) + β_KL KL(π ‖ π_start)``,  ``ρ = π(a|s) / π_old(a|s)``

(clip: Schulman et al., arXiv:1707.06347; group-relative advantages: GRPO, arXiv:2402.03300; per-segment advantages:
TRIAGE, arXiv:2606.32017). Candidates can be enumerated, so entropy and KL are exact sums and not estimates. Segments weigh
equally. A batch is passed over ``epochs`` times in random minibatches.

Where the policy reflects itself, its choices of pivots are decisions like its commands, with advantages of their own (the
returns of the retries they led to; PivoARL, arXiv:2607.03702): the same objective over them, as a whole, is added in every
gradient step. A value head, where there is one, is fitted to the outcomes by squared error; it moves no other weights.

A gradient step whose loss or gradient is not finite is not taken: it is counted, its minibatch is written to disk, and the
third in a row ends the run.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from triage_gym.errors import CheckpointError, TrainingError
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.policy.protocol import Policy, Steps
from triage_gym.trainers.run_dir import write_json
from triage_gym.trainers.trials import Reflections

_SMALLEST: Final = -80.0
"""Log-probabilities below this count as this: 1e-35, next to nothing in a sum."""
KL_SAMPLE: Final = 256
"""Decisions of a batch over which KL to the start is measured where the loss has no such term."""
MAX_SKIPPED: Final = 3
"""Gradient steps in a row that may be skipped before the run ends."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The objective of one minibatch and what it is made of; all scalars."""

    total: Tensor
    policy: Tensor
    entropy: Tensor
    kl: Tensor
    """KL to the start policy, 0 where its weight is."""
    approx_kl: Tensor
    """Mean of ``ρ - 1 - log ρ``: how far the policy has moved from the one that acted."""
    clip_fraction: Tensor


def loss(
    log_probs: Tensor,
    choices: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    *,
    clip: float,
    entropy: float,
    kl: float = 0.0,
    start_log_probs: Tensor | None = None,
) -> Loss:
    """The objective of one minibatch.

    Args:
        log_probs: ``(B, K)`` of all candidates; padding has probability 0.
        choices: ``(B,)`` candidates taken.
        old_log_probs: ``(B,)`` of the policy that acted.
        advantages: ``(B,)``.
        clip: Half-width ``ε`` of the ratio's range.
        entropy: Weight of the entropy bonus.
        kl: Weight of the KL term.
        start_log_probs: ``(B, K)`` of the start policy; needed when ``kl`` is positive.
    """
    taken = log_probs.gather(1, choices.unsqueeze(1)).squeeze(1)
    log_ratio = taken - old_log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - clip, 1.0 + clip)
    policy = -torch.minimum(ratio * advantages, clipped * advantages).mean()
    # What underflows to 0 anyway takes exp a hundred times as long; padding does.
    probs = log_probs.clamp(min=_SMALLEST).exp()
    h = -(probs * log_probs).sum(1).mean()
    total = policy - entropy * h
    to_start = torch.zeros((), device=total.device)
    if start_log_probs is not None:
        to_start = (probs * (log_probs - start_log_probs)).sum(1).mean()
        total = total + kl * to_start
    with torch.no_grad():
        approx_kl = (ratio - 1.0 - log_ratio).mean()
        clip_fraction = ((ratio - 1.0).abs() > clip).float().mean()
    return Loss(total, policy, h, to_start, approx_kl, clip_fraction)


@dataclass(frozen=True, slots=True)
class Extra:
    """What a batch of trials teaches besides its commands."""

    steps: Steps
    """All decisions of the batch, which reflections point into."""
    reflections: Reflections | None = None
    """The policy's own reflections, ``M`` of them; None when it made none or nothing says what they were worth."""
    advantages: Tensor | None = None
    """``(M,)`` float32, theirs."""
    outcomes: Tensor | None = None
    """``(B,)`` float32, what each decision's attempt came to, for a value head; None without one."""

    @property
    def names(self) -> tuple[str, ...]:
        """Metrics that it adds."""
        reflects = ("reflection_loss", "reflection_entropy") if self.reflections is not None else ()
        return reflects if self.outcomes is None else (*reflects, "value_loss")

    def loss(self, policy: Policy, config: TrainConfig, rows: Tensor) -> tuple[Tensor, dict[str, float]]:
        """What is added to the objective of the minibatch ``rows``, and its parts."""
        total, parts = torch.zeros((), device=self.steps.choices.device), dict[str, float]()
        if self.reflections is not None and self.advantages is not None:
            found = loss(
                policy.pivot_log_probs(self.steps, self.reflections.turns),
                self.reflections.choices,
                self.reflections.old_log_probs,
                self.advantages,
                clip=config.clip,
                entropy=config.entropy,
            )
            total = total + found.total
            parts |= {
                "reflection_loss": float(found.policy.detach()),
                "reflection_entropy": float(found.entropy.detach()),
            }
        if self.outcomes is not None:
            error = (policy.values(self.steps.take(rows)) - self.outcomes[rows]).square().mean()
            total = total + error
            parts["value_loss"] = float(error.detach())
        return total, parts


class Learner:
    """Takes the gradient steps of one run.

    Args:
        policy: Whose weights change.
        config: Step sizes and weights of the terms.
        dump: Folder for minibatches that gave no finite gradient.

    Raises:
        TrainingError: From :meth:`update`, after three such minibatches in a row.
    """

    def __init__(self, policy: Policy, config: TrainConfig, dump: Path) -> None:
        self._policy, self._config, self._dump = policy, config, dump
        self.optimizer = self._adam()
        self._start: Policy | None = None
        self._kept: dict[str, Tensor] = {}
        self._skipped = 0

    def keep_start(self) -> None:
        """Take the policy as it is now as the start that KL is measured to, and as the best so far, before the first update."""
        self._start = copy.deepcopy(self._policy)
        self.keep()

    def keep(self) -> None:
        """Take the weights as they are now as those that :meth:`go_back` goes back to."""
        self._kept = {name: value.detach().clone() for name, value in self._policy.net.state_dict().items()}

    def go_back(self) -> None:
        """Go back to the weights of :meth:`keep`, with an optimiser that knows nothing of what came after."""
        self._policy.net.load_state_dict(self._kept)
        self._policy.weights_changed()
        self.optimizer = self._adam()

    def _adam(self) -> torch.optim.Adam:
        return torch.optim.Adam(self._policy.net.parameters(), lr=self._config.lr, fused=True)

    def state(self) -> dict[str, Tensor]:
        """Tensors of the optimiser, of the start policy (``start.``) and of the best one so far (``kept.``, where another)."""
        names = [name for name, _ in self._policy.net.named_parameters()]
        found: dict[int, dict[str, Tensor]] = self.optimizer.state_dict()["state"]
        out = {f"{names[i]}.{key}": value for i, values in found.items() for key, value in values.items()}
        if self._start is not None:
            start = self._start.net.state_dict()
            out |= {f"start.{name}": value for name, value in start.items()}
            if any(not torch.equal(value, start[name]) for name, value in self._kept.items()):
                out |= {f"kept.{name}": value for name, value in self._kept.items()}
        return out

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go back to what :meth:`state` gave.

        Raises:
            CheckpointError: When ``tensors`` are of another network.
        """
        names = [name for name, _ in self._policy.net.named_parameters()]
        state: dict[int, dict[str, Tensor]] = {}
        policies: dict[str, dict[str, Tensor]] = {"start": {}, "kept": {}}
        for name, value in tensors.items():
            owner, _, key = name.rpartition(".")
            whose, _, rest = name.partition(".")
            if whose in policies:
                policies[whose][rest] = value
            elif owner in names:
                state.setdefault(names.index(owner), {})[key] = value
            else:
                raise CheckpointError(f"Expected optimiser tensors of {names}, got {name!r}")
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
        self._start = self._policy_of(policies["start"])
        self.keep()  # an older checkpoint knows no best
        if self._start is not None:
            self._kept = policies["kept"] or {n: v.clone() for n, v in self._start.net.state_dict().items()}

    def _policy_of(self, weights: Mapping[str, Tensor]) -> Policy | None:
        """The start policy of a checkpoint; None in an older one without KL term, which had none."""
        if not weights and self._config.kl == 0:
            return None
        found = copy.deepcopy(self._policy)
        try:
            found.net.load_state_dict(weights)
        except RuntimeError as error:
            raise CheckpointError(f"Expected the start policy in the checkpoint, got: {error}") from error
        found.weights_changed()
        return found

    def update(
        self,
        steps: Steps,
        advantages: Tensor,
        rng: np.random.Generator,
        number: int = 0,
        extra: Extra | None = None,
    ) -> dict[str, Any]:
        """Learn from one batch.

        Args:
            steps: Decisions, ``B`` of them.
            advantages: ``(B,)`` float32.
            rng: Draws the minibatches.
            number: Number of the update, for the name of a dump.
            extra: What else is learnt from the batch.

        Returns:
            The means over the batch that ``metrics.jsonl`` holds, null where no step was taken.
        """
        start = self._start_log_probs(steps)
        names = ("loss", "policy_loss", "entropy", "kl", "approx_kl", "clip_fraction", "grad_norm")
        sums = dict.fromkeys((*names, *(() if extra is None else extra.names)), 0.0)
        taken = skipped = 0
        for _ in range(self._config.epochs):
            order = torch.from_numpy(rng.permutation(len(steps)))
            for rows in order.tensor_split(math.ceil(len(steps) / self._config.minibatch)):
                row_start = None if start is None else start[rows]
                found = self._step(steps.take(rows), advantages[rows], row_start, number, extra, rows)
                if found is None:
                    skipped += 1
                    continue
                taken += len(rows)
                for name, value in found.items():
                    sums[name] += value * len(rows)
        self._policy.weights_changed()
        out: dict[str, Any] = {name: value / taken if taken else None for name, value in sums.items()}
        if start is None:
            out["kl"] = None
        return {**out, "skipped": skipped}

    def kl_to_start(self, steps: Steps) -> float | None:
        """KL(policy ‖ start policy) in nats, the mean over up to :data:`KL_SAMPLE` decisions spread evenly over ``steps``.

        Returns:
            None for a run that was begun by an older version, which kept no start.
        """
        if self._start is None:
            return None
        sample = steps.take(torch.linspace(0, len(steps) - 1, min(len(steps), KL_SAMPLE)).long())
        with torch.no_grad():
            now, start = self._policy.log_probs(sample), self._start.log_probs(sample)
        return float((now.clamp(min=_SMALLEST).exp() * (now - start)).sum(1).mean())

    def _start_log_probs(self, steps: Steps) -> Tensor | None:
        if self._start is None or self._config.kl == 0:
            return None
        with torch.no_grad():
            return self._start.log_probs(steps)

    def _step(
        self,
        steps: Steps,
        advantages: Tensor,
        start: Tensor | None,
        number: int,
        extra: Extra | None,
        rows: Tensor,
    ) -> dict[str, float] | None:
        """One gradient step; None when it was not finite and so not taken."""
        c = self._config
        self.optimizer.zero_grad(set_to_none=True)
        found = loss(
            self._policy.log_probs(steps),
            steps.choices,
            steps.old_log_probs,
            advantages,
            clip=c.clip,
            entropy=c.entropy,
            kl=c.kl,
            start_log_probs=start,
        )
        objective, more = found.total, dict[str, float]()
        if extra is not None:
            added, more = extra.loss(self._policy, c, rows)
            objective = objective + added
        objective.backward()  # type: ignore[no-untyped-call]
        norm = float(torch.nn.utils.clip_grad_norm_(self._policy.net.parameters(), c.grad_norm))
        total = float(objective.detach())
        if not (math.isfinite(total) and math.isfinite(norm)):
            self._skip(steps, advantages, {"update": number, "loss": str(total), "grad_norm": str(norm)})
            return None
        self._skipped = 0
        self.optimizer.step()
        return {
            "loss": total,
            "policy_loss": float(found.policy.detach()),
            "entropy": float(found.entropy.detach()),
            "kl": float(found.kl.detach()),
            "approx_kl": float(found.approx_kl),
            "clip_fraction": float(found.clip_fraction),
            "grad_norm": norm,
            **more,
        }

    def _skip(self, steps: Steps, advantages: Tensor, why: Mapping[str, Any]) -> None:
        """Write the minibatch down; end the run when it is the third in a row."""
        self._skipped += 1
        self._dump.mkdir(parents=True, exist_ok=True)
        name = f"update_{why['update']:08d}_{self._skipped}"
        tensors = {k: v.detach().cpu().contiguous() for k, v in steps.tensors().items()}
        save_file({**tensors, "advantages": advantages.detach().cpu().contiguous()}, self._dump / f"{name}.safetensors")
        bad = [n for n, p in self._policy.net.named_parameters() if not bool(torch.isfinite(p).all())]
        write_json(
            self._dump / f"{name}.json",
            {**why, "finite_advantages": bool(torch.isfinite(advantages).all()), "weights_not_finite": bad},
        )
        if self._skipped >= MAX_SKIPPED:
            raise TrainingError(
                f"Expected finite losses, got {MAX_SKIPPED} gradient steps in a row that were not (the last: loss "
                f"{why['loss']}, gradient norm {why['grad_norm']}); the minibatches are in {self._dump}. "
                "Look there for advantages that are not finite, or lower `lr`"
            )
