"""A* by counterfactual continuations, held against an environment where it is known."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counterfactual_probe import TURNS, Even, known
from hypothesis import given, settings
from hypothesis import strategies as st

from triage_gym.audit.counterfactual import look, table_of, verdict
from triage_gym.audit.labels import Annotation, LabelledWindow, read_labels, write_labels
from triage_gym.errors import InputError, TrainingError
from triage_gym.protocols import Window
from triage_gym.records import ROLES
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.counterfactual import Measured, Sampling, calibration_split, drawn_evenly, measure
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


def test_what_is_measured_on_is_never_what_is_tested_on() -> None:
    assert calibration_split(TrainConfig(env="webshop")) == "val"
    assert calibration_split(TrainConfig(env="alfworld")) == "valid_seen"
    assert calibration_split(TrainConfig(env="alfworld", eval_split="valid_seen")) == "train"
    assert calibration_split(TrainConfig(env="triage/Sokoban-v0", eval_split="val")) == "train"
    assert calibration_split(PROBE) is None


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
    assert "turns would tell" in verdict(unclear, 1000)
    nothing = look([row(k, "E", 0.0, 0.0) for k in range(5)])[0]
    assert nothing.foretold is None
    assert "Nothing differs" in verdict(nothing)


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


def test_rows_go_through_a_file_and_judges_label_them(measured: Measured, tmp_path: Path) -> None:
    from triage_gym.judges.rule import RuleJudge

    rows = labelled(rows_of(measured, "probe")[:40], {"rule": RuleJudge(domain="generic")})
    assert all(set(r.labels) == {"rule"} and r.origin["judges"] == ["rule"] for r in rows)
    assert len({r.id for r in rows}) == 40
    write_labels(tmp_path / "rows.jsonl", rows)
    again = read_labels(tmp_path / "rows.jsonl")
    assert [r.to_json() for r in again] == [r.to_json() for r in rows]
    assert json.dumps(look(again)[0].to_json()) == json.dumps(look(rows)[0].to_json())
    turn = measured.turns[0]
    assert rows[0].delta == pytest.approx(turn.a_star / measured.scale - turn.advantage)
