"""``triage-gym pretrain``: a start policy cloned from demonstrations."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from triage_gym.cli.flags import Flags
from triage_gym.cli.output import say
from triage_gym.errors import InputError

if TYPE_CHECKING:
    from triage_gym.cli.parsing import Base


@dataclass(frozen=True, kw_only=True, slots=True)
class Pretrain:
    """Clone a start policy from a searching expert's demonstrations."""

    run_dir: Path | None = None
    """Where the checkpoint is written; runs/start-sSEED by default."""
    config: Path | None = None
    """TOML or JSON file with any of these settings; flags win over it."""
    debug: bool = False
    """Show the traceback of an error."""
    training: Flags = field(default_factory=Flags)

    @classmethod
    def over(cls, base: Base) -> Pretrain:
        """The command whose flags are laid over ``base``."""
        return cls(training=Flags.of(base.training))

    def run(self) -> int:
        """Clone and save, and print how well it fits."""
        config = self.training.checked()
        path = self.run_dir or Path("runs") / f"start-s{config.seed}"
        if (path / "config.json").exists():
            raise InputError(f"Expected a new directory, got {path}, which holds config.json; choose another --run-dir")
        if not config.resolved().demos:
            raise InputError(
                "Expected demonstrations to clone a start policy from, got none: "
                + (
                    "--demos is 0"
                    if config.is_alfworld
                    else f"{config.env!r} makes none unless --demos says how many, and then needs an expert_action()"
                )
                + "; train begins from random weights by itself, without --start"
            )
        from triage_gym.trainers import pretrain

        checkpoint = pretrain(config, path)
        facts = json.loads((path / "pretrain.json").read_text(encoding="utf-8"))
        loss = facts["loss"]
        say(f"{facts['demos']} demonstrations, {facts['turns']} turns")
        if loss:
            say(f"loss {loss[0]:.3f} → {loss[-1]:.3f} over {len(loss)} passes")
        say(f"checkpoint: {checkpoint}")
        say(f"next: triage-gym eval {path}   or   triage-gym train --start {path}")
        return 0
