"""``triage-gym judge``: how good a judge is, and the labels that tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from triage_gym.cli.judge_audit import JudgeAudit
from triage_gym.cli.judge_label import JudgeLabel

ACTIONS = ("audit", "label")


@dataclass(frozen=True, kw_only=True, slots=True)
class Judge:
    """Hold judges against labels, and make such labels."""

    action: Annotated[JudgeAudit, tyro.conf.subcommand("audit")] | Annotated[JudgeLabel, tyro.conf.subcommand("label")]

    def run(self) -> int:
        """Run the chosen action."""
        return self.action.run()
