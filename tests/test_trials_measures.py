"""What is measured of trials: a worked example by hand, and what must hold for any trials."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trial_records import first, retry

from triage_gym.errors import GroupError, InputError
from triage_gym.records import EpisodeRecord
from triage_gym.statistics import wilson
from triage_gym.trials import Trial, TrialSummary, Turns, key_of, paired_pass, solved_within, summary, trials_of


def example() -> list[EpisodeRecord]:
    """Four trials of at most three attempts: solved at once, at the second, at the third, never."""
    a = first("abc", trial="a", success=True)
    b0 = first("abcd", trial="b")
    b1 = retry(b0, 3, "x", oracle=3, success=True, text="turn three was wrong")
    c0 = first("abcde", trial="c")
    c1 = retry(c0, 2, "xy", pivot=2, oracle=4)
    c2 = retry(c1, 1, "zw", pivot=1, oracle=2, success=True)
    d0 = first("ab", trial="d")
    d1 = retry(d0, 0, "uv", pivot=9, oracle=0, text="{", problem="not_json")
    d2 = retry(d1, 1, "w", pivot=7, oracle=1, error="the retry did not come back to the recorded start")
    return [a, b0, b1, c0, c1, c2, d0, d1, d2]


def test_the_worked_example() -> None:
    found = summary(trials_of(example()), 3, checks={("g", "b", 1): "passed", ("g", "c", 1): "moved"})
    assert [s.estimate for s in found.solved] == [0.25, 0.5, 0.75]
    assert found.solved == tuple(wilson(n, 4) for n in (1, 2, 3))
    assert (found.trials, found.attempts, found.made, found.unfinished, found.broken) == (4, 3, (4, 3, 2), 0, 1)
    assert found.generated == Turns(14 + 5 + 3, 22 / 4, (14, 5, 3))
    assert found.replayed == Turns(7, 7 / 4, (0, 5, 2))
    assert found.per_thousand == 3000 / 22
    # A command has two words; the two texts that an agent wrote have four and one.
    assert (found.written.unit, found.written.actions, found.written.reflections) == ("words", 44, 5)
    assert found.strategies == {"native": 5}
    assert found.statuses == {"verified": 5}
    assert found.checks == {"moved": 1, "passed": 1}
    assert (found.reflections, found.problems) == (5, {"not_json": 1})
    # Apart by 0 (b), 2 and 1 (c), 0 (d2: turn 7 of an attempt of two is its last); d1 named none.
    assert found.accuracy is not None
    assert (found.accuracy.equal, found.accuracy.within_one) == (wilson(2, 4), wilson(3, 4))
    assert found.accuracy.distance == 3 / 4


def test_information_is_denser_at_the_boundary_by_turns_over_turns_after_it() -> None:
    bits = {("g", "b", 1): 4.0, ("g", "c", 1): 2.0}
    gain = summary(trials_of(example()), 3, bits=bits).gain
    assert gain is not None
    assert (gain.retries, gain.turns, gain.kept) == (5, 15 / 5, 7 / 5)
    assert gain.concentration == 15 / 8
    # Of the two measured: 8 turns in all, of which 3 were acted anew.
    assert (gain.measured, gain.bits, gain.bits_per_turn, gain.bits_per_generated_turn) == (2, 3.0, 6 / 8, 6 / 3)
    unmeasured = summary(trials_of(example()), 3).gain
    assert unmeasured is not None
    assert (unmeasured.measured, unmeasured.bits, unmeasured.bits_per_turn) == (0, None, None)


def test_a_full_restart_concentrates_nothing() -> None:
    root = first("abc")
    gain = summary([Trial((root, retry(root, 0, "xyz", pivot=2)))], 2).gain
    assert gain is not None
    assert (gain.concentration, gain.kept) == (1.0, 0.0)


def test_tokens_are_named_so_only_when_the_caller_counts_them() -> None:
    written = summary(trials_of(example()), 3, tokens=len).written
    assert (written.unit, written.actions) == ("tokens", 4 * 22)
    assert written.reflections == len("turn three was wrong") + 1


def test_at_equal_turns_only_what_lies_within_the_budget_counts() -> None:
    found = solved_within(trials_of(example()), [2, 3, 5, 8, 9, 1000])
    # Solved after 3, 5 and 9 turns; the fourth never, however large the budget.
    assert [interval.estimate for interval in found] == [0.0, 0.25, 0.5, 0.5, 0.75, 0.75]


def test_a_success_that_must_not_be_trained_is_none() -> None:
    root = first("ab", success=True)
    assert Trial((replace(root, error="broken"),)).solved_at is None
    assert Trial((root,)).solved_at == 0


def test_one_that_stopped_with_attempts_left_is_counted_as_such() -> None:
    root = first("ab")
    found = summary([Trial((root,)), Trial((root, retry(root, 1, "x")))], 2)
    assert (found.unfinished, found.solved[-1].estimate) == (1, 0.0)
    assert (found.accuracy, found.per_thousand) == (None, 0.0)
    assert summary([Trial((root,))], 1).gain is None


def test_pairs_are_of_the_same_task() -> None:
    def at(task: str, success: bool) -> Trial:
        return Trial((first("ab", group=task, success=success),))

    ours, theirs = [at("x", True), at("y", True), at("z", False)], [at("z", False), at("y", True), at("x", False)]
    found = paired_pass(ours, theirs, 1)
    assert (found.values, found.n, found.positive) == ((1.0, 0.0, 0.0), 3, 1)
    with pytest.raises(InputError, match="1 that only one side played"):
        paired_pass(ours, theirs[:2], 1)


ROOT = first("abc")


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "to have attempts"),
        ([ROOT, ROOT], r"got \[0, 0\]; give every agent a trial_id of its own"),
        ([retry(ROOT, 1, "x")], r"got \[1\]"),
        ([ROOT, replace(retry(ROOT, 1, "x"), parent=-1)], "retry an earlier one, got parent -1"),
        ([ROOT, replace(retry(ROOT, 1, "x"), parent=1)], "retry an earlier one, got parent 1"),
        ([ROOT, retry(first("xyz"), 1, "x")], "kept turns of attempt 1"),
        ([replace(ROOT, prefix_length=1, pivot=1)], "begin afresh"),
        ([ROOT, replace(retry(ROOT, 1, "x"), trial="u")], "attempts of one trial"),
        ([ROOT, replace(retry(ROOT, 1, "x"), group_id="h")], "attempts of one trial"),
    ],
)
def test_attempts_that_do_not_belong_together_are_refused(records: list[EpisodeRecord], said: str) -> None:
    with pytest.raises(GroupError, match=said):
        Trial(tuple(records))


def test_arguments_that_fit_nothing_are_refused() -> None:
    trials = trials_of(example())
    with pytest.raises(InputError, match="at most 2 attempts a trial, got one of 3"):
        summary(trials, 2)
    for bad in ([], trials):
        with pytest.raises(InputError, match="at least 1 attempt"):
            summary(bad, 0)
    with pytest.raises(InputError, match="positive budgets"):
        solved_within(trials, [0])


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"trials": None, "extra": 1}, {"solved": [{"estimate": 1.0}]}, {"gain": {"turns": 1}}, {"made": 3}],
)
def test_only_a_summary_is_read_as_one(change: dict[str, object]) -> None:
    data = summary(trials_of(example()), 3).to_json()
    assert TrialSummary.from_json(data).to_json() == data
    with pytest.raises(InputError, match="summary of trials"):
        TrialSummary.from_json({**data, **change})
    with pytest.raises(InputError, match="summary of trials"):
        TrialSummary.from_json([data])


def test_a_reflector_that_failed_named_no_turn() -> None:
    root = first("abc")
    failed = retry(root, 0, "x", oracle=2)
    assert failed.reflection is not None
    failed = replace(failed, reflection=replace(failed.reflection, source="failed"))
    found = summary([Trial((root, failed))], 2)
    assert (found.problems, found.accuracy) == ({"failed": 1}, None)


@st.composite
def some_trials(draw: st.DrawFn) -> list[EpisodeRecord]:
    records = []
    for number in range(draw(st.integers(1, 5))):
        record = first("x" * draw(st.integers(1, 6)), trial=str(number), success=draw(st.booleans()))
        records.append(record)
        while not record.success and record.attempt < 3 and draw(st.booleans()):
            kept = draw(st.integers(0, len(record) - 1))
            record = retry(record, kept, "y" * draw(st.integers(1, 6)), oracle=draw(st.integers(-1, 3)))
            record = replace(record, success=draw(st.booleans()))
            records.append(record)
    return records


@given(some_trials(), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_laws(records: list[EpisodeRecord], random: object) -> None:
    trials = trials_of(records)
    found = summary(trials, 4, bits={key_of(r): 1.0 for r in records})
    rates = [s.estimate for s in found.solved]
    assert rates == sorted(rates), "more attempts never solve less"
    assert found.generated.total + found.replayed.total == sum(map(len, records)), "every turn is one or the other"
    assert sum(found.generated.by_attempt) == found.generated.total
    budgets = list(range(1, 40))
    within = [s.estimate for s in solved_within(trials, budgets)]
    assert within == sorted(within)
    assert within[-1] == rates[-1], "no trial here takes more turns than the last budget"
    assert found.made[0] == found.trials
    assert sum(found.made) == len(records)
    if found.gain is not None:
        assert found.gain.concentration >= 1.0
    shuffled = list(records)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    again = summary(trials_of(shuffled), 4, bits={key_of(r): 1.0 for r in records})
    assert again.to_json() == found.to_json(), "records come in any order"
    assert TrialSummary.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found
