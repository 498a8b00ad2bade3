"""TextVectorEnv over ALFWorld households, bare and under all three wrappers: members equal single environments."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from typing import Any

import pytest
from vector_envs import household, household_stack

from triage_gym.wrappers.vector import TextVectorEnv

LIMIT = 12


def options(make: Any, member: int, episode: int) -> dict[str, Any] | None:
    return {"group_id": f"{member} {episode}"} if make is household_stack else None


def play(members: int, make: Any, seeds: list[int], **how: Any) -> list[list[Any]]:
    """Everything that each member gives while it plays random admissible commands, two episodes long."""
    told: list[list[Any]] = [[] for _ in range(members)]
    chance = [random.Random(seed) for seed in range(members)]
    kill_at = how.pop("kill_at", set())
    with TextVectorEnv(make, members, **how) as venv:
        for episode in range(2):
            starts = {i: (seeds[i] + episode, options(make, i, episode)) for i in range(members)}
            latest = {i: (result.observation, result.info) for i, result in venv.reset(starts).items()}
            for i in range(members):
                told[i].append(latest[i])
            while venv.active:
                if (episode, len(told[0])) in kill_at:
                    kill_at.remove((episode, len(told[0])))
                    os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
                actions = {i: chance[i].choice(latest[i][1]["admissible_commands"]) for i in venv.active}
                for i, result in venv.step(actions).items():
                    latest[i] = (result.observation, result.info)
                    told[i].append(tuple(result))
    return told


def alone(member: int, make: Any, seed: int) -> list[Any]:
    told: list[Any] = []
    chance = random.Random(member)
    env = make()
    for episode in range(2):
        observation, info = env.reset(seed=seed + episode, options=options(make, member, episode))
        told.append((observation, info))
        over = False
        while not over:
            result = env.step(chance.choice(info["admissible_commands"]))
            told.append(result)
            info, over = result[4], result[2] or result[3]
    env.close()
    return told


@pytest.mark.parametrize("make", [household, household_stack])
def test_members_equal_single_environments(make: Any) -> None:
    seeds = [5, 5, 60, 700]
    expected = [alone(i, make, seed) for i, seed in enumerate(seeds)]
    assert all(len(told) > LIMIT for told in expected)
    assert play(4, make, seeds) == expected
    if make is household_stack:
        record = expected[0][-1][4]["episode_record"]
        assert record.group_id == "0 1"


def test_a_group_starts_from_one_observation() -> None:
    with TextVectorEnv("triage/ALFWorld-v0", 4) as venv:
        assert len({result.observation for result in venv.reset(seed=[9] * 4).values()}) == 1
        assert venv.metadata["domain"] == "alfworld"


@pytest.mark.parametrize("make", [household, household_stack])
def test_workers_that_die_leave_no_trace_in_households(make: Any) -> None:
    seeds = [5, 5, 60, 700]
    undisturbed = play(4, make, seeds)
    assert all(len(told) > LIMIT for told in undisturbed)
    kill_at = {(0, 3), (0, 8), (1, 15), (1, 20)}
    assert play(4, make, seeds, workers=2, kill_at=kill_at) == undisturbed
    assert kill_at == set()
