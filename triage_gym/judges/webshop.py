"""Roles of WebShop turns by rule, from the text of a window alone.

- **D**: chooses an option that the instruction names; buys a product of the right kind and price with all named options chosen.
- **E**: a search for words of the instruction, or a further page, that shows products not shown before; the first look at a
  product that may fit, at its description and its features.
- **R**: damage (buying against kind, price or options; undoing a choice that is asked for; leaving a product that fits
  when options were chosen as asked, or one that the next turns come back to; turning away from results with an unopened offer that fits); the same
  search, product, sub-page, wrong option or refused action again; a search that shows known products only.
- **N**: the rest, such as an option that nobody asked for and a first wrong one, which the shop scores like none at all, and
  the ways back.

Damage beats D, D beats E; a first harmless no-op is N, its repetition R. Which products were opened and looked at, what was
searched for and which options are chosen follow from all earlier actions (so the shop need not show what is chosen), what
was shown and what comes next from the window only. Each named option is D once, whatever the product, each search, page
and product E once, so that leaving, to come back or to hop on to the next one, does not pay.

What it cannot know: attributes that neither title nor a sub-page in the window names, so that nearly right products look
right; synonyms and other spellings; which value was meant by an instruction that names none word for word; the price drawn
from a range (a range that begins below the limit passes); in plain wordings, groups of options with unusual names; where
earlier actions outside of the window led, if the shop refused some of them unsaid.
"""

from __future__ import annotations

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


class _View:
    """A window as the rules see it."""

    def __init__(self, window: Window, goal: Goal, page: Page, after: Page) -> None:
        self.window, self.goal, self.page, self.after = window, goal, page, after
        self.trail = shop.Trail()
        for action in window.earlier_actions or [pair.action for pair in window.past]:
            self.trail.apply(action)
        self._product: Product | None = None

    @property
    def product(self) -> Product:
        """The product of the page, or the one that a sub-page belongs to, judged."""
        if self._product is None:
            page = self._item()
            self._product = Product(self.goal, page, self._said())
            self._product.choose(self.trail.chosen if page.chosen is None else sorted(page.chosen))
        return self._product

    @property
    def at_product(self) -> bool:
        """Whether a product is open, its page or one of its sub-pages."""
        return self._item().kind == "item"

    def _item(self) -> Page:
        """The page itself; for a sub-page that of its product, as far as the window shows it."""
        if self.page.kind != "sub":
            return self.page
        earlier = (shop.parse_page(pair.observation) for pair in reversed(self.window.past))
        return next((page for page in earlier if page.kind != "sub"), self.page)

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

    def new(self) -> set[str]:
        """Products of the results that came which the window has not shown before."""
        pages = [self.page, *(shop.parse_page(pair.observation) for pair in self.window.past)]
        shown = {offer.asin for page in pages if page.kind == "results" for offer in page.offers}
        return {offer.asin for offer in self.after.offers if self.after.kind == "results"} - shown

    def comes_back(self) -> bool:
        """Whether the turns after this one, as far as the window shows, open the product again that is open, and go on with it.

        A product that cannot be the right one is rightly left; that it is opened again is the mistake then.
        """
        asin = self.trail.asin
        if not asin or (self.at_product and self.product.unfit):
            return False
        following = [shop.parse_action(pair.action).argument for pair in self.window.future]
        if asin not in following:
            return False
        at = following.index(asin)
        return shop.BUY not in following[:at] and following[at + 1 : at + 2] not in ([], [shop.BACK], [shop.PREV])

    def comes_back_to_search(self) -> bool:
        """Whether the next turn is the search that led here."""
        following = [shop.parse_action(pair.action) for pair in self.window.future[:1]]
        return any(each.name == "search" and shop.query_key(each.argument) == self.trail.query for each in following)

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

    @property
    def begun(self) -> str:
        """A value that is chosen as asked, of a product that fits; "" for none."""
        return next((v for i, v in self.wanted.items() if self.fits and self.chosen.get(i) == v), "")

    def choose(self, values: list[str]) -> None:
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
    key = shop.query_key(query)
    new = view.new()
    if view.at_product and view.product.ready:
        return "R", "searches on, with the product that fits open and its options chosen"
    if not view.after.offers:
        return _found_nothing(view, key)
    if not new or key in view.trail.queries:
        return _known_results(view, key)
    if not view.goal.words & shop.stems_of(query):
        return "N", "searches for nothing that is asked for"
    return "E", f"{'a further' if view.trail.queries else 'the first'} search: {len(new)} new products"


def _found_nothing(view: _View, key: str) -> Verdict:
    if key in view.trail.queries:
        return "R", "the same search again, which finds nothing"
    best, _ = view.best(view.page)
    if best or (view.page.kind == "item" and not view.product.unfit):
        return "R", f"leaves {best.asin if best else 'a product'}, which may fit, for a search that finds nothing"
    return "N", "a search that finds nothing"


def _known_results(view: _View, key: str) -> Verdict:
    """Results that are known."""
    if view.page.kind == "results" and key == view.trail.query:
        return "R", "the same search again"
    if key not in view.trail.queries:
        return "R", "a search that shows no new product"
    if view.comes_back():
        return "R", "searches as before, and then comes back to this product"
    best, _ = view.best(view.after)
    if best and view.page.kind == "results" and best.asin in [offer.asin for offer in view.page.offers]:
        return "R", f"back to known results for {best.asin}, which is on the page already"
    return _back_to_results(view)


def _back_to_results(view: _View) -> Verdict:
    """N for the way back to results from elsewhere where something may fit, else R."""
    best, _ = view.best(view.after)
    return ("N", "back to known results") if best else ("R", "back to known results, none of which fits")


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
    if view.at_product and view.product.ready:
        return "R", f"{where}: leaves the product that fits with its options chosen"
    if view.at_product and view.product.begun:
        return "R", f"{where}: loses {view.product.begun}, which was chosen as asked"
    if view.comes_back():
        return "R", f"{where}: leaves the product that it comes back to"
    return "N", where


def _turn_page(view: _View) -> Verdict:
    new = view.new()
    if new and (view.trail.query, view.after.number) not in view.trail.pages:
        return "E", f"a further page: {len(new)} new products"
    if not view.after.offers:
        known = not view.page.offers or any(p.observation == view.window.next_observation for p in view.window.past)
        return ("R", "a page without products again") if known else ("N", "a page without products")
    return _back_to_results(view)


def _open(view: _View, asin: str) -> Verdict:
    offer = next((offer for offer in view.page.offers if offer.asin == asin), Offer(asin, "", None))
    unfit = why_not(view.goal, offer)
    if asin in view.trail.opened:
        if not unfit and view.goes_on():
            return "N", f"back to {asin} to go on with it"
        return "R", f"opens {asin} again"
    return ("N", f"opens {asin}, which {unfit}") if unfit else ("E", f"a first look at {asin}")


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
        if value in view.trail.ever:
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
