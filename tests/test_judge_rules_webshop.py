"""Each rule of the WebShop judge on written-out pages, in the three wordings of the shop."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage_gym.domains import webshop as shop
from triage_gym.judges.rule import RuleJudge
from triage_gym.judges.webshop import WebShopRules
from triage_gym.protocols import Pair, Window
from triage_gym.records import EpisodeRecord, Segment
from triage_gym.windows import build_windows

TASK = "i need an oil free hand cream for dry skin in lavender scent. the size should be 8 fl oz, and price lower than 20.00 dollars"
INDEX = f"WebShop [SEP] Instruction: [SEP] {TASK} [SEP] Search"
HEAD = f"Instruction: [SEP] {TASK} [SEP] Back to Search [SEP] "
GOOD = "B0AAAAAAA1 [SEP] Hand Cream, Oil Free, for Dry Skin, by Ames [SEP] $9.5"
LESS = "B0AAAAAAA2 [SEP] Hand Cream, Scented, by Bode [SEP] $8.0 to $12.0"
DEAR = "B0AAAAAAA3 [SEP] Hand Cream, Oil Free, by Cole [SEP] $45.0"
OTHER = "B0AAAAAAA4 [SEP] Steel Bunk Bed (Twin) [SEP] $19.0"
FRESH = "B0AAAAAAA5 [SEP] Hand Cream, Thick, by Dorn [SEP] $11.0"


def results(*offers: str, number: int = 1) -> str:
    prev = "< Prev [SEP] " if number > 1 else ""
    return f"{HEAD}Page {number} (Total results: 50) [SEP] {prev}Next > [SEP] " + " [SEP] ".join(offers)


def item(offer: str, scents: str = "rose [SEP] lavender", sizes: str = "8 fl oz [SEP] 12 fl oz") -> str:
    _, title, price = offer.split(" [SEP] ")
    return (
        f"{HEAD}< Prev [SEP] scent [SEP] {scents} [SEP] size [SEP] {sizes} [SEP] {title} [SEP] Price: {price} [SEP] "
        "Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )


def sub(text: str = "") -> str:
    return f"{HEAD}< Prev" + f" [SEP] {text}" * bool(text)


FIRST, PAGE, DONE = (
    results(GOOD, LESS, DEAR, OTHER),
    item(GOOD),
    "Your code: [SEP] None [SEP] Purchased [SEP] asin [SEP] B0",
)
FIND = ("search[oil free hand cream]", FIRST)
OPEN = ("click[b0aaaaaaa1]", PAGE)
LAVENDER, SIZE = ("click[lavender]", PAGE), ("click[8 fl oz]", PAGE)
BACK, PREV, BUY = ("click[back to search]", INDEX), ("click[< prev]", FIRST), ("click[buy now]", DONE)
Turn = tuple[str, str]


def windows(turns: Sequence[Turn], task: str = TASK) -> list[Window]:
    seen = [INDEX, *(answer for _, answer in turns)]
    segments = tuple(Segment(k, seen[k], action, answer) for k, (action, answer) in enumerate(turns))
    record = EpisodeRecord("w", task=task, domain="webshop", start_observation=INDEX, segments=segments)
    return build_windows(record)


def roles(*turns: Turn) -> str:
    """The roles of an attempt as one word."""
    labels = RuleJudge().judge(windows(turns))
    assert all(x.source == "rule" and x.why and x.status == "judged" for x in labels)
    return "".join(x.role or "-" for x in labels)


@pytest.mark.parametrize(
    ("expected", "turns"),
    [
        ("EEDDD", [FIND, OPEN, LAVENDER, SIZE, BUY]),
        # Searches and pages.
        ("N", [("search[bunk bed]", results(OTHER))]),
        ("ER", [FIND, ("search[dollars]", results())]),
        ("ENN", [FIND, ("click[b0aaaaaaa3]", item(DEAR)), ("search[dollars]", results())]),
        ("ER", [FIND, FIND]),
        ("NR", [("search[hand cream]", results()), ("search[hand cream]", results())]),
        ("ER", [FIND, ("search[cream hand, free oil]", FIRST)]),
        ("EE", [FIND, ("search[hand cream for dry skin]", results(FRESH, LESS))]),
        ("ER", [FIND, ("search[hand cream]", results(LESS, GOOD))]),
        ("EE", [FIND, ("click[next >]", results(FRESH, number=2))]),
        ("ENR", [FIND, ("click[next >]", results(number=2)), ("click[next >]", results(number=3))]),
        ("ENNR", [FIND, ("click[next >]", results(number=2)), PREV, ("click[next >]", results(number=2))]),
        ("EEN", [FIND, ("click[next >]", results(FRESH, number=2)), PREV]),
        # Opening.
        ("EE", [FIND, ("click[b0aaaaaaa2]", item(LESS))]),
        ("EN", [FIND, ("click[b0aaaaaaa3]", item(DEAR))]),
        ("EN", [FIND, ("click[b0aaaaaaa4]", item(OTHER))]),
        ("EENR", [FIND, ("click[b0aaaaaaa2]", item(LESS)), PREV, ("click[b0aaaaaaa2]", item(LESS))]),
        ("EERND", [FIND, OPEN, PREV, OPEN, LAVENDER]),
        ("ENNRN", [FIND, ("click[b0aaaaaaa3]", item(DEAR)), PREV, ("click[b0aaaaaaa3]", item(DEAR)), ("click[lavender]", item(DEAR))]),
        # Looking.
        ("EEENR", [FIND, OPEN, ("click[description]", sub("Soft.")), ("click[< prev]", PAGE), ("click[description]", sub("Soft."))]),
        ("EENN", [FIND, OPEN, ("click[reviews]", sub()), ("click[< prev]", PAGE)]),
        # Choosing.
        ("EEDR", [FIND, OPEN, LAVENDER, LAVENDER]),
        ("EENR", [FIND, OPEN, ("click[rose]", PAGE), ("click[rose]", PAGE)]),
        ("EEDRN", [FIND, OPEN, LAVENDER, ("click[rose]", PAGE), LAVENDER]),
        ("EENDD", [FIND, OPEN, ("click[12 fl oz]", PAGE), SIZE, LAVENDER]),
        ("ENN", [FIND, ("click[b0aaaaaaa3]", item(DEAR)), ("click[lavender]", item(DEAR))]),
        # Buying.
        ("EER", [FIND, OPEN, BUY]),
        ("EEDR", [FIND, OPEN, LAVENDER, BUY]),
        ("EEDDRR", [FIND, OPEN, LAVENDER, SIZE, ("click[rose]", PAGE), BUY]),
        ("ENR", [FIND, ("click[b0aaaaaaa3]", item(DEAR)), BUY]),
        ("ENR", [FIND, ("click[b0aaaaaaa4]", item(OTHER)), BUY]),
        # Leaving.
        ("EEDR", [FIND, OPEN, LAVENDER, PREV]),
        ("EEN", [FIND, OPEN, PREV]),
        ("EER", [FIND, ("search[cream for dry skin]", results(FRESH, GOOD)), FIND]),
        ("ER", [FIND, BACK]),
        ("EENN", [FIND, ("click[b0aaaaaaa2]", item(LESS)), BACK, FIND]),
        ("EEDDR", [FIND, OPEN, LAVENDER, SIZE, BACK]),
        ("EEDDR", [FIND, OPEN, LAVENDER, SIZE, ("search[hand cream]", results(FRESH))]),
        ("EERNND", [FIND, OPEN, BACK, FIND, OPEN, LAVENDER]),
        # What the shop does not understand.
        ("NR", [("buy it", INDEX), ("buy it", INDEX)]),
        ("EN", [FIND, ("click[b0zzzzzzz9]", FIRST)]),
        ("", []),
    ],
)  # fmt: skip
def test_roles(expected: str, turns: list[Turn]) -> None:
    assert roles(*turns) == expected


def test_choosing_after_leaving_is_paid_once() -> None:
    loop = [OPEN, LAVENDER, BACK, FIND]
    assert roles(FIND, *loop * 3, OPEN).count("D") == 1


def test_hopping_from_product_to_product_is_not_paid_again_and_again() -> None:
    soft = ("click[description]", sub("Soft."))
    other = item(LESS)
    turns = [FIND, OPEN, LAVENDER, soft, BACK, FIND, ("click[b0aaaaaaa2]", other), ("click[lavender]", other)]
    # Left by way of a sub-page, the choice is lost as well; and another product's lavender completes nothing new.
    assert roles(*turns) == "EEDERNEN"


def test_pages_that_left_the_window_are_not_new_again() -> None:
    second = ("click[next >]", results(FRESH, number=2))
    waiting = [("buy it", second[1])] * 6
    assert roles(FIND, second, *waiting, ("click[< prev]", FIRST), second) == "EE" + "N" + "R" * 5 + "NN"


def test_reasons_are_concrete() -> None:
    def last(*turns: Turn) -> str:
        return RuleJudge().judge(windows(turns))[-1].why

    assert last(FIND, OPEN, BUY) == "buys without lavender"
    assert last(FIND, ("click[b0aaaaaaa3]", item(DEAR)), BUY) == "buys what costs more than 20"
    assert last(FIND, ("click[b0aaaaaaa4]", item(OTHER)), BUY) == "buys what is no cream"
    assert last(FIND, OPEN, LAVENDER, ("click[rose]", PAGE)) == "undoes lavender, which is asked for"


@pytest.mark.parametrize(
    ("task", "noun", "limit"),
    [
        (TASK, "cream", 20.0),
        ("i'm shopping for a pair of men's cargo pants with pockets, and price lower than 60.00 dollars", "pant", 60.0),
        ("get me an easy to assemble loveseat sofa that has a wood frame", "sofa", None),
        ("i need a six pack of manual toothbrushes that are soft", "toothbrush", None),
        (
            "Find me men's jackets & coats for cold weather with color: ivory, and price lower than 60.00 dollars",
            "",
            60.0,
        ),
        ("find me a wall charger with a usb cable, and price lower than 60.00 dollars", "charger", 60.0),
        ("", "", None),
    ],
)
def test_goals(task: str, noun: str, limit: float | None) -> None:
    goal = shop.parse_goal(task)
    assert (goal.noun, goal.limit) == (noun, limit)


def test_a_category_need_not_stand_in_the_title() -> None:
    task = "Find me oil free skin care for dry skin with scent: lavender, and size: 8 fl oz, and price lower than 20.00 dollars"
    labels = RuleJudge().judge(windows([FIND, OPEN, LAVENDER, SIZE, BUY], task))
    assert "".join(label.role or "-" for label in labels) == "EEDDD"


def test_a_value_counts_where_the_instruction_means_it() -> None:
    task = "i need a conditioner with coconut oil in size 8 fl oz"
    page = item("B0AAAAAAA1 [SEP] Conditioner, Coconut Oil [SEP] $5.0", "coconut [SEP] rose")
    rules = WebShopRules()
    window = Window(task, "webshop", 0, (), page, "click[coconut]", page, ())
    assert rules.verdict(window) == ("N", "coconut is not asked for")
    assert rules.verdict(window._replace(task=f"{task} with a coconut scent")) == ("D", "chooses coconut as asked")


@pytest.mark.parametrize("observation", ["text", "text_rich", "verl-agent"])
def test_all_wordings_of_the_shop_are_read_alike(observation: str) -> None:
    env: gym.Env[Any, Any] = gym.make("triage/WebShop-v0", observation=observation)
    text, info = env.reset(seed=1)
    turns, kinds, rows = [], [shop.parse_page(text).kind], []
    for _ in range(3):
        action = env.unwrapped.expert_action()  # type: ignore[attr-defined]
        text = env.step(action)[0]
        turns.append((action, text))
        page = shop.parse_page(text)
        kinds.append(page.kind)
        rows.append((page.offers, page.options))
    assert kinds == ["index", "results", "item", "item"]
    assert len(rows[0][0]) == 10
    assert rows[0][0][0].asin == "b008gjp3xq"
    assert [name for name, _ in rows[1][1]] == ["scent", "style"]
    assert rows[1][1][1][1] == ("pair", "3 pack", "family bundle")
    assert rows[1][0][0].price == 21.49
    assert ["".join(x.role or "-" for x in RuleJudge().judge(windows(turns, info["task"])))] == ["EED"]


texts = st.one_of(
    st.text(max_size=80),
    st.sampled_from([INDEX, FIRST, PAGE, DONE, sub("x"), item(DEAR), "[button] Buy Now [button_]", "Back to Search"]),
)
actions = st.one_of(
    st.text(max_size=40), st.sampled_from([a for a, _ in (FIND, OPEN, LAVENDER, SIZE, BACK, PREV, BUY)])
)


@given(st.lists(st.tuples(actions, texts), max_size=8), st.one_of(st.just(TASK), st.text(max_size=60)))
def test_any_text_gets_a_verdict_and_a_window_alone_decides_it(turns: list[Turn], task: str) -> None:
    made = windows(turns, task)
    rules = WebShopRules()
    together = [rules.verdict(window) for window in made]
    assert together == [WebShopRules().verdict(window) for window in made]
    assert all(v is None or (v[0] in "DENR" and v[1]) for v in together)
    assert [v is None for v in together] == [not shop.parse_goal(w.task).words for w in made]


def seconds(unit: str, size: int) -> float:
    """CPU time of a verdict on windows of texts of ``size`` characters in every place."""
    text = (unit * (size // len(unit) + 1))[:size]
    page = f"{HEAD}{text} [SEP] t [SEP] Price: $1 [SEP] Buy Now"
    best = float("inf")
    for _ in range(3):
        shop.parse_page.cache_clear()
        shop.parse_goal.cache_clear()
        pairs = tuple(Pair(f"click[{k}{text}]", f"{k}{page}") for k in range(5))
        window = Window(
            f"{text} {TASK}", "webshop", 5, pairs, page, f"click[{text}]", page, pairs, (f"click[{text}]",) * 5
        )
        start = time.process_time()
        WebShopRules().verdict(window)
        WebShopRules().verdict(window._replace(action="click[buy now]", task=TASK))
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize(
    "unit", ["a ", "a [SEP] ", "[", "[button] a [button_]\n", "lavender scent ", "a-a.", "$1", "' [SEP] '"]
)
def test_time_is_linear_in_the_text(unit: str) -> None:
    # Four times the text takes 4 times as long if linear, 16 times if quadratic.
    assert seconds(unit, 80_000) < 10 * seconds(unit, 20_000) + 0.01
