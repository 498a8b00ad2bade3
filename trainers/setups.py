"""Settings for experiments on a laptop, one set an environment: small enough for tables of hundreds of runs.

Chosen on training and validation tasks by ``grpo+whiten`` alone: it must learn visibly from a start that sometimes
succeeds, and not be done when the run ends, since near the ceiling (and near nothing) no two rules differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from triage_gym import registry
from triage_gym.errors import InputError

SETUPS: Final[Mapping[str, Mapping[str, Any]]] = {
    # The main job's own settings: five task types, 30 demonstrations.
    "alfworld": {"turns": 100_000, "limit": 30},
    # The shopper who knows the pages alone wins 76 % of val; after 4,000 turns the policy is near.
    "webshop": {"turns": 3_000, "limit": 15, "demos": 15, "groups_per_update": 4},
    # λ is the paper's. Retrieval lets some 70 % of the questions be answered, which is near after 3,000 turns.
    "searchqa": {"turns": 2_000, "limit": 5, "demos": 30, "lam": 0.4, "groups_per_update": 4},
    # Random play already wins a tenth of the boards: no demonstrations. The least risk wins 87 % in seven turns.
    "minesweeper": {"turns": 2_500, "limit": 7},
    # Two demonstrations are above the range already.
    "sokoban": {"turns": 6_000, "limit": 7, "demos": 1},
    # No TextWorld: each of its games is compiled for a second or two, which is more than all the rest of a run.
}
"""Fields of :class:`~triage_gym.trainers.config.TrainConfig` by environment."""


def setup_of(env: str) -> dict[str, Any]:
    """The settings of an environment.

    Raises:
        InputError: For one that has none.
    """
    name = registry.env_name(env)
    if name not in SETUPS:
        raise InputError(f"Expected an environment out of {sorted(SETUPS)}, got {env!r}")
    return {"env": name, **SETUPS[name]}
