"""Roles of WebShop turns by rule, from the text of a window alone.

- **D**: opens the offer that fits the instruction best; chooses an option that the instruction names; comes back from a
  sub-page or a lesser product to what fits; buys a product of the right kind and price with the named options chosen.
- **E**: a search for words of the instruction and a further page, when they show products that were not shown before; the
  first look at a product that may fit, at its description and its features.
- **R**: damage (buying against kind, price or options; choosing against the instruction; leaving a product or a page of
  results that fits for something else); the same search, product or sub-page again when nothing new comes of it.
- **N**: the rest.

Damage beats D, D beats E; a first harmless no-op is N, its repetition R. Which products were opened and looked at, what was
searched for and which options are chosen follow from all earlier actions, what was shown from the window only.

What it cannot know: attributes that neither title nor a page seen in the window names; synonyms and other spellings; which
of several values was meant by an instruction that names none word for word; the price drawn from a range (a range that
begins below the limit passes); in plain wordings, groups of options with unusual names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from triage_gym.domains import webshop as shop
from triage_gym.domains.webshop import Action, Goal, Offer, Page
from triage_gym.protocols import Window
from triage_gym.records import Role

Verdict = tuple[Role, str]
FITS: Final = 0.6
"""Share of the instruction's words that an offer's title must name to be worth not passing by."""
ALIKE: Final = 0.4
"""Share of the words from which a title without the name of the thing may mean it in other words."""
HARDLY: Final = 0.2
"""Share below which a product of the right kind and price does not fit all the same; titles name some attributes only."""


class WebShopRules:
    """Judges windows one by one; each reads all of its earlier actions."""

    def verdict(self, window: Window) -> Verdict | None:
        """Role and reason, or None when the task is no instruction."""
        goal = shop.parse_goal(window.task)
        if not goal.words:
            return None
        action = shop.parse_action(window.action)
        view = _View(window, goal, shop.parse_page(window.observation), shop.parse_page(window.next_observation))
        if action.name == "search":
            return _search(view, action.argument)
        if action.name == "click" and action.argument in _clickable(view.page):
            return _click(view, action)
        return _refused(window)


@dataclass
class Trail:
    """Where the shopper is and has been, by the actions that the shop took."""

    place: str = "index"
    asin: str = ""
    opened: dict[str, None] = field(default_factory=dict)
    chosen: list[str] = field(default_factory=list)
    queries: dict[str, int] = field(default_factory=dict)
    """By its words, how often a search was made."""
    query: str = ""
    """Words of the last search."""
    looked: set[tuple[str, str]] = field(default_factory=set)
    ever: set[tuple[str, str]] = field(default_factory=set)
    """Products with the options that were ever chosen for them."""

    def apply(self, text: str) -> None:
        """Follow one action."""
        name, argument = shop.parse_action(text)
        if name == "search":
            self.query = _query_key(argument)
            self.queries[self.query] = self.queries.get(self.query, 0) + 1
            self._leave("results")
        elif argument == shop.BACK:
            self._leave("index")
        elif argument == shop.PREV and self.place == "sub":
            self.place = "item"
        elif argument == shop.PREV:
            self._leave("results")
        elif self.place == "results" and argument != shop.NEXT:
            self.place, self.asin = "item", argument
            self.opened[argument] = None
        elif self.place == "item" and argument in shop.SUB_PAGES:
            self.place = "sub"
            self.looked.add((self.asin, argument))
        elif self.place == "item":
            self.chosen.append(argument)
            self.ever.add((self.asin, argument))

    def _leave(self, place: str) -> None:
        self.place, self.asin = place, ""
        self.chosen.clear()


class _View:
    """A window as the rules see it."""

    def __init__(self, window: Window, goal: Goal, page: Page, after: Page) -> None:
        self.window, self.goal, self.page, self.after = window, goal, page, after
        self.trail = Trail()
        for action in window.earlier_actions or [pair.action for pair in window.past]:
            self.trail.apply(action)
        self._product: Product | None = None

    @property
    def product(self) -> Product:
        """The product of the page, judged."""
        if self._product is None:
            self._product = Product(self.goal, self.page, self._said())
            self._product.choose(self.page.chosen if self.page.chosen is not None else self.trail.chosen)
        return self._product

    def _said(self) -> list[str]:
        """What sub-pages of the product said, as far as the window shows."""
        said: list[str] = []
        for pair in self.window.past:
            page = shop.parse_page(pair.observation)
            if page.kind == "sub":
                said += page.texts
            elif page.kind != "item":
                said.clear()
        return said

    def shown(self) -> set[str]:
        """Products on the results pages of the window so far."""
        pages = [self.page, *(shop.parse_page(pair.observation) for pair in self.window.past)]
        return {offer.asin for page in pages if page.kind == "results" for offer in page.offers}

    def best_opened(self) -> float:
        """Worth of the best offer of the window so far that was opened; 0 for none."""
        pages = [self.page, *(shop.parse_page(pair.observation) for pair in self.window.past)]
        opened = [offer for page in pages for offer in page.offers if offer.asin in self.trail.opened]
        return max([worth_of(self.goal, offer) for offer in opened], default=0.0)

    def comes_back_to(self, asin: str) -> bool:
        """Whether the turns after this one, as far as the window shows, open the product again and go on with it."""
        following = [shop.parse_action(pair.action).argument for pair in self.window.future]
        if asin not in following:
            return False
        at = following.index(asin)
        return shop.BUY not in following[:at] and following[at + 1 : at + 2] not in ([], [shop.BACK], [shop.PREV])

    def comes_back_to_search(self) -> bool:
        """Whether the next turn is the search that led here."""
        following = [shop.parse_action(pair.action) for pair in self.window.future[:1]]
        return any(each.name == "search" and _query_key(each.argument) == self.trail.query for each in following)

    def goes_on(self) -> bool:
        """Whether the turn after this one does something with the product that is open then."""
        following = [shop.parse_action(pair.action) for pair in self.window.future[:1]]
        return any(each.name == "click" and each.argument not in (shop.BACK, shop.PREV) for each in following)

    def best(self, page: Page) -> tuple[Offer | None, float]:
        """The offer of a page that fits best, with its worth; None when none may fit."""
        found: Offer | None = None
        most = 0.0
        for offer in page.offers if page.kind == "results" else ():
            worth = worth_of(self.goal, offer)
            if worth > most:
                found, most = offer, worth
        return found, most


def worth_of(goal: Goal, offer: Offer) -> float:
    """Share of the instruction's words in a title, 0 for another kind of thing or a price above the limit."""
    return 0.0 if why_not(goal, offer) else share_of(goal, offer)


def share_of(goal: Goal, offer: Offer) -> float:
    """Share of the instruction's words in a title."""
    return len(goal.words & shop.stems_of(offer.title)) / len(goal.words)


def why_not(goal: Goal, offer: Offer) -> str:
    """Why an offer cannot be what is asked for; "" when it may be."""
    if goal.limit is not None and offer.price is not None and offer.price > goal.limit:
        return f"costs more than {goal.limit:g}"
    if goal.noun and goal.noun not in shop.stems_of(offer.title) and share_of(goal, offer) < ALIKE:
        return f"is no {goal.noun}"
    return ""


class Product:
    """An item page against the instruction: what its options should be, and what else it lacks."""

    def __init__(self, goal: Goal, page: Page, said: list[str]) -> None:
        self.offer = page.offers[0] if page.offers else Offer("", "", None)
        self.options = page.options
        self.unfit = why_not(goal, self.offer) if page.offers else ""
        self.wanted = _wanted(goal, page)
        """By place of the group, the value that the instruction names."""
        asked = {stem for value in self.wanted.values() for stem in shop.stems_of(value)}
        said_stems = shop.stems_of(" ".join([self.offer.title, *said]))
        rest = goal.words - (asked - said_stems)
        self.share = len(rest & said_stems) / len(rest) if rest else 1.0
        self.chosen: dict[int, str] = {}
        self._places = {value: i for i, (_, values) in enumerate(self.options) for value in values}

    @property
    def fits(self) -> bool:
        """Whether kind, price and enough of the words are right."""
        return not self.unfit and self.share >= HARDLY

    @property
    def ready(self) -> bool:
        """Whether it fits, and all that the instruction names is chosen."""
        return self.fits and bool(self.wanted) and not self.missing()

    def choose(self, values: frozenset[str] | list[str]) -> None:
        """Take these values as chosen, later ones in place of earlier ones of their group."""
        for value in values:
            place = self.group_of(value)
            if place is not None:
                self.chosen[place] = value

    def group_of(self, value: str) -> int | None:
        """Place of the group that a value belongs to; the last one of several, as in the shop."""
        return self._places.get(value)

    def missing(self) -> str:
        """The first named value that is not chosen; "" when all are."""
        return next((value for i, value in self.wanted.items() if self.chosen.get(i) != value), "")


def _wanted(goal: Goal, page: Page) -> dict[int, str]:
    """By place of the group, the value whose words the instruction says; the longest first, each word used once."""
    known = set(goal.phrase.split())
    found: list[tuple[str, int, str]] = []
    for i, (name, values) in enumerate(page.options):
        for value in values:
            phrase = shop.phrase_of(value)
            if known.issuperset(phrase.split()) and phrase.strip() and _says(goal, phrase, name):
                found.append((phrase, i, value))
    wanted: dict[int, str] = {}
    rest = goal.phrase
    for phrase, i, value in sorted(found, key=lambda each: (-len(each[0]), each[1])):
        if i not in wanted and phrase in rest:
            wanted[i] = value
            at = rest.rindex(phrase)
            rest = f"{rest[:at]} | {rest[at + len(phrase) :]}"
    return wanted


def _says(goal: Goal, phrase: str, group: str) -> bool:
    """Whether an instruction says the words of a value, and not only as the beginning of others ("coconut oil")."""
    at = goal.phrase.rfind(phrase)
    if at < 0 or group.startswith("colo") or phrase.count(" ") > 2:
        return at >= 0
    after = goal.phrase[at + len(phrase) :].partition(" ")[0]
    return not after or after in shop.FILLERS or after in shop.OPTION_NAMES


def _clickable(page: Page) -> set[str]:
    """What can be clicked on a page, as far as its text tells."""
    if page.kind == "results":
        return {shop.BACK, shop.NEXT, shop.PREV, *(offer.asin for offer in page.offers)}
    if page.kind == "item":
        values = [value for _, values in page.options for value in values]
        return {shop.BACK, shop.PREV, shop.BUY, *shop.SUB_PAGES, *values}
    return {shop.BACK, shop.PREV} if page.kind == "sub" else set()


def _refused(window: Window) -> Verdict:
    for pair in window.past:
        if pair.action == window.action and pair.observation == window.next_observation:
            return "R", "repeated: the answer was known"
    return "N", "not understood here"


def _search(view: _View, query: str) -> Verdict:
    used = view.trail.queries.get(_query_key(query), 0)
    new = {offer.asin for offer in view.after.offers} - view.shown()
    if view.page.kind == "item" and view.product.ready:
        return "R", "searches on, with the product that fits open and its options chosen"
    if not new or used:
        return _known_results(view, again=bool(used) and _query_key(query) == view.trail.query, used=used)
    if not view.goal.words & shop.stems_of(query):
        return "N", "searches for nothing that is asked for"
    return "E", f"{'a further' if view.trail.queries else 'the first'} search: {len(new)} new products"


def _known_results(view: _View, *, again: bool, used: int) -> Verdict:
    """Results that are known: from elsewhere a way back, where something may fit; else nothing."""
    if view.page.kind == "results" and again:
        return "R", "the same search again"
    if not used:
        return "R", "a search that shows no new product"
    if view.trail.asin and view.comes_back_to(view.trail.asin):
        return "R", "searches as before, and then comes back to this product"
    best, _ = view.best(view.after)
    return ("N", "back to known results") if best else ("R", "back to known results, none of which fits")


def _query_key(query: str) -> str:
    return " ".join(sorted(shop.words_of(query)))


def _click(view: _View, action: Action) -> Verdict:
    name = action.argument
    if name == shop.BUY:
        return _buy(view.product)
    if name == shop.BACK:
        return _leave(view, "back to the search bar")
    if view.page.kind == "results":
        return _turn_page(view) if name in (shop.NEXT, shop.PREV) else _open(view, name)
    if name == shop.PREV:
        return ("N", "back to the product") if view.page.kind == "sub" else _leave(view, "back to the results")
    if name in shop.SUB_PAGES:
        return _look(view, name)
    return _choose(view, name)


def _leave(view: _View, where: str) -> Verdict:
    """Turning away from a product, or from results."""
    if view.page.kind == "results":
        best, worth = view.best(view.page)
        if best and worth >= FITS and best.asin not in view.trail.opened:
            return "R", f"{where}, passing by {best.asin}, which fits"
        if view.comes_back_to_search():
            return "R", f"{where}, and then the same search"
        return "N", where
    if view.page.kind == "item" and view.product.ready:
        return "R", f"{where}: leaves the product that fits with its options chosen"
    if view.trail.asin and view.comes_back_to(view.trail.asin):
        return "R", f"{where}: leaves the product that it comes back to"
    return "N", where


def _turn_page(view: _View) -> Verdict:
    new = {offer.asin for offer in view.after.offers} - view.shown()
    if new:
        return "E", f"a further page: {len(new)} new products"
    if view.window.next_observation == view.window.observation or not view.after.offers:
        return "R", "a page without products"
    best, _ = view.best(view.after)
    return ("N", "back to known results") if best else ("R", "back to known results, none of which fits")


def _open(view: _View, asin: str) -> Verdict:
    offer = next((offer for offer in view.page.offers if offer.asin == asin), Offer(asin, "", None))
    unfit, worth, (_, most) = why_not(view.goal, offer), worth_of(view.goal, offer), view.best(view.page)
    if asin in view.trail.opened:
        if not unfit and view.goes_on():
            return "N", f"back to {asin} to go on with it"
        return "R", f"opens {asin} again"
    if unfit:
        return "N", f"opens {asin}, which {unfit}"
    if worth >= most and worth > view.best_opened():
        return "D", f"opens {asin}, which fits best"
    return "E", f"a first look at {asin}"


def _look(view: _View, name: str) -> Verdict:
    if (view.trail.asin, name) in view.trail.looked:
        return "R", f"{name} again"
    if not any(view.after.texts):
        return "N", f"{name}: nothing there"
    return "E", f"{name} for the first time"


def _choose(view: _View, value: str) -> Verdict:
    product = view.product
    place = product.group_of(value)
    if place is None:
        return "N", f"{value} is no option here"
    chosen, wanted = product.chosen.get(place), product.wanted.get(place)
    if chosen == value:
        return "R", f"{value} is chosen already"
    if wanted is None:
        return "N", f"{value} is not asked for"
    if value == wanted:
        if (view.trail.asin, value) in view.trail.ever:
            return "N", f"chooses {value} once more"
        if product.fits:
            return "D", f"chooses {value} as asked"
        return "N", f"chooses {value} of a product that {product.unfit or 'hardly fits'}"
    if chosen == wanted:
        return "R", f"undoes {wanted}, which is asked for"
    if value in view.trail.chosen:
        return "R", f"chooses {value} again where {wanted} is asked for"
    return "N", f"chooses {value} where {wanted} is asked for"


def _buy(product: Product) -> Verdict:
    if product.unfit:
        return "R", f"buys what {product.unfit}"
    missing = product.missing()
    if missing:
        return "R", f"buys without {missing}"
    if not product.fits:
        return "R", "buys what hardly fits the instruction"
    return "D", "buys what is asked for"
