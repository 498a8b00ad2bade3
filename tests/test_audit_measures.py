"""The numbers of an audit, each against an example worked out by hand, and the laws they keep."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from audit_rows import as_role
from hypothesis import given
from hypothesis import strategies as st

from triage_gym.audit.agreement import agreement, kappa
from triage_gym.audit.benefit import Benefit, benefit, change_of_error
from triage_gym.audit.calibration import brier, calibration, sureness
from triage_gym.audit.measures import NOTHING, accuracy, codes, confusion, macro_f1, score
from triage_gym.audit.resampling import Resampler
from triage_gym.errors import InputError
from triage_gym.records import ROLES, Role, RoleLabel
from triage_gym.statistics import wilson


def roles(text: str) -> list[Role | None]:
    return [as_role(letter) for letter in text]


def single(n: int, resamples: int = 200) -> Resampler:
    return Resampler(range(n), resamples)


def test_scores_by_hand() -> None:
    gold, said = codes(roles("RRRN")), codes(roles("RR-R"))
    found = score(gold, said, "R", single(4))
    assert (found.support, found.given, found.right) == (3, 3, 2)
    assert found.precision is not None
    assert found.recall is not None
    assert found.f1 is not None
    assert found.precision.estimate == pytest.approx(2 / 3)
    assert found.recall.estimate == pytest.approx(2 / 3), "what has no label is missed"
    assert found.recall_judged == 1.0, "and is left out here"
    assert found.f1.estimate == pytest.approx(2 / 3)
    assert found.f1.low <= 2 / 3 <= found.f1.high


def test_a_missing_label_is_no_wrong_role() -> None:
    gold = codes(roles("DDNN"))
    silent = [score(gold, codes(roles("D---")), role, single(4)) for role in ROLES]
    wrong = [score(gold, codes(roles("DNNN")), role, single(4)) for role in ROLES]
    d, n = silent[0], silent[2]
    assert d.precision is not None
    assert d.recall is not None
    assert d.precision.estimate == 1.0
    assert d.recall.estimate == 0.5
    assert n.given == 0
    assert n.precision is None, "no label was given, so none of them is wrong"
    assert wrong[2].precision is not None
    assert wrong[2].precision.estimate == pytest.approx(2 / 3)
    right = accuracy(gold, codes(roles("D---")), single(4))
    assert right is not None
    assert right.estimate == 1.0


def test_a_cell_looks_at_its_segments_alone() -> None:
    gold, said = codes(roles("RRNRD")), codes(roles("RNRRD"))
    won = np.array([True, True, True, False, False])
    found = score(gold, said, "R", single(5), won)
    assert (found.support, found.given, found.right) == (2, 2, 1)
    assert found.f1 is not None
    assert found.f1.estimate == 0.5
    rest = score(gold, said, "R", single(5), ~won)
    assert (rest.support, rest.given, rest.right) == (1, 1, 1)


def test_rows_without_gold_count_nowhere() -> None:
    gold, said = codes(roles("D-")), codes(roles("DD"))
    assert confusion(gold, said).sum() == 1
    assert score(gold, said, "D", single(2)).given == 1


def test_confusion_by_hand() -> None:
    counts = confusion(codes(roles("DDENR-")), codes(roles("DE-NNR")))
    assert counts.tolist() == [[1, 1, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 1, 0, 0], [0, 0, 1, 0, 0]]


def test_where_all_is_right_the_interval_still_has_a_width() -> None:
    gold = codes(roles("R" * 8))
    found = score(gold, gold, "R", single(8))
    alone = wilson(8, 8)
    assert found.precision == alone
    assert found.f1 is not None
    assert (found.f1.estimate, found.f1.high) == (1.0, 1.0)
    assert found.f1.low == pytest.approx(2 * alone.low / (1 + alone.low)), "F1 = 2J / (1 + J)"
    missed = score(gold, codes(roles("N" * 8)), "R", single(8))
    assert missed.f1 is not None
    assert missed.f1.estimate == 0.0
    assert 0.0 < missed.f1.high < 1.0


def test_roles_that_do_not_occur_have_no_score() -> None:
    found = [score(codes(roles("DD")), codes(roles("DD")), role, single(2)) for role in ROLES]
    assert [s.f1 is None for s in found] == [False, True, True, True]
    assert macro_f1(found) == 1.0
    assert macro_f1(found[1:]) is None
    wrong = score(codes(roles("DD")), codes(roles("DN")), "N", single(2))
    assert (wrong.support, wrong.given, wrong.f1) == (0, 1, None), "there was nothing to find"
    assert wrong.precision is not None
    assert wrong.precision.estimate == 0.0


def test_kappa_by_hand() -> None:
    # 20 D/D, 5 D/N, 10 N/D, 15 N/N: observed 35/50 = 0.7; chance 0.5·0.6 + 0.5·0.4 = 0.5; (0.7 - 0.5) / 0.5.
    first, second = roles("D" * 25 + "N" * 25), roles("D" * 20 + "N" * 5 + "D" * 10 + "N" * 15)
    found = agreement(("a", codes(first)), ("b", codes(second)), single(50, 2000))
    assert found.n == 50
    assert found.share == pytest.approx(0.7)
    assert found.kappa is not None
    assert found.kappa.estimate == pytest.approx(0.4)
    # The large-sample standard error of this table is 0.128: the interval is about 0.4 ± 0.25.
    assert found.kappa.low == pytest.approx(0.15, abs=0.06)
    assert found.kappa.high == pytest.approx(0.65, abs=0.06)


def test_kappa_leaves_out_what_only_one_labelled() -> None:
    found = agreement(("a", codes(roles("DN-D"))), ("b", codes(roles("DND-"))), single(4))
    assert found.n == 2
    assert found.kappa is not None
    assert found.kappa.estimate == 1.0


def test_kappa_is_undefined_for_a_single_role() -> None:
    found = agreement(("a", codes(roles("NNN"))), ("b", codes(roles("NNN"))), single(3))
    assert found.share == 1.0
    assert found.kappa is None
    nobody = agreement(("a", codes(roles("---"))), ("b", codes(roles("NNN"))), single(3))
    assert nobody.share is None
    assert nobody.kappa is None


def labelled(says: str, sure: list[float]) -> list[RoleLabel]:
    return [
        RoleLabel(k, role, s, status="judged" if role else "failed")
        for k, (role, s) in enumerate(zip(roles(says), sure, strict=True))
    ]


def test_calibration_by_hand() -> None:
    labels = labelled("DDNN-", [0.9, 0.9, 0.6, 0.6, 1.0])
    found = calibration(codes(roles("DENNN")), labels, single(5))
    assert found.n == 4
    assert found.stated
    assert [(round(b.low, 2), b.n, b.right.estimate) for b in found.bins] == [(0.6, 2, 1.0), (0.9, 2, 0.5)]
    assert found.ece is not None
    assert found.ece.estimate == pytest.approx((2 * abs(1 - 0.6) + 2 * abs(0.5 - 0.9)) / 4)
    assert found.brier is None


def test_bins_hold_their_lower_end_and_the_last_one() -> None:
    labels = labelled("DDDD", [0.0, 0.3, 0.7, 1.0])
    found = calibration(codes(roles("DDDD")), labels, single(4))
    assert [round(b.low, 2) for b in found.bins] == [0.0, 0.3, 0.7, 0.9]


def test_confidence_is_the_probability_of_what_was_said() -> None:
    labels = [RoleLabel(0, "E", 0.2, (0.1, 0.7, 0.1, 0.1)), RoleLabel(1, "E", 0.2), RoleLabel(2, None, status="unsure")]
    assert sureness(labels)[:2].tolist() == [0.7, 0.2]
    assert np.isnan(sureness(labels)[2])
    assert brier(codes(roles("DEE")), labels) is None
    one = [RoleLabel(0, "D", 0.7, (0.7, 0.1, 0.1, 0.1)), RoleLabel(1, "D", 0.7, (0.7, 0.1, 0.1, 0.1))]
    assert brier(codes(roles("D-")), one) == pytest.approx(0.12)
    assert brier(codes(roles("DR")), one) == pytest.approx((0.12 + 0.49 + 0.81 + 0.02) / 2)


def test_one_confidence_throughout_is_said_to_be_none() -> None:
    found = calibration(codes(roles("DE")), labelled("DD", [1.0, 1.0]), single(2))
    assert not found.stated
    nothing = calibration(codes(roles("--")), labelled("DD", [1.0, 1.0]), single(2))
    assert (nothing.n, nothing.ece, nothing.stated) == (0, None, False)


def gains(says: str, delta: list[float], outcome: list[float] | None = None) -> Benefit:
    n = len(says)
    advantage = np.full(n, np.nan) if outcome is None else np.array(outcome)
    found = benefit(codes(roles(says)), np.array(delta), advantage, single(n))
    assert found is not None
    return found


def test_benefit_by_hand() -> None:
    # c = 1, 0.5, -0.5, 0 (no label); δ = 0.4, 0.2, -0.2, 0.4: means 0.25 and 0.2, E[cδ] = (0.4 + 0.1 + 0.1) / 4 = 0.15,
    # Cov = 0.15 - 0.05 = 0.1, E[c²] = (1 + 0.25 + 0.25) / 4 = 0.375, λ* = 4/15.
    found = gains("DER-", [0.4, 0.2, -0.2, 0.4])
    assert found.mean_delta == pytest.approx(0.2)
    assert found.covariance is not None
    assert found.covariance.estimate == pytest.approx(0.1)
    assert found.best_weight == pytest.approx(4 / 15)
    weights = dict(found.change)
    assert weights[0.2] == pytest.approx(0.04 * 0.375 - 0.4 * 0.1)
    assert weights[found.best_weight] == pytest.approx(-(0.1**2) / 0.375)
    assert min(weights.values()) == weights[found.best_weight]
    assert [(g.role, g.n) for g in found.gains] == [("D", 1), ("E", 1), ("N", 0), ("R", 1)]
    assert [g.gain.estimate for g in found.gains if g.gain is not None] == pytest.approx([0.4, 0.2, -0.2])
    assert found.monotone is True
    assert found.foretold is None, "nobody knows A_i"


def test_the_verdict_goes_by_the_correlation_with_the_own_advantage() -> None:
    # D sits where the outcome credits too much already: Cov(c, δ) < 0, and yet c tells A* and A_i does not.
    outcome = [1.0, 1.0, 1.0, -1.0, -1.0, -1.0]
    star = [0.9, -0.2, -0.3, 0.8, -0.2, -0.3]
    found = gains("DRRDRR", [a - o for a, o in zip(star, outcome, strict=True)], outcome)
    assert found.correction_corr is not None
    assert found.outcome_corr is not None
    c = [1.0, -0.5, -0.5, 1.0, -0.5, -0.5]
    assert found.correction_corr.estimate == pytest.approx(np.corrcoef(c, star)[0, 1])
    assert found.outcome_corr.estimate == pytest.approx(np.corrcoef(outcome, star)[0, 1])
    assert found.foretold is True


def test_without_delta_there_is_no_benefit() -> None:
    assert benefit(codes(roles("D")), np.array([np.nan]), np.array([1.0]), single(1)) is None
    one = gains("D-", [0.3, np.nan])
    assert one.n == 1
    assert one.monotone is None


def test_change_of_error_by_hand() -> None:
    assert change_of_error(0.2, 0.5, 0.1) == pytest.approx(-0.02)
    assert change_of_error(0.4, 0.5, 0.1) == pytest.approx(0.0)
    assert change_of_error(1.0, 0.5, 0.1) == pytest.approx(0.3)


def test_attempts_are_drawn_whole() -> None:
    """Ten copies of a segment in one attempt tell no more than one."""
    gold, said = codes(roles("RRRR")), codes(roles("RNRN"))
    alone = score(gold, said, "R", single(4, 2000)).recall
    copied = score(np.repeat(gold, 10), np.repeat(said, 10), "R", Resampler(np.repeat(range(4), 10), 2000)).recall
    spread = score(np.repeat(gold, 10), np.repeat(said, 10), "R", single(40, 2000)).recall
    assert alone is not None
    assert copied is not None
    assert spread is not None
    assert (copied.low, copied.high, copied.n) == (alone.low, alone.high, 4)
    assert spread.high - spread.low < (copied.high - copied.low) / 2


def test_the_same_seed_draws_the_same_in_blocks_or_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, said = codes(roles("RDNE" * 9)), codes(roles("RDEN" * 9))
    whole = score(gold, said, "R", single(36)), score(gold, said, "E", single(36))
    again = single(36)
    assert (score(gold, said, "R", again), score(gold, said, "E", again)) == whole, "kept draws are the same"
    monkeypatch.setattr("triage_gym.audit.resampling._BLOCK", 36 * 7)
    monkeypatch.setattr("triage_gym.audit.resampling._KEEP", 0)
    small = single(36)
    assert (score(gold, said, "R", small), score(gold, said, "E", small)) == whole
    other = score(gold, codes(roles("RNEE" * 9)), "E", Resampler(range(36), 200, seed=1)).f1
    assert other != score(gold, codes(roles("RNEE" * 9)), "E", single(36)).f1


@pytest.mark.parametrize("bad", [{"resamples": 0}, {"confidence": 1.0}, {"confidence": 0.0}])
def test_bad_resampling_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InputError, match="resample"):
        Resampler(range(3), **bad)  # type: ignore[arg-type]


some = st.lists(st.sampled_from([0, 1, 2, 3, NOTHING]), min_size=1, max_size=30)


@given(some)
def test_a_perfect_judge(gold: list[int]) -> None:
    known = np.array(gold, dtype=np.int64)
    made = single(known.size, 20)
    for role in ROLES:
        f1 = score(known, known, role, made).f1
        assert (f1 is None) == (ROLES.index(role) not in gold)
        assert f1 is None or f1.estimate == 1.0
    found = agreement(("a", known), ("b", known), made).kappa
    assert (found is None) == (len(set(gold) - {NOTHING}) < 2)
    assert found is None or found.estimate == pytest.approx(1.0)


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 3)), min_size=1, max_size=30), st.randoms())
def test_the_order_of_segments_changes_no_estimate(pairs: list[tuple[int, int]], random: Random) -> None:
    turned = list(pairs)
    random.shuffle(turned)

    def estimates(rows: list[tuple[int, int]]) -> list[float | None]:
        gold, said = (np.array(x, dtype=np.int64) for x in zip(*rows, strict=True))
        made = single(len(rows), 5)
        found = [score(gold, said, role, made).f1 for role in ROLES]
        both = agreement(("a", gold), ("b", said), made).kappa
        return [None if x is None else x.estimate for x in [*found, both]]

    assert estimates(pairs) == pytest.approx(estimates(turned), nan_ok=True)


@given(st.lists(st.integers(0, 30), min_size=16, max_size=16))
def test_kappa_is_symmetric_and_at_most_one(counts: list[int]) -> None:
    table = np.array(counts, dtype=np.float64)
    one, two = kappa(table[None])[0], kappa(table.reshape(4, 4).T.reshape(1, 16))[0]
    assert one == pytest.approx(two, nan_ok=True)
    assert np.isnan(one) or one <= 1.0 + 1e-12


def test_shuffled_labels_agree_by_chance_alone() -> None:
    """Estimates near 0, and intervals that hold it about as often as they say."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(40):
        gold = rng.choice(4, size=400, p=[0.1, 0.4, 0.2, 0.3])
        found = agreement(("a", gold), ("b", rng.permutation(gold)), single(400)).kappa
        assert found is not None
        assert abs(found.estimate) < 0.15
        held += found.low < 0.0 < found.high
    assert held >= 34
