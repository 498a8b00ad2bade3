"""Everything that is watched while a run trains, and what of it a line of ``metrics.jsonl`` says.

The warnings of single updates (:class:`~triage_gym.trainers.metrics.Watch`) and the alarms about the judge
(:mod:`triage_gym.trainers.monitors`), with the askings of other judges that these need. Where the credit rule reads no
labels there are no alarms: nobody is paid by the judge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from triage_gym.credit import worths
from triage_gym.protocols import CreditRule
from triage_gym.records import EpisodeRecord
from triage_gym.trainers import metrics
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.judging import Judging, Pair
from triage_gym.trainers.monitors import Monitors, counted
from triage_gym.trainers.randomness import stream

_ASKINGS: Final = {"rule_disagreement": "rule", "second_judge_disagreement": "second"}
"""What the numbers of a comparison begin with, by the alarm it is for."""


class Watching:
    """Watches a run.

    Args:
        config: The run, resolved.
        judging: Its judges.
        rule: Its credit rule.
        outcome_text: Literals that no judge may see.
    """

    def __init__(self, config: TrainConfig, judging: Judging, rule: CreditRule, outcome_text: Sequence[str]) -> None:
        self._config, self._judging, self._outcome_text = config, judging, outcome_text
        self._watch = metrics.Watch()
        self._monitors = Monitors(worths(rule), config.groups_per_update)

    def look(self, row: Mapping[str, Any], records: Sequence[EpisodeRecord]) -> dict[str, Any]:
        """Take up an update.

        Args:
            row: Its line of ``metrics.jsonl`` so far.
            records: The labelled attempts of its batch.

        Returns:
            What the line also holds: what the judge pays, how it agrees with others, and ``warnings``.
        """
        began = self._watch.look(row)
        if not self._judging.matters:
            return {"warnings": began}
        sums = counted(records)
        found: dict[str, Any] = {"role_credit": self._monitors.credit(sums), **self._others(row["update"], records)}
        alarms = self._monitors.look(sums)
        metrics.warn(alarms, row)
        return {**found, "warnings": [*began, *alarms]}

    def _others(self, update: int, records: Sequence[EpisodeRecord]) -> dict[str, float]:
        """Ask other judges about a sample of the batch, each when it is due."""
        due: dict[str, Callable[..., list[Pair]]] = {"rule_disagreement": self._judging.by_rules}
        if (update - 1) % self._config.monitor_every == 0:
            due["second_judge_disagreement"] = self._judging.by_second
        found: dict[str, float] = {}
        for alarm, ask in due.items():
            name = _ASKINGS[alarm]
            pairs = ask(records, stream(self._config.seed, f"asking the {name} judge", update), self._outcome_text)
            if pairs:
                agreed, surplus = self._monitors.beside[alarm].add(pairs)
                found |= {f"{name}_agreement": agreed, f"{name}_surplus": surplus}
        return found

    def to_json(self) -> dict[str, Any]:
        """What the rest of a run depends on, as JSON."""
        return {"watch": self._watch.active, "monitors": self._monitors.to_json()}

    def go_to(self, state: Mapping[str, Any]) -> None:
        """Go back to what :meth:`to_json` gave; a checkpoint of an older version begins its monitors anew.

        Raises:
            CheckpointError: When ``state`` does not fit.
        """
        self._watch.active = dict(state["watch"])
        if "monitors" in state:
            self._monitors.go_to(state["monitors"])
