"""Going back inside an episode: each way, every turn, the whole stack; and every lie is found out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from envs_for_tests import (
    Corridor,
    EzPickleCorridor,
    HiddenRNGCorridor,
    LyingCorridor,
    StatelessCorridor,
    UnseededCorridor,
)
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.wrappers import (
    DelayObservation,
    FrameStackObservation,
    NormalizeReward,
    OrderEnforcing,
    RecordEpisodeStatistics,
    StickyAction,
    TimeLimit,
    TransformReward,
)

from triage_gym.errors import InputError, RestoreError
from triage_gym.records import Snapshot
from triage_gym.restore import Portable, Restorer, restore
from triage_gym.restore.stack import has_time_limit, layers, unknown_wrappers

WALK = ["go right", "look", "go left", "wait", "go right", "nonsense", "go right", "look", "wait", "go left", "wait"]
Make = Callable[[], gym.Env[Any, Any]]


def play(env: Any, actions: list[Any]) -> list[Any]:
    """Everything that the environment answers."""
    answers = []
    for action in actions:
        answers.append(env.step(action))
        if answers[-1][2] or answers[-1][3]:
            break
    return answers


def without_times(answers: list[Any]) -> list[Any]:
    """The same without wall-clock times of episode statistics."""
    for answer in answers:
        if "episode" in answer[4]:
            answer[4]["episode"] = {k: answer[4]["episode"][k] for k in ("r", "l")}
    return answers


def uninterrupted(make: Make, seed: int | None, first: list[Any], then: list[Any]) -> tuple[list[Any], Any]:
    env = make()
    if seed is None:
        env.reset(seed=77)
        env.step(first[0] if first else then[0])
    env.reset(seed=seed)
    play(env, first)
    return without_times(play(env, then)), env.unwrapped.np_random.bit_generator.state


STACKS: dict[str, Make] = {
    "bare": lambda: Corridor(9),
    "limit": lambda: TimeLimit(OrderEnforcing(Corridor(9)), 9),
    "statistics": lambda: RecordEpisodeStatistics(TimeLimit(Corridor(9), 10)),
    "rewards": lambda: TransformReward(NormalizeReward(TimeLimit(Corridor(9), 10)), float),
    "sticky": lambda: StickyAction(TimeLimit(Corridor(9), 10), 0.5),
}


@pytest.mark.parametrize("strategy", ["native", "copy", "replay"])
@pytest.mark.parametrize("stack", sorted(STACKS))
@pytest.mark.parametrize("seed", [3, None])
@pytest.mark.parametrize("every", [1, 4, 100])
def test_every_turn_comes_back_whole(strategy: Any, stack: str, seed: int | None, every: int) -> None:
    make = STACKS[stack]
    for pivot in range(len(WALK) - 2):
        env = make()
        if seed is None:
            env.reset(seed=77)
            env.step(WALK[0])
        restorer = Restorer(env, strategy, every)
        restorer.reset(seed=seed, options=None)
        play(restorer, WALK)
        made = len(restorer.turns)
        if pivot >= made:
            break
        rewound = restorer.rewind(pivot)
        way = "restart" if strategy == "replay" and pivot == 0 else strategy
        assert (rewound.status, rewound.strategy, rewound.prefix_length) == ("verified", way, pivot)
        then = ["go left", "go right", "go right", "look", "wait", "go right", "wait", "go right"]
        answers, rng = uninterrupted(make, seed, WALK[:pivot], then)
        assert data_equivalence(without_times(play(restorer, then)), answers, exact=True)
        assert env.unwrapped.np_random.bit_generator.state == rng


def test_a_rewind_may_be_rewound() -> None:
    restorer = Restorer(TimeLimit(Corridor(9), 20), "auto", 2)
    restorer.reset(seed=1, options=None)
    play(restorer, WALK)
    for pivot in (7, 5, 5, 2, 0):
        assert restorer.rewind(pivot).status == "verified"
        assert len(restorer.turns) == pivot
        play(restorer, ["wait", "look", "go right"])
    answers, _ = uninterrupted(lambda: TimeLimit(Corridor(9), 20), 1, ["wait", "look", "go right"], ["look"])
    assert play(restorer, ["look"]) == answers


def test_the_info_of_a_rewind_has_the_keys_of_a_reset_and_is_new() -> None:
    restorer = Restorer(Corridor(), "auto")
    _, first = restorer.reset(seed=1, options=None)
    first["admissible_commands"].clear()
    play(restorer, WALK[:4])
    for pivot in (3, 0):
        info = restorer.rewind(pivot).info
        assert list(info) == ["admissible_commands", "task_id", "task", "task_type"]
        assert info["admissible_commands"] == ["go left", "go right", "look", "wait"]
        info["admissible_commands"].clear()
        play(restorer, ["wait", "wait", "wait"])


def test_layers_stay_the_objects_they_were() -> None:
    for strategy in ("native", "copy", "replay"):
        base = Corridor()
        env = TimeLimit(base, 20)
        restorer = Restorer(env, strategy)
        restorer.reset(seed=1, options=None)
        generator, space = base.np_random, base.action_space
        play(restorer, WALK[:4])
        drawn = base.action_space.sample()
        restorer.rewind(2)
        assert list(layers(restorer.env)) == [env, base]
        assert base.action_space is space
        assert base.action_space.sample() != drawn, "the agent's own generator must not be rolled back"
        if strategy != "replay":
            assert base.np_random is generator
        assert base.np_random_seed == 1


@pytest.mark.parametrize("lie", ["nothing", "part", "crash"])
def test_a_lie_is_found_out_and_another_way_taken(lie: str) -> None:
    restorer = Restorer(TimeLimit(LyingCorridor(9, lie=lie), 30), "auto", 3)
    restorer.reset(seed=2, options=None)
    play(restorer, WALK)
    with pytest.warns(UserWarning, match="by native failed"):
        rewound = restorer.rewind(4)
    assert (rewound.status, rewound.strategy) == ("verified", "replay")
    assert "native" in restorer.reasons
    answers, _ = uninterrupted(lambda: TimeLimit(Corridor(9), 30), 2, WALK[:4], ["go right", "look"])
    assert play(restorer, ["go right", "look"]) == answers
    restorer.reset(seed=3, options=None)
    play(restorer, WALK)
    assert restorer.rewind(4).strategy == "copy", "the next episode does not ask the liar again"


def test_a_state_that_is_still_written_to_does_no_harm() -> None:
    restorer = Restorer(TimeLimit(LyingCorridor(9, lie="alias"), 30), "auto", 3)
    restorer.reset(seed=2, options=None)
    play(restorer, WALK)
    rewound = restorer.rewind(4)
    assert (rewound.status, rewound.strategy) == ("verified", "native")
    answers, _ = uninterrupted(lambda: TimeLimit(Corridor(9), 30), 2, WALK[:4], ["go right", "look"])
    assert play(restorer, ["go right", "look"]) == answers


def test_a_part_left_out_of_the_state_is_found_even_where_the_point_itself_looks_right() -> None:
    # `furthest` decides only a later reward; the observation and the state at the point are the recorded ones.
    env = LyingCorridor(9, lie="part")
    restorer = Restorer(env, "auto", 1)
    restorer.reset(seed=2, options=None)
    play(restorer, ["wait", "wait", "go right", "go left"])
    with pytest.warns(UserWarning, match="native"):
        assert restorer.rewind(2).strategy == "replay"


def test_a_hidden_generator_leads_to_a_verified_restart() -> None:
    restorer = Restorer(HiddenRNGCorridor(9), "auto")
    start, _ = restorer.reset(seed=2, options=None)
    play(restorer, WALK)
    with pytest.warns(UserWarning, match="turn 5 by (native|replay) failed"):
        rewound = restorer.rewind(5)
    assert (rewound.status, rewound.strategy, rewound.prefix_length) == ("restarted", "restart", 0)
    assert rewound.observation == start
    assert restorer.turns == []


def test_an_environment_that_begins_elsewhere_each_time_is_a_mismatch() -> None:
    class Elsewhere(UnseededCorridor):
        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
            return super().reset(seed=seed, options=None)

        get_state = None  # type: ignore[assignment]

    restorer = Restorer(Elsewhere(500), "replay")
    restorer.reset(seed=2, options=None)
    play(restorer, ["look", "go right", "look"])
    with pytest.warns(UserWarning, match="turn 2 by (replay|restart) failed"):
        rewound = restorer.rewind(2)
    assert (rewound.status, rewound.prefix_length) == ("mismatch", 0)


def test_an_unseeded_generator_is_found_again_by_the_task_id() -> None:
    class Stubborn(StatelessCorridor):
        """Draws its task from a generator of its own unless it is told the task."""

        draws = 0

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
            Stubborn.draws += 1
            return super().reset(seed=seed, options={"task_id": f"corridor-{3 + Stubborn.draws}", **(options or {})})

    restorer = Restorer(Stubborn(), "replay")
    restorer.reset(seed=None, options=None)
    before = play(restorer, WALK[:3])
    assert restorer.rewind(2).status == "verified"
    assert play(restorer, WALK[2:3]) == before[2:]


def test_ways_that_a_stack_cannot_go_are_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match="has no get_state"):
        Restorer(StatelessCorridor(), "native")
    with pytest.raises(InputError, match="EzPickle"):
        Restorer(EzPickleCorridor(), "copy")
    with pytest.raises(InputError, match="one of"):
        Restorer(Corridor(), "teleport")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least 1"):
        Restorer(Corridor(), every=0)
    restorer = Restorer(EzPickleCorridor())
    restorer.reset(seed=1, options=None)
    play(restorer, WALK[:4])
    assert restorer.rewind(3).strategy == "replay"
    with pytest.raises(InputError, match=r"\[0, 3\]"):
        restorer.rewind(4)


def test_an_environment_that_cannot_be_copied_is_replayed() -> None:
    class Handle(StatelessCorridor):
        def __init__(self) -> None:
            super().__init__()
            self.stream = (x for x in ())

    restorer = Restorer(Handle())
    restorer.reset(seed=1, options=None)
    assert "copy" in restorer.reasons
    play(restorer, WALK[:4])
    assert restorer.rewind(3).strategy == "replay"


class Doubler(gym.Wrapper[Any, Any, Any, Any]):
    """A stateful wrapper that nobody knows."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.count = 0

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.count += 1
        observation, reward, terminated, truncated, info = self.env.step(action)
        return f"{observation} #{self.count}", reward, terminated, truncated, info

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.count = 0
        return self.env.reset(seed=seed, options=options)


class Asked(Doubler):
    """The same, with a state of its own."""

    def get_state(self) -> dict[str, Any]:
        return {"count": self.count}

    def set_state(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


@pytest.mark.parametrize(("wrapper", "strategy"), [(Doubler, "copy"), (Asked, "native")])
def test_an_unknown_wrapper_is_copied_and_one_with_a_state_is_asked(wrapper: Any, strategy: str) -> None:
    env = wrapper(Corridor(9))
    assert unknown_wrappers(env) == ([] if wrapper is Asked else ["Doubler"])
    restorer = Restorer(env, "auto", 3)
    restorer.reset(seed=1, options=None)
    before = play(restorer, WALK)
    rewound = restorer.rewind(6)
    assert rewound.strategy == strategy
    assert play(restorer, WALK[6:]) == before[6:]


def test_a_layer_that_decides_itself_how_it_is_copied_is_left_to_replay_and_one_that_tells_what_it_holds_is_asked() -> (
    None
):
    class Deciding(StatelessCorridor):
        def __deepcopy__(self, memo: Any) -> Any:
            return self

    class Telling(StatelessCorridor):
        def __getstate__(self) -> Any:
            return {"told": dict(vars(self))}

        def __setstate__(self, state: Any) -> None:
            vars(self).update(state["told"])

    for cls, strategy in ((Deciding, "replay"), (Telling, "copy")):
        restorer = Restorer(TimeLimit(cls(9), 30), "auto", 3)
        restorer.reset(seed=1, options=None)
        before = play(restorer, WALK)
        assert restorer.rewind(6).strategy == strategy
        assert play(restorer, WALK[6:]) == before[6:]


def test_when_even_a_reset_fails_there_is_no_way_back() -> None:
    class Closing(Corridor):
        def reset(self, **arguments: Any) -> Any:
            if self.ended:
                raise OSError("gone")
            return super().reset(**arguments)

    restorer = Restorer(Closing(), "restart")
    restorer.reset(seed=1, options=None)
    play(restorer, ["go left"])
    with pytest.raises(RestoreError, match="reset failed too") as caught:
        restorer.rewind(0)
    assert isinstance(caught.value.__cause__, OSError)


def test_array_observations_and_frame_stacks_come_back() -> None:
    def make() -> gym.Env[Any, Any]:
        return FrameStackObservation(DelayObservation(TimeLimit(gym.make("CartPole-v1").unwrapped, 30), 2), 3)

    for strategy in ("copy", "replay"):
        env = make()
        restorer = Restorer(env, strategy, 4)
        restorer.reset(seed=5, options=None)
        actions = [0, 1, 1, 0, 1, 0, 0, 1]
        before = play(restorer, actions)
        rewound = restorer.rewind(6)
        assert np.array_equal(rewound.observation, before[5][0])
        assert data_equivalence(play(restorer, actions[6:]), before[6:], exact=True)


def test_time_limits_are_found_inside_only() -> None:
    assert has_time_limit(OrderEnforcing(TimeLimit(Corridor(), 5)))
    assert not has_time_limit(OrderEnforcing(Corridor()))


def test_a_snapshot_goes_through_json_to_a_fresh_environment() -> None:
    restorer = Restorer(TimeLimit(Corridor(9), 20))
    restorer.reset(seed=None, options={"task_id": "corridor-8"})
    play(restorer, WALK[:5])
    snapshot = restorer.snapshot()
    payload = json.loads(json.dumps(snapshot.payload))
    other = TimeLimit(Corridor(9), 20)
    observation, _ = restore(other, Snapshot(snapshot.fingerprint, snapshot.strategy, payload))
    assert observation == restorer.turns[-1].observation
    assert play(other, WALK[5:]) == play(restorer, WALK[5:])
    with pytest.raises(RestoreError, match="Expected the point"):
        restore(HiddenRNGCorridor(9), Snapshot(snapshot.fingerprint, "replay", payload))
    with pytest.raises(RestoreError, match="ended after 2"):
        restore(TimeLimit(Corridor(9), 2), Snapshot(snapshot.fingerprint, "replay", payload))


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"task_id": 3},
        {"seed": True},
        {"seed": "1"},
        {"commands": "look"},
        {"commands": [1.5]},
        {"commands": [True]},
        {"options": []},
        {"rng": 4},
        {"extra": 1},
    ],
)
def test_a_malformed_point_is_refused(change: dict[str, Any]) -> None:
    good = Portable("t", 3, ("look", 1)).to_json()
    assert Portable.from_json(good) == Portable("t", 3, ("look", 1))
    with pytest.raises(InputError):
        Portable.from_json({**good, **change})


def test_going_back_before_a_reset_is_refused() -> None:
    with pytest.raises(gym.error.ResetNeeded):
        Restorer(Corridor()).snapshot()


def test_a_restart_gives_back_what_wrappers_carry_from_episode_to_episode() -> None:
    env = NormalizeReward(TimeLimit(Corridor(9), 10))
    restorer = Restorer(env, "replay")
    restorer.reset(seed=3, options=None)
    start = env.return_rms.count
    play(restorer, WALK)
    assert env.return_rms.count > start
    assert restorer.rewind(0).status == "verified"
    assert env.return_rms.count == start


def test_a_generator_of_another_kind_comes_back_too() -> None:
    class Twister(Corridor):
        def reset(self, **arguments: Any) -> Any:
            self._np_random = np.random.Generator(np.random.MT19937(4))
            return super().reset(options=arguments.get("options"))

        def get_state(self) -> dict[str, Any]:
            return {**super().get_state(), "rng": None}

        def set_state(self, state: dict[str, Any]) -> None:
            super().set_state({**state, "rng": self.np_random.bit_generator.state})

    restorer = Restorer(TimeLimit(Twister(9), 30), "auto", 3)
    restorer.reset(seed=None, options=None)
    first = play(restorer, WALK)
    assert restorer.rewind(4).strategy == "native"
    assert play(restorer, WALK[4:]) == first[4:]
