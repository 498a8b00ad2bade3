"""A* by counterfactual continuations, held against an environment where it is known."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counterfactual_probe import NEEDED, TURNS, Even, Rising, known
from hypothesis import given, settings
from hypothesis import strategies as st

from triage_gym.audit.counterfactual import look, table_of, verdict
from triage_gym.audit.labels import Annotation, LabelledWindow, read_labels, write_labels
from triage_gym.errors import InputError, TrainingError
from triage_gym.judges.nesting import facts_needed, inner
from triage_gym.protocols import Window
from triage_gym.records import ROLES, EpisodeRecord, RoleLabel
from triage_gym.statistics import Interval
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.counterfactual import Measured, Sampling, Turn, calibration_split, measure
from triage_gym.trainers.counterfactual_rounds import drawn_evenly
from triage_gym.trainers.counterfactual_rows import labelled, rows_of

PROBE = TrainConfig(env="counterfactual_probe:Majority", limit=9)


@pytest.fixture(scope="module")
def measured() -> Measured:
    return measure(PROBE, Even(), Sampling(turns=60_000, rollouts=16, segments=64, seed=1))


def test_q_v_and_a_star_are_those_that_are_known(measured: Measured) -> None:
    """Pooled over equal states, all within 2 standard errors but for the 5 % that such errors allow; none beyond 4."""
    pooled: dict[tuple[int, int, str], list[Any]] = {}
    for turn in measured.turns:
        sent = [s.action for s in turn.record.segments[: turn.step]]
        key = (turn.step, sent.count("left"), turn.record.segments[turn.step].action)
        pooled.setdefault(key, []).append(turn)
    beyond = []
    for (step, lefts, action), turns in pooled.items():
        q, v = known(["left"] * lefts + ["right"] * (step - lefts), action)
        for truth, own in ((q, [x for t in turns for x in t.own]), (v, [o for t in turns for _, o in t.drawn])):
            error = np.sqrt(truth * (1 - truth) / len(own))
            assert abs(np.mean(own) - truth) <= 4 * error + 1e-12, (step, lefts, action)
            beyond.append(abs(np.mean(own) - truth) > 2 * error + 1e-12)
    assert len(pooled) == 20
    assert np.mean(beyond) <= 0.15


def test_the_measured_mean_by_action_is_within_two_standard_errors(measured: Measured) -> None:
    for action in ("left", "right"):
        turns = [t for t in measured.turns if t.record.segments[t.step].action == action]
        truth = np.mean([np.subtract(*known([s.action for s in t.record.segments[: t.step]], action)) for t in turns])
        error = np.sqrt(sum(t.error**2 for t in turns)) / len(turns)
        assert abs(np.mean([t.a_star for t in turns]) - truth) <= 2 * error
        assert abs(truth) > 10 * error, "the measure could not tell it from nothing"


def test_a_star_of_the_policys_own_actions_is_nothing_on_the_whole(measured: Measured) -> None:
    stars = np.array([t.a_star for t in measured.turns])
    assert abs(stars.mean()) <= 3 * stars.std() / np.sqrt(len(stars))


def test_every_turn_is_as_likely_to_be_measured(measured: Measured) -> None:
    counts = Counter(t.step for t in measured.turns)
    expected = len(measured.turns) / TURNS
    assert set(counts) == set(range(TURNS))
    assert all(abs(n - expected) < 5 * expected**0.5 for n in counts.values())


def test_advantages_are_those_of_the_episodes(measured: Measured) -> None:
    assert all((t.advantage > 0) == t.record.success for t in measured.turns if t.spread)
    assert all(t.advantage == 0 for t in measured.turns if not t.spread)
    assert {bool(t.spread) for t in measured.turns} == {True, False}


def test_tasks_are_nobody_elses_and_none_comes_twice_before_all_have(measured: Measured) -> None:
    seeds = {int(t.record.task_id[1:]) for t in measured.turns}
    assert all(500_000 <= seed < 501_000 for seed in seeds)
    assert 0.9 * measured.episodes / 8 < len(seeds) <= measured.episodes / 8


def test_rows_of_a_task_have_its_name_or_its_number(measured: Measured) -> None:
    rows = rows_of(measured, "probe")
    assert [r.origin["task_id"] for r in rows] == [t.record.task_id for t in measured.turns]
    nameless = TrainConfig(env="counterfactual_probe:Nameless", limit=9)
    found = measure(nameless, Even(), Sampling(turns=300, rollouts=2, groups=3, segments=24))
    by_task: dict[str, set[str]] = {}
    for one, turn in zip(rows_of(found, "probe"), found.turns, strict=True):
        by_task.setdefault(one.origin["task_id"], set()).add(turn.record.start_observation)
    assert len(by_task) == found.episodes / 8
    assert all(len(starts) == 1 for starts in by_task.values())


def test_rows_know_the_outcome_and_their_windows_do_not(measured: Measured) -> None:
    assert [r.success for r in rows_of(measured, "probe")] == [t.record.success for t in measured.turns]
    loud = TrainConfig(env="counterfactual_probe:Loud", limit=9)
    found = measure(loud, Even(), Sampling(turns=100, rollouts=2, groups=1, segments=24))
    assert all(t.record.segments[-1].next_observation.endswith("HOORAY") for t in found.turns)
    assert not any("HOORAY" in str(r.window) for r in rows_of(found, "probe"))


def test_the_budget_is_kept_to_a_round_and_what_is_spent_is_counted(measured: Measured) -> None:
    continued = sum((TURNS - t.step) * (len(t.own) + len(t.drawn)) for t in measured.turns)
    assert measured.spent == continued + TURNS * measured.episodes
    assert 60_000 <= measured.spent < 60_000 + 64 * TURNS * 33
    assert measured.refused == 0
    assert not measured.noisy


def test_measuring_repeats() -> None:
    sampling = Sampling(turns=2000, rollouts=2, groups=2, segments=8)
    first, second = (rows_of(measure(PROBE, Even(), sampling), "probe") for _ in range(2))
    assert [r.to_json() for r in first] == [r.to_json() for r in second]
    other = rows_of(measure(PROBE, Even(), replace(sampling, seed=1)), "probe")
    assert [r.to_json() for r in other] != [r.to_json() for r in first]


def test_an_environment_that_draws_is_told_of() -> None:
    noisy = TrainConfig(env="counterfactual_probe:Noisy", limit=9)
    assert measure(noisy, Even(), Sampling(turns=100, rollouts=2, groups=1, segments=4)).noisy


@pytest.mark.filterwarnings("ignore:.*going back to turn")
def test_states_that_do_not_come_back_are_left_out() -> None:
    forgetful = TrainConfig(env="counterfactual_probe:Forgetful", limit=9)
    with pytest.raises(TrainingError, match="did not come back verified"):
        measure(forgetful, Even(), Sampling(turns=100, rollouts=2, groups=1, group_size=2, segments=4))


def test_the_policy_remembers_what_went_before_a_turn_that_it_goes_back_to() -> None:
    """A policy that goes by its memory: Q and V are those that it has, from everywhere."""

    def chance(lefts: int, left: int) -> float:
        if not left:
            return float(lefts >= NEEDED)
        p = min(1.0, 0.3 + 0.2 * lefts)
        return p * chance(lefts + 1, left - 1) + (1 - p) * chance(lefts, left - 1)

    found = measure(PROBE, Rising(), Sampling(turns=25_000, rollouts=8, seed=2))
    pooled: dict[tuple[int, int], list[float]] = {}
    for turn in found.turns:
        lefts = [s.action for s in turn.record.segments[: turn.step]].count("left")
        pooled.setdefault((turn.step, lefts), []).extend(outcome for _, outcome in turn.drawn)
    assert len(pooled) == 10
    for (step, lefts), own in pooled.items():
        truth = chance(lefts, TURNS - step)
        assert abs(np.mean(own) - truth) <= 4 * np.sqrt(truth * (1 - truth) / len(own)) + 1e-12, (step, lefts)


def turn_of(own: list[float], drawn: list[tuple[str, float]], spread: float = 0.5) -> Turn:
    record = measure(PROBE, Even(), Sampling(turns=1, rollouts=2, groups=1, group_size=2, segments=1)).turns[0].record
    action = record.segments[0].action
    named = {"same": action, "other": "right" if action == "left" else "left"}
    return Turn(record, 0, 1.0, spread, tuple(own), tuple((named[a], x) for a, x in drawn))


def test_a_turn_by_hand() -> None:
    """Sample variances 1/3 and 1/4 of four outcomes each: sqrt(1/12 + 1/16)."""
    turn = turn_of([1, 1, 0, 0], [("same", 1), ("other", 0), ("other", 0), ("same", 0)])
    assert (turn.q, turn.v, turn.a_star) == (0.5, 0.25, 0.25)
    assert turn.error == pytest.approx(np.sqrt(1 / 12 + 1 / 16))
    drawn = [("same", 1), ("other", 1)]
    three = [turn_of([1, 0], drawn, spread) for spread in (0.3, 0.4, 0.0)]
    assert Measured(turns=three).scale == pytest.approx(np.sqrt((0.09 + 0.16) / 2))
    assert Measured(turns=three[2:]).scale == 1.0


def test_outcomes_may_be_any_numbers_and_episodes_one_turn_long() -> None:
    short = TrainConfig(env="counterfactual_probe:Short", limit=9)
    found = measure(short, Even(), Sampling(turns=3000, rollouts=4, seed=1))
    worth = {a: [t.a_star for t in found.turns if t.record.segments[0].action == a] for a in ("left", "right")}
    errors = {a: np.sqrt(sum(t.error**2 for t in found.turns if t.record.segments[0].action == a)) for a in worth}
    for action, truth in (("left", 3.5), ("right", -3.5)):
        assert abs(np.mean(worth[action]) - truth) <= 3 * errors[action] / len(worth[action])
    assert found.scale == pytest.approx(3.5 * np.sqrt(7 / 8), rel=0.05), "of groups of eight"


def test_equal_outcomes_have_no_deviation_however_they_round() -> None:
    found = measure(
        TrainConfig(env="counterfactual_probe:Even10", limit=9),
        Even(),
        Sampling(turns=200, rollouts=2, groups=2, group_size=7, segments=8),
    )
    assert {t.spread for t in found.turns} == {0.0}
    assert np.std([0.1] * 7) > 0.0, "which is what would come of it otherwise"
    assert found.scale == 1.0


def test_turns_whose_continuations_break_are_left_out_and_counted() -> None:
    brittle = TrainConfig(env="counterfactual_probe:Brittle", limit=9)
    found = measure(brittle, Even(), Sampling(turns=1500, rollouts=2, groups=2, segments=16))
    assert found.broken > 0
    assert found.refused == 0
    assert found.turns
    assert all(len(t.own) == len(t.drawn) == 2 for t in found.turns)


@pytest.mark.filterwarnings("ignore:.*going back to turn")
def test_a_start_that_does_not_come_back_is_left_out_too() -> None:
    lost = TrainConfig(env="counterfactual_probe:Lost", limit=9)
    with pytest.raises(TrainingError, match="got none: 40 states did not come back"):
        measure(lost, Even(), Sampling(turns=40, rollouts=2, groups=1, group_size=4, segments=4))


def test_what_is_measured_does_not_depend_on_how_many_processes_measure() -> None:
    sampling = Sampling(turns=2500, rollouts=2, groups=2, segments=8)
    one, two = (measure(PROBE, Even(), sampling, workers=n) for n in (1, 2))
    assert [r.to_json() for r in rows_of(one, "probe")] == [r.to_json() for r in rows_of(two, "probe")]
    assert (one.spent, one.episodes, one.success, one.outcome_text) == (
        two.spent,
        two.episodes,
        two.success,
        two.outcome_text,
    )
    with pytest.raises(InputError, match="`workers`"):
        measure(PROBE, Even(), sampling, workers=0)


def test_what_fails_in_a_process_is_told_here() -> None:
    with pytest.raises(InputError, match="nowhere"):
        measure(TrainConfig(env="nowhere:Env", limit=9), Even(), Sampling(turns=10), workers=2)


def test_judges_get_the_facts_that_they_need_and_the_turns_that_they_want() -> None:
    telling = TrainConfig(env="counterfactual_probe:Telling", limit=9)
    judge = inner({"name": "checked", "of": "test_lab_counterfactual:AllD"})
    sampling = Sampling(turns=600, rollouts=2, groups=2, segments=32)
    found = measure(telling, Even(), sampling, facts=facts_needed(judge))
    for row, turn in zip(labelled(rows_of(found, "probe"), {"j": judge}), found.turns, strict=True):
        assert (row.labels["j"].role == "D") == (turn.step == 0)
    choosy = FirstTwo()
    rows = labelled(rows_of(found, "probe"), {"j": choosy}, found)
    for row, turn in zip(rows, found.turns, strict=True):
        assert (row.labels["j"].role == "D") == (turn.step < 2)
    assert any(turn.step >= 2 for turn in found.turns)


class AllD:
    """Praises everything."""

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        return [RoleLabel(w.step, "D", 1.0, source="all") for w in windows]


class FirstTwo(AllD):
    """Wants to see the first two turns of an episode."""

    def select(self, record: EpisodeRecord) -> list[int]:
        return [k for k in range(len(record)) if k < 2]


def test_what_is_measured_on_is_never_what_is_tested_on() -> None:
    assert calibration_split(TrainConfig(env="webshop")) == "val"
    assert calibration_split(TrainConfig(env="alfworld")) == "valid_seen"
    assert calibration_split(TrainConfig(env="alfworld", eval_split="valid_seen")) == "train"
    assert calibration_split(TrainConfig(env="triage/Sokoban-v0", eval_split="val")) == "train"
    assert calibration_split(PROBE) is None
    with pytest.raises(InputError, match="nothing is tested on"):
        calibration_split(TrainConfig(env="webshop", split="val", eval_split="val"))


@pytest.mark.parametrize("name", ["turns", "rollouts", "groups", "group_size", "segments", "seed"])
def test_bad_numbers_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=name):
        Sampling(**{name: -1})


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(1, 40), st.integers(0, 10**6))
def test_positions_are_drawn_evenly(lengths: list[int], count: int, seed: int) -> None:
    drawn = drawn_evenly(lengths, count, np.random.default_rng(seed))
    share = min(1.0, count / sum(lengths))
    for length, places in zip(lengths, drawn, strict=True):
        assert places == sorted(set(places), reverse=True)
        assert all(0 <= k < length for k in places)
        assert abs(len(places) - share * length) < 1.0
    assert abs(sum(map(len, drawn)) - min(count, sum(lengths))) <= 1


# What the rows say -----------------------------------------------------------------------------------------------------


def row(
    number: int,
    role: str | None,
    a_star: float,
    advantage: float,
    *,
    success: bool = False,
    task: str = "",
    **more: Any,
) -> LabelledWindow:
    window = Window("t", "generic", number, (), "o", "go", "n", future=())
    origin = {
        "task_id": task or f"t{number}",
        "a_star": a_star,
        "error": 0.1,
        "scale": 0.5,
        "advantage": advantage,
        "own": [1.0, 1.0],
        "drawn": [["go", 1.0], ["stay", 0.0]],
        **more,
    }
    return LabelledWindow(
        f"r{number}", window, {"j": Annotation(role)}, success=success, delta=a_star / 0.5 - advantage, origin=origin
    )


ROWS = [
    row(0, "D", 0.5, 1.0, success=True),
    row(1, "D", 0.3, -1.0, drawn=[["stay", 1.0], ["wait", 1.0]]),
    row(2, "E", 0.0, -1.0),
    row(3, "N", 0.1, 1.0, success=True),
    row(4, "R", -0.4, 1.0, success=True),
    row(5, "R", -0.2, -1.0),
    row(6, None, 0.9, -1.0),
]


def test_worth_by_role_and_outcome_by_hand() -> None:
    found = look(ROWS)[0]
    cells = {(c.role, c.outcome): (c.n, None if c.worth is None else round(c.worth.estimate, 9)) for c in found.cells}
    assert cells["D", "all"] == (2, 0.4)
    assert cells["D", "success"] == (1, 0.5)
    assert cells["D", "failure"] == (1, 0.3)
    assert cells["R", "all"] == (2, -0.3)
    assert cells["E", "success"] == (0, None)
    assert found.n == 6


def test_correlations_by_hand() -> None:
    found = look(ROWS, lam=0.5)[0]
    star = np.array([0.5, 0.3, 0.0, 0.1, -0.4, -0.2])
    c = np.array([1.0, 1.0, 0.5, -0.1, -0.5, -0.5])
    outcome = np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0])
    role_corr, outcome_corr = np.corrcoef(c, star)[0, 1], np.corrcoef(outcome, star)[0, 1]
    assert found.role_corr is not None
    assert found.role_corr.estimate == pytest.approx(role_corr)
    assert found.outcome_corr is not None
    assert found.outcome_corr.estimate == pytest.approx(outcome_corr)
    assert found.difference is not None
    assert found.difference.estimate == pytest.approx(role_corr - outcome_corr)
    assert found.sum_difference is not None
    both = np.corrcoef(outcome + 0.5 * c, star)[0, 1]
    assert found.sum_difference.estimate == pytest.approx(both - outcome_corr)
    assert found.foretold is True


def test_decisive_turns_that_were_not_needed_by_hand() -> None:
    needed = look(ROWS)[0].necessity
    assert needed.n == 2  # own 1, others 0; and own 1, others 1
    assert needed.unneeded is not None
    assert needed.unneeded.estimate == 0.5
    assert needed.cost is not None
    assert needed.cost.estimate == 0.5
    alone = look([row(0, "D", 0.0, 1.0, drawn=[["go", 1.0]]), row(1, "E", 0.1, -1.0)])[0].necessity
    assert (alone.n, alone.unneeded) == (0, None)


def many(sign: float, noise: float) -> list[LabelledWindow]:
    rng = np.random.default_rng(0)
    rows = []
    for k in range(400):
        role = ROLES[k % 4]
        star = sign * {"D": 0.4, "E": 0.2, "N": 0.0, "R": -0.2}[role] + noise * rng.normal()
        rows.append(row(k, role, star, float(rng.choice([-1.0, 1.0])), success=bool(rng.integers(2))))
    return rows


def test_the_verdict_in_words() -> None:
    good, bad, unclear = (look(many(*how))[0] for how in ((1.0, 0.2), (-1.0, 0.2), (0.02, 0.3)))
    assert (good.answer, bad.answer, unclear.answer) == ("yes", "no", "cannot tell")
    assert verdict(good).startswith("j: yes, roles should help")
    assert "goes against A*" in verdict(bad)
    assert "cannot tell yet, leaning to" in verdict(unclear, 1000)
    told = re.search(r"some ([\d,]+) turns would tell", verdict(unclear, 1000))
    assert told is not None
    assert int(told[1].replace(",", "")) >= 2000, "more than was spent"
    nothing = look([row(k, "E", 0.0, 0.0) for k in range(5)])[0]
    assert nothing.foretold is None
    assert "Nothing differs" in verdict(nothing)


@pytest.mark.parametrize(
    ("role", "difference", "answer", "foretold"),
    [
        ((0.1, 0.3), (0.1, 0.2), "yes", True),
        ((0.1, 0.3), (-0.1, 0.3), "cannot tell", True),
        ((-0.1, 0.3), (0.1, 0.2), "cannot tell", True),
        ((0.1, 0.3), (-0.3, -0.1), "no", False),
        ((-0.3, -0.1), (0.1, 0.2), "no", False),  # the outcome goes against A* even more
        ((-0.3, 0.1), (-0.1, 0.3), "cannot tell", False),
    ],
)
def test_an_answer_takes_both_intervals(
    role: tuple[float, float], difference: tuple[float, float], answer: str, foretold: bool
) -> None:
    def interval(bounds: tuple[float, float]) -> Interval:
        return Interval(sum(bounds) / 2, *bounds, 20, "by hand")

    found = replace(look(ROWS)[0], role_corr=interval(role), difference=interval(difference))
    assert (found.answer, found.foretold) == (answer, foretold)


def test_few_tasks_give_no_verdict() -> None:
    """However sure they look: one task alone has an interval of no width."""
    rows = [row(k, ROLES[k % 4], 0.4 - 0.2 * (k % 4), float((k // 4) % 2), task=f"t{k % 7}") for k in range(56)]
    few, one = look(rows)[0], look([replace(r, origin={**r.origin, "task_id": "t"}) for r in rows])[0]
    assert few.difference is not None
    assert few.difference.low > 0.0
    assert (few.answer, one.answer) == ("cannot tell", "cannot tell")
    assert "of 7 tasks, measure at least 8" in verdict(few, 1000)
    assert "of 1 task, measure" in verdict(one)
    more = [replace(r, origin={**r.origin, "task_id": f"t{k % 8}"}) for k, r in enumerate(rows)]
    assert look(more)[0].answer == "yes"


def test_intervals_of_few_tasks_are_wide_enough() -> None:
    """The difference of the two correlations is covered nine times in ten at least, from ten tasks."""

    def drawn(seed: int, tasks: int) -> list[LabelledWindow]:
        rng = np.random.default_rng(seed)
        rows = []
        for k in range(8 * tasks):
            own, advantage = int(rng.integers(4)), float(rng.choice([-1.0, 1.0]))
            star = 0.3 * advantage + (0.3, 0.15, -0.03, -0.15)[own] + 0.6 * rng.normal()
            rows.append(row(k, ROLES[own], star, advantage, task=f"t{k % tasks}"))
        return rows

    truth = look(drawn(0, 3000), resamples=1)[0].difference
    assert truth is not None
    found = [look(drawn(seed, 10), resamples=400)[0].difference for seed in range(1, 101)]
    assert np.mean([i is not None and i.low <= truth.estimate <= i.high for i in found]) >= 0.9
    assert np.mean([i is not None and i.high - i.low < 1.0 for i in found]) >= 0.9


def test_what_has_no_answer_says_why() -> None:
    rng = np.random.default_rng(0)
    numbers = [(float(rng.normal()), float(rng.choice([-1.0, 1.0]))) for _ in range(60)]
    same = look([row(k, "N", *pair) for k, pair in enumerate(numbers)])[0]
    assert same.role_corr is None, "a constant that rounds is no variance"
    assert "says the same of every turn" in verdict(same)
    mute = look([row(k, None, *pair) for k, pair in enumerate(numbers)])[0]
    assert "gave no turn a role" in verdict(mute)
    equal = look([row(k, ROLES[k % 4], star, 0.0) for k, (star, _) in enumerate(numbers)])[0]
    assert "outcomes of no group differ" in verdict(equal)
    assert (same.answer, mute.answer, equal.answer) == ("cannot tell",) * 3


def test_noise_in_a_star_moves_both_correlations_alike() -> None:
    table = table_of(ROWS)
    assert table.reliability == pytest.approx(max(0.0, 1 - 0.01 / table.a_star.var()))


@pytest.mark.parametrize(
    ("origin", "told"), [({"a_star": None}, "a_star"), ({"scale": 0.0}, "scales"), ({"own": "x"}, "numbers")]
)
def test_rows_of_another_kind_are_refused(origin: dict[str, Any], told: str) -> None:
    one = row(0, "D", 0.1, 1.0)
    with pytest.raises(InputError, match=told):
        look([replace(one, origin={**one.origin, **origin})])
    with pytest.raises(InputError, match="rows"):
        look([])


def test_a_judge_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="'other'"):
        look(ROWS, ["other"])
    for bad in ({"lam": float("nan")}, {"constants": (1.0, 0.5, float("inf"), 0.0)}, {"constants": (1.0,)}):
        with pytest.raises(InputError, match="finite constant"):
            look(ROWS, **bad)


@pytest.mark.parametrize("width", [0, 2])
def test_rows_show_as_much_as_the_judge_of_a_run_sees(measured: Measured, width: int) -> None:
    plain, narrow = (rows_of(measured, "probe", *more) for more in ((), (width,)))
    assert max(len(r.window.past) for r in narrow) == width
    assert max(len(r.window.past) for r in plain) > width
    assert [r.window.action for r in narrow] == [r.window.action for r in plain]


def test_rows_go_through_a_file_and_judges_label_them(measured: Measured, tmp_path: Path) -> None:
    from triage_gym.judges.rule import RuleJudge

    rows = labelled(rows_of(measured, "probe")[:40], {"rule": RuleJudge(domain="generic")})
    assert all(set(r.labels) == {"rule"} and r.origin["judges"] == ["rule"] for r in rows)
    assert len({r.id for r in rows}) == 40
    write_labels(tmp_path / "rows.jsonl", rows)
    again = read_labels(tmp_path / "rows.jsonl")
    assert [r.to_json() for r in again] == [r.to_json() for r in rows]
    assert json.dumps(look(again)[0].to_json()) == json.dumps(look(rows)[0].to_json())
    assert 0.3 < measured.scale < 0.5
    for one, turn in zip(rows, measured.turns, strict=False):
        assert one.delta == pytest.approx(turn.a_star / measured.scale - turn.advantage)
        assert one.origin["scale"] == measured.scale
