"""The policy: fixed vocabularies, features from text alone, probabilities, and acting that equals learning."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from triage_gym.errors import InputError
from triage_gym.trainers.policy import alfworld_features as features
from triage_gym.trainers.policy.alfworld_features import AlfworldFeatures
from triage_gym.trainers.policy.features import LAST, PATTERN_BITS, PATTERNS, TRIED, TRIED_TWICE, Register
from triage_gym.trainers.policy.hashed_features import HashedFeatures
from triage_gym.trainers.policy.network import ScorerNet
from triage_gym.trainers.policy.text_scorer import TextScorer

INTRO = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see a "
    "cabinet 2, a cabinet 1, a countertop 1, a fridge 1, and a sidetable 1.\n\nYour task is to: {task}."
)
HEAT = "heat some cup and put it in fridge"
LIGHT = "look at cd under the desklamp"
WALKS = ["go to cabinet 1", "go to cabinet 2", "go to countertop 1", "go to fridge 1", "help", "inventory", "look"]


def words(memory: features.AlfworldMemory) -> set[str]:
    return {features.STATE_WORDS[i] for i in memory.state()}


def begin(task: str = HEAT, limit: int = 30) -> tuple[AlfworldFeatures, features.AlfworldMemory]:
    made = AlfworldFeatures(limit)
    return made, made.begin(task, INTRO.format(task=task))


def bits(made: AlfworldFeatures, memory: features.AlfworldMemory, command: str) -> int:
    return made.encode(memory, [command], Register(3)).keys[0] & (PATTERNS - 1)


def test_the_vocabularies_are_fixed() -> None:
    """Weights mean what these words mean: a change here breaks every saved policy, so it must be on purpose."""
    assert len(features.STATE_WORDS) == len(set(features.STATE_WORDS)) == AlfworldFeatures.states
    digest = hashlib.sha256("\n".join([*features.STATE_WORDS, "--", *features.TOKEN_WORDS]).encode()).hexdigest()
    assert digest[:12] == "713876d894c0"


def test_goal_words_come_from_the_task() -> None:
    _, memory = begin()
    assert {"task:pick_heat_then_place_in_recep", "goal:cup", "target:fridge", "kind:room", "fifth 0"} <= words(memory)
    assert {"see:cabinet", "see:countertop", "see:fridge", "see:sidetable"} <= words(memory)
    assert not any(word.startswith(("held:", "place:", "visited:")) for word in words(memory))


def test_state_follows_the_text() -> None:
    _, memory = begin()
    memory.observe(
        "go to countertop 1", "You arrive at countertop 1. On the countertop 1, you see a cup 2, and a egg 1."
    )
    assert {"place:countertop", "visited:countertop", "see:cup", "see:egg", "did:go", "goal seen"} <= words(memory)
    memory.observe("take cup 2 from countertop 1", "You pick up the cup 2 from the countertop 1.")
    assert {"held:cup", "held is goal", "did:take", "did to:cup", "did at:countertop"} <= words(memory)
    assert "goal seen" not in words(memory)
    assert "treated" not in words(memory)
    memory.observe("heat cup 2 with microwave 1", "You heat the cup 2 using the microwave 1.")
    assert "treated" in words(memory)
    memory.observe("go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed.")
    assert {"at target", "closed", "place:fridge"} <= words(memory)
    memory.observe("open fridge 1", "You open the fridge 1. The fridge 1 is open. In it, you see nothing.")
    assert {"empty", "held:cup"} <= words(memory)
    memory.observe("move cup 2 to fridge 1", "You move the cup 2 to the fridge 1.")
    assert "placed one" in words(memory)
    assert not any(word.startswith("held") for word in words(memory))


def test_refused_commands_change_nothing_but_the_history() -> None:
    _, memory = begin()
    before = words(memory)
    memory.observe("take cup 2 from fridge 1", "Nothing happens.")
    changed = words(memory) ^ before
    assert all(word.startswith(("kind:", "see:", "did")) for word in changed)


def test_time_is_told_in_fifths() -> None:
    _, memory = begin(limit=10)
    seen = []
    for _ in range(11):
        seen.append(next(word for word in words(memory) if word.startswith("fifth")))
        memory.observe("look", "You are in the middle of a room. Looking quickly around you, you see nothing.")
    assert seen == [f"fifth {i}" for i in (0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4)]


def test_candidate_features() -> None:
    made, memory = begin()
    assert bits(made, memory, "go to fridge 1") == features.IS_TARGET | features.NUMBER_ONE
    assert bits(made, memory, "go to cabinet 5") == features.NUMBER_HIGH
    assert bits(made, memory, "go to cabinet 3") == 0
    both = features.IS_GOAL | features.IS_TARGET | features.IS_BOTH | features.NUMBER_ONE
    assert bits(made, memory, "take cup 3 from fridge 1") == both
    memory.observe("go to cabinet 3", "You arrive at cabinet 3. The cabinet 3 is closed.")
    assert bits(made, memory, "go to cabinet 3") == TRIED | LAST
    memory.observe("open cabinet 3", "You open the cabinet 3. The cabinet 3 is open. In it, you see a cup 1.")
    there = features.GOAL_THERE | features.OPENED
    assert bits(made, memory, "go to cabinet 3") == TRIED | there
    assert bits(made, memory, "close cabinet 3") == there
    memory.observe("go to cabinet 3", "Nothing happens.")
    assert bits(made, memory, "go to cabinet 3") == TRIED | TRIED_TWICE | LAST | there
    memory.observe("take cup 1 from cabinet 3", "You pick up the cup 1 from the cabinet 3.")
    assert bits(made, memory, "go to cabinet 3") == TRIED | TRIED_TWICE | features.OPENED


def test_the_lamp_counts_where_the_goal_names_one() -> None:
    made, memory = begin(LIGHT)
    memory.observe("go to sidetable 1", "You arrive at sidetable 1. On the sidetable 1, you see a desklamp 1.")
    assert bits(made, memory, "use desklamp 1") == features.IS_LAMP | features.NUMBER_ONE
    assert bits(made, memory, "go to sidetable 1") & features.LAMP_THERE
    assert "lamp seen" in words(memory)
    made, memory = begin(HEAT)
    memory.observe("go to sidetable 1", "You arrive at sidetable 1. On the sidetable 1, you see a desklamp 1.")
    assert not bits(made, memory, "go to sidetable 1") & features.LAMP_THERE


def test_help_is_no_candidate_and_numbers_are_no_tokens() -> None:
    made, memory = begin()
    register = Register(3)
    encoded = made.encode(memory, WALKS, register)
    assert encoded.commands == [c for c in WALKS if c != "help"]
    numbers = [key >> PATTERN_BITS for key in encoded.keys]
    assert numbers[0] == numbers[1]  # cabinet 1, cabinet 2
    assert len(set(numbers)) == 5


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=60)), max_size=8), st.text(max_size=40))
def test_any_text_gives_a_state_within_the_vocabulary(turns: list[tuple[str, str]], task: str) -> None:
    for made in (AlfworldFeatures(10), HashedFeatures()):
        memory: Any = made.begin(task, task)
        register = Register(made.tokens_per_command)
        for action, observation in turns:
            memory.observe(action, observation)
        encoded = made.encode(memory, [a for a, _ in turns] + ["look"], register)
        assert encoded.commands
        assert all(0 <= word < made.states for word in encoded.state)
        assert len(set(encoded.state)) == len(encoded.state)
        tokens = register.tokens(np.array([key >> PATTERN_BITS for key in encoded.keys]))
        assert ((tokens >= 0) & (tokens < made.tokens)).all()


def scorer(made: Any = None, seed: int = 0) -> TextScorer:
    return TextScorer(made or AlfworldFeatures(30), width=16, seed=seed)


def situations(policy: TextScorer) -> tuple[list[Any], list[list[str]]]:
    """Three episodes with menus of different lengths."""
    memories = [policy.begin(task, INTRO.format(task=task)) for task in (HEAT, LIGHT, HEAT)]
    memories[2].observe("go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed.")
    return memories, [WALKS, ["look", "inventory"], [*WALKS[:3], "open fridge 1", "examine fridge 1", "look"]]


def test_acting_and_learning_agree_on_probabilities() -> None:
    policy = scorer()
    memories, menus = situations(policy)
    rng = np.random.default_rng(0)
    parts = [policy.act(memories, menus, rng).raw, policy.act(memories[1:], menus[1:], rng).raw]
    steps = policy.gather(parts)
    assert len(steps) == 5
    assert steps.counts.tolist() == [6, 2, 6, 2, 6]
    log_probs = policy.log_probs(steps)
    torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(5))
    taken = log_probs.gather(1, steps.choices.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(taken, steps.old_log_probs, rtol=0, atol=1e-5)
    assert (log_probs.exp()[torch.arange(log_probs.shape[1]) >= steps.counts[:, None]] == 0).all()


def test_probabilities_are_those_of_the_formula() -> None:
    policy = scorer()
    memories, menus = situations(policy)
    steps = policy.gather([policy.act(memories, menus, None).raw])
    net = policy.net
    for row in range(3):
        x = net.multi_hot(steps.words)[row]
        h = x @ net.state + net.bias
        h = h + torch.relu(h @ net.up + net.up_bias) @ net.down
        scores = []
        for k in range(int(steps.counts[row])):
            tokens = steps.tokens[steps.commands[row, k]]
            command = sum(net.token[t] for t in tokens if t != 0)
            f = steps.features[steps.patterns[row, k]]
            scores.append(h @ command + (h @ net.feature + net.feature_bias) @ f)
        expected = torch.stack(scores).log_softmax(0)
        torch.testing.assert_close(policy.log_probs(steps)[row, : len(scores)], expected, rtol=1e-4, atol=1e-5)


def test_an_episode_does_not_depend_on_its_neighbours() -> None:
    policy = scorer()
    memories, menus = situations(policy)
    together = policy.act(memories, menus, None)
    alone = [policy.act([m], [a], None) for m, a in zip(memories, menus, strict=True)]
    assert together.commands == [a.commands[0] for a in alone]
    torch.testing.assert_close(together.raw.log_probs, torch.cat([a.raw.log_probs for a in alone]), rtol=0, atol=1e-5)


def test_commands_are_drawn_with_their_probabilities() -> None:
    policy = scorer()
    memory = policy.begin(HEAT, INTRO.format(task=HEAT))
    rng = np.random.default_rng(1)
    n = 4000
    drawn = policy.act([memory] * n, [WALKS] * n, rng).raw
    steps = policy.gather([drawn])
    probs = policy.log_probs(steps.take(torch.tensor([0]))).exp()[0].detach().double().numpy()[:6]
    counts = np.bincount(steps.choices.numpy(), minlength=6)
    error = np.sqrt(probs * (1 - probs) / n)
    assert (np.abs(counts / n - probs) < 4 * error).all()


def test_the_random_numbers_decide_even_next_to_one() -> None:
    class Extreme:
        def __init__(self, number: float) -> None:
            self.number = number

        def random(self, n: int) -> Any:
            return np.full(n, self.number)

    policy = scorer()
    memory = policy.begin(HEAT, INTRO.format(task=HEAT))
    low, high = (policy.act([memory], [WALKS], Extreme(x)).commands[0] for x in (0.0, np.nextafter(1.0, 0.0)))  # type: ignore[arg-type]
    assert (low, high) == ("go to cabinet 1", "look")


def test_embeddings_are_made_anew_when_the_weights_change() -> None:
    policy = scorer()
    memories, menus = situations(policy)
    before = policy.act(memories, menus, None).raw.log_probs
    policy.net.load_state_dict(scorer(seed=5).net.state_dict())
    policy.weights_changed()
    after = policy.act(memories, menus, None).raw.log_probs
    torch.testing.assert_close(after, scorer(seed=5).act(*situations(scorer(seed=5)), None).raw.log_probs)
    assert not torch.allclose(before, after)


def test_no_candidate_and_a_foreign_forced_command_are_refused() -> None:
    policy = scorer()
    memory = policy.begin(HEAT, INTRO.format(task=HEAT))
    with pytest.raises(InputError, match="got none"):
        policy.act([memory], [["help"]], None)
    with pytest.raises(InputError, match="got 'dance'"):
        policy.act([memory], [WALKS], None, forced=["dance"])
    with pytest.raises(InputError, match="got none"):
        policy.gather([])


def test_equal_seeds_make_equal_weights_and_padding_stays_zero() -> None:
    a, b = scorer(seed=3).net, scorer(seed=3).net
    assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))
    assert not torch.equal(a.state, scorer(seed=4).net.state)
    net = ScorerNet(5, 7, 2, 4, torch.Generator().manual_seed(0))
    net.embed(torch.tensor([[1, 0, 0], [2, 3, 0]])).sum().backward()
    assert net.token.grad is not None
    assert (net.token.grad[0] == 0).all()
    assert (net.token.grad[1:4] == 1).all()


def test_what_was_met_before_does_not_move_a_bit() -> None:
    """A resumed run's register is filled in another order; sums over commands must round the same all the same."""
    fresh, used = scorer(), scorer()
    old = used.begin(LIGHT, INTRO.format(task=LIGHT))
    used.act([old], [["look", "use desklamp 1", "open fridge 1", "take cup 1 from fridge 1", *reversed(WALKS)]], None)
    outcomes = []
    for policy in (fresh, used):
        steps = policy.gather([policy.act(*situations(policy), np.random.default_rng(0)).raw])
        log_probs = policy.log_probs(steps)
        (-log_probs.gather(1, steps.choices.unsqueeze(1)).mean()).backward()
        outcomes.append([steps.old_log_probs, steps.tokens, log_probs, *(p.grad for p in policy.net.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*outcomes, strict=True))
