"""What a report says, as plain data: no file, no HTML, no run directory.

:mod:`triage_gym.report.load` fills these from a run directory, :mod:`triage_gym.report.page` draws them. Success is a
share in [0, 1], lengths and turns are counted in environment turns, intervals are half-widths of 95 % intervals over
seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from triage_gym.records import EpisodeRecord


@dataclass(frozen=True, slots=True)
class Arm:
    """One line of the comparison: a credit rule with its options."""

    name: str
    """As it is written in a config: ``grpo+whiten``."""
    label: str
    """As a reader sees it: ``GRPO + whitening``."""
    note: str = ""
    """What the rule does, in one sentence."""
    control: bool = False
    """A line that is there to be beaten or matched, not to be used."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds, its 95 % interval and every seed behind it."""

    mean: float
    half_width: float | None
    """None for fewer than two seeds: then there is no interval."""
    values: tuple[tuple[int, float], ...]
    """``(seed, value)``, in the order of the seeds."""

    @property
    def positive(self) -> int:
        """How many seeds are above zero."""
        return sum(value > 0 for _, value in self.values)

    @property
    def negative(self) -> int:
        """How many seeds are below zero."""
        return sum(value < 0 for _, value in self.values)

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of zero."""
        return self.half_width is not None and abs(self.mean) > self.half_width


@dataclass(frozen=True, slots=True)
class Row:
    """Final held-out result of one arm; None where no run measured it."""

    arm: str
    success: Estimate | None
    greedy: Estimate | None
    length: Estimate | None
    """Turns of its own successful episodes."""
    regressions: Estimate | None
    """Segments labelled R in a successful episode, counted after the fact; the policy never saw these labels."""
    retried: Estimate | None = None
    """Tasks solved by one of all attempts, pass@N; None where failures were not retried."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One arm minus the reference, seed by seed: same start, same tasks, same held-out games."""

    arm: str
    success: Estimate | None
    length_percent: Estimate | None
    """Change of length in per cent on the games that both solve; below zero is shorter."""
    regressions: Estimate | None
    retried: Estimate | None = None
    """Of tasks solved by one of all attempts."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity of one arm against environment turns, over its seeds."""

    arm: str
    turns: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    runs: int
    seeds: tuple[tuple[tuple[float, float], ...], ...] = ()
    """``(turns, value)`` of every seed, where they are too few for a band that says anything."""


@dataclass(frozen=True, slots=True)
class RoleMix:
    """Shares of the roles in training over environment turns, mean over seeds; unjudged segments are left out."""

    arm: str
    turns: tuple[float, ...]
    shares: Mapping[str, tuple[float, ...]]
    """``D``, ``E``, ``N`` and ``R``, each as long as ``turns``; they sum to 1 at every point."""


@dataclass(frozen=True, slots=True)
class Episode:
    """An attempt to read, with what training made of it."""

    arm: str
    seed: int
    record: EpisodeRecord
    advantages: tuple[float, ...] | None = None
    """One number a segment, as the policy was trained with; None when it was not trained."""
    update: int | None = None
    """Number of the update that it belongs to."""
    turns: int | None = None
    """Environment turns of the run when it was collected."""
    task_type: str = ""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that began to look as if the judge was played, or had changed."""

    name: str
    seed: int
    update: int
    turns: int
    """Environment turns of the run then."""


@dataclass(frozen=True, slots=True)
class JudgeLine:
    """What the runs of an arm say of their judge."""

    arm: str
    judge: str
    """The judge as a reader sees it."""
    shares: tuple[tuple[str, float | None], ...]
    """Means over updates, by the names of ``metrics.jsonl``; None for what was not logged."""
    costs: tuple[tuple[str, float], ...]
    """Sums over updates and runs, by name; empty for a judge that counts nothing."""
    alarms: tuple[Alarm, ...]
    short: int = 0
    """How many updates it takes for a drift to show, where its runs have fewer; else 0."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything on the page."""

    title: str
    facts: tuple[tuple[str, str], ...]
    """What was run, as ``(name, value)``: environment, limit, turns, seeds, split."""
    arms: tuple[Arm, ...]
    reference: str | None
    """Arm that the differences are taken against; None for a single run."""
    rows: tuple[Row, ...]
    differences: tuple[Difference, ...] = ()
    held_out: tuple[Curve, ...] = ()
    training: tuple[Curve, ...] = ()
    lengths: tuple[Curve, ...] = ()
    roles: tuple[RoleMix, ...] = ()
    judges: tuple[JudgeLine, ...] = ()
    episodes: tuple[Episode, ...] = ()
    episodes_total: int = 0
    """How many there were before the page's limit."""
    caveats: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What is missing from the numbers: runs that failed or are not finished. At the top of the page."""
    notices: tuple[str, ...] = ()
    """What the trainer warned of, such as no outcome variance or a high share of E. At its end."""
    unfinished: str = ""
    """How far a single run has come when it is not at its end; "" when it is."""
    config: Mapping[str, object] = field(default_factory=dict)
    command: str = ""
    """What runs it again."""
