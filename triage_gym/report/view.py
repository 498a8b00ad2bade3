"""What the sections of a page share: names, line styles, numbers with their intervals."""

from __future__ import annotations

from typing import Final

from triage_gym.report.arms import slot
from triage_gym.report.markup import Markup, element
from triage_gym.report.model import Arm, Estimate, Report


def signed(value: float, digits: int) -> str:
    """A number with its sign and a real minus."""
    return ("−" if round(value, digits) < 0 else "+") + f"{abs(value):.{digits}f}"


WORSE: Final = {"higher": "lower", "shorter": "longer", "fewer": "more"}
"""What a difference is called that goes the wrong way, by what a good one is called."""


def count(e: Estimate, better: str) -> str:
    """``4 of 5 shorter``: seeds on the good side, or those on the bad side where the interval lies there."""
    good = e.positive if better == "higher" else e.negative
    bad = e.negative if better == "higher" else e.positive
    if e.excludes_zero and (e.mean > 0) != (better == "higher"):
        return f"{bad} of {len(e.values)} {WORSE[better]}"
    return f"{good} of {len(e.values)} {better}"


def number(e: Estimate | None, scale: float, digits: int, *, sign: bool = False) -> Markup:
    """``mean ± half width``, or a dash where nothing was measured.

    Args:
        e: What was measured.
        scale: Factor, such as 100 for per cents.
        digits: Decimals.
        sign: Whether a plus is written.
    """
    if e is None:
        return element("span", "–", class_="none")
    mean = signed(scale * e.mean, digits) if sign else f"{scale * e.mean:.{digits}f}"
    spread = None if e.half_width is None else f" ± {scale * e.half_width:.{digits}f}"
    return element("span", mean, element("span", spread, class_="pm") if spread else None)


def plain(e: Estimate | None, scale: float, digits: int, *, sign: bool = False, better: str = "") -> str:
    """Like :func:`number` as text; ``better`` names what a good difference is and appends its :func:`count`."""
    if e is None:
        return "–"
    text = signed(scale * e.mean, digits) if sign else f"{scale * e.mean:.{digits}f}"
    if e.half_width is not None:
        text += f" ± {scale * e.half_width:.{digits}f}"
    if better:
        text += f" ({count(e, better)})"
    return text


class View:
    """A report with the look of its arms.

    Args:
        report: What is shown.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.names = [arm.name for arm in report.arms]
        self.arms: dict[str, Arm] = {arm.name: arm for arm in report.arms}
        self.slots = {name: slot(name, self.names) for name in self.names}

    def label(self, arm: str) -> str:
        """The arm as a reader sees it."""
        return self.arms[arm].label

    def key(self, arm: str) -> Markup:
        """A piece of the arm's line."""
        line = element("line", x1="0", x2="22", y1="6", y2="6", class_=f"line arm-{self.slots[arm]}")
        return element("svg", line, class_="key", viewBox="0 0 22 10", aria_hidden="true")

    def name(self, arm: str) -> list[Markup | str]:
        """Key, label and a tag for controls."""
        tag = element("span", "control", class_="tag") if self.arms[arm].control else ""
        return [self.key(arm), self.label(arm), tag]
