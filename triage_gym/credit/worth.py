"""What each labelled segment is worth: the constant of its role, and by option softened, sized and capped.

With c the worth of roles, p the judge's probabilities, m its magnitude, for a segment of role r::

    plain        c[r]
    soft         Σ_q p(q) c[q] / Σ_q p(q)     where the label has probabilities, else c[r]
    magnitude    m times that

``capped`` bounds what an attempt can collect for its labels, whatever a judge can be brought to say. In this order, over
the segments that the attempt acted itself:

1. *Making up for an error pays no more than the error cost.* Each R is paired with the first D after it that has none yet;
   that D is worth at most what its R cost.
2. *Further errors are not free.* All these D together are worth at most what the cap (3.) leaves of the attempt's errors
   when what nothing made up for is counted first.
3. For each of D, E and R the sum of |worth| over the attempt is scaled down to its cap.

So an action split into many, an exploration repeated for ever, or an error made to be undone collects no more than the cap,
and with plain labels neither an R put before a D nor an R with a D after it ever raises an attempt's sum: R, D is -0.5 + 0.5
instead of -0.5 + 1.0. What it costs: a D after an R is paid as one that makes up for it even when it does not, because labels
do not say. With caps of 4, 2 and 2, D D D D D is worth 0.8 each; six E are worth 1/3 each; R D R D D is -0.5, 0.5, -0.5, 0.5,
1.0.

Promised of all of them: |worth| <= max |c|; unjudged segments are NaN and move nothing; attempts move nothing in each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from triage_gym.credit.batch import NONE, Segments
from triage_gym.credit.terms import check_number
from triage_gym.errors import InputError
from triage_gym.records import ROLES, Role

CAPS: Final = (4.0, 2.0, 2.0)
"""Most that an attempt collects for D, E and R: four whole ones of each in the paper's constants."""
_CAPPED: Final[tuple[Role, ...]] = ("D", "E", "R")


def check_caps(caps: Any) -> None:
    """Raise InputError unless ``caps`` are three finite numbers above 0, for D, E and R."""
    if not isinstance(caps, Sequence) or isinstance(caps, str) or len(caps) != len(_CAPPED):
        raise InputError(f"Expected `caps` to be the most that an attempt collects for D, E and R, got {caps!r}")
    for role, cap in zip(_CAPPED, caps, strict=True):
        check_number(f"caps[{role}]", cap, above=0.0)


def segment_worths(
    segments: Segments,
    constants: Sequence[float],
    *,
    soft: bool = False,
    magnitude: bool = False,
    caps: Sequence[float] | None = None,
) -> NDArray[np.float64]:
    """Worth of every segment, NaN where there is no label, shape ``(segments,)``.

    Args:
        segments: The batch.
        constants: Worth of D, E, N, R.
        soft: Whether to weigh all roles by the judge's probabilities.
        magnitude: Whether to multiply with the judge's magnitude.
        caps: Most that an attempt collects for D, E and R; None for no bounds.
    """
    worth = role_worths(segments.role, constants)
    judged = segments.role != NONE
    if soft:
        p = segments.probabilities
        total = ((p[:, 0] + p[:, 1]) + p[:, 2]) + p[:, 3]
        weighed = judged & (total > 0.0)  # False for NaN
        # Divided first: of the smallest numbers there are, products round to twice of what they should be.
        mixed, total = np.zeros(len(total)), np.where(weighed, total, 1.0)
        for at, constant in enumerate(constants):
            mixed = mixed + p[:, at] / total * constant
        worth = np.where(weighed, mixed, worth)
    if magnitude:
        worth[judged] = worth[judged] * segments.magnitude[judged]
    if caps is not None:
        own = np.flatnonzero(segments.trained)
        worth[own] = _capped(worth[own], segments.role[own], segments.owner[own], len(segments), caps)
    return worth


def role_worths(role: NDArray[np.int8], constants: Sequence[float]) -> NDArray[np.float64]:
    """What each role is worth, shape ``(segments,)``; NaN where there is no label."""
    found: NDArray[np.float64] = np.array([*map(float, constants), np.nan])[role]  # the place -1 is the last
    return found


def capped(
    worth: NDArray[np.float64], roles: Sequence[Role | None], caps: Sequence[float] = CAPS
) -> NDArray[np.float64]:
    """The worths of one attempt's segments, bounded as the module says.

    Args:
        worth: In order, NaN for unjudged ones.
        roles: Their roles.
        caps: Most of D, E and R.
    """
    role = np.array([NONE if found is None else ROLES.index(found) for found in roles], dtype=np.int8)
    return _capped(worth, role, np.zeros(len(role), dtype=np.int64), 1, caps)


def _capped(
    worth: NDArray[np.float64],
    role: NDArray[np.int8],
    owner: NDArray[np.int64],
    count: int,
    caps: Sequence[float],
) -> NDArray[np.float64]:
    """As :func:`capped`, of the segments of many attempts laid end to end."""
    bounded = worth.copy()
    decisive, regression = ROLES.index("D"), ROLES.index("R")
    error = (role == regression) & (worth < 0.0)
    good = (role == decisive) & (worth > 0.0)
    # Errors that wait to be made up for: as many as there were, less one for each D that found one.
    change = error.astype(np.int64) - good
    total = np.cumsum(change)
    first = np.searchsorted(owner, np.arange(count))
    before = np.concatenate([[0], total])[first]
    running = total - before[owner]
    # Falling from attempt to attempt, so that a running minimum begins anew in each.
    step = 2 * len(owner) + 2
    floor = np.minimum.accumulate(np.minimum(running, 0) - owner * step) + owner * step
    waiting = running - floor
    had = np.where(np.arange(len(owner)) == first[owner], 0, np.concatenate([[0], waiting])[:-1])
    made_up = good & (had > 0)
    # The n-th D that makes up for one takes the n-th error of its attempt: first come, first served.
    taken, errors = np.flatnonzero(made_up), np.flatnonzero(error)
    number = np.arange(len(taken)) - np.searchsorted(owner[taken], owner[taken])
    which = errors[np.searchsorted(owner[errors], owner[taken]) + number]
    bounded[taken] = np.minimum(worth[taken], -worth[which])
    cost = np.bincount(owner[error], -worth[error], count)
    lost = cost - np.bincount(owner[taken], bounded[taken], count)
    rest = np.maximum(0.0, np.minimum(cost, caps[2]) - np.minimum(lost, caps[2]))
    _scale(bounded, made_up, owner, rest)
    for name, cap in zip(_CAPPED, caps, strict=True):
        _scale(bounded, role == ROLES.index(name), owner, np.full(count, float(cap)))
    return bounded


def _scale(
    worth: NDArray[np.float64], among: NDArray[np.bool_], owner: NDArray[np.int64], most: NDArray[np.float64]
) -> None:
    """Bring the sum of |worth| among some segments of each attempt down to ``most``, all by the same factor."""
    total = np.bincount(owner[among], np.abs(worth[among]), len(most))
    over = total > most
    factor = np.where(over, most / np.where(over, total, 1.0), 1.0)
    changed = among & over[owner]
    worth[changed] *= factor[owner[changed]]
