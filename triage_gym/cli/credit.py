"""``triage-gym credit``: what actions were worth, and what credit rules should make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from triage_gym.cli.credit_counterfactual import CreditCounterfactual
from triage_gym.cli.credit_fit import CreditFit
from triage_gym.cli.credit_sensitivity import CreditSensitivity

ACTIONS = ("counterfactual", "fit", "sensitivity")


@dataclass(frozen=True, kw_only=True, slots=True)
class Credit:
    """Measure by counterfactuals whether roles will help, fit role constants to that, or try a grid of settings."""

    action: (
        Annotated[CreditCounterfactual, tyro.conf.subcommand("counterfactual")]
        | Annotated[CreditFit, tyro.conf.subcommand("fit")]
        | Annotated[CreditSensitivity, tyro.conf.subcommand("sensitivity")]
    )

    def run(self) -> int:
        """Run the chosen action."""
        return self.action.run()
