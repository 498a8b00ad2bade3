"""Two hundred trials an environment: what the records of retries say did happen, and no lie about a state gets by."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import lying_envs
import needs
import pytest
from envs_for_tests import StatelessCorridor
from gymnasium.wrappers import TimeLimit

from triage_gym import registry
from triage_gym.records import EpisodeRecord
from triage_gym.restore.values import fingerprint
from triage_gym.wrappers import PivotRetryWrapper, SegmentCreditWrapper

TRIALS = 200
LIMIT = 12
Env = gym.Env[Any, Any]
Choose = Callable[[dict[str, Any], random.Random], Any]
NEEDS = {
    "alfworld": "alfworld",
    "minesweeper": "",
    "searchqa": "",
    "sokoban": "",
    "textworld": "textworld",
    "webshop": "",
}
"""Every built-in environment, and the package without which it has nothing to play."""
MARKS = {"textworld": (pytest.mark.textworld, pytest.mark.slow)}
WORDS = ("lamp", "red mug", "who wrote it", "cheap")


def make(name: str) -> Env:
    if name == "textworld":
        import textworld_games

        return textworld_games.make(num_games=2)
    env: Env = registry.make("envs", name)
    return env


def choose(info: dict[str, Any], rng: random.Random) -> str:
    """Any admissible command, a template filled with any words, or now and then nonsense."""
    if rng.random() < 0.05:
        return "nonsense"
    commands, templates = info["admissible_commands"], info.get("command_templates", [])
    if commands and (not templates or rng.random() < 0.8):
        return str(rng.choice(commands))
    text = str(rng.choice(templates)) if templates else "look"
    head, opened, rest = text.partition("<")
    return head + rng.choice(WORDS) + rest.partition(">")[2] if opened and not head.startswith("<") else text


class Truth:
    """Another environment, in which what a record says is done again from the start."""

    def __init__(self, env: Env) -> None:
        self.env = env

    def check(self, record: EpisodeRecord) -> None:
        """Fail for a transition of ``record`` that does not happen."""
        observation, info = self.env.reset(seed=record.seed)
        assert (record.start_observation, record.task_id) == (observation, info["task_id"])
        for number, segment in enumerate(record.segments):
            assert (segment.index, segment.observation) == (number, observation)
            observation, reward, terminated, truncated, info = self.env.step(segment.action)
            assert (segment.next_observation, segment.reward) == (observation, reward)
            assert segment.info["invalid_action"] == info["invalid_action"]
            assert (terminated or truncated) <= (number + 1 == len(record))
        assert (record.terminated, record.truncated) == (terminated, truncated)
        if "success" in info:
            assert (record.success, record.score) == (info["success"], info["score"])

    def fingerprint(self, record: EpisodeRecord, turns: int) -> str:
        """What the point after so many turns of ``record`` is."""
        observation, _ = self.env.reset(seed=record.seed)
        for segment in record.segments[:turns]:
            observation = self.env.step(segment.action)[0]
        return fingerprint(observation, self.env.unwrapped.get_state())


def attempt(env: Env, info: dict[str, Any], rng: random.Random, pick: Choose) -> EpisodeRecord:
    while True:
        _, _, terminated, truncated, info = env.step(pick(info, rng))
        if terminated or truncated:
            record: EpisodeRecord = info["episode_record"]
            return record


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in NEEDS])
def test_every_transition_of_every_trial_did_happen(name: str) -> None:
    if NEEDS[name]:
        needs.require(NEEDS[name])
    limit = 6 if name == "textworld" else LIMIT  # its turns take a hundred times as long
    stacks: list[Any] = []
    for retry_from in ("pivot", "start"):
        retrying = PivotRetryWrapper(TimeLimit(make(name), limit), "random", retry_from=retry_from)  # type: ignore[arg-type]
        stacks.append(SegmentCreditWrapper(retrying, "grpo"))
    truth = Truth(TimeLimit(make(name), limit))
    retries = 0
    for trial in range(TRIALS):
        env, rng = stacks[trial % 2], random.Random(trial)
        _, info = env.reset(seed=trial, options={"trial_id": trial})
        before = attempt(env, info, rng, choose)
        truth.check(before)
        for number in (1, 2):
            if before.success:
                break
            asked = True if rng.random() < 0.5 else rng.randrange(len(before))
            observation, info = env.reset(options={"retry": asked})
            found = fingerprint(observation, env.unwrapped.get_state())
            assert found == truth.fingerprint(before, info["prefix_length"]), "a mismatch that nobody noticed"
            assert (info["restore_status"], info["restore_strategy"]) == ("verified", "native")
            record = attempt(env, info, rng, choose)
            truth.check(record)
            assert record.segments[: record.prefix_length] == before.segments[: record.prefix_length]
            assert (record.trial, record.attempt, record.parent) == (str(trial), number, number - 1)
            assert record.prefix_length == (0 if trial % 2 else record.reflection.pivot)  # type: ignore[union-attr]
            assert record.error is None
            before, retries = record, retries + 1
    assert retries > TRIALS
    for env in (*stacks, truth.env):
        env.close()


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in NEEDS])
def test_asking_the_expert_and_testing_pivots_disturb_nothing(name: str) -> None:
    if NEEDS[name]:
        needs.require(NEEDS[name])
    limit, trials = (5, 3) if name == "textworld" else (LIMIT, 20)
    env = SegmentCreditWrapper(
        PivotRetryWrapper(TimeLimit(make(name), limit), "oracle", measure_oracle=True, verify="oracle"), "grpo"
    )
    truth = Truth(TimeLimit(make(name), limit))
    checks = []
    for trial in range(trials):
        rng = random.Random(trial)
        record = attempt(env, env.reset(seed=trial)[1], rng, choose)
        truth.check(record)
        while not record.success and record.attempt < 2:
            info = env.reset(options={"retry": True})[1]
            checks.append(info["pivot_check"])
            assert info["oracle_pivot"] == info["reflection_pivot"]
            if info["pivot_check"] == "moved":
                assert info["pivot_step"] < info["reflection_pivot"]
            else:
                assert info["pivot_step"] == info["reflection_pivot"]
            record = attempt(env, info, rng, choose)
            truth.check(record)
    assert "passed" in checks
    env.close()
    truth.env.close()


LIARS: dict[str, Callable[[], Env]] = {
    "at once": lying_envs.StandsStill,
    "unseen": lying_envs.StandsStillUnseen,
    "late": lying_envs.LiesLate,
    "commands": lying_envs.LiesInCommands,
    "rewards": lying_envs.LiesInRewards,
    "scores": lying_envs.LiesInScores,
    "success": lying_envs.LiesOfSuccess,
    "validity": lying_envs.LiesOfValidity,
    "generator": lying_envs.LosesItsGenerator,
    "sibling": lying_envs.OpensASibling,
    "crash": lying_envs.Crashes,
    "at once, after 5": lambda: lying_envs.StandsStill(5),
    "commands, after 2": lambda: lying_envs.LiesInCommands(2),
    "rewards, after 3": lambda: lying_envs.LiesInRewards(3),
    "generator, after 9": lambda: lying_envs.LosesItsGenerator(9),
    "sibling, after 4": lambda: lying_envs.OpensASibling(4),
    "outside": lying_envs.Outside,
}
"""Environments by how they lie; the last one has a state that copies do not reach."""


def walk(info: dict[str, Any], rng: random.Random) -> str:
    """A player of corridors that seldom gets out, and shows what they are."""
    return rng.choices(("go left", "go right", "look", "wait"), (2, 3, 2, 1))[0]


@pytest.mark.parametrize("lie", LIARS)
def test_an_environment_that_lies_is_refused_every_time(lie: str) -> None:
    honest: Env = lying_envs.Shown() if lie != "unseen" else StatelessCorridor(4, pit=lying_envs.FAR)
    truth = Truth(TimeLimit(honest, LIMIT))
    way = "copy" if lie == "outside" else "native"
    lied = refused = taken = 0
    trial = -1
    while lied < TRIALS:
        trial += 1
        rng = random.Random(trial)
        stack = PivotRetryWrapper(TimeLimit(LIARS[lie](), LIMIT), max_attempts=16)
        env = SegmentCreditWrapper(stack, "grpo")
        record = attempt(env, env.reset(seed=trial)[1], rng, walk)
        while not record.success:
            with warnings.catch_warnings(record=True):
                warnings.simplefilter("always")
                info = env.reset(options={"retry": rng.randrange(1, len(record))})[1]
            lies = bool(env.get_wrapper_attr("lied"))
            lied += lies
            refused += lies and (info["restore_strategy"] != way or info["restore_status"] != "verified")
            record = attempt(env, info, rng, walk)
            if record.error is None:
                truth.check(record)
                taken += 1
            if lies:
                break
    assert refused == lied
    assert taken >= lied, "another way led there"


def test_an_environment_whose_points_never_come_back_keeps_no_prefix() -> None:
    restarted = 0
    for trial in range(TRIALS):
        rng = random.Random(trial)
        env = SegmentCreditWrapper(PivotRetryWrapper(TimeLimit(lying_envs.HidesItsGenerator(), LIMIT)), "grpo")
        record = attempt(env, env.reset(seed=trial)[1], rng, walk)
        if record.success or len(record) < 2:
            continue
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            info = env.reset(options={"retry": rng.randrange(1, len(record))})[1]
        again = attempt(env, info, rng, walk)
        assert (again.restore_status, again.restore_strategy, again.prefix_length) == ("restarted", "restart", 0)
        assert again.segments[0].observation == again.start_observation == record.start_observation
        chain = [s.next_observation for s in again.segments[:-1]]
        assert chain == [s.observation for s in again.segments[1:]]
        restarted += 1
    assert restarted > TRIALS / 2
