"""A shopper who knows what is written on the pages and nothing else: not the product that was meant, nor how it is scored.

Searches for the instruction's words, looks at the product of the results whose title has most of them within the price,
goes back when an option that the instruction names is not to be had there, chooses the options that the instruction has
all words of, and buys. What it remembers is what the session does: the products that were looked at since the last search
from the first page, and the options clicked.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from triage_gym.envs.webshop import pages
from triage_gym.envs.webshop.expert import can_click
from triage_gym.envs.webshop.records import Product
from triage_gym.envs.webshop.session import Session

MOST_LOOKED_AT: Final = 3
"""Products looked at before it buys one that lacks something."""
MOST_PAGES: Final = 5
_WORD: Final = re.compile(r"[a-z0-9]+(?:[-.'][a-z0-9]+)*")
_LIMIT: Final = re.compile(r"price lower than ([\d.]*\d)")
_AMOUNT: Final = re.compile(r"\d+(?:\.\d+)?")
_SMALL: Final = frozenset(
    [
        "a",
        "am",
        "an",
        "and",
        "be",
        "buy",
        "by",
        "find",
        "for",
        "i",
        "in",
        "is",
        "it",
        "like",
        "looking",
        "me",
        "my",
        "need",
        "of",
        "on",
        "please",
        "should",
        "some",
        "that",
        "the",
        "to",
        "want",
        "with",
        "would",
    ]
)
_PREV: Final = f"click[{pages.PREV_PAGE.lower()}]"


def next_action(session: Session) -> str | None:
    """What to do next; None after the purchase."""
    if session.page == "done":
        return None
    if session.page == "index":
        return session.commands()[0]
    if session.page == "search_results":
        return _in_results(session)
    return _PREV if session.page == "item_sub_page" else _on_product(session)


def _in_results(session: Session) -> str:
    wanted, limit = _wanted(session.task), _limit(session.task)
    best: tuple[tuple[bool, int], str] | None = None
    for product in session.results():
        if product.asin in session.visited:
            continue
        worth = _dearest(product.price_tag) <= limit, len(wanted & _words(product.title))
        if best is None or worth > best[0]:  # of equal ones the first, which the search engine likes best
            best = worth, product.asin
    if best is not None:
        return f"click[{best[1].lower()}]"
    return f"click[{(pages.NEXT_PAGE if session.number < MOST_PAGES else pages.BACK_TO_SEARCH).lower()}]"


def _on_product(session: Session) -> str:
    fitting = _fitting(session)
    lacks = _lacks(session.task.lower(), session.product, fitting)
    if lacks and not session.options and len(session.visited) < MOST_LOOKED_AT:
        return _PREV
    for group, value in fitting.items():
        if group not in session.options:
            return f"click[{value}]"
    return f"click[{pages.BUY_NOW.lower()}]"


def _fitting(session: Session) -> dict[str, str]:
    """For each group the value that has most words, all of which the instruction has."""
    wanted = _wanted(session.task)
    found: dict[str, str] = {}
    for value, group in session.targets().items():
        words = _words(value)
        if group and words and words <= wanted and can_click(value):
            before = found.get(group)
            if before is None or len(words) > len(_words(before)):
                found[group] = value
    return found


def _lacks(task: str, product: Product, fitting: dict[str, str]) -> bool:
    """Whether the instruction names a group of options, such as a size, of which there is none here that fits."""
    named = [group for group in product.options if group in task]
    if not product.options:
        return " color " in task or " size " in task
    return any(group not in fitting for group in named)


def _wanted(task: str) -> frozenset[str]:
    """The words of the instruction without its limit of the price."""
    return _words(_LIMIT.sub("", task))


def _limit(task: str) -> float:
    found = _LIMIT.search(task)
    return float(found[1]) if found else float("inf")


def _dearest(price_tag: str) -> float:
    """The upper end of a price as it is shown: which one is paid is not told before."""
    return max(map(float, _AMOUNT.findall(price_tag)), default=0.0)


@lru_cache(maxsize=8192)
def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _SMALL
