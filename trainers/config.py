"""What a training run is made of: one frozen dataclass, one line of documentation a field, no torch.

:class:`TrainConfig` promises that a value it accepts can be trained with, that it goes through JSON unchanged and that
equal configs have equal hashes. Two runs with the same config on the same machine are equal bit for bit. It leaves to
:mod:`triage_gym.trainers.tasks` which environment the words stand for.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, get_args

from triage_gym import registry
from triage_gym.credit import make as make_credit
from triage_gym.domains.alfworld import TASK_TYPES
from triage_gym.errors import InputError
from triage_gym.protocols import CreditRule
from triage_gym.records import POLICY, RetryFrom
from triage_gym.reflection.allocation import Allocation

HELD_OUT: Final = {
    "alfworld": "valid_unseen",
    "minesweeper": "test",
    "searchqa": "test",
    "sokoban": "test",
    "textworld": "test",
    "webshop": "test",
}
"""The split that built-in environments are evaluated on unless another is named; they train on ``train``."""
FACTS: Final = ("entropy", "value")
"""Facts of each turn that the built-in policies can give a reflector."""
FIVE_TYPES: Final = tuple(t for t in TASK_TYPES if t != "pick_two_obj_and_place")
"""The default ALFWorld training set: every task type but ``pick_two_obj_and_place``."""
PolicyName = Literal["auto", "alfworld", "grid", "questions", "shop", "generic"]
Guard = Literal["auto", "off"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """Everything that decides what a run computes.

    Raises:
        InputError: From the constructor, for a value that cannot be trained with.
    """

    env: str = "alfworld"
    """Environment: a registered name, a Gymnasium id or a ``module:attr`` path; it puts ``admissible_commands`` in info."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Further keyword arguments of the environment, such as ``size=[7,7] levels=null``: JSON values, in training and
    evaluation alike."""
    split: str | None = None
    """Tasks to train on. None: ``train`` for built-in environments, not passed to others."""
    task_types: tuple[str, ...] | None = None
    """Task types to train and evaluate on; more types, a harder run. None: five for ALFWorld, not passed to others."""
    tasks: int = 1000
    """Distinct training tasks (seeds 0 … tasks-1). More: less repetition, longer set-up (some 5 ms a game)."""
    limit: int = 30
    """Turns an episode may take. Larger: more tasks are solvable, credit is harder to assign."""
    turns: int = 100_000
    """Environment turns of the whole run. Larger: closer to the ceiling, and arms closer to each other."""
    seed: int = 0
    """Seed of everything random in the run: weights, demonstrations, task order, sampling."""
    credit: str = "triage"
    """Credit rule, such as ``grpo``, ``grpo+whiten``, ``scalar``, ``triage``, ``triage-shuffled``, ``roles-only``,
    ``gigpo``, and across attempts ``pivoarl``, ``metarl``, ``r3l``, ``pivoarl+triage``.

    Suffixes: ``+whiten`` whitens over the batch's segments, ``+guard`` uses roles only in groups whose outcomes differ.
    """
    credit_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Further keyword arguments of the credit rule."""
    lam: float = 0.2
    """Weight of the role term against the outcome term. Larger: trusts the judge more, farming is likelier."""
    judge: str | Mapping[str, Any] = "rule"
    """Judge of the segments: a registered name, a ``module:attr`` path, or a JSON object of one and its arguments, such as
    ``{"name": "rule", "domain": "generic"}``. Never used in evaluation. Any but the rule judge is not asked where the credit
    rule reads no labels."""
    judge_window: int = 5
    """Pairs of action and observation that the judge sees before and after a turn. Larger: it knows more, and costs more."""
    judge_failures: float = 0.05
    """Share of failures among the last 200 segments that the judge was asked about, above which the run stops, saved and
    resumable, with exit status 75. 1 never stops."""
    second_judge: str | Mapping[str, Any] | None = None
    """Judge that is asked about a sample of 200 segments now and then and compared with the first, never learnt from."""
    monitor_every: int = 10
    """Updates between two askings of the second judge. Smaller: drift shows sooner, and costs more."""
    audit: bool = False
    """Measure first, on the start policy and tasks that nothing is tested on, whether the judge's roles will help
    (:mod:`triage_gym.trainers.auditing`), and train as grpo+whiten when they will not."""
    audit_turns: int | None = None
    """Environment turns for that, and for the constants of ``triage-audited``; they count in ``turns``, whose fifth they are
    by default. More: surer, and less to train with."""
    farming_guard: Guard = "auto"
    """``auto`` leaves roles out of the credit when the policy explores for the judge (E above .85, next to nothing solved),
    until success is back, and goes back to the best weights so far; ``off`` never does. Without farming both are the same."""
    attempts: int | None = None
    """Most attempts at a task: after a failure a retry begins, up to this number. 1 never retries.

    None: what the credit rule is made for, 3 for ``pivoarl``, ``metarl`` and ``r3l``, 1 for the others.
    """
    reflector: str | Mapping[str, Any] = "policy"
    """Who names the earliest wrong turn of a failed attempt: ``policy`` (its own pointer, which ``pivoarl``, ``metarl``
    and ``r3l`` train along), ``role``, ``oracle``, ``entropy``, ``value``, ``random``, ``restart``, ``llm``, a path, or a
    JSON object of one and its arguments."""
    retry_from: RetryFrom | None = None
    """Where a retry begins: at the ``pivot``, or at the ``start`` with the same remark. None: as the credit rule is made."""
    verify: str | Mapping[str, Any] | None = None
    """How a pivot is tested before it is used: ``oracle``, ``rollouts``, or a JSON object. None: not at all."""
    retries: Allocation = "all"
    """Which failed attempts are retried: ``all``, those in groups whose outcomes ``differ``, or those whose pivot is
    ``verified``."""
    distill: bool = False
    """Train retries as if there had been no remark, so that the policy needs none later (as R3L does)."""
    policy: PolicyName = "auto"
    """Features: ``alfworld``, ``grid`` (the boards of Minesweeper and Sokoban), ``questions`` (Search-QA), ``shop``
    (WebShop), ``generic`` (hashed words, any text environment) or ``auto`` (what was made for the environment, else ``generic``)."""
    width: int = 64
    """Size of the hidden state. Larger: more to express, slower."""
    groups_per_update: int = 8
    """Tasks an update. Larger: less noise, fewer updates for the same turns."""
    group_size: int = 8
    """Rollouts a task, the G of GRPO. Larger: better baseline, fewer tasks for the same turns."""
    lr: float = 1e-3
    """Adam's step size. Larger: faster and less stable."""
    clip: float = 0.2
    """PPO clip range of the probability ratio. Larger: bigger steps from one batch."""
    epochs: int = 2
    """Passes over each batch. Larger: more from each turn, further off-policy."""
    minibatch: int = 512
    """Segments a gradient step. Smaller: more and noisier steps."""
    entropy: float = 0.01
    """Weight of the entropy bonus. Larger: explores longer."""
    kl: float = 0.0
    """Weight of KL(policy ‖ start policy). Larger: stays closer to the start; 0 does not compute it."""
    grad_norm: float = 1.0
    """Gradients are scaled down to this norm. Smaller: gentler steps."""
    demos: int | None = None
    """Successful demonstrations that the start policy is cloned from; more: a stronger start, 0: random weights.

    None: 30 for ALFWorld, whose searching expert gives them, 0 for other environments. More than 0 there needs one with an
    ``expert_action()``, as the built-in ones have.
    """
    demo_noise: float = 0.4
    """Share of random actions in the demonstrations. Larger: a weaker start."""
    bc_epochs: int = 10
    """Passes over the demonstrations. Larger: a stronger, more certain start."""
    bc_minibatch: int = 96
    """Segments a gradient step of cloning. Smaller: more steps, a stronger start."""
    eval_tasks: int = 300
    """Held-out tasks an evaluation. More: less noise, some 1.5 ms each for a trained policy."""
    eval_split: str | None = None
    """Tasks to evaluate on, never trained on.

    None: ``valid_unseen`` for ALFWorld (other floor plans), ``test`` for other built-in ones, not passed to the rest.
    """
    eval_attempts: int | None = None
    """Most attempts at a task in evaluations, which then tell pass@1, pass@2, …; None: as many as in training."""
    eval_at: tuple[int, ...] = (25_000, 50_000)
    """Turns after which to evaluate besides the end of the run."""
    checkpoint_every: int = 20
    """Updates between checkpoints. Smaller: less is lost when the machine goes down."""
    keep: int = 2
    """Checkpoints kept; older ones are removed once a newer one is in place."""
    trace_every: int = 10
    """Updates between those whose first group is written to ``traces.jsonl``; 0 writes none."""
    tensorboard: bool = False
    """Also write the numbers of ``metrics.jsonl`` as tensorboard scalars."""
    device: str = "cpu"
    """torch device. The small policies are fastest on ``cpu``; exact resume is promised there only."""
    threads: int = 1
    """torch threads. More than 1 slows the small policies down."""

    def __post_init__(self) -> None:
        for name in (
            "tasks",
            "limit",
            "turns",
            "groups_per_update",
            "epochs",
            "minibatch",
            "width",
            "threads",
            "keep",
        ):
            _at_least(self, name, 1)
        for name in ("bc_epochs", "bc_minibatch", "eval_tasks", "checkpoint_every", "monitor_every"):
            _at_least(self, name, 1)
        for name in ("seed", "trace_every", "judge_window"):
            _at_least(self, name, 0)
        if self.demos is not None:
            _at_least(self, "demos", 0)
        for name in ("attempts", "eval_attempts", "audit_turns"):
            if getattr(self, name) is not None:
                _at_least(self, name, 1)
        self._check_choices()
        if type(self.group_size) is not int or self.group_size < 2:
            raise InputError(
                f"Expected `group_size` to be an integer of at least 2, got {self.group_size!r}: "
                "a group of one has nothing to compare with"
            )
        if self.tasks < self.groups_per_update:
            raise InputError(
                f"Expected at least as many `tasks` as `groups_per_update`, got {self.tasks} and {self.groups_per_update}"
            )
        for name in ("lr", "clip", "grad_norm"):
            _finite(self, name, above=0.0)
        for name in ("lam", "entropy", "kl"):
            _finite(self, name, least=0.0)
        for name in ("demo_noise", "judge_failures"):
            _finite(self, name, least=0.0, most=1.0)
        for name in ("env", "credit", "device"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise InputError(f"Expected `{name}` to be a name, got {getattr(self, name)!r}")
        self._check_collections()

    def _check_choices(self) -> None:
        for name, choices in (
            ("policy", PolicyName),
            ("retry_from", RetryFrom),
            ("retries", Allocation),
            ("farming_guard", Guard),
        ):
            value = getattr(self, name)
            if value not in get_args(choices) and not (name == "retry_from" and value is None):
                raise InputError(f"Expected `{name}` to be one of {get_args(choices)}, got {value!r}")
        for name in ("tensorboard", "distill", "audit"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"Expected `{name}` to be True or False, got {getattr(self, name)!r}")
        if self.retries == "verified" and self.verify is None:
            raise InputError(
                'Expected `verify` with retries="verified", got None; choose verify="oracle" or "rollouts"'
            )

    def _check_collections(self) -> None:
        for judge in (self.judge, *([] if self.second_judge is None else [self.second_judge])):
            registry.config("judges", judge)
        registry.config("reflectors", self.reflector)
        if self.verify is not None:
            try:
                registry.config("checks", self.verify)
            except InputError as error:
                raise InputError(
                    f"Expected `verify` to name a check of pivots, got {self.verify!r}: {error}"
                ) from error
        specs = [
            name
            for name in ("judge", "second_judge", "reflector", "verify")
            if isinstance(getattr(self, name), Mapping)
        ]
        for name in ("env_kwargs", "credit_kwargs", *specs):
            object.__setattr__(self, name, _json_object(name, getattr(self, name)))
        for name in ("eval_at", "task_types"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, str) or not isinstance(value, Sequence)):
                raise InputError(f"Expected `{name}` to be a sequence, got {value!r}")
            object.__setattr__(self, name, None if value is None else tuple(value))
        if any(type(t) is not int or t < 0 for t in self.eval_at):
            raise InputError(f"Expected `eval_at` to be turn numbers from 0, got {self.eval_at}")
        if self.task_types is not None and not (self.task_types and all(isinstance(t, str) for t in self.task_types)):
            raise InputError(f"Expected `task_types` to name at least one type or be None, got {self.task_types!r}")

    @property
    def is_alfworld(self) -> bool:
        """Whether the environment is the built-in ALFWorld."""
        return registry.env_name(self.env) == "alfworld"

    @property
    def signals(self) -> tuple[str, ...]:
        """What the reflector needs of the policy: its own word (``policy``), or facts of each turn (``entropy``, ``value``).

        Asked of the reflector itself, by ``needs_words`` and ``needs_facts``, so that one of the user's own is served too.

        Raises:
            InputError: When it cannot be built, or needs a fact that the built-in policies do not have.
        """
        reflector = registry.make("reflectors", self.reflector)
        if getattr(reflector, "needs_words", False):
            return (POLICY,)
        facts = tuple(getattr(reflector, "needs_facts", ()))
        unknown = [name for name in facts if name not in FACTS]
        if unknown:
            raise InputError(
                f"Expected a reflector that needs facts out of {FACTS} of each turn, got {self.reflector!r}, which needs "
                f"{unknown}; the built-in policies know no other"
            )
        return facts

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads of a policy that its reflector asks: ``pointer`` for its own word, ``value`` for values."""
        asked = {POLICY: "pointer", "value": "value"}
        return tuple(asked[name] for name in self.signals if name in asked)

    def credit_rule(self) -> CreditRule:
        """The rule that ``credit`` names, with its options and λ.

        Raises:
            InputError: For an unknown rule, or an option that it does not have.
        """
        return make_credit({"name": self.credit, **self.credit_kwargs}, lam=self.lam)

    def resolved(self) -> TrainConfig:
        """The same run with every None replaced by what it stands for; this is what ``config.json`` holds."""
        held_out = HELD_OUT.get(registry.env_name(self.env))
        split, eval_split = self.split, self.eval_split
        if held_out is not None:
            split, eval_split = split or "train", eval_split or held_out
        made_for, begins = _made_for(self.credit)
        attempts = self.attempts or made_for
        trials: dict[str, Any] = {
            "attempts": attempts,
            "retry_from": self.retry_from or begins,
            "eval_attempts": self.eval_attempts or attempts,
        }
        if not self.is_alfworld:
            return dataclasses.replace(self, split=split, eval_split=eval_split, demos=self.demos or 0, **trials)
        return dataclasses.replace(
            self,
            **trials,
            split=split,
            eval_split=eval_split,
            task_types=self.task_types or FIVE_TYPES,
            demos=30 if self.demos is None else self.demos,
        )

    def for_arms(self, credits: Sequence[str]) -> TrainConfig:
        """What the arms of a comparison share: resolved, but for what each credit rule decides about its attempts.

        All of them are evaluated with the same number of attempts, the most that one of them trains with.
        """
        most = max(dataclasses.replace(self, credit=credit).resolved().eval_attempts or 1 for credit in credits)
        return dataclasses.replace(
            self.resolved(), attempts=self.attempts, retry_from=self.retry_from, eval_attempts=most
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads back."""
        out = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            k: list(v) if isinstance(v, tuple) else dict(v) if isinstance(v, Mapping) else v for k, v in out.items()
        }

    @classmethod
    def from_json(cls, data: Any) -> TrainConfig:
        """The config written by :meth:`to_json`; fields that are left out take their default.

        Raises:
            InputError: For anything but an object of known fields with fitting values.
        """
        if not isinstance(data, Mapping):
            raise InputError(f"Expected a config to be a JSON object, got {type(data).__name__}")
        known = {f.name for f in fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise InputError(f"Expected config fields out of {sorted(known)}, got also {unknown}; remove them")
        return cls(**data)

    def digest(self) -> str:
        """SHA-256 of the canonical JSON form, in hex: equal for equal configs."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def changed(self, other: TrainConfig) -> list[str]:
        """Names of the fields in which ``other`` differs, in order of declaration."""
        mine, theirs = self.to_json(), other.to_json()
        return [name for name in mine if mine[name] != theirs[name]]


def _made_for(credit: str) -> tuple[int, RetryFrom]:
    """How many attempts a credit rule is made for, and where retries begin for it."""
    try:
        rule = registry.factory("credit", registry.config("credit", credit)["name"])
    except InputError:  # refused where the rule is built: in a comparison that arm alone fails
        return 1, "pivot"
    return getattr(rule, "attempts", 1), getattr(rule, "retry_from", "pivot")


def _json_object(name: str, value: Any) -> dict[str, Any]:
    """``value`` as it comes back from JSON: a tuple is a list there."""
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise InputError(f"Expected `{name}` to map names to values, got {value!r}")
    try:
        found: dict[str, Any] = json.loads(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"Expected `{name}` to be JSON values, got {value!r}: {error}") from error
    return found


def _at_least(config: TrainConfig, name: str, least: int) -> None:
    value = getattr(config, name)
    if type(value) is not int or value < least:
        raise InputError(f"Expected `{name}` to be an integer of at least {least}, got {value!r}")


def _finite(
    config: TrainConfig, name: str, *, least: float = -math.inf, above: float = -math.inf, most: float = math.inf
) -> None:
    value = getattr(config, name)
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not (least <= value <= most and value > above):
        bounds = f"above {above}" if above > -math.inf else f"of at least {least}"
        bounds += f" and at most {most}" if most < math.inf else ""
        raise InputError(f"Expected `{name}` to be a finite number {bounds}, got {value!r}")
    object.__setattr__(config, name, float(value))
