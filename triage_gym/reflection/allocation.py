"""Which failed attempts are retried: retries cost turns, so they go where they may teach something.

A pure function of a batch's records. ``differ`` spends nothing on a group in which every trial fared alike, where the
comparison teaches nothing yet a retry of an all-failed group most likely fails too; ``verified`` spends only on pivots
that passed a check (:mod:`triage_gym.reflection.verification`). A budget goes round the groups, one retry each, those with
the most variance of outcomes first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, Literal, get_args

import numpy as np

from triage_gym.errors import GroupError, InputError
from triage_gym.records import EpisodeRecord

Allocation = Literal["all", "differ", "verified"]
ALLOCATIONS: Final[tuple[Allocation, ...]] = get_args(Allocation)
_Trial = tuple[str, str]


def allocate(
    records: Sequence[EpisodeRecord],
    how: Allocation = "all",
    budget: int | None = None,
    *,
    attempts: int | None = None,
    passed: Mapping[int, bool] | Sequence[bool] | None = None,
) -> list[int]:
    """Positions in ``records`` of the attempts to retry, ascending.

    Only the latest attempt of a trial can be retried, and only when it failed and is sound (no ``error``). The order of
    ``records`` decides nothing.

    Args:
        records: All attempts of all trials of a batch so far.
        how: ``"all"``; ``"differ"``: only in groups of which some trials are solved by now and some are not;
            ``"verified"``: only where ``passed`` says so.
        budget: Most retries; None for no such limit.
        attempts: Attempts at one task, the first included; a trial that has made them is not retried. None for no limit.
        passed: For ``"verified"``, whether the pivot of an attempt passed its check, by position in ``records``; what is
            missing from a mapping did not pass.

    Raises:
        InputError: For an unknown ``how``, a negative budget, ``attempts`` below 1, or ``"verified"`` without ``passed``.
        GroupError: If two records are the same attempt of the same trial.
    """
    if how not in ALLOCATIONS:
        raise InputError(f"Expected retries to be one of {ALLOCATIONS}, got {how!r}")
    if budget is not None and budget < 0:
        raise InputError(f"Expected a budget of 0 or more retries, got {budget}")
    if attempts is not None and attempts < 1:
        raise InputError(f"Expected `attempts` to be at least 1, got {attempts}")
    latest = _latest(records)
    groups = _outcomes(records)
    chosen: dict[str, list[int]] = {}
    for (group, _), at in sorted(latest.items(), key=lambda item: (records[item[1]].attempt, item[0])):
        record = records[at]
        done = record.success or record.error is not None or (attempts is not None and record.attempt + 1 >= attempts)
        if not done and (how != "differ" or 0 < _share(groups[group]) < 1):
            chosen.setdefault(group, []).append(at)
    if how == "verified":
        known = _known(passed, len(records))
        chosen = {group: [at for at in found if known.get(at, False)] for group, found in chosen.items()}
    most_mixed_first = sorted(chosen, key=lambda group: (abs(_share(groups[group]) - 0.5), group))
    rounds = max(map(len, chosen.values()), default=0)
    order = [chosen[group][turn] for turn in range(rounds) for group in most_mixed_first if turn < len(chosen[group])]
    return sorted(order[:budget])


def _latest(records: Sequence[EpisodeRecord]) -> dict[_Trial, int]:
    """Position of the latest attempt of each trial."""
    seen: set[tuple[str, str, int]] = set()
    latest: dict[_Trial, int] = {}
    for at, record in enumerate(records):
        if (record.group_id, record.trial, record.attempt) in seen:
            raise GroupError(
                f"Expected each attempt of a trial once, got attempt {record.attempt} of trial {record.trial!r} in group "
                f'{record.group_id!r} twice; tell trials apart with reset(options={{"trial_id": …}})'
            )
        seen.add((record.group_id, record.trial, record.attempt))
        trial = (record.group_id, record.trial)
        if trial not in latest or record.attempt > records[latest[trial]].attempt:
            latest[trial] = at
    return latest


def _outcomes(records: Sequence[EpisodeRecord]) -> dict[str, dict[str, bool]]:
    """For each group whether each of its trials is solved; one without a sound attempt has no outcome."""
    groups: dict[str, dict[str, bool]] = defaultdict(dict)
    for record in records:
        trials = groups[record.group_id]
        if record.error is None:
            trials[record.trial] = trials.get(record.trial, False) or record.success
    return groups


def _share(trials: Mapping[str, bool]) -> float:
    return sum(trials.values()) / len(trials) if trials else 0.0


def _known(passed: Mapping[int, bool] | Sequence[bool] | None, count: int) -> dict[int, bool]:
    if passed is None:
        raise InputError('Expected `passed` for retries="verified", got None; say which pivots passed their check')
    if isinstance(passed, Mapping):
        found = dict(passed)
    else:
        if len(passed) != count:
            raise InputError(f"Expected `passed` to say something of each of the {count} records, got {len(passed)}")
        found = dict(enumerate(passed))
    for at, value in found.items():
        if not isinstance(value, bool | np.bool_):
            raise InputError(f"Expected `passed` to hold truth values, got {value!r} for record {at}")
    return found
