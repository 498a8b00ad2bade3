"""A judge whose doubtful labels are withheld, so that doubtful segments get the credit of the outcome alone.

What it leaves to you: a judge whose confidence means something. Rules always say 1.0; an ensemble's is the share of its
votes, which is better founded than a language model's word or its token probabilities; ``triage-gym judge audit`` shows how
far each can be believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, final

from triage_gym.credit.terms import check_number
from triage_gym.judges.labelling import MAX_WHY
from triage_gym.judges.nesting import Nested, Spec, ask
from triage_gym.protocols import Window
from triage_gym.records import RoleLabel


@final
class ThresholdJudge(Nested):
    """Labels of the judge within, ``unsure`` where its confidence is too low. ``usage`` counts them as ``withheld``.

    Args:
        of: The judge to ask.
        least: Lowest confidence that counts, in [0, 1].

    Raises:
        InputError: For ``least`` outside of [0, 1].
    """

    name: ClassVar[str] = "threshold"

    def __init__(self, of: Spec, least: float = 0.7) -> None:
        check_number("least", least, least=0.0, most=1.0)
        super().__init__([of], {"least": float(least)}, ("withheld",))
        self._least = float(least)

    def labels(self, windows: Sequence[Window], sample: int) -> list[RoleLabel]:
        """One label a window, in order."""
        answers = [self._held(label) for label in ask(self.judges[0], windows, sample)]
        return answers

    def _held(self, label: RoleLabel) -> RoleLabel:
        if label.role is None or label.confidence >= self._least:
            return label
        self.count("withheld")
        why = f"withheld: {label.role} at {label.confidence:.3g} is below {self._least:g}; {label.why}"[:MAX_WHY]
        return RoleLabel(
            label.step, None, label.confidence, label.probabilities, why, label.source, "unsure", label.magnitude
        )
