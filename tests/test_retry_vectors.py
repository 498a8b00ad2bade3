"""Retries in vectors of every kind: lineage, labels and remarks are those of one environment alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from envs_for_tests import COMMANDS
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from trial_stacks import by_hand, stack

from triage_gym.records import EpisodeRecord
from triage_gym.wrappers import TextVectorEnv

MEMBERS, TURNS = 3, 150


class Seen:
    """What one member showed: resets (prompt and info), labels and records, in order."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.resets: list[dict[str, Any]] = []
        self.labels: list[list[int]] = []
        self.records: list[EpisodeRecord] = []

    def reset(self, prompt: str, info: dict[str, Any]) -> None:
        self.prompts.append(prompt)
        self.resets.append({k: info[k] for k in ("attempt", "prefix_length", "reflection", "oracle_pivot")})
        self.labels.append([])

    def step(self, info: dict[str, Any]) -> None:
        self.labels[-1] += [label.step for label in info["role_labels"]]
        if "episode_record" in info:
            self.records.append(info["episode_record"])


def commands(member: int) -> Iterator[str]:
    """A player that wanders to the left of the way; each member has its own."""
    rng = random.Random(member)
    while True:
        yield rng.choices(COMMANDS, (2, 3, 1, 2))[0]


def alone(member: int, turns: int) -> Seen:
    """The same member outside of any vector, reset at each end."""
    env, seen = stack(), Seen()
    seen.reset(*env.reset(seed=member))
    players = commands(member)
    for _ in range(turns):
        _, _, terminated, truncated, info = env.step(next(players))
        seen.step(info)
        if terminated or truncated:
            seen.reset(*env.reset())
    return seen


def compare(members: Sequence[Seen]) -> None:
    """Each member showed what it shows alone, and that is right."""
    for member, seen in enumerate(members):
        expected = alone(member, sum(len(r) - r.prefix_length for r in seen.records) + 9)
        whole = len(seen.records)
        assert seen.records == expected.records[:whole]
        assert [r.trial for r in seen.records] == [r.trial for r in expected.records[:whole]]
        assert (seen.resets[:whole], seen.prompts[:whole]) == (expected.resets[:whole], expected.prompts[:whole])
        check(seen)


def check(seen: Seen) -> None:
    for number, record in enumerate(seen.records):
        steps = seen.labels[number]
        assert steps == list(range(record.prefix_length, len(record))), "each label once, a prefix never again"
        assert all(label.status == "judged" for label in record.labels)
        assert (seen.resets[number]["attempt"], record.parent) == (record.attempt, record.attempt - 1)
        if record.attempt == 0:
            assert "Remark" not in seen.prompts[number]
            continue
        before = seen.records[number - 1]
        assert (record.trial, record.group_id, record.attempt) == (before.trial, before.group_id, before.attempt + 1)
        assert not before.success
        assert record.segments[: record.prefix_length] == before.segments[: record.prefix_length]
        assert record.labels[: record.prefix_length] == before.labels[: record.prefix_length]
        assert record.oracle_pivot >= 0
        assert record.reflection is not None
        if record.reflection.remark:
            assert f"Remark on attempt {record.attempt}: {record.reflection.remark}" in seen.prompts[number]
    trials = [record.trial for record in seen.records if record.attempt == 0]
    assert len(set(trials)) == len(trials) > 2
    assert max(record.attempt for record in seen.records) == 2


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_gymnasium_s_vectors_retry_by_themselves(kind: str, mode: AutoresetMode) -> None:
    fns = [stack] * MEMBERS
    vector: Any = (
        SyncVectorEnv(fns, autoreset_mode=mode)
        if kind == "sync"
        else AsyncVectorEnv(fns, shared_memory=False, autoreset_mode=mode)
    )
    members = [Seen() for _ in fns]
    players = [commands(i) for i in range(MEMBERS)]
    try:
        prompts, infos = vector.reset(seed=list(range(MEMBERS)))
        for i in range(MEMBERS):
            members[i].reset(prompts[i], member_info(infos, i))
        ended = [False] * MEMBERS
        for _ in range(TURNS):
            resets = [mode is AutoresetMode.NEXT_STEP and ended[i] for i in range(MEMBERS)]
            actions = tuple("look" if resets[i] else next(players[i]) for i in range(MEMBERS))
            prompts, _, terminated, truncated, infos = vector.step(actions)
            for i in range(MEMBERS):
                ended[i] = bool(terminated[i] or truncated[i])
                if resets[i]:
                    members[i].reset(prompts[i], member_info(infos, i))
                elif ended[i] and mode is AutoresetMode.SAME_STEP:
                    members[i].step(member_info(infos["final_info"], i))
                    members[i].reset(prompts[i], member_info(infos, i))
                else:
                    members[i].step(member_info(infos, i))
    finally:
        vector.close()
    compare(members)


def member_info(infos: dict[str, Any], member: int) -> dict[str, Any]:
    """One member's part of a vector's infos."""
    keys = [key for key in infos if not key.startswith(("_", "final_"))]
    return {key: infos[key][member] for key in keys if np.asarray(infos.get(f"_{key}", [False] * 9))[member]}


@pytest.mark.parametrize("auto", [True, False])
@pytest.mark.parametrize("workers", [0, 2])
def test_text_vectors_retry_by_themselves_and_when_asked(workers: int, auto: bool) -> None:
    members = [Seen() for _ in range(MEMBERS)]
    players = [commands(i) for i in range(MEMBERS)]
    with TextVectorEnv(stack if auto else by_hand, MEMBERS, workers=workers) as vector:
        for i, begun in vector.reset(seed=list(range(MEMBERS))).items():
            members[i].reset(begun.observation, begun.info)
        for _ in range(TURNS):
            for i, answer in vector.step({i: next(players[i]) for i in vector.active}).items():
                members[i].step(answer.info)
            again = {
                i: (None, None if auto else options_after(members[i])) for i in set(range(MEMBERS)) - {*vector.active}
            }
            for i, begun in vector.reset(again).items():
                members[i].reset(begun.observation, begun.info)
    compare(members)


def options_after(seen: Seen) -> dict[str, Any]:
    """What a loop asks for that retries by hand."""
    record = seen.records[-1]
    return {"retry": not record.success and record.attempt < 2}


def test_a_vector_s_reset_names_the_trials_of_a_group() -> None:
    with TextVectorEnv(by_hand, 2) as vector:
        names = [{"group_id": "g", "trial_id": i} for i in range(2)]
        vector.reset(seed=[1, 1], options=names)
        records: list[EpisodeRecord] = []
        for attempt in range(2):
            while vector.active:
                records += [
                    a.info["episode_record"] for a in vector.step(dict.fromkeys(vector.active, "go left")).values()
                ]
            if attempt == 0:
                vector.reset(options={"retry": True})
    assert [(r.group_id, r.trial, r.attempt) for r in records] == [
        ("g", "0", 0),
        ("g", "1", 0),
        ("g", "0", 1),
        ("g", "1", 1),
    ]
