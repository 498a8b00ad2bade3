"""A shopper that knows the goal's product: an oracle, for distances, regret and tests. :mod:`.shopper` knows the pages alone.

Promised: from any state the next action of a way to the goal's own product with the options that earn most there. It
searches for the title (or for more of the product's text, where a title alone does not find it), pages to the product,
chooses the options and buys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from itertools import product as product_of
from typing import Final

from triage_gym.envs.webshop import pages
from triage_gym.envs.webshop.records import Goal, Product
from triage_gym.envs.webshop.reward import matched_options
from triage_gym.envs.webshop.session import Session, keywords_of, parse

_TRIED: Final = 4096
"""Combinations of options that are tried at most."""
_LONGEST: Final = 1000
"""Actions after which a way counts as none: more pages of results than a shop shows, more options than a product has."""


def expert_action(session: Session) -> str | None:
    """The next action towards the goal's product; None after the purchase, or if no search finds the product."""
    if session.page == "done":
        return None
    goal = session.goal
    if session.asin == goal.asin:
        if session.page == "item_sub_page":
            return f"click[{pages.PREV_PAGE.lower()}]"
        return _on_item_page(session, session.product)
    if session.page == "search_results":
        found = session.shelf.search(session.keywords)
        if goal.asin in found:
            return _towards(session, found.index(goal.asin) // pages.PRODUCT_WINDOW + 1)
    query = _query(session)
    return None if query is None else f"search[{query}]"


def plan(session: Session) -> list[str] | None:
    """Actions of the expert from here to a reward of 1.0; none after it, None when its way does not lead there.

    They are played by another shopper: ``session`` stays where it is.
    """
    shopper = Session(session.shelf, session.goal, session.rules, session.tagger)
    shopper.set_state(session.get_state())
    actions: list[str] = []
    while len(actions) < _LONGEST:
        action = expert_action(shopper)
        if action is None:
            return actions if shopper.outcome()[0] else None
        actions.append(action)
        shopper.act(action)
    return None


def distance(session: Session) -> int | None:
    """How many actions :func:`plan` has; None without one."""
    actions = plan(session)
    return None if actions is None else len(actions)


def _towards(session: Session, number: int) -> str:
    if number == session.number:
        return f"click[{session.goal.asin.lower()}]"
    return f"click[{(pages.NEXT_PAGE if number > session.number else pages.PREV_PAGE).lower()}]"


def _query(session: Session) -> str | None:
    product = session.shelf.find(session.goal.asin)
    if product is None:
        return None
    return next((query for query in _queries(product) if session.goal.asin in session.shelf.search(query)), None)


def _queries(product: Product) -> Iterator[str]:
    title = keywords_of(product.title)
    options = " ".join([f"{name} {' '.join(values)}" for name, values in product.options.items()])
    for more in ("", product.description, options, f"{product.description} {' '.join(product.bullets[:1])} {options}"):
        query = keywords_of(f"{title} {more}")
        if query:
            yield query


def _on_item_page(session: Session, product: Product) -> str:
    wanted = best_options(product, session.goal, session.shelf.targets(product.asin, session.rules.show_attributes))
    for group, value in wanted:
        if session.options.get(group) != value:
            return f"click[{value}]"
    return f"click[{pages.BUY_NOW.lower()}]"


def best_options(product: Product, goal: Goal, targets: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The groups and values to choose so that most of the goal's options are matched, and no more than needed.

    Args:
        product: What is to be bought.
        goal: What was asked for.
        targets: What can be clicked on the product's page, an option with its group.
    """
    clickable = tuple([(group, value) for value, group in targets.items() if group and can_click(value)])
    return _best(goal.options, clickable)


def can_click(value: str) -> bool:
    """Whether a click on an option of this name chooses it: some names cannot be said, and those of buttons are buttons."""
    buttons = (pages.BUY_NOW, pages.BACK_TO_SEARCH, pages.PREV_PAGE, *pages.SUB_PAGES, pages.SEARCH)
    return value not in [button.lower() for button in buttons] and parse(f"click[{value}]") == ("click", value)


@lru_cache(1024)
def _best(
    wanted: tuple[str, ...] | tuple[tuple[str, str], ...], clickable: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    useful: dict[str, list[tuple[str, str] | None]] = {}
    for choice in clickable:
        if matched_options([choice[1]], wanted):
            useful.setdefault(choice[0], [None]).append(choice)
    named = {option if isinstance(option, str) else option[1] for option in wanted}
    best: tuple[tuple[str, str], ...] = ()
    worth = (0, 0, 0)
    for choices in islice(product_of(*useful.values()), _TRIED):
        chosen = tuple([choice for choice in choices if choice is not None])
        values = [value for _, value in chosen]
        # Many values may match ("xx-large" does "3x-large"): those that were named before others, and few before many.
        found = (matched_options(values, wanted), len(named.intersection(values)), -len(chosen))
        if found > worth:
            best, worth = chosen, found
    return best
