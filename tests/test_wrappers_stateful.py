"""The whole stack against a model that replays from the start, under any order of calls, lawful and not."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import gymnasium as gym
import pytest
from envs_for_tests import Corridor, StatelessCorridor
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from triage_gym.records import EpisodeRecord
from triage_gym.testing.play import shares_containers
from triage_gym.wrappers import PivotRetryWrapper, RoleJudgeWrapper, SegmentCreditWrapper

LIMIT, FUTURE, ATTEMPTS, PIT = 9, 2, 3, -4
JUDGE = "envs_for_tests:LeftIsRegression"
ACTIONS = st.sampled_from(["go right", "go left", "look", "wait", "dance"])


class Machine(RuleBasedStateMachine):
    """Every answer of the stack is held against a plain environment that walks the attempt from its start."""

    def __init__(self) -> None:
        super().__init__()
        self.alive = self.ended = self.success = False
        self.actions: list[str] = []
        self.number = self.prefix = 0
        self.labels: list[int] = []
        self.infos: list[Any] = []
        self.kept: list[Any] = []
        self.records: list[EpisodeRecord] = []
        self.rng: Any = None
        self.seed: int | None = None

    @initialize(every=st.integers(1, 5), strategy=st.sampled_from(["auto", "copy", "replay"]), stated=st.booleans())
    def build(self, every: int, strategy: Any, stated: bool) -> None:
        cls = Corridor if stated else StatelessCorridor
        inner = RecordEpisodeStatistics(TimeLimit(cls(pit=PIT), LIMIT), stats_key="whole")
        reflector = {"name": "role", "judge": JUDGE}
        retry = PivotRetryWrapper(inner, reflector, ATTEMPTS, restore=strategy, snapshot_every=every)
        self.env = SegmentCreditWrapper(RoleJudgeWrapper(retry, JUDGE, future=FUTURE))
        self.model = TimeLimit(Corridor(pit=PIT), LIMIT)
        # The bare environment gets a generator that repeats, without any wrapper taking notice.
        self.env.unwrapped.reset(seed=0)

    def begun(self, observation: Any, info: dict[str, Any]) -> None:
        """Hold the answer of a reset against the model's."""
        self.alive, self.ended = True, False
        expected, expected_info = self.walk_model()
        assert observation == expected
        assert info["admissible_commands"] == expected_info["admissible_commands"]
        assert info["role_labels"] == ()
        assert (info["attempt"], info["prefix_length"]) == (self.number, self.prefix)
        assert info["pivot_step"] == (self.prefix if self.number else -1)
        assert info["restore_status"] == ("verified" if self.number else "none")
        self.labels = []
        self.remember(info)

    def walk_model(self) -> Any:
        if self.seed is None:
            self.model.unwrapped.np_random.bit_generator.state = self.rng
        observation, info = self.model.reset(seed=self.seed)
        for action in self.actions:
            observation, _, _, _, info = self.model.step(action)
        return observation, info

    def remember(self, info: dict[str, Any]) -> None:
        self.infos.append(info)
        self.kept.append(deepcopy(info))

    @rule(seed=st.none() | st.integers(0, 3))
    def fresh(self, seed: int | None) -> None:
        self.rng = deepcopy(self.env.unwrapped.np_random.bit_generator.state)
        self.seed, self.actions, self.number, self.prefix = seed, [], 0, 0
        self.begun(*self.env.reset(seed=seed))

    @precondition(lambda self: self.alive and not self.ended)
    @rule(actions=st.lists(ACTIONS, min_size=3, max_size=LIMIT), to_the_end=st.booleans())
    def walk(self, actions: list[str], to_the_end: bool) -> None:
        for action in [*actions, *["look"] * (LIMIT * to_the_end)]:
            if self.ended:
                return
            self.step(action)

    def step(self, action: str) -> None:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.actions.append(action)
        assert (observation, reward, terminated, truncated) == self.model.step(action)[:4]
        self.labels += [label.step for label in info["role_labels"]]
        self.remember(info)
        if terminated or truncated:
            self.end(terminated, info)
        else:
            assert self.labels == list(range(self.prefix, len(self.actions) - FUTURE))

    def end(self, terminated: bool, info: dict[str, Any]) -> None:
        self.ended, self.success = True, bool(info.get("success", False))
        assert self.labels == list(range(self.prefix, len(self.actions)))
        assert info["whole"]["l"] == len(self.actions)
        record = info["episode_record"]
        assert [s.action for s in record.segments] == self.actions
        assert [label.step for label in record.labels] == list(range(len(self.actions)))
        assert all(label.status == "judged" for label in record.labels)
        assert (record.attempt, record.prefix_length, record.error) == (self.number, self.prefix, None)
        assert record.success == self.success
        if self.number:
            assert record.segments[: self.prefix] == self.records[-1].segments[: self.prefix]
            assert record.group_id == self.records[-1].group_id
        self.records.append(record)

    @precondition(lambda self: self.may_retry())
    @rule(pivot=st.integers(-2, LIMIT + 2))
    def retry(self, pivot: int) -> None:
        self.retried({"retry": pivot}, min(max(pivot, 0), len(self.actions) - 1))

    @precondition(lambda self: self.may_retry())
    @rule()
    def retry_by_role(self) -> None:
        steps = [k for k, role in enumerate(self.records[-1].roles) if role == "R"]
        self.retried({"retry": True}, steps[0] if steps else 0)

    @precondition(lambda self: self.may_retry())
    @rule(pivot=st.integers(0, LIMIT), good=st.booleans())
    def retry_by_own_words(self, pivot: int, good: bool) -> None:
        text = json.dumps({"remark": "so", "pivot": pivot}) + ("" if good else ".")
        self.retried({"reflection": text}, min(pivot, len(self.actions) - 1) if good else 0)

    def may_retry(self) -> bool:
        return self.alive and self.ended and not self.success and self.number + 1 < ATTEMPTS

    def retried(self, options: dict[str, Any], pivot: int) -> None:
        kept = dict(options)
        observation, info = self.env.reset(options=options)
        assert options == kept
        self.actions, self.number, self.prefix = self.actions[:pivot], self.number + 1, pivot
        self.begun(observation, info)

    @precondition(lambda self: not self.may_retry())
    @rule(options=st.sampled_from([{"retry": 0}, {"retry": True}, {"reflection": "{}"}]))
    def retry_of_nothing_is_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(gym.error.ResetNeeded):
            self.env.reset(options=dict(options))
        # Whoever calls reset gives the running attempt up for every wrapper outside of the one that refused.
        self.alive = False
        self.reset_after_refusal()

    @precondition(lambda self: self.may_retry())
    @rule(
        options=st.sampled_from(
            [{"retry": "1"}, {"retry": 1.5}, {"retry": 1, "task_id": "corridor-3"}, {"reflection": 1}]
        )
    )
    def malformed_options_are_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="Expected"):
            self.env.reset(options=dict(options))
        with pytest.raises(ValueError, match="seed"):
            self.env.reset(seed=1, options={"retry": 1})

    @precondition(lambda self: not self.alive or self.ended)
    @rule(action=ACTIONS)
    def step_out_of_order_is_refused(self, action: str) -> None:
        with pytest.raises(gym.error.ResetNeeded):
            self.env.step(action)

    def reset_after_refusal(self) -> None:
        with pytest.raises(gym.error.ResetNeeded):
            self.env.step("look")

    @invariant()
    def infos_are_new_and_never_change(self) -> None:
        if self.infos:
            assert self.infos[-1] == self.kept[-1]
            assert self.infos[0] == self.kept[0]
            assert not any(shares_containers(self.infos[-1], info) for info in self.infos[:-1][-3:])


Machine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestStack = Machine.TestCase
