"""Every exported wrapper keeps the conventions of Gymnasium 1.4, alone and in the whole stack; the kit finds who does not."""

from __future__ import annotations

import threading
import unittest
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import gymnasium as gym
import pytest
from envs_for_tests import (
    Corridor,
    HastyJudgeWrapper,
    HiddenRNGCorridor,
    LyingCorridor,
    StatelessCorridor,
    UnseededCorridor,
    register_envs,
)
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import TimeLimit

from triage_gym import wrappers
from triage_gym.errors import InputError
from triage_gym.judges.rule import RuleJudge
from triage_gym.testing import EnvContract, check_wrapper
from triage_gym.wrappers import (
    AdmissibleActionWrapper,
    HistoryWrapper,
    PivotRetryWrapper,
    RoleJudgeWrapper,
    SegmentCreditWrapper,
    StateFactsWrapper,
)

register_envs()
Make = Callable[[], gym.Env[Any, Any]]


def corridor() -> gym.Env[Any, Any]:
    return gym.make("test/Corridor-v0")


def three() -> gym.Env[Any, Any]:
    # Groups that never fill: when one does, the info of a seed differs from the time before, which is what it is for.
    return SegmentCreditWrapper(RoleJudgeWrapper(PivotRetryWrapper(corridor(), "role", auto=True)), group_size=1000)


STACKS: dict[str, Make] = {
    "RoleJudgeWrapper": lambda: RoleJudgeWrapper(corridor(), {"name": "rule", "domain": "generic"}, 3, 2),
    "RoleJudgeWrapper, episode": lambda: RoleJudgeWrapper(corridor(), settle="episode"),
    "PivotRetryWrapper": lambda: PivotRetryWrapper(corridor(), "role", auto=True),
    "PivotRetryWrapper, copy": lambda: PivotRetryWrapper(corridor(), {"name": "random", "seed": 3}, 2, restore="copy"),
    "SegmentCreditWrapper": lambda: SegmentCreditWrapper(corridor(), "grpo+whiten", group_size=1000),
    "SegmentCreditWrapper, reward": lambda: SegmentCreditWrapper(
        RoleJudgeWrapper(corridor()), {"name": "triage", "lam": 0.4}, as_reward=True
    ),
    "AdmissibleActionWrapper": lambda: AdmissibleActionWrapper(corridor(), 4),
    "HistoryWrapper": lambda: HistoryWrapper(corridor(), 3, 300),
    "StateFactsWrapper": lambda: StateFactsWrapper(corridor(), ["learnt", "distance"]),
    "whole": lambda: AdmissibleActionWrapper(HistoryWrapper(three()), 4),
}


@pytest.mark.parametrize("name", sorted(STACKS))
def test_wrapper_keeps_the_conventions(name: str) -> None:
    check_wrapper(STACKS[name])


def test_every_exported_wrapper_is_checked() -> None:
    exported = [n for n in wrappers.__all__ if issubclass(getattr(wrappers, n), gym.Wrapper)]
    assert exported == sorted({name.partition(",")[0] for name in STACKS} - {"whole"})


class TestCorridor(EnvContract):
    def make_env(self) -> gym.Env[Any, Any]:
        return Corridor()


class TestStatelessCorridor(EnvContract):
    def make_env(self) -> gym.Env[Any, Any]:
        return StatelessCorridor()


class NamelessCorridor(Corridor):
    """Its tasks have neither ids nor types, and one text tells its outcome."""

    metadata = {**Corridor.metadata, "outcome_text": "You are out!"}  # noqa: RUF012
    names: tuple[str, ...] = ()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        return observation, {k: v for k, v in info.items() if k not in ("task_id", "task_type") or k in self.names}


class TestNamelessCorridor(EnvContract):
    def make_env(self) -> gym.Env[Any, Any]:
        return NamelessCorridor()

    def test_a_task_can_be_chosen_by_its_id(self) -> None:
        with pytest.raises(unittest.SkipTest, match="task_id"):
            super().test_a_task_can_be_chosen_by_its_id()


class TestCorridorWithIdsOnly(EnvContract):
    def make_env(self) -> gym.Env[Any, Any]:
        env = NamelessCorridor()
        env.names = ("task_id",)
        return env


class TasklessCorridor(Corridor):
    """States no instruction, and declares a list of what tells the outcome."""

    metadata = {**Corridor.metadata, "outcome_text": ["You are out!"]}  # noqa: RUF012

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        del info["task"]
        return observation, info


class NumberedCorridor(Corridor):
    """The id of a task is no text, and an empty text tells the outcome."""

    metadata = {**Corridor.metadata, "outcome_text": ""}  # noqa: RUF012

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        return observation, {**info, "task_id": self.exit}


class MoodyCorridor(Corridor):
    """Names a task now and then, and goes where it likes when one is chosen."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        observation, info = super().reset(seed=seed)
        if seed == 1:
            del info["task_type"]
        return observation, info


@pytest.mark.parametrize(
    ("env", "promise"),
    [
        (TasklessCorridor, "test_infos_say_what_they_must"),
        (TasklessCorridor, "test_metadata_names_the_domain_and_what_tells_the_outcome"),
        (NumberedCorridor, "test_infos_say_what_they_must"),
        (NumberedCorridor, "test_metadata_names_the_domain_and_what_tells_the_outcome"),
        (MoodyCorridor, "test_infos_say_what_they_must"),
        (MoodyCorridor, "test_a_task_can_be_chosen_by_its_id"),
        (UnseededCorridor, "test_same_seed_same_episode"),
        (UnseededCorridor, "test_resets_without_a_seed_follow_from_the_seed"),
        (HiddenRNGCorridor, "test_same_seed_same_episode"),
        (HiddenRNGCorridor, "test_every_turn_can_be_restored"),
        (LyingCorridor, "test_every_turn_can_be_restored"),
        (LyingCorridor, "test_the_state_goes_through_json_into_another_instance"),
        (LyingCorridor, "test_a_foreign_state_is_refused"),
    ],
)
def test_the_contract_finds_who_breaks_it(env: type[gym.Env[Any, Any]], promise: str) -> None:
    class Contract(EnvContract):
        def make_env(self) -> gym.Env[Any, Any]:
            return env()

    with pytest.raises(AssertionError):
        getattr(Contract(), promise)()


class Forgetful(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Records not all of its arguments."""

    def __init__(self, env: gym.Env[Any, Any], window: int = 1) -> None:
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)


class Drawing(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Draws from the environment's generator."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        self.np_random.integers(3)
        return result


class Sharing(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Hands out the same list each time."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        self.live: list[int] = []

    def step(self, action: Any) -> Any:
        *rest, info = self.env.step(action)
        return (*rest, {**info, "live": self.live})


@pytest.mark.parametrize(
    ("wrapper", "complaint"), [(Forgetful, "records"), (Drawing, "draws from"), (Sharing, "share a container")]
)
def test_the_check_finds_who_breaks_it(wrapper: Any, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_wrapper(lambda: wrapper(TimeLimit(Corridor(), 12)), vector=False)


class Locked:
    """A judge with a client that can be neither copied nor pickled."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def judge(self, windows: Any) -> Any:
        with self.lock:
            return RuleJudge().judge(windows)


def test_a_live_judge_is_shared_never_copied_and_its_spec_has_no_json() -> None:
    judge = Locked()
    env = SegmentCreditWrapper(RoleJudgeWrapper(PivotRetryWrapper(corridor(), lambda record: 1), judge))
    env.reset(seed=1)
    twin = deepcopy(env)
    assert twin.env._judge.get() is judge
    assert env.spec is not None
    again = gym.make(env.spec)
    assert again.get_wrapper_attr("_judge").get() is judge
    with pytest.raises(TypeError, match="not JSON serializable"):
        env.spec.to_json()


def test_a_subclass_that_records_its_own_arguments_is_made_again() -> None:
    check_wrapper(lambda: HastyJudgeWrapper(corridor(), 2), vector=False)
    env = HastyJudgeWrapper(corridor(), haste=2)
    assert env.spec is not None
    assert env.spec.additional_wrappers[-1].kwargs == {"haste": 2}


@pytest.mark.parametrize("mode", ["ansi", "ansi_list"])
def test_rendering_passes_through_and_its_frames_come_back_with_a_retry(mode: str) -> None:
    env = SegmentCreditWrapper(PivotRetryWrapper(gym.make("test/Corridor-v0", render_mode=mode)), "grpo")
    assert env.render_mode == mode
    env.reset(seed=1)
    for action in ("go right", "go right", "go left", "go left", "go left"):
        env.step(action)
    env.reset(options={"retry": 2})
    assert env.render() == ("..@" if mode == "ansi" else ["@", ".@", "..@"])


def test_plug_ins_are_named_early_and_resolved_late() -> None:
    with pytest.raises(InputError, match="did you mean 'rule'"):
        RoleJudgeWrapper(corridor(), "ruel")
    with pytest.raises(InputError, match="did you mean"):
        PivotRetryWrapper(corridor(), "roles")
    with pytest.raises(InputError, match="an object with a judge method"):
        RoleJudgeWrapper(corridor(), RuleJudge)  # type: ignore[arg-type]
    env = RoleJudgeWrapper(corridor(), "no_such_module:Judge")
    with pytest.raises(InputError, match="No module named 'no_such_module'"):
        env.reset(seed=1)
    env = RoleJudgeWrapper(corridor(), {"name": "rule", "domian": "generic"})
    with pytest.raises(InputError, match="domian"):
        env.reset(seed=1)


def test_additional_wrappers_of_a_registration_are_applied_outside_the_time_limit() -> None:
    gym.register(
        "test/Wrapped-v0",
        "envs_for_tests:Corridor",
        max_episode_steps=5,
        additional_wrappers=(PivotRetryWrapper.wrapper_spec(auto=True), RoleJudgeWrapper.wrapper_spec(future=2)),
    )
    env = gym.make("test/Wrapped-v0")
    assert str(env).startswith("<RoleJudgeWrapper<PivotRetryWrapper<TimeLimit")
    for vectorization in ("sync", "async"):
        vector = gym.make_vec(
            "test/Wrapped-v0",
            2,
            vectorization,
            vector_kwargs={} if vectorization == "sync" else {"shared_memory": False},
        )
        vector.reset(seed=1)
        assert vector.step(("look", "look"))[4]["role_labels"].tolist() == [(), ()]
        vector.close()
