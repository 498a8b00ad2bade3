"""Monitors: say early that a run is being led by its judge and not by its task. Statistics of counts; no torch, no judge.

A policy that learns from roles also learns what its judge has a weakness for (CHERRL calls it reward hacking of the judge).
In a sound run the role mix changes too, since the policy gets better; so nothing is held against the start of the run
alone. The question is always: *is there an earlier time at which the policy solved as much as now, and was judged
otherwise?* The alarms (:data:`ALARMS`):

- ``reward_without_return``: the judge pays a turn more than at an earlier time with at least as many successes a turn;
- ``role_drift``: no earlier time with about as many successes a turn, of which there are several, had a role mix like this;
- ``longer_attempts``: attempts take more turns, paid no less, than at an earlier time with at least as many successes an
  attempt;
- ``rule_disagreement``: beside the rule judge, where that is another one, the judge has become more generous or agrees
  less than in its first updates, or is far more generous;
- ``second_judge_disagreement``: beside the held-out second judge it agrees less than at first, or is far more generous.

Such a comparison cannot see a judge that was bad from the start, which three alarms are for:

- ``judge_unlike_rules``: in its first updates it agrees with the rule judge no better than chance (Cohen's kappa);
- ``no_labels``: it labels next to nothing, whatever the reason;
- ``one_role``: it has said next to nothing but one role since the run began, and the rules say otherwise or have no say.

Times are windows of :data:`WINDOW` updates (more where updates have few groups). Tasks differ far more than attempts at one
of them, so spreads are taken between groups, and between attempts where two judges are compared, as for ratios of sums over
clusters; an alarm needs an effect that matters and
that is a multiple of its standard error, and ends when the effect has halved. It began counts, once each time. What a
window is compared with needs some successes: before, roles alone may lead to sub-goals, and nothing is there to be lost.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from triage_gym.errors import CheckpointError
from triage_gym.records import ROLES, Role
from triage_gym.trainers.sums import ATTEMPTS, JUDGED, PAIRS, ROLE, SUCCESSES, TURNS, Numbers, Sums, paired

ALARMS: Final = {
    "reward_without_return": "the judge pays a turn more than it did when the policy solved at least as much a turn: the "
    "policy may be learning what the judge likes. Look at the traces for what is rewarded; a smaller `lam`, +guard or "
    "another judge prevents it",
    "role_drift": "the role mix is like none at an earlier time with as much success: the judge, or what the policy does "
    "to please it, has changed. Look at the traces",
    "longer_attempts": "attempts take more turns than at an earlier time with as much success: turns may be spent, or cut "
    "smaller, to be paid for. Look at the traces",
    "rule_disagreement": "the judge has moved away from what the rule judge says of the same segments, or is far more "
    "generous. Look at where they differ (triage-gym judge audit)",
    "judge_unlike_rules": "the judge agrees with the rule judge no better than chance, from the start: one of them does not "
    "judge what the roles mean. Look at where they differ (triage-gym judge audit) before you train on",
    "no_labels": "next to no turn has a label, so that roles teach nothing. Look in the report at what is failed, withheld or "
    "not asked about",
    "one_role": "the judge has called almost every turn the same since the run began, so that its roles say nothing. Look at the "
    "traces; try another model or judge (triage-gym judge audit)",
    "second_judge_disagreement": "the judge has moved away from what the second judge says of the same segments. Look at "
    "where they differ (triage-gym judge audit)",
}
"""The alarms, in words."""
WINDOW: Final = 4
"""Updates of a window."""
LEAST_GROUPS: Final = 16
"""Groups of a window, for which it is made longer."""
LEAST_SUCCESSES: Final = 10
"""Successes of a window that another one is compared with."""
LEAST_SHARE: Final = 0.1
"""Share of its attempts that they must be."""
ERRORS: Final = 4.0
"""Standard errors that an effect must have between windows."""
CREDIT: Final = 0.2
"""Rise of the mean worth of a judged segment."""
MIX: Final = 0.1
"""Total variation between role mixes, beyond what noise is expected to give."""
NEAR: Final = 0.3
"""Successes a turn are about as many within this difference of logarithms."""
LONGER: Final = 0.3
"""Rise of turns an attempt, as a share of what they were."""
LESS: Final = 0.05
"""By how much the mean worth of a segment may fall and count as no less."""
MOVED: Final = 0.05
"""Growth of disagreement with the rule judge, as a share of segments, and of generosity, in worth a segment."""
MOVED_SECOND: Final = 0.15
"""Growth of disagreement with the second judge, which is asked too rarely to take askings together."""
GENEROUS: Final = 0.35
"""Worth a segment by which a judge may be more generous than another one from the start."""
PAIR_ERRORS: Final = 4.0
"""Standard errors that a difference between judges must have."""
ALIKE: Final = 2
"""Earlier windows with about as much success that there must be for their role mixes to tell what is usual."""
CHANCE: Final = 0.15
"""Cohen's kappa below which two judges agree as if by chance."""
KAPPA_ERRORS: Final = 2.0
"""Standard errors by which it must be below."""
UNLABELLED: Final = 0.95
"""Share of a window's turns without a label that alarms; it ends when half of what is above :data:`_UNLABELLED` is left."""
ONE_ROLE: Final = 0.97
"""Share of one role since the run began that alarms."""
LEAST_LABELS: Final = 100
"""Labels that it takes to say so."""
SAME: Final = 0.9
"""Share of that role among the rule judge's labels above which it is the task that has one role."""
_UNLABELLED: Final = 0.9
_ONE_ROLE: Final = 0.94


class Beside:
    """Two judges on the same segments, now against the first times.

    Args:
        worths: Of each role.
        first: Askings that later ones are held against.
        last: Askings that are taken together as now.
        moved: Growth of disagreement that matters.
        generosity: Whether as much growth of generosity matters too. It also grows where the other judge errs without aim
            and the policy gets better, since an error about D is an error downwards.
    """

    def __init__(
        self, worths: Mapping[Role, float], first: int, last: int, moved: float, *, generosity: bool = True
    ) -> None:
        worth = np.array([worths[role] for role in ROLES])
        self._pairs, self._agreed = np.eye(len(PAIRS))[:2]
        self._surplus = np.concatenate([[0.0, 0.0], worth, -worth])
        self._first: list[Sums] = []
        self._count, self._moved = first, moved
        self._grows = [self._pairs - self._agreed, *([self._surplus] if generosity else [])]
        self._last: deque[Sums] = deque(maxlen=last)

    def add(self, pairs: Sequence[tuple[str, Role, Role]]) -> tuple[float, float]:
        """Take up an asking; the share of agreement in it, and the surplus of the first judge, in worth a segment."""
        sums = paired(pairs)
        if len(self._first) < self._count:
            self._first.append(sums)
        self._last.append(sums)
        return sums.ratio(self._agreed, self._pairs)[0], sums.ratio(self._surplus, self._pairs)[0]

    @property
    def said(self) -> Numbers | None:
        """Share of each role among what the other judge said at first; None for nothing."""
        first = sum((s.total for s in self._first), start=np.zeros(len(PAIRS)))
        return first[-len(ROLES) :] / first[0] if first[0] else None

    def chance(self) -> float:
        """1.0 when the first askings are all there and agree no better than chance would, else 0.0."""
        if len(self._first) < self._count:
            return 0.0
        first = sum(self._first[1:], start=self._first[0])
        shares = first.total[2:].reshape(2, len(ROLES)) / first.sum(self._pairs)
        expected = float(shares[0] @ shares[1])
        if expected >= 1.0:
            return 0.0  # both say one role alone
        agreed, error = first.ratio(self._agreed, self._pairs)
        kappa, error = (agreed - expected) / (1.0 - expected), error / (1.0 - expected)
        return float(kappa + KAPPA_ERRORS * error < CHANCE)

    def effect(self) -> float:
        """How far the judges have moved apart, 1 and more being an alarm and noise counting as 0."""
        now = sum(self._last, start=Sums(0, np.zeros(len(PAIRS)), np.zeros((len(PAIRS), len(PAIRS)))))
        if now.groups == 0:
            return 0.0
        level, spread = now.ratio(self._surplus, self._pairs)
        found = level / GENEROUS if level >= PAIR_ERRORS * spread else 0.0
        if len(self._first) < self._count or any(sums is first for sums in self._last for first in self._first):
            return found
        before = sum(self._first[1:], start=self._first[0])
        for top in self._grows:
            (old, old_error), (new, new_error) = before.ratio(top, self._pairs), now.ratio(top, self._pairs)
            # A share near its end has a spread that looks too small; what both times have together does not.
            both = before + now
            pooled = both.ratio(top, self._pairs)[1] * math.sqrt(
                both.sum(self._pairs) / before.sum(self._pairs) + both.sum(self._pairs) / now.sum(self._pairs)
            )
            if new - old >= PAIR_ERRORS * max(math.hypot(old_error, new_error), pooled):
                found = max(found, (new - old) / self._moved)
        return found

    def to_json(self) -> dict[str, Any]:
        """What :meth:`go_to` reads back."""
        new = [s for s in self._last if not any(s is first for first in self._first)]
        return {"first": [s.to_json() for s in self._first], "last": [s.to_json() for s in new]}

    def go_to(self, state: Mapping[str, Any]) -> None:
        """Go back to what :meth:`to_json` gave."""
        self._first = [Sums.from_json(s) for s in state["first"]]
        self._last.clear()
        self._last.extend([*self._first, *(Sums.from_json(s) for s in state["last"])])


class Monitors:
    """Watches the batches of one run.

    Args:
        worths: What each role is worth to the credit rule.
        groups: Groups an update.
        by_rules: Whether the judge is the rule judge, which may say one role alone where the task has no other.
    """

    def __init__(self, worths: Mapping[Role, float], groups: int, *, by_rules: bool = False) -> None:
        self._worth: Numbers = sum(worths[role] * ROLE[k] for k, role in enumerate(ROLES))
        self._window = max(WINDOW, math.ceil(LEAST_GROUPS / groups))
        self._blocks: list[Sums] = []
        self._recent: deque[Sums] = deque(maxlen=2 * self._window)
        self._updates = 0
        self._by_rules = by_rules
        self._roles: Numbers = np.zeros(len(ROLES))
        self._comparisons: dict[str, Callable[[], Beside]] = {
            "rule_disagreement": lambda: Beside(worths, 3, 2, MOVED),
            "second_judge_disagreement": lambda: Beside(worths, 1, 1, MOVED_SECOND, generosity=False),
        }
        self.beside = {name: make() for name, make in self._comparisons.items()}
        """Comparisons with other judges, by the alarm they are for."""
        self.active = dict.fromkeys(ALARMS, False)
        """Which alarms hold."""

    def credit(self, sums: Sums) -> float | None:
        """Mean worth of a judged segment; None where none was judged."""
        return sums.ratio(self._worth, JUDGED)[0] if sums.sum(JUDGED) else None

    def look(self, sums: Sums) -> list[str]:
        """Take up the batch of an update; the alarms that began with it."""
        self._updates += 1
        self._recent.append(sums)
        self._roles = self._roles + ROLE @ sums.total
        effects = {name: beside.effect() for name, beside in self.beside.items()}
        effects |= self._from_the_start()
        if self._updates >= 2 * self._window:
            effects |= self._effects()
        began = []
        for name in ALARMS:
            effect = effects.get(name, 0.0)
            holds = effect >= (0.5 if self.active[name] else 1.0)
            if holds and not self.active[name]:
                began.append(name)
            self.active[name] = holds
        return began

    def _from_the_start(self) -> dict[str, float]:
        """What needs no earlier time, in units of what alarms."""
        found = {"judge_unlike_rules": self.beside["rule_disagreement"].chance()}
        if self._updates >= self._window:
            now = _together(list(self._recent)[-self._window :])
            without = 1.0 - now.ratio(JUDGED, TURNS)[0]
            found["no_labels"] = (without - _UNLABELLED) / (UNLABELLED - _UNLABELLED)
            found["one_role"] = self._one_role()
        return found

    def _one_role(self) -> float:
        labels, most = float(self._roles.sum()), int(self._roles.argmax())
        rules = self.beside["rule_disagreement"].said
        if self._by_rules or labels < LEAST_LABELS or (rules is not None and rules[most] > SAME):
            return 0.0
        return (float(self._roles[most]) / labels - _ONE_ROLE) / (ONE_ROLE - _ONE_ROLE)

    def forget(self, name: str) -> None:
        """Begin the comparison for the alarm ``name`` anew."""
        self.beside[name], self.active[name] = self._comparisons[name](), False

    def _effects(self) -> dict[str, float]:
        """Each effect of the last window against earlier ones, in units of what alarms."""
        recent = list(self._recent)
        now = _together(recent[-self._window :])
        # Blocks are whole windows that end before the last one began.
        if (self._updates - self._window) % self._window == 0:
            self._blocks.append(_together(recent[-2 * self._window : -self._window]))
        if now.sum(JUDGED) == 0:
            return {}
        before = [b for b in self._blocks if _solves(b) and b.sum(JUDGED) > 0]
        drifts = [_drifted(b, now) for b in before if _alike(b, now)]
        return {
            "reward_without_return": max((self._paid(b, now) for b in before), default=0.0),
            "longer_attempts": max((self._lengthened(b, now) for b in before), default=0.0),
            "role_drift": min(drifts) if len(drifts) >= ALIKE else 0.0,
        }

    def _paid(self, before: Sums, now: Sums) -> float:
        if now.ratio(SUCCESSES, TURNS)[0] > before.ratio(SUCCESSES, TURNS)[0]:
            return 0.0
        return _rise(before.ratio(self._worth, JUDGED), now.ratio(self._worth, JUDGED)) / CREDIT

    def _lengthened(self, before: Sums, now: Sums) -> float:
        """Rise of turns an attempt, where successes an attempt did not, and the judge pays no less for a turn."""
        if now.ratio(SUCCESSES, ATTEMPTS)[0] > before.ratio(SUCCESSES, ATTEMPTS)[0]:
            return 0.0
        if now.ratio(self._worth, JUDGED)[0] < before.ratio(self._worth, JUDGED)[0] - LESS:
            return 0.0  # it gets worse, and is told so
        turns = before.ratio(TURNS, ATTEMPTS)
        return _rise(turns, now.ratio(TURNS, ATTEMPTS)) / turns[0] / LONGER

    def to_json(self) -> dict[str, Any]:
        """What the rest of a run depends on, as JSON."""
        return {
            "updates": self._updates,
            "roles": self._roles.astype(int).tolist(),
            "blocks": [s.to_json() for s in self._blocks],
            "recent": [s.to_json() for s in self._recent],
            "beside": {name: beside.to_json() for name, beside in self.beside.items()},
            "active": self.active,
        }

    def go_to(self, state: Mapping[str, Any]) -> None:
        """Go back to what :meth:`to_json` gave.

        Raises:
            CheckpointError: When ``state`` is none of that.
        """
        try:
            self._updates = int(state["updates"])
            self._roles = np.array(state.get("roles", [0] * len(ROLES)), float)  # older checkpoints have none
            self._blocks = [Sums.from_json(s) for s in state["blocks"]]
            self._recent.clear()
            self._recent.extend(Sums.from_json(s) for s in state["recent"])
            for name, beside in self.beside.items():
                beside.go_to(state["beside"][name])
            self.active = {name: bool(state["active"].get(name)) for name in ALARMS}
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"Expected the state of monitors in the checkpoint, got: {error!r}") from error


def _together(sums: Sequence[Sums]) -> Sums:
    return sum(sums[1:], start=sums[0])


def _rise(before: tuple[float, float], now: tuple[float, float]) -> float:
    """By how much a ratio rose, 0 where that may be noise."""
    rise = now[0] - before[0]
    return rise if rise >= ERRORS * math.hypot(before[1], now[1]) and rise > 0 else 0.0


def _solves(sums: Sums) -> bool:
    """Whether enough was solved to be lost."""
    return sums.sum(SUCCESSES) >= max(LEAST_SUCCESSES, LEAST_SHARE * sums.sum(ATTEMPTS))


def _alike(before: Sums, now: Sums) -> bool:
    """Whether both solved about as much a turn."""
    if not _solves(now):
        return False
    return abs(math.log(now.ratio(SUCCESSES, TURNS)[0] / before.ratio(SUCCESSES, TURNS)[0])) <= NEAR


def _drifted(before: Sums, now: Sums) -> float:
    """Total variation between role mixes beyond that of noise."""
    old = [before.ratio(role, JUDGED) for role in ROLE]
    new = [now.ratio(role, JUDGED) for role in ROLE]
    moved = [abs(a[0] - b[0]) for a, b in zip(old, new, strict=True)]
    errors = [math.hypot(a[1], b[1]) for a, b in zip(old, new, strict=True)]
    if not any(m >= ERRORS * e and m > 0 for m, e in zip(moved, errors, strict=True)):
        return 0.0
    noise = 0.5 * math.sqrt(2.0 / math.pi) * sum(errors)
    return max(0.0, 0.5 * sum(moved) - noise) / MIX
