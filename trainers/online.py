"""Pairs for ``triage-online``: which first attempts are gone back into, and playing on from there.

:mod:`triage_gym.credit.online` says what pairs are for. A turn is drawn by the labels of its attempt alone, successes
included, from a stream of the update's own, so that a resumed run draws the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from triage_gym.credit.online import TriageOnline, drawn_turn
from triage_gym.errors import InputError
from triage_gym.protocols import CreditRule
from triage_gym.records import EpisodeRecord
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.counterfactual_rounds import told
from triage_gym.trainers.playing import go_on
from triage_gym.trainers.policy.protocol import Policy
from triage_gym.trainers.trials import Trials, entered
from triage_gym.wrappers import TextVectorEnv


def share_of(config: TrainConfig, rule: CreditRule) -> float:
    """Share of first attempts that are paired; 0 for rules that measure nothing.

    Raises:
        InputError: For a run that retries failures as well.
    """
    if not isinstance(rule, TriageOnline):
        return 0.0
    if (config.attempts or 1) > 1:
        raise InputError(
            f"Expected `attempts` of 1 with triage-online, which makes retries of its own, got {config.attempts}; leave it out"
        )
    return rule.share


def chosen(records: Mapping[int, EpisodeRecord], share: float, rng: np.random.Generator) -> dict[int, int]:
    """The turns to go back to, by number of the attempt: ``share`` of the attempts, each as likely as the others.

    Args:
        records: Labelled first attempts.
        share: In [0, 1].
        rng: Draws.
    """
    numbers = sorted(records)
    count = int(share * len(numbers) + rng.random())
    out = {}
    for at in rng.permutation(len(numbers))[:count].tolist():
        turn = drawn_turn(records[numbers[at]].roles, rng)
        if turn is not None:
            out[numbers[at]] = turn
    return out


def play_pairs(
    policy: Policy, vector: TextVectorEnv, found: Trials, turns: Mapping[int, int], rng: np.random.Generator | None
) -> None:
    """Play a retry of each first attempt from its turn, and add it to ``found``.

    Args:
        policy: Acts; it is told no remark.
        vector: The members that the first attempts were just played in, each with ``PivotRetryWrapper(after="any")``.
        found: The first attempts.
        turns: By member, the turn to go back to.
        rng: Draws commands.
    """
    began = vector.reset({i: (None, {"retry": turn}) for i, turn in turns.items()})
    live = {}
    for i in turns:
        info: Mapping[str, Any] = began[i].info
        if "env_error" in info:
            found.broken += 1
            continue
        live[i] = told(policy, found.tries[i][0].record, int(info["prefix_length"]), info, began[i].observation)
    entered(vector, found, go_on(policy, vector, live, rng))
