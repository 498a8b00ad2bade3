"""Monitors: silent about noise, about learning and about rare outcomes; loud about a judge that is played or has changed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage_gym.errors import CheckpointError, InputError
from triage_gym.protocols import Window
from triage_gym.records import ROLES, EpisodeRecord, Role, RoleLabel, Segment
from triage_gym.testing.biased_judge import BiasedJudge
from triage_gym.trainers.monitors import ALARMS, Beside, Monitors
from triage_gym.trainers.sums import Sums, counted, paired

WORTHS: dict[Role, float] = {"D": 1.0, "E": 0.5, "N": -0.1, "R": -0.5}
Mix = tuple[float, float, float, float]
LEARNER: Mix = (0.15, 0.35, 0.25, 0.25)
MASTER: Mix = (0.45, 0.30, 0.15, 0.10)


def attempt(group: str, roles: str, success: bool, **more: Any) -> EpisodeRecord:
    segments = tuple(Segment(i, "o", "a", "o") for i in range(len(roles)))
    labels = tuple(RoleLabel(i, None if r == "?" else r, status="failed" if r == "?" else "judged")  # type: ignore[arg-type]
                   for i, r in enumerate(roles))  # fmt: skip
    return EpisodeRecord(group, segments=segments, labels=labels, success=success, **more)


def batch(rng: np.random.Generator, success: float, turns: float, mix: Mix, groups: int = 8) -> Sums:
    """A batch of eight attempts a group, whose tasks differ in how hard they are."""
    rows = []
    for _ in range(groups):
        hard = rng.normal(0.0, 0.15)
        length = int(np.maximum(1, rng.poisson(max(1.0, turns * (1 + hard)), size=8)).sum())
        solved = int(rng.binomial(8, min(1.0, max(0.0, success * (1 - hard)))))
        rows.append([8, length, solved, *rng.multinomial(length, mix)])
    return Sums.of(np.array(rows, float))


def between(a: Mix, b: Mix, part: float) -> Mix:
    w, x, y, z = ((1 - part) * p + part * q for p, q in zip(a, b, strict=True))
    return w, x, y, z


def first_alarms(story: Callable[[int, np.random.Generator], Sums], updates: int, seed: int) -> dict[str, int]:
    monitors, rng = Monitors(WORTHS, 8), np.random.default_rng(seed)
    found: dict[str, int] = {}
    for update in range(1, updates + 1):
        for name in monitors.look(story(update, rng)):
            found.setdefault(name, update)
    return found


# ---- the arithmetic ----


def test_counts_on_hand_numbers() -> None:
    sums = counted(
        [
            attempt("a", "DE?", True),
            attempt("a", "NNRR", False),
            attempt("b", "DDE", True, prefix_length=2),  # two copied turns count in the attempt that acted them
        ]
    )
    assert sums.groups == 2
    assert sums.total.tolist() == [3, 8, 2, 1, 2, 2, 2]  # attempts, turns, successes, D, E, N, R
    monitors = Monitors(WORTHS, 2)
    assert monitors.credit(sums) == pytest.approx((1.0 + 2 * 0.5 - 0.2 - 1.0) / 7)
    assert monitors.credit(counted([attempt("a", "??", False)])) is None


def test_a_ratio_and_its_error_by_hand() -> None:
    sums = Sums.of(np.array([[1.0, 2.0], [3.0, 2.0]]))
    value, error = sums.ratio(np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    # residuals 1 - 2 and 3 - 2: variance of their sum 2 · (1 + 1) / (2 - 1), over a denominator of 4
    assert (value, error) == (1.0, 2.0 / 4.0)
    assert Sums.of(np.array([[1.0, 2.0]])).ratio(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == (0.5, math.inf)


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=8), st.integers(0, 7))
def test_sums_add_and_go_through_json(rows: list[list[int]], at: int) -> None:
    table = np.array(rows, float)
    whole = Sums.of(table)
    again = Sums.from_json(json.loads(json.dumps(whole.to_json())))
    parts = Sums.of(table[:at]) + Sums.of(table[at:])
    for other in (again, parts):
        assert other.groups == whole.groups
        assert np.array_equal(other.total, whole.total)
        assert np.array_equal(other.products, whole.products)


# ---- silence ----


def learning(update: int, rng: np.random.Generator) -> Sums:
    """Success from .1 to .9 and attempts from 25 turns to 10, with the roles that go with it."""
    part = min(1.0, update / 40)
    return batch(rng, 0.1 + 0.8 * part, 25 - 15 * part, between(LEARNER, MASTER, part))


def forgetting(update: int, rng: np.random.Generator) -> Sums:
    """A sound judge sees a policy get worse again."""
    part = 1 - abs(20 - update) / 20 if update < 40 else 0.0
    return batch(rng, 0.2 + 0.6 * part, 20 - 8 * part, between(LEARNER, MASTER, part))


def bootstrapping(update: int, rng: np.random.Generator) -> Sums:
    """Nothing is solved for long while sub-goals are learnt: that is what roles are for."""
    return batch(rng, 0.05 if update < 30 else 0.3, 30, between(LEARNER, MASTER, min(1.0, update / 30)))


@pytest.mark.parametrize("story", [learning, forgetting, bootstrapping])
def test_a_sound_run_is_not_warned_of(story: Callable[[int, np.random.Generator], Sums]) -> None:
    assert [first_alarms(story, 60, seed) for seed in range(20)] == [{}] * 20


# ---- alarms ----


def farming(update: int, rng: np.random.Generator) -> Sums:
    """From update 20 on every second turn becomes what the judge pays, and the task is let go of more slowly."""
    part = max(0.0, min(1.0, (update - 20) / 15))
    return batch(rng, 0.7 - 0.5 * part, 14 + 6 * part, between(MASTER, (0.95, 0.05, 0.0, 0.0), part))


def swapped(update: int, rng: np.random.Generator) -> Sums:
    """Another model answers at the endpoint, which calls R what was N, and E what was D."""
    return batch(rng, 0.7, 14, MASTER if update < 20 else (0.15, 0.40, 0.10, 0.35))


def padding(update: int, rng: np.random.Generator) -> Sums:
    return batch(rng, 0.6, 12 if update < 20 else 20, MASTER)


@pytest.mark.parametrize(
    ("story", "name", "latest"),
    [(farming, "reward_without_return", 30), (swapped, "role_drift", 25), (padding, "longer_attempts", 25)],
)
def test_alarms_come_early_and_not_before_their_cause(
    story: Callable[[int, np.random.Generator], Sums], name: str, latest: int
) -> None:
    for seed in range(5):
        found = first_alarms(story, 40, seed)
        assert 20 <= found[name] <= latest
        assert min(found.values()) >= 20


def test_an_alarm_is_told_once_and_ends() -> None:
    rng, monitors = np.random.default_rng(0), Monitors(WORTHS, 8)
    told: list[str] = []
    for update in range(1, 80):
        turns = 20 if 20 <= update < 40 else 12
        told += monitors.look(batch(rng, 0.6, turns, MASTER))
    assert told == ["longer_attempts"]
    assert not any(monitors.active.values())


# ---- two judges ----


def opinions(rng: np.random.Generator, same: float, lenient: float = 0.0) -> list[tuple[str, Role, Role]]:
    out: list[tuple[str, Role, Role]] = []
    for i in range(200):
        other: Role = ROLES[int(rng.integers(4))]
        own: Role = other if rng.random() < same else ROLES[int(rng.integers(4))]
        out.append((str(i % 40), "D" if rng.random() < lenient else own, other))
    return out


def test_agreement_and_surplus_by_hand() -> None:
    beside = Beside(WORTHS, 1, 1, 0.1)
    assert beside.add([("a", "D", "N"), ("b", "E", "E")]) == (0.5, pytest.approx(0.55))
    assert paired([("a", "D", "N"), ("b", "E", "E")]).total.tolist() == [2, 1, 1, 1, 0, 0, 0, 1, 1, 0]
    assert Beside(WORTHS, 1, 1, 0.1).effect() == 0.0


def test_steady_disagreement_is_none_and_growth_is() -> None:
    rng, quiet = np.random.default_rng(1), 0
    for _ in range(20):
        beside = Beside(WORTHS, 3, 2, 0.05)
        effects = []
        for _ in range(25):
            beside.add(opinions(rng, 0.7))
            effects.append(beside.effect())
        quiet += max(effects) < 1.0
        beside.add(opinions(rng, 0.7, lenient=0.3))
        beside.add(opinions(rng, 0.7, lenient=0.3))
        assert beside.effect() >= 1.0
    assert quiet >= 19


def test_a_judge_far_more_generous_is_told_at_once() -> None:
    rng, beside = np.random.default_rng(2), Beside(WORTHS, 3, 2, 0.05)
    beside.add(opinions(rng, 0.9, lenient=0.8))
    assert beside.effect() >= 1.0
    monitors = Monitors(WORTHS, 8)
    monitors.beside["second_judge_disagreement"].add(opinions(rng, 0.9, lenient=0.8))
    assert monitors.look(batch(rng, 0.5, 10, MASTER)) == ["second_judge_disagreement"]


# ---- bad from the start ----


def alarms_of(monitors: Monitors, sums: Callable[[], Sums], pairs: Any = None, updates: int = 12) -> dict[str, int]:
    found: dict[str, int] = {}
    for update in range(1, updates + 1):
        if pairs is not None:
            monitors.beside["rule_disagreement"].add(pairs())
        for name in monitors.look(sums()):
            found.setdefault(name, update)
    return found


def test_a_judge_that_guesses_is_told_after_three_askings_and_a_noisy_one_is_not() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        mixed = lambda rng=rng: batch(rng, 0.4, 12, MASTER)
        assert alarms_of(Monitors(WORTHS, 8), mixed, lambda rng=rng: opinions(rng, 0.0)) == {"judge_unlike_rules": 3}
        assert alarms_of(Monitors(WORTHS, 8), mixed, lambda rng=rng: opinions(rng, 0.5)) == {}


def test_judges_that_say_one_role_alone_tell_nothing_of_chance() -> None:
    beside = Beside(WORTHS, 1, 1, 0.05)
    beside.add([(str(i), "N", "N") for i in range(50)])
    assert beside.chance() == 0.0
    few = Beside(WORTHS, 1, 1, 0.05)
    few.add([("a", "D", "N"), ("b", "E", "E")])  # two segments are no evidence
    assert few.chance() == 0.0


def test_kappa_by_hand() -> None:
    # 100 attempts, agreement .5 on two roles used half and half by both: kappa 0, error .05 / .5
    beside = Beside(WORTHS, 1, 1, 0.05)
    beside.add([(str(i), "D" if i % 2 else "N", "D" if i % 4 < 2 else "N") for i in range(100)])
    assert beside.chance() == 0.0  # 0 + 2 · .1 is above .15
    beside = Beside(WORTHS, 1, 1, 0.05)
    beside.add([(str(i), "D" if i % 2 else "N", "D" if i % 4 < 2 else "N") for i in range(400)])
    assert beside.chance() == 1.0  # 0 + 2 · .05 is below


def test_a_judge_that_labels_nothing_is_told() -> None:
    empty = counted([attempt(str(i), "?" * 12, False) for i in range(8)])
    monitors = Monitors(WORTHS, 8)
    assert alarms_of(monitors, lambda: empty) == {"no_labels": 4}
    assert alarms_of(monitors, lambda: batch(np.random.default_rng(0), 0.3, 12, MASTER), updates=6) == {}
    assert not monitors.active["no_labels"]


def test_one_role_from_the_start_is_told_unless_the_rules_say_so_too() -> None:
    rng = np.random.default_rng(0)
    one = lambda: batch(rng, 0.3, 12, (0.01, 0.0, 0.99, 0.0))
    assert alarms_of(Monitors(WORTHS, 8), one) == {"one_role": 4}
    assert alarms_of(Monitors(WORTHS, 8, by_rules=True), one) == {}
    other: list[tuple[str, Role, Role]] = [(str(i), "N", "N") for i in range(100)]
    assert alarms_of(Monitors(WORTHS, 8), one, lambda: other) == {}
    # A judge that was varied before is not accused of a policy that does the one right thing in the end.
    monitors = Monitors(WORTHS, 8)
    alarms_of(monitors, lambda: batch(rng, 0.3, 12, MASTER), updates=8)
    assert "one_role" not in alarms_of(monitors, lambda: batch(rng, 1.0, 3, (1.0, 0.0, 0.0, 0.0)), updates=8)


def test_one_earlier_window_does_not_tell_what_mixes_are_usual() -> None:
    def switched(at: int) -> Callable[[int, np.random.Generator], Sums]:
        return lambda update, rng: batch(rng, 0.7, 14, MASTER if update <= at else (0.15, 0.40, 0.10, 0.35))

    assert "role_drift" not in first_alarms(switched(4), 8, 0)
    assert "role_drift" in first_alarms(switched(8), 14, 0)


def test_a_comparison_is_forgotten_with_its_judge() -> None:
    rng, monitors = np.random.default_rng(2), Monitors(WORTHS, 8)
    monitors.beside["second_judge_disagreement"].add(opinions(rng, 0.9, lenient=0.8))
    assert monitors.look(batch(rng, 0.5, 10, MASTER)) == ["second_judge_disagreement"]
    monitors.forget("second_judge_disagreement")
    assert not monitors.active["second_judge_disagreement"]
    assert monitors.look(batch(rng, 0.5, 10, MASTER)) == []


# ---- a checkpoint ----


@settings(max_examples=10)
@given(st.integers(1, 30))
def test_monitors_go_on_from_json_as_if_nothing_had_been(stop: int) -> None:
    def take_up(monitors: Monitors, rng: np.random.Generator, update: int) -> list[str]:
        monitors.beside["rule_disagreement"].add(opinions(rng, 0.8, lenient=update / 40))
        if update % 5 == 1:
            monitors.beside["second_judge_disagreement"].add(opinions(rng, 0.8, lenient=update / 40))
        return monitors.look(farming(update, rng))

    rng, other_rng = np.random.default_rng(5), np.random.default_rng(5)
    straight, broken = Monitors(WORTHS, 8), Monitors(WORTHS, 8)
    for update in range(1, 36):
        expected = take_up(straight, rng, update)
        assert take_up(broken, other_rng, update) == expected
        if update == stop:
            state = json.loads(json.dumps(broken.to_json()))
            broken = Monitors(WORTHS, 8)
            broken.go_to(state)
    assert broken.to_json() == straight.to_json()


def test_a_checkpoint_of_fewer_alarms_is_read() -> None:
    state = Monitors(WORTHS, 8).to_json()
    del state["roles"], state["active"]["one_role"]
    monitors = Monitors(WORTHS, 8)
    monitors.go_to(state)
    assert monitors.to_json() == Monitors(WORTHS, 8).to_json()


def test_a_state_that_is_none_is_refused() -> None:
    with pytest.raises(CheckpointError, match="monitors"):
        Monitors(WORTHS, 8).go_to({"updates": 3})


# ---- in a run ----


def window(action: str, step: int = 0) -> Window:
    return Window("put a mug in desk", "alfworld", step, (), "room", action, "You see nothing.", ())


def test_a_biased_judge_has_its_weakness_and_repeats() -> None:
    windows = [window("examine mug 1"), window("go to desk 1", 1), window("examine desk 1", 2)]
    biased = BiasedJudge(phrase="examine", role="E")
    assert [x.role for x in biased.judge(windows)][::2] == ["E", "E"]
    assert biased.judge(windows)[1] == BiasedJudge().judge(windows)[1]
    many = [window(f"go to desk {i}") for i in range(400)]
    plain, noisy = BiasedJudge().judge(many), BiasedJudge(noise=0.25).judge(many)
    assert noisy == BiasedJudge(noise=0.25).judge(many)
    assert 60 < sum(a.role != b.role for a, b in zip(plain, noisy, strict=True)) < 140
    with pytest.raises(InputError, match="noise"):
        BiasedJudge(noise=2.0)
    with pytest.raises(InputError, match="role"):
        BiasedJudge(role="X")  # type: ignore[arg-type]


def test_every_alarm_is_in_words_wherever_it_is_shown() -> None:
    from triage_gym.report.judging import ALARMS as SHOWN
    from triage_gym.trainers.metrics import WARNINGS

    assert set(SHOWN) == set(ALARMS)
    assert set(ALARMS) < set(WARNINGS)


def test_a_run_tells_what_its_judges_agree_on(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import needs

    needs.require("alfworld")
    torch.set_num_threads(1)
    from judges_for_tests import Flaky
    from trainer_runs import small

    from triage_gym.trainers.loop import train
    from triage_gym.trainers.run_dir import read_lines

    Flaky.out, Flaky.calls = range(0), 0
    judge = {"name": "triage_gym.testing.biased_judge:BiasedJudge", "phrase": "go to"}
    second = {"name": "judges_for_tests:Flaky"}
    train(small(judge=judge, second_judge=second, monitor_every=3, turns=500, eval_at=()), tmp_path / "run")
    rows: Sequence[dict[str, Any]] = list(read_lines(tmp_path / "run" / "metrics.jsonl"))
    assert [i for i, row in enumerate(rows) if "second_agreement" in row] == [i for i in range(len(rows)) if i % 3 == 0]
    timings = list(read_lines(tmp_path / "run" / "timings.jsonl"))
    assert [t["second_judge_calls"] for t in timings] == [float(i % 3 == 0) for i in range(len(rows))]
    assert all(0 < row["rule_agreement"] < 1 and row["rule_surplus"] > 0 for row in rows)
    assert any("rule_disagreement" in row["warnings"] for row in rows)
