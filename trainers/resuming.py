"""What may differ when a run goes on: a judge's budget is no reason to begin anew.

A resumed run equals one that was not stopped as long as the same things decide what is learnt. Of the judge those are its
labels, which depend on its ``identity`` (:mod:`triage_gym.judges.nesting`) and not on where it is asked, for how long, or
what it may cost. Who only looks on decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from triage_gym.errors import TriageGymError
from triage_gym.judges import nesting
from triage_gym.trainers.config import TrainConfig

STOPS: Final = ("judge_failures",)
"""Settings that decide when a run stops, and nothing of what it learns."""
LOOKS_ON: Final = ("second_judge", "monitor_every")
"""Settings of who is compared and never learnt from."""
HINT: Final = "of a judge only what its labels do not depend on may change: budget, address, patience"


def refused(old: TrainConfig, new: TrainConfig, allow: Sequence[str] = ()) -> list[str]:
    """Names of the fields whose change makes it another run.

    Args:
        old: The run so far, resolved.
        new: The run as it is to go on, resolved.
        allow: Fields that may change all the same.
    """
    free = (*STOPS, *LOOKS_ON, *allow)
    changed = [name for name in old.changed(new) if name not in free]
    if "judge" in changed and same_labels(old.judge, new.judge):
        changed.remove("judge")
    return changed


def same_labels(one: Any, other: Any) -> bool:
    """Whether two specs of judges give the same labels, which both must be able to say of themselves."""
    try:
        judges = [nesting.inner(spec) for spec in (one, other)]
    except TriageGymError:
        return False
    try:
        first, second = (nesting.identity_of(judge) for judge in judges)
        return bool(first == second)
    except TriageGymError:
        return False
    finally:
        nesting.close(*judges)
