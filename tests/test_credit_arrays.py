"""Batches made of arrays, and what segments are compared by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_credit_sums import lists, record

from triage_gym import credit
from triage_gym.credit.batch import Segments
from triage_gym.credit.controls import ShuffledTriage
from triage_gym.credit.rules import GRPO, Triage
from triage_gym.credit.trials import GiGPO, MetaRL, PivoARL
from triage_gym.credit.value import Value
from triage_gym.errors import GroupError, InputError
from triage_gym.records import ROLES, EpisodeRecord


def arrays(batch: list[EpisodeRecord]) -> Segments:
    """The batch once more, made of arrays."""
    made = Segments(batch)
    groups: dict[str, int] = {}
    return Segments.of_arrays(
        [len(r) for r in batch],
        [groups.setdefault(r.group_id, len(groups)) for r in batch],
        [r.score for r in batch],
        excluded=[r.error is not None for r in batch],
        success=[r.success for r in batch],
        prefix=[r.prefix_length for r in batch],
        attempt=[r.attempt for r in batch],
        parent=[r.parent for r in batch],
        pivot=[r.pivot for r in batch],
        trial=made.trial,
        role=made.role,
        probabilities=made.probabilities,
        magnitude=made.magnitude,
        reward=made.reward,
        anchor=made.anchor,
        shuffle=np.arange(len(made.owner)),
    )


BATCH = [
    record("DER-", 1.0, trial="a"),
    record("RRD", 0.0, trial="b"),
    record("RRDE", 1.0, trial="b", attempt=1, parent=0, pivot=2, prefix_length=2),
    record("EN", 5.0, error="x", trial="c"),
    record("DD", 0.5, group="h"),
    record("", 0.0, group="h", trial="z"),
]


@pytest.mark.parametrize(
    "name", ["grpo", "rloo", "drgrpo", "scalar", "triage+capped", "triage-soft", "roles-only", "gigpo", "pivoarl", "metarl", "r3l",
             "triage+gigpo", "triage-online", "pivoarl+triage+whiten"],
)  # fmt: skip
def test_arrays_give_what_records_give(name: str) -> None:
    rule = credit.make(name)
    assert lists(rule(arrays(BATCH))) == lists(rule(BATCH))  # type: ignore[arg-type]


def test_shuffled_arrays_keep_their_roles() -> None:
    batch = arrays(BATCH)
    rule = ShuffledTriage(whiten=False, lam=1.0)
    shuffled = rule.flat(batch).role
    plain = Triage(whiten=False, lam=1.0).flat(batch).role
    for start, stop in batch.bounds:
        assert sorted(shuffled[start:stop]) == pytest.approx(sorted(plain[start:stop]))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"score": [1.0]}, "`score`"),
        ({"score": [np.nan, 0.0]}, "finite scores"),
        ({"lengths": [-1, 2]}, "lengths"),
        ({"role": [0, 9]}, "`role`"),
        ({"role": [0]}, "`role`"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict[str, Any], told: str) -> None:
    given: dict[str, Any] = {"lengths": [1, 1], "group": [0, 0], "score": [1.0, 0.0], **changes}
    with pytest.raises(InputError, match=told):
        Segments.of_arrays(**given)


def test_a_column_that_is_not_there_is_named() -> None:
    bare = Segments.of_arrays([1, 1], [7, 7], [1.0, 0.0])
    assert lists(GRPO()(bare)) == [[1.0], [-1.0]]
    for rule, column in ((Triage(), "role"), (GiGPO(), "anchor"), (Value(), "value")):
        with pytest.raises(InputError, match=f"`{column}`"):
            rule(bare)
    twice = Segments.of_arrays([1, 1], [7, 7], [1.0, 0.0], trial=[0, 0])
    with pytest.raises(GroupError, match="trial 0"):
        PivoARL()(twice)


COLUMNS = {
    "excluded": (2, bool),
    "success": (2, bool),
    "group": (2, np.int64),
    "prefix": (2, np.int64),
    "attempt": (2, np.int64),
    "parent": (2, np.int64),
    "pivot": (2, np.int64),
    "trial": (2, np.int64),
    "score": (2, np.float64),
    "role": (3, np.int8),
    "anchor": (3, np.int64),
    "magnitude": (3, np.float64),
    "reward": (3, np.float64),
    "value": (3, np.float64),
    "shuffle": (3, np.float64),
}
"""Values of two rollouts of three segments, and what they are held as."""
NEEDED: dict[str, Any] = {"lengths": [1, 2], "group": [0, 0], "score": [1.0, 0.0]}


@pytest.mark.parametrize("name", COLUMNS)
def test_every_column_is_held_as_it_is_and_a_wrong_one_is_named(name: str) -> None:
    size, kind = COLUMNS[name]
    whole = [1, 0, 1][:size]
    for given in (whole, [float(x) for x in whole], np.array(whole, dtype=np.int16)):
        batch = Segments.of_arrays(**{**NEEDED, name: given})
        held = {"excluded": ~batch.included} if name == "excluded" else {name: getattr(batch, name)}
        if name == "group":
            assert held[name].tolist() == [1, 0], "numbered in order"
        else:
            assert held[name].tolist() == whole
            assert held[name].dtype == kind
    with pytest.raises(InputError, match=rf"`{name}` of shape \({size},\), got \({size + 1},\)"):
        Segments.of_arrays(**{**NEEDED, name: [0] * (size + 1)})
    with pytest.raises(InputError, match=f"`{name}` of shape"):
        Segments.of_arrays(**{**NEEDED, name: [[0] * size]})
    for odd in ("abc"[:size], [{}] * size):
        with pytest.raises(InputError, match=f"`{name}`"):
            Segments.of_arrays(**{**NEEDED, name: list(odd)})
    if kind is not np.float64:
        for odd in ([0.5] * size, [float("nan")] * size):
            told = "True and False" if kind is bool else "whole numbers"
            with pytest.raises(InputError, match=f"`{name}` to hold {told}, got"):
                Segments.of_arrays(**{**NEEDED, name: odd})


def test_lengths_are_whole_numbers_in_a_row() -> None:
    for odd in ([1.5, 2], ["a", "b"], [[1, 2]]):
        with pytest.raises(InputError, match="`lengths`"):
            Segments.of_arrays(**{**NEEDED, "lengths": odd})


def test_what_is_left_out_has_its_default() -> None:
    batch = Segments.of_arrays(**NEEDED)
    for name, plain in {
        "prefix": [0, 0],
        "attempt": [0, 0],
        "parent": [-1, -1],
        "pivot": [-1, -1],
        "trial": [0, 1],
    }.items():
        assert getattr(batch, name).tolist() == plain
        assert getattr(batch, name).dtype == np.int64
    assert batch.included.tolist() == [True, True]
    assert batch.magnitude.tolist() == [1.0, 1.0, 1.0]
    assert np.isnan(batch.probabilities).all()
    assert batch.probabilities.shape == (3, 4)
    assert Segments.of_arrays([], [], []).groups == 0


def test_probabilities_are_four_a_segment() -> None:
    rows = [[0.7, 0.1, 0.1, 0.1], [np.nan] * 4, [0, 0, 1, 0]]
    held = Segments.of_arrays(**NEEDED, probabilities=rows).probabilities
    assert held.dtype == np.float64
    assert np.array_equal(held, np.array(rows), equal_nan=True)
    with pytest.raises(InputError, match=r"`probabilities` of shape \(3, 4\), got \(4, 3\)"):
        Segments.of_arrays(**NEEDED, probabilities=np.zeros((4, 3)))


def test_roles_are_places_of_roles() -> None:
    batch = Segments.of_arrays(**NEEDED, role=[3, -1, 0])
    assert batch.role.tolist() == [3, -1, 0]
    for odd in (4, -2, 300):
        with pytest.raises(InputError, match="`role`"):
            Segments.of_arrays(**NEEDED, role=[0, 0, odd])


def test_scores_up_to_the_largest_count_and_excluded_ones_never() -> None:
    batch = Segments.of_arrays([1, 1, 1], [4, 4, 9], [1e100, -1e100, np.inf], excluded=[False, False, True])
    assert batch.score.tolist() == [1e100, -1e100, 0.0]
    assert batch.group.tolist() == [0, 0, -1]
    with pytest.raises(InputError, match="finite scores"):
        Segments.of_arrays([1, 1, 1], [4, 4, 9], [1.0, 1.1e100, 0.0])


def test_two_records_of_an_attempt_are_told_by_name() -> None:
    twice = [record("D", 1.0, trial="t", attempt=1, parent=0, pivot=0), record("D", 1.0, trial="t", attempt=1, parent=0, pivot=0)]  # fmt: skip
    with pytest.raises(GroupError, match=r"got two of attempt 1 of trial 't' in group 'g'; name the trials .* add each record once$"):  # fmt: skip
        _ = Segments(twice).follows
    with pytest.raises(GroupError, match="got two of attempt 2 of trial 7;"):
        _ = Segments.of_arrays([1, 1], [0, 0], [1.0, 0.0], trial=[7, 7], attempt=[2, 2]).follows


def test_clusters_of_observations_by_hand() -> None:
    """Alike from a ratio of 1/2 on, the least included; a group's own; every text joins the first that it is like."""
    texts = ("aaaa", "aabb", "bbbb", "cccc", "cccc")
    own, other = record("EEEEE", 1.0, seen=texts), record("EE", 0.0, group="h", seen=("aaaa", "cccc"))
    assert Segments([own, other]).similar_anchor(0.5).tolist() == [0, 0, 1, 2, 2, 3, 4]
    assert Segments([own, other]).similar_anchor(0.51).tolist() == [0, 1, 2, 3, 3, 4, 5]
    assert Segments([own]).similar_anchor(0.5).dtype == np.int64
    # Letters in another order are no likeness, and a letter that comes often counts in long texts too.
    assert Segments([record("EE", 1.0, seen=("abcd", "dcba"))]).similar_anchor(0.9).tolist() == [0, 1]
    long = ("x" * 300, "x" * 299 + "y")
    assert Segments([record("EE", 1.0, seen=long)]).similar_anchor(0.9).tolist() == [0, 0]
    bare = Segments.of_arrays([1], [0], [1.0])
    with pytest.raises(InputError, match="`anchor`"):
        bare.similar_anchor(0.5)


def test_a_batch_serves_several_rules() -> None:
    batch = Segments(BATCH)
    first = lists(MetaRL()(batch))
    credit.make("r3l")(batch)  # type: ignore[arg-type]
    assert lists(MetaRL()(batch)) == first
    assert len(ROLES) == 4
