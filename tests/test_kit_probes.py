"""Probes: each keeps its promises (or breaks the named one), and its right answers are right."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest
from gymnasium.error import ResetNeeded

from triage_gym.errors import InputError, StateError
from triage_gym.judges.rule import RuleJudge
from triage_gym.protocols import Pair, Window
from triage_gym.testing import check_text_env, env_state_machine
from triage_gym.testing.play import act, begin
from triage_gym.testing.probes import (
    BAD,
    GOOD,
    CrashAt,
    DelayedCredit,
    DistractorTurn,
    EndlessReading,
    ExplorationInFailure,
    HangAt,
    OneTurn,
    PivotNeeded,
    Probe,
    RegressionInSuccess,
    SeedIgnoring,
    Unicode,
)

TestDelayedCreditInAnyOrder = env_state_machine(DelayedCredit, max_examples=50).TestCase
TestExplorationInAnyOrder = env_state_machine(ExplorationInFailure, max_examples=50).TestCase


def begun(kind: type[Probe], variant: int) -> Any:
    env = kind()
    env.reset(options={"task_id": f"{kind.__name__}-{variant}"})
    return env


def played(env: Probe, actions: list[str]) -> tuple[float, bool | None]:
    """Return and success of ``actions`` from the start of the current task."""
    env.reset(options={"task_id": f"{type(env).__name__}-{env.variant}"})
    answers = [act(env, action) for action in actions]
    return sum(answer.reward or 0.0 for answer in answers), answers[-1].info.get("success")


@pytest.mark.parametrize("kind", GOOD)
def test_good_probes_keep_every_promise(kind: type[Probe]) -> None:
    report = check_text_env(kind, seeds=range(20))
    assert list(report.skipped) == ["test_splits_share_no_task"]


@pytest.mark.parametrize("kind", BAD)
def test_bad_probes_break_exactly_the_promise_that_they_name(kind: type[Probe]) -> None:
    report = check_text_env(kind, raise_on_failure=False, patience=0.2)
    assert set(report.broken) == kind.breaks


@pytest.mark.parametrize("kind", GOOD)
def test_the_expert_earns_the_optimal_return_of_every_task(kind: type[Probe]) -> None:
    for variant in range(kind.variants):
        env = begun(kind, variant)
        earned = 0.0
        while not env.over:
            earned += env.step(env.expert_action())[1]
        assert earned == kind.optimal_return
        assert env.expert_action() is None


@pytest.mark.parametrize("kind", [OneTurn, DistractorTurn, RegressionInSuccess])
def test_no_sequence_of_actions_earns_more(kind: type[Probe]) -> None:
    env = begun(kind, 1)
    actions = sorted({command for played in ([], ["take the cup"]) for command in env.commands(1, played)})
    for sequence in product(actions, repeat=3):
        begin(env, options={"task_id": f"{kind.__name__}-1"})
        earned = 0.0
        for action in sequence:
            if not env.over:
                earned += env.step(action)[1]
        assert earned <= kind.optimal_return


@pytest.mark.parametrize(
    ("kind", "roles", "success"),
    [
        (OneTurn, "D", True),
        (DelayedCredit, "DNNNNN", True),
        (PivotNeeded, "DDDDRN", False),
        (DistractorTurn, "NDND", True),
        (RegressionInSuccess, "DRDD", True),
        (ExplorationInFailure, "EER", False),
        (EndlessReading, "DDD", True),
        (Unicode, "D", True),
    ],
)
def test_the_telling_episode_has_these_roles(kind: type[Probe], roles: str, success: bool) -> None:
    for variant in range(kind.variants):
        env = begun(kind, variant)
        actions = env.telling_actions()
        assert "".join(env.expected_roles(actions)) == roles
        assert played(env, actions) == (float(success), success)


def test_roles_of_other_episodes() -> None:
    delayed = begun(DelayedCredit, 2)
    assert delayed.expected_roles(["fly", "take the red key", "walk on"]) == ["N", "R", "N"]
    delayed.step("take the red key")
    assert delayed.expert_action() is None
    pivot = begun(PivotNeeded, 0)
    assert pivot.expected_roles(["left", "right", "left", "right"]) == ["D", "R", "N", "N"]
    assert (pivot.pivot(["left", "right", "left"]), pivot.pivot(["left"])) == (1, None)
    assert pivot.pivot(pivot.telling_actions()) == 4
    distractor = begun(DistractorTurn, 0)
    pulls = ["pull the right lever", "pull the left lever", "pull the left lever", "leave"]
    assert distractor.expected_roles(pulls) == ["N", "D", "N", "D"]
    assert distractor.expected_roles(["leave"]) == ["R"]
    boxes = begun(ExplorationInFailure, 0)
    looks = ["look into the tin box", "look into the tin box", "look into the oak box", "look into the wax box"]
    assert boxes.expected_roles([*looks, "take the oak box"]) == ["E", "N", "E", "N", "D"]
    cup = begun(RegressionInSuccess, 3)
    assert cup.expected_roles(["look", "put the cup down", "take the cup", "look"]) == ["N", "N", "D", "N"]


def test_reading_is_new_to_a_judge_of_news_and_helps_nobody() -> None:
    env = begun(EndlessReading, 5)
    text, info = env.reset(options={"task_id": "EndlessReading-5"})
    actions = [*("read a book of the north shelf",) * 3, "open the door", "take the key", "take the key"]
    actions += ["unlock the door", "read a book of the inner shelf"]
    assert env.expected_roles(actions) == ["N", "N", "N", "N", "D", "N", "D", "N"]
    shown, pairs = [text], []
    for action in actions:
        shown.append(env.step(action)[0])
        pairs.append(Pair(action, shown[-1]))
    windows = [
        Window(info["task"], "probe", k, tuple(pairs[max(0, k - 5) : k]), shown[k], action, shown[k + 1], ())
        for k, action in enumerate(actions)
    ]
    labels = RuleJudge(domain="generic").judge(windows)
    assert [x.role for x, action in zip(labels, actions, strict=True) if action.startswith("read")] == ["E"] * 4
    assert "E" not in {x.role for x, action in zip(labels, actions, strict=True) if not action.startswith("read")}


def test_roles_end_with_the_episode() -> None:
    env = begun(OneTurn, 0)
    with pytest.raises(InputError, match="1 more"):
        env.expected_roles(["apple", "apple"])
    with pytest.raises(InputError, match="2 more"):
        env.expected_roles(["hm"] * (env.max_turns + 2))


def test_code_points_are_what_decides() -> None:
    composed, decomposed = Unicode.WORDS[:2]
    assert composed != decomposed
    assert begun(Unicode, 0).step(decomposed)[4]["success"] is False
    assert begun(Unicode, 0).step(composed)[4]["success"] is True


def test_a_probe_is_truncated_at_its_limit() -> None:
    env = begun(OneTurn, 0)
    answers = [act(env, "hm") for _ in range(env.max_turns)]
    assert [answer.truncated for answer in answers] == [False] * (env.max_turns - 1) + [True]
    assert answers[-1].info["success"] is False


def test_seeds_draw_different_tasks_and_repeat() -> None:
    tasks = [[PivotNeeded().reset(seed=seed)[1]["task_id"] for seed in range(30)] for _ in range(2)]
    assert tasks[0] == tasks[1]
    assert len(set(tasks[0])) > 15


def test_the_seed_is_ignored_where_it_should() -> None:
    before = random.getstate()
    assert len({SeedIgnoring().reset(seed=0)[1]["task_id"] for _ in range(200)}) > 20
    assert random.getstate() == before


def test_crashes_at_its_step_of_every_episode() -> None:
    env = CrashAt(at=2)
    for seed in (0, 1):
        env.reset(seed=seed)
        env.step("hm")
        with pytest.raises(RuntimeError, match="step 2"):
            env.step("hm")


def test_hangs_at_its_step_and_goes_on_after(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    env = HangAt(at=2, seconds=7.0)
    env.reset(seed=0)
    env.step("hm")
    assert slept == []
    env.step("hm")
    assert slept == [7.0]


@pytest.mark.parametrize(
    "change",
    [
        {"probe": "Unicode"},
        {"variant": 4},
        {"variant": -1},
        {"variant": True},
        {"played": ["take off"]},
        {"played": [3]},
        {"played": ["apple", "apple"]},
        {"np_random": {}},
        {"more": 1},
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(change: dict[str, Any]) -> None:
    env = begun(OneTurn, 1)
    env.step("hm")
    before = env.get_state()
    with pytest.raises(StateError, match=r"^Expected "):
        env.set_state({**before, **change})
    assert env.get_state() == before


def test_before_the_first_reset_there_is_nothing() -> None:
    env = OneTurn()
    for call in (env.expert_action, env.telling_actions, env.get_state, env.render, lambda: env.step("apple")):
        with pytest.raises(ResetNeeded):
            call()
    with pytest.raises(InputError, match="render_mode"):
        OneTurn(render_mode="human")
