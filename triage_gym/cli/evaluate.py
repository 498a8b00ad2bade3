"""``triage-gym eval``: a checkpoint on held-out tasks or on real game files, without any judge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from triage_gym.cli.output import say
from triage_gym.display import table
from triage_gym.errors import InputError

if TYPE_CHECKING:
    from triage_gym.trainers.evaluation import Evaluation, TaskResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Eval:
    """Evaluate a checkpoint on held-out tasks or on real game files."""

    checkpoint: Annotated[Path, tyro.conf.Positional]
    """Run directory, checkpoint folder or checkpoint."""
    games: Path | None = None
    """Real ALFWorld games: a game file, a folder, or the word ALFWORLD_DATA for the folder that the variable names."""
    split: str | None = None
    """train, valid_seen, valid_unseen for ALFWorld, train, val, test for the others; by default the run's own evaluation
    split, valid_unseen or test."""
    task_types: tuple[str, ...] | None = None
    """Task types to play; the run's own by default."""
    tasks: int | None = None
    """How many; the run's own number by default, every game there is with --games."""
    limit: int | None = None
    """Turns of an episode; the run's own by default."""
    mode: Literal["sampled", "greedy"] = "sampled"
    """Draw commands from the policy, or take the likeliest."""
    seed: int | None = None
    """Seed of the draws; the run's own by default."""
    save: Path | None = None
    """File for the result of every task, as JSON."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> int:
        """Evaluate and print success by task type."""
        from triage_gym.cli.making import find_games
        from triage_gym.trainers import evaluate

        found = evaluate(
            self.checkpoint,
            tasks=self.tasks,
            split=self.split,
            games=find_games(self.games),
            task_types=self.task_types,
            limit=self.limit,
            mode=self.mode,
            seed=self.seed,
            measure=self.save is not None,  # nothing of it is printed here: `retry` does that
        )
        _print(found, "the games given" if self.games else found.split or "tasks")
        if self.save is not None:
            try:
                self.save.write_text(json.dumps(found.to_json(), indent=1) + "\n", encoding="utf-8")
            except OSError as error:
                raise InputError(f"Expected to write the result to {self.save}, got: {error}") from error
            say(f"saved: {self.save}")
        return 0


def _print(found: Evaluation, where: str) -> None:
    say(f"{found.mode}, after {found.turns} turns of training, on {where}, limit {found.limit}")
    say()
    kinds = sorted({t.task_type for t in found.tasks if t.task_type})
    groups = {kind: [t for t in found.tasks if t.task_type == kind] for kind in kinds if len(kinds) > 1}
    groups["all"] = list(found.tasks)
    head = ["tasks", "n", "success, %", "95 %", "turns of a success", "R per success"]
    rows = [_row(name, tasks) for name, tasks in groups.items()]
    if found.score is not None and any(t.score != t.success for t in found.tasks):  # else it says the same again
        head.insert(4, "mean score")
        for row, tasks in zip(rows, groups.values(), strict=True):
            row.insert(4, f"{sum(t.score or 0.0 for t in tasks) / len(tasks):.3f}")
    say(table(head, rows))
    if found.attempts > 1:
        from triage_gym.statistics import wilson

        say()
        solved = [
            sum(t.solved_at is not None and t.solved_at < k for t in found.tasks) for k in range(1, found.attempts + 1)
        ]
        rates = [wilson(n, len(found.tasks)) for n in solved]
        shown = [f"{100 * r.estimate:.1f} ({100 * r.low:.1f}–{100 * r.high:.1f})" for r in rates]
        say("with retries, % (95 %): " + ", ".join(f"pass@{k} {text}" for k, text in enumerate(shown, 1)))


def _row(name: str, tasks: Sequence[TaskResult]) -> list[object]:
    from triage_gym.statistics import wilson

    won = [t for t in tasks if t.success]
    rate = wilson(len(won), len(tasks))
    counted = [t.r_posthoc for t in won if t.r_posthoc is not None]
    return [
        name,
        len(tasks),
        f"{100 * rate.estimate:.1f}",
        f"{100 * rate.low:.1f}–{100 * rate.high:.1f}",
        f"{sum(t.length for t in won) / len(won):.1f}" if won else "–",
        f"{sum(counted) / len(counted):.2f}" if counted else "–",
    ]
