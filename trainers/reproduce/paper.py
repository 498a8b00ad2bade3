"""What the papers report, to stand beside what is measured here: other models, other scales, other step limits.

TRIAGE arXiv:2606.32017 (Qwen2.5-7B-Instruct), GiGPO arXiv:2505.10978 (Qwen2.5-7B), LaMer arXiv:2512.16848 (Qwen3-4B),
PivoARL arXiv:2607.03702. Per cent; None where a paper gives none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SOURCE: Final = (
    "Papers' numbers are of other models (TRIAGE and GiGPO: Qwen2.5-7B; LaMer: Qwen3-4B) at another scale; they are no "
    "target for a small policy, and only directions can be compared."
)
SUCCESS: Final[Mapping[str, Mapping[str, float]]] = {
    "alfworld": {"grpo": 79.6, "triage": 87.5, "gigpo": 90.8},
    "searchqa": {"grpo": 43.3, "triage": 48.1, "gigpo": 47.2},
    "webshop": {"grpo": 70.1, "triage": 77.2, "gigpo": 75.2},
    "sokoban": {"gigpo": 41.6},
    "minesweeper": {"gigpo": 52.0},
}
"""Success of arms by environment."""
ABLATION: Final[Mapping[str, Mapping[str, str]]] = {
    "alfworld": {"no-R": "-6.1 points", "no-E": "-0.6 to -1.7 points", "scalar": "-2.7 to -5.1 points"},
    "webshop": {"no-R": "-4.1 points", "no-E": "-0.6 to -1.7 points", "scalar": "-2.7 to -5.1 points"},
}
"""Change against TRIAGE."""
SHORTER: Final[Mapping[str, float]] = {"alfworld": 10.4, "webshop": 14.8}
"""Per cent by which TRIAGE's successes are shorter than GRPO's."""
PASS_K: Final[Mapping[str, Mapping[str, tuple[float, float, float]]]] = {
    "sokoban": {"metarl": (42.4, 52.0, 55.9)},
    "minesweeper": {"metarl": (44.1, 66.4, 74.4)},
    "webshop": {"metarl": (67.8, 84.4, 89.1)},
}
"""pass@1, pass@2, pass@3 of LaMer."""


def beside(table: str, env: str, arm: str) -> str:
    """What a paper says of an arm, in few words; empty where it says nothing."""
    if table in ("pivot", "pass_k"):
        found = PASS_K.get(env, {}).get(arm)
        return "" if found is None else " / ".join(f"{x:.1f}" for x in found)
    if table == "ablation":
        return ABLATION.get(env, {}).get(arm, "")
    if table == "length" and arm == "triage" and env in SHORTER:
        return f"{-SHORTER[env]:.1f} %"
    success = SUCCESS.get(env, {}).get(arm)
    return "" if success is None or table == "length" else f"{success:.1f}"
