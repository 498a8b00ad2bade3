"""The laws that every credit rule keeps, for the rules of trials, each as a property over 1,000 batches of trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from laws_of_credit import check_padding, close, law

from triage_gym.credit.baselines import against_rollouts
from triage_gym.credit.batch import Segments
from triage_gym.credit.returns import cross_attempt_returns, next_attempts, step_returns, turn_rewards
from triage_gym.credit.rules import GRPO
from triage_gym.credit.tokens import broadcast
from triage_gym.credit.trials import R3L, GiGPO, MetaRL, PivoARL
from triage_gym.credit.whitening import whiten
from triage_gym.records import EpisodeRecord, Reflection, RoleLabel, Segment

PLAIN: list[Any] = [
    GiGPO(),
    PivoARL(),
    PivoARL(base="gigpo", norm="mean", triage=True),
    PivoARL(triage=True, returns="rewards", lam=0.4),
    MetaRL(triage=True),
    MetaRL(variant="code", base="gigpo", omega=0.5),
    R3L(),
    R3L(base="gigpo", variant="code", norm="mean_std", triage=True),
]
WHITENED: list[Any] = [GiGPO(whiten=True), PivoARL(whiten=True, triage=True), R3L(whiten=True, triage=True)]
RULES = PLAIN + WHITENED
ACROSS: list[Any] = [PivoARL(), PivoARL(reflection_return="trial", norm="mean"), MetaRL(reflection_baseline="group")]
SINGLE = {rule: replace(rule, dtype="float32") for rule in [*RULES, *ACROSS, R3L()]}
SOURCES = ("policy", "role", "policy", "")


def played(group: str, trial: str, number: int, code: int, parent: EpisodeRecord | None) -> EpisodeRecord:
    """The attempt that a number stands for; one draw an attempt keeps a thousand examples a law affordable."""

    def take(size: int) -> int:
        nonlocal code
        code, digit = divmod(code, size)
        return digit

    score, source, broken, pivot = take(101) / 100, SOURCES[take(4)], take(6) == 5, take(5)
    prefix = () if parent is None else parent.segments[:pivot]
    new = [take(5 * 3) for _ in range(take(4) + (parent is None))]
    segments = [*prefix]
    for digit in new:
        segments.append(Segment(len(segments), f"o{digit % 3}", f"a{number}", "", float(digit - 6)))
    roles = [None if parent is None else parent.roles[k] for k in range(len(prefix))]
    roles += [("D", "E", "N", "R", None)[digit // 3] for digit in new]
    return EpisodeRecord(
        group,
        trial=trial,
        attempt=number,
        parent=number - 1,
        pivot=-1 if parent is None else len(prefix),
        prefix_length=len(prefix),
        segments=tuple(segments),
        labels=tuple(RoleLabel(k, r, status="failed" if r is None else "judged") for k, r in enumerate(roles)),
        score=score,
        success=score > 0.9,
        error="broke" if broken else None,
        reflection=Reflection("", len(prefix), source) if source and parent is not None else None,
    )


trials = st.lists(st.integers(0, 2**40), min_size=1, max_size=3)


@st.composite
def batches(draw: st.DrawFn) -> list[EpisodeRecord]:
    """One or two groups of up to three trials of up to three attempts, some of them excluded or without a turn."""
    records: list[EpisodeRecord] = []
    for g, group in enumerate(draw(st.lists(st.lists(trials, max_size=3), min_size=1, max_size=2))):
        for t, trial in enumerate(group):
            parent: EpisodeRecord | None = None
            for number, code in enumerate(trial):
                parent = played(f"g{g}", f"t{t}", number, code, parent)
                records.append(parent)
    return records


@law
@given(batches(), st.randoms(use_true_random=False))
def test_permuting_rollouts_trials_or_groups_permutes_advantages(batch: list[EpisodeRecord], random: Any) -> None:
    order = list(range(len(batch)))
    random.shuffle(order)
    mixed = [batch[i] for i in order]
    for rule in RULES:
        straight = rule(batch)
        assert close([straight[i] for i in order], rule(mixed)), rule
    for rule in ACROSS:
        assert close([rule.reflections(batch)[order]], [rule.reflections(mixed)]), rule


@law
@given(batches(), st.integers(-50, 50))
def test_adding_a_constant_to_all_outcomes_changes_nothing(batch: list[EpisodeRecord], constant: int) -> None:
    shifted = [replace(r, score=r.score + constant) for r in batch]
    for rule in RULES:
        assert close(rule(batch), rule(shifted)), rule
    for rule in (*ACROSS, R3L()):
        assert close([rule.reflections(batch)], [rule.reflections(shifted)]), rule


@law
@given(batches(), st.integers(0, 40))
def test_equal_outcomes_teach_nothing_and_padding_changes_nothing(batch: list[EpisodeRecord], padding: int) -> None:
    equal = [replace(r, score=0.7) for r in batch]
    for rule in (PivoARL(), PivoARL(base="gigpo"), MetaRL(variant="code"), R3L(), GiGPO()):
        assert not any(a.any() for a in rule(equal)), rule
        check_padding(rule, batch, padding)


@law
@given(batches())
def test_duplicating_a_whole_group_leaves_its_advantages_before_whitening(batch: list[EpisodeRecord]) -> None:
    first = [r for r in batch if r.group_id == "g0"]
    copies = [replace(r, group_id="copy") for r in first]
    for rule in PLAIN:
        alone, doubled = rule(batch), rule([*batch, *copies])
        assert close(alone, doubled[: len(batch)]), rule
        assert close(alone[: len(first)], doubled[len(batch) :]), rule
        # Nor does a mean or a population deviation see a group twice as large; only a lone rollout gets company.
        twice = rule([*first, *[replace(r, trial=f"{r.trial}'") for r in first]])
        own = rule(first)
        if sum(bool(t) for t in map(_trained, first)) != 1:
            assert close(twice, [*own, *own]), rule


def _trained(record: EpisodeRecord) -> int:
    return 0 if record.error is not None else len(record) - record.prefix_length


@law
@given(batches(), st.integers(0, 20), st.integers(1, 30))
def test_long_rollouts_weigh_no_more_in_the_baseline(batch: list[EpisodeRecord], which: int, more: int) -> None:
    last = [i for i, after in enumerate(next_attempts(batch)) if after < 0 and _trained(batch[i])]
    assume(last)
    i = last[which % len(last)]
    # Without a discount a longer last attempt has the same return at every turn, so its siblings must not move.
    at = len(batch[i])
    longer = tuple(Segment(at + k, f"alone {k}", "on", "") for k in range(more))
    changed = replace(batch[i], segments=(*batch[i].segments, *longer), labels=())
    others = [*batch[:i], *batch[i + 1 :]]
    for plain in PLAIN:
        if plain.returns == "outcome":
            rule = replace(plain, gamma_step=1, triage=False)
            before, after = rule(batch), rule([*batch[:i], changed, *batch[i + 1 :]])
            assert len(after[i]) == at + more
            assert close([*before[:i], *before[i + 1 :]], [*after[:i], *after[i + 1 :]]), (rule, others)


@law
@given(batches(), st.integers(0, 20), st.integers(2, 5), st.randoms(use_true_random=False))
def test_a_rollout_weighs_the_same_however_often_its_values_repeat(
    batch: list[EpisodeRecord], which: int, times: int, random: Any
) -> None:
    assume(batch)
    i = which % len(batch)
    values = [np.array([random.uniform(-2, 2) for _ in r.segments]) for r in batch]
    start = batch[i].prefix_length
    repeated = [*batch[i].segments[:start], *(batch[i].segments[start:] * times)]
    longer = replace(batch[i], segments=tuple(repeated), labels=())
    again = [*values[:i], np.concatenate([values[i][:start], *[values[i][start:]] * times]), *values[i + 1 :]]
    before, after = Segments(batch), Segments([*batch[:i], longer, *batch[i + 1 :]])
    for norm in ("mean", "mean_std"):
        straight = against_rollouts(np.concatenate(values), before, norm, 1e-8)  # type: ignore[arg-type]
        weighed = against_rollouts(np.concatenate(again), after, norm, 1e-8)  # type: ignore[arg-type]
        for k, (own, other) in enumerate(zip(before.bounds, after.bounds, strict=True)):
            part = weighed[slice(*other)]
            assert close([straight[slice(*own)]], [part[: own[1] - own[0]]]), k


@law
@given(batches(), st.integers(0, 2**40), st.integers(0, 20), st.integers(0, 3), st.booleans())
def test_an_excluded_rollout_moves_no_sibling(
    batch: list[EpisodeRecord], code: int, at: int, number: int, nameless: bool
) -> None:
    # It may pretend to be any attempt of any trial: the next one of a chain, or one that is there already.
    trial = "" if nameless else "t0"
    broken = replace(played("g0", trial, number, code, None), error="broke", score=float("nan"))
    at = min(at, len(batch))
    for rule in RULES:
        with_it = rule([*batch[:at], broken, *batch[at:]])
        assert not with_it[at].any(), rule
        assert close(rule(batch), with_it[:at] + with_it[at + 1 :]), rule
    for rule in (*ACROSS, R3L()):
        reflections = rule.reflections([*batch[:at], broken, *batch[at:]])
        assert reflections[at] == 0
        assert close([np.delete(reflections, at)], [rule.reflections(batch)]), rule


@law
@given(batches(), st.integers(0, 20), st.integers(0, 7))
def test_an_unjudged_segment_moves_no_sibling(batch: list[EpisodeRecord], which: int, at: int) -> None:
    assume(any(len(r) for r in batch))
    i = [k for k, r in enumerate(batch) if len(r)][which % sum(bool(len(r)) for r in batch)]
    at %= len(batch[i])
    labels = [*batch[i].labels]
    labels[at] = RoleLabel(at, None, status="failed")
    changed = [*batch[:i], batch[i].with_labels(labels), *batch[i + 1 :]]
    for rule in RULES:
        if not rule.triage:
            assert close(rule(batch), rule(changed), 0.0), rule
            continue
        plain = replace(rule, whiten=False)
        before, after = plain(batch), plain.terms(changed)
        assert after[i].advantage[at] == after[i].outcome[at], rule
        before[i][at] = after[i].advantage[at]
        assert close(before, [t.advantage for t in after], 0.0), rule
        if rule.whiten:  # the same numbers standardised without it, and without what is not trained
            segments = Segments(changed)
            white = whiten(np.concatenate(before), rule.trained(segments) & (segments.role >= 0), rule.eps)
            assert close([np.concatenate(rule(changed))], [white]), rule


@law
@given(batches())
def test_all_n_with_worth_zero_and_lambda_zero_are_the_rule_without_bit_for_bit(batch: list[EpisodeRecord]) -> None:
    def bits(rule: Callable[[list[EpisodeRecord]], Any], records: list[EpisodeRecord]) -> list[bytes]:
        return [a.tobytes() for a in rule(records)]

    idle = [r.with_labels([RoleLabel(k, "N") for k in range(len(r))]) for r in batch]
    for rule in (GiGPO(), PivoARL(), PivoARL(whiten=True), MetaRL(base="gigpo"), R3L(whiten=True)):
        assert bits(replace(rule, triage=True, lam=0.0), batch) == bits(rule, batch), rule
        assert bits(replace(rule, triage=True, constants=(1.0, 0.5, 0.0, -0.5)), idle) == bits(rule, idle), rule
    assert bits(GiGPO(omega=0.0), batch) == bits(GRPO(), batch)
    single = [replace(r, trial="", attempt=0, parent=-1) for r in batch]
    assert close(PivoARL(gamma_step=1.0)(single), MetaRL(gamma_step=1.0)(single), 0.0)
    sound = [r for r in single if _trained(r)]  # a rollout without a turn to train is in GRPO's mean
    assert close(PivoARL(gamma_step=1.0)(sound), GRPO()(sound))


@law
@given(batches(), st.floats(0, 3), st.tuples(*[st.floats(-2, 2)] * 4))
def test_the_role_term_is_bounded(
    batch: list[EpisodeRecord], lam: float, constants: tuple[float, float, float, float]
) -> None:
    bound = lam * max(map(abs, constants)) + 1e-12
    for rule in (GiGPO(), PivoARL(), MetaRL(base="gigpo"), R3L()):
        with_roles = replace(rule, triage=True, lam=lam, constants=constants)
        for a, base in zip(with_roles(batch), rule(batch), strict=True):
            assert np.all(np.abs(a - base) <= bound), rule


@law
@given(batches())
def test_every_action_of_a_trial_is_trained_exactly_once(batch: list[EpisodeRecord]) -> None:
    sound = [replace(r, error=None) for r in batch]
    # Who acted turn t of an attempt: the attempt itself from its prefix on, else whoever acted it for its parent.
    acted = {(r.group_id, r.trial, r.attempt, t) for r in sound for t in range(r.prefix_length, len(r))}
    segments = Segments(sound)
    times: Counter[tuple[str, str, int, int]] = Counter()
    for record, (start, stop) in zip(sound, segments.bounds, strict=True):
        for t in np.flatnonzero(segments.trained[start:stop]):
            times[record.group_id, record.trial, record.attempt, int(t)] += 1
    assert set(times) == acted
    assert set(times.values()) <= {1}
    for record, kept, a in zip(sound, segments.kept, R3L()(sound), strict=True):
        assert not a[: max(kept, record.prefix_length)].any()  # R3L leaves out what the retry kept as well
    copied = ~segments.trained
    for rule in RULES:
        assert not np.concatenate([*rule(sound), np.zeros(0)])[copied].any()
    for record in sound:
        _, mask = broadcast(record, np.ones(len(record)), [(k, k + 1) for k in range(len(record))], len(record))
        assert mask.tolist() == [not copy for copy in record.prefix_mask]


@law
@given(batches())
def test_float32_and_float64_agree_nothing_is_nan_and_only_own_reflections_are_paid(batch: list[EpisodeRecord]) -> None:
    for rule in RULES:
        terms, single = rule.terms(batch), SINGLE[rule](batch)
        assert {a.dtype for a in single} <= {np.dtype(np.float32)}
        assert close([t.advantage for t in terms], single, 1e-5), rule
        arrays = [array for t in terms for array in (t.outcome, t.role, t.advantage)]
        assert [len(a) for a in arrays] == [len(r) for r in batch for _ in range(3)]
        assert {a.dtype for a in arrays} <= {np.dtype(np.float64)}
        assert np.all(np.isfinite(np.concatenate([*arrays, np.zeros(0)]))), rule
    own = np.array(
        [r.error is None and r.reflection is not None and r.reflection.source == "policy" for r in batch], dtype=bool
    )
    for rule in (*ACROSS, R3L()):
        reflections = rule.reflections(batch)
        assert reflections.shape == (len(batch),)
        assert np.all(np.isfinite(reflections)), rule
        assert close([SINGLE[rule].reflections(batch)], [reflections], 1e-5), rule
        assert not reflections[~own].any(), rule
        assert isinstance(rule, R3L) or abs(reflections.sum()) <= 1e-7, rule  # R3L imitates, the others compare


@law
@given(batches(), st.floats(0, 1), st.floats(0, 1))
def test_the_returns_are_the_sums_that_the_formulas_say(
    batch: list[EpisodeRecord], gamma_step: float, gamma_traj: float
) -> None:
    rewards = turn_rewards(batch)
    inside = [step_returns(r, gamma_step) for r in rewards]
    pivotal, lamer = (cross_attempt_returns(batch, rule, gamma_step, gamma_traj) for rule in ("pivoarl", "metarl"))  # type: ignore[arg-type]
    for n, record in enumerate(batch):
        later = followers(batch, n)
        starts = [inside[m][batch[m].prefix_length] if _trained(batch[m]) else 0.0 for m in later]
        future = sum(gamma_traj ** (j + 1) * g for j, g in enumerate(starts))
        pivot = batch[later[0]].pivot if later else 0
        for t in range(len(record)):
            direct = sum(gamma_step ** (s - t) * rewards[n][s] for s in range(t, len(record)))
            assert inside[n][t] == pytest.approx(direct, abs=1e-12)
            assert lamer[n][t] == pytest.approx(direct + future, abs=1e-12)
            assert pivotal[n][t] == pytest.approx(direct + (future if t < pivot else 0.0), abs=1e-12)
            assert t < pivot or pivotal[n][t] == inside[n][t]  # isolated bit for bit


def followers(batch: list[EpisodeRecord], n: int) -> list[int]:
    """Positions of the attempts after ``n`` in its chain, up to the first that is missing or excluded."""
    found, me = [], batch[n]
    while me.error is None:
        same = [
            m
            for m, r in enumerate(batch)
            if (r.group_id, r.trial, r.attempt) == (me.group_id, me.trial, me.attempt + 1) and r.error is None
        ]
        if not same:
            break
        found.append(same[0])
        me = batch[same[0]]
    return found


@law
@given(batches(), st.floats(0, 1), st.floats(0, 1))
def test_the_variant_is_what_lamers_code_computes_backwards_over_a_trial(
    batch: list[EpisodeRecord], gamma_step: float, gamma_traj: float
) -> None:
    # Its code walks a trial of full restarts backwards with one running value.
    restarts = [
        replace(r, pivot=-1 if r.attempt == 0 else 0, prefix_length=0)
        for r in batch
        if r.group_id == "g0" and r.trial == "t0" and len(r)
    ]
    assume(restarts and len({r.error for r in restarts}) == 1 and restarts[0].error is None)
    restarts = [replace(r, attempt=n, parent=n - 1) for n, r in enumerate(restarts)]
    rewards = turn_rewards(restarts)
    running, expected = 0.0, [np.zeros(len(r)) for r in restarts]
    for n in range(len(restarts) - 1, -1, -1):
        for t in range(len(restarts[n]) - 1, -1, -1):
            last = t == len(restarts[n]) - 1
            running = rewards[n][t] + (gamma_traj if last else gamma_step) * running
            expected[n][t] = running
    assert close(cross_attempt_returns(restarts, "metarl", gamma_step, gamma_traj, "code"), expected)


@pytest.mark.parametrize("rule", [*RULES, PivoARL(base="gigpo", whiten=True), MetaRL(returns="rewards")], ids=repr)
@pytest.mark.parametrize(
    "batch",
    [
        [],
        [EpisodeRecord("g")],
        [EpisodeRecord("g", segments=(Segment(0, "", "", ""),))],
        [EpisodeRecord("g", segments=(Segment(0, "", "", ""),), error="broke"), EpisodeRecord("g")],
        [EpisodeRecord("g", segments=(Segment(0, "", "", ""),), prefix_length=1, attempt=1, parent=0, trial="t")],
        [EpisodeRecord("g", score=0.1, segments=(Segment(0, "", "", ""),) * 2)] * 1
        + [EpisodeRecord("g", score=0.1, segments=(Segment(0, "", "", ""),) * 3, trial="t")],
    ],
    ids=["empty", "no segments", "group of one", "nothing sound", "nothing to train", "equal outcomes"],
)
def test_the_corners_are_finite(rule: Any, batch: list[EpisodeRecord]) -> None:
    out = rule(batch)
    assert [len(a) for a in out] == [len(r) for r in batch]
    assert not any(a.any() for a in out)
    if not isinstance(rule, GiGPO):
        assert not rule.reflections(batch).any()
