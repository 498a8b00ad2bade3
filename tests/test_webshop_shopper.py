"""The shopper who knows the pages alone: what it does by hand, and that nothing hidden changes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from triage_gym.envs.webshop import WebShopEnv, expert, open_shop, shopper
from triage_gym.envs.webshop.records import Goal, Product
from triage_gym.envs.webshop.session import Session
from triage_gym.envs.webshop.shelf import Shelf


class Altered:
    """The embedded shop with other products or goals than it was indexed with."""

    def __init__(self, product: Callable[[Product], Product], goal: Callable[[Goal], Goal]) -> None:
        self._shop = open_shop()
        self._product, self._goal = product, goal
        self.name, self.fingerprint = self._shop.name, "altered"
        self.search, self.goal_ids, self.draw = self._shop.search, self._shop.goal_ids, self._shop.draw

    def product(self, asin: str) -> Product | None:
        found = self._shop.product(asin)
        return None if found is None else self._product(found)

    def goal(self, task_id: str) -> Goal:
        return self._goal(self._shop.goal(task_id))


def unseen(product: Product) -> Product:
    """The product with everything changed that neither results nor its page show."""
    return replace(
        product,
        description="x",
        bullets=("y",),
        category="z",
        query="q",
        product_category="p",
        attributes=("a",),
        price=0.5,
    )


def other_goal(goal: Goal) -> Goal:
    return replace(
        goal, asin="B0WD6RVLCU", title="no", query="no", category="no", product_category="no", attributes=("no",),
        options=("no",), price_upper=0.1,
    )  # fmt: skip


def way(env: WebShopEnv, task_id: str) -> list[str]:
    env.reset(options={"task_id": task_id})
    said = []
    while (action := env.expert_action()) is not None:
        said.append(action)
        if any(env.step(action)[2:4]):
            break
    return said


@pytest.mark.parametrize("change", [(unseen, lambda g: g), (lambda p: p, other_goal), (unseen, other_goal)])
def test_neither_the_goal_nor_unseen_pages_change_what_it_does(change: Any) -> None:
    plain, altered = WebShopEnv(nouns="heuristic"), WebShopEnv(Altered(*change), nouns="heuristic")
    for task_id in plain.task_ids(0, 40):
        assert way(altered, task_id) == way(plain, task_id)


def test_what_a_page_shows_does_change_it() -> None:
    plain = WebShopEnv(nouns="heuristic")
    bare = WebShopEnv(Altered(lambda p: replace(p, options={}), lambda g: g), nouns="heuristic")
    assert any(way(bare, task_id) != way(plain, task_id) for task_id in plain.task_ids(0, 10))


def test_it_wins_most_of_the_training_tasks_and_asks_for_what_is_admissible() -> None:
    env = WebShopEnv(nouns="heuristic")
    won = turns = 0
    for task_id in env.task_ids(0, 200):
        _, info = env.reset(options={"task_id": task_id})
        ended = False
        while not ended:
            action = env.expert_action()
            assert action in info["admissible_commands"]
            _, _, terminated, truncated, info = env.step(action)
            turns += 1
            ended = terminated or truncated
        won += info["success"]
    assert 0.6 < won / 200 < 0.8  # two products may look alike on the pages it reads
    assert turns / 200 < 6


def test_it_goes_on_from_a_restored_state_and_from_anywhere() -> None:
    env, twin = WebShopEnv(nouns="heuristic"), WebShopEnv(nouns="heuristic")
    env.reset(seed=3)
    for action in (env.expert_action(), "click[next >]"):
        env.step(str(action))
    product = env.game.results()[0].asin.lower()
    for action in (f"click[{product}]", "click[description]"):
        env.step(action)
    assert env.expert_action() == "click[< prev]"
    twin.set_state(env.get_state())
    while (action := env.expert_action()) is not None:
        assert twin.expert_action() == action
        assert env.step(action) == twin.step(action)
        if env._done:
            break


def little(task: str, **changes: Any) -> Session:
    """A session on the page of a product whose colours are red and deep red, sizes small and large."""
    shelf = Shelf(
        Altered(lambda p: replace(p, options={"color": ("red", "deep red"), "size": ("small", "large")}), other_goal)
    )
    goal = replace(open_shop().goal(open_shop().goal_ids("train")[0]), instruction=task)
    session = Session(shelf, goal, WebShopEnv(nouns="heuristic").rules, WebShopEnv(nouns="heuristic").tagger)
    state = {"page": "item_page", "keywords": "x", "number": 1, "asin": "B0WD6RVLCU", "sub_page": "", "options": {}}
    session.set_state({**state, "visited": ["B0WD6RVLCU"], **changes})
    return session


def test_by_hand_the_longest_value_that_the_instruction_has_all_words_of() -> None:
    assert shopper.next_action(little("a deep red cup, size small")) == "click[deep red]"
    assert shopper.next_action(little("a deep red cup, size small", options={"color": "deep red"})) == "click[small]"
    both = {"color": "deep red", "size": "small"}
    assert shopper.next_action(little("a deep red cup, size small", options=both)) == "click[buy now]"
    assert shopper.next_action(little("a cup")) == "click[buy now]"


def test_by_hand_it_goes_back_from_what_lacks_a_named_option_but_not_for_ever() -> None:
    assert shopper.next_action(little("a red cup in size huge")) == "click[< prev]"
    enough = [
        "B0WD6RVLCU",
        *[p for p in open_shop().search("lamp", 50) if p != "B0WD6RVLCU"][: shopper.MOST_LOOKED_AT - 1],
    ]
    assert shopper.next_action(little("a red cup in size huge", visited=enough)) == "click[red]"


def test_by_hand_a_price_beyond_the_limit_comes_last() -> None:
    env = WebShopEnv(nouns="heuristic")
    env.reset(seed=0)
    env.step(str(env.expert_action()))
    results = env.game.results()
    dearest = max(results, key=lambda p: max(p.prices))
    limit = max(dearest.prices) - 0.01
    env.game.task = f"{dearest.title}, and price lower than {limit:.2f} dollars"
    assert shopper.next_action(env.game) != f"click[{dearest.asin.lower()}]"
    env.game.task = f"{dearest.title}, and price lower than {limit + 1:.2f} dollars"
    assert shopper.next_action(env.game) == f"click[{dearest.asin.lower()}]"


def test_the_oracles_plan_is_as_long_as_its_distance_and_wins() -> None:
    env = WebShopEnv(nouns="heuristic")
    env.reset(seed=1)
    plan = env.expert_plan()
    assert plan is not None
    assert len(plan) == env.expert_distance() == expert.distance(env.game)
    for action in plan:
        info = env.step(action)[4]
    assert info["success"]
    assert (env.expert_plan(), env.expert_distance(), env.expert_action()) == ([], 0, None)
