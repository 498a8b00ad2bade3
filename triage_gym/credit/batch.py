"""The segments of a batch laid end to end, as arrays: what every credit rule computes on.

A batch is made of records, or of arrays that somebody holds already (:meth:`Segments.of_arrays`). Columns are made when a
rule first reads them, so that a rule pays for what it needs. Nothing here changes after it was made; two rules may share a
batch.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triage_gym.credit.outcome import MAX_SCORE, differ, grouped
from triage_gym.errors import GroupError, InputError
from triage_gym.records import ROLES, EpisodeRecord, Role

NONE: Final = -1
"""No role, no group, no retry."""
_CODES: Final[dict[Role | None, int]] = {None: NONE, **{role: at for at, role in enumerate(ROLES)}}


class Segments:
    """A batch of rollouts, laid end to end.

    Args:
        records: The rollouts.
    """

    def __init__(self, records: Sequence[EpisodeRecord]) -> None:
        self._records: Sequence[EpisodeRecord] | None = records
        self.lengths = np.array([len(r.segments) for r in records], dtype=np.int64)
        """Segments of each rollout, shape ``(rollouts,)``."""
        self._lay_out()

    def _lay_out(self) -> None:
        self.ends = np.cumsum(self.lengths, dtype=np.int64)
        """Last+1 position of each rollout."""
        self.starts = self.ends - self.lengths
        """First position of each rollout."""
        self.owner = np.repeat(np.arange(len(self.lengths)), self.lengths)
        """Rollout of each segment, shape ``(segments,)``."""

    @classmethod
    def of_arrays(
        cls,
        lengths: ArrayLike,
        group: ArrayLike,
        score: ArrayLike,
        *,
        excluded: ArrayLike | None = None,
        success: ArrayLike | None = None,
        prefix: ArrayLike | None = None,
        attempt: ArrayLike | None = None,
        parent: ArrayLike | None = None,
        pivot: ArrayLike | None = None,
        trial: ArrayLike | None = None,
        role: ArrayLike | None = None,
        probabilities: ArrayLike | None = None,
        magnitude: ArrayLike | None = None,
        reward: ArrayLike | None = None,
        anchor: ArrayLike | None = None,
        value: ArrayLike | None = None,
        shuffle: ArrayLike | None = None,
    ) -> Self:
        """A batch of arrays. What is left out can be read by no rule but by its default.

        Args:
            lengths: Segments of each rollout, shape ``(rollouts,)``, as the next nine.
            group: Number of each rollout's group, any integers.
            score: Outcome.
            excluded: Whether it must not be trained and moves no other; none by default.
            success: Whether it succeeded (for ``r3l``).
            prefix: Segments that a retry copied; 0 by default.
            attempt: Number of the attempt in its trial; 0 by default.
            parent: Attempt that it retries, -1 for none, the default.
            pivot: Turn that it was retried from, -1 for none, the default.
            trial: Number of its trial in its group; each rollout a trial of its own by default.
            role: Place of each segment's role in ``ROLES``, -1 for none, shape ``(segments,)``, as the last six.
            probabilities: Of D, E, N, R, NaN where the judge gave none, shape ``(segments, 4)``.
            magnitude: Of the judge; 1 by default.
            reward: Of the environment.
            anchor: Number of the observation before each segment: equal numbers of a group are compared.
            value: Outcome expected before each segment (for ``value``).
            shuffle: Keys by which ``triage-shuffled`` orders the roles of a rollout.

        Raises:
            InputError: For arrays that do not fit each other, or scores that are not finite.
        """
        batch = cls([])
        batch._records = None
        n = np.size(lengths)
        batch.lengths = _column("lengths", lengths, (n,), np.int64)
        if (batch.lengths < 0).any():
            raise InputError("Expected `lengths` to be numbers of segments, one a rollout, got a negative one")
        batch._lay_out()
        total = int(batch.lengths.sum())
        out = np.zeros(n, dtype=bool) if excluded is None else _column("excluded", excluded, (n,), np.bool_)
        scores = np.where(out, 0.0, _column("score", score, (n,), np.float64))
        if not (np.abs(scores) <= MAX_SCORE).all():
            raise InputError(
                f"Expected finite scores within ±{MAX_SCORE:g}, got {scores[~(np.abs(scores) <= MAX_SCORE)][0]}"
            )
        names, numbers = np.unique(_column("group", group, (n,), np.int64), return_inverse=True)
        held: dict[str, Any] = {
            "grouping": (scores, np.where(out, NONE, numbers), len(names)),
            "prefix": np.zeros(n, np.int64) if prefix is None else _column("prefix", prefix, (n,), np.int64),
            "attempt": np.zeros(n, np.int64) if attempt is None else _column("attempt", attempt, (n,), np.int64),
            "parent": np.full(n, NONE) if parent is None else _column("parent", parent, (n,), np.int64),
            "pivot": np.full(n, NONE) if pivot is None else _column("pivot", pivot, (n,), np.int64),
            "trial": np.arange(n) if trial is None else _column("trial", trial, (n,), np.int64),
            "magnitude": np.ones(total) if magnitude is None else _column("magnitude", magnitude, (total,), np.float64),
        }
        optional: dict[str, tuple[Any, int, Any]] = {"success": (success, n, np.bool_)}
        optional |= {"role": (role, total, np.int8), "reward": (reward, total, np.float64)}
        optional |= {"anchor": (anchor, total, np.int64), "value": (value, total, np.float64)}
        optional |= {"shuffle": (shuffle, total, np.float64)}
        for name, (given, size, kind) in optional.items():
            if given is not None:
                held[name] = _column(name, given, (size,), kind)
        if probabilities is not None:
            held["probabilities"] = _column("probabilities", probabilities, (total, len(ROLES)), np.float64)
        if "role" in held and ((held["role"] < NONE) | (held["role"] >= len(ROLES))).any():
            raise InputError(f"Expected `role` from -1 to {len(ROLES) - 1}, got others")
        for name, column in held.items():
            batch.__dict__[name] = column
        return batch

    def __len__(self) -> int:
        """Rollouts."""
        return len(self.lengths)

    @property
    def records(self) -> Sequence[EpisodeRecord]:
        """The records it was made of.

        Raises:
            InputError: For a batch of arrays.
        """
        if self._records is None:
            raise InputError("Expected a batch made of records here, got one of arrays")
        return self._records

    def _of_records(self, column: str) -> Sequence[EpisodeRecord]:
        if self._records is None:
            raise InputError(
                f"Expected `{column}` in a batch of arrays for this credit rule, got none; give it to of_arrays"
            )
        return self._records

    @cached_property
    def bounds(self) -> list[tuple[int, int]]:
        """First and last+1 position of each rollout."""
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    # Of rollouts ------------------------------------------------------------------------------------------------------

    @cached_property
    def grouping(self) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
        """Scores, number of each rollout's group (-1 for an excluded one) and how many groups there are.

        Raises:
            InputError: For a score that is not finite or beyond :data:`~triage_gym.credit.outcome.MAX_SCORE`.
        """
        return grouped(self._of_records("group"))

    @property
    def score(self) -> NDArray[np.float64]:
        """Outcomes; 0 for excluded rollouts."""
        return self.grouping[0]

    @property
    def group(self) -> NDArray[np.int64]:
        """Number of each rollout's group, -1 for an excluded one."""
        return self.grouping[1]

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return self.grouping[2]

    @cached_property
    def included(self) -> NDArray[np.bool_]:
        """Whether each rollout counts."""
        return self.group >= 0

    @cached_property
    def varies(self) -> NDArray[np.bool_]:
        """Whether the outcomes of each rollout's group differ; False for excluded ones."""
        out = np.zeros(len(self), dtype=bool)
        if self.included.any():
            member = self.group[self.included]
            out[self.included] = differ(self.score[self.included], member, self.groups)[member]
        return out

    @cached_property
    def success(self) -> NDArray[np.bool_]:
        """Whether each rollout succeeded."""
        return np.array([r.success for r in self._of_records("success")], dtype=bool)

    @cached_property
    def prefix(self) -> NDArray[np.int64]:
        """Segments that each rollout copied."""
        return np.array([r.prefix_length for r in self._of_records("prefix")], dtype=np.int64)

    @cached_property
    def attempt(self) -> NDArray[np.int64]:
        """Number of each attempt in its trial."""
        return np.array([r.attempt for r in self._of_records("attempt")], dtype=np.int64)

    @cached_property
    def parent(self) -> NDArray[np.int64]:
        """Attempt that each one retries."""
        return np.array([r.parent for r in self._of_records("parent")], dtype=np.int64)

    @cached_property
    def pivot(self) -> NDArray[np.int64]:
        """Turn that each one was retried from."""
        return np.array([r.pivot for r in self._of_records("pivot")], dtype=np.int64)

    @cached_property
    def trial(self) -> NDArray[np.int64]:
        """Number of each rollout's trial.

        In a group none of whose unnamed records (``trial == ""``) has a parent, each of them is a trial of its own.
        """
        records = self._of_records("trial")
        sound = [i for i, r in enumerate(records) if r.error is None]
        retried = {records[i].group_id for i in sound if not records[i].trial and records[i].parent >= 0}
        numbers: dict[tuple[str, str, int], int] = {}
        out = np.zeros(len(records), dtype=np.int64)
        for i, record in enumerate(records):
            alone = i if not record.trial and record.group_id not in retried else NONE
            out[i] = numbers.setdefault((record.group_id, record.trial, alone), len(numbers))
        return out

    @cached_property
    def follows(self) -> NDArray[np.int64]:
        """Position of the attempt that retries each rollout, -1 where none does; see :mod:`triage_gym.credit.returns`.

        Raises:
            GroupError: For two sound records of the same attempt of a trial.
        """
        sound = np.flatnonzero(self.included)
        keys = (self.attempt[sound], self.trial[sound], self.group[sound])
        order = sound[np.lexsort(keys)]
        same = (self.group[order][1:] == self.group[order][:-1]) & (self.trial[order][1:] == self.trial[order][:-1])
        step = np.diff(self.attempt[order])
        twice = np.flatnonzero(same & (step == 0))
        if len(twice):
            raise GroupError(self._told_twice(int(order[twice[0]])))
        before, after = order[:-1], order[1:]
        joined = same & (step == 1) & (self.parent[after] == self.attempt[before])
        out = np.full(len(self), NONE, dtype=np.int64)
        out[before[joined]] = after[joined]
        return out

    def _told_twice(self, at: int) -> str:
        number = int(self.attempt[at])
        if self._records is None:
            where = f"trial {int(self.trial[at])}"
        else:
            where = f"trial {self._records[at].trial!r} in group {self._records[at].group_id!r}"
        return (
            f"Expected one record of each attempt of a trial, got two of attempt {number} of {where}; name the trials of a "
            'group apart by reset(options={"trial_id": …}) and add each record once'
        )

    @cached_property
    def kept(self) -> NDArray[np.int64]:
        """How many leading turns the retry of each rollout kept, its pivot; 0 where none follows."""
        out = np.zeros(len(self), dtype=np.int64)
        has = self.follows != NONE
        out[has] = np.minimum(np.maximum(self.pivot[self.follows[has]], 0), self.lengths[has])
        return out

    # Of segments ------------------------------------------------------------------------------------------------------

    @cached_property
    def place(self) -> NDArray[np.int64]:
        """Place of each segment in its rollout, from 0."""
        return np.arange(len(self.owner)) - np.repeat(self.starts, self.lengths)

    @cached_property
    def trained(self) -> NDArray[np.bool_]:
        """False for segments of excluded rollouts and for copied prefixes."""
        if self._records is not None:  # a score that cannot be compared is refused by whoever compares it
            included = np.array([r.error is None for r in self._records], dtype=bool)
        else:
            included = self.included
        out: NDArray[np.bool_] = np.repeat(included, self.lengths)
        copied = np.minimum(self.prefix, self.lengths)
        where = np.flatnonzero(copied > 0)
        if len(where):
            own = copied[where]
            first = np.repeat(self.starts[where] - np.cumsum(own) + own, own)
            out[first + np.arange(int(own.sum()))] = False
        return out

    def on_segments(self, values: NDArray[Any]) -> NDArray[Any]:
        """A value of each rollout on each of its segments."""
        return np.repeat(values, self.lengths)

    @cached_property
    def role(self) -> NDArray[np.int8]:
        """Place of each segment's role in ``ROLES``, -1 for none."""
        records = self._of_records("role")
        return np.array([_CODES[role] for record in records for role in record.roles], dtype=np.int8)

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """The judge's probabilities of D, E, N, R, NaN where it gave none, shape ``(segments, 4)``."""
        if self._records is None:
            return np.full((len(self.owner), len(ROLES)), np.nan)
        nothing = (np.nan,) * len(ROLES)
        rows = [
            nothing if label is None or label.probabilities is None else label.probabilities
            for record in self._records
            for label in record.labels or [None] * len(record)
        ]
        return np.array(rows, dtype=np.float64).reshape(len(self.owner), len(ROLES))

    @cached_property
    def magnitude(self) -> NDArray[np.float64]:
        """The judge's magnitudes, 1 where it gave none."""
        rows = [
            1.0 if label is None else label.magnitude
            for record in self._of_records("magnitude")
            for label in record.labels or [None] * len(record)
        ]
        return np.array(rows, dtype=np.float64)

    @cached_property
    def reward(self) -> NDArray[np.float64]:
        """The environment's rewards; 0 in excluded rollouts.

        Raises:
            InputError: For one that is not finite or beyond :data:`~triage_gym.credit.outcome.MAX_SCORE`.
        """
        found: list[float] = []
        for record in self._of_records("reward"):
            own = [segment.reward for segment in record.segments] if record.error is None else [0.0] * len(record)
            if not all(abs(reward) <= MAX_SCORE for reward in own):
                raise InputError(
                    f"Expected finite rewards within ±{MAX_SCORE:g} in group {record.group_id!r}, got {own!r:.120}; "
                    "set `error` on an attempt that must not be trained"
                )
            found += own
        return np.array(found, dtype=np.float64)

    @cached_property
    def anchor(self) -> NDArray[np.int64]:
        """Number of the observation before each segment, equal where group and observation are."""
        anchors: dict[tuple[str, str], int] = {}
        return np.array(
            [
                anchors.setdefault((record.group_id, segment.observation), len(anchors))
                for record in self._of_records("anchor")
                for segment in record.segments
            ],
            dtype=np.int64,
        )

    def similar_anchor(self, least: float) -> NDArray[np.int64]:
        """As :attr:`anchor`, equal where observations of a group are at least ``least`` alike (ratio of difflib).

        Observations are gone through in order of their text and join the first cluster whose first text is alike enough,
        so that the order of rollouts decides nothing. It compares texts pair by pair: this is not fast.
        """
        texts: dict[str, set[str]] = {}
        for record in self._of_records("anchor"):
            texts.setdefault(record.group_id, set()).update(s.observation for s in record.segments)
        numbers: dict[tuple[str, str], int] = {}
        clusters = 0
        for group_id, own in texts.items():
            heads: list[tuple[str, int]] = []
            for text in sorted(own):
                found = next((number for head, number in heads if _alike(head, text, least)), None)
                if found is None:
                    found, clusters = clusters, clusters + 1
                    heads.append((text, found))
                numbers[group_id, text] = found
        return np.array([numbers[r.group_id, s.observation] for r in self.records for s in r.segments], dtype=np.int64)

    @cached_property
    def value(self) -> NDArray[np.float64]:
        """Outcome expected before each segment, ``info["value"]`` of records.

        Raises:
            InputError: Where a trained segment has none.
        """
        found = np.array(
            [float(s.info.get("value", np.nan)) for r in self._of_records("value") for s in r.segments],
            dtype=np.float64,
        )
        if not np.isfinite(found[self.trained]).all():
            raise InputError(
                'Expected info["value"] in every segment, the outcome expected before it, for the credit rule value; got none. '
                "The built-in trainer gives it; a trainer of your own must"
            )
        return found


def as_segments(batch: Sequence[EpisodeRecord] | Segments) -> Segments:
    """The batch as arrays."""
    return batch if isinstance(batch, Segments) else Segments(batch)


def _column(name: str, values: ArrayLike, shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
    """``values`` as numbers of ``kind``, which must hold every one of them as it is.

    Raises:
        InputError: For another shape, or numbers that ``kind`` cannot hold: a group 0.5 would silently be another group.
    """
    try:
        given = np.asarray(values)
        with np.errstate(invalid="ignore"):  # NaN in a column of whole numbers is told below
            array = given.astype(kind, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"Expected `{name}` to be an array of numbers, got {values!r:.120}") from error
    if array.shape != shape:
        raise InputError(f"Expected `{name}` of shape {shape}, got {array.shape}")
    if not np.issubdtype(kind, np.floating) and not (array == given).all():
        told = "True and False" if kind is np.bool_ else "whole numbers"
        raise InputError(f"Expected `{name}` to hold {told}, got {given[array != given][0]!r}")
    return array


def _alike(one: str, other: str, least: float) -> bool:
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    return matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least and matcher.ratio() >= least
