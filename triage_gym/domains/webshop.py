"""What WebShop's texts say: actions, pages in its three wordings, and the shopper's instruction.

Promised: linear time in the text, and no exception on any text. A page is read off its words alone, so that ``text``,
``text_rich`` and verl-agent's wording give the same :class:`Page`; only ``text_rich`` shows which options are chosen. Left
to you: option names outside of :data:`OPTION_NAMES`, which the plain wordings do not tell from values, and instructions in
other words than WebShop's ("…, and price lower than 30.00 dollars").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, NamedTuple

Kind = Literal["index", "results", "item", "sub", "done", ""]
SEARCH: Final = "search"
BUY: Final = "buy now"
BACK: Final = "back to search"
PREV: Final = "< prev"
NEXT: Final = "next >"
SUB_PAGES: Final = ("description", "features", "reviews", "attributes")
OPTION_NAMES: Final = frozenset(
    (
        *("color", "colour", "size", "style", "scent", "flavor", "flavour", "pattern", "material", "shape", "length"),
        *(
            "width",
            "height",
            "capacity",
            "model",
            "edition",
            "configuration",
            "quantity",
            "count",
            "wattage",
            "voltage",
        ),
        *("item shape", "special size", "item package quantity", "number of items", "pack", "package quantity"),
        *("digital storage capacity", "hand orientation", "team", "number of pieces", "compatible models", "weight"),
    )
)
"""Names of option groups in WebShop's data; those that end as :data:`_NAME_ENDINGS` are names too."""
_NAME_ENDINGS: Final = (" name", " type", " count", " capacity")
MAX_INSTRUCTION: Final = 4_096
"""Characters of an instruction that are read."""
MAX_FIELDS: Final = 2_048
"""Fields of a page that are read."""
_WORD: Final = re.compile(r"[a-z0-9]+(?:[.'/-][a-z0-9]+)*")
_PAGE: Final = re.compile(r"Page (\d{1,6}) \(Total results: \d{1,6}\)")
_NUMBER: Final = re.compile(r"\d{1,9}(?:\.\d{1,4})?")
_LIMIT: Final = "price lower than "
_SYNTHETIC: Final = re.compile(r"^find me .{1,2048} with [a-z][a-z ]{1,30}: ")
"""How synthetic instructions name options. They name a category of the shop ("jackets & coats"), which no title need say."""
FILLERS: Final = frozenset(
    _WORD.findall(
        "a am an and are as at be being both buy by can comes could find for from get give has have having help i i'd i'm "
        "i've in interested is it its like locate look looking made make me my need needs of on one or pick please prefer show "
        "shopping should so some something that the them these they this those to too us want was way we which will with would you "
        "your color colored colour size sized style scent flavor flavored purchase searching search seeking go also new "
        "kind type any all choose do if im id where"
    )
)
"""Words of an instruction that say nothing about the product."""
_HEAD_ENDS: Final = frozenset(
    _WORD.findall(
        "for with that which having has have in made sized colored comes coming by from is are under featuring on it its "
        "suitable without decorated go matching match"
    )
)
"""Words before which the name of the wanted thing ends."""


class Action(NamedTuple):
    """``search[…]`` or ``click[…]``, the argument in lower case; name "" is neither."""

    name: Literal["search", "click", ""]
    argument: str


class Offer(NamedTuple):
    """A product as a page names it."""

    asin: str
    """Lower case; "" where the page does not say it."""
    title: str
    price: float | None
    """The lower end of what is asked; None where no number stands."""


class Page(NamedTuple):
    """A page of the shop."""

    kind: Kind
    number: int = 0
    """Of a results page."""
    offers: tuple[Offer, ...] = ()
    """Products of a results page; the one of an item page."""
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Groups of an item page with their values, lower case."""
    chosen: frozenset[str] | None = None
    """Values shown as chosen; None where the wording does not show that."""
    texts: tuple[str, ...] = ()
    """What a sub-page says, without its buttons."""


class Goal(NamedTuple):
    """What an instruction asks for."""

    phrase: str
    """Its words, one blank between them and at both ends."""
    words: frozenset[str]
    """Stems of those that say something about the product."""
    noun: str
    """Stem of the word that names the thing; "" where none was found."""
    limit: float | None
    """Dollars."""


def parse_action(action: str) -> Action:
    """The action in a text; as in the shop, the name ends at the last ``[`` and what follows the last ``]`` is ignored."""
    line = action.strip()
    end = line.rfind("]")
    start = line.rfind("[", 0, end) if end > 0 else -1
    argument = line[start + 1 : end].strip().lower() if start > 0 else ""
    name = line[:start].strip() if argument and "\n" not in argument else ""
    if name == "search":
        return Action("search", argument)
    return Action("click", argument) if name == "click" else Action("", "")


def stem(word: str) -> str:
    """A word without possessive and plural."""
    word = word.removesuffix("'s")
    if len(word) > 4 and word.endswith(("shes", "ches", "sses", "xes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word


def words_of(text: str) -> list[str]:
    """The words of a text, lower case; hyphens, points and slashes within a word belong to it."""
    return _WORD.findall(text.lower().replace("’", "'"))


def stems_of(text: str) -> set[str]:
    """Stems of a text; of a word with hyphens also those of its parts."""
    found = set()
    for word in words_of(text):
        found.add(stem(word))
        if "-" in word:
            found.update([stem(part) for part in word.split("-")])
    return found


def phrase_of(text: str) -> str:
    """The words of a text with one blank between them and at both ends, to be looked for in another."""
    return f" {' '.join(words_of(text))} "


@lru_cache(64)
def parse_goal(task: str) -> Goal:
    """What an instruction asks for; the noun is the last word before the first "for", "with", "in", …

    Synthetic instructions name a category and no thing, so that they have none.
    """
    text = task[:MAX_INSTRUCTION].lower()
    wish, found, price = text.rpartition(_LIMIT)
    number = _NUMBER.match(price) if found else None
    wish = (wish if number else text).removesuffix(" and ").removesuffix(",")
    words = words_of(wish)
    said = frozenset([stem(word) for word in words if (word not in FILLERS and len(word) > 1) or word.isdigit()])
    first = words_of(wish.partition(". ")[0].partition(" - ")[0])
    noun = "" if _SYNTHETIC.search(wish) else _noun(first)
    return Goal(f" {' '.join(words)} ", said, noun, float(number[0]) if number else None)


def _noun(words: Sequence[str]) -> str:
    at = next((i for i, word in enumerate(words) if word not in FILLERS), len(words))
    end = next((i for i in range(at, len(words)) if words[i] in _HEAD_ENDS), len(words))
    return stem(next((word for word in reversed(words[at:end]) if word not in FILLERS), ""))


@lru_cache(128)
def parse_page(text: str) -> Page:
    """The page that a text shows; of kind "" when it is none of WebShop's."""
    fields, buttons, clicked = _fields(text)
    if "Purchased" in fields and "asin" in fields:
        return Page("done")
    start = fields.index("Back to Search") + 1 if "Back to Search" in fields else 0
    if not start:
        return Page("index") if fields and fields[-1] == "Search" else Page("")
    number = _PAGE.fullmatch(fields[start]) if start < len(fields) else None
    if number:
        return Page("results", int(number[1]), _offers(fields[start + 1 :]))
    if start < len(fields) and fields[start] == "< Prev":
        start += 1
    if fields[-1] == "Buy Now":
        return _item(fields[start:], [at - start for at in buttons], clicked)
    return Page("sub", texts=tuple(fields[start:]))


def _fields(text: str) -> tuple[list[str], list[int], frozenset[str] | None]:
    """Fields of a page, places of its buttons (none where the wording hides them), and the chosen values."""
    if "[button]" not in text and "[clicked button]" not in text:
        fields = text.split("[SEP]", MAX_FIELDS)[:MAX_FIELDS]
        return [_unquoted(field.strip()) for field in fields], [], None
    fields, buttons, clicked = [], [], []
    for line in text.split("\n", 2 * MAX_FIELDS)[: 2 * MAX_FIELDS]:
        field = line.strip()
        for mark in ("button", "clicked button"):
            if field.startswith(f"[{mark}] ") and field.endswith(f" [{mark}_]"):
                field = field[len(mark) + 3 : -len(mark) - 4].strip()
                buttons.append(len(fields))
                if mark != "button":
                    clicked.append(field.lower())
        if field:
            fields.append(field)
    return fields, buttons, frozenset(clicked)


def _unquoted(field: str) -> str:
    return field[1:-1] if len(field) > 1 and field[0] == field[-1] == "'" else field


def _offers(fields: Sequence[str]) -> tuple[Offer, ...]:
    """The products of a results page, three fields each after the buttons."""
    at = 0
    while at < len(fields) and fields[at].lower() in (PREV, NEXT):
        at += 1
    return tuple(
        [
            Offer(fields[i].lower(), fields[i + 1], price_of(fields[i + 2]))
            for i in range(at, len(fields) - 2, 3)
            if " " not in fields[i]
        ]
    )


def _item(fields: Sequence[str], buttons: Iterable[int], clicked: frozenset[str] | None) -> Page:
    end = max((i for i, field in enumerate(fields) if field.startswith("Price: ")), default=0)
    if end < 1:
        return Page("item", chosen=clicked)
    offer = Offer("", fields[end - 1], price_of(fields[end]))
    marked = frozenset(buttons)
    groups: list[tuple[str, list[str]]] = []
    for i, text in enumerate(fields[: end - 1]):
        name = text.lower()
        if (i not in marked) if marked else _is_option_name(name):
            groups.append((name, []))
        elif groups:
            groups[-1][1].append(name)
        else:
            groups.append(("", [name]))
    return Page("item", 0, (offer,), tuple([(name, tuple(values)) for name, values in groups]), clicked)


def _is_option_name(name: str) -> bool:
    return name in OPTION_NAMES or name.endswith(_NAME_ENDINGS)


def price_of(text: str) -> float | None:
    """The lower end of a price such as ``$5.0 to $9.5``."""
    number = _NUMBER.search(text.replace(",", "")[:64])
    return float(number[0]) if number else None


def query_key(query: str) -> str:
    """The words of a query in alphabetical order: equal for searches that find the same."""
    return " ".join(sorted(words_of(query)))


@dataclass
class Trail:
    """Where the shopper is and has been, by the actions that the shop took; others must be left out."""

    place: Kind = "index"
    asin: str = ""
    """Of the product that is looked at; "" elsewhere."""
    opened: set[str] = field(default_factory=set)
    chosen: list[str] = field(default_factory=list)
    """Options of this product in the order of the clicks."""
    queries: set[str] = field(default_factory=set)
    """Searches that were made, by :func:`query_key`."""
    query: str = ""
    """The last one."""
    number: int = 0
    """Of its results page that was shown last."""
    pages: set[tuple[str, int]] = field(default_factory=set)
    """Searches with the results pages that were shown."""
    looked: set[tuple[str, str]] = field(default_factory=set)
    """Products with the sub-pages that were opened."""
    ever: set[str] = field(default_factory=set)
    """Options that were ever chosen, for this product or another."""

    def apply(self, text: str) -> None:
        """Follow one action."""
        name, argument = parse_action(text)
        if name == "search":
            self.query, self.number = query_key(argument), 0
            self.queries.add(self.query)
            self._turn(1)
        elif argument == BACK:
            self._leave("index")
        elif argument == PREV and self.place == "sub":
            self.place = "item"
        elif argument == PREV:
            self._turn(-1 if self.place == "results" else 0)
        elif argument == NEXT and self.place == "results":
            self._turn(1)
        elif self.place == "results":
            self.place, self.asin = "item", argument
            self.opened.add(argument)
        elif self.place == "item" and argument in SUB_PAGES:
            self.place = "sub"
            self.looked.add((self.asin, argument))
        elif self.place == "item":
            self.chosen.append(argument)
            self.ever.add(argument)

    def _turn(self, pages: int) -> None:
        self._leave("results")
        self.number += pages
        self.pages.add((self.query, self.number))

    def _leave(self, place: Kind) -> None:
        self.place, self.asin = place, ""
        self.chosen.clear()
