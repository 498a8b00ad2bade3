"""RoleJudgeWrapper: each label once, when it is final, in every kind of loop; and nothing else is touched."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import gymnasium as gym
import pytest
from envs_for_tests import COMMANDS, Corridor, CrashingCorridor
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

from triage_gym.errors import InputError
from triage_gym.judges.labelling import label_record
from triage_gym.judges.rule import RuleJudge
from triage_gym.protocols import Window
from triage_gym.records import RoleLabel
from triage_gym.wrappers import PivotRetryWrapper, RoleJudgeWrapper, SegmentCreditWrapper

WALK = ["look", "go right", "wait", "look", "go left", "go right", "look", "go right", "wait", "look", "look", "wait"]


class Recording:
    """Labels every step N and remembers its windows."""

    def __init__(self) -> None:
        self.calls: list[list[Window]] = []

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        self.calls.append(list(windows))
        return [RoleLabel(w.step, "N", source="recording") for w in windows]


class Broken:
    """Fails in a way of its choice."""

    def __init__(self, way: str) -> None:
        self.way = way

    def judge(self, windows: Sequence[Window]) -> Any:
        if self.way == "raises":
            raise ConnectionError("no route to the judge")
        if self.way == "none":
            return []
        if self.way == "junk":
            return ["D"] * len(windows)
        return [RoleLabel(w.step + 1, "D") for w in windows]


def play(env: gym.Env[Any, Any], actions: Sequence[Any] = WALK) -> list[tuple[RoleLabel, ...]]:
    """The labels that came with each step."""
    came = []
    for action in actions:
        _, _, terminated, truncated, info = env.step(action)
        came.append(info["role_labels"])
        if terminated or truncated:
            break
    return came


@pytest.mark.parametrize("future", [0, 1, 5, 40])
def test_a_label_comes_once_and_as_soon_as_it_is_final(future: int) -> None:
    env = RoleJudgeWrapper(TimeLimit(Corridor(), 10), Recording(), future=future)
    _, info = env.reset(seed=1)
    assert info["role_labels"] == ()
    came = [[label.step for label in labels] for labels in play(env)]
    assert came[:-1] == [[k - future] if k >= future else [] for k in range(9)]
    assert [step for steps in came for step in steps] == list(range(10))


def test_the_judge_sees_what_a_record_of_the_whole_attempt_shows() -> None:
    judge = Recording()
    env = RoleJudgeWrapper(SegmentCreditWrapper(TimeLimit(Corridor(), 9), "grpo"), judge, past=3, future=2)
    env.reset(seed=1)
    for action in WALK[:9]:
        info = env.step(action)[4]
    whole = Recording()
    label_record(info["episode_record"], whole, 3, 2, ("You are out!", "You fell!"))
    assert [w for call in judge.calls for w in call] == whole.calls[0]
    assert len(judge.calls) == 7, "one window a step, and the rest at the end"


def test_settling_at_the_end_asks_once_and_labels_the_same() -> None:
    window, whole = (RoleJudgeWrapper(TimeLimit(Corridor(), 10), "rule", settle=s) for s in ("window", "episode"))
    for env in (window, whole):
        env.reset(seed=4)
    one, two = play(window), play(whole)
    assert two[:-1] == [()] * 9
    assert list(two[-1]) == [label for labels in one for label in labels]
    judge = Recording()
    env = RoleJudgeWrapper(TimeLimit(Corridor(), 10), judge, settle="episode")
    env.reset(seed=4)
    play(env)
    assert [len(call) for call in judge.calls] == [10]


def test_the_outcome_is_hidden_and_rewards_and_infos_are_untouched() -> None:
    judge = Recording()
    env, bare = RoleJudgeWrapper(TimeLimit(Corridor(), 10), judge), TimeLimit(Corridor(), 10)
    env.reset(seed=1, options={"task_id": "corridor-3"})
    bare.reset(seed=1, options={"task_id": "corridor-3"})
    for _ in range(3):
        *rest, info = env.step("go right")
        *expected, bare_info = bare.step("go right")
        assert rest == expected
        assert {k: v for k, v in info.items() if k != "role_labels"} == bare_info
    assert info["success"] is True
    shown = str(judge.calls)
    assert "You are out!" not in shown
    assert "success" not in shown
    # The noise stays, and nothing in place of the outcome tells that there was one.
    assert judge.calls[-1][-1].next_observation == rest[0].replace(" You are out!", "")


def test_no_earlier_info_changes() -> None:
    env = RoleJudgeWrapper(TimeLimit(Corridor(), 10))
    infos = [env.reset(seed=1)[1]]
    kept = [deepcopy(infos[0])]
    for action in WALK[:10]:
        infos.append(env.step(action)[4])
        kept.append(deepcopy(infos[-1]))
    assert data_equivalence(infos, kept, exact=True)


@pytest.mark.parametrize("way", ["raises", "none", "junk", "elsewhere"])
def test_a_judge_that_fails_gives_failed_labels(way: str) -> None:
    env = RoleJudgeWrapper(TimeLimit(Corridor(), 10), Broken(way))
    env.reset(seed=1)
    labels = [label for labels in play(env) for label in labels]
    assert [label.step for label in labels] == list(range(10))
    assert {(label.role, label.status) for label in labels} == {(None, "failed")}
    assert all(label.why for label in labels)


def test_a_reset_in_the_middle_drops_the_unsettled() -> None:
    env = RoleJudgeWrapper(TimeLimit(Corridor(), 10), Recording())
    env.reset(seed=1)
    play(env, WALK[:7])
    _, info = env.reset(seed=2)
    assert info["role_labels"] == ()
    assert [[x.step for x in labels] for labels in play(env, WALK[:6])] == [[], [], [], [], [], [0]]


def test_flush_hands_out_the_rest_once() -> None:
    env = TimeLimit(RoleJudgeWrapper(TimeLimit(Corridor(), 50), Recording()), 7)
    env.reset(seed=1)
    came = play(env, WALK[:7])
    judge = env.env
    assert isinstance(judge, RoleJudgeWrapper)
    assert [x.step for labels in came for x in labels] == [0, 1]
    assert [x.step for x in judge.flush()] == [2, 3, 4, 5, 6]
    assert judge.flush() == ()
    _, _, _, _, info = judge.step("look")
    assert info["role_labels"] == ()
    assert [x.step for x in judge.flush()] == [7]


def test_without_a_time_limit_inside_it_warns_once() -> None:
    with pytest.warns(UserWarning, match="no time limit inside"):
        env = RoleJudgeWrapper(Corridor())
    # Warnings are errors here, so a second one would show itself.
    env.reset(seed=1)
    play(env)


def test_bad_arguments_and_calls_out_of_order() -> None:
    env = TimeLimit(Corridor(), 10)
    with pytest.raises(InputError, match="at least 0"):
        RoleJudgeWrapper(env, past=-1)
    with pytest.raises(InputError, match="settle"):
        RoleJudgeWrapper(env, settle="later")  # type: ignore[arg-type]
    judged = RoleJudgeWrapper(env)
    with pytest.raises(gym.error.ResetNeeded):
        judged.step("look")
    judged.reset(seed=1)
    play(judged, ["go left"])
    with pytest.raises(gym.error.ResetNeeded):
        judged.step("look")


def test_an_environment_that_raises_may_be_reset() -> None:
    env = RoleJudgeWrapper(TimeLimit(CrashingCorridor(crash_at=3), 10))
    env.reset(seed=1)
    with pytest.raises(RuntimeError, match="collapsed"):
        play(env, WALK)
    env.reset(seed=1)
    assert play(env, WALK[:2]) == [(), ()]


def test_a_prefix_is_judged_once_and_seen_again() -> None:
    judge = Recording()
    env = RoleJudgeWrapper(PivotRetryWrapper(TimeLimit(Corridor(), 10)), judge, future=2)
    env.reset(seed=1)
    play(env)
    judge.calls.clear()
    env.reset(options={"retry": 6})
    came = [x.step for labels in play(env, ["wait"] * 9) for x in labels]
    assert came == [6, 7, 8, 9]
    first = judge.calls[0][0]
    assert [p.action for p in first.past] == WALK[1:6], "the prefix is the past of the first new turn"
    assert first.action == "wait"


def make() -> gym.Env[Any, Any]:
    return RoleJudgeWrapper(TimeLimit(Corridor(), 10), RuleJudge(), future=3)


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_labels_arrive_exactly_once_in_vectors(kind: str, mode: AutoresetMode) -> None:
    """Three members that end at different turns, over several episodes each."""
    fns = [make] * 3
    vector: Any = (
        SyncVectorEnv(fns, autoreset_mode=mode)
        if kind == "sync"
        else AsyncVectorEnv(fns, shared_memory=False, autoreset_mode=mode)
    )
    seen: list[list[list[int]]] = [[[]] for _ in range(3)]
    lengths: list[list[int]] = [[0] for _ in range(3)]
    try:
        _, infos = vector.reset(seed=5)
        ended = [False] * 3
        for turn in range(45):
            actions = tuple(COMMANDS[(turn * 7 + 3 * i + turn // 4) % 4] for i in range(3))
            _, _, terminated, truncated, infos = vector.step(actions)
            for i in range(3):
                done = bool(terminated[i] or truncated[i])
                final = mode is AutoresetMode.SAME_STEP and done
                source = infos["final_info"] if final else infos
                labels = source["role_labels"][i]
                skipped = mode is AutoresetMode.NEXT_STEP and ended[i]
                if skipped:
                    assert labels == (), "the step after the end is a reset"
                else:
                    seen[i][-1] += [label.step for label in labels]
                    lengths[i][-1] += 1
                if final:
                    assert infos["role_labels"][i] == (), "the info of the reset begins empty"
                if done:
                    seen[i].append([])
                    lengths[i].append(0)
                ended[i] = done
    finally:
        vector.close()
    assert sum(len(episodes) for episodes in seen) > 9
    for i in range(3):
        for steps, length in zip(seen[i][:-1], lengths[i][:-1], strict=True):
            assert steps == list(range(length))
