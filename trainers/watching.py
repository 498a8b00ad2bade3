"""Everything that is watched while a run trains, and what of it a line of ``metrics.jsonl`` says.

The warnings of single updates (:class:`~triage_gym.trainers.metrics.Watch`) and the alarms about the judge
(:mod:`triage_gym.trainers.monitors`), with the askings of other judges that these need. Where the credit rule reads no
labels there are no alarms: nobody is paid by the judge. Others are asked before anything is learnt, so that an update whose
asking is cut short has not been.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from triage_gym.credit import worths
from triage_gym.protocols import CreditRule
from triage_gym.records import EpisodeRecord
from triage_gym.trainers import metrics
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.judging import Judging, Opinions
from triage_gym.trainers.monitors import Monitors
from triage_gym.trainers.randomness import stream
from triage_gym.trainers.sums import counted

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
        self._monitors = Monitors(worths(rule), config.groups_per_update, by_rules=judging.is_rule)
        self._options = {name for name in ("soft", "magnitude") if getattr(rule, name, False)}
        self._opinions: dict[str, Opinions] = {}

    def ask(self, update: int, records: Sequence[EpisodeRecord]) -> None:
        """Ask other judges about a sample of the labelled batch of ``update``, each when it is due."""
        self._opinions = {}
        if not self._judging.matters:
            return
        due = {"rule_disagreement": self._judging.by_rules}
        if (update - 1) % self._config.monitor_every == 0:
            due["second_judge_disagreement"] = self._judging.by_second
        for alarm, ask in due.items():
            draw = stream(self._config.seed, f"asking the {_ASKINGS[alarm]} judge", update)
            self._opinions[alarm] = ask(records, draw, self._outcome_text)

    @property
    def second_why(self) -> str:
        """Why the second judge gave no label, where it gave none in this update."""
        found = self._opinions.get("second_judge_disagreement")
        return found.why if found is not None else ""

    def look(self, row: Mapping[str, Any], records: Sequence[EpisodeRecord]) -> dict[str, Any]:
        """Take up an update.

        Args:
            row: Its line of ``metrics.jsonl`` so far.
            records: The labelled attempts of its batch, about which :meth:`ask` has asked others.

        Returns:
            What the line also holds: what the judge pays, how it agrees with others, and ``warnings``.
        """
        others = self._others()
        why = self.second_why
        began = self._watch.look({**row, **others}, why, **self._idle(records))
        if not self._judging.matters:
            return {"warnings": began}
        sums = counted(records)
        found: dict[str, Any] = {"role_credit": self._monitors.credit(sums), **others}
        alarms = self._monitors.look(sums)
        metrics.warn(alarms, row)
        return {**found, "warnings": [*began, *alarms]}

    def _others(self) -> dict[str, float]:
        """What the opinions of others come to."""
        found: dict[str, float] = {}
        for alarm, opinions in self._opinions.items():
            name = _ASKINGS[alarm]
            if name == "second" and opinions.silent is not None:
                found["second_failed"] = opinions.silent
            if opinions.pairs:
                agreed, surplus = self._monitors.beside[alarm].add(opinions.pairs)
                found |= {f"{name}_agreement": agreed, f"{name}_surplus": surplus}
        return found

    def _idle(self, records: Sequence[EpisodeRecord]) -> dict[str, bool]:
        """Which options of the credit rule the judge gives nothing for."""
        if not self._options:
            return {}
        judged = [x for r in records for x in r.labels[r.prefix_length :] if x.role is not None]
        return {
            "no_magnitudes": "magnitude" in self._options and all(x.magnitude == 1.0 for x in judged) and bool(judged),
            "no_probabilities": "soft" in self._options
            and all(x.probabilities is None for x in judged)
            and bool(judged),
        }

    def to_json(self) -> dict[str, Any]:
        """What the rest of a run depends on, as JSON."""
        return {"watch": self._watch.to_json(), "monitors": self._monitors.to_json()}

    def go_to(self, state: Mapping[str, Any]) -> None:
        """Go back to what :meth:`to_json` gave; a checkpoint of an older version begins its monitors anew.

        Raises:
            CheckpointError: When ``state`` does not fit.
        """
        self._watch.go_to(state["watch"])
        if "monitors" in state:
            self._monitors.go_to(state["monitors"])

    def forget_second(self) -> None:
        """Begin the comparison with the second judge anew: it is another one."""
        self._monitors.forget("second_judge_disagreement")
