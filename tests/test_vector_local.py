"""TextVectorEnv in the caller's process: who moves, who rests, who is refused, and what a failing member costs."""

from __future__ import annotations

import copy
import time
from typing import Any

import gymnasium
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.wrappers import TimeLimit
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_envs import Answers, EchoEnv, FourResults, SpeechlessEnv, breaks_later, broken, not_an_env

from triage_gym.errors import EnvironmentFailure, InputError
from triage_gym.spaces import UnicodeText
from triage_gym.wrappers.vector import ResetResult, StepResult, TextVectorEnv

OPERATIONS = st.lists(
    st.dictionaries(
        st.integers(0, 3),
        st.one_of(st.sampled_from(["go", "look"]), st.tuples(st.none() | st.integers(0, 9), st.just({"task": "t"}))),
        min_size=1,
    ),
    max_size=30,
)


def named(number: int, length: int = 5) -> list[Any]:
    return [lambda i=i: EchoEnv(length, f"env {i}") for i in range(number)]


@given(OPERATIONS)
@settings(max_examples=200)
def test_a_vector_of_n_equals_n_single_environments(operations: list[dict[int, Any]]) -> None:
    singles = [EchoEnv(5, f"env {i}") for i in range(4)]
    active: set[int] = set()
    with TextVectorEnv(named(4)) as venv:
        seeds = {i: (100 + i, None) for i in range(4)}
        expected: Any = {i: singles[i].reset(seed=seed) for i, (seed, _) in seeds.items()}
        assert venv.reset(seeds) == expected
        active |= set(seeds)
        for operation in operations:
            starts = {i: what for i, what in operation.items() if isinstance(what, tuple)}
            steps = {i: what for i, what in operation.items() if isinstance(what, str) and i in active}
            expected = {i: singles[i].reset(seed=seed, options=options) for i, (seed, options) in starts.items()}
            assert venv.reset(starts) == expected
            active |= set(starts)
            expected = {i: singles[i].step(action) for i, action in steps.items()}
            assert venv.step(steps) == expected
            active -= {i for i, result in expected.items() if result[2]}
            assert venv.active == tuple(sorted(active))


def test_results_unpack_like_those_of_an_environment() -> None:
    with TextVectorEnv(named(1)) as venv:
        observation, info = venv.reset(seed=1)[0]
        assert observation.startswith("env 0 task")
        assert info["admissible_commands"] == ["go"]
        observation, reward, terminated, truncated, info = venv.step({0: "go"})[0]
        assert "turn 1 after go" in observation
        assert (reward, terminated, truncated) == (0.0, False, False)
        assert type(reward) is float


def test_members_end_at_their_own_turn_and_keep_their_last_info() -> None:
    with TextVectorEnv([lambda n=n: EchoEnv(n) for n in (1, 2, 3)]) as venv:
        venv.reset(seed=[7, 7, 7])
        turns = []
        while venv.active:
            turns.append(venv.active)
            venv.step(dict.fromkeys(venv.active, "go"))
        assert turns == [(0, 1, 2), (1, 2), (2,)]
        assert {i: info["success"] for i, info in venv.final_infos.items()} == {0: True, 1: True, 2: True}
        venv.reset([1], seed=7)
        assert venv.active == (1,)
        assert sorted(venv.final_infos) == [0, 2]


def test_a_member_that_is_over_is_refused_and_nobody_moves() -> None:
    with TextVectorEnv([lambda n=n: EchoEnv(n) for n in (1, 2)]) as venv:
        venv.reset(seed=1)
        venv.step({0: "go"})
        with pytest.raises(ResetNeeded, match=r"active members only, got one for \[0\]"):
            venv.step({1: "go", 0: "go"})
        assert "turn 1 " in venv.step({1: "go"})[1].observation


def test_nothing_can_be_stepped_before_the_first_reset() -> None:
    with TextVectorEnv(named(1)) as venv, pytest.raises(ResetNeeded):
        venv.step({0: "go"})


@pytest.mark.parametrize("index", [-1, 2, "0", 0.0, True])
def test_indices_of_no_member_are_refused(index: Any) -> None:
    with TextVectorEnv(named(2)) as venv:
        venv.reset(seed=1)
        with pytest.raises(InputError, match="ints from 0 to 1"):
            venv.step({index: "go"})
        with pytest.raises(InputError, match="ints from 0 to 1"):
            venv.reset({index: (1, None)})


@pytest.mark.parametrize("actions", [["go", "go"], [0, 1], "go", None, 0])
def test_actions_that_name_no_member_are_refused_and_nobody_moves(actions: Any) -> None:
    with TextVectorEnv(named(2)) as venv:
        venv.reset(seed=1)
        with pytest.raises(InputError, match="Expected actions as"):
            venv.step(actions)
        assert venv.active == (0, 1)
        assert "turn 1 " in venv.step({0: "go"})[0].observation


def test_results_come_in_the_order_of_the_question() -> None:
    with TextVectorEnv(named(3)) as venv:
        assert list(venv.reset([2, 0, 1], seed=1)) == [2, 0, 1]
        assert list(venv.step({1: "go", 2: "go", 0: "go"})) == [1, 2, 0]


def test_an_int_seed_counts_up_and_a_list_makes_a_group() -> None:
    with TextVectorEnv(EchoEnv, 3) as venv:
        assert [r.observation for r in venv.reset([2, 1], seed=5).values()] == [
            EchoEnv().reset(seed=7)[0],
            EchoEnv().reset(seed=6)[0],
        ]
        assert len({r.observation for r in venv.reset(seed=[4] * 3).values()}) == 1


def test_no_seed_goes_on_with_the_random_stream() -> None:
    single = EchoEnv()
    with TextVectorEnv(EchoEnv, 1) as venv:
        assert venv.reset(seed=3)[0] == single.reset(seed=3)
        assert venv.reset()[0] == single.reset()


def test_options_are_handed_on_to_each_and_not_changed() -> None:
    class Greedy(EchoEnv):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return f"got {options.pop('task')}", {}

    options = {"task": "tea"}
    with TextVectorEnv(Greedy, 2) as venv:
        assert [r.observation for r in venv.reset(options=options).values()] == ["got tea"] * 2
        assert [r.observation for r in venv.reset(options=[options, {"task": "mug"}]).values()] == [
            "got tea",
            "got mug",
        ]
    assert options == {"task": "tea"}


def test_wrong_resets_are_refused_whole() -> None:
    with TextVectorEnv(EchoEnv, 2) as venv:
        wrong: list[tuple[Any, dict[str, Any]]] = [
            ({0: (1, None)}, {"seed": 1}),
            ({0: 1}, {}),
            ({0: (-1, None)}, {}),
            ({0: (1.5, None)}, {}),
            ({0: (True, None)}, {}),
            ({0: (1, ["task"])}, {}),
            ([0, 0], {}),
            (None, {"seed": [1]}),
            (None, {"options": [{}]}),
            ([0], {"seed": [1, 2]}),
        ]
        for members, arguments in wrong:
            with pytest.raises(InputError, match="Expected"):
                venv.reset(members, **arguments)
        assert venv.active == ()


def test_an_exception_ends_the_episode_of_its_environment_alone(caplog: pytest.LogCaptureFixture) -> None:
    with TextVectorEnv(named(3)) as venv:
        venv.reset(seed=1)
        results = venv.step({0: "go", 1: "raise", 2: "go"})
        assert results[1] == StepResult("", 0.0, False, True, results[1].info)
        assert results[1].info["env_error"].startswith("RuntimeError: told to (vector_envs.py:")
        assert venv.final_infos[1] == results[1].info
        assert "Environment 1 failed: RuntimeError" in caplog.text
        assert venv.active == (0, 2)
        assert "turn 2 " in venv.step({0: "go", 2: "go"})[2].observation
        assert venv.envs[1] is None
        assert venv.reset([1], seed=1)[1] == EchoEnv(name="env 1").reset(seed=2)
        assert venv.active == (0, 1, 2)


def test_an_exception_in_reset_leaves_the_member_inactive() -> None:
    with TextVectorEnv(EchoEnv, 2) as venv:
        results = venv.reset({0: (1, {"fault": "raise"}), 1: (1, None)})
        assert results[0].observation == ""
        assert "told to" in results[0].info["env_error"]
        assert venv.active == (1,)


def test_results_of_another_form_are_a_failure() -> None:
    with TextVectorEnv(FourResults, 1) as venv:
        venv.reset(seed=1)
        assert "ValueError" in venv.step({0: "go"})[0].info["env_error"]


WRONG_ANSWERS = sorted(set(Answers.ANSWERS) - {"numpy's values"})


@pytest.mark.parametrize("answer", WRONG_ANSWERS)
def test_an_answer_of_wrong_types_costs_its_member_alone(answer: str) -> None:
    twin = EchoEnv()
    with TextVectorEnv(Answers, 3) as venv:
        venv.reset(seed=[4, 4, 4])
        twin.reset(seed=4)
        results = venv.step({0: "go", 1: answer, 2: "go"})
        assert results[0] == results[2] == twin.step("go")
        assert results[1][:4] == ("", 0.0, False, True)
        assert "TypeError: " in results[1].info["env_error"]
        assert venv.active == (0, 2)
        assert venv.reset([1], seed=[4])[1] == twin.reset(seed=4)


def test_numpys_truth_values_and_numbers_become_pythons() -> None:
    with TextVectorEnv(Answers, 1) as venv:
        venv.reset(seed=1)
        result = venv.step({0: "numpy's values"})[0]
        assert result == ("o", 0.5, True, False, {"x": 1})
        assert (type(result.reward), type(result.terminated), type(result.truncated)) == (float, bool, bool)
        assert venv.active == ()


def test_a_reset_without_an_info_dict_leaves_the_member_inactive() -> None:
    class Bare(EchoEnv):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return "hello", None

    with TextVectorEnv([EchoEnv, Bare]) as venv:
        results = venv.reset(seed=1)
        assert "TypeError: Expected a dict as the info of a reset" in results[1].info["env_error"]
        assert venv.active == (0,)


def test_an_exception_that_cannot_be_printed_is_still_reported() -> None:
    with TextVectorEnv(SpeechlessEnv, 2) as venv:
        venv.reset(seed=1)
        results = venv.step({0: "go", 1: "raise"})
        assert results[1].info["env_error"].startswith("Speechless: (no message")
        assert venv.active == (0,)


def test_a_member_that_keeps_failing_is_retired() -> None:
    with TextVectorEnv(named(2), max_restarts=2) as venv:
        for failures in range(1, 4):
            assert venv.retired == ()
            venv.reset([0], seed=1)
            venv.step({0: "raise"})
            assert venv.retired == ((0,) if failures == 3 else ())
        results = venv.reset(seed=1)
        assert (
            results[0].info["env_error"].startswith("retired after failing 3 times in a row, the last time with: Run")
        )
        assert venv.active == (1,)
        assert venv.envs[0] is None


def test_an_episode_that_ends_by_itself_forgives_earlier_failures() -> None:
    with TextVectorEnv([lambda: EchoEnv(1)], max_restarts=1) as venv:
        for _ in range(4):
            venv.reset(seed=1)
            venv.step({0: "raise"})
            venv.reset(seed=1)
            assert venv.step({0: "go"})[0].terminated
        assert venv.retired == ()


def test_when_the_last_member_is_retired_the_vector_says_so() -> None:
    with TextVectorEnv(EchoEnv, 2, max_restarts=0) as venv:
        venv.reset(seed=1)
        venv.step({0: "raise", 1: "raise"})
        assert venv.retired == (0, 1)
        with pytest.raises(EnvironmentFailure, match=r"2 that failed more than max_restarts=0 times.*told to"):
            venv.reset(seed=1)


def test_an_environment_that_cannot_be_built_again_fails_its_reset(tmp_path: Any) -> None:
    with TextVectorEnv(lambda: breaks_later(str(tmp_path / "built")), 1) as venv:
        venv.reset(seed=1)
        venv.step({0: "raise"})
        assert "the game is gone" in venv.reset(seed=1)[0].info["env_error"]


def test_an_interrupted_step_ends_the_episodes_it_may_have_touched() -> None:
    class Interrupted(EchoEnv):
        def step(self, action: str) -> Any:
            if action == "interrupt":
                raise KeyboardInterrupt
            return super().step(action)

    with TextVectorEnv(Interrupted, 3) as venv:
        venv.reset(seed=1)
        with pytest.raises(KeyboardInterrupt):
            venv.step({0: "go", 1: "interrupt"})
        assert venv.active == (2,)
        venv.reset([0, 1], seed=1)
        assert "turn 1 " in venv.step({1: "go"})[1].observation


def test_closing_is_final_and_may_be_repeated() -> None:
    class Counting(EchoEnv):
        closed = 0

        def close(self) -> None:
            Counting.closed += 1
            raise OSError("no")

    venv = TextVectorEnv(Counting, 2)
    venv.reset(seed=1)
    venv.close()
    venv.close()
    assert Counting.closed == 2
    assert venv.active == ()
    for call in (lambda: venv.step({0: "go"}), lambda: venv.step({}), lambda: venv.reset(seed=1)):
        with pytest.raises(ClosedEnvironmentError):
            call()


def test_a_vector_shows_what_its_environments_are() -> None:
    with TextVectorEnv(EchoEnv, 2) as venv:
        assert venv.single_observation_space == UnicodeText()
        assert venv.single_action_space == UnicodeText()
        assert venv.metadata["domain"] == "echo"
        assert venv.metadata is not EchoEnv.metadata
        assert repr(venv) == "<TextVectorEnv of 2, 0 active, in this process>"
        assert not isinstance(venv, gymnasium.vector.VectorEnv)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env": EchoEnv}, "`num_envs` with a single source"),
        ({"env": EchoEnv, "num_envs": 0}, "at least one environment"),
        ({"env": []}, "at least one environment"),
        ({"env": [EchoEnv], "num_envs": 2}, "`num_envs` to be 1"),
        ({"env": EchoEnv(), "num_envs": 2}, "got EchoEnv; pass a function"),
        ({"env": 3, "num_envs": 2}, "got int"),
        ({"env": "ehco", "num_envs": 2}, "module:attr path for envs, got 'ehco'"),
        ({"env": {"length": 3}, "num_envs": 2}, '"name"'),
        ({"env": not_an_env, "num_envs": 1}, "a gymnasium.Env, got object"),
        ({"env": EchoEnv, "num_envs": 2, "workers": -1}, "`workers`"),
        ({"env": EchoEnv, "num_envs": 2, "max_restarts": -1}, "`max_restarts`"),
        ({"env": EchoEnv, "num_envs": 2, "step_timeout": 3.0}, "no `step_timeout` without workers"),
        ({"env": EchoEnv, "num_envs": 2, "workers": 1, "reset_timeout": 0.0}, "`reset_timeout` to be positive"),
        ({"env": EchoEnv, "num_envs": 2, "workers": 1, "step_timeout": float("nan")}, "`step_timeout` to be positive"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TextVectorEnv(**arguments)


def test_the_error_of_a_constructor_is_the_callers() -> None:
    with pytest.raises(OSError, match="no such game"):
        TextVectorEnv([EchoEnv, broken])


def test_members_that_would_share_one_environment_are_refused() -> None:
    env = EchoEnv()
    for source in (lambda: env, lambda: TimeLimit(env, 3)):
        with pytest.raises(InputError, match="a new environment each time"):
            TextVectorEnv(source, 2)
        TextVectorEnv(source, 1).close()


def test_every_form_of_source_makes_the_same_environment() -> None:
    gymnasium.register("vector-tests/Echo-v0", "vector_envs:EchoEnv", kwargs={"length": 3}, max_episode_steps=2)
    try:
        spec = gymnasium.spec("vector-tests/Echo-v0")
        sources: list[Any] = [
            "vector-tests/Echo-v0",
            "vector_envs:vector-tests/Echo-v0",
            {"name": "vector-tests/Echo-v0", "length": 4},
            copy.deepcopy(spec),
            "vector_envs:EchoEnv",
            {"name": "vector_envs:EchoEnv", "length": 2},
            lambda: TimeLimit(EchoEnv(), 2),
        ]
        with TextVectorEnv(sources) as venv:
            assert len({r.observation for r in venv.reset(seed=[3] * len(sources)).values()}) == 1
            for _ in range(2):
                results = venv.step(dict.fromkeys(venv.active, "go"))
            assert venv.active == (4,)
            assert [r.truncated for r in results.values()] == [True, True, True, True, False, False, True]
    finally:
        del gymnasium.registry["vector-tests/Echo-v0"]


def test_the_overhead_in_this_process_is_microseconds() -> None:
    class Instant(EchoEnv):
        result = ("", 0.0, False, False, dict[str, Any]())

        def step(self, action: str) -> Any:
            return self.result

    rounds = 3000
    actions = dict.fromkeys(range(8), "go")
    with TextVectorEnv(Instant, 8) as venv:
        venv.reset(seed=1)
        spent = []
        for _ in range(3):
            begin = time.process_time()
            for _ in range(rounds):
                venv.step(actions)
            spent.append((time.process_time() - begin) / rounds / 8)
    # Measured: 0.6 microseconds. The bound leaves room for a slow and busy machine.
    assert min(spent) < 10e-6


def test_a_result_is_not_shared_with_the_next() -> None:
    with TextVectorEnv(EchoEnv, 1) as venv:
        first = venv.reset(seed=1)[0]
        second = venv.step({0: "go"})[0]
        assert isinstance(first, ResetResult)
        assert isinstance(second, StepResult)
        assert first.info is not second.info
