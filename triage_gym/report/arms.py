"""How the arms of a comparison are named, explained and told apart on the page."""

from __future__ import annotations

from typing import Final

from triage_gym.report.model import Arm

KNOWN: Final[tuple[Arm, ...]] = (
    Arm("grpo", "GRPO", "The outcome, compared within the group, on every segment alike."),
    Arm("grpo+whiten", "GRPO + whitening", "GRPO, then standardised over all segments of the batch."),
    Arm("rloo", "RLOO", "The outcome minus the mean of the other members of the group."),
    Arm("rloo+whiten", "RLOO + whitening", "RLOO, then standardised over all segments of the batch."),
    Arm("scalar", "Scalar", "The same judge, but one good-or-bad score in place of four roles."),
    Arm("triage", "TRIAGE", "The outcome plus a correction by the role of each segment, then whitened."),
    Arm(
        "triage-shuffled",
        "TRIAGE, roles shuffled",
        "Control: the same roles, dealt to the wrong segments of the same episode.",
        control=True,
    ),
    Arm("roles-only", "Roles only", "Control: the roles without any outcome.", control=True),
)
_BY_NAME: Final = {arm.name: arm for arm in KNOWN}
_SLOTS: Final = {"grpo": 0, "grpo+whiten": 1, "scalar": 2, "triage": 3, "triage-shuffled": 4, "roles-only": 5}
SLOTS: Final = 8
"""Line styles that the style sheet has; further arms take the last one."""


def describe(name: str) -> Arm:
    """The arm written as ``name`` in a config; an unknown one is shown by its name."""
    return _BY_NAME.get(name, Arm(name, name))


def order(names: list[str]) -> list[str]:
    """Arms in the order of the page: outcome only, scalar, TRIAGE, controls, then others by name."""
    place = {arm.name: i for i, arm in enumerate(KNOWN)}
    return sorted(names, key=lambda name: (place.get(name, len(place)), name))


def slot(name: str, names: list[str]) -> int:
    """Number of the line style of arm ``name``; the well-known arms keep theirs in every report."""
    if name in _SLOTS:
        return _SLOTS[name]
    others = [n for n in order(names) if n not in _SLOTS]
    return min(len(_SLOTS) + others.index(name), SLOTS - 1)
