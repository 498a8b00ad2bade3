"""Several judges, or several answers of one, that vote: what most say, how many said it, and no label where they differ.

The share of the votes is the confidence, a measure of doubt that needs nothing from inside a model. With ``votes`` above 1
each judge is asked that often, from the second time on with the turns of each attempt in another order, since a model's
answer about a turn depends on what stands around it in a prompt; order and answers repeat from run to run. A judge that asks
about consecutive turns in one prompt finds none in such an order and asks one by one: ``shuffle=False`` leaves it its batches.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Final, final

from triage_gym.credit.terms import check_number
from triage_gym.errors import InputError
from triage_gym.judges.labelling import MAX_WHY
from triage_gym.judges.nesting import Nested, Spec, ask, attempts_of, selection_of
from triage_gym.protocols import Judge, Window
from triage_gym.records import ROLES, LabelStatus, RoleLabel

MAX_VOTES: Final = 100
_SAID: Final = 120
"""Characters of each voter's reason in the ensemble's."""


@final
class EnsembleJudge(Nested):
    """The role that most voters say; ``unsure`` on a tie, or when fewer than ``agree`` of them say it.

    A voter who failed, was not asked or was unsure leaves the vote. When none is left the label is ``failed``, or, when
    nobody failed, ``unsure``. Probabilities are the shares of the votes, the confidence that of the winner, the magnitude
    the mean over those who voted for it. ``usage`` counts ``votes`` and, of the segments with two or more of them, those
    that were ``unanimous`` or ``contested``; ``undecided`` got no role.

    Args:
        of: The judges.
        votes: Answers of each judge. More: finer shares, and as many times the cost. A judge with a method ``sample`` gives
            another answer each time; one without differs by the order of the turns alone, if at all.
        agree: Least share of the votes that a role needs, in (0, 1]; None for more than any other role has.
        least_votes: Votes without which no role counts.
        shuffle: Whether votes after the first are asked for in another order.
        seed: Of the orders.

    Raises:
        InputError: For no judges, one that selects turns (the selection belongs around the ensemble), or a number out of
            range.
    """

    name: ClassVar[str] = "ensemble"

    def __init__(
        self,
        of: Sequence[Spec],
        votes: int = 1,
        agree: float | None = None,
        least_votes: int = 1,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        if isinstance(of, str) or not isinstance(of, Sequence) or not of:
            raise InputError(f"Expected `of` to be a list of judges, got {of!r:.80}")
        for name, value, least in (("votes", votes, 1), ("least_votes", least_votes, 1), ("seed", seed, 0)):
            if type(value) is not int or value < least:
                raise InputError(f"Expected `{name}` to be an integer of at least {least}, got {value!r}")
        if votes > MAX_VOTES or least_votes > votes * len(of):
            raise InputError(
                f"Expected at most {MAX_VOTES} `votes` and no more `least_votes` than there are, got {votes} from each of "
                f"{len(of)} and {least_votes}"
            )
        if not isinstance(shuffle, bool):
            raise InputError(f"Expected `shuffle` to be True or False, got {shuffle!r}")
        if agree is not None:
            check_number("agree", agree, above=0.0, most=1.0)
        options = {"votes": votes, "agree": agree, "least_votes": least_votes, "shuffle": shuffle, "seed": seed}
        super().__init__(of, options, ("votes", "unanimous", "contested", "undecided"))
        for judge in self.judges:
            if selection_of(judge) is not None:
                raise InputError(
                    f"Expected judges that label every window, got {type(judge).__name__}, which selects; put it around the "
                    'ensemble: {"name": "selective", "of": {"name": "ensemble", …}}'
                )
        self._votes, self._agree, self._least = votes, agree, least_votes
        self._shuffle, self._seed = shuffle, seed

    def labels(self, windows: Sequence[Window], sample: int) -> list[RoleLabel]:
        """One label a window, in order."""
        rounds = [
            self._round(judge, windows, sample * self._votes + vote)
            for judge in self.judges
            for vote in range(self._votes)
        ]
        return [self._decided(window.step, said) for window, *said in zip(windows, *rounds, strict=True)]

    def _round(self, judge: Judge, windows: Sequence[Window], number: int) -> list[RoleLabel]:
        """The answers of one judge, asked in the order of this round."""
        order = list(range(len(windows)))
        if number and self._shuffle:
            dice, start = random.Random(f"{self._seed}:{number}"), 0
            for run in attempts_of(windows):
                part = order[start : start + len(run)]
                dice.shuffle(part)
                order[start : start + len(run)] = part
                start += len(run)
        answers = ask(judge, [windows[at] for at in order], number)
        return [answer for _, answer in sorted(zip(order, answers, strict=True), key=lambda pair: pair[0])]

    def _decided(self, step: int, said: Sequence[RoleLabel]) -> RoleLabel:
        voted = [label for label in said if label.role is not None]
        self.count("votes", len(voted))
        if not voted:
            self.count("undecided")
            status: LabelStatus = "failed" if any(label.status == "failed" for label in said) else "unsure"
            reasons = "; ".join(dict.fromkeys(label.why[:_SAID] for label in said))
            return RoleLabel(step, None, why=f"nobody voted: {reasons}"[:MAX_WHY], source=self.name, status=status)
        count = Counter(label.role for label in voted)
        if len(voted) > 1:
            self.count("unanimous" if len(count) == 1 else "contested")
        shares = [count[role] / len(voted) for role in ROLES]
        best = max(shares)
        winner = ROLES[shares.index(best)]
        needed = 0.0 if self._agree is None else self._agree
        why = _tally(said)
        probabilities = (shares[0], shares[1], shares[2], shares[3])
        if shares.count(best) > 1 or best < needed or len(voted) < self._least:
            self.count("undecided")
            return RoleLabel(step, None, best, probabilities, f"no agreement: {why}"[:MAX_WHY], self.name, "unsure")
        sizes = [label.magnitude for label in voted if label.role == winner]
        magnitude = min(1.0, sum(sizes) / len(sizes))
        return RoleLabel(step, winner, best, probabilities, why[:MAX_WHY], self.name, "judged", magnitude)


def _tally(said: Sequence[RoleLabel]) -> str:
    """Who said what, those with the same answer and reason together."""
    grouped = Counter((label.role or label.status, label.source, label.why[:_SAID]) for label in said)
    return "; ".join(f"{count} x {role} ({source}: {why})" for (role, source, why), count in grouped.items())
