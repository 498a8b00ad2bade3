"""OracleJudge on facts worked out by hand, and on environments whose distances are known."""

from __future__ import annotations

import pytest

from triage_gym import registry
from triage_gym.envs.alfworld.env import ALFWorldEnv
from triage_gym.envs.sokoban.env import SokobanEnv
from triage_gym.errors import InputError
from triage_gym.judges.labelling import judge_windows
from triage_gym.judges.nesting import facts_needed, identity_of
from triage_gym.judges.oracle import OracleJudge
from triage_gym.protocols import Facts, Judge, Pair, Window
from triage_gym.wrappers import RoleJudgeWrapper


def window(facts: Facts | None, past: tuple[Pair, ...] = ()) -> Window:
    return Window("Find it.", "alfworld", 3, past, "You see a box.", "open box 1", "It is empty.", (), (), facts)


def role_of(facts: Facts | None, past: tuple[Pair, ...] = (), *, explore_first: bool = False) -> str | None:
    (label,) = OracleJudge(explore_first).judge([window(facts, past)])
    assert label.source == "oracle"
    assert label.step == 3
    assert label.magnitude == 1.0
    assert label.why
    return label.role


@pytest.mark.parametrize(
    ("facts", "role", "explore_first"),
    [
        (Facts(True, False, 4, 3), "D", "D"),
        (Facts(True, True, 4, 3), "D", "E"),
        (Facts(True, True, 4, 4), "E", "E"),
        (Facts(True, True, 4, 5), "E", "E"),
        (Facts(True, False, 4, 5), "R", "R"),
        (Facts(True, False, 4, 4), "N", "N"),
        (Facts(False, False, 4, 4), "N", "N"),
        (Facts(False, True, 4, 4), "E", "E"),
        (Facts(True, True, 4, -1), "R", "R"),
        (Facts(True, False, 1, 0), "D", "D"),
        (Facts(True, False, -1, 2), "D", "D"),
        (Facts(True, False, -1, -1), "N", "N"),
        (Facts(None, False, 4, 3), "D", "D"),
        (Facts(None, False, 4, 5), "R", "R"),
        # An expert that counts turns comes nearer by itself: without a change that is no progress.
        (Facts(False, True, 3, 2), "E", "E"),
        (Facts(False, False, 3, 2), "N", "N"),
    ],
)
def test_roles_of_facts_by_hand(facts: Facts, role: str, explore_first: str) -> None:
    assert role_of(facts) == role
    assert role_of(facts, explore_first=True) == explore_first


def test_a_known_inspection_repeated_is_regression() -> None:
    again = (Pair("open box 1", "It is empty."), Pair("look", "A room."))
    other = (Pair("open box 1", "It is full."),)
    assert role_of(Facts(False, False, 4, 4), again) == "R"
    assert role_of(Facts(True, False, 4, 4), again) == "R"
    assert role_of(Facts(False, False, 4, 4), other) == "N"
    assert role_of(Facts(True, False, 4, 3), again) == "D"
    assert role_of(Facts(False, False, -1, -1), again) == "R"


@pytest.mark.parametrize("facts", [None, Facts(), Facts(True, None, 4, 3), Facts(True, True, None, 3)])
def test_windows_without_facts_fail_and_say_how_to_get_them(facts: Facts | None) -> None:
    (label,) = judge_windows(OracleJudge(), [window(facts)])
    assert (label.role, label.status) == (None, "failed")
    assert "StateFactsWrapper" in label.why


def test_a_last_distance_that_nobody_could_measure_is_withheld() -> None:
    (label,) = judge_windows(OracleJudge(), [window(Facts(True, True, 4, None))])
    assert (label.role, label.status) == (None, "unsure")


def test_it_is_a_judge_by_name_with_an_identity() -> None:
    plain, careful = registry.make("judges", "oracle"), registry.make("judges", "oracle+explore_first")
    assert isinstance(plain, Judge)
    assert careful == OracleJudge(explore_first=True)
    assert facts_needed(plain) == ("changed", "learnt", "distance")
    assert identity_of(plain) != identity_of(careful)
    with pytest.raises(InputError, match="explore_first"):
        OracleJudge(explore_first=1)  # type: ignore[arg-type]


def test_on_alfworld_every_step_of_the_expert_is_progress_and_every_first_look_exploration() -> None:
    env = RoleJudgeWrapper(ALFWorldEnv(max_turns=40), judge="oracle", settle="episode")
    for seed in range(3):
        _, info = env.reset(seed=seed)
        away = next(c for c in info["admissible_commands"] if c.startswith("go to ") and "1" not in c)
        actions = [away, "look", "look", "xyzzy", "xyzzy"]
        distances = [env.unwrapped.expert_distance()]
        ended = False
        while not ended:
            action = actions.pop(0) if actions else env.unwrapped.expert_action()
            *_, terminated, truncated, info = env.step(action)
            distances.append(env.unwrapped.expert_distance())
            ended = terminated or truncated
        roles = "".join(label.role for label in info["role_labels"])
        assert info["success"]
        assert roles[0] == ("D" if distances[1] < distances[0] else "E")
        assert roles[1:5] in ("NRNR", "ERNR")
        assert set(roles[5:]) == {"D"}


def test_on_sokoban_a_push_into_the_corner_is_regression() -> None:
    env = RoleJudgeWrapper(SokobanEnv(), judge="oracle", settle="episode")
    lost = 0
    for seed in range(20):
        _, info = env.reset(seed=seed)
        distances, ended, turn = [env.unwrapped.expert_distance()], False, 0
        while not ended:
            *_, terminated, truncated, info = env.step(("up", "left")[turn % 2])
            distances.append(env.unwrapped.expert_distance())
            ended, turn = terminated or truncated, turn + 1
        for label, before, after in zip(info["role_labels"], distances, distances[1:], strict=False):
            if before is not None and after is None:
                lost += 1
                assert label.role == "R"
            elif before is not None and after is not None and after != before:
                assert label.role == ("D" if after < before else "R")
            else:
                assert label.role in "NR"
    assert lost
