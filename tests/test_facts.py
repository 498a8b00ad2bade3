"""FactsMeter: what an environment says of its turns, worked out by hand on a cupboard, and on the built-in environments."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import pytest
import textworld_games
from envs_for_tests import Corridor, StatelessCorridor
from gymnasium.wrappers import TimeLimit
from needs import require

from triage_gym.envs.alfworld.env import ALFWorldEnv
from triage_gym.envs.minesweeper.env import MinesweeperEnv
from triage_gym.envs.searchqa.env import SearchQAEnv
from triage_gym.envs.sokoban.env import SokobanEnv
from triage_gym.envs.webshop.env import WebShopEnv
from triage_gym.errors import InputError
from triage_gym.facts import FACT_NAMES, FactsMeter
from triage_gym.protocols import Facts
from triage_gym.reflection.expert import expert_distance
from triage_gym.spaces import UnicodeText
from triage_gym.wrappers import HistoryWrapper


class Cupboard(gym.Env[str, str]):
    """Three drawers, the cup in the last one; what is taken is in hand. Says all of itself, in live containers."""

    metadata = {"render_modes": [], "domain": "cupboard", "outcome_text": ()}  # noqa: RUF012

    def __init__(self) -> None:
        self.observation_space, self.action_space = UnicodeText(), UnicodeText()
        self.hand: list[str] = []
        self.seen: list[Any] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.hand.clear()
        self.seen[:] = ["three drawers"]
        return "Three drawers.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if action.startswith("open"):
            self.seen[:] = [{"drawer": int(action[-1])}]
            return f"It is drawer {action[-1]}.", 0.0, False, False, {}
        if action == "take":
            self.hand.append("cup")
        return "Done.", 0.0, False, False, {}

    def task_state(self) -> Any:
        return {"hand": self.hand}

    def belief(self) -> Any:
        return self.seen

    def expert_distance(self) -> int | None:
        return None if len(self.hand) > 1 else 1 - len(self.hand)


def test_facts_of_turns_by_hand() -> None:
    env = Cupboard()
    meter = FactsMeter(env)
    meter.begin(env.reset()[0])
    found = []
    for action in ("open 1", "open 2", "open 1", "wait", "take", "take", "wait"):
        found.append(meter.step(env.step(action)[0]))
    assert found == [
        Facts(False, True, 1, 1),
        Facts(False, True, 1, 1),
        Facts(False, False, 1, 1),
        Facts(False, False, 1, 1),
        Facts(True, False, 1, 0),
        Facts(True, False, 0, -1),
        Facts(False, False, -1, -1),
    ]


def test_a_retry_knows_what_its_prefix_showed_and_no_more() -> None:
    env = Cupboard()
    meter = FactsMeter(env, ["learnt"])
    meter.begin(env.reset()[0])
    for action in ("open 1", "open 2", "open 3"):
        assert meter.step(env.step(action)[0]).learnt
    text = env.step("open 1")[0]
    meter.begin(text, prefix=1)
    assert [meter.step(env.step(f"open {n}")[0]).learnt for n in (1, 2, 2, 3)] == [False, True, False, True]
    meter.begin(env.reset()[0])
    assert meter.step(env.step("open 1")[0]).learnt


def test_without_its_own_belief_new_words_are_news() -> None:
    env = StatelessCorridor()
    meter = FactsMeter(env)
    meter.begin("a")
    assert [meter.step(text).learnt for text in ("b", "a", "b", "c")] == [True, False, False, True]
    assert meter.step("c").changed is None


def test_only_what_is_asked_for_is_measured() -> None:
    class Touchy(Cupboard):
        def task_state(self) -> Any:
            raise AssertionError

        belief = expert_distance = task_state  # type: ignore[assignment]

    env = Touchy()
    meter = FactsMeter(env, [])
    meter.begin(env.reset()[0])
    assert meter.step(env.step("take")[0]) == Facts()


def test_an_environment_that_cannot_tell_leaves_the_fact_open() -> None:
    class Vague(Cupboard):
        def task_state(self) -> Any:
            return None if self.hand else super().task_state()

    env = Vague()
    meter = FactsMeter(env)
    meter.begin(env.reset()[0])
    assert [meter.step(env.step(a)[0]).changed for a in ("wait", "take", "wait")] == [False, None, None]


@pytest.mark.parametrize("names", ["changed", ["luck"], ["changed", 3]])
def test_unknown_facts_are_refused(names: Any) -> None:
    with pytest.raises(InputError, match="Expected facts out of"):
        FactsMeter(Cupboard(), names)


def test_bad_answers_of_an_environment_are_refused() -> None:
    env = Cupboard()
    for name, value in (("belief", "text"), ("belief", [{1, 2}]), ("task_state", object())):
        setattr(env, name, lambda value=value: value)
        with pytest.raises(InputError, match=f"Expected {name}"):
            FactsMeter(env, ["changed", "learnt"]).begin("")
        delattr(env, name)


def test_distance_needs_an_expert_and_goes_through_wrappers() -> None:
    class Lost(StatelessCorridor):
        expert_distance = None  # type: ignore[assignment]

    with pytest.raises(InputError, match="expert"):
        FactsMeter(Lost())
    env = HistoryWrapper(TimeLimit(Corridor(), 5), 2)
    meter = FactsMeter(env, ["distance"])
    meter.begin(env.reset(seed=1)[0])
    door = env.unwrapped.exit
    assert meter.step(env.step("go right")[0])[2:] == (door, door - 1)


class Walking(Corridor):
    """Its expert tells the next action only, and it has a limit of its own."""

    expert_distance = None  # type: ignore[assignment]
    max_turns: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def expert_action(self) -> str:
        return "go right"

    def step(self, action: str) -> Any:
        self.steps += 1
        observation, reward, terminated, truncated, info = super().step(action)
        if self.max_turns is not None and self.furthest >= self.max_turns and not terminated:
            self.ended = truncated = True
        return observation, reward, terminated, truncated, info


def test_an_experts_walk_leaves_no_trace() -> None:
    env, twin = Walking(), Walking()
    meter = FactsMeter(env, ["distance"])
    meter.begin(env.reset(seed=4)[0])
    twin.reset(seed=4)
    for action in ("go right", "look", "go left", "go right", "go right"):
        answer = env.step(action)
        facts = meter.step(answer[0])
        assert facts.after == env.exit - env.position
        assert answer == twin.step(action)
        assert env.get_state() == twin.get_state()
    assert env.steps > twin.steps


def test_what_a_limit_of_its_own_cut_off_is_not_called_out_of_reach() -> None:
    env = Walking()
    env.max_turns = 1
    meter = FactsMeter(env, ["distance"])
    meter.begin(env.reset(seed=4)[0])
    observation, _, terminated, truncated, _ = env.step("go right")
    assert truncated
    assert not terminated
    assert meter.step(observation, cut=True) == Facts(None, None, env.exit, None)


BUILT_IN = {
    "alfworld": lambda: ALFWorldEnv(max_turns=12),
    "webshop": lambda: WebShopEnv(max_turns=8),
    "searchqa": SearchQAEnv,
    "sokoban": SokobanEnv,
    "minesweeper": MinesweeperEnv,
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_in_built_in_environments_a_refused_action_changes_and_teaches_nothing(name: str) -> None:
    env = BUILT_IN[name]()
    for seed in range(3):
        meter = FactsMeter(env)
        meter.begin(env.reset(seed=seed)[0])
        before = json.dumps(env.task_state())
        for _ in range(2):
            facts = meter.step(env.step("xyzzy the plugh")[0])
            assert (facts.changed, facts.learnt) == (False, False)
            assert facts.after == facts.before or name == "searchqa"
        assert json.dumps(env.task_state()) == before


@pytest.mark.parametrize("name", BUILT_IN)
def test_in_built_in_environments_the_experts_way_ends_at_the_goal(name: str) -> None:
    env = BUILT_IN[name]()
    for seed in range(3):
        meter = FactsMeter(env)
        meter.begin(env.reset(seed=seed)[0])
        ended, found = False, []
        while not ended:
            observation, _, terminated, truncated, info = env.step(env.expert_action())
            found.append(meter.step(observation))
            ended = terminated or truncated
        if name not in ("minesweeper", "webshop"):  # their experts know no more than they are shown
            assert all(facts.after == facts.before - 1 for facts in found)
        assert all(facts.changed for facts in found if facts.after < facts.before) or name == "searchqa"
        assert (found[-1].after == 0) == info["success"]


def test_in_alfworld_a_second_look_teaches_nothing_and_moving_is_a_change() -> None:
    env = ALFWorldEnv()
    meter = FactsMeter(env, ["changed", "learnt"])
    _, info = env.reset(seed=0)
    meter.begin(_)
    place = next(c for c in info["admissible_commands"] if c.startswith("go to "))
    other = next(c for c in info["admissible_commands"] if c.startswith("go to ") and c != place)
    found = {}
    for action in (place, "inventory", "help", other, place, "look"):
        facts = meter.step(env.step(action)[0])
        found.setdefault(action, []).append((facts.changed, facts.learnt))
    assert found[place] == [(True, True), (True, False)]
    assert found[other] == [(True, True)]
    assert found["inventory"] == found["help"] == [(False, False)]


def test_in_alfworld_what_the_agent_puts_somewhere_is_no_news() -> None:
    env = ALFWorldEnv(task_types=["pick_and_place_simple"])
    meter = FactsMeter(env, ["learnt"])
    meter.begin(env.reset(seed=2)[0])
    learnt = {}
    while (action := env.expert_action()) is not None:
        learnt[action] = meter.step(env.step(action)[0]).learnt
    assert {said for action, said in learnt.items() if action.startswith(("take", "move"))} == {False}
    assert {said for action, said in learnt.items() if action.startswith("go to")} == {True}


def test_in_searchqa_a_passage_is_news_once_whatever_its_rank() -> None:
    for preset in ("search-r1", "verl-agent"):
        env = SearchQAEnv(preset=preset)
        meter = FactsMeter(env, FACT_NAMES)
        meter.begin(env.reset(seed=1)[0])
        search = env.expert_action()
        first, again = (meter.step(env.step(search)[0]) for _ in range(2))
        assert (first.changed, first.learnt) == (False, True)
        assert (again.changed, again.learnt) == (False, False)
        assert len(env.belief()) == 3
        assert not any(passage.startswith("Doc") for passage in env.belief())
        assert meter.step(env.step("<answer>no</answer>")[0]) == Facts(True, False, again.after, -1)


def test_in_webshop_known_products_on_another_page_are_no_news() -> None:
    env = WebShopEnv()
    meter = FactsMeter(env, FACT_NAMES)
    meter.begin(env.reset(seed=0)[0])
    search = env.expert_action()
    steps = [search, env.unwrapped.expert_action, "click[< prev]", search, "click[back to search]", search]
    found = [meter.step(env.step(step() if callable(step) else step)[0]) for step in steps]
    assert [facts.learnt for facts in found] == [True, True, False, False, False, False]
    assert [facts.changed for facts in found] == [True, True, True, False, True, True]


def test_in_searchqa_and_webshop_a_turn_limit_is_no_way_out_of_reach() -> None:
    for env in (WebShopEnv(max_turns=1), SearchQAEnv(max_turns=1)):
        meter = FactsMeter(env, ["distance"])
        meter.begin(env.reset(seed=0)[0])
        observation, _, terminated, truncated, _ = env.step("xyzzy")
        assert truncated
        assert not terminated
        assert (meter.step(observation, cut=True).after or 0) > 0


@pytest.mark.textworld
def test_in_textworld_a_room_is_news_once_and_the_policy_tells_the_distance() -> None:
    require("textworld")
    env = textworld_games.make(num_games=2)
    try:
        for seed in range(2):
            meter = FactsMeter(env)
            meter.begin(env.reset(seed=seed)[0])
            way = expert_distance(env)
            assert way is not None
            for action in ("look", "inventory", "xyzzy", "examine moon"):
                facts = meter.step(env.step(action)[0])
                assert facts == Facts(False, False, way, way)
            there = env.expert_action()
            assert there is not None
            back = {"north": "south", "south": "north", "east": "west", "west": "east"}
            first = meter.step(env.step(there)[0])
            home = meter.step(env.step(f"go {back[there.removeprefix('go ')]}")[0])
            again = meter.step(env.step(there)[0])
            assert first == Facts(True, True, way, way - 1)
            assert home == Facts(True, False, way - 1, way)
            assert again == Facts(True, False, way, way - 1)
            while (action := env.expert_action()) is not None:
                facts = meter.step(env.step(action)[0])
                assert facts.after == facts.before - 1
            assert facts.after == 0
            assert env.outcome()[0]
    finally:
        env.close()


@pytest.mark.textworld
def test_in_textworld_a_close_look_is_news_once_and_only_at_what_is_there() -> None:
    require("textworld")
    env = textworld_games.make(num_games=1)
    try:
        meter = FactsMeter(env, ["changed", "learnt"])
        observation, info = env.reset(seed=0)
        meter.begin(observation)
        while not (looks := [c for c in info["admissible_commands"] if c.startswith("examine ")]):
            observation, *_, info = env.step(env.expert_action())
            meter.step(observation)
        assert [meter.step(env.step(looks[0])[0])[:2] for _ in range(2)] == [(False, True), (False, False)]
        state = env.get_state()
        said = env.task_state(), env.belief(), expert_distance(env)
        env.step(env.expert_action())
        assert env.task_state() != said[0]
        env.set_state(state)
        assert (env.task_state(), env.belief(), expert_distance(env)) == said
    finally:
        env.close()
