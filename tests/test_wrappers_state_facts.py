"""StateFactsWrapper: facts in every step's info, through retries and wrappers, and nothing else touched."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium as gym
import pytest
from envs_for_tests import Corridor, StatelessCorridor
from gymnasium.wrappers import TimeLimit

from triage_gym.envs.alfworld.env import ALFWorldEnv
from triage_gym.envs.sokoban.env import SokobanEnv
from triage_gym.errors import InputError
from triage_gym.judges.labelling import label_records
from triage_gym.judges.oracle import OracleJudge
from triage_gym.spaces import UnicodeText
from triage_gym.testing import EnvContract, check_wrapper
from triage_gym.windows import build_windows
from triage_gym.wrappers import (
    HistoryWrapper,
    PivotRetryWrapper,
    RoleJudgeWrapper,
    SegmentCreditWrapper,
    StateFactsWrapper,
)


class Told(Corridor):
    """A corridor that says where one stands and which doors were seen."""

    def task_state(self) -> dict[str, Any]:
        return {"position": self.position}

    def belief(self) -> list[int]:
        return [*range(self.furthest + 1)]


def test_facts_stand_in_the_info_of_each_step_and_in_windows() -> None:
    env = SegmentCreditWrapper(StateFactsWrapper(TimeLimit(Told(), 5)), credit="grpo", group_size=1)
    _, info = env.reset(seed=1)
    assert "state_facts" not in info
    exit_ = env.unwrapped.exit
    told = []
    for action in ("go right", "wait", "go left", "go right", "look"):
        *_, info = env.step(action)
        told.append(info["state_facts"])
    assert told == [
        {"changed": True, "learnt": True, "before": exit_, "after": exit_ - 1},
        {"changed": False, "learnt": False, "before": exit_ - 1, "after": exit_ - 1},
        {"changed": True, "learnt": False, "before": exit_ - 1, "after": exit_},
        {"changed": True, "learnt": False, "before": exit_, "after": exit_ - 1},
        {"changed": False, "learnt": False, "before": exit_ - 1, "after": exit_ - 1},
    ]
    windows = build_windows(info["episode_record"])
    assert [window.facts._asdict() for window in windows] == told
    assert json.loads(json.dumps(told)) == told


def test_other_wrappers_may_stand_between() -> None:
    env = HistoryWrapper(StateFactsWrapper(HistoryWrapper(TimeLimit(Told(), 5), 2)), 2)
    env.reset(seed=1)
    *_, info = env.step("go right")
    assert info["state_facts"]["changed"]
    assert info["state_facts"]["learnt"]


def test_an_environment_that_says_nothing_of_itself_has_novelty_alone() -> None:
    class Silent(StatelessCorridor):
        expert_distance = None  # type: ignore[assignment]

    with pytest.raises(InputError, match="expert"):
        StateFactsWrapper(Silent())
    env = StateFactsWrapper(Silent(), facts=["changed", "learnt"])
    env.reset(seed=1)
    *_, info = env.step("look")
    assert info["state_facts"] == {"changed": None, "learnt": True, "before": None, "after": None}


def test_a_retry_is_measured_from_its_pivot_on() -> None:
    env = StateFactsWrapper(PivotRetryWrapper(TimeLimit(Told(rooms=1), 3), {"name": "random", "seed": 0}))
    env.reset(seed=0)
    first = []
    for action in ("go right", "go right", "wait"):
        *_, info = env.step(action)
        first.append(info["state_facts"])
    _, info = env.reset(options={"retry": True})
    prefix = info["prefix_length"]
    assert prefix in (0, 1, 2)
    *_, info = env.step("go right")
    position = env.unwrapped.position
    assert position == prefix + 1
    assert info["state_facts"] == first[prefix] if prefix < 2 else info["state_facts"]["learnt"]


@pytest.mark.parametrize("pivot", [0, 1, 2, 3])
def test_after_a_retry_the_prefix_is_known_and_what_came_after_it_is_not(pivot: int) -> None:
    class At:
        def reflect(self, record: Any) -> int:
            return pivot

    retrying = PivotRetryWrapper(TimeLimit(ALFWorldEnv(), 5), lambda record: pivot)
    env = StateFactsWrapper(retrying, facts=["changed", "learnt"])
    _, info = env.reset(seed=3)
    walks = [command for command in info["admissible_commands"] if command.startswith("go to ")][:5]
    for walk in walks:
        *_, info = env.step(walk)
        assert info["state_facts"]["learnt"]
    _, info = env.reset(options={"retry": True})
    assert info["prefix_length"] == pivot
    for number, walk in enumerate(reversed(walks[:4])):
        if number == 5 - pivot:
            break
        *_, info = env.step(walk)
        assert info["state_facts"]["learnt"] == (3 - number >= pivot)


def test_it_gives_what_the_role_judge_wrapper_measures_by_itself() -> None:
    def played(env: gym.Env[Any, Any]) -> Any:
        env.reset(seed=5)
        ended, turn = False, 0
        while not ended:
            action = env.unwrapped.expert_action() if turn % 3 else "left, up"
            *_, terminated, truncated, info = env.step(action or "up")
            ended, turn = terminated or truncated, turn + 1
        return info

    (live,) = [played(RoleJudgeWrapper(SokobanEnv(), "oracle", settle="episode"))["role_labels"]]
    for known in (["changed"], ["distance"], ["changed", "learnt", "distance"]):
        beside = RoleJudgeWrapper(StateFactsWrapper(SokobanEnv(), known), "oracle", settle="episode")  # type: ignore[arg-type]
        assert played(beside)["role_labels"] == live
    record = played(SegmentCreditWrapper(StateFactsWrapper(SokobanEnv()), credit="grpo", group_size=1))[
        "episode_record"
    ]
    (labelled,) = label_records([record], OracleJudge())
    assert list(labelled.labels) == list(live)
    assert {label.status for label in live} == {"judged"}


def test_the_wrapper_keeps_the_conventions() -> None:
    check_wrapper(lambda: StateFactsWrapper(TimeLimit(Told(), 12)))


class TestContract(EnvContract):
    """Facts around an environment leave its contract whole; what they say keeps its types."""

    seeds = (0, 1)

    def make_env(self) -> gym.Env[Any, Any]:
        return StateFactsWrapper(Told())

    def make_split(self, split: str) -> gym.Env[Any, Any]:
        raise AssertionError("a corridor has no splits")


class Ended(gym.Env[str, str]):
    """Three steps to the goal, with an expert that names actions alone and nobody to ask after the end."""

    observation_space = UnicodeText()
    action_space = UnicodeText()
    metadata: ClassVar[dict[str, Any]] = {"domain": "ended"}  # type: ignore[misc]
    strict = True
    """Whether a step after the end is refused."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return "at 0", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.strict and self.place in (-1, 3):
            raise gym.error.ResetNeeded("the episode is over")
        self.place += 1 if action == "go" else -1
        return f"at {self.place}", float(self.place == 3), self.place in (-1, 3), False, {}

    def expert_action(self) -> str:
        return "go"

    def get_state(self) -> dict[str, Any]:
        return {"place": self.place}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self.place = int(state["place"])


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(("actions", "last"), [(["go", "go", "go"], ("D", 1, 0)), (["back"], ("R", 3, -1))])
@pytest.mark.filterwarnings("ignore:.*reads s.* from the total reward")
def test_the_last_turn_has_the_distance_of_its_end(
    strict: bool, actions: list[str], last: tuple[str, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment ended there: whether its expert would walk on does not matter."""
    monkeypatch.setattr(Ended, "strict", strict)
    env = SegmentCreditWrapper(StateFactsWrapper(TimeLimit(Ended(), 5)), credit="grpo", group_size=1)
    live = RoleJudgeWrapper(TimeLimit(Ended(), 5), OracleJudge(), settle="episode")
    env.reset(seed=1)
    live.reset(seed=1)
    for action in actions:
        *_, info = env.step(action)
        *_, told = live.step(action)
    facts = info["state_facts"]
    assert (facts["before"], facts["after"]) == last[1:]
    assert OracleJudge().judge(build_windows(info["episode_record"]))[-1].role == last[0]
    assert told["role_labels"][-1].role == last[0]
