"""The laws that every credit rule keeps, each as a property over 1,000 batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from laws_of_credit import check_padding, close, law

from triage_gym.credit.audited import TriageAudited
from triage_gym.credit.controls import RolesOnly, ShuffledTriage
from triage_gym.credit.online import TriageOnline
from triage_gym.credit.rules import CONSTANTS, GRPO, RLOO, DrGRPO, Scalar, Triage, TriageSoft
from triage_gym.credit.tokens import broadcast
from triage_gym.records import EpisodeRecord, RoleLabel, Segment

PLAIN: list[Any] = [
    GRPO(),
    GRPO(norm="mean"),
    RLOO(),
    DrGRPO(),
    Scalar(whiten=False),
    Triage(whiten=False),
    Triage(whiten=False, norm="mean", lam=0.4),
    Triage(whiten=False, guard=True),
    Triage(whiten=False, sign_guard=True),
    TriageSoft(whiten=False),
    TriageAudited(whiten=False, constants=(1.0, 0.1, 0.0, -0.3)),
    TriageOnline(whiten=False),
    ShuffledTriage(whiten=False),
    RolesOnly(whiten=False),
    Triage(whiten=False, soft=True, magnitude=True, capped=True, caps=(1.2, 0.8, 0.7)),
]
WHITENED: list[Any] = [
    GRPO(whiten=True),
    RLOO(whiten=True),
    DrGRPO(whiten=True),
    Scalar(),
    Triage(),
    Triage(guard=True),
    ShuffledTriage(),
    RolesOnly(),
]
RULES = PLAIN + WHITENED
ROLE_RULES = [Scalar(), Triage(), Triage(guard=True), ShuffledTriage(), RolesOnly(), *PLAIN[4:]]
SHARES = [None, (0.7, 0.1, 0.1, 0.1), (0.0, 0.0, 0.5, 0.5), (0.2, 0.9, 0.0, 0.4), (0.0, 0.0, 0.0, 0.0)]
"""Probabilities that labels may have; a judge need not make them sum to 1."""


def rollout(group: str, number: int, score: float, roles: str, prefix: int = 0, error: bool = False) -> EpisodeRecord:
    """A record with one segment a letter; ``-`` is an unjudged segment."""
    segments = tuple(Segment(k, f"o{k}", f"{group}/{number}/{k}", f"o{k + 1}") for k in range(len(roles)))
    labels = tuple(
        RoleLabel(k, None, status="failed")
        if r == "-"
        else RoleLabel(k, r, probabilities=SHARES[(number + k) % len(SHARES)], magnitude=(number + 2 * k) % 5 / 4)  # type: ignore[arg-type]
        for k, r in enumerate(roles)
    )
    return EpisodeRecord(
        group,
        segments=segments,
        labels=labels,
        score=score,
        prefix_length=min(prefix, len(roles)),
        error="broke" if error else None,
    )


scores = st.integers(-100, 200).map(lambda i: i / 100)


def decode_roles(code: int) -> str:
    """Letters of a number: one draw a rollout keeps a thousand examples a law affordable."""
    letters = ""
    while code:
        code, digit = divmod(code - 1, 5)
        letters += "DENR-"[digit]
    return letters


def decode_member(code: int) -> tuple[float, int, bool]:
    """Score, prefix length and whether the rollout has an error."""
    code, extra = divmod(code, 16)
    return code / 100 - 1, (0, 0, 1, 3)[extra % 4], extra >= 12


roles = st.integers(0, 3905).map(decode_roles)
members = st.tuples(st.integers(0, 301 * 16 - 1).map(decode_member), roles)


@st.composite
def batches(draw: st.DrawFn) -> list[EpisodeRecord]:
    """One to three groups of up to five rollouts, some with prefixes, errors or nothing in them."""
    groups = draw(st.lists(st.lists(members, max_size=5), min_size=1, max_size=3))
    return [
        rollout(f"g{g}", i, score, letters, prefix, error)
        for g, group in enumerate(groups)
        for i, ((score, prefix, error), letters) in enumerate(group)
    ]


@law
@given(batches(), st.randoms(use_true_random=False))
def test_permuting_rollouts_permutes_advantages(batch: list[EpisodeRecord], random: Any) -> None:
    order = list(range(len(batch)))
    random.shuffle(order)
    for rule in RULES:
        straight, mixed = rule(batch), rule([batch[i] for i in order])
        assert close([straight[i] for i in order], mixed), rule


@law
@given(batches(), st.integers(-50, 50))
def test_adding_a_constant_to_all_outcomes_changes_nothing(batch: list[EpisodeRecord], constant: int) -> None:
    shifted = [replace(r, score=r.score + constant) for r in batch]
    for rule in RULES:
        assert close(rule(batch), rule(shifted)), rule


@law
@given(batches(), st.randoms(use_true_random=False))
def test_order_of_groups_changes_nothing(batch: list[EpisodeRecord], random: Any) -> None:
    names = sorted({r.group_id for r in batch})
    random.shuffle(names)
    order = sorted(range(len(batch)), key=lambda i: names.index(batch[i].group_id))
    for rule in RULES:
        straight, mixed = rule(batch), rule([batch[i] for i in order])
        assert close([straight[i] for i in order], mixed), rule


@law
@given(batches(), st.integers(0, 40))
def test_padding_changes_nothing(batch: list[EpisodeRecord], padding: int) -> None:
    for rule in RULES:
        check_padding(rule, batch, padding)


@law
@given(batches())
def test_duplicating_a_whole_group_leaves_its_advantages_before_whitening(batch: list[EpisodeRecord]) -> None:
    first = [r for r in batch if r.group_id == "g0"]
    copies = [replace(r, group_id="copy") for r in first]
    for rule in PLAIN:
        alone, doubled = rule(batch), rule([*batch, *copies])
        assert close(alone, doubled[: len(batch)]), rule
        if not isinstance(rule, ShuffledTriage):  # its order depends on the group's name
            own = [a for r, a in zip(batch, alone, strict=True) if r.group_id == "g0"]
            assert close(own, doubled[len(batch) :]), rule
    for normed in (GRPO(), Triage(whiten=False)):  # a mean and a population deviation do not see doubling either
        assert close(normed([*first, *first]), [*normed(first), *normed(first)])


@law
@given(batches(), st.integers(1, 30))
def test_long_rollouts_weigh_no_more_in_the_baseline(batch: list[EpisodeRecord], more: int) -> None:
    assume(batch)
    longer = rollout(batch[0].group_id, 0, batch[0].score, "E" * (len(batch[0]) + more), 0, batch[0].error is not None)
    for rule in PLAIN:
        before, after = rule.terms(batch), rule.terms([longer, *batch[1:]])
        assert close([t.outcome for t in before[1:]], [t.outcome for t in after[1:]]), rule
        assert close([t.advantage for t in before[1:]], [t.advantage for t in after[1:]]), rule


@law
@given(batches(), scores, roles, st.integers(0, 3))
def test_an_excluded_rollout_moves_no_sibling(
    batch: list[EpisodeRecord], score: float, its_roles: str, at: int
) -> None:
    excluded = rollout("g0", 99, score, its_roles, error=True)
    at = min(at, len(batch))
    for rule in RULES:
        with_it = rule([*batch[:at], excluded, *batch[at:]])
        assert not with_it[at].any(), rule
        assert close(rule(batch), with_it[:at] + with_it[at + 1 :]), rule


@law
@given(batches(), st.integers(0, 20), st.integers(0, 5))
def test_an_unjudged_segment_moves_no_sibling(batch: list[EpisodeRecord], which: int, at: int) -> None:
    assume(batch)
    i = which % len(batch)
    record = batch[i]
    at = record.prefix_length + at % (len(record) - record.prefix_length + 1)
    unjudged = Segment(at, "", "unjudged", "")
    changed = replace(
        record,
        segments=(*record.segments[:at], unjudged, *record.segments[at:]),
        labels=(*record.labels[:at], RoleLabel(at, None, status="failed"), *record.labels[at:]),
    )
    for rule in ROLE_RULES:
        without = rule(batch)
        terms = rule.terms([*batch[:i], changed, *batch[i + 1 :]])
        with_it = [t.advantage for t in terms]
        assert with_it[i][at] == terms[i].outcome[at], rule
        with_it[i] = np.delete(with_it[i], at)
        assert close(without, with_it), rule


@law
@given(batches(), st.booleans())
def test_all_n_with_worth_zero_and_lambda_zero_are_grpo_bit_for_bit(batch: list[EpisodeRecord], whiten: bool) -> None:
    def bits(rule: Callable[[list[EpisodeRecord]], Any], records: list[EpisodeRecord]) -> list[bytes]:
        return [a.tobytes() for a in rule(records)]

    grpo = GRPO(whiten=whiten)
    idle = [r.with_labels([RoleLabel(k, "N") for k in range(len(r))]) for r in batch]
    assert bits(Triage(constants=(1.0, 0.5, 0.0, -0.5), whiten=whiten), idle) == bits(grpo, idle)
    for rule in (Triage, Scalar, ShuffledTriage):
        assert bits(rule(lam=0.0, whiten=whiten), batch) == bits(grpo, batch)


@law
@given(batches(), st.floats(0, 3), st.tuples(*[st.floats(-2, 2)] * 4))
def test_the_role_term_is_bounded(
    batch: list[EpisodeRecord], lam: float, constants: tuple[float, float, float, float]
) -> None:
    outcome = GRPO()(batch)
    bound = lam * max(map(abs, constants)) + 1e-12
    for rule in (Triage, ShuffledTriage):
        for a, base in zip(rule(lam=lam, constants=constants, whiten=False)(batch), outcome, strict=True):
            assert np.all(np.abs(a - base) <= bound)
    for options in ({"soft": True, "magnitude": True}, {"capped": True}):
        rule = Triage(lam=lam, constants=constants, whiten=False, **options)
        for a, base in zip(rule(batch), outcome, strict=True):
            assert np.all(np.abs(a - base) <= bound), options
    for a, base in zip(Scalar(lam=lam, whiten=False)(batch), outcome, strict=True):
        assert np.all(np.abs(a - base) <= 0.5 * lam + 1e-12)


@st.composite
def spans_of(draw: st.DrawFn, count: int) -> tuple[list[tuple[int, int]], int]:
    """Spans of ``count`` segments in order, with observation tokens between, and the length of the sequence."""
    spans, at = [], 0
    for _ in range(count):
        start = at + draw(st.integers(0, 3))
        at = start + draw(st.integers(0, 3))
        spans.append((start, at))
    return spans, at + draw(st.integers(0, 3))


@law
@given(batches(), st.data())
def test_every_token_gets_its_own_segments_number_and_no_other_any(batch: list[EpisodeRecord], data: Any) -> None:
    assume(batch)
    record = batch[-1]
    spans, length = data.draw(spans_of(len(record)))
    owner = {token: k for k, (start, stop) in enumerate(spans) for token in range(start, stop)}
    for rule in RULES:
        advantages = rule(batch)[-1]
        values, mask = broadcast(record, advantages, spans, length)
        for token in range(length):
            trained = token in owner and owner[token] >= record.prefix_length and record.error is None
            assert mask[token] == trained
            assert values[token] == (advantages[owner[token]] if trained else 0.0)


@law
@given(st.text("DENR", min_size=1, max_size=6), st.text("DENR", max_size=6), st.integers(0, 6), scores, scores)
def test_a_prefix_token_of_a_retry_is_trained_exactly_once(
    first_roles: str, new_roles: str, pivot: int, first_score: float, retry_score: float
) -> None:
    pivot = min(pivot, len(first_roles))
    first = rollout("a", 0, first_score, first_roles)
    retry = replace(rollout("a", 1, retry_score, first_roles[:pivot] + new_roles, pivot), attempt=1, pivot=pivot)
    for rule in RULES:
        advantages = rule([first, retry])
        assert not advantages[1][:pivot].any()
        times = np.zeros(len(first), dtype=int)
        for record, a in zip((first, retry), advantages, strict=True):
            _, mask = broadcast(record, a, [(k, k + 1) for k in range(len(record))], len(record))
            shared = mask[: len(first) if record is first else pivot]
            times[: len(shared)] += shared
        assert np.all(times == 1)


@law
@given(batches())
def test_float32_and_float64_agree(batch: list[EpisodeRecord]) -> None:
    for rule in RULES:
        single = replace(rule, dtype="float32")(batch)
        assert all(a.dtype == np.float32 for a in single)
        assert close(rule(batch), single, 1e-5), rule


@law
@given(batches())
def test_nothing_is_ever_nan(batch: list[EpisodeRecord]) -> None:
    for rule in RULES:
        for record, term in zip(batch, rule.terms(batch), strict=True):
            for array in (term.outcome, term.role, term.advantage):
                assert array.shape == (len(record),)
                assert array.dtype == np.float64
                assert np.all(np.isfinite(array)), rule


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize(
    "batch",
    [
        [],
        [rollout("g", 0, 1.0, "")],
        [rollout("g", 0, 1.0, "D")],
        [rollout("g", 0, 1.0, "-")],
        [rollout("g", 0, 0.1, "DD"), rollout("g", 1, 0.1, "DD"), rollout("g", 2, 0.1, "DD")],
        [rollout("g", 0, 0.1, "", error=True), rollout("h", 0, 0.1, "E", prefix=1)],
    ],
    ids=["empty", "no segments", "group of one", "unjudged", "equal outcomes", "nothing to train"],
)
def test_the_corners_are_finite(rule: Any, batch: list[EpisodeRecord]) -> None:
    out = rule(batch)
    assert [len(a) for a in out] == [len(r) for r in batch]
    assert all(np.all(np.isfinite(a)) for a in out)


def test_the_laws_use_the_papers_constants() -> None:
    assert CONSTANTS == (1.0, 0.5, -0.1, -0.5)
