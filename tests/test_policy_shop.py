"""WebShop as the small policy reads it: facts by hand, in all wordings, from the episode's own text alone."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from triage_gym.envs.webshop import WebShopEnv
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.policies import make_policy
from triage_gym.trainers.policy import shop_features as s
from triage_gym.trainers.policy.features import LAST, PATTERN_BITS, PATTERNS, TRIED, Register
from triage_gym.trainers.policy.shop_features import ShopFeatures

TASK = "i want a deep red mug in size large, and price lower than 20.00 dollars"
SEARCH = "search[i want a deep red mug in size large]"
RESULTS = (
    f"Instruction: [SEP] {TASK} [SEP] Back to Search [SEP] Page 1 (Total results: 3) [SEP] Next > [SEP] B0AAAAAAA1 [SEP] "
    "Deep Red Mug [SEP] $30.0 [SEP] B0AAAAAAA2 [SEP] Red Mug, Large [SEP] $9.0 [SEP] B0AAAAAAA3 [SEP] Blue Cup [SEP] $5.0"
)
ITEM = (
    f"Instruction: [SEP] {TASK} [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] deep red [SEP] blue [SEP] red [SEP] size "
    "[SEP] small [SEP] large [SEP] Red Mug, Large [SEP] Price: $9.0 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] "
    "Reviews [SEP] Buy Now"
)
OPTIONS = ["click[deep red]", "click[blue]", "click[red]", "click[small]", "click[large]", "click[buy now]"]


def bits_of(memory: Any, commands: list[str]) -> dict[str, int]:
    features = ShopFeatures()
    found = features.encode(memory, commands, Register(features.tokens_per_command))
    assert found.commands == commands
    assert len(set(found.state)) == len(found.state)
    assert max(found.state) < features.states
    return {command: key & (PATTERNS - 1) for command, key in zip(commands, found.keys, strict=True)}


def test_products_by_hand() -> None:
    memory = ShopFeatures().begin(TASK, "WebShop [SEP] Instruction: [SEP] x [SEP] Search")
    memory.observe(SEARCH, RESULTS)
    links = [f"click[b0aaaaaaa{n}]" for n in (1, 2, 3)]
    bits = bits_of(memory, [*links, "click[next >]"])
    assert [bits[link] & s.WITHIN > 0 for link in links] == [False, True, True]
    assert [bits[link] & s.MOST > 0 for link in links] == [True, True, False]
    assert bits["click[next >]"] == 0
    memory.observe(links[1], ITEM)
    memory.observe("click[< prev]", RESULTS)
    bits = bits_of(memory, links)
    assert bits[links[1]] & (s.OPENED | TRIED) == s.OPENED | TRIED
    assert not bits[links[0]] & s.OPENED


def test_options_by_hand() -> None:
    memory = ShopFeatures().begin(TASK, "")
    memory.observe(SEARCH, RESULTS)
    memory.observe("click[b0aaaaaaa2]", ITEM)
    bits = bits_of(memory, OPTIONS)
    assert [bits[c] & s.FITS > 0 for c in OPTIONS] == [True, False, True, False, True, False]
    assert not any(bits[c] & (s.CHOSEN | s.FILLED | s.READY) for c in OPTIONS)
    memory.observe("click[red]", ITEM)
    memory.observe("click[deep red]", ITEM)
    bits = bits_of(memory, OPTIONS)
    assert bits["click[deep red]"] & (s.CHOSEN | s.FILLED | LAST) == s.CHOSEN | s.FILLED | LAST
    assert bits["click[red]"] & (s.CHOSEN | s.FILLED | LAST) == s.FILLED
    assert not bits["click[small]"] & s.FILLED
    assert not bits["click[buy now]"] & s.READY
    memory.observe("click[small]", ITEM)
    assert bits_of(memory, OPTIONS)["click[buy now]"] & s.READY
    memory.observe("click[< prev]", RESULTS)
    memory.observe("click[b0aaaaaaa2]", ITEM)
    assert not bits_of(memory, OPTIONS)["click[deep red]"] & s.CHOSEN


def test_all_fit_in_a_key_and_remarks_come_after() -> None:
    features = ShopFeatures(remarks=True)
    assert features.candidate_features <= PATTERN_BITS
    assert features.candidate_features == ShopFeatures().candidate_features + len(features.priors)
    memory = features.begin(TASK, ITEM)
    memory.advise("no", ITEM, "click[blue]")
    keys = features.encode(memory, OPTIONS, Register(features.tokens_per_command)).keys
    marked = [key >> (features.candidate_features - len(features.priors)) & 3 for key in keys]
    assert marked == [0, 3, 0, 0, 0, 0]


@pytest.mark.parametrize("text", ["", "Nothing happens.", "[SEP]", "Buy Now", ITEM[:100]])
def test_any_text_is_read(text: str) -> None:
    memory = ShopFeatures().begin("?", text)
    bits_of(memory, ["click[x]", "search[y]", "look", "click[]"])


def test_the_wordings_say_the_same() -> None:
    """But for prices and titles that verl-agent's wording shows alike, whatever the wording the facts are the same."""
    said = []
    for observation in ("text", "text_rich", "verl-agent"):
        env = WebShopEnv(observation=observation, nouns="heuristic")
        text, info = env.reset(seed=0)
        memory = ShopFeatures().begin(info["task"], text)
        found = []
        over = False
        while not over:
            found.append(bits_of(memory, info["admissible_commands"]))
            action = str(env.expert_action())
            text, _, terminated, truncated, info = env.step(action)
            memory.observe(action, text)
            over = terminated or truncated
        said.append(found)
    assert said[0] == said[1] == said[2]


def test_it_is_what_auto_stands_for_in_webshop() -> None:
    policy = make_policy(TrainConfig(env="webshop"))
    assert isinstance(policy._features, ShopFeatures)
    generic = make_policy(TrainConfig(env="webshop", policy="generic"))
    assert not isinstance(generic._features, ShopFeatures)
