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
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from triage_gym.credit.outcome import MAX_SCORE, grouped
from triage_gym.errors import GroupError, InputError
from triage_gym.records import EpisodeRecord

Returns = Literal["outcome", "rewards"]
"""What a turn is paid with: the verifier's ``outcome``, at the last turn, or the environment's own ``rewards``."""
Rule = Literal["pivoarl", "metarl"]
Variant = Literal["paper", "code"]
NONE: Final = -1
"""No retry follows."""


def step_returns(rewards: Sequence[float] | NDArray[np.float64], gamma_step: float) -> NDArray[np.float64]:
    """Discounted sum of the rewards from each turn on, shape ``(turns,)``.

    Args:
        rewards: One a turn.
        gamma_step: Discount a turn, in [0, 1].
    """
    total, out = 0.0, np.zeros(len(rewards))
    for t in range(len(rewards) - 1, -1, -1):
        total = float(rewards[t]) + gamma_step * total
        out[t] = total
    return out


def turn_rewards(records: Sequence[EpisodeRecord], returns: Returns = "outcome") -> list[NDArray[np.float64]]:
    """What each turn is paid.

    With ``outcome`` the score is paid at the last turn, *counted from the lowest score among the sound rollouts of the
    group*: a constant added to all outcomes then changes nothing whatever the discounts, and equal outcomes pay nothing.
    Where scores are 0 and 1 and somebody failed, as in every group with a retry, it is the score itself. With
    ``rewards`` it is what the environment gave, prefix included; scores are not read, so the same law holds for them
    without more, and a constant added to all *rewards* does change the returns.

    Args:
        records: Attempts of one or more groups.
        returns: Where the reward comes from.

    Returns:
        One array of shape ``(segments,)`` a record; zeros for records with an ``error``.

    Raises:
        InputError: For a score or a reward that is not finite or beyond
            :data:`~triage_gym.credit.outcome.MAX_SCORE`, or an unknown ``returns``.
    """
    if returns not in get_args(Returns):
        raise InputError(f"Expected `returns` to be one of {get_args(Returns)}, got {returns!r}")
    scores, group, count = grouped(records)
    if returns == "rewards":
        return [_own_rewards(r) if r.error is None else np.zeros(len(r)) for r in records]
    lowest = np.full(count, np.inf)
    sound = group >= 0
    np.minimum.at(lowest, group[sound], scores[sound])
    paid = [np.zeros(len(r)) for r in records]
    for i in np.flatnonzero(sound):
        if len(paid[i]):
            paid[i][-1] = scores[i] - lowest[group[i]]
    return paid


def _own_rewards(record: EpisodeRecord) -> NDArray[np.float64]:
    rewards = np.array([segment.reward for segment in record.segments], dtype=np.float64)
    if not np.all(np.abs(rewards) <= MAX_SCORE):
        raise InputError(
            f"Expected finite rewards within ±{MAX_SCORE:g} in group {record.group_id!r}, got {rewards.tolist()!r:.120}; "
            "set `error` on an attempt that must not be trained"
        )
    return rewards


def next_attempts(records: Sequence[EpisodeRecord]) -> NDArray[np.int64]:
    """Position of the attempt that retries each record, :data:`NONE` where none does; shape ``(records,)``.

    A retry has the ``trial`` and group of what it retries, the ``attempt`` after it and names it as ``parent``. Records
    with an ``error`` are as good as missing. In a group none of whose unnamed records (``trial == ""``) has a parent,
    each of them is a trial of its own.

    Raises:
        GroupError: For two sound records of the same attempt of a trial.
    """
    sound = [i for i, r in enumerate(records) if r.error is None]
    retried = {records[i].group_id for i in sound if not records[i].trial and records[i].parent >= 0}
    place: dict[tuple[str, str, int], int] = {}
    for i in sound:
        record = records[i]
        if not record.trial and record.group_id not in retried:
            continue
        if place.setdefault((record.group_id, record.trial, record.attempt), i) != i:
            raise GroupError(
                f"Expected one record of each attempt of a trial, got two of attempt {record.attempt} of trial "
                f"{record.trial!r} in group {record.group_id!r}; name the trials of a group apart by "
                'reset(options={"trial_id": …}) and add each record once'
            )
    follows = np.full(len(records), NONE, dtype=np.int64)
    for (group, trial, attempt), i in place.items():
        after = place.get((group, trial, attempt + 1), NONE)
        if after != NONE and records[after].parent == attempt:
            follows[i] = after
    return follows


def kept_turns(records: Sequence[EpisodeRecord]) -> NDArray[np.int64]:
    """How many leading turns the retry of each record kept, its pivot; 0 where none follows. Shape ``(records,)``.

    Raises:
        GroupError: As :func:`next_attempts`.
    """
    follows = next_attempts(records)
    return np.array([_kept(records, i, int(after)) for i, after in enumerate(follows)], dtype=np.int64)


def _kept(records: Sequence[EpisodeRecord], i: int, after: int) -> int:
    return 0 if after == NONE else min(max(records[after].pivot, 0), len(records[i]))


def at_start(records: Sequence[EpisodeRecord], returns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The return at the first turn that each record acted anew, 0 where it acted none; shape ``(records,)``."""
    return np.array(
        [float(g[r.prefix_length]) if r.prefix_length < len(r) else 0.0 for r, g in zip(records, returns, strict=True)],
        dtype=np.float64,
    )


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
        returns: Where rewards come from, see :func:`turn_rewards`.

    Returns:
        One array of shape ``(segments,)`` a record. Turns of a copied prefix have numbers too; rules leave them out.

    Raises:
        GroupError: For two sound records of the same attempt of a trial.
        InputError: For scores or rewards that are not finite, or an unknown rule or variant.
    """
    if rule not in get_args(Rule) or variant not in get_args(Variant) or (rule, variant) == ("pivoarl", "code"):
        raise InputError(
            f'Expected the rule "pivoarl", or "metarl" in the variant "paper" or "code", got {rule!r} in {variant!r}'
        )
    inside = [step_returns(rewards, gamma_step) for rewards in turn_rewards(records, returns)]
    start, follows = at_start(records, inside), next_attempts(records)
    total = [g.copy() for g in inside]
    later = np.zeros(len(records))
    for i in sorted(np.flatnonzero(follows != NONE).tolist(), key=lambda i: -records[i].attempt):
        after = int(follows[i])
        if variant == "code":
            whole = at_start([records[after]], [total[after]])[0]
            total[i] += gamma_traj * whole * gamma_step ** np.arange(len(total[i]) - 1, -1, -1)
        else:
            later[i] = gamma_traj * (start[after] + later[after])
            total[i][: _kept(records, i, after) if rule == "pivoarl" else None] += later[i]
    return total
