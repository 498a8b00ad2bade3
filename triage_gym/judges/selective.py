"""Judge only where it pays: turns that may be repeats in successes, turns that may have told something in failures.

In a successful attempt the outcome already praises every turn, and what a judge adds is finding those that did nothing for
it; in a failed one it is finding what was worth doing all the same (TRIAGE, arXiv:2606.32017). All other turns keep the
credit of the outcome, or get the label of a cheap judge. Which turns are candidates is told from their text
(:func:`candidate`), so it costs nothing and asks nobody; how many calls that saves, and what it misses, measures
``benchmarks/judge_selective.py``.

The outcome decides *which* turns are judged; the judge does not learn it, not even by this: it sees the same windows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, Final, final

from triage_gym.errors import InputError
from triage_gym.judges.nesting import Nested, Select, Spec, ask, selection_of
from triage_gym.judges.plain import is_known, is_refused, is_repeated, is_unchanged, may_undo, new_names, new_words
from triage_gym.protocols import Window
from triage_gym.records import EpisodeRecord, RoleLabel
from triage_gym.windows import build_windows

SHOWN: Final = 5
"""Turns before a turn in which its like is looked for."""


@final
class SelectiveJudge(Nested):
    """Asks the judge within about :func:`candidate` turns alone. ``usage`` counts turns as ``selected`` or ``skipped``.

    Whoever labels whole attempts (the trainer, RoleJudgeWrapper with ``settle="episode"``) asks ``select`` first. Asked for
    labels without that, it has every window judged.

    Args:
        of: The judge to ask.
        per_attempt: Most turns of an attempt that it is asked about, the strongest candidates first; None for all.
        budget: Most turns in all, counted from when it was made (a resumed run counts anew); None for no limit.
        rest: A cheap judge for the other turns; None leaves them ``unjudged``.

    Raises:
        InputError: For a number below 0, or judges that select turns themselves.
    """

    name: ClassVar[str] = "selective"

    def __init__(
        self, of: Spec, per_attempt: int | None = None, budget: int | None = None, rest: Spec | None = None
    ) -> None:
        for name, value in (("per_attempt", per_attempt), ("budget", budget)):
            if value is not None and (type(value) is not int or value < 0):
                raise InputError(f"Expected `{name}` to be an integer of at least 0 or None, got {value!r}")
        options = {"per_attempt": per_attempt, "budget": budget}
        super().__init__([of] if rest is None else [of, rest], options, ("selected", "skipped", "without_selection"))
        for judge in self.judges:
            if selection_of(judge) is not None:
                raise InputError(f"Expected judges that label every window, got {type(judge).__name__}, which selects")
        self._per_attempt, self._budget = per_attempt, budget
        self._left = budget
        self._selected: deque[tuple[int, str, bool]] = deque()
        """With a judge for the rest, the turns that it was asked to select from and not yet to label, in order: step, action
        and whether it was selected."""

    @property
    def identity(self) -> Any:
        """That of the judge within; None with a judge for the rest, when labels depend on the outcome too."""
        return super().identity["of"][0] if len(self.judges) == 1 else None

    @property
    def select(self) -> Select:
        """The turns that the judge within is asked about, or, with a judge for the rest, all."""
        return self._select

    def _select(self, record: EpisodeRecord) -> list[int]:
        acted = range(record.prefix_length, len(record.segments))
        chosen = self._within_budget(candidates(record))
        self.count("selected", len(chosen))
        self.count("skipped", len(acted) - len(chosen))
        if len(self.judges) == 1:
            return sorted(chosen)
        self._selected += [(record.segments[at].index, record.segments[at].action, at in chosen) for at in acted]
        return list(acted)

    def _within_budget(self, found: Sequence[int]) -> set[int]:
        most = len(found) if self._per_attempt is None else min(self._per_attempt, len(found))
        if self._left is not None:
            most = min(most, self._left)
            self._left -= most
        return set(found[:most])

    def labels(self, windows: Sequence[Window], sample: int) -> list[RoleLabel]:
        """One label a window, in order: of the judge within where it was selected, of that for the rest elsewhere."""
        if len(self.judges) == 1:
            return ask(self.judges[0], windows, sample)
        costly = self._matched(windows)
        labels: list[RoleLabel | None] = [None] * len(windows)
        for judge, wanted in zip(self.judges, (True, False), strict=True):
            places = [at for at, chosen in enumerate(costly) if chosen is wanted]
            answers = ask(judge, [windows[at] for at in places], sample)
            for at, answer in zip(places, answers, strict=True):
                labels[at] = answer
        return [label for label in labels if label is not None]

    def _matched(self, windows: Sequence[Window]) -> list[bool]:
        """Whether each window was selected. They come in the order in which they were, in one call or several."""
        found: list[bool] = []
        while self._selected and len(found) < len(windows):
            window = windows[len(found)]
            step, action, chosen = self._selected.popleft()
            if (window.step, window.action) == (step, action):
                found.append(chosen)
        if len(found) < len(windows):
            self.count("without_selection", len(windows))
            return [True] * len(windows)
        return found


def candidates(record: EpisodeRecord) -> list[int]:
    """Positions of the turns worth a judge, the strongest candidates first and earlier ones before later."""
    acted = range(record.prefix_length, len(record.segments))
    windows = build_windows(record, SHOWN, 0, steps=acted) if acted else []
    strengths = [candidate(window, record.success) for window in windows]
    found = [(-strength, at) for strength, at in zip(strengths, acted, strict=True) if strength]
    return [at for _, at in sorted(found)]


def candidate(window: Window, success: bool) -> int:
    """How much the turn is worth a judge, 0 for not at all, by its text and how its attempt ended.

    In a success: 3 for a repetition (the same action with the same answer), 2 for an answer that was known, whatever it
    answers, and for an action that was done before, 1 for one that may undo another (its objects, another verb). In a
    failure: 2 for an answer that was not known and holds a new word, 1 for one that holds a new numbered thing.

    What it cannot see: damage that repeats nothing, such as a box pushed into a corner or the wrong thing bought, and news
    that has no words, such as another cell of a board.
    """
    if success:
        if is_repeated(window):
            return 3
        if is_known(window) or window.action in window.earlier_actions:
            return 2
        return int(may_undo(window))
    if is_known(window) or is_unchanged(window) or is_refused(window):
        return 0
    return 2 if new_words(window) else int(bool(new_names(window)))
