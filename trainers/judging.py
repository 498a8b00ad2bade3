"""The judge of a run: asked about whole batches after their episodes are over, stopped when it fails, checked by others.

A batch is asked about in chunks of some :data:`CHUNK` segments, whole attempts, and not further once the judge has failed
too often (:mod:`triage_gym.judges.breaker`): an outage then costs one chunk, and ends the run with nothing learnt from it.
An expensive judge, which is any but the rule judge, is not asked at all where the credit rule reads no labels. While one is
waited for, a line now and then says so (:mod:`triage_gym.trainers.waiting`), and the first signal ends the waiting.

What it leaves to others: to save the run as it was before the update (:mod:`triage_gym.trainers.loop`), and what to make
of judges that disagree (:mod:`triage_gym.trainers.monitors`).
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from triage_gym.credit import may_read_labels
from triage_gym.errors import JudgeOutage
from triage_gym.facts import FactName
from triage_gym.judges import nesting
from triage_gym.judges.breaker import Breaker, shortened
from triage_gym.judges.labelling import judge_attempts, label_records
from triage_gym.judges.rule import RULES, RuleJudge
from triage_gym.protocols import Judge, Window
from triage_gym.records import EpisodeRecord, Role, RoleLabel
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.waiting import Waiting, deadline_of
from triage_gym.windows import build_windows

CHUNK: Final = 512
"""Segments that a judge is asked about at a time; the rule judge is asked once."""
SAMPLE: Final = 200
"""Segments of an update that the second judge is asked about."""
SAMPLE_RULES: Final = 400
"""Segments that the rule judge is asked about beside another one; it costs nothing."""
NOT_ASKED: Final = "the credit rule reads no roles"
"""Why segments are unjudged that nobody wanted labels of."""
Pair = tuple[str, Role, Role]
"""Attempt of a segment, what the judge of the run called it, and what another one did."""


BUDGET: Final = "budget: "
"""What the reason of a failure begins with where a limit of the user's own was reached."""
RAISE: Final = (
    ". Give the judge a larger budget (its `pool`), with which --resume goes on: what labels do not depend on may change. "
    "Budgets count anew in each process"
)


@dataclass(frozen=True, slots=True)
class Opinions:
    """What another judge says of a sample of labelled segments."""

    pairs: list[Pair]
    """Those that it gave a role."""
    asked: int = 0
    """Segments of the sample."""
    why: str = ""
    """Commonest reason why it gave none; "" where it always did."""

    @property
    def silent(self) -> float | None:
        """Share of the sample without a role; None where nothing was asked."""
        return 1.0 - len(self.pairs) / self.asked if self.asked else None


class Judging:
    """What a run asks judges.

    Args:
        config: The run, resolved.

    Raises:
        InputError: For a judge that cannot be built.
        MissingDependency: For one whose extra is not installed.
    """

    def __init__(self, config: TrainConfig) -> None:
        self._share = config.judge_failures
        self._window = config.judge_window
        self.judge: Judge = nesting.inner(config.judge)
        """Asked when the episodes of an update are over, about all of them at once."""
        rule = config.credit_rule()
        self.matters = may_read_labels(rule)
        """Whether anything is learnt from labels."""
        self.is_rule = isinstance(self.judge, RuleJudge)
        self.asks = self.matters or self.is_rule
        """Whether segments are labelled."""
        second = config.second_judge if self.matters else None
        self.second: Judge | None = None if second is None else nesting.inner(second)
        """Asked about a sample now and then; what it says is compared and never learnt from."""
        self.breaker = Breaker(config.judge_failures)
        self.cuttable: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
        """Around calls of judges that may take long; a signal ends what is in it."""
        self._deadline = deadline_of(config.judge)
        self._second_deadline = None if config.second_judge is None else deadline_of(config.second_judge)
        self._waited = 0.0
        self._spent: dict[str, float] = {}

    def leave_out(self) -> None:
        """Ask no judge that costs: nothing will be learnt from labels."""
        self.matters, self.second = False, None
        self.asks = self.is_rule

    @property
    def facts(self) -> tuple[FactName, ...]:
        """What must be measured of each turn for the judges that are asked."""
        asked = [self.judge] if self.asks else []
        return nesting.facts_needed(*asked, *([] if self.second is None else [self.second]))

    def label(self, records: Sequence[EpisodeRecord], outcome_text: Sequence[str]) -> list[EpisodeRecord]:
        """The attempts of a batch with a label a segment.

        Raises:
            JudgeOutage: When the judge has failed too often; it was not asked any further.
        """
        if not self.asks:
            return [
                r.with_labels([RoleLabel(s.index, None, why=NOT_ASKED, status="unjudged") for s in r.segments])
                for r in records
            ]
        judge = self.judge
        if isinstance(judge, RuleJudge) and not self.matters:
            judge = replace(judge, warn=False)  # that it has no rules is no news when nothing is learnt from it
        return label_records(records, judge, self._window, self._window, outcome_text=outcome_text, ask=self._ask)

    def _ask(self, judge: Judge, attempts: Sequence[Sequence[Window]]) -> list[list[RoleLabel]]:
        found: list[list[RoleLabel]] = []
        for chunk in [attempts] if self.is_rule else _chunks(attempts):
            with self._waiting(judge, sum(map(len, chunk)), self._deadline):
                labels = judge_attempts(judge, chunk)
            found += labels
            if self.breaker.add(label for attempt in labels for label in attempt):
                raise JudgeOutage(self._problem())
        return found

    @contextlib.contextmanager
    def _waiting(self, judge: Judge, turns: int, deadline: float | None) -> Iterator[None]:
        """Around one call of ``judge``."""
        if isinstance(judge, RuleJudge):
            yield
            return
        began = time.monotonic()
        try:
            with self.cuttable(), Waiting(judge, turns, deadline):
                yield
        finally:
            self._waited += time.monotonic() - began

    def _problem(self) -> str:
        b = self.breaker
        budget = any(why.startswith(BUDGET) for why, _ in b.reasons())
        reasons = "; ".join(f"{count} × {why}" for why, count in b.reasons())
        return (
            f"Expected the judge to answer, got {b.failed} failures among the last {b.asked} segments that it was asked "
            f"about, more than `judge_failures` ({100 * self._share:g} % of {b.window}) allows: {reasons}{RAISE if budget else ''}"
        )

    def spent(self) -> dict[str, float]:
        """What the judges cost since the last call, by names that begin with ``judge_`` and ``second_judge_``.

        ``judge_wall_s`` are the seconds that both were waited for; the rule judge costs nothing and is left out.
        """
        found = {f"judge_{name}": value for name, value in nesting.usage_of([self.judge]).items()}
        if not self.is_rule or self.second is not None:
            found["judge_wall_s"] = self._waited
        if self.second is not None:
            found |= {f"second_judge_{name}": value for name, value in nesting.usage_of([self.second]).items()}
        before, self._spent = self._spent, found
        return {name: value - before.get(name, 0) for name, value in found.items()}

    def by_rules(self, records: Sequence[EpisodeRecord], draw: np.random.Generator, text: Sequence[str]) -> Opinions:
        """A sample of the batch's labels beside those of the rule judge; none where it is the judge, or has no rules."""
        if self.is_rule or not self.matters or not records or records[0].domain not in RULES:
            return Opinions([])
        return compared(records, RuleJudge(), draw, text, SAMPLE_RULES)

    def by_second(self, records: Sequence[EpisodeRecord], draw: np.random.Generator, text: Sequence[str]) -> Opinions:
        """A sample of the batch's labels beside those of the second judge; none where there is no second judge."""
        if self.second is None:
            return Opinions([])
        with self._waiting(self.second, SAMPLE, self._second_deadline):
            return compared(records, self.second, draw, text, window=self._window)

    def close(self) -> None:
        """Let go of what the judges hold open."""
        nesting.close(self.judge, *([] if self.second is None else [self.second]))


def compared(
    records: Sequence[EpisodeRecord],
    other: Judge,
    draw: np.random.Generator,
    outcome_text: Sequence[str],
    most: int = SAMPLE,
    window: int = 5,
) -> Opinions:
    """Labels of a random sample of newly acted segments, beside those that another judge gives.

    Attempts at one task often begin alike, and a judge errs alike on what is alike: of segments that are the same up to
    their action, one is taken, so that what is compared are so many separate opinions.

    Args:
        records: Labelled attempts.
        other: Asked about the sample, in one call.
        draw: Draws the sample.
        outcome_text: Literals to redact.
        most: Segments of the sample, among those with a role from the run's own judge.
        window: Pairs of action and observation that it sees before and after a segment.
    """
    places = [(i, k) for i, r in enumerate(records) for k in range(r.prefix_length, len(r)) if r.labels[k].role]
    seen = set()
    chosen: dict[int, list[Window]] = {}
    for at in draw.permutation(len(places)).tolist():
        i, k = places[at]
        (shown,) = build_windows(records[i], window, window, outcome_text, steps=range(k, k + 1))
        until = (shown.task, shown.past, shown.observation, shown.action, shown.earlier_actions)
        if until not in seen:
            seen.add(until)
            chosen.setdefault(i, []).append(shown)
        if len(seen) == most:
            break
    windows = [sorted(own, key=lambda w: w.step) for own in chosen.values()]
    pairs: list[Pair] = []
    reasons: Counter[str] = Counter()
    for i, labels in zip(chosen, judge_attempts(other, windows), strict=True):
        own = {label.step: label.role for label in records[i].labels}
        pairs += [(str(i), mine, x.role) for x in labels if x.role is not None and (mine := own[x.step]) is not None]
        reasons.update(shortened(f"{x.status}: {x.why}" if x.why else x.status) for x in labels if x.role is None)
    return Opinions(pairs, len(seen), reasons.most_common(1)[0][0] if reasons else "")


def _chunks(attempts: Sequence[Sequence[Window]]) -> Iterator[list[Sequence[Window]]]:
    """The attempts in runs of some :data:`CHUNK` windows."""
    chunk: list[Sequence[Window]] = []
    size = 0
    for attempt in attempts:
        if chunk and size + len(attempt) > CHUNK:
            yield chunk
            chunk, size = [], 0
        chunk.append(attempt)
        size += len(attempt)
    if chunk:
        yield chunk
