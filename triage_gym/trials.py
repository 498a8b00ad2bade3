"""Trials and what is measured of them: pass@k, the cost of every turn, where pivots fell. Pure functions of records.

A *trial* is up to N attempts of one agent at a task, each after the first made by a retry. Two kinds of environment turns
are always counted apart: *generated* ones, which the agent acted, and *replayed* ones, the prefix that a retry began with.

What it promises: an attempt is counted in the trial that its record names, and a trial whose attempts do not belong
together is refused. An attempt with an ``error`` (a crash, a restore that did not verify) is no success, and its turns
count. What it leaves to you: trials that were all allowed the same attempts, and to say what was held fixed when two
sets of them are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from triage_gym.errors import GroupError, InputError
from triage_gym.records import EpisodeRecord
from triage_gym.statistics import Interval, Paired, paired_difference, wilson

SCHEMA: Final = 1
Key = tuple[str, str, int]
"""``(group_id, trial, attempt)`` of a record: what its agent, its environment or its evaluator noted about it besides."""


def key_of(record: EpisodeRecord) -> Key:
    """The key of ``record``."""
    return record.group_id, record.trial, record.attempt


def words(text: str) -> int:
    """How many words ``text`` has, words being what white space separates: the unit when no tokenizer is at hand."""
    return len(text.split())


@dataclass(frozen=True, slots=True)
class Trial:
    """The attempts of one agent at one task, in order.

    Args:
        records: From attempt 0 on, without a gap.

    Raises:
        GroupError: If the attempts are not one lineage: another group or trial, a number missing or twice, a parent that
            is not an earlier attempt, or a prefix that the parent did not play.
    """

    records: tuple[EpisodeRecord, ...]

    def __post_init__(self) -> None:
        if not self.records:
            raise GroupError("Expected a trial to have attempts, got none")
        root = self.records[0]
        for number, record in enumerate(self.records):
            name = f"trial {record.trial!r} of group {record.group_id!r}"
            if (record.group_id, record.trial) != (root.group_id, root.trial):
                raise GroupError(f"Expected attempts of one trial, got {name} beside {root.trial!r}")
            if record.attempt != number:
                raise GroupError(
                    f"Expected the attempts of {name} to be 0, 1, 2, …, got {[r.attempt for r in self.records]}; "
                    "give every agent a trial_id of its own, and all of its attempts"
                )
            _check_parent(self.records, record, name)

    @property
    def group_id(self) -> str:
        """The task instance."""
        return self.records[0].group_id

    @property
    def solved_at(self) -> int | None:
        """Number of the attempt that solved the task, from 0; None when none did."""
        return next((r.attempt for r in self.records if r.success and r.error is None), None)

    def solved_within(self, attempts: int) -> bool:
        """Whether one of the first ``attempts`` attempts solved the task."""
        return self.solved_at is not None and self.solved_at < attempts

    @property
    def generated(self) -> tuple[int, ...]:
        """Turns that the agent acted in each attempt."""
        return tuple(len(r) - r.prefix_length for r in self.records)

    @property
    def replayed(self) -> tuple[int, ...]:
        """Turns of the prefix that each attempt began with."""
        return tuple(r.prefix_length for r in self.records)

    @property
    def turns_to_success(self) -> int | None:
        """Generated turns up to and with the attempt that solved the task; None when none did."""
        return None if self.solved_at is None else sum(self.generated[: self.solved_at + 1])


def _check_parent(records: Sequence[EpisodeRecord], record: EpisodeRecord, name: str) -> None:
    if record.attempt == 0:
        if record.parent != -1 or record.prefix_length:
            raise GroupError(f"Expected attempt 0 of {name} to begin afresh, got a retry of attempt {record.parent}")
        return
    if not 0 <= record.parent < record.attempt:
        raise GroupError(
            f"Expected attempt {record.attempt} of {name} to retry an earlier one, got parent {record.parent}"
        )
    kept = [s.action for s in record.segments[: record.prefix_length]]
    played = [s.action for s in records[record.parent].segments[: record.prefix_length]]
    if kept != played:
        raise GroupError(
            f"Expected the {record.prefix_length} kept turns of attempt {record.attempt} of {name} to be those of attempt "
            f"{record.parent}, got other actions"
        )


def trials_of(records: Iterable[EpisodeRecord]) -> list[Trial]:
    """The trials that ``records`` make up, in the order in which each first appears; attempts may come in any order.

    Raises:
        GroupError: If the attempts of one do not belong together (:class:`Trial`).
    """
    found: dict[tuple[str, str], list[EpisodeRecord]] = {}
    for record in records:
        found.setdefault((record.group_id, record.trial), []).append(record)
    return [Trial(tuple(sorted(attempts, key=lambda r: r.attempt))) for attempts in found.values()]


@dataclass(frozen=True, slots=True)
class Turns:
    """Environment turns of one kind."""

    total: int
    per_trial: float
    by_attempt: tuple[int, ...]
    """In all first attempts, all second ones, …"""


@dataclass(frozen=True, slots=True)
class Written:
    """Text that the agent wrote."""

    unit: str
    """``words``, or ``tokens`` where the caller counted with a tokenizer."""
    actions: int
    """Of newly acted commands."""
    reflections: int
    """Of reflections in the agent's own words; remarks that a rule makes are not written by an agent."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Reflected pivots against those of the environment's expert, where it was asked and the reflection was sound."""

    equal: Interval
    within_one: Interval
    """At most one turn apart."""
    distance: float
    """Mean absolute number of turns between the two."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What a reflection is spread over: all T turns of its attempt, or the T-k that follow the boundary k.

    Pooled over retries, so that each figure is a ratio of sums (after PivoARL's view of information gain,
    arXiv:2607.03702; its formula is not published, this form is ours).
    """

    retries: int
    turns: float
    """Mean T: turns of a retry, its prefix included."""
    kept: float
    """Mean k: turns of its prefix."""
    concentration: float
    """ΣT / Σ(T-k): how much denser the same information is at the boundary; 1 for full restarts."""
    measured: int = 0
    """Retries whose bits were given."""
    bits: float | None = None
    """Mean information of a reflection, in bits a retry; None when none was measured."""
    bits_per_turn: float | None = None
    """Spread over all turns of the attempt: I / T."""
    bits_per_generated_turn: float | None = None
    """Spread over the turns acted anew: I / (T-k)."""


@dataclass(frozen=True, slots=True)
class TrialSummary:
    """What a set of trials came to. All intervals are 95 % Wilson intervals over trials."""

    trials: int
    attempts: int
    """Allowed a trial."""
    solved: tuple[Interval, ...]
    """pass@1 … pass@N: the share solved by one of the first k attempts."""
    made: tuple[int, ...]
    """Trials that made a first, a second, … attempt."""
    unfinished: int
    """Trials that are not solved although attempts were left; they count as not solved."""
    broken: int
    """Attempts with an error."""
    generated: Turns
    replayed: Turns
    per_thousand: float
    """Tasks solved for each 1,000 generated turns."""
    written: Written
    strategies: Mapping[str, int]
    """Retries by the way their environment was brought to the pivot."""
    statuses: Mapping[str, int]
    """Retries by what the check of the restored point said."""
    checks: Mapping[str, int]
    """Retries by what the test of the pivot said (``verify``), where the caller noted it."""
    reflections: int
    """Retries that began with a reflection."""
    problems: Mapping[str, int]
    """Those among them that named no turn, by why: what was wrong with the words, or that the reflector failed."""
    accuracy: Accuracy | None
    """None where no expert was asked."""
    gain: Gain | None
    """None without retries."""

    def to_json(self) -> dict[str, Any]:
        """A JSON object, version ``schema``, that :meth:`from_json` reads back."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_json(cls, data: Any) -> TrialSummary:
        """The summary written by :meth:`to_json`.

        Raises:
            InputError: For anything else.
        """
        if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
            raise InputError(f'Expected a summary of trials with "schema": {SCHEMA}, got {data!r:.80}')
        try:
            accuracy, gain = data["accuracy"], data["gain"]
            parts: dict[str, Any] = {
                "solved": tuple(Interval(**s) for s in data["solved"]),
                "made": tuple(data["made"]),
                "generated": _read_turns(data["generated"]),
                "replayed": _read_turns(data["replayed"]),
                "written": Written(**data["written"]),
                "accuracy": None if accuracy is None else _read_accuracy(accuracy),
                "gain": None if gain is None else Gain(**gain),
            }
            return cls(**{k: v for k, v in data.items() if k != "schema"} | parts)
        except (KeyError, TypeError) as error:
            raise InputError(f"Expected a summary of trials, got one that does not fit: {error}") from error


def _read_turns(data: Mapping[str, Any]) -> Turns:
    return Turns(data["total"], data["per_trial"], tuple(data["by_attempt"]))


def _read_accuracy(data: Mapping[str, Any]) -> Accuracy:
    return Accuracy(Interval(**data["equal"]), Interval(**data["within_one"]), data["distance"])


def summary(
    trials: Sequence[Trial],
    attempts: int,
    *,
    tokens: Callable[[str], int] | None = None,
    bits: Mapping[Key, float] | None = None,
    checks: Mapping[Key, str] | None = None,
) -> TrialSummary:
    """Measure ``trials``.

    Args:
        trials: At least one.
        attempts: How many each was allowed.
        tokens: Counts the tokens of a text; white-space words are counted without it, and named so.
        bits: Information of the reflection that a retry began with, in bits: the divergence of the policy with the remark
            from the policy without it, summed over the turns that the retry acted.
        checks: What the test of a retry's pivot said (``info["pivot_check"]`` of its reset).

    Raises:
        InputError: For no trials, or one with more attempts than were allowed.
    """
    if not trials or attempts < 1:
        raise InputError(f"Expected trials and at least 1 attempt, got {len(trials)} trials and {attempts} attempts")
    longest = max(len(t.records) for t in trials)
    if longest > attempts:
        raise InputError(f"Expected at most {attempts} attempts a trial, got one of {longest}")
    records = [r for t in trials for r in t.records]
    retries = [r for r in records if r.attempt > 0]
    generated = _turns([t.generated for t in trials], attempts)
    solved = [sum(t.solved_within(k) for t in trials) for k in range(1, attempts + 1)]
    return TrialSummary(
        trials=len(trials),
        attempts=attempts,
        solved=tuple(wilson(n, len(trials)) for n in solved),
        made=tuple(sum(len(t.records) > n for t in trials) for n in range(attempts)),
        unfinished=sum(t.solved_at is None and len(t.records) < attempts for t in trials),
        broken=sum(r.error is not None for r in records),
        generated=generated,
        replayed=_turns([t.replayed for t in trials], attempts),
        per_thousand=1000.0 * solved[-1] / generated.total if generated.total else 0.0,
        written=_written(records, tokens),
        strategies=_counted(r.restore_strategy for r in retries),
        statuses=_counted(r.restore_status for r in retries),
        checks=_counted((checks or {})[key_of(r)] for r in retries if key_of(r) in (checks or {})),
        reflections=sum(r.reflection is not None for r in retries),
        problems=_counted(problem for r in retries if (problem := _problem(r))),
        accuracy=_accuracy(trials),
        gain=_gain(retries, bits or {}),
    )


def solved_within(trials: Sequence[Trial], budgets: Sequence[int]) -> tuple[Interval, ...]:
    """The share of trials solved within so many generated turns each, for every budget, with 95 % Wilson intervals.

    This holds ways to retry against each other at equal turns: an attempt counts once its last turn lies within the
    budget. A trial that ran out of attempts before the budget stays unsolved, so where one way needs fewer turns an
    attempt, it is the number of attempts that ends it first; allow it more of them to use up the same budget.

    Raises:
        InputError: For no trials, or a budget that is not positive.
    """
    if not trials or any(budget < 1 for budget in budgets):
        raise InputError(f"Expected trials and positive budgets, got {len(trials)} trials and {list(budgets)}")
    turns = [t.turns_to_success for t in trials]
    return tuple(wilson(sum(n is not None and n <= budget for n in turns), len(turns)) for budget in budgets)


def paired_pass(ours: Sequence[Trial], theirs: Sequence[Trial], attempts: int) -> Paired:
    """pass@``attempts`` of ``ours`` less that of ``theirs``, task by task, with the Student-t interval over tasks.

    Args:
        ours: Trials of some tasks; several at one task are averaged.
        theirs: Trials of the same tasks, told by their ``group_id``.
        attempts: The first k attempts count.

    Raises:
        InputError: If the two are not at the same tasks.
    """
    mine, other = _by_task(ours, attempts), _by_task(theirs, attempts)
    if mine.keys() != other.keys():
        raise InputError(
            f"Expected trials at the same tasks, got {len(mine.keys() ^ other.keys())} that only one side played"
        )
    return paired_difference([mine[task] for task in mine], [other[task] for task in mine])


def _by_task(trials: Sequence[Trial], attempts: int) -> dict[str, float]:
    found: dict[str, list[bool]] = {}
    for trial in trials:
        found.setdefault(trial.group_id, []).append(trial.solved_within(attempts))
    return {task: sum(solved) / len(solved) for task, solved in found.items()}


def _turns(counts: Sequence[tuple[int, ...]], attempts: int) -> Turns:
    by_attempt = tuple(sum(c[n] for c in counts if len(c) > n) for n in range(attempts))
    return Turns(sum(by_attempt), sum(by_attempt) / len(counts), by_attempt)


def _counted(names: Iterable[str]) -> dict[str, int]:
    """Names with how often each came, the most frequent first."""
    found = Counter(names)
    return {name: found[name] for name in sorted(found, key=lambda name: (-found[name], name))}


def _problem(record: EpisodeRecord) -> str:
    """Why the reflection that ``record`` began with named no turn; empty when it did, or when there is none."""
    if record.reflection is None:
        return ""
    return record.reflection.problem or ("failed" if record.reflection.source == "failed" else "")


def _written(records: Sequence[EpisodeRecord], tokens: Callable[[str], int] | None) -> Written:
    count = words if tokens is None else tokens
    return Written(
        unit="words" if tokens is None else "tokens",
        actions=sum(count(s.action) for r in records for s in r.segments[r.prefix_length :]),
        reflections=sum(count(r.reflection.text) for r in records if r.reflection is not None),
    )


def _accuracy(trials: Sequence[Trial]) -> Accuracy | None:
    apart = []
    for trial in trials:
        for record in trial.records:
            reflection = record.reflection
            if record.oracle_pivot < 0 or reflection is None or _problem(record):
                continue
            last = len(trial.records[record.parent]) - 1
            apart.append(abs(min(max(reflection.pivot, 0), last) - record.oracle_pivot))
    if not apart:
        return None
    equal, near = sum(d == 0 for d in apart), sum(d <= 1 for d in apart)
    return Accuracy(wilson(equal, len(apart)), wilson(near, len(apart)), sum(apart) / len(apart))


def _gain(retries: Sequence[EpisodeRecord], bits: Mapping[Key, float]) -> Gain | None:
    turns, kept = sum(map(len, retries)), sum(r.prefix_length for r in retries)
    if turns == kept:
        return None  # no retry, or none that acted a turn
    measured = [r for r in retries if key_of(r) in bits]
    total = sum(bits[key_of(r)] for r in measured)
    long, short = sum(map(len, measured)), sum(len(r) - r.prefix_length for r in measured)
    return Gain(
        retries=len(retries),
        turns=turns / len(retries),
        kept=kept / len(retries),
        concentration=turns / (turns - kept),
        measured=len(measured),
        bits=total / len(measured) if measured else None,
        bits_per_turn=total / long if long else None,
        bits_per_generated_turn=total / short if short else None,
    )
