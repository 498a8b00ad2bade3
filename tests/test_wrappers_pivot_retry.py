"""PivotRetryWrapper: a retry is an episode begun by reset, from the turn where it went wrong, verified."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from envs_for_tests import (
    Corridor,
    CrashingCorridor,
    HiddenRNGCorridor,
    LyingCorridor,
    SilentCorridor,
    StatelessCorridor,
    UnseededCorridor,
)
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit

from triage_gym.errors import InputError
from triage_gym.records import EpisodeRecord, Reflection
from triage_gym.reflection import RoleReflector
from triage_gym.restore import restore
from triage_gym.wrappers import PivotRetryWrapper, RoleJudgeWrapper, SegmentCreditWrapper

FRESH = {
    "attempt": 0,
    "pivot_step": -1,
    "prefix_length": 0,
    "prefix_return": 0.0,
    "restore_status": "none",
    "restore_strategy": "none",
    "reflection": "",
    "reflection_pivot": -1,
    "reflection_source": "",
    "reflection_text": "",
    "reflection_problem": "",
    "pivot_check": "none",
    "oracle_pivot": -1,
}
FALL = ["go right", "look", "go right", "go left", "go left", "go left"]
"""Six turns that end in the pit; the exit is further away than two doors."""


def make(limit: int = 12, env: type[gym.Env[Any, Any]] = Corridor, **arguments: Any) -> PivotRetryWrapper:
    return PivotRetryWrapper(TimeLimit(env(), limit), **arguments)


def fail(env: gym.Env[Any, Any], **reset: Any) -> list[Any]:
    """The answers of an attempt that falls into the pit."""
    answers: list[Any] = [env.reset(**reset)]
    for action in FALL:
        answers.append(env.step(action))
        if answers[-1][2] or answers[-1][3]:
            return answers
    raise AssertionError("expected a failed attempt")


def facts(info: dict[str, Any]) -> dict[str, Any]:
    return {key: info[key] for key in FRESH}


def test_every_reset_tells_the_same_facts_with_the_same_types() -> None:
    env = make()
    assert facts(fail(env, seed=1)[0][1]) == FRESH
    observation, info = env.reset(options={"retry": 3})
    assert facts(info) == {
        **FRESH,
        "attempt": 1,
        "pivot_step": 3,
        "prefix_length": 3,
        "prefix_return": 0.25,
        "restore_status": "verified",
        "restore_strategy": "native",
        "reflection_pivot": 3,
        "reflection_source": "caller",
    }
    assert [type(v) for v in facts(info).values()] == [type(v) for v in FRESH.values()]
    assert set(info) == {*FRESH, "admissible_commands", "task_id", "task", "task_type"}
    assert observation.startswith("You are at door 2.")
    assert facts(env.reset(seed=2)[1]) == FRESH


def test_a_retry_goes_on_like_an_uninterrupted_run_with_the_same_budget() -> None:
    for pivot in range(6):
        env, straight = make(9), TimeLimit(Corridor(), 9)
        fail(env, seed=1)
        observation, _ = env.reset(options={"retry": pivot})
        expected, _ = straight.reset(seed=1)
        for action in FALL[:pivot]:
            expected = straight.step(action)[0]
        assert observation == expected
        while True:
            one, two = env.step("wait"), straight.step("wait")
            assert one == two
            if one[3]:
                break
        assert env.unwrapped.np_random.bit_generator.state == straight.unwrapped.np_random.bit_generator.state


def test_the_pivot_is_clamped_to_the_attempt() -> None:
    for asked, got in ((-3, 0), (99, 5), (np.int64(2), 2)):
        env = make()
        fail(env, seed=1)
        assert env.reset(options={"retry": asked})[1]["pivot_step"] == got


def test_attempts_run_out_and_a_success_is_not_retried() -> None:
    env = make(max_attempts=2)
    fail(env, seed=1)
    env.reset(options={"retry": 1})
    for action in FALL[1:]:
        env.step(action)
    with pytest.raises(gym.error.ResetNeeded, match="all 2 attempts"):
        env.reset(options={"retry": 1})
    env.reset(seed=1, options={"task_id": "corridor-1"})
    env.step("go right")
    with pytest.raises(gym.error.ResetNeeded, match="a success"):
        env.reset(options={"retry": 0})


def test_a_retry_needs_a_failed_attempt() -> None:
    env = make()
    with pytest.raises(gym.error.ResetNeeded, match="no attempt was made"):
        env.reset(options={"retry": True})
    with pytest.raises(gym.error.ResetNeeded):
        env.step("look")
    env.reset(seed=1)
    env.step("look")
    with pytest.raises(gym.error.ResetNeeded, match="has not ended"):
        env.reset(options={"retry": True})
    fail(env, seed=1)
    with pytest.raises(gym.error.ResetNeeded):
        env.step("look")
    assert env.reset(options={"retry": True})[1]["attempt"] == 1, "a refused call changes nothing"


def test_contradictions_are_refused() -> None:
    env = make()
    fail(env, seed=1)
    for seed, options, complaint in (
        (3, {"retry": 1}, "seed=3"),
        (None, {"retry": 1, "task_id": "corridor-4"}, "task_id"),
        (None, {"retry": "1"}, "a turn, True or False"),
        (None, {"retry": 1.0}, "a turn, True or False"),
        (None, {"reflection": 4}, "to be text"),
        (None, {"reflection": "{}", "retry": False}, "got both"),
    ):
        kept = dict(options)
        with pytest.raises(ValueError, match=complaint):
            env.reset(seed=seed, options=options)
        assert options == kept, "options are never written into"
    assert env.reset(options={"retry": 1})[1]["attempt"] == 1


def test_auto_retries_a_bare_reset_after_a_failure_until_the_attempts_run_out() -> None:
    env = make(auto=True, reflector=lambda record: 2)
    fail(env, seed=1)
    for attempt in (1, 2):
        assert facts(env.reset()[1])["attempt"] == attempt
        while not env.step("go left")[2]:
            pass
    assert facts(env.reset()[1]) == FRESH
    fail(env, seed=1)
    assert facts(env.reset(seed=5)[1]) == FRESH
    fail(env, seed=1)
    assert facts(env.reset(options={"retry": False})[1]) == FRESH
    fail(env, seed=1)
    assert facts(env.reset(options={"task_id": "corridor-5"})[1]) == FRESH
    env.step("look")
    assert facts(env.reset()[1]) == FRESH, "an attempt that was given up did not fail"
    env = make(auto=False)
    fail(env, seed=1)
    assert facts(env.reset()[1]) == FRESH


def test_auto_works_under_autoreset() -> None:
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        vector = SyncVectorEnv([lambda: make(auto=True, reflector="restart", max_attempts=2)] * 2, autoreset_mode=mode)
        vector.reset(seed=3)
        attempts: list[int] = []
        for _ in range(12):
            infos = vector.step(("go left", "wait"))[4]
            if "attempt" in infos and infos["_attempt"][0]:
                attempts.append(int(infos["attempt"][0]))
        assert attempts[:4] == [1, 0, 1, 0]
        vector.close()


@pytest.mark.parametrize(
    ("text", "pivot", "remark", "malformed"),
    [
        ('{"remark": "went the wrong way", "pivot": 3}', 3, "went the wrong way", 0),
        (' {"pivot": 99, "remark": ""}\n', 5, "", 0),
        ('{"remark": "x", "pivot": -1}', 0, "x", 0),
        ('Sure! {"remark": "x", "pivot": 3}', 0, "", 1),
        ('```json\n{"remark": "x", "pivot": 3}\n```', 0, "", 1),
        ('{"remark": "x", "pivot": 3.0}', 0, "", 1),
        ('{"remark": "x", "pivot": true}', 0, "", 1),
        ('{"remark": "x", "pivot": "3"}', 0, "", 1),
        ('{"remark": null, "pivot": 3}', 0, "", 1),
        ('{"remark": "x", "pivot": 3, "success": true}', 0, "", 1),
        ('{"remark": "x", "pivot": 3, "pivot": 4}', 0, "", 1),
        ("[1, 2]", 0, "", 1),
        ("", 0, "", 1),
        ("[" * 100_000, 0, "", 1),
    ],
)
def test_the_policy_s_own_reflection_is_read_strictly(text: str, pivot: int, remark: str, malformed: int) -> None:
    env = make()
    fail(env, seed=1)
    info = env.reset(options={"reflection": text})[1]
    assert (info["pivot_step"], info["reflection"]) == (pivot, remark)
    assert env.counts["malformed_reflections"] == malformed


def test_a_turn_and_a_reflection_together_take_the_turn_and_the_remark() -> None:
    env = make()
    fail(env, seed=1)
    info = env.reset(options={"retry": 2, "reflection": '{"remark": "careful", "pivot": 4}'})[1]
    assert (info["pivot_step"], info["reflection"]) == (2, "careful")


def test_the_role_reflector_takes_the_earliest_regression() -> None:
    env = make(reflector={"name": "role", "judge": "envs_for_tests:LeftIsRegression"})
    fail(env, seed=1)
    info = env.reset(options={"retry": True})[1]
    assert info["pivot_step"] == 3
    assert info["reflection"] == 'Turn 4, "go left", was a step back: further from the exit.'


def test_the_oracle_takes_the_first_turn_that_led_away() -> None:
    env = make(reflector="oracle")
    fail(env, seed=1)
    assert env.reset(options={"retry": True})[1]["pivot_step"] == 3
    for _ in range(20):
        if env.step("wait")[3]:
            break
    info = env.reset(options={"retry": True})[1]
    assert info["pivot_step"] == 1, "where no turn led away, the first that did not lead nearer"
    with pytest.raises(InputError, match="expert_distance"):
        make(env=NoExpert, reflector="oracle").reset(seed=1)


class NoExpert(Corridor):
    expert_distance = None  # type: ignore[assignment]


def test_the_random_reflector_is_decided_by_the_attempt() -> None:
    pivots = []
    for seed in (0, 0, 1, 2, 3, 4):
        env = make(reflector={"name": "random", "seed": seed})
        fail(env, seed=1)
        pivots.append(env.reset(options={"retry": True})[1]["pivot_step"])
    assert pivots[0] == pivots[1]
    assert len(set(pivots)) > 2
    assert all(0 <= p < len(FALL) for p in pivots)


def test_any_function_or_reflector_will_do_and_sees_the_whole_attempt() -> None:
    seen: list[EpisodeRecord] = []

    class Mine:
        def reflect(self, record: EpisodeRecord) -> Reflection:
            seen.append(record)
            return Reflection("mine", 4)

    env = make(reflector=Mine())
    answers = fail(env, seed=1)
    info = env.reset(options={"retry": True})[1]
    assert (info["pivot_step"], info["reflection"]) == (4, "mine")
    (record,) = seen
    assert [s.action for s in record.segments] == FALL
    assert record.segments[0].observation == record.start_observation == answers[0][0]
    assert [s.next_observation for s in record.segments] == [a[0] for a in answers[1:]]
    assert (record.success, record.terminated, record.score, record.seed) == (False, True, 0.0, 1)
    assert record.segments[1].info == {"invalid_action": False}


class Mute:
    """A judge that never says anything."""

    def judge(self, windows: Any) -> Any:
        raise ConnectionError("no route to the judge")


@pytest.mark.parametrize(
    "reflector",
    [
        lambda record: {}["100% sure"],
        lambda record: "turn 3",
        lambda record: True,
        lambda record: Reflection("late", None),  # type: ignore[arg-type]
        lambda record: Reflection("late", 1.5),  # type: ignore[arg-type]
        lambda record: Reflection("late", "1"),  # type: ignore[arg-type]
        lambda record: Reflection("late", True),
        lambda record: Reflection(None, 1),  # type: ignore[arg-type]
        RoleReflector(Mute()),
    ],
)
def test_a_reflector_that_fails_leads_to_a_counted_restart(reflector: Any) -> None:
    env = make(reflector=reflector)
    fail(env, seed=1)
    with pytest.warns(UserWarning, match="reflector failed"):
        info = env.reset(options={"retry": True})[1]
    assert info["pivot_step"] == 0
    assert env.counts["failed_reflectors"] == 1


def test_a_reflector_of_two_environments_hides_the_outcome_of_both() -> None:
    class Other(Corridor):
        metadata = {**Corridor.metadata, "outcome_text": ("You hear",)}  # noqa: RUF012

    shared = RoleReflector()
    assert shared.outcome_text == ()
    for _ in range(2):
        for kind in (Corridor, Other):
            make(env=kind, reflector=shared).reset(seed=1)
    assert shared.outcome_text == ("You are out!", "You fell!", "You hear")


def test_a_pivot_of_numpy_is_told_as_an_int() -> None:
    env = make(reflector=lambda record: Reflection("here", np.int64(2)))  # type: ignore[arg-type]
    fail(env, seed=1)
    info = env.reset(options={"retry": True})[1]
    assert [(info[key], type(info[key])) for key in ("pivot_step", "prefix_length")] == [(2, int)] * 2


def test_a_sum_of_rewards_that_is_not_finite_is_no_score() -> None:
    class Infinite(SilentCorridor):
        def step(self, action: str) -> Any:
            observation, _, *rest = super().step(action)
            return (observation, float("nan"), *rest)

    env = make(env=Infinite)
    env.reset(seed=1)
    with pytest.warns(UserWarning, match='put "success"'), pytest.raises(InputError, match="finite sum"):
        env.step("go left")
    with pytest.raises(gym.error.ResetNeeded, match="environment failed"):
        env.reset(options={"retry": True})


def test_a_lying_environment_is_caught_and_its_retry_still_verified() -> None:
    env, honest = make(env=LyingCorridor), make()
    fail(env, seed=1)
    fail(honest, seed=1)
    with pytest.warns(UserWarning, match="by native failed"):
        observation, info = env.reset(options={"retry": 4})
    assert (info["restore_status"], info["restore_strategy"]) == ("verified", "replay")
    assert observation == honest.reset(options={"retry": 4})[0]
    assert "native" in env.restore_reasons


def test_a_lie_that_shows_only_in_a_later_attempt_is_caught_there() -> None:
    """The first attempt never goes right, so that how far it came, which the state leaves out, did not matter."""

    class Partly(LyingCorridor):
        def __init__(self) -> None:
            super().__init__(lie="part")

    answers: list[Any] = []
    for env in (make(env=Partly), make()):
        env.reset(seed=1)
        for action in ("wait", "go left"):
            env.step(action)
        assert env.reset(options={"retry": 0})[1]["restore_strategy"] == "native"
        for action in ("wait", "go right", "go left", "go left"):
            env.step(action)
        if answers:
            info = env.reset(options={"retry": 0})[1]
        else:
            with pytest.warns(UserWarning, match="by native failed"):
                info = env.reset(options={"retry": 0})[1]
        assert info["restore_status"] == "verified"
        answers.append([env.step("go right")[:2], env.step("look")[:2]])
    assert answers[0] == answers[1]


def test_a_hidden_generator_gives_a_restart_without_a_prefix() -> None:
    env = make(env=HiddenRNGCorridor)
    fail(env, seed=1)
    with pytest.warns(UserWarning, match="failed"):
        info = env.reset(options={"retry": 4})[1]
    assert (info["restore_status"], info["pivot_step"], info["prefix_length"]) == ("restarted", 0, 0)
    assert env.counts["restarts"] == 1


def test_an_environment_that_begins_elsewhere_is_a_mismatch_that_is_never_trained() -> None:
    class Elsewhere(UnseededCorridor):
        get_state = None  # type: ignore[assignment]

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return super().reset(seed=seed)

    env = SegmentCreditWrapper(PivotRetryWrapper(TimeLimit(Elsewhere(10_000), 6), restore="replay"), "grpo")
    env.reset(seed=1)
    while not env.step("look")[3]:
        pass
    with pytest.warns(UserWarning, match="failed"):
        info = env.reset(options={"retry": 2})[1]
    assert info["restore_status"] == "mismatch"
    for _ in range(6):
        info = env.step("look")[4]
    assert info["episode_record"].error is not None
    assert info["episode_record"].prefix_length == 0


def test_what_follows_a_mismatch_is_never_trained_either() -> None:
    starts = iter(["a", "b", "c"])

    class Once(StatelessCorridor):
        """Begins elsewhere at its second reset and there ever after."""

        now = ""

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            _, info = super().reset(seed=seed)
            self.now = next(starts, self.now)
            return self.now, {**info, "task_id": ""}

    env = SegmentCreditWrapper(PivotRetryWrapper(TimeLimit(Once(), 3), restore="replay"), "grpo")
    errors = []
    for retry in ({}, {"retry": 1}, {"retry": 0}):
        if retry == {"retry": 1}:
            with pytest.warns(UserWarning, match="failed"):
                status = env.reset(options=retry)[1]["restore_status"]
            assert status == "mismatch"
        else:
            env.reset(seed=None if retry else 1, options=retry)
        for _ in range(3):
            info = env.step("look")[4]
        errors.append(info["episode_record"].error)
    assert errors[0] is None
    assert errors[1] == errors[2] == "the retry did not come back to the recorded start"
    env.reset(seed=1)
    for _ in range(3):
        info = env.step("look")[4]
    assert info["episode_record"].error is None


def test_an_environment_with_an_attempt_of_its_own_is_not_taken_for_a_retry() -> None:
    class Own(Corridor):
        def reset(self, **arguments: Any) -> Any:
            observation, info = super().reset(**arguments)
            return observation, {**info, "attempt": "first", "prefix_length": 7}

    env = SegmentCreditWrapper(TimeLimit(Own(), 9), "grpo")
    env.reset(seed=1)
    assert env.step("go left")[4]["episode_record"].attempt == 0


@pytest.mark.parametrize("strategy", ["native", "copy", "replay", "restart"])
def test_a_way_can_be_chosen(strategy: str) -> None:
    env = make(restore=strategy)
    fail(env, seed=1)
    info = env.reset(options={"retry": 4})[1]
    restarted = strategy == "restart"
    assert info["restore_strategy"] == strategy
    assert info["restore_status"] == ("restarted" if restarted else "verified")
    assert info["prefix_length"] == (0 if restarted else 4)


def test_an_environment_that_raises_leaves_nothing_to_retry() -> None:
    env = make(env=CrashingCorridor, auto=True)
    env.reset(seed=1)
    env.step("go right")
    env.step("look")
    with pytest.raises(RuntimeError, match="collapsed"):
        env.step("look")
    with pytest.raises(gym.error.ResetNeeded):
        env.step("look")
    with pytest.raises(gym.error.ResetNeeded, match="the environment failed"):
        env.reset(options={"retry": 1})
    assert facts(env.reset()[1]) == FRESH


def test_the_order_of_the_wrappers_is_enforced() -> None:
    limited = TimeLimit(Corridor(), 9)
    for inner in (RoleJudgeWrapper(limited), SegmentCreditWrapper(limited, "grpo"), PivotRetryWrapper(limited)):
        with pytest.raises(InputError, match="outside of PivotRetryWrapper"):
            PivotRetryWrapper(inner)
    with pytest.raises(InputError, match="at least 1"):
        PivotRetryWrapper(limited, max_attempts=0)
    with pytest.raises(InputError, match="has no get_state"):
        PivotRetryWrapper(TimeLimit(StatelessCorridor(), 9), restore="native")


def test_statistics_inside_count_the_whole_attempt_and_outside_what_was_done() -> None:
    env = RecordEpisodeStatistics(
        PivotRetryWrapper(RecordEpisodeStatistics(TimeLimit(Corridor(), 12), stats_key="whole"))
    )
    fail(env, seed=1)
    env.reset(options={"retry": 3})
    for action in ("go right", "go left", "go left", "go left", "go left"):
        info = env.step(action)[4]
    assert (info["whole"]["l"], info["whole"]["r"]) == (8, 0.375)
    assert (info["episode"]["l"], info["episode"]["r"]) == (5, 0.125)


def test_an_environment_that_never_tells_success_is_read_by_reward_with_a_warning() -> None:
    env = make(env=SilentCorridor)
    env.reset(seed=1)
    with pytest.warns(UserWarning, match='"success"'):
        env.step("go left")
    assert env.reset(options={"retry": True})[1]["attempt"] == 1


def test_turns_walked_again_are_counted_apart() -> None:
    env = make(restore="replay")
    fail(env, seed=1)
    env.reset(options={"retry": 5})
    assert env.counts["replayed_turns"] == 5
    assert env.counts["retries"] == 1


def test_a_snapshot_travels_as_json() -> None:
    env = make()
    fail(env, seed=1)
    env.reset(options={"retry": 3})
    env.step("go right")
    snapshot = env.snapshot()
    json.dumps(snapshot.payload)
    other = TimeLimit(Corridor(), 12)
    restore(other, snapshot)
    assert other.step("look") == env.step("look")


def win(env: gym.Env[Any, Any]) -> int:
    """Play a success; its turns."""
    _, info = env.reset(seed=1)
    for turn in range(1, 13):
        _, _, terminated, _, info = env.step("go right")
        if terminated:
            assert info["success"]
            return turn
    raise AssertionError("expected a success")


def test_a_success_is_retried_only_where_that_is_allowed() -> None:
    env = make()
    win(env)
    with pytest.raises(gym.error.ResetNeeded, match='was a success, and after="failure"'):
        env.reset(options={"retry": 1})
    env = make(after="any")
    turns = win(env)
    _, info = env.reset(options={"retry": turns - 1})
    assert (info["attempt"], info["prefix_length"], info["restore_status"]) == (1, turns - 1, "verified")
    assert env.step("go right")[4]["success"]
    assert env.drew  # the corridor draws in its steps


def test_after_any_and_auto_exclude_each_other() -> None:
    with pytest.raises(InputError, match="never end"):
        make(after="any", auto=True)
    with pytest.raises(InputError, match="after"):
        make(after="success")
