"""WebShop as numbers: how a product goes with what is asked, which options fit and are chosen, and what is left to choose.

All of it can be read in the episode's own text: the instruction, the page that is shown, the clicks so far
(:mod:`triage_gym.domains.webshop` reads pages and follows clicks). What is good is left to be learnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from triage_gym.domains import webshop as shop
from triage_gym.trainers.policy.features import PATTERN_BITS, Encoded, Register
from triage_gym.trainers.policy.hashed_features import HashedMemory
from triage_gym.trainers.policy.remarks import PRIORS

(FITS, PARTLY, CHOSEN, FILLED, WITHIN, MOST, READY, OPENED) = (1 << i for i in range(3, 11))
"""Candidate features after those of every policy. Of an option: the instruction has all of its words; some; it is chosen; its
group has a value chosen. Of a product: its price, as far as it is told, is within the limit; no other here has more of the
instruction's words in its title; it was looked at before. Of buying: every group that has a fitting value has one chosen."""
_OWN_BITS: Final = 11
_MOST_SHARED: Final = 8
_KINDS: Final = ("", "index", "results", "item", "sub", "done")
_TURNS: Final = 16
_STATES: Final = [
    *(f"page {kind}" for kind in _KINDS),
    *(f"turn {n}" for n in range(_TURNS)),
    *(f"groups {n}" for n in range(5)),
    *(f"left {n}" for n in range(5)),
    *(f"opened {n}" for n in range(5)),
    *(f"results {n}" for n in range(4)),
    "limit",
    "above",
]
_STATE: Final = {name: at for at, name in enumerate(_STATES)}
_TOKENS: Final = [
    *("search", "back", "next", "prev", "sub", "buy", "product", "option", "other"),
    *(f"shares {n}" for n in range(_MOST_SHARED + 1)),
    *(f"words {n}" for n in range(1, 4)),
    *(f"place {n}" for n in range(4)),
]
_TOKEN: Final = {name: 1 + at for at, name in enumerate(_TOKENS)}
_BUTTONS: Final = {shop.BACK: "back", shop.NEXT: "next", shop.PREV: "prev", shop.BUY: "buy"} | dict.fromkeys(
    shop.SUB_PAGES, "sub"
)


class ShopMemory(HashedMemory):
    """Task, page, clicks, and how often each command was sent.

    Args:
        task: The instruction.
        observation: First observation.
    """

    __slots__ = ("trail", "turn")

    def __init__(self, task: str, observation: str) -> None:
        super().__init__(task, observation)
        self.trail = shop.Trail()
        self.turn = 0

    def observe(self, action: str, observation: str) -> None:
        """Take in the answer to the action just sent."""
        super().observe(action, observation)
        self.trail.apply(action)
        self.turn += 1


class _Read(NamedTuple):
    """What a page and an instruction tell, whatever was clicked."""

    kind: str
    groups: tuple[tuple[frozenset[str], frozenset[str]], ...]
    """Values of each group, and those that fit."""
    partly: frozenset[str]
    """Values of which the instruction has some words."""
    offers: dict[str, tuple[int, int]]
    """Of each product the candidate features, and its place."""
    shares: dict[str, int]
    """Of each product how many of the instruction's words its title has."""
    limit: bool
    above: bool
    """Whether the product that is looked at costs more than the limit."""


@lru_cache(maxsize=4096)
def _read(task: str, observation: str) -> _Read:
    page, goal = shop.parse_page(observation), shop.parse_goal(task)
    wanted = _stems(task)
    groups = tuple(
        (frozenset(values), frozenset(v for v in values if _stems(v) and _stems(v) <= wanted))
        for _, values in page.options
    )
    partly = frozenset(v for _, values in page.options for v in values if _stems(v) & wanted)
    limit = float("inf") if goal.limit is None else goal.limit
    within = [offer.price is None or offer.price <= limit for offer in page.offers]
    offers: dict[str, tuple[int, int]] = {}
    shares: dict[str, int] = {}
    if page.kind == "results":
        shares = {offer.asin: len(goal.words & _stems(offer.title)) for offer in page.offers}
        most = max(shares.values(), default=0)
        for place, offer in enumerate(page.offers):
            bits = (WITHIN if within[place] else 0) | (MOST if shares[offer.asin] == most else 0)
            offers.setdefault(offer.asin, (bits, place))
    return _Read(
        page.kind, groups, partly, offers, shares, goal.limit is not None, page.kind == "item" and not all(within)
    )


@lru_cache(maxsize=65_536)
def _action(command: str) -> shop.Action:
    return shop.parse_action(command)


@lru_cache(maxsize=65_536)
def _stems(text: str) -> frozenset[str]:
    return frozenset(shop.stems_of(text))


class ShopFeatures:
    """Features of WebShop.

    Args:
        remarks: Whether there are features of remarks.
    """

    states: Final = len(_STATES)
    tokens: Final = 1 + len(_TOKENS)
    tokens_per_command: Final = 3

    def __init__(self, *, remarks: bool = False) -> None:
        self.priors = PRIORS if remarks else ()
        self.candidate_features = _OWN_BITS + len(self.priors)

    def begin(self, task: str, observation: str) -> ShopMemory:
        """The memory of a new episode."""
        return ShopMemory(task, observation)

    def encode(self, memory: ShopMemory, admissible: Sequence[str], register: Register) -> Encoded:
        """The situation of an episode; every admissible command is a candidate."""
        read, trail = _read(memory.task, memory.observation), memory.trail
        latest: dict[str, tuple[int, str]] = {}
        """For every value its group and the value that is chosen in it, the last one clicked."""
        left = 0
        for number, (values, fitting) in enumerate(read.groups):
            chosen = next((value for value in reversed(trail.chosen) if value in values), "")
            left += bool(fitting) and not chosen
            for value in values:
                latest[value] = number, chosen
        fits = frozenset().union(*(fitting for _, fitting in read.groups))
        keys = []
        for command in admissible:
            bits = memory.bits.get(command, 0)
            name, argument = _action(command)
            if name == "click" and argument in read.offers:
                own, place = read.offers[argument]
                bits |= own | (OPENED if argument in trail.opened else 0)
                tokens = _product(min(read.shares[argument], _MOST_SHARED), min(place, 3))
            elif name == "click" and argument in latest and argument not in _BUTTONS:
                chosen = latest[argument][1]
                bits |= (FITS if argument in fits else 0) | (PARTLY if argument in read.partly else 0)
                bits |= (CHOSEN if argument == chosen else 0) | (FILLED if chosen else 0)
                tokens = _option(min(len(_stems(argument)), 3))
            else:
                kind = "search" if name == "search" else _BUTTONS.get(argument, "other")
                bits |= READY if kind == "buy" and not left else 0
                tokens = (_TOKEN[kind],)
            keys.append(register.number(tokens) << PATTERN_BITS | bits)
        if self.priors and memory.remarks:
            keys = memory.remarks.mark(keys, admissible, memory.observation, _OWN_BITS)
        words = [f"page {read.kind}", f"turn {min(memory.turn, _TURNS - 1)}", f"groups {min(len(read.groups), 4)}"]
        words += [
            f"left {min(left, 4)}",
            f"opened {min(len(trail.opened), 4)}",
            f"results {max(0, min(trail.number, 3))}",
        ]
        words += [name for name, on in (("limit", read.limit), ("above", read.above)) if on]
        return Encoded([_STATE[word] for word in words], list(admissible), keys)


def _product(shares: int, place: int) -> tuple[int, ...]:
    return _TOKEN["product"], _TOKEN[f"shares {shares}"], _TOKEN[f"place {place}"]


def _option(words: int) -> tuple[int, ...]:
    return (_TOKEN["option"], *((_TOKEN[f"words {words}"],) if words else ()))
