"""Attempts at the six environments, played by their experts and at random, for tests of what judges are shown."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from functools import lru_cache
from typing import Any

import gymnasium as gym
import pytest

from triage_gym import registry
from triage_gym.errors import MissingDependency
from triage_gym.protocols import Window
from triage_gym.records import EpisodeRecord, Segment
from triage_gym.testing.play import fill
from triage_gym.windows import build_windows, domain_of, outcome_text_of

ENVS = ("alfworld", "webshop", "searchqa", "sokoban", "minesweeper", "textworld")


def made(name: str) -> gym.Env[Any, Any]:
    """A small environment of each kind; the test is skipped where its package is not there."""
    if name == "textworld":
        pytest.importorskip("textworld")
        from textworld_games import make

        return make(num_games=1)
    env: gym.Env[Any, Any] = registry.make("envs", name)
    return env


@lru_cache
def played(name: str, player: str, seed: int = 0, limit: int = 12) -> EpisodeRecord:
    """An attempt of the ``expert``, of ``random`` commands, or of ``lost``: the expert's start, then random commands."""
    try:
        with contextlib.closing(made(name)) as env:
            return _attempt(env, player, seed, limit)
    except MissingDependency as error:
        pytest.skip(str(error))


def _attempt(env: gym.Env[Any, Any], player: str, seed: int, limit: int) -> EpisodeRecord:
    chance = random.Random(seed)
    seen, info = env.reset(seed=seed)
    start, segments, success, score = seen, list[Segment](), False, 0.0
    for turn in range(limit):
        by_expert = player == "expert" or (player == "lost" and turn < 2)
        action = env.get_wrapper_attr("expert_action")() if by_expert else None
        action = action or _random(info, chance)
        answer, reward, ended, cut_off, info = env.step(action)
        segments.append(Segment(turn, seen, action, answer, float(reward), {"success": info.get("success")}))
        seen = answer
        if ended or cut_off:
            success, score = bool(info.get("success")), float(info.get("score", 0.0))
            break
    return EpisodeRecord(
        "g",
        task=str(info.get("task", "")),
        domain=domain_of(env.metadata),
        start_observation=start,
        segments=tuple(segments),
        success=success,
        score=score,
    )


def _random(info: dict[str, Any], chance: random.Random) -> str:
    commands = info.get("admissible_commands") or []
    templates = info.get("command_templates") or []
    command: str = chance.choice([*commands, *templates[:3]] or ["look"])
    return fill(command, "red") if command in templates else command


def windows_of(name: str, player: str, seed: int = 0) -> list[Window]:
    """The windows of such an attempt, as a judge gets them."""
    return build_windows(played(name, player, seed), outcome_text=literals_of(name))


@lru_cache
def literals_of(name: str) -> tuple[str, ...]:
    """What the environment declares as telling the outcome."""
    return outcome_text_of(registry.factory("envs", name).metadata)  # type: ignore[attr-defined]


def turned(record: EpisodeRecord, won: bool) -> EpisodeRecord:
    """The same texts with another outcome, rewards and infos included."""
    segments = tuple(replace(s, reward=float(won), info={"success": won, "score": float(won)}) for s in record.segments)
    return replace(record, segments=segments, success=won, score=float(won))
