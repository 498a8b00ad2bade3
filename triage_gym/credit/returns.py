"""Returns of turns, inside an attempt and across the attempts of a trial, as pure functions on records.

With r the reward of a turn, T the turns of an attempt, k the turn at which the next attempt began (its ``pivot``) and
"start" the first turn that an attempt acted anew (its ``prefix_length``; 0 after a full restart)::

    inside        g_t = Σ_{l>=t} γ_step^(l-t) r_l
    pivoarl       G_t^(n) = g_t^(n) + 1[t < k^(n)] Σ_{m>n} γ_traj^(m-n) g_start^(m)
    metarl        G_t^(n) = g_t^(n) + Σ_{m>n} γ_traj^(m-n) g_start^(m)
    metarl, code  G_t^(n) = g_t^(n) + γ_step^(T_n-1-t) γ_traj G_start^(n+1)

``pivoarl`` follows PivoARL (arXiv:2607.03702), whose text gives no equation: this is our reading. ``metarl`` is the
formula of LaMer (arXiv:2512.16848), ``code`` what its released code computes.

Promised: a chain of attempts counts as far as it is whole. Across a missing or excluded attempt (one with an ``error``)
no credit goes, and nothing else moves. Left to you: to hold a trial's attempts together in one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from triage_gym.credit.batch import NONE, Segments
from triage_gym.errors import InputError
from triage_gym.records import EpisodeRecord

Returns = Literal["outcome", "rewards"]
"""What a turn is paid with: the verifier's ``outcome``, at the last turn, or the environment's own ``rewards``."""
Rule = Literal["pivoarl", "metarl"]
Variant = Literal["paper", "code"]


def step_returns(rewards: Sequence[float] | NDArray[np.float64], gamma_step: float) -> NDArray[np.float64]:
    """Discounted sum of the rewards from each turn on, shape ``(turns,)``.

    Args:
        rewards: One a turn.
        gamma_step: Discount a turn, in [0, 1].
    """
    paid = np.asarray(rewards, dtype=np.float64)
    return discounted(paid, np.array([len(paid)]), gamma_step)


def discounted(paid: NDArray[np.float64], lengths: NDArray[np.int64], gamma: float) -> NDArray[np.float64]:
    """:func:`step_returns` of rollouts laid end to end: a loop over the longest, not over all turns.

    Args:
        paid: Shape ``(segments,)``.
        lengths: Segments of each rollout.
        gamma: Discount a turn.
    """
    ends = np.cumsum(lengths)
    out, total = np.zeros(len(paid)), np.zeros(len(lengths))
    live = np.flatnonzero(lengths > 0)
    back = 1
    while len(live):
        at = ends[live] - back
        total[live] = out[at] = paid[at] + gamma * total[live]
        back += 1
        live = live[lengths[live] >= back]
    return out


def turn_rewards(records: Sequence[EpisodeRecord], returns: Returns = "outcome") -> list[NDArray[np.float64]]:
    """What each turn is paid; see :func:`paid_turns`.

    Args:
        records: Attempts of one or more groups.
        returns: Where the reward comes from.

    Returns:
        One array of shape ``(segments,)`` a record; zeros for records with an ``error``.

    Raises:
        InputError: For a score or a reward that is not finite or beyond
            :data:`~triage_gym.credit.outcome.MAX_SCORE`, or an unknown ``returns``.
    """
    segments = Segments(records)
    return _split(paid_turns(segments, returns), segments)


def paid_turns(segments: Segments, returns: Returns = "outcome") -> NDArray[np.float64]:
    """What each turn is paid, shape ``(segments,)``.

    With ``outcome`` the score is paid at the last turn, *counted from the lowest score among the sound rollouts of the
    group*: a constant added to all outcomes then changes nothing whatever the discounts, and equal outcomes pay nothing.
    Where scores are 0 and 1 and somebody failed, as in every group with a retry, it is the score itself. With
    ``rewards`` it is what the environment gave, prefix included; scores are not read, so the same law holds for them
    without more, and a constant added to all *rewards* does change the returns.

    Raises:
        InputError: As :func:`turn_rewards`.
    """
    if returns not in get_args(Returns):
        raise InputError(f"Expected `returns` to be one of {get_args(Returns)}, got {returns!r}")
    scores, group, count = segments.grouping
    if returns == "rewards":
        return segments.reward
    lowest = np.full(count, np.inf)
    sound = group >= 0
    np.minimum.at(lowest, group[sound], scores[sound])
    out = np.zeros(len(segments.owner))
    paid = np.flatnonzero(sound & (segments.lengths > 0))
    out[segments.ends[paid] - 1] = scores[paid] - lowest[group[paid]]
    return out


def _split(values: NDArray[np.float64], segments: Segments) -> list[NDArray[np.float64]]:
    return [values[start:stop].copy() for start, stop in segments.bounds]


def next_attempts(records: Sequence[EpisodeRecord]) -> NDArray[np.int64]:
    """Position of the attempt that retries each record, :data:`NONE` where none does; shape ``(records,)``.

    A retry has the ``trial`` and group of what it retries, the ``attempt`` after it and names it as ``parent``. Records
    with an ``error`` are as good as missing. In a group none of whose unnamed records (``trial == ""``) has a parent,
    each of them is a trial of its own.

    Raises:
        GroupError: For two sound records of the same attempt of a trial.
    """
    return Segments(records).follows


def at_start(segments: Segments, returns: NDArray[np.float64]) -> NDArray[np.float64]:
    """The return at the first turn that each rollout acted anew, 0 where it acted none; shape ``(rollouts,)``."""
    acted = np.flatnonzero(segments.prefix < segments.lengths)
    out = np.zeros(len(segments))
    out[acted] = returns[segments.starts[acted] + segments.prefix[acted]]
    return out


def cross_attempt_returns(
    records: Sequence[EpisodeRecord],
    rule: Rule = "pivoarl",
    gamma_step: float = 0.95,
    gamma_traj: float = 0.6,
    variant: Variant = "paper",
    returns: Returns = "outcome",
) -> list[NDArray[np.float64]]:
    """G of every turn: its return inside the attempt and what ``rule`` lets it have of later attempts.

    Args:
        records: Attempts of one or more trials and groups, in any order.
        rule: ``pivoarl``: only turns before the pivot, which the retry kept, share in later attempts. ``metarl``: all do.
        gamma_step: Discount a turn.
        gamma_traj: Discount an attempt.
        variant: Of ``metarl``: the formula of the paper or of its code.
        returns: Where rewards come from, see :func:`paid_turns`.

    Returns:
        One array of shape ``(segments,)`` a record. Turns of a copied prefix have numbers too; rules leave them out.

    Raises:
        GroupError: For two sound records of the same attempt of a trial.
        InputError: For scores or rewards that are not finite, or an unknown rule or variant.
    """
    segments = Segments(records)
    return _split(across_attempts(segments, rule, gamma_step, gamma_traj, variant, returns), segments)


def across_attempts(
    segments: Segments,
    rule: Rule = "pivoarl",
    gamma_step: float = 0.95,
    gamma_traj: float = 0.6,
    variant: Variant = "paper",
    returns: Returns = "outcome",
) -> NDArray[np.float64]:
    """:func:`cross_attempt_returns` of a batch laid end to end, shape ``(segments,)``: a loop over attempt numbers."""
    if rule not in get_args(Rule) or variant not in get_args(Variant) or (rule, variant) == ("pivoarl", "code"):
        raise InputError(
            f'Expected the rule "pivoarl", or "metarl" in the variant "paper" or "code", got {rule!r} in {variant!r}'
        )
    total = discounted(paid_turns(segments, returns), segments.lengths, gamma_step)
    follows = segments.follows
    start = at_start(segments, total)
    later = np.zeros(len(segments))
    retried = np.flatnonzero(follows != NONE)
    for attempt in np.unique(segments.attempt[retried])[::-1]:
        own = retried[segments.attempt[retried] == attempt]
        if variant == "code":
            whole = gamma_traj * at_start(segments, total)[follows[own]]
            later[own] = whole
            mine = np.isin(segments.owner, own)
            rest = (segments.lengths[segments.owner] - 1 - segments.place)[mine]
            total[mine] += later[segments.owner[mine]] * gamma_step**rest
        else:
            later[own] = gamma_traj * (start[follows[own]] + later[follows[own]])
    if variant == "code":
        return total
    share: NDArray[np.float64] = segments.on_segments(later)
    if rule == "pivoarl":
        share = np.where(segments.place < segments.kept[segments.owner], share, 0.0)
    return total + share
