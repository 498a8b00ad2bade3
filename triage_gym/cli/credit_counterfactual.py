"""``triage-gym credit counterfactual``: go back, play on with and without an action, and say whether roles will help."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from triage_gym.cli.judge_audit import judges_of, write_text
from triage_gym.cli.output import say, tell
from triage_gym.errors import InputError

if TYPE_CHECKING:
    from triage_gym.audit.labels import LabelledWindow
    from triage_gym.protocols import Judge
    from triage_gym.trainers.config import TrainConfig
    from triage_gym.trainers.counterfactual import Measured, Player


_OF_START = ("env", "env_kwargs", "limit", "demos")
"""Flags that say what start policy is made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CreditCounterfactual:
    """Measure A* of turns by counterfactual continuations, and say whether a judge's roles will help."""

    source: Annotated[Path | None, tyro.conf.Positional] = None
    """Run or checkpoint whose policy plays, or a file of rows from --out to look at again; without it a start policy is
    cloned as train does it."""
    judge: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """A judge: its name, or a JSON object with its options; rule by default. May be given again for further judges."""
    env: str | None = None
    """Environment of the start policy: a registered name, a Gymnasium id or a module:attr path; alfworld by default."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Its further arguments, such as size=[7,7]: JSON values, or text."""
    limit: int | None = None
    """Turns of its episodes, 30 by default."""
    demos: int | None = None
    """Demonstrations that it is cloned from; as in train."""
    turns: int = 100_000
    """Environment turns to spend."""
    rollouts: int = 4
    """Continuations with the action, and as many without, a turn."""
    groups: int = 8
    """Tasks a round; eight episodes each."""
    segments: int = 64
    """Turns measured a round."""
    workers: int = 1
    """Processes that measure side by side; what is measured does not depend on their number."""
    seed: int = 0
    """Of the start policy and of all draws."""
    constants: tuple[float, float, float, float] = (1.0, 0.5, -0.1, -0.5)
    """Worth of D, E, N, R that the roles are weighed with."""
    lam: float = 0.2
    """Their weight against the outcome."""
    out: Path | None = None
    """File for the rows, which credit fit and judge audit read."""
    json: Path | None = None
    """File for all numbers, as JSON."""
    html: Path | None = None
    """Page to write."""
    quiet: bool = False
    """No progress, only warnings and the result."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> int:
        """Measure or read, label, and print what comes of it; status 1 when a judge gave no role at all."""
        from triage_gym.audit.counterfactual import look, verdict
        from triage_gym.audit.lab_text import summary
        from triage_gym.audit.labels import write_labels
        from triage_gym.judges.nesting import close

        for path in (self.out, self.json, self.html):
            if path is not None and (path.is_dir() or not path.parent.is_dir()):
                raise InputError(f"Expected a file in a folder that exists to write to, got {path}")
        judges = judges_of(self.judge)
        rows, head, measured = self._rows(judges)
        if self.out is not None and measured is not None:
            write_labels(self.out, rows)  # before judges are asked: whatever comes of them, the turns are not lost
        from triage_gym.trainers.counterfactual_rows import labelled

        try:
            rows = labelled(rows, judges, measured)
        finally:
            close(*judges.values())
        found = look(rows, constants=self.constants, lam=self.lam)
        words = [verdict(finding, None if measured is None else measured.spent) for finding in found]
        written = []
        if self.out is not None:
            write_labels(self.out, rows)
            written.append(f"rows: {self.out}")
        if self.json is not None:
            data = {"schema": 1, **head, "findings": [f.to_json() for f in found], "verdicts": words}
            write_text(self.json, json.dumps(data, allow_nan=False, indent=1) + "\n")
            written.append(f"numbers: {self.json}")
        if self.html is not None:
            from triage_gym.audit.lab_page import render

            write_text(self.html, render(rows, found, words, head))
            written.append(f"page: {self.html}")
        say("\n\n".join([*summary(rows, found, words, head), *(["\n".join(written)] if written else [])]))
        return int(any(finding.n == 0 for finding in found))

    def _rows(self, judges: dict[str, Judge]) -> tuple[list[LabelledWindow], dict[str, Any], Measured | None]:
        """The rows, what is said of where they come from, and what they were made of; with the rule judge for want of any."""
        if self.source is not None and self.source.is_file():
            from triage_gym.audit.labels import read_labels

            self._refuse("turns", "rollouts", "groups", "segments", "workers", "seed", *_OF_START, where=self.source)
            rows = read_labels(self.source)
            if not judges and not any(row.labels for row in rows):
                judges |= judges_of(("rule",))
            return rows, {"source": str(self.source)}, None
        if not judges:
            judges |= judges_of(("rule",))
        from triage_gym.cli.making import need_trainer
        from triage_gym.judges.nesting import facts_needed

        need_trainer()
        from triage_gym.trainers.counterfactual import Sampling, measure
        from triage_gym.trainers.counterfactual_rows import rows_of
        from triage_gym.trainers.probing import probe

        sampling = Sampling(
            turns=self.turns, rollouts=self.rollouts, groups=self.groups, segments=self.segments, seed=self.seed
        )
        config, player, who = self._player()
        probe(config)
        found = measure(
            config,
            player,
            sampling,
            None if self.quiet else _progress(self.turns),
            facts=facts_needed(*judges.values()),
            workers=self.workers,
        )
        head = {
            "source": who,
            "env": config.env,
            "split": found.split,
            "episodes": found.episodes,
            "success": found.success,
            "spent": found.spent,
            "rollouts": self.rollouts,
            "refused": found.refused,
            "broken": found.broken,
            "noisy": found.noisy,
        }
        settings = {"env": config.env, "env_kwargs": dict(config.env_kwargs), "limit": config.limit}
        rows = [replace(row, origin={**row.origin, "settings": settings}) for row in rows_of(found, config.env)]
        return rows, head, found

    def _refuse(self, *names: str, where: Path) -> None:
        """Take no flag that would do nothing."""
        plain = CreditCounterfactual()
        given = [name for name in names if getattr(self, name) != getattr(plain, name)]
        if given:
            raise InputError(
                f"Expected no --{given[0].replace('_', '-')} with {where}, which has its own, got it; drop it"
            )

    def _player(self) -> tuple[TrainConfig, Player, str]:
        from triage_gym.trainers.config import TrainConfig
        from triage_gym.trainers.evaluation import load_policy
        from triage_gym.trainers.pretraining import make_start

        if self.source is not None:
            self._refuse(*_OF_START, where=self.source)
            policy, config, state = load_policy(self.source)
            return config, policy, f"{self.source}, after {state['turns']} turns of training"
        config = TrainConfig(
            env=self.env or "alfworld",
            env_kwargs=self.env_kwargs,
            limit=30 if self.limit is None else self.limit,
            demos=self.demos,
            seed=self.seed,
        ).resolved()
        policy, _ = make_start(config)
        demos = config.demos or 0
        return config, policy, f"start policy of {config.env}, {demos} demonstrations, seed {self.seed}"


def _progress(turns: int) -> Any:
    def show(found: Measured) -> None:
        tell(f"{min(found.spent, turns):,} of {turns:,} turns, {len(found.turns)} turns measured")

    return show
