"""The farming guard: switches roles off when a policy explores for its judge and not for its task. Counts only; no torch.

Role farming is a trap without a way out. Where no group has outcomes that differ, roles alone teach, and whitening divides
them by their own spread, so that λ cancels, however small. A policy that is paid for exploring then learns to do nothing
else, solves nothing, and so no outcome ever contradicts its judge. Capping what an attempt collects for E changes nothing
about that, and neither does paying less for E once all turns are E: equal advantages teach nothing. What helps is to go back.

The guard looks at windows of at least :data:`WINDOW` updates and :data:`ATTEMPTS_LEAST` attempts::

    watching  --  E > .85 of the judged turns and success <= .02      -->  stepped in
    stepped in --  success >= max(.2, twice the best before), once    -->  watching

Stepping in, it goes back to the weights that had the most success in a window (those of the start, where there was none)
and leaves the role term out, which makes TRIAGE whitened GRPO. Once success is back roles count again. Should they be farmed
a second time, the guard steps in for the rest of the run. It looks at no clock and draws nothing: equal runs have equal
guards, and while it only watches, a run is the same as without.

Worked example, windows of four updates with 64 attempts each: four updates with E .9, .95, 1.0, 1.0 and successes
3, 1, 0, 0 make E .96 and success 4/256 = .016, and it steps in after the fourth. From there on the window begins anew.
"""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, Literal

from triage_gym.credit import needs_labels
from triage_gym.credit.controls import RolesOnly
from triage_gym.errors import CheckpointError
from triage_gym.protocols import CreditRule
from triage_gym.records import ROLES
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.sums import ATTEMPTS, JUDGED, ROLE, SUCCESSES, Sums

WINDOW: Final = 4
"""Updates of a window."""
ATTEMPTS_LEAST: Final = 256
"""Attempts of a window, for which it is made longer."""
FARMED: Final = 0.85
"""Share of E among judged turns above which exploring may be all that is learnt."""
NEXT_TO_NOTHING: Final = 0.02
"""Success up to which it is."""
BACK: Final = 0.2
"""Success at which roles count again, or :data:`BETTER` times the best before if that is more."""
BETTER: Final = 2.0
_MOST: Final = 0.9
_EXPLORED: Final = ROLE[ROLES.index("E")]
Move = Literal["keep", "go back"]
"""What to do with the weights: ``keep`` those that acted as the best so far, or ``go back`` to the best."""


class FarmingGuard:
    """Watches the batches of one run.

    Args:
        attempts: Attempts an update, at least.
    """

    def __init__(self, attempts: int) -> None:
        self._recent: deque[Sums] = deque(maxlen=max(WINDOW, math.ceil(ATTEMPTS_LEAST / attempts)))
        self._best = self._needed = 0.0
        self._times = 0
        self.since: int | None = None
        """Update from which on it has been stepped in; None while it watches."""

    def look(self, update: int, batch: Sums) -> Move | None:
        """Take up the batch of ``update``, before anything is learnt from it; what to do with the weights, if anything.

        ``keep`` is for the weights that acted in the batch, ``go back`` for after what the batch teaches.
        """
        self._recent.append(batch)
        if len(self._recent) < (self._recent.maxlen or 0):
            return None
        window = sum(list(self._recent)[1:], start=self._recent[0])
        solved = window.ratio(SUCCESSES, ATTEMPTS)[0]
        explored = window.ratio(_EXPLORED, JUDGED)[0]  # 0 where nothing was judged
        if self.since is None and explored > FARMED and solved <= NEXT_TO_NOTHING:
            self.since, self._times = update, self._times + 1
            self._needed = min(_MOST, max(BACK, BETTER * self._best))
            self._recent.clear()  # what comes is another policy's
            return "go back"
        if self.since is not None and self._times == 1 and solved >= self._needed:
            self.since = None
        if solved > self._best:
            self._best = solved
            return "keep"
        return None

    def row(self) -> dict[str, Any]:
        """What a line of ``metrics.jsonl`` says of it."""
        return {"guard": self.since is not None, "guard_since": self.since}

    def to_json(self) -> dict[str, Any]:
        """What :meth:`go_to` reads back."""
        return {
            "recent": [sums.to_json() for sums in self._recent],
            "best": self._best,
            "needed": self._needed,
            "times": self._times,
            "since": self.since,
        }

    def go_to(self, state: Mapping[str, Any]) -> None:
        """Go back to what :meth:`to_json` gave.

        Raises:
            CheckpointError: When ``state`` is none of that.
        """
        try:
            recent = [Sums.from_json(sums) for sums in state["recent"]]
            best, needed, times = float(state["best"]), float(state["needed"]), int(state["times"])
            since = None if state["since"] is None else int(state["since"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"Expected the state of the farming guard in the checkpoint, got: {error!r}"
            ) from error
        self._recent.clear()
        self._recent.extend(recent)
        self._best, self._needed, self._times, self.since = best, needed, times, since


def applies(config: TrainConfig, rule: CreditRule) -> bool:
    """Whether a run has a guard: unless it is off, where the credit rule adds a role term with a weight ``lam`` to outcomes.

    Not ``roles-only``, which would be left with nothing, and no rule of the user's own, which nobody else can take roles from.
    """
    if config.farming_guard == "off" or not needs_labels(rule) or isinstance(rule, RolesOnly):
        return False
    found: Any = rule
    return dataclasses.is_dataclass(found) and float(getattr(found, "lam", 0.0)) > 0.0


def without_roles(rule: CreditRule) -> CreditRule:
    """The same rule without its role term, for a rule that :func:`applies` is true of."""
    found: Any = rule
    bare: CreditRule = dataclasses.replace(found, lam=0.0)
    return bare
