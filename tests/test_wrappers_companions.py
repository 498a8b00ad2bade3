"""AdmissibleActionWrapper and HistoryWrapper: numbers for commands, prompts for observations."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from envs_for_tests import COMMANDS, Corridor
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from hypothesis import given
from hypothesis import strategies as st

from triage_gym.errors import InputError
from triage_gym.wrappers import AdmissibleActionWrapper, HistoryWrapper, PivotRetryWrapper, RoleJudgeWrapper


class Changing(Corridor):
    """One command more each turn."""

    def step(self, action: str) -> Any:
        *rest, info = super().step(action)
        info["admissible_commands"] += [f"wait {i}" for i in range(self.furthest)]
        return (*rest, info)


def test_an_index_is_a_command_of_the_last_info() -> None:
    env, text = AdmissibleActionWrapper(Changing(), 6), Changing()
    env.reset(seed=1)
    text.reset(seed=1)
    for index in (1, np.int64(1), np.array(2), np.int32(0)):
        command = env.command(index)
        assert command == COMMANDS[int(index)]
        *one, info = env.step(index)
        *two, bare = text.step(command)
        assert one == two
        assert {k: v for k, v in info.items() if k != "action_mask"} == bare


def test_masks_come_in_both_fashions_and_are_new() -> None:
    env = AdmissibleActionWrapper(Changing(), 6)
    masks = [env.reset(seed=1)[1]["action_mask"]]
    for _ in range(2):
        masks.append(env.step(1)[4]["action_mask"])
        found = env.get_wrapper_attr("action_masks")()
        assert found.dtype == np.bool_
        assert found.tolist() == masks[-1].astype(bool).tolist()
    assert [m.tolist() for m in masks] == [[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]
    assert masks[0].dtype == np.int8
    env.action_space.seed(1)
    assert all(env.action_space.sample(mask=masks[0]) < 4 for _ in range(30))


def test_what_stands_for_no_command_is_an_error() -> None:
    env = AdmissibleActionWrapper(Changing(), 6)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)
    env.reset(seed=1)
    for action in (-1, 6, np.int64(99)):
        with pytest.raises(InputError, match=r"in \[0, 5\].*one of the 4 "):
            env.step(action)
    for junk in ("look", 1.0, None, True, np.array([1, 2])):
        with pytest.raises(InputError, match="whole number"):
            env.step(junk)
    env.step(1)
    env.step(1)
    with pytest.raises(InputError, match="max_actions=7 or more"):
        env.step(1)
    with pytest.raises(InputError, match="admissible_commands"):
        AdmissibleActionWrapper(gym.make("CartPole-v1"), 2).reset(seed=1)
    with pytest.raises(InputError, match="at least 1"):
        AdmissibleActionWrapper(Corridor(), 0)
    with pytest.raises(InputError, match="to be text"):
        AdmissibleActionWrapper(Corridor(), 4, invalid_command=7)  # type: ignore[arg-type]


def test_an_index_of_the_space_without_a_command_is_an_invalid_action_and_no_other_command() -> None:
    """Gymnasium lets every action of the space be taken; unmasked samplers, check_env among them, rely on it."""
    env, text = AdmissibleActionWrapper(Changing(), 6, invalid_command="nothing of the kind"), Changing()
    env.reset(seed=1)
    text.reset(seed=1)
    for index in (5, np.int64(4)):
        *one, info = env.step(index)
        *two, bare = text.step("nothing of the kind")
        assert one == two
        assert info["invalid_action"] is True
        assert info["admissible_commands"] == bare["admissible_commands"]


def test_masks_are_found_through_a_vector() -> None:
    vector = SyncVectorEnv([lambda: AdmissibleActionWrapper(TimeLimit(Corridor(), 9), 5)] * 2)
    vector.reset(seed=1)
    vector.step(np.array([0, 2]))
    assert [m.tolist() for m in vector.call("action_masks")] == [[True] * 4 + [False]] * 2
    vector.close()


def test_a_prompt_is_task_and_last_turns() -> None:
    env = HistoryWrapper(Corridor(), turns=2)
    prompt, info = env.reset(seed=1)
    start = "A corridor with 5 doors. You hear 511 drips."
    assert prompt == f"Task: {info['task']}\n\n{start}"
    prompt = env.step("look")[0]
    look = "> look\nYou see door 0, and 0 behind you. You hear 755 drips."
    assert prompt == f"Task: {info['task']}\n\n{start}\n\n{look}"
    env.step("go right")
    prompt = env.step("wait")[0]
    assert start not in prompt
    assert look not in prompt
    assert prompt.endswith("drips.")
    assert prompt.count("\n> ") == 2


def test_without_a_task_the_first_observation_is_the_task() -> None:
    class Untold(Corridor):
        def reset(self, **arguments: Any) -> Any:
            observation, info = super().reset(**arguments)
            del info["task"]
            return observation, info

    env = HistoryWrapper(Untold(), turns=1)
    env.reset(seed=1)
    env.step("look")
    assert env.step("look")[0].startswith("Task: A corridor with 5 doors.")


def test_a_remark_and_the_prefix_are_shown_in_a_retry() -> None:
    env = HistoryWrapper(PivotRetryWrapper(TimeLimit(Corridor(), 9)), turns=10)
    env.reset(seed=1)
    for action in ("look", "go right", "go left", "go left"):
        prompt = env.step(action)[0]
    before = prompt[: prompt.index("\n\n> go left")]
    prompt, _ = env.reset(options={"reflection": '{"remark": "go on to the right", "pivot": 2}'})
    head, _, rest = before.partition("\n")
    assert prompt == f"{head}\nRemark on attempt 1: go on to the right\n{rest}"
    assert "Remark" in env.step("go right")[0]
    assert "Remark" not in env.reset(seed=1)[0]


def failing(**arguments: Any) -> HistoryWrapper:
    """A trial whose first two attempts have failed, with a remark on each."""
    env = HistoryWrapper(PivotRetryWrapper(TimeLimit(Corridor(), 9)), **arguments)
    env.reset(seed=1)
    env.step("go left")
    for remark in ("right is better", "I said: right"):
        env.reset(options={"reflection": json.dumps({"remark": remark, "pivot": 0})})
        if remark == "right is better":
            env.step("go left")
    return env


def test_the_remarks_of_a_whole_trial_are_shown_or_the_last_or_none() -> None:
    both = ["Remark on attempt 1: right is better", "Remark on attempt 2: I said: right"]
    for arguments, expected in (({}, both), ({"remarks": "last"}, both[1:]), ({"show_remark": False}, [])):
        env = failing(**arguments)
        prompt = env.step("look")[0]
        assert [line for line in prompt.splitlines() if line.startswith("Remark")] == expected
        assert "Remark" not in env.reset(seed=1)[0], "a fresh trial begins without"
    with pytest.raises(InputError, match='"all" or "last"'):
        failing(remarks="first")


def test_the_oldest_remark_yields_first() -> None:
    env = failing(max_characters=180)
    remarks = [line for line in env.step("look")[0].splitlines() if line.startswith("Remark")]
    assert remarks == ["Remark on attempt 2: I said: right"]


@given(
    st.lists(st.text(max_size=200), min_size=1, max_size=8),
    st.integers(1, 6),
    st.integers(80, 400),
    st.text(max_size=300),
)
def test_a_prompt_keeps_its_budget_and_ends_with_the_newest(texts: list[str], turns: int, room: int, task: str) -> None:
    class Echo(Corridor):
        def reset(self, **arguments: Any) -> Any:
            return texts[0], {"task": task}

        def step(self, action: str) -> Any:
            return action, 0.0, False, False, {}

    env = HistoryWrapper(Echo(), turns, room)
    prompt, _ = env.reset()
    prompts = [prompt, *(env.step(text)[0] for text in texts[1:])]
    for number, shown in enumerate(prompts):
        assert shown in env.observation_space
        assert len(shown) <= room
        assert shown.startswith(f"Task: {task}"[: room // 2 - 1])
        assert shown.endswith((texts[number], "…"))


def test_a_long_action_does_not_push_its_answer_out() -> None:
    env = HistoryWrapper(Corridor(), max_characters=300)
    env.reset(seed=1)
    prompt = env.step("x" * 100_000)[0]
    assert len(prompt) == 300
    assert prompt.endswith("x…\nNothing happens. You hear 755 drips.")
    short = HistoryWrapper(Corridor(), max_characters=80)
    short.reset(seed=1)
    assert "x…\nNothing" in short.step("x" * 100_000)[0]


def test_facts_of_a_retry_are_not_taken_from_others() -> None:
    class Own(Corridor):
        def reset(self, **arguments: Any) -> Any:
            observation, info = super().reset(**arguments)
            return observation, {**info, "prefix_length": 3, "reflection": "in a mirror"}

    assert "Remark" not in HistoryWrapper(Own()).reset(seed=1)[0]


def test_inside_a_retry_they_come_back_with_the_point() -> None:
    env = PivotRetryWrapper(
        HistoryWrapper(AdmissibleActionWrapper(TimeLimit(Changing(), 30), 20), turns=3), snapshot_every=2
    )
    env.reset(seed=1)
    answers = [env.step(a) for a in (1, 1, 2, 0, 3, 0, 0)]
    assert answers[-1][2]
    observation, info = env.reset(options={"retry": 5})
    assert info["restore_strategy"] == "native"
    assert observation == answers[4][0]
    assert env.env.get_wrapper_attr("action_masks")().sum() == 6
    assert env.step(0)[0] == answers[5][0]


def test_the_environment_s_own_state_is_found_through_them() -> None:
    env = HistoryWrapper(AdmissibleActionWrapper(RoleJudgeWrapper(TimeLimit(Corridor(), 9))))
    env.reset(seed=1)
    assert env.get_wrapper_attr("get_state")() == env.unwrapped.get_state()  # type: ignore[attr-defined]


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="at least 1 turn"):
        HistoryWrapper(Corridor(), 0)
    with pytest.raises(InputError, match="at least 80"):
        HistoryWrapper(Corridor(), 1, 79)
