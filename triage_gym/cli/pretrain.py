"""``triage-gym pretrain``: a start policy cloned from demonstrations."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from triage_gym.cli.flags import Flags
from triage_gym.cli.output import count, say
from triage_gym.display import table
from triage_gym.errors import InputError

if TYPE_CHECKING:
    from triage_gym.cli.parsing import Base
    from triage_gym.trainers.config import TrainConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Pretrain:
    """Clone a start policy from a searching expert's demonstrations."""

    run_dir: Path | None = None
    """Where the checkpoint is written; runs/start-sSEED by default."""
    config: Path | None = None
    """TOML or JSON file with any of these settings; flags win over it."""
    debug: bool = False
    """Show the traceback of an error."""
    target: tuple[float, float] | None = None
    """Success that the start shall have, such as 0.05 0.15: as few demonstrations are taken as bring it there, measured on
    tasks that nothing is trained or tested on."""
    target_tasks: int = 300
    """Tasks that success is measured on for that."""
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
        if self.target is not None:
            return self._search(config, path, self.target)
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
        say(
            f"{count(facts['demos'], 'demonstration')}, {facts['turns']} turns, by an expert that knows {facts['expert_knows']}"
        )
        if loss:
            say(f"loss {loss[0]:.3f} → {loss[-1]:.3f} over {len(loss)} passes")
        return _said(checkpoint, path)

    def _search(self, config: TrainConfig, path: Path, target: tuple[float, float]) -> int:
        """Find the smallest number of demonstrations that brings success into ``target``."""
        if config.demos is not None:
            raise InputError(
                f"Expected --demos or --target, got both: --target finds the number; leave out --demos {config.demos}"
            )
        if self.target_tasks < 1:
            raise InputError(f"Expected --target-tasks to be at least 1, got {self.target_tasks}")
        from triage_gym.trainers import pretrain

        checkpoint = pretrain(config, path, target=target, tasks=self.target_tasks)
        facts = json.loads((path / "pretrain.json").read_text(encoding="utf-8"))
        found = facts["target"]
        rows = [
            [
                "→" if row["demos"] == facts["demos"] else "",
                row["demos"],
                f"{100 * row['success']:.1f}",
                f"{100 * row['low']:.1f}–{100 * row['high']:.1f}",
            ]
            for row in found["tried"]
        ]
        say(f"success on {found['tried'][0]['tasks']} tasks{_of(found['split'])}, seed {config.seed}")
        say(table(["", "demonstrations", "success, %", "95 %"], rows))
        low, high = (100 * share for share in target)
        knows = (
            f", by an expert that knows {facts['expert_knows']}"
            if facts["demos"]
            else ": a random start is in the range"
        )
        say(f"{low:g} to {high:g} %: {count(facts['demos'], 'demonstration')}{knows}")
        return _said(checkpoint, path)


def _of(split: str | None) -> str:
    return "" if split is None else f" of {split}"


def _said(checkpoint: Path, path: Path) -> int:
    say(f"checkpoint: {checkpoint}")
    train = f"triage-gym train --config {path / 'config.json'} --start {path} --credit triage"
    say(f"next: triage-gym eval {path}   or   {train}")
    return 0
