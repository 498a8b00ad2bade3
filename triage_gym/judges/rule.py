"""The rule judge: free, immediate, repeatable, and as good as its rules know the domain.

Windows of a domain in :data:`RULES` go to its rules; all others, and tasks that those rules cannot read, to
:mod:`triage_gym.judges.generic`, whose labels have ``"rule:generic"`` as source; where nobody chose that, a warning says so
once a process. A window alone decides its label: judging an attempt at once or window by window gives the same, at once
being cheaper.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from triage_gym import registry
from triage_gym.display import cut
from triage_gym.errors import InputError
from triage_gym.judges import generic
from triage_gym.protocols import Window
from triage_gym.records import Role, RoleLabel

RULES: Final[dict[str, str]] = {
    "alfworld": "triage_gym.judges.alfworld:ALFWorldRules",
    "textworld": "triage_gym.judges.textworld:TextWorldRules",
    "sokoban": "triage_gym.judges.sokoban:SokobanRules",
    "minesweeper": "triage_gym.judges.minesweeper:MinesweeperRules",
    "webshop": "triage_gym.judges.webshop:WebShopRules",
    "searchqa": "triage_gym.judges.searchqa:SearchQARules",
}
"""By domain, the class with its rules; loaded when a window of the domain comes."""
VERSION: Final = 2
"""Another one whenever the rules of a domain come to label differently: what was kept of other versions is not found."""
DOMAINS: Final = (*RULES, "generic")
_warned: Final[set[str]] = set()
"""Domains that this process has warned of."""


class Rules(Protocol):
    """Rules of one domain. An object is made for each call of the judge, so that it may keep what it has read."""

    def verdict(self, window: Window) -> tuple[Role, str] | None:
        """Role and reason, or None when the task is none that these rules know."""
        ...


@dataclass(frozen=True, slots=True)
class RuleJudge:
    """Labels windows by rules on their text.

    Raises:
        InputError: For a ``domain`` without rules.
    """

    domain: str | None = None
    """Use these rules for every window; None goes by ``window.domain``. ``generic`` on ALFWorld is a task-blind judge."""
    warn: bool = True
    """Say once when the generic rules judge without having been chosen; for who keeps the source of every label, False."""

    def __post_init__(self) -> None:
        if self.domain is not None and self.domain not in DOMAINS:
            raise InputError(f"Expected `domain` to be one of {DOMAINS} or None, got {self.domain!r}")
        if not isinstance(self.warn, bool):
            raise InputError(f"Expected `warn` to be True or False, got {self.warn!r}")

    @property
    def identity(self) -> dict[str, str | int | None]:
        """All that its labels depend on but the windows."""
        return {"name": "rule", "version": VERSION, "domain": self.domain}

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        """One label a window, in order, with its reason in ``why`` and ``"rule"`` or ``"rule:generic"`` as source.

        Warns:
            UserWarning: Once a domain and process, when the generic rules judge without having been chosen; not with ``warn`` off.
        """
        made: dict[str, Rules] = {}
        labels = []
        for window in windows:
            source = "rule"
            domain = self.domain or window.domain
            if domain in RULES and domain not in made:
                made[domain] = registry.load(RULES[domain])()
            verdict = made[domain].verdict(window) if domain in made else None
            if verdict is None:
                if self.warn and self.domain != "generic":
                    _warn(domain, window.task)
                verdict, source = generic.verdict(window), "rule:generic"
            labels.append(RoleLabel(window.step, verdict[0], 1.0, None, verdict[1], source))
        return labels


def _warn(domain: str, task: str) -> None:
    """Say once that these windows get rules which know no task."""
    if domain in _warned:
        return
    _warned.add(domain)
    lacks = {"generic": "an environment that names no domain", **dict.fromkeys(RULES, f"the task {cut(task, 80)!r}")}
    warnings.warn(
        f"The rule judge has no rules for {lacks.get(domain, f'the domain {domain!r}')} and falls back on generic ones, "
        "which know no task and never say D. Give a judge of your own, or choose them knowingly: "
        """RuleJudge(domain="generic"), that is --judge '{"name": "rule", "domain": "generic"}'""",
        UserWarning,
        stacklevel=3,
    )
