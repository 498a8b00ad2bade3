"""Credit of trials by hand: the toy trial on which the rules part, GiGPO, LaMer's code, chains, reflections, options."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from envs_for_tests import Corridor
from gymnasium.wrappers import TimeLimit

from triage_gym import credit, registry
from triage_gym.credit.baselines import against_rollouts, standardise
from triage_gym.credit.batch import Segments
from triage_gym.credit.returns import cross_attempt_returns, next_attempts, step_returns, turn_rewards
from triage_gym.credit.rules import GRPO
from triage_gym.credit.trials import R3L, GiGPO, MetaRL, PivoARL
from triage_gym.errors import GroupError, InputError
from triage_gym.protocols import ReflectionCredit
from triage_gym.records import EpisodeRecord, Reflection, RoleLabel, Segment
from triage_gym.wrappers.pivot_retry import PivotRetryWrapper
from triage_gym.wrappers.segment_credit import SegmentCreditWrapper, _worth


def attempt(
    number: int, turns: str, score: float, pivot: int = -1, trial: str = "t", group: str = "g", **fields: Any
) -> EpisodeRecord:
    """Attempt ``number`` of a trial, one segment a letter, which names the observation that the turn began at."""
    written = Reflection("look again", pivot, "policy") if number else None
    lineage = {"parent": number - 1, "prefix_length": max(pivot, 0), "reflection": written}
    return EpisodeRecord(
        group,
        attempt=number,
        pivot=pivot,
        segments=tuple(Segment(k, o, f"act {k}", "") for k, o in enumerate(turns)),
        score=score,
        success=score == 1.0,
        trial=trial,
        **{**lineage, **fields},
    )


def lists(arrays: Sequence[Any]) -> list[list[float]]:
    return [a.tolist() for a in arrays]


def near(arrays: Sequence[Any], expected: Sequence[Sequence[float]]) -> bool:
    return len(arrays) == len(expected) and all(
        a.tolist() == pytest.approx(list(e), abs=1e-12) for a, e in zip(arrays, expected, strict=True)
    )


# Four turns fail; the retry keeps two, acts two anew and succeeds. γ_step = ½, γ_traj = ½: g_start of the retry is ½.
TOY = [attempt(0, "abcd", 0.0), attempt(1, "abxy", 1.0, pivot=2)]
HALF: dict[str, Any] = {"gamma_step": 0.5, "gamma_traj": 0.5}


def test_returns_inside_an_attempt() -> None:
    assert step_returns([1.0, 0.0, 2.0], 0.5).tolist() == [1.5, 1.0, 2.0]
    assert step_returns([], 0.5).tolist() == []
    assert step_returns([1, 2, 3], 0.0).tolist() == [1, 2, 3]


def test_the_toy_trial_parts_the_three_rules() -> None:
    later = 0.5 * 0.5  # γ_traj times g_start of the retry
    assert lists(cross_attempt_returns(TOY, "pivoarl", **HALF)) == [[later, later, 0, 0], [0.125, 0.25, 0.5, 1]]
    assert lists(cross_attempt_returns(TOY, "metarl", **HALF)) == [[later] * 4, [0.125, 0.25, 0.5, 1]]
    # Scores 0 and 1: A = -½ and ½; the retry has the maximum, so it gets α = 3. Before the pivot nothing is trained.
    assert lists(R3L()(TOY)) == [[0, 0, -0.5, -0.5], [0, 0, 3, 3]]


def test_the_toy_trial_as_advantages() -> None:
    # G of trained turns: [¼ ¼ 0 0] and [½ 1]. Means ⅛ and ¾ give μ = 7/16, though six turns have the mean ⅓.
    pivotal = PivoARL(norm="mean", **HALF)(TOY)
    assert lists(pivotal) == [[-3 / 16, -3 / 16, -7 / 16, -7 / 16], [0, 0, 1 / 16, 9 / 16]]
    # Mean squares: (2·9 + 2·49)/4 = 29 and (1 + 81)/2 = 41 of 256ths; σ² = 35/256.
    sigma = math.sqrt(35) / 16
    assert near(PivoARL(**HALF)(TOY), [[a / sigma for a in own] for own in lists(pivotal)])
    # LaMer: [¼ ¼ ¼ ¼] and [½ 1]: μ = ½.
    assert lists(MetaRL(norm="mean", **HALF)(TOY)) == [[-0.25] * 4, [0, 0, 0, 0.5]]
    # GiGPO and GRPO give the failed attempt nothing of the retry.
    assert lists(GiGPO(norm="mean", gamma_step=0.5)(TOY)) == [[-0.5] * 4, [0, 0, 0.5, 0.5]]


def test_three_attempts_with_both_discounts() -> None:
    # g_start: attempt 1 fails with .2 above the lowest, two turns anew: .1; attempt 2 begins at turn 1, three turns: ¼.
    trial = [attempt(0, "abcd", 0.0), attempt(1, "abcx", 0.2, pivot=2), attempt(2, "apqr", 1.0, pivot=1)]
    first = 0.5 * 0.1 + 0.25 * 0.25
    second = 0.5 * 0.25
    inside = [[0, 0, 0, 0], [0.025, 0.05, 0.1, 0.2], [0.125, 0.25, 0.5, 1.0]]
    pivotal = cross_attempt_returns(trial, "pivoarl", **HALF)
    assert near(pivotal, [[first, first, 0, 0], [0.025 + second, 0.05, 0.1, 0.2], inside[2]])
    lamer = cross_attempt_returns(trial, "metarl", **HALF)
    assert near(lamer, [[first] * 4, [g + second for g in inside[1]], inside[2]])


def test_the_code_of_lamer_discounts_by_the_turns_left() -> None:
    # Full restarts: G_0 of attempt 2 is ½; attempt 1 has [0 0] + ½·½·[½ 1]; attempt 0 [0 0 0] + ½·G_0(1) = ½·⅛ ·[¼ ½ 1].
    trial = [attempt(0, "abc", 0.0), attempt(1, "ab", 0.0, pivot=0), attempt(2, "ab", 1.0, pivot=0)]
    by_code = cross_attempt_returns(trial, "metarl", **HALF, variant="code")
    assert lists(by_code) == [[1 / 64, 1 / 32, 1 / 16], [1 / 8, 1 / 4], [0.5, 1.0]]
    by_paper = cross_attempt_returns(trial, "metarl", **HALF)
    assert lists(by_paper) == [[1 / 8] * 3, [1 / 4] * 2, [0.5, 1.0]]
    both = [MetaRL(variant="code", norm="mean", **HALF)(trial), MetaRL(norm="mean", **HALF)(trial)]
    means = [(7 / 192 + 3 / 16 + 3 / 4) / 3, (1 / 8 + 1 / 4 + 3 / 4) / 3]
    for rule, returns, mean in zip(both, (by_code, by_paper), means, strict=True):
        assert near(rule, [[g - mean for g in own] for own in lists(returns)])


def test_gigpo_by_hand() -> None:
    # Returns (γ = ½): [½ 1] and [0 0]. Both began at a: A^S = ±1 (mean ¼, deviation ¼); b and c are alone.
    batch = [attempt(0, "ab", 1.0, trial="t"), attempt(0, "ac", 0.0, trial="u")]
    assert near(GiGPO(gamma_step=0.5)(batch), [[2, 1], [-2, -1]])
    assert near(GiGPO(gamma_step=0.5, omega=0.5)(batch), [[1.5, 1], [-1.5, -1]])
    assert near(GiGPO(gamma_step=0.5, norm="mean")(batch), [[0.75, 0.5], [-0.75, -0.5]])
    # The same observation in another group is another anchor, and coming back to one counts again: returns ½, 1, 0 at a.
    again = [attempt(0, "aa", 1.0, trial="t"), attempt(0, "ac", 0.0, trial="u"), attempt(0, "a", 5.0, group="h")]
    assert near(GiGPO(gamma_step=0.5, norm="mean")(again), [[0.5, 1.0], [-1.0, -0.5], [0.0]])


def test_the_base_gigpo_compares_returns_across_attempts_at_one_observation() -> None:
    # Scores 0, 1: A^E = ∓½. Of the toy's trained turns a, b, c, d, x, y none shares an observation: A^S = 0.
    options: dict[str, Any] = {"base": "gigpo", "norm": "mean", **HALF}
    assert lists(PivoARL(**options)(TOY)) == [[-0.5] * 4, [0, 0, 0.5, 0.5]]
    # The retry acts anew at c: G = 0 in the failed attempt (isolated) for pivoarl, ¼ for LaMer; ½ in the retry.
    same = [TOY[0], attempt(1, "abcy", 1.0, pivot=2)]
    assert lists(PivoARL(**options)(same)) == [[-0.5, -0.5, -0.75, -0.5], [0, 0, 0.75, 0.5]]
    assert lists(MetaRL(**options)(same)) == [[-0.5, -0.5, -0.625, -0.5], [0, 0, 0.625, 0.5]]
    # R3L: the outcome is amplified, the anchors see returns inside the attempt: 0 against ½.
    assert lists(R3L(base="gigpo", gamma_step=0.5)(same)) == [[0, 0, -0.75, -0.5], [0, 0, 3.25, 3]]


def test_amplification_of_r3l() -> None:
    graded = [attempt(0, "a", s, trial=str(s)) for s in (0.0, 0.4, 0.8)]
    assert near(R3L()(graded), [[-0.4], [0], [3 * 0.4]])  # nobody succeeded: the best is amplified like any other
    won = [attempt(0, "a", s, trial=str(s)) for s in (0.0, 0.8, 1.0)]
    assert near(R3L()(won), [[-0.6], [3 * 0.2], [3]])
    assert near(R3L(variant="code", alpha=2)(won), [[-0.6], [2 * 0.2], [1]])
    assert lists(R3L()([attempt(0, "a", 1.0, trial=t) for t in "tu"])) == [[0], [0]]


def test_every_attempt_of_every_trial_is_a_rollout_of_its_group() -> None:
    # Two trials with full restarts, γ_step = 1: G is 1·½ for the failed attempt, 1 for its retry, 0 for the other trial.
    batch = [attempt(0, "ab", 0.0), attempt(1, "abc", 1.0, pivot=0), attempt(0, "a", 0.0, trial="u")]
    advantages = MetaRL(gamma_step=1, gamma_traj=0.5, norm="mean")(batch)
    assert near(advantages, [[0, 0], [0.5, 0.5, 0.5], [-0.5]])


def test_a_broken_chain_gives_no_credit_across_the_gap() -> None:
    chain = [attempt(0, "abc", 0.0), attempt(1, "abc", 0.0, pivot=1), attempt(2, "abc", 1.0, pivot=1)]
    whole = lists(cross_attempt_returns(chain, "metarl", **HALF))
    assert whole[0] == [0.125] * 3
    for broken in (
        [chain[0], chain[2]],
        [chain[0], replace(chain[1], error="crashed", score=math.nan), chain[2]],
        [chain[0], replace(chain[1], parent=-1), chain[2]],
        [chain[0], replace(chain[1], trial="u"), chain[2]],
    ):
        returns = lists(cross_attempt_returns(broken, "metarl", **HALF))
        assert returns[0] == [0, 0, 0]
        assert returns[-1] == whole[2]
    # A retry of the first attempt that skips a number does not follow the second.
    assert next_attempts([chain[0], chain[1], replace(chain[2], parent=0)]).tolist() == [1, -1, -1]
    # Once the retry is excluded, nothing of the failed attempt was kept anywhere.
    assert lists(R3L()([chain[0], replace(chain[1], error="crashed"), replace(chain[2], trial="u")]))[0] == [-0.5] * 3


def test_a_retry_that_acted_nothing_has_nothing_to_give() -> None:
    batch = [attempt(0, "ab", 0.0), attempt(1, "ab", 1.0, pivot=2)]
    assert lists(cross_attempt_returns(batch, "metarl", **HALF))[0] == [0, 0]
    for rule in (PivoARL(), MetaRL(variant="code"), R3L(base="gigpo"), GiGPO(), PivoARL(base="gigpo")):
        assert not rule(batch)[1].any()


def test_rewards_instead_of_outcomes() -> None:
    rewarded = replace(
        TOY[1], segments=tuple(replace(s, reward=r) for s, r in zip(TOY[1].segments, (8, 4, 2, 1), strict=True))
    )
    batch = [replace(TOY[0], score=7.0), rewarded]
    assert lists(turn_rewards(batch, "rewards")) == [[0] * 4, [8, 4, 2, 1]]
    assert lists(cross_attempt_returns(batch, **HALF, returns="rewards")) == [
        [1.25, 1.25, 0, 0],
        [10.625, 5.25, 2.5, 1],
    ]
    broken = replace(TOY[0], segments=(replace(TOY[0].segments[0], reward=math.inf),))
    with pytest.raises(InputError, match="finite rewards"):
        turn_rewards([broken], "rewards")
    assert lists(turn_rewards([replace(broken, error="crashed")], "rewards")) == [[0]]


def test_outcomes_count_from_the_lowest_sound_score_of_the_group() -> None:
    batch = [attempt(0, "ab", 0.5), attempt(0, "a", 0.75, trial="u"), attempt(0, "a", -9, trial="v", error="crashed")]
    other = attempt(0, "a", 7.0, group="h")
    assert lists(turn_rewards([*batch, other])) == [[0, 0], [0.25], [0], [0]]


@pytest.mark.parametrize("rule", [PivoARL(), MetaRL(), R3L(), PivoARL(base="gigpo", triage=True)], ids=repr)
def test_two_records_of_one_attempt_are_refused(rule: Any) -> None:
    for batch in ([TOY[0], replace(TOY[0], score=1.0)], [*TOY, TOY[1]]):
        for ask in (rule, rule.reflections):
            with pytest.raises(GroupError, match="trial_id"):
                ask(batch)
    rule([*TOY, *[replace(r, group_id="h") for r in TOY], *[replace(r, trial="u") for r in TOY]])
    rule([*TOY, replace(TOY[1], error="crashed")])


def test_unnamed_records_are_trials_of_their_own_until_one_of_them_is_a_retry() -> None:
    single = [attempt(0, "ab", s, trial="") for s in (0.0, 1.0)]
    assert next_attempts(single).tolist() == [-1, -1]
    assert next_attempts([single[0], attempt(1, "ab", 1.0, pivot=1, trial="")]).tolist() == [1, -1]
    with pytest.raises(GroupError, match="trial_id"):
        next_attempts([*single, attempt(1, "ab", 1.0, pivot=1, trial="")])


def test_without_a_discount_and_without_retries_pivoarl_is_grpo() -> None:
    batch = [attempt(0, "abcd"[: n + 1], s, trial=str(n)) for n, s in enumerate((0.0, 0.25, 1.0, 1.0))]
    assert near(PivoARL(gamma_step=1)(batch), lists(GRPO()(batch)))
    assert near(MetaRL(gamma_step=1, norm="mean")(batch), lists(GRPO(norm="mean")(batch)))


def test_a_group_of_one_has_nothing_to_compare_even_by_rewards() -> None:
    alone = replace(TOY[0], segments=tuple(replace(s, reward=float(s.index)) for s in TOY[0].segments))
    assert not PivoARL(returns="rewards")([alone])[0].any()
    assert PivoARL(returns="rewards")([alone, replace(alone, trial="u")])[0].any()


def test_the_role_term_is_added_to_isolated_credit() -> None:
    labels = [RoleLabel(0, "E"), RoleLabel(1, None, status="failed"), RoleLabel(2, "R"), RoleLabel(3, "D")]
    batch = [r.with_labels(labels) for r in TOY]
    for rule in (PivoARL(**HALF), MetaRL(base="gigpo"), GiGPO()):
        [plain, again] = rule(batch)
        [first, retry] = replace(rule, triage=True, lam=0.4)(batch)
        assert (first - plain).tolist() == pytest.approx([0.2, 0, -0.2, 0.4], abs=1e-12)
        assert (retry - again).tolist() == pytest.approx([0, 0, -0.2, 0.4], abs=1e-12)
    # What R3L does not train has no role term either.
    assert near(R3L(triage=True, lam=0.4)(batch), [[0, 0, -0.7, -0.1], [0, 0, 2.8, 3.4]])
    term = credit.explain(PivoARL(triage=True, **HALF), batch)[0]
    assert (term.outcome + term.role).tolist() == term.advantage.tolist()


def test_labels_are_needed_for_roles_only() -> None:
    for name in ("pivoarl", "metarl", "r3l", "gigpo"):
        assert not credit.needs_labels(credit.make(name))
        assert credit.needs_labels(credit.make(f"{name}+triage"))
        assert _worth(credit.make(f"{name}+triage"))["D"] == pytest.approx(0.2)
        with pytest.raises(InputError, match="as_reward"):
            _worth(credit.make(name))


def test_reflections_are_paid_by_what_came_of_them() -> None:
    # γ = ½: the first retry ends in success two turns after its start (½), the second fails (0), the third wins at once.
    won, lost = TOY[1], attempt(1, "abxy", 0.0, pivot=1, trial="u")
    quick = attempt(1, "abx", 1.0, pivot=2, trial="v")
    firsts = [attempt(0, "abcd", 0.0, trial=t) for t in "tuv"]
    rule = PivoARL(norm="mean", **HALF)
    assert rule.reflections([*firsts, won, lost, quick]).tolist() == [0, 0, 0, 0, -0.5, 0.5]
    standard = PivoARL(**HALF).reflections([*firsts, won, lost, quick])
    assert standard.tolist() == pytest.approx([0, 0, 0, 0, -math.sqrt(1.5), math.sqrt(1.5)])
    # A malformed one is trained as well; one that the policy did not write, or whose attempt is excluded, is not.
    malformed = replace(lost, reflection=Reflection("", 0, "policy", "gibberish", "no_json"))
    foreign = replace(lost, reflection=Reflection("", 0, "role"))
    assert rule.reflections([*firsts, won, malformed, quick]).tolist() == [0, 0, 0, 0, -0.5, 0.5]
    for out in (foreign, replace(lost, error="crashed"), replace(lost, reflection=None)):
        assert rule.reflections([*firsts, won, out, quick]).tolist() == [0, 0, 0, -0.25, 0, 0.25]
    # One alone has nothing to compare, over the batch or in its group.
    assert rule.reflections(TOY).tolist() == [0, 0]
    grouped = replace(rule, reflection_baseline="group")
    elsewhere = [replace(r, group_id="h") for r in (firsts[2], quick)]
    assert grouped.reflections([*firsts[:2], won, lost, *elsewhere]).tolist() == [0, 0, 0.25, -0.25, 0, 0]


def test_a_reflection_may_be_paid_the_rest_of_the_trial() -> None:
    # One turn a retry: the first fails, the second wins. g_start 0 and 1; G_start of the first ½ for LaMer.
    trial = [attempt(0, "ab", 0.0), attempt(1, "ab", 0.0, pivot=1), attempt(2, "ab", 1.0, pivot=1)]
    rule = MetaRL(norm="mean", **HALF)
    assert rule.reflections(trial).tolist() == [0, -0.25, 0.25]
    assert replace(rule, reflection_return="attempt").reflections(trial).tolist() == [0, -0.5, 0.5]
    # PivoARL isolates the turn at the pivot of the second reflection, so the first is paid its own attempt only.
    assert PivoARL(norm="mean", reflection_return="trial", **HALF).reflections(trial).tolist() == [0, -0.5, 0.5]


def test_r3l_imitates_reflections_that_helped() -> None:
    trial = [attempt(0, "ab", 0.0), attempt(1, "ab", 0.5, pivot=1), attempt(2, "ab", 1.0, pivot=1)]
    assert R3L().reflections(trial).tolist() == [0, 0, 1]
    assert R3L().reflections([*trial[:2], replace(trial[2], success=False)]).tolist() == [0, 0, 0]
    assert R3L().reflections([replace(trial[0], score=2.0), replace(trial[1], success=True)]).tolist() == [0, 0]
    assert R3L().reflections([trial[2]]).tolist() == [0]  # whether it helped is not known
    foreign = replace(trial[2], reflection=Reflection("", 1, "oracle"))
    assert R3L().reflections([*trial[:2], foreign]).tolist() == [0, 0, 0]


def test_baselines() -> None:
    values = np.array([1.0, 3.0, 5.0, 9.0])
    assert standardise(values, np.array([0, 0, -1, 1]), "mean", 1e-8).tolist() == [-1, 1, 0, 0]
    assert standardise(values, np.full(4, -1), "mean", 1e-8).tolist() == [0] * 4
    weighted = standardise(values[:2], np.array([0, 0]), "mean", 1e-8, np.array([3.0, 1.0]))
    assert weighted.tolist() == [-0.5, 1.5]
    alike = np.array([0.1 + 0.2, 0.3])
    assert standardise(alike, np.array([0, 0]), "mean_std", 1e-8).tolist() == [0, 0]
    one_and_three = Segments([attempt(0, "a", 0.0), attempt(0, "abc", 0.0, trial="u")])
    assert against_rollouts(np.array([4.0, 0.0, 0.0, 0.0]), one_and_three, "mean", 1e-8).tolist() == pytest.approx(
        [2, -2, -2, -2]
    )


@pytest.mark.parametrize(
    "options",
    [
        {"gamma_step": 1.1},
        {"gamma_step": -0.1},
        {"gamma_traj": math.nan},
        {"omega": -1.0},
        {"alpha": "3"},
        {"base": "ppo"},
        {"norm": "std"},
        {"returns": "both"},
        {"variant": "mine"},
        {"triage": 1},
        {"lam": -0.1},
        {"constants": (1.0,)},
        {"reflection_return": "all"},
        {"reflection_baseline": "none"},
        {"whiten": "yes"},
        {"eps": 0.0},
        {"dtype": "float16"},
    ],
    ids=repr,
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    [option] = options
    having = [rule for rule in (GiGPO, PivoARL, MetaRL, R3L) if hasattr(rule, option)]
    assert having
    for rule in having:
        with pytest.raises(InputError, match=option):
            rule(**options)


def test_bad_questions_are_refused() -> None:
    for rule, variant in (("r3l", "paper"), ("pivoarl", "code"), ("metarl", "mine")):
        with pytest.raises(InputError, match="pivoarl"):
            cross_attempt_returns(TOY, rule, variant=variant)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="finite score"):
        PivoARL()([replace(TOY[0], score=math.nan)])
    with pytest.raises(InputError, match="returns"):
        turn_rewards(TOY, "both")  # type: ignore[arg-type]


def test_what_a_trainer_asks_of_the_rules_by_name() -> None:
    made = {name: registry.factory("credit", name) for name in ("pivoarl", "metarl", "r3l", "gigpo")}
    assert {name: rule.attempts for name, rule in made.items()} == {"pivoarl": 3, "metarl": 3, "r3l": 3, "gigpo": 1}
    assert [name for name, rule in made.items() if rule.retry_from == "start"] == ["metarl"]
    assert [name for name in made if isinstance(credit.make(name), ReflectionCredit)] == ["pivoarl", "metarl", "r3l"]
    assert credit.make({"name": "pivoarl+triage+whiten", "base": "gigpo"}, lam=0.4) == PivoARL(
        triage=True, whiten=True, base="gigpo", lam=0.4
    )
    assert PivoARL().gamma_step == 0.95
    assert PivoARL().gamma_traj == 0.6


def test_a_trial_played_through_the_wrappers_is_credited() -> None:
    rule = {"name": "pivoarl", "norm": "mean", **HALF}
    retrying = PivotRetryWrapper(TimeLimit(Corridor(), 4), reflector="oracle")
    env = SegmentCreditWrapper(retrying, credit=rule, group_size=2)
    env.reset(seed=0, options={"task_id": "corridor-3"})
    for action in ("go right", "go left", "look", "wait"):
        env.step(action)
    env.reset(options={"retry": True})  # the oracle goes back to the step to the left, turn 1
    env.step("go right")
    *_, info = env.step("go right")
    # G of trained turns: [¼ 0 0 0] and [½ 1]: μ = (1/16 + 3/4) / 2 = 13/32.
    assert [(r.attempt, r.parent, r.pivot, r.score) for r in info["group"].records] == [
        (0, -1, -1, 0.0),
        (1, 0, 1, 1.0),
    ]
    assert lists(info["group_advantages"]) == [[-5 / 32, -13 / 32, -13 / 32, -13 / 32], [0, 3 / 32, 19 / 32]]


def test_the_example_of_the_docs_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parent.parent / "docs" / "credit.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "credit.md", "exec"), {})  # noqa: S102 - our own documentation
        assert capsys.readouterr().out.splitlines() == re.findall(r"^# (.*)$", block, re.MULTILINE)
