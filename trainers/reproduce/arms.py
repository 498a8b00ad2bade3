"""The arms of each table: a name, and the settings in which it differs from the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from triage_gym.errors import InputError

Table = Literal["main", "ablation", "judge", "pivot", "pass_k", "length"]
TABLES: Final = get_args(Table)
BASELINE: Final = "grpo+whiten"
"""What every arm is held against: whitening alone is worth a good part of a gain."""


@dataclass(frozen=True, slots=True)
class Arm:
    """What is trained."""

    name: str
    """Also that of its directories."""
    changes: Mapping[str, Any]
    """Fields of the training config."""
    about: str = ""
    """In words."""
    control: bool = False
    """Whether it stands there to fail."""
    judge: str = ""
    """Name of the judge it learns from, in :data:`JUDGES`; empty for the rules, or none."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What a table consists of."""

    envs: tuple[str, ...]
    """Unless others are asked for."""
    arms: tuple[Arm, ...]
    baseline: str = BASELINE
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings of all its runs."""


GENERIC: Final[Mapping[str, Any]] = {"name": "rule", "domain": "generic"}


def distorted(**how: Any) -> dict[str, Any]:
    """The rules, wrong in a known way (:mod:`triage_gym.judges.distorted`)."""
    return {"name": "distorted", "of": "rule", **how}


JUDGES: Final[Mapping[str, Any]] = {
    "rule": "rule",
    "noise-10": distorted(noise=0.1),
    "noise-30": distorted(noise=0.3),
    "noise-50": distorted(noise=0.5),
    "votes-50": {"name": "ensemble", "of": [distorted(noise=0.5, seed=seed) for seed in range(5)]},
    "R-as-E": distorted(read_as={"R": "E"}),
    "E-as-N": distorted(read_as={"E": "N"}),
    "novelty": {"name": "distorted", "of": GENERIC, "read_as": {"R": "N"}},
    "task-blind": GENERIC,
}
"""Judges by how good they are: the rules, with random errors, a vote of five such, with two biases, one that pays for what
is new alone, and one that knows no task (new is E, repeated is R, nothing is D)."""


def _triage(name: str, judge: str, about: str) -> Arm:
    return Arm(name, {"credit": "triage", "judge": JUDGES[judge]}, about, judge=judge)


def _constants(name: str, *constants: float) -> Arm:
    return Arm(name, {"credit": "triage", "credit_kwargs": {"constants": list(constants)}}, f"c = {constants}")


GRPO: Final = Arm("grpo", {"credit": "grpo"}, "outcome alone")
WHITENED: Final = Arm(BASELINE, {"credit": "grpo+whiten"}, "outcome alone, whitened: the fair baseline")
SCALAR: Final = Arm("scalar", {"credit": "scalar"}, "the same judge, good or bad")
TRIAGE: Final = Arm("triage", {"credit": "triage"}, "four roles, the paper's constants")
AUDITED: Final = Arm("triage-audited", {"credit": "triage-audited"}, "constants measured first, in turns that count")
ONLINE: Final = Arm("triage-online", {"credit": "triage-online"}, "constants measured by retries while it trains")
SHUFFLED: Final = Arm("triage-shuffled", {"credit": "triage-shuffled"}, "roles in the wrong places", control=True)
BLIND: Final = Arm(
    "task-blind", {"credit": "triage", "judge": GENERIC}, "a judge that knows no task", control=True, judge="task-blind"
)
ROLES_ONLY: Final = Arm("roles-only", {"credit": "roles-only"}, "roles without any outcome", control=True)
MAIN: Final = (
    GRPO,
    WHITENED,
    SCALAR,
    Arm("gigpo", {"credit": "gigpo"}, "turns from the same observation compared"),
    TRIAGE,
    AUDITED,
    ONLINE,
    SHUFFLED,
    BLIND,
    ROLES_ONLY,
)
ABLATION: Final = (
    WHITENED,
    SCALAR,
    TRIAGE,
    _constants("no-D", 0.0, 0.5, -0.1, -0.5),
    _constants("no-E", 1.0, 0.0, -0.1, -0.5),
    _constants("no-R", 1.0, 0.5, -0.1, 0.0),
    _triage("noise-10", "noise-10", "10 % of the judge's labels exchanged"),
    _triage("noise-30", "noise-30", "30 % exchanged"),
    _triage("noise-50", "noise-50", "50 % exchanged"),
    _triage("R-as-E", "R-as-E", "a judge that takes regressions for exploration"),
    _triage("novelty", "novelty", "a judge that pays for what is new alone"),
)
JUDGED: Final = ("rule", "noise-30", "noise-50", "votes-50", "R-as-E", "E-as-N")
"""Judges of the table that holds role types against a scalar of the same judge."""
_RULES: Final = ("scalar", "triage", "triage+soft", "triage-audited", "triage-online")
_RETRIED: Final = (
    WHITENED,
    Arm("metarl", {"credit": "metarl+whiten"}, "full retries, LaMer's rule"),
    Arm("pivoarl", {"credit": "pivoarl+whiten"}, "retries from the pivot"),
    Arm("pivoarl-start", {"credit": "pivoarl+whiten", "retry_from": "start"}, "the same rule, from the start"),
)


def _judge_arms() -> tuple[Arm, ...]:
    arms = [WHITENED]
    for judge in JUDGED:
        for rule in _RULES:
            if rule == "triage+soft" and not judge.startswith("votes"):
                continue  # who is always sure gives no probabilities: soft roles are the hard ones
            arms.append(
                Arm(f"{rule}@{judge}", {"credit": rule, "judge": JUDGES[judge]}, f"judge: {judge}", judge=judge)
            )
    return tuple(arms)


LAYOUTS: Final[Mapping[str, Layout]] = {
    "main": Layout(("alfworld", "searchqa", "webshop", "minesweeper", "sokoban"), MAIN),
    "length": Layout(("alfworld", "webshop"), MAIN),
    "ablation": Layout(("alfworld",), ABLATION),
    "judge": Layout(("alfworld",), _judge_arms()),
    "pivot": Layout(
        ("minesweeper", "sokoban", "webshop", "alfworld"),
        _RETRIED,
        "metarl",
        {"eval_attempts": 3, "groups_per_update": 4},
    ),
    "pass_k": Layout(
        ("minesweeper", "sokoban", "webshop", "alfworld"),
        _RETRIED,
        "metarl",
        {"eval_attempts": 3, "groups_per_update": 4},
    ),
}


def layout_of(table: str) -> Layout:
    """What a table consists of.

    Raises:
        InputError: For an unknown one.
    """
    if table not in LAYOUTS:
        raise InputError(f"Expected a table out of {TABLES}, got {table!r}")
    return LAYOUTS[table]
