"""Retries in full: words in two forms, restarts with a remark, facts of turns, checks of pivots, lineage of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from envs_for_tests import Corridor, StatelessCorridor
from gymnasium.wrappers import TimeLimit

from triage_gym.errors import GroupError, InputError
from triage_gym.records import EpisodeRecord, Reflection
from triage_gym.reflection.verification import PivotPoint
from triage_gym.wrappers import PivotRetryWrapper, RoleJudgeWrapper, SegmentCreditWrapper

FALL = ["go right", "look", "go right", "go left", "go left", "go left"]
"""Six turns that end in the pit of a corridor with five doors (seed 1)."""
IDLE = ["look", "go right", "wait", "wait", "go right", "wait", "wait", "wait"]
"""Eight turns after which no more than the time limit is left."""


def make(limit: int = 12, env: type[gym.Env[Any, Any]] = Corridor, **arguments: Any) -> PivotRetryWrapper:
    return PivotRetryWrapper(TimeLimit(env(), limit), **arguments)


def play(env: gym.Env[Any, Any], actions: list[str], **reset: Any) -> dict[str, Any]:
    """The last info of an attempt that ends with the last action."""
    if reset:
        env.reset(**reset)
    for number, action in enumerate(actions):
        _, _, terminated, truncated, info = env.step(action)
        assert (terminated or truncated) == (number + 1 == len(actions))
    return info


@pytest.mark.parametrize(
    ("text", "remark", "pivot", "problem"),
    [
        ('{"remark": "left was wrong", "pivot": 3}', "left was wrong", 3, ""),
        ("I see. <remark>left was wrong</remark> <pivot>3</pivot>", "left was wrong", 3, ""),
        ('{"remark": "late", "pivot": 99}', "late", 5, ""),
        ("<remark>early</remark><pivot>-2</pivot>", "early", 0, ""),
        ("<remark>left was wrong</remark>", "", 0, "no_pivot"),
        ("<remark>a</remark><remark>b</remark><pivot>3</pivot>", "", 0, "two_remarks"),
        ("<remark>left was wrong<pivot>3</pivot>", "", 0, "unclosed"),
        ("go back to turn 3", "", 0, "not_json"),
        ('{"remark": "x", "pivot": 3, "pivot": 4}', "", 0, "duplicate_key"),
        ("", "", 0, "empty"),
    ],
)
def test_words_are_read_in_both_forms_and_what_is_malformed_is_counted_by_kind(
    text: str, remark: str, pivot: int, problem: str
) -> None:
    env = make(reflector="policy")
    play(env, FALL, seed=1)
    info = env.reset(options={"reflection": text})[1]
    assert (info["reflection"], info["reflection_pivot"], info["pivot_step"]) == (remark, pivot, pivot)
    assert (info["reflection_source"], info["reflection_text"], info["reflection_problem"]) == ("policy", text, problem)
    assert env.malformed == ({problem: 1} if problem else {})
    assert env.counts["malformed_reflections"] == bool(problem)


def test_a_policy_that_reflects_itself_needs_words_or_a_turn() -> None:
    env = make(reflector="policy")
    play(env, FALL, seed=1)
    with pytest.raises(InputError, match="the policy's words"):
        env.reset(options={"retry": True})
    assert env.reset(options={"retry": 2})[1]["pivot_step"] == 2, "a refused call changes nothing"
    with pytest.raises(InputError, match="Could not build reflectors 'policy'"):
        make(reflector={"name": "policy", "form": "tag"}).reset(seed=1)
    with pytest.raises(InputError, match="a bare reset"):
        make(reflector={"name": "policy"}, auto=True)


def test_a_judge_that_checks_the_policy_s_words_moves_their_pivot_earlier() -> None:
    guided = {"name": "role", "judge": "envs_for_tests:LeftIsRegression", "checks": "policy"}
    env = make(reflector=guided)
    play(env, FALL, seed=1)
    with pytest.raises(InputError, match="the policy's words"):
        env.reset(options={"retry": True})
    late = '{"remark": "the end was wrong", "pivot": 5}'
    info = env.reset(options={"reflection": late})[1]
    assert (info["pivot_step"], info["reflection_pivot"], info["reflection_source"]) == (3, 3, "role")
    assert info["reflection_text"] == late
    assert info["reflection"].startswith('Turn 4, "go left"')
    assert info["reflection"].endswith("the end was wrong")
    play(env, ["go left", "go left", "go left"])
    assert env.reset(options={"reflection": '{"remark": "at once", "pivot": 1}'})[1]["pivot_step"] == 1
    play(env, FALL, seed=1)
    assert env.reset(options={"reflection": late, "retry": 2})[1]["pivot_step"] == 2, "the caller's turn comes first"


def test_words_stand_where_the_judge_of_them_fails() -> None:
    class Guide:
        needs_words = True

        def reflect(self, record: EpisodeRecord) -> Reflection:
            raise AssertionError

        def guide(self, record: EpisodeRecord, found: Reflection) -> Reflection:
            raise RuntimeError("100 %s")

    env = make(reflector=Guide())
    play(env, FALL, seed=1)
    with pytest.warns(UserWarning, match="the words stand"):
        info = env.reset(options={"reflection": '{"remark": "x", "pivot": 2}'})[1]
    assert (info["pivot_step"], info["reflection"], env.counts["failed_reflectors"]) == (2, "x", 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 2.5},
        {"max_attempts": "3"},
        {"max_attempts": True},
        {"max_attempts": None},
        {"snapshot_every": 2.5},
        {"auto": "yes"},
        {"measure_oracle": "no"},
        {"measure_oracle": None},
    ],
)
def test_arguments_of_another_type_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        make(**wrong)


def test_what_a_reset_would_refuse_can_be_refused_before() -> None:
    class NoExpert(StatelessCorridor):
        expert_distance = None  # type: ignore[assignment]

    assert make(reflector="oracle").check_ready()
    assert not make(reflector="random").check_ready()
    for arguments in ({"reflector": "oracle"}, {"measure_oracle": True}, {"verify": "oracle"}):
        with pytest.raises(InputError, match="neither expert_distance"):
            make(env=NoExpert, **arguments).check_ready()
    with pytest.raises(InputError, match="Could not build reflectors"):
        make(reflector={"name": "restart", "x": 1}).check_ready()


def test_a_retry_from_the_start_keeps_the_reflection_and_no_prefix() -> None:
    env = SegmentCreditWrapper(make(reflector="oracle", retry_from="start"), "grpo")
    play(env, FALL, seed=1)
    observation, info = env.reset(options={"retry": True})
    assert observation == Corridor().reset(seed=1)[0]
    assert (info["pivot_step"], info["prefix_length"], info["reflection_pivot"]) == (0, 0, 3)
    assert info["restore_status"] == "verified"
    record = play(env, FALL)["episode_record"]
    assert (record.pivot, record.prefix_length, record.reflection.pivot) == (0, 0, 3)
    assert record.reflection.remark.startswith('Turn 4, "go left"')
    info = env.reset(options={"retry": 4})[1]
    assert (info["pivot_step"], info["reflection_pivot"]) == (0, 4), "whoever names the turn"


def test_turn_facts_reach_the_reflector_and_only_it() -> None:
    def surest(record: EpisodeRecord) -> Reflection:
        return Reflection("", min(range(len(record)), key=lambda k: record.segments[k].info["entropy"]), "mine")

    env = SegmentCreditWrapper(make(reflector=surest), "grpo")
    play(env, FALL, seed=1)
    facts = [{"entropy": e} for e in (0.9, 0.8, 0.5, 0.7, 0.1, 0.2)]
    info = env.reset(options={"retry": True, "turn_facts": facts})[1]
    assert info["pivot_step"] == 4
    record = play(env, ["go left", "go left"])["episode_record"]
    assert all("entropy" not in segment.info for segment in record.segments)


@pytest.mark.parametrize("facts", [{}, {"turn_facts": [{}] * 6}, {"turn_facts": [{"entropy": 1.0}] * 5 + [{}]}])
def test_a_reflector_that_reads_facts_is_not_asked_without_them(facts: dict[str, Any]) -> None:
    env = make(reflector="entropy")
    play(env, FALL, seed=1)
    with pytest.raises(InputError, match=r"'entropy' of each turn.*turn_facts"):
        env.reset(options={"retry": True, **facts})
    assert env.counts["failed_reflectors"] == env.counts["retries"] == 0
    given = [{"entropy": np.float32(doubt)} for doubt in (0.1, 0.5, 0.9, 0.2, 0.1, 0.0)]
    assert env.reset(options={"retry": True, "turn_facts": given})[1]["pivot_step"] == 2, "numbers of numpy are numbers"


@pytest.mark.parametrize(
    "reflector", ["entropy", {"name": "role", "checks": "value"}, {"name": "role", "checks": "policy"}]
)
def test_what_only_options_bring_does_not_go_with_retries_without_options(reflector: Any) -> None:
    with pytest.raises(InputError, match="a bare reset"):
        make(reflector=reflector, auto=True).reset(seed=1)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"retry": True, "turn_facts": [{}] * 5}, "each of the 6 turns"),
        ({"retry": True, "turn_facts": "entropy"}, "one mapping for each turn"),
        ({"retry": True, "turn_facts": [1.0] * 6}, "one mapping for each turn"),
        ({"retry": False, "turn_facts": [{}] * 6}, "with a retry"),
        ({"turn_facts": [{}] * 6}, "with a retry"),
    ],
)
def test_turn_facts_that_do_not_fit_are_refused(options: dict[str, Any], complaint: str) -> None:
    env = make(reflector="restart")
    play(env, FALL, seed=1)
    with pytest.raises(InputError, match=complaint):
        env.reset(options=options)
    assert env.reset(options={"retry": 1, "turn_facts": [{}] * 6})[1]["attempt"] == 1


def test_the_oracle_s_pivot_is_told_beside_any_reflector_s() -> None:
    env = SegmentCreditWrapper(make(reflector="restart", measure_oracle=True), "grpo")
    assert env.reset(seed=1)[1]["oracle_pivot"] == -1
    play(env, FALL)
    info = env.reset(options={"retry": True})[1]
    assert (info["pivot_step"], info["oracle_pivot"]) == (0, 3)
    assert play(env, ["go right", "go left", "go left"])["episode_record"].oracle_pivot == 3
    env.reset(options={"retry": 1})
    assert play(env, ["look", "go left", "go left"])["episode_record"].oracle_pivot == 1, (
        "of the parent, prefix included"
    )

    class NoExpert(StatelessCorridor):
        expert_distance = None  # type: ignore[assignment]

    with pytest.raises(InputError, match="expert_distance"):
        make(env=NoExpert, measure_oracle=True).reset(seed=1)


@pytest.mark.parametrize(("named", "used", "verdict"), [(2, 2, "passed"), (7, 3, "moved"), (0, 0, "passed")])
@pytest.mark.parametrize(
    "verify",
    ["oracle", {"name": "rollouts", "player": "test_retry_reflections:rightward"}, {"name": "rollouts", "k": 1}],
)
@pytest.mark.parametrize("kind", ["native", "replay"])
def test_a_pivot_that_is_too_late_is_moved_earlier(verify: Any, kind: str, named: int, used: int, verdict: str) -> None:
    """Eight turns, five doors: after turn 4, at door 1, no more than four turns are left."""
    corridor = WithExpert if kind == "native" else WithoutState
    env = SegmentCreditWrapper(make(8, corridor, verify=verify, restore=kind), "grpo")
    play(env, IDLE, seed=1)
    observation, info = env.reset(options={"retry": named})
    assert (info["reflection_pivot"], info["pivot_step"], info["pivot_check"]) == (named, used, verdict)
    assert (info["restore_status"], info["restore_strategy"] == "restart") == (
        "verified",
        kind == "replay" and not used,
    )
    straight = TimeLimit(corridor(), 8)
    expected = straight.reset(seed=1)[0]
    for action in IDLE[:used]:
        expected = straight.step(action)[0]
    assert observation == expected, "checks leave no trace"
    record = play(env, IDLE[used:])["episode_record"]
    assert [s.next_observation for s in record.segments[:used]] == [
        s.next_observation for s in record.segments[: record.prefix_length]
    ]
    assert record.reflection.pivot == named
    inner = env.env
    assert isinstance(inner, PivotRetryWrapper)
    assert inner.counts["moved_pivots"] == (verdict == "moved")
    assert (inner.counts["checked_turns"] > 0) == (verify != "oracle")


class WithExpert(Corridor):
    """A corridor whose expert acts too."""

    def expert_action(self) -> str:
        return "go right"


class WithoutState(StatelessCorridor):
    """The same, without a state."""

    def expert_action(self) -> str:
        return "go right"


def rightward(observation: str, info: Mapping[str, Any], rng: Any) -> str:
    """A player of rollouts."""
    return "go right"


def test_a_check_that_nothing_passes_leaves_the_pivot_where_it_was() -> None:
    class Never:
        moves = True
        asked: list[int] = []  # noqa: RUF012

        def passes(self, point: PivotPoint) -> bool:
            self.asked.append(point.pivot)
            point.env.step("go left")
            assert point.again()[0] == point.again()[0]
            point.env.step("go right")
            return False

    env = make(verify=Never())
    play(env, FALL, seed=1)
    straight = TimeLimit(Corridor(), 12)
    straight.reset(seed=1)
    for action in FALL[:5]:
        expected = straight.step(action)[0]
    observation, info = env.reset(options={"retry": 5})
    assert Never.asked == [5, 2, 1, 0]
    assert (info["pivot_step"], info["pivot_check"], observation) == (5, "failed", expected)
    assert env.counts["failed_checks"] == 1
    assert env.step("look") == straight.step("look")


def test_checks_that_cannot_be_made_are_refused() -> None:
    class NoExpert(StatelessCorridor):
        expert_distance = None  # type: ignore[assignment]

    with pytest.raises(InputError, match="no pivot is gone back to"):
        make(verify="oracle", retry_from="start")
    with pytest.raises(InputError, match="checks"):
        make(verify="orakel")
    with pytest.raises(InputError, match='verify="oracle"'):
        make(env=NoExpert, verify="oracle").reset(seed=1)
    with pytest.raises(InputError, match='"pivot" or "start"'):
        make(retry_from="middle")


def test_a_record_tells_its_whole_lineage() -> None:
    env = SegmentCreditWrapper(RoleJudgeWrapper(make(reflector="role"), "envs_for_tests:LeftIsRegression"), "grpo")
    first = play(env, FALL, seed=1)["episode_record"]
    assert (first.group_id, first.trial, first.attempt, first.parent, first.pivot) == ("seed=1", "seed=1/0", 0, -1, -1)
    assert (first.restore_strategy, first.restore_status, first.reflection) == ("none", "none", None)
    env.reset(options={"reflection": '{"remark": "right!", "pivot": 3}'})
    second = play(env, ["go left"] * 3)["episode_record"]
    env.reset(options={"retry": 1, "trial_id": "seed=1/0"})
    third = play(env, ["go left"] * 2)["episode_record"]
    assert [(r.trial, r.attempt, r.parent, r.pivot) for r in (second, third)] == [
        ("seed=1/0", 1, 0, 3),
        ("seed=1/0", 2, 1, 1),
    ]
    words = '{"remark": "right!", "pivot": 3}'
    assert second.reflection == Reflection("right!", 3, "policy", words)
    assert third.reflection == Reflection("", 1, "caller")
    assert (second.restore_strategy, second.restore_status) == ("native", "verified")
    assert second.prefix_mask == (True, True, True, False, False, False)
    for record in (first, second, third):
        again = EpisodeRecord.from_json(record.to_json())
        assert (again, again.trial) == (record, record.trial)
    again = play(env, FALL, seed=1)["episode_record"]
    assert again.trial == "seed=1/1", "another trial of the same group"


def test_trials_are_named_by_the_caller() -> None:
    env = SegmentCreditWrapper(make(auto=True), "grpo")
    for name, told in (("root-7", "root-7"), (7, "7")):
        first = play(env, FALL, seed=1, options={"trial_id": name, "group_id": "g"})["episode_record"]
        assert (first.group_id, first.trial) == ("g", told)
    env.reset(options={"trial_id": 7})
    assert play(env, FALL)["episode_record"].trial == "7", "auto retries, and the name agrees"
    with pytest.raises(GroupError, match="trial '7'"):
        env.reset(options={"retry": True, "trial_id": 8})
    with pytest.raises(InputError, match='"trial_id"'):
        env.reset(seed=1, options={"trial_id": 1.5})
    fresh = play(env, FALL, seed=2, options={"trial_id": 8, "retry": False})["episode_record"]
    assert (fresh.trial, fresh.attempt) == ("8", 0)


def test_without_retries_records_have_trials_too() -> None:
    env = SegmentCreditWrapper(TimeLimit(Corridor(), 12), "grpo")
    names = [play(env, FALL, seed=1)["episode_record"].trial for _ in range(3)]
    assert names == ["seed=1/0", "seed=1/1", "seed=1/2"]
