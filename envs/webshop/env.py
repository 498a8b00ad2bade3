"""``triage/WebShop-v0``: WebShop's text environment (Yao et al. 2022), without server, browser, Java or spaCy.

What it promises: the pages, actions and rewards of WebShop's text modes. A task id names an instruction exactly, in
every process and at any time; the reward comes with "Buy Now" and is 0.0 before it; success is a reward of exactly 1.0.
An action that WebShop does not understand changes nothing and is flagged in ``info["invalid_action"]``. The whole state
goes out and in as JSON-able data.

What it leaves to you: a policy, and the choice of the data. The embedded catalogue is made up; real products are opened
after ``triage-gym envs prepare webshop``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from triage_gym.cards import EnvCard
from triage_gym.envs.task_env import TaskEnv
from triage_gym.envs.webshop import expert, shopper, shops
from triage_gym.envs.webshop.nouns import Choice, open_tagger
from triage_gym.envs.webshop.records import Shop
from triage_gym.envs.webshop.session import OBSERVATIONS, Observation, Rules, Session
from triage_gym.envs.webshop.shelf import Shelf, shared_shelf
from triage_gym.errors import InputError

MAX_TURNS: Final = 15
"""Turns of an episode in verl-agent; WebShop itself has no limit."""


class WebShopEnv(TaskEnv[Session]):
    """Shopping on a simulated web site: search, look, choose options, buy.

    Args:
        data: ``"embedded"``, ``"prepared"`` or a folder of prepared data (see :func:`open_shop`); or a shop.
        goals: ``"human"`` or ``"synthetic"`` instructions.
        observation: ``"text"`` or ``"text_rich"``, as in WebShop, or ``"verl-agent"``, ``text`` in its wording.
        split: ``"train"``, ``"val"`` or ``"test"``.
        max_turns: Turns after which an episode is truncated; None for no limit.
        show_attributes: Whether product pages have a button for their attributes, which give much of the answer away.
        magic_keywords: Whether ``<r>``, ``<a>``, ``<c>`` and ``<q>`` at the head of a search list products as in WebShop.
        nouns: Who finds the nouns for the reward: ``"spacy"``, ``"heuristic"``, or ``"auto"``, spaCy where it is
            installed. Infos say which one it is.
        render_mode: ``"ansi"`` or None.

    Raises:
        InputError: For an argument of the wrong form, or data that is not there.
        MissingDependency: If spaCy is asked for and not installed.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "render_modes": ["ansi"],
        "render_fps": 1,
        "domain": "webshop",
        # The score itself goes with the opening "Your score (min 0.0, max 1.0)", which every window is cut off at: as a
        # literal here it would be taken out alone and leave the number.
        "outcome_text": ("Thank you for shopping with us!",),
    }

    expert_knows: ClassVar[str] = "what it was shown"

    def __init__(
        self,
        data: str | os.PathLike[str] | Shop = shops.EMBEDDED,
        goals: str = "human",
        observation: Observation = "text",
        *,
        split: str = "train",
        max_turns: int | None = MAX_TURNS,
        show_attributes: bool = False,
        magic_keywords: bool = False,
        nouns: Choice = "auto",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split=split, max_turns=max_turns, render_mode=render_mode)
        if observation not in OBSERVATIONS:
            raise InputError(f"Expected observation to be one of {OBSERVATIONS}, got {observation!r}")
        for name, value in (("show_attributes", show_attributes), ("magic_keywords", magic_keywords)):
            if type(value) is not bool:
                raise InputError(f"Expected {name} to be True or False, got {value!r}")
        self.tagger = open_tagger(nouns)
        self.rules = Rules(observation, show_attributes)
        if isinstance(data, str | os.PathLike):
            self.shelf: Shelf = shared_shelf(shops.open_shop(data, goals=goals), magic_keywords)
        else:
            self.shelf = Shelf(data, magic_keywords)

    @property
    def shop(self) -> Shop:
        """The catalogue with its goals."""
        return self.shelf.shop

    @classmethod
    def card(cls) -> EnvCard:
        """See :class:`~triage_gym.cards.EnvCard`."""
        return EnvCard(
            source="WebShop (Yao et al. 2022)",
            size="embedded: 948 / 202 / 185 train / val / test goals, 12,841 / 2,705 / 2,617 synthetic ones",
            restorable="yes",
            data=shops.status(),
        )

    def task_ids(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Ids of the goals of this split from ``start`` to before ``stop`` (all when None); each is good for ``reset``.

        Raises:
            InputError: If ``start`` or ``stop`` is negative or no integer.
        """
        self._check_range(start, stop)
        return list(self.shop.goal_ids(self.split)[start:stop])

    def _draw(self) -> str:
        return self.shop.draw(self.split, float(self.np_random.random()))

    def _new(self, task_id: str) -> Session:
        return Session(self.shelf, self.shop.goal(task_id), self.rules, self.tagger)

    def _restored(self, task_id: str, state: Mapping[str, Any]) -> Session:
        session = self._new(task_id)
        session.set_state(state)
        return session

    def _reset_info(self, game: Session) -> dict[str, Any]:
        return {**game.about(), "noun_tagger": self.tagger.name}

    def expert_action(self) -> str | None:
        """What a shopper does who knows what the pages show and nothing of the goal's product; None after the purchase.

        Raises:
            ResetNeeded: Before the first reset.
        """
        return shopper.next_action(self.game)

    def expert_plan(self) -> list[str] | None:
        """Actions to a purchase worth everything, of an oracle who knows the goal's product; None when it is out of reach.

        Raises:
            ResetNeeded: Before the first reset.
        """
        return expert.plan(self.game)

    def expert_distance(self) -> int | None:
        """How many actions :meth:`expert_plan` has; 0 after such a purchase, None when it is out of reach.

        Raises:
            ResetNeeded: Before the first reset.
        """
        return expert.distance(self.game)

    def task_state(self) -> dict[str, Any]:
        """Page, search, product and options, without what was seen on the way (:mod:`triage_gym.facts`).

        Raises:
            ResetNeeded: Before the first reset.
        """
        return {name: value for name, value in self.game.get_state().items() if name != "visited"}

    def belief(self) -> list[list[str]]:
        """What the page shows: the products of results, a product, one of its sub-pages (:mod:`triage_gym.facts`).

        Raises:
            ResetNeeded: Before the first reset.
        """
        game = self.game
        if game.page == "search_results":
            return [["result", product.asin] for product in game.results()]
        if game.page == "item_page":
            return [["product", game.asin]]
        return [["sub-page", game.asin, game.sub_page]] if game.page == "item_sub_page" else []
