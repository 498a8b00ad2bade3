"""The laws of credit for rules that are made of others, or of a value head: as tests/test_core_credit_laws.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from laws_of_credit import check_padding, close, law
from test_core_credit_laws import batches

from triage_gym import credit
from triage_gym.credit.batch import Segments
from triage_gym.credit.rules import Triage
from triage_gym.credit.sums import Sum
from triage_gym.credit.value import Value
from triage_gym.records import EpisodeRecord, RoleLabel

SUM: Any = credit.make({"name": "triage+gigpo", "whiten": False})
VALUE: Any = credit.make({"name": "value", "whiten": False, "kappa": 0.7, "gamma": 0.9})
BOTH: Any = credit.make({"name": "scalar+value", "whiten": False})
AFTER: Any = credit.make("triage+after_whitening")
PLAIN = [SUM, VALUE, BOTH]
RULES = [*PLAIN, AFTER, *(replace(rule, whiten=True) for rule in PLAIN)]


def with_values(batch: list[EpisodeRecord], shift: float = 0.0) -> list[EpisodeRecord]:
    """The batch with a value before each segment that its place and action decide; few observations, so that anchors meet."""
    out = []
    for record in batch:
        segments = tuple(
            replace(s, observation=f"o{s.index % 2}", info={"value": shift + (len(s.action) * 7 + s.index) % 11 / 10})
            for s in record.segments
        )
        out.append(replace(record, segments=segments))
    return out


valued = batches().map(with_values)


@law
@given(valued, st.randoms(use_true_random=False))
def test_permuting_rollouts_permutes_advantages(batch: list[EpisodeRecord], random: Any) -> None:
    order = list(range(len(batch)))
    random.shuffle(order)
    for rule in RULES:
        straight, mixed = rule(batch), rule([batch[i] for i in order])
        assert close([straight[i] for i in order], mixed), rule


@law
@given(batches(), st.integers(-50, 50))
def test_adding_a_constant_to_outcomes_and_what_is_expected_of_them_changes_nothing(
    batch: list[EpisodeRecord], constant: int
) -> None:
    # With γ below 1 a value that is shifted by a constant is no longer what the outcome discounts to.
    whole = Sum(rules=(Triage(), Value(kappa=0.7)))
    shifted = [replace(r, score=r.score + constant) for r in batch]
    for rule in (SUM, AFTER, whole):
        assert close(rule(with_values(batch)), rule(with_values(shifted, constant))), rule


@law
@given(valued, st.integers(0, 30))
def test_padding_changes_nothing(batch: list[EpisodeRecord], padding: int) -> None:
    for rule in RULES:
        check_padding(rule, batch, padding)


@law
@given(valued)
def test_duplicating_a_group_leaves_its_advantages(batch: list[EpisodeRecord]) -> None:
    again = [replace(r, group_id=f"{r.group_id} again") for r in batch]
    for rule in PLAIN:
        both = rule([*batch, *again])
        assert close(both[: len(batch)], rule(batch)), rule
        assert close(both[len(batch) :], rule(batch)), rule


@law
@given(valued, st.integers(0, 10**6))
def test_an_excluded_rollout_moves_no_sibling(batch: list[EpisodeRecord], which: int) -> None:
    if not batch:
        return
    i = which % len(batch)
    broken = replace(batch[i], error="broke", score=123.0)
    for rule in RULES:
        found = rule([*batch[:i], broken, *batch[i + 1 :]])
        assert not found[i].any()
        assert close([*found[:i], *found[i + 1 :]], rule([*batch[:i], *batch[i + 1 :]])), rule


@law
@given(valued, st.integers(0, 10**6))
def test_an_unjudged_segment_moves_no_sibling(batch: list[EpisodeRecord], which: int) -> None:
    places = [(i, k) for i, r in enumerate(batch) for k in range(len(r))]
    if not places:
        return
    i, k = places[which % len(places)]
    labels = [*batch[i].labels]
    labels[k] = RoleLabel(k, None, status="failed")
    changed = [*batch[:i], batch[i].with_labels(labels), *batch[i + 1 :]]
    for rule in PLAIN:
        before, after = rule(batch), rule.terms(changed)
        assert after[i].advantage[k] == after[i].outcome[k], rule
        before[i][k] = after[i].advantage[k]
        assert close(before, [t.advantage for t in after], 0.0), rule


@law
@given(valued)
def test_without_their_weight_roles_change_nothing_and_float32_agrees(batch: list[EpisodeRecord]) -> None:
    plain = credit.make({"name": "grpo+gigpo", "whiten": False})
    without = credit.make({"name": "triage+gigpo", "whiten": False}, lam=0.0)
    assert close(plain(batch), without(batch))
    for rule in RULES:
        arrays = rule(batch)
        assert close(arrays, replace(rule, dtype="float32")(batch), 1e-5), rule
        assert all(np.isfinite(a).all() for a in arrays), rule
        copied = ~Segments(batch).trained
        assert not np.concatenate([*arrays, np.zeros(0)])[copied].any()


@law
@given(valued)
def test_the_role_term_is_bounded(batch: list[EpisodeRecord]) -> None:
    for rule in (SUM, BOTH):
        for terms in rule.terms(batch):
            assert np.all(np.abs(terms.advantage - terms.outcome) <= rule.lam + 1e-12)
    for terms in AFTER.terms(batch):
        assert np.all(np.abs(terms.role) <= 0.2 + 1e-12)
