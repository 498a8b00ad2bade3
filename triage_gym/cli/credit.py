"""``triage-gym credit``: what actions were worth, and what credit rules should make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from triage_gym.cli.credit_counterfactual import CreditCounterfactual
from triage_gym.cli.credit_fit import CreditFit

ACTIONS = ("counterfactual", "fit")


@dataclass(frozen=True, kw_only=True, slots=True)
class Credit:
    """Measure by counterfactuals whether roles will help, or fit role constants to that."""

    action: (
        Annotated[CreditCounterfactual, tyro.conf.subcommand("counterfactual")]
        | Annotated[CreditFit, tyro.conf.subcommand("fit")]
    )

    def run(self) -> int:
        """Run the chosen action."""
        return self.action.run()
