"""A judge that is wrong in a known way, to find out how good a judge must be before roles help.

``read_as`` is a bias: every label of one role becomes another one, as by a judge that takes repeated looking for
exploration (``{"R": "E"}``, what the TRIAGE paper, arXiv:2606.32017, saw of a judge that does not think). ``noise`` errs
without aim. ``triage-gym reproduce --table ablation`` and ``triage-gym credit sensitivity`` train with such judges.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, final
from zlib import crc32

from triage_gym.credit.terms import check_number
from triage_gym.errors import InputError
from triage_gym.judges.nesting import Nested, Spec, ask
from triage_gym.protocols import Window
from triage_gym.records import ROLES, Role, RoleLabel

_STEPS: Final = 1 << 32


@final
class DistortedJudge(Nested):
    """Labels of the judge within, first read as others by ``read_as``, then exchanged at random by ``noise``.

    A role's probability goes where the role goes. A window alone decides its error, so runs repeat, whatever order
    windows are asked about in.

    Args:
        of: The judge to ask.
        read_as: What becomes of each role; roles that are left out stay.
        noise: Share of labels that are exchanged for one of the three other roles, each as likely.
        seed: Another seed, other errors.

    Raises:
        InputError: For an unknown role, or a share out of range.

    Example:
        ``{"name": "distorted", "of": "rule", "noise": 0.3}`` is right on 70 % of what the rules say;
        ``{"name": "distorted", "of": {"name": "rule", "domain": "generic"}, "read_as": {"R": "N"}}`` pays for what is new
        and for nothing else.
    """

    name: ClassVar[str] = "distorted"

    def __init__(self, of: Spec, read_as: Mapping[str, str] | None = None, noise: float = 0.0, seed: int = 0) -> None:
        check_number("noise", noise, least=0.0, most=1.0)
        if type(seed) is not int:
            raise InputError(f"Expected `seed` to be an integer, got {seed!r}")
        if read_as is not None and not isinstance(read_as, Mapping):
            raise InputError(f"Expected `read_as` to map roles to roles, got {read_as!r}")
        pairs = dict(read_as or {})
        if unknown := [role for pair in pairs.items() for role in pair if role not in ROLES]:
            raise InputError(f"Expected `read_as` to map roles out of {ROLES}, got {unknown[0]!r}")
        super().__init__([of], {"read_as": pairs, "noise": float(noise), "seed": seed}, ("exchanged",))
        self._becomes = [ROLES.index(pairs.get(role, role)) for role in ROLES]
        self._noise, self._seed = float(noise), seed

    def labels(self, windows: Sequence[Window], sample: int) -> list[RoleLabel]:
        """One label a window, in order."""
        return [self._bent(w, x) for w, x in zip(windows, ask(self.judges[0], windows, sample), strict=True)]

    def _bent(self, window: Window, label: RoleLabel) -> RoleLabel:
        if label.role is None:
            return label
        read = _read_as(label, self._becomes)
        other = exchanged(window, read.role, self._noise, self._seed)
        if other is not None:
            read = _read_as(read, _swap(read.role, other))
        if read.role == label.role:
            return read
        self.count("exchanged")
        return replace(read, why=f"distorted from {label.role}", source=f"{label.source}:{self.name}")


def exchanged(window: Window, role: Role | None, noise: float, seed: int) -> Role | None:
    """The role that one is exchanged for, drawn from the text of the window; None where it stays.

    Args:
        window: What is judged.
        role: What it is called.
        noise: Chance that it is exchanged, in [0, 1].
        seed: Tells draws apart.
    """
    if not noise or role is None:
        return None
    seen = json.dumps([seed, window.task, window.step, window.action, window.observation, window.earlier_actions])
    draw = crc32(seen.encode())
    others = [other for other in ROLES if other != role]
    return others[draw % len(others)] if draw < noise * _STEPS else None


def _swap(role: Role | None, other: Role) -> list[int]:
    """Where the places of ROLES go when two roles change places."""
    return [ROLES.index({role: other, other: role}.get(name, name)) for name in ROLES]


def _read_as(label: RoleLabel, becomes: Sequence[int]) -> RoleLabel:
    """The label with each role, and its probability, read as another one."""
    assert label.role is not None
    probabilities = label.probabilities
    if probabilities is not None:
        moved = [0.0] * len(ROLES)
        for place, p in zip(becomes, probabilities, strict=True):
            moved[place] += p
        probabilities = (moved[0], moved[1], moved[2], moved[3])
    return replace(label, role=ROLES[becomes[ROLES.index(label.role)]], probabilities=probabilities)
