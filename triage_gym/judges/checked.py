"""Facts beat words: what a judge says of a turn is overruled where the environment, or the plain text, rules it out.

============================================  ==========  ===============================================================
known of the turn                             ruled out   said instead
============================================  ==========  ===============================================================
``changed`` is False, ``learnt`` is True      D           E
``changed`` is False, ``learnt`` is False     D, E        R when the turn repeats one with the same answer, else N
``changed`` is False, ``learnt`` not known    D           E when the answer holds a new word, else as above
``changed`` not known, the observation after  D           R when the turn repeats one with the same answer, else N
the action is the one before it
============================================  ==========  ===============================================================

A lenient judge, or one that was talked into it, can then pay no action that did nothing. What a judge says is never made
better, and R and N stand as they are. Left to you: an environment whose facts are true (:mod:`triage_gym.facts`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar, final

from triage_gym.facts import FactName
from triage_gym.judges.labelling import MAX_WHY
from triage_gym.judges.nesting import Nested, Spec, ask
from triage_gym.judges.plain import is_repeated, is_unchanged, new_words
from triage_gym.protocols import Window
from triage_gym.records import ROLES, Role, RoleLabel


@final
class CheckedJudge(Nested):
    """Labels of the judge within, overruled by what is known of the turn. ``usage`` counts them as ``overruled``.

    The label says in ``why`` what overruled it and what the judge had said. Roles that are ruled out lose their
    probability to the others, in labels that stand too, so that soft roles pay nothing for them.

    Args:
        of: The judge to ask.

    Raises:
        InputError: For a spec that names no judge.
    """

    name: ClassVar[str] = "checked"
    own_facts: ClassVar[tuple[FactName, ...]] = ("changed", "learnt")

    def __init__(self, of: Spec) -> None:
        super().__init__([of], counts=("overruled",))

    def labels(self, windows: Sequence[Window], sample: int) -> list[RoleLabel]:
        """One label a window, in order."""
        return [self._checked(w, label) for w, label in zip(windows, ask(self.judges[0], windows, sample), strict=True)]

    def _checked(self, window: Window, label: RoleLabel) -> RoleLabel:
        ruled_out, instead, reason = known_of(window)
        if label.role is None or not ruled_out:
            return label
        overruled = label.role in ruled_out
        role = instead if overruled else label.role
        why = label.why
        if overruled:
            self.count("overruled")
            why = f"{reason}, so it is no {label.role}; the judge said: {why}"[:MAX_WHY]
        return RoleLabel(
            label.step,
            role,
            1.0 if overruled else label.confidence,
            _without(label.probabilities, ruled_out, role),
            why,
            label.source,
            label.status,
            # A small D is a small E: all of an E would be worth more than was said.
            1.0 if overruled and role != "E" else label.magnitude,
        )


def known_of(window: Window) -> tuple[tuple[Role, ...], Role, str]:
    """The roles that facts or text rule out, the role that a turn with one of them gets, and the reason in words."""
    facts = window.facts
    idle: Role = "R" if is_repeated(window) else "N"
    if facts is None or facts.changed is None:
        return (("D",) if is_unchanged(window) else ()), idle, "the observation is the same as before"
    if facts.changed:
        return (), idle, ""
    if facts.learnt is None:
        return ("D",), "E" if new_words(window) else idle, "the state of the task did not change"
    if facts.learnt:
        return ("D",), "E", "the state of the task did not change"
    return ("D", "E"), idle, "the state of the task did not change and nothing was learnt"


def _without(
    probabilities: tuple[float, float, float, float] | None, ruled_out: Collection[Role], role: Role
) -> tuple[float, float, float, float] | None:
    """``probabilities`` with none for what is ruled out; all for ``role`` where nothing is left."""
    if probabilities is None:
        return None
    left = [0.0 if name in ruled_out else p for name, p in zip(ROLES, probabilities, strict=True)]
    total = sum(left)
    if total <= 0.0:
        left, total = [float(name == role) for name in ROLES], 1.0
    return left[0] / total, left[1] / total, left[2] / total, left[3] / total
