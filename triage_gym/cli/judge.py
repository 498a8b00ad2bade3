"""``triage-gym judge``: what an endpoint can do as a judge, how good judges are, and the labels that tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from triage_gym.cli.judge_audit import JudgeAudit
from triage_gym.cli.judge_check import JudgeCheck
from triage_gym.cli.judge_collect import JudgeCollect
from triage_gym.cli.judge_label import JudgeLabel

ACTIONS = ("check", "audit", "label", "collect")


@dataclass(frozen=True, kw_only=True, slots=True)
class Judge:
    """Probe an endpoint, hold judges against labels, label by hand, or collect labels by playing."""

    action: (
        Annotated[JudgeCheck, tyro.conf.subcommand("check")]
        | Annotated[JudgeAudit, tyro.conf.subcommand("audit")]
        | Annotated[JudgeLabel, tyro.conf.subcommand("label")]
        | Annotated[JudgeCollect, tyro.conf.subcommand("collect")]
    )

    def run(self) -> int:
        """Run the chosen action."""
        return self.action.run()
