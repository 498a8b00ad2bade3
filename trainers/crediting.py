"""How a run turns batches into advantages: its credit rule, and whatever moves that rule while it trains.

Three things may. An audit before training (:mod:`triage_gym.trainers.auditing`) fits constants or switches roles off;
``triage-online`` moves its constants by the pairs of earlier updates (:mod:`triage_gym.credit.online`); the farming guard
(:mod:`triage_gym.trainers.farming`) leaves roles out while a policy farms its judge. Where none applies, the rule is the
config's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from triage_gym.credit.online import RoleWorths, TriageOnline, pairs_of
from triage_gym.protocols import CreditRule
from triage_gym.records import EpisodeRecord
from triage_gym.trainers import auditing
from triage_gym.trainers.advantages import checked
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.farming import FarmingGuard, Move, applies, without_roles
from triage_gym.trainers.sums import counted


class Crediting:
    """The credit of one run.

    Args:
        config: The run, resolved.
    """

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        self.rule: CreditRule = config.credit_rule()
        """The config's, or what an audit made of it."""
        self.audited: auditing.Audited | None = None
        self._guard = FarmingGuard(config.groups_per_update * config.group_size)
        self._worths = RoleWorths(self.rule) if isinstance(self.rule, TriageOnline) else None

    @property
    def guarded(self) -> bool:
        """Whether the farming guard watches."""
        return applies(self._config, self.rule)

    def take(self, found: auditing.Audited) -> None:
        """Go by an audit from here on."""
        self.audited = found
        self.rule = auditing.applied(self.rule, found)
        if found.roles_off:
            self._worths = None

    def look(self, update: int, records: Sequence[EpisodeRecord]) -> Move | None:
        """Let the farming guard look at a batch, before it is credited; what it wants of the weights."""
        return self._guard.look(update, counted(records)) if self.guarded else None

    def advantages(self, records: Sequence[EpisodeRecord]) -> list[NDArray[Any]]:
        """Those of a batch, one array a record.

        Raises:
            InputError: When the rule answers in another form.
        """
        # By the pairs of earlier updates: those of this one have a part in the outcomes that it is credited with.
        rule = self.rule if self._worths is None else self._worths.rule()
        rule = rule if self._guard.since is None else without_roles(rule)
        found = checked(self._config.credit, rule(records), records)
        if self._worths is not None:
            self._worths.add(pairs_of(records))
        return found

    def row(self) -> dict[str, Any]:
        """What a line of ``metrics.jsonl`` says of it."""
        return {
            **({} if self.audited is None else {"roles_off": self.audited.roles_off}),
            **({} if self._worths is None else self._worths.metrics()),
            **(self._guard.row() if self.guarded else {}),
        }

    def to_json(self) -> dict[str, Any]:
        """What the rest of a run depends on, as JSON."""
        return {
            "farming": self._guard.to_json(),
            "audit": None if self.audited is None else self.audited.to_json(),
            "worths": None if self._worths is None else self._worths.to_json(),
        }

    def go_to(self, state: Mapping[str, Any]) -> None:
        """Go back to what :meth:`to_json` gave; checkpoints of older versions lack parts of it.

        Raises:
            CheckpointError: When ``state`` does not fit.
        """
        if "farming" in state:
            self._guard.go_to(state["farming"])
        if state.get("audit") is not None:
            self.take(auditing.Audited.from_json(state["audit"]))
        if self._worths is not None:
            self._worths.go_to(state.get("worths"))
