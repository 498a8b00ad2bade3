"""WebShopEnv: arguments, infos, rewards, restoring, retrying, what a judge may see, and that every task can be solved."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from typing import Any

import gymnasium as gym
import pytest
from webshop_shop import GOALS, LAMPS, MUG, PRODUCTS, SOFA, LittleShop, goal_for

import triage_gym
from triage_gym.envs.task_env import MAX_TEXT
from triage_gym.envs.webshop import WebShopEnv, expert, open_shop
from triage_gym.envs.webshop.nouns import installed_model
from triage_gym.errors import InputError, StateError
from triage_gym.records import EpisodeRecord, Segment
from triage_gym.windows import build_windows, outcome_text_of
from triage_gym.wrappers import PivotRetryWrapper

assert triage_gym  # registers the environments


def make(shop: LittleShop | None = None, **arguments: Any) -> WebShopEnv:
    return WebShopEnv(shop or LittleShop(), **{"nouns": "heuristic", **arguments})


def buy(env: WebShopEnv, *clicks: str, task_id: str = "webshop-little-train-0") -> tuple[str, float, dict[str, Any]]:
    env.reset(options={"task_id": task_id})
    for action in ("search[sofa]", "click[b000000001]", *(f"click[{click}]" for click in clicks)):
        env.step(action)
    text, reward, terminated, truncated, info = env.step("click[buy now]")
    assert (terminated, truncated) == (True, False)
    return text, reward, info


@pytest.mark.parametrize(
    "arguments",
    [
        {"observation": "html"},
        {"show_attributes": 1},
        {"magic_keywords": "yes"},
        {"nouns": "nltk"},
        {"split": "dev"},
        {"max_turns": 0},
        {"render_mode": "human"},
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^Expected "):
        make(**arguments)


@pytest.mark.parametrize("arguments", [{"data": "/nowhere/at/all"}, {"goals": "machine"}])
def test_data_that_is_not_there_is_said(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        WebShopEnv(**arguments)


def test_the_reward_comes_with_the_purchase_and_says_its_parts() -> None:
    text, reward, info = buy(make(), "grey", "3 seat")
    assert reward == info["score"] == 1.0
    assert info["success"] is True
    assert info["noun_tagger"] == "heuristic"
    assert info["page"] == "done"
    assert (info["admissible_commands"], info["command_templates"]) == ([], [])
    assert info["reward_info"]["r_option"] == 1.0
    assert "[SEP] 1.0 [SEP]" in text
    _, reward, info = buy(make(), "grey")
    assert (reward, info["score"], info["success"]) == (0.8, 0.8, False)
    assert info["reward_info"]["r_option"] == 0.5


def test_infos_before_the_end_tell_nothing_of_it() -> None:
    env = make()
    _, first = env.reset(seed=0)
    assert first["noun_tagger"] == "heuristic"
    assert first["task_type"] == "garden"
    info = env.step("search[sofa]")[4]
    assert info.keys() == {"admissible_commands", "command_templates", "invalid_action", "page", "has_search_bar"}


def test_the_turn_limit_is_an_end_without_a_purchase() -> None:
    env = make(max_turns=2)
    env.reset(options={"task_id": "webshop-little-train-0"})
    env.step("search[sofa]")
    _, reward, terminated, truncated, info = env.step("click[b000000001]")
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert (info["success"], info["score"]) == (False, 0.0)
    assert "reward_info" not in info
    assert make().max_turns == 15


def test_a_split_draws_its_own_tasks_and_any_task_may_be_named() -> None:
    for split in ("train", "val", "test"):
        env = make(split=split)
        drawn = {env.reset(seed=seed)[1]["task_id"] for seed in range(20)}
        assert drawn == set(LittleShop().goal_ids(split))
    assert (
        env.reset(options={"task_id": "webshop-little-train-0"})[1]["task"]
        == GOALS["webshop-little-train-0"].instruction
    )
    with pytest.raises(InputError):
        env.reset(options={"task_id": "webshop-little-train-9"})


def test_a_retry_opens_the_same_task() -> None:
    """WebShop's own environment goes on with another goal after a purchase."""
    env = PivotRetryWrapper(make())
    first, info = env.reset(seed=4)
    for action in ("search[lamp]", "click[next >]", "click[b0000lamp5]", "click[buy now]"):
        answer = env.step(action)
    assert answer[4]["success"] is False
    for retry in (True, 2):
        again, later = env.reset(options={"retry": retry})
        assert later["task_id"] == info["task_id"]
        assert info["task"].strip() in again
        if retry is True:
            assert again == first
            env.step("search[lamp]")
            env.step("click[next >]")
            env.step("click[b0000lamp3]")
            assert env.step("click[buy now]")[4]["success"] is False
    assert env.unwrapped.game.page == "search_results"  # type: ignore[attr-defined]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])  # noqa: S301
def test_copies_go_on_where_the_original_stands(duplicate: Any) -> None:
    for env in (make(observation="text_rich"), WebShopEnv()):
        env.reset(seed=3)
        env.step(env.expert_action() or "")
        twin = duplicate(env)
        while (action := env.expert_action()) is not None:
            assert twin.expert_action() == action
            assert twin.step(action) == env.step(action)
        assert twin.reset() == env.reset()


def test_environments_of_one_shop_share_what_was_looked_up() -> None:
    one, two = WebShopEnv(), WebShopEnv(split="test")
    assert one.shelf is two.shelf is copy.deepcopy(one).shelf is pickle.loads(pickle.dumps(two)).shelf  # noqa: S301
    assert one.shelf is not WebShopEnv(goals="synthetic").shelf
    assert make().shelf is not make().shelf


def test_the_end_can_be_restored_with_its_outcome() -> None:
    env = make()
    buy(env, "grey")
    state = json.loads(json.dumps(env.get_state()))
    other = make()
    other.set_state(state)
    assert other.game.outcome() == (False, 0.8)
    assert other.game.text() == state["text"]
    assert other.expert_action() is None


@pytest.mark.parametrize(
    "change",
    [
        {"page": "checkout"},
        {"page": "index"},
        {"page": "search_results"},
        {"page": "item_sub_page"},
        {"number": 0},
        {"number": "1"},
        {"asin": ""},
        {"asin": "B0NOTHERE0"},
        {"sub_page": "Features"},
        {"options": {"color": "blue"}},
        {"options": {"taste": "grey"}},
        {"options": {"color": ["grey"]}},
        {"visited": ["B0NOTHERE0"]},
        {"visited": [1]},
        {"keywords": None},
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(change: dict[str, Any]) -> None:
    env = make()
    env.reset(options={"task_id": "webshop-little-train-0"})
    env.step("search[sofa]")
    env.step("click[b000000001]")
    before = env.get_state()
    with pytest.raises(StateError):
        env.set_state({**before, "game": {**before["game"], **change}})
    assert env.get_state() == before


def test_a_state_of_another_shop_or_tagger_is_refused() -> None:
    env = make()
    env.reset(options={"task_id": "webshop-little-train-0"})
    state = env.get_state()
    shop = LittleShop()
    shop.fingerprint = "little-2"
    with pytest.raises(StateError, match="little-2"):
        make(shop).set_state(state)


def test_a_state_of_an_environment_that_shows_more_is_refused() -> None:
    """The attributes page stays hidden, and a listing does not turn into another page of results."""
    shown, magic = WebShopEnv(show_attributes=True), WebShopEnv(magic_keywords=True)
    shown.reset(seed=0)
    asin = shown.shop.search("sofa", 1)[0].lower()
    for action in ("search[sofa]", f"click[{asin}]", "click[attributes]"):
        shown.step(action)
    magic.reset(seed=0)
    magic.step("search[<c> garden]")
    plain = WebShopEnv()
    plain.reset(seed=0)
    before = plain.get_state()
    for state in (shown.get_state(), magic.get_state()):
        with pytest.raises(StateError):
            plain.set_state(state)
        assert plain.get_state() == before


@pytest.mark.parametrize("style", ["text", "text_rich", "verl-agent"])
def test_a_page_that_is_too_long_is_cut(style: Any) -> None:
    long = replace(SOFA, description="word " * 20_000)
    env = make(LittleShop([long]), observation=style)
    env.reset(options={"task_id": "webshop-little-train-0"})
    for action in ("search[sofa]", f"click[{SOFA.asin.lower()}]", "click[description]"):
        text = env.step(action)[0]
    assert len(text) == MAX_TEXT
    assert text in env.observation_space
    assert "word word word" in text


@pytest.mark.parametrize("style", ["text", "text_rich", "verl-agent"])
def test_a_judge_sees_the_same_last_page_whatever_was_earned(style: Any) -> None:
    """Windows of purchases that earn 0.0 to 1.0 are the same texts: neither the score nor anything near it is left."""
    goals = {
        "webshop-little-train-0": GOALS["webshop-little-train-0"],
        "webshop-little-train-1": replace(goal_for(MUG, "webshop-little-train-1", "a mug"), title="Mug"),
        "webshop-little-train-2": replace(goal_for(SOFA, "webshop-little-train-2", "a sofa"), attributes=("soft", "x")),
        "webshop-little-train-3": goal_for(SOFA, "webshop-little-train-3", "a sofa"),
    }
    last, earned = set(), []
    for task_id in goals:
        env = make(LittleShop(PRODUCTS, goals), observation=style)
        text, reward, info = buy(env, task_id=task_id)
        earned.append(reward)
        record = EpisodeRecord(
            group_id="g",
            task_id=task_id,
            task="buy",
            domain="webshop",
            start_observation="page",
            segments=(Segment(0, "page", "click[buy now]", text, reward, info),),
            score=reward,
            success=info["success"],
            terminated=True,
        )
        [window] = build_windows(record, outcome_text=outcome_text_of(env.metadata))
        last.add(window.next_observation)
        assert str(reward) not in window.next_observation
        assert "Purchased" in window.next_observation
    assert earned == [0.6, 0.0, 1 / 3, 1.0]
    assert len(last) == 1


def test_the_render_is_the_page() -> None:
    env = make(render_mode="ansi")
    text, _ = env.reset(seed=0)
    assert env.render() == text


def test_gymnasium_makes_it() -> None:
    env = gym.make("triage/WebShop-v0", split="test", observation="text_rich")
    _, info = env.reset(seed=0)
    assert "-test-" in info["task_id"]
    card = WebShopEnv.card()
    assert card.source.startswith("WebShop")
    assert "embedded" in card.data


def test_the_card_counts_right() -> None:
    counts = [
        len(open_shop(goals=goals).goal_ids(split)) for goals in ("human", "synthetic") for split in WebShopEnv.SPLITS
    ]
    human, synthetic = (" / ".join(f"{count:,}" for count in part) for part in (counts[:3], counts[3:]))
    assert WebShopEnv.card().size == f"embedded: {human} train / val / test goals, {synthetic} synthetic ones"


def solve(env: WebShopEnv, task_id: str) -> tuple[float, int]:
    env.reset(options={"task_id": task_id})
    for turns in range(1, 100):
        action = expert.expert_action(env.game)
        assert action is not None
        _, reward, terminated, truncated, info = env.step(action)
        assert not info["invalid_action"]
        if terminated or truncated:
            return reward, turns
    raise AssertionError(f"{task_id} has no end")


@pytest.mark.parametrize("goals", ["human", "synthetic"])
def test_the_expert_solves_the_embedded_tasks(goals: str) -> None:
    env = WebShopEnv(goals=goals, nouns="heuristic")
    for split in env.SPLITS:
        ids = env.shop.goal_ids(split)
        for task_id in list(ids)[:: 1 if goals == "human" else 20]:
            assert solve(env, task_id) == (1.0, pytest.approx(5, abs=4))


def test_the_expert_solves_them_with_spacys_nouns_too() -> None:
    if installed_model() is None:
        pytest.skip("needs spaCy with its small English model")
    env = WebShopEnv(nouns="spacy")
    for task_id in list(env.shop.goal_ids("test")):
        assert solve(env, task_id)[0] == 1.0


def test_the_expert_pages_and_finds_its_way_from_anywhere() -> None:
    goal = goal_for(LAMPS[9], "webshop-little-test-0", "a lamp", options=(("color", "brass"),))
    env = make(LittleShop(PRODUCTS, {goal.task_id: goal}), split="test", max_turns=None)
    env.reset(seed=0)
    for action in ("search[mug]", "click[b000000003]", "click[features]"):
        env.step(action)
    assert expert.expert_action(env.game) == "search[brass lamp number 9]"
    for action in ("search[lamp]", "click[next >]", "click[next >]"):
        env.step(action)
    assert expert.expert_action(env.game) == "click[< prev]"
    env.step("click[< prev]")
    assert expert.expert_action(env.game) == "click[b0000lamp9]"
    env.step("click[b0000lamp9]")
    env.step("click[description]")
    assert expert.expert_action(env.game) == "click[< prev]"
    env.step("click[< prev]")
    assert expert.expert_action(env.game) == "click[brass]"
    env.step("click[brass]")
    assert env.step(expert.expert_action(env.game) or "")[1] == 1.0


def test_the_expert_chooses_options_that_match_most_and_no_more() -> None:
    targets = {"red": "odd", "rosé": "color", "done": "color", "size 8": "size"}
    goal = replace(GOALS["webshop-little-val-2"], options=("red", "rosé"))
    assert dict(expert.best_options(MUG, goal, targets)) == {"odd": "red", "color": "rosé"}
    assert expert.best_options(MUG, replace(goal, options=()), targets) == ()
    # "xx-large" matches "3x-large" too, but the one that was named is chosen.
    sizes = {"xx-large": "size", "3x-large": "size"}
    assert expert.best_options(MUG, replace(goal, options=("3x-large",)), sizes) == (("size", "3x-large"),)
    # Both wanted values are of one group: one of them is as good as it gets.
    assert len(expert.best_options(MUG, replace(goal, options=("rosé", "done")), targets)) == 1


def test_without_the_product_there_is_no_way() -> None:
    goal = replace(GOALS["webshop-little-train-0"], asin="B0NOTHERE0")
    env = make(LittleShop(PRODUCTS, {goal.task_id: goal}))
    env.reset(seed=0)
    assert expert.expert_action(env.game) is None
