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

from triage_gym.credit.terms import Segments, check_number, role_values
from triage_gym.errors import InputError
from triage_gym.records import ROLES, Role, RoleLabel

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
    roles = segments.roles()
    worth = role_values(roles, dict(zip(ROLES, map(float, constants), strict=True)))
    if soft or magnitude:
        labels = [label for record in segments.records for label in record.labels or [None] * len(record)]
        for at, label in enumerate(labels):
            if label is not None and label.role is not None:
                worth[at] = _of_label(label, float(worth[at]), constants, soft=soft, magnitude=magnitude)
    if caps is not None:
        for start, stop in segments.bounds:
            own = np.flatnonzero(segments.trained[start:stop]) + start
            worth[own] = capped(worth[own], [roles[at] for at in own], caps)
    return worth


def _of_label(label: RoleLabel, worth: float, constants: Sequence[float], *, soft: bool, magnitude: bool) -> float:
    total = sum(label.probabilities or ())
    if soft and label.probabilities is not None and total > 0.0:
        # Divided first: of the smallest numbers there are, products round to twice of what they should be.
        worth = sum(p / total * c for p, c in zip(label.probabilities, constants, strict=True))
    return worth * label.magnitude if magnitude else worth


def capped(
    worth: NDArray[np.float64], roles: Sequence[Role | None], caps: Sequence[float] = CAPS
) -> NDArray[np.float64]:
    """The worths of one attempt's segments, bounded as the module says.

    Args:
        worth: In order, NaN for unjudged ones.
        roles: Their roles.
        caps: Most of D, E and R.
    """
    bounded = worth.copy()
    made_up, errors = _pairs(bounded, roles)
    lost = errors - float(bounded[made_up].sum())
    _scale(bounded, made_up, max(0.0, min(errors, caps[2]) - min(lost, caps[2])))
    for role, cap in zip(_CAPPED, caps, strict=True):
        _scale(bounded, [at for at, found in enumerate(roles) if found == role], cap)
    return bounded


def _pairs(worth: NDArray[np.float64], roles: Sequence[Role | None]) -> tuple[list[int], float]:
    """Bounds each D that makes up for an R by it; those D, and the cost of all R."""
    waiting: list[float] = []
    made_up: list[int] = []
    errors = 0.0
    for at, role in enumerate(roles):
        if role == "R" and worth[at] < 0.0:
            waiting.append(-float(worth[at]))
            errors += waiting[-1]
        elif role == "D" and worth[at] > 0.0 and waiting:
            worth[at] = min(float(worth[at]), waiting.pop(0))
            made_up.append(at)
    return made_up, errors


def _scale(worth: NDArray[np.float64], places: Sequence[int], most: float) -> None:
    """Bring the sum of |worth| at ``places`` down to ``most``, all by the same factor."""
    total = float(np.abs(worth[places]).sum()) if places else 0.0
    if total > most:
        worth[places] *= most / total
