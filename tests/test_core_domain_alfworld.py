"""ALFWorld's sentences in both grammars, and what is none of them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage_gym.domains.alfworld import (
    MAX_COMMAND,
    OBJECT_TYPES,
    RECEPTACLE_TYPES,
    Command,
    Goal,
    Observation,
    parse_command,
    parse_observation,
    parse_task,
    split_name,
)

GOALS = {
    "put a mug in desk": Goal("pick_and_place_simple", "mug", "desk"),
    "put some book on sidetable.": Goal("pick_and_place_simple", "book", "sidetable"),
    "put a clean bowl in cabinet": Goal("pick_clean_then_place_in_recep", "bowl", "cabinet", "clean"),
    "clean some cloth and put it in bathtubbasin": Goal(
        "pick_clean_then_place_in_recep", "cloth", "bathtubbasin", "clean"
    ),
    "put a hot cup in fridge": Goal("pick_heat_then_place_in_recep", "cup", "fridge", "heat"),
    "heat some egg and put it in countertop.": Goal("pick_heat_then_place_in_recep", "egg", "countertop", "heat"),
    "put a cool apple in microwave": Goal("pick_cool_then_place_in_recep", "apple", "microwave", "cool"),
    "cool some bread and put it in countertop": Goal("pick_cool_then_place_in_recep", "bread", "countertop", "cool"),
    "put two cd in safe": Goal("pick_two_obj_and_place", "cd", "safe", count=2),
    "find two book and put them in desk": Goal("pick_two_obj_and_place", "book", "desk", count=2),
    "look at bowl under the desklamp": Goal("look_at_obj_in_light", "bowl", lamp="desklamp"),
    "examine the pillow with the floorlamp.": Goal("look_at_obj_in_light", "pillow", lamp="floorlamp"),
}


@pytest.mark.parametrize("text", GOALS)
def test_goals(text: str) -> None:
    assert parse_task(text) == GOALS[text]
    intro = f"-= Welcome to TextWorld, ALFRED! =-\n\nYou are in a room.\n\nYour task is to: {text}\nYour inventory is empty."
    assert parse_task(intro) == GOALS[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Move a book from a desk to a sofa.",
        "put the book on the middle of the sofa",
        "put a book in the desk",
        "put a clean slice of apple in fridge",
        "heat some sliced apple and put it in fridge",
        "put two sliced apple in fridge",
        "put a bowl of apple in fridge",
        "put spoon cup in diningtable",
        "put all mugs in desk",
        "put a mug in table",
        "put a unicorn in desk",
        "look at bowl under the sun",
        "put a mug in desk " * 100,
    ],
)
def test_other_instructions_are_no_goal(text: str) -> None:
    assert parse_task(text) is None


def test_where_treatments_are_done() -> None:
    places = {goal.treatment: goal.treatment_place for goal in GOALS.values()}
    assert places == {None: None, "clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}


def test_names() -> None:
    assert split_name("cup 2") == ("cup", 2)
    assert split_name(" stoveburner 10 ") == ("stoveburner", 10)
    assert split_name("cup") == ("cup", 0)
    assert split_name("cup two") == ("cup two", 0)
    assert split_name("") == ("", 0)
    assert split_name("cup ²") == ("cup ²", 0)


COMMANDS = {
    "go to cabinet 12": Command("go", "", "cabinet 12", "", "cabinet"),
    "open fridge 1": Command("open", "", "fridge 1", "", "fridge"),
    "close fridge 1": Command("close", "", "fridge 1", "", "fridge"),
    "take cup 2 from countertop 1": Command("take", "cup 2", "countertop 1", "cup", "countertop"),
    "move cup 2 to fridge 1": Command("put", "cup 2", "fridge 1", "cup", "fridge"),
    "put cup 2 in/on fridge 1": Command("put", "cup 2", "fridge 1", "cup", "fridge"),
    "put cup 2 into pan 1": Command("put", "cup 2", "pan 1", "cup", "pan"),
    "put cup 2 in pan 1": Command("put", "cup 2", "pan 1", "cup", "pan"),
    "put cup 2 on desk 1": Command("put", "cup 2", "desk 1", "cup", "desk"),
    "heat cup 2 with microwave 1": Command("heat", "cup 2", "microwave 1", "cup", "microwave"),
    "clean cup 2 with sinkbasin 1": Command("clean", "cup 2", "sinkbasin 1", "cup", "sinkbasin"),
    "cool cup 2 with fridge 1": Command("cool", "cup 2", "fridge 1", "cup", "fridge"),
    "slice apple 1 with knife 2": Command("slice", "apple 1", "knife 2", "apple", "knife"),
    "use desklamp 1": Command("use", "desklamp 1", "", "desklamp", ""),
    "examine fridge 1": Command("examine", "fridge 1", "", "fridge", ""),
    "look": Command("look"),
    "inventory": Command("inventory"),
    " help ": Command("help"),
}


@pytest.mark.parametrize("text", COMMANDS)
def test_commands(text: str) -> None:
    assert parse_command(text) == COMMANDS[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "xyzzy",
        "go",
        "go to ",
        "go cabinet 1",
        "open",
        "take cup 1",
        "take  from x",
        "put cup 1",
        "move cup 1 in x",
        "heat cup 1",
        "heat  with microwave 1",
        "use ",
        "look around",
        "LOOK",
        "take cup 1 from " + "x" * MAX_COMMAND,
    ],
)
def test_other_texts_are_no_command(text: str) -> None:
    assert parse_command(text) == Command("")


OBSERVATIONS = {
    "Nothing happens.": Observation("nothing"),
    "You arrive at loc 12. On the sofa 1, you see a cup 2, a egg 1, and a mug 3.": Observation(
        "arrive", "sofa 1", listed=("cup 2", "egg 1", "mug 3")
    ),
    "You arrive at shelf 1. On the shelf 1, you see nothing.": Observation("arrive", "shelf 1", listed=()),
    "You arrive at microwave 1. The microwave 1 is closed.": Observation("arrive", "microwave 1", closed=True),
    "You arrive at safe 1. The safe 1 is open. In it, you see a cd 1, and a cd 3.": Observation(
        "arrive", "safe 1", listed=("cd 1", "cd 3")
    ),
    "You arrive at shelf 1.": Observation("arrive", "shelf 1"),
    "You open the fridge 1. The fridge 1 is open. In it, you see a egg 2.": Observation(
        "open", "fridge 1", listed=("egg 2",)
    ),
    "You open the fridge 1.": Observation("open", "fridge 1"),
    "You close the fridge 1.": Observation("close", "fridge 1"),
    "You pick up the cup 2 from the countertop 1.": Observation("take", "countertop 1", "cup 2"),
    "PickupObjectFromReceptacleObject: You pick up the cup 2.": Observation("take", "", "cup 2"),
    "You move the cup 2 to the fridge 1.": Observation("put", "fridge 1", "cup 2"),
    "You move the cup 2 to the fridge 1. You won!": Observation("put", "fridge 1", "cup 2"),
    "You put the cup 2 in/on the fridge 1.": Observation("put", "fridge 1", "cup 2"),
    "PutObjectInReceptacleObject: You put the spoon 1 in the cup 2.": Observation("put", "cup 2", "spoon 1"),
    "You heat the cup 2 using the microwave 1.": Observation("heat", "microwave 1", "cup 2"),
    "You clean the cup 2 using the sinkbasin 1.": Observation("clean", "sinkbasin 1", "cup 2"),
    "You cool the cup 2 using the fridge 1.": Observation("cool", "fridge 1", "cup 2"),
    "You sliced the apple 1 with the knife 2.": Observation("slice", "knife 2", "apple 1"),
    "You turn on the desklamp 1.": Observation("use", "", "desklamp 1"),
    "You turn off the desklamp 1.": Observation("use", "", "desklamp 1"),
    "You don't see any switch on the cup 1.": Observation("use", "", "cup 1"),
    "There's nothing special about pen 1.": Observation("object", "", "pen 1"),
    "This is a hot and clean sliced apple 1.": Observation("object", "", "apple 1"),
    "This is a normal cup 1. In it, you see nothing.": Observation("object", "", "cup 1"),
    "This desklamp 1 is on.": Observation("object", "", "desklamp 1"),
    "On the desk 1, you see a pen 1.": Observation("receptacle", "desk 1", listed=("pen 1",)),
    "The drawer 1 is closed.": Observation("receptacle", "drawer 1", closed=True),
    "You are carrying: a cup 2.": Observation("inventory", listed=("cup 2",)),
    "You are not carrying anything.": Observation("inventory", listed=()),
    "You are facing the microwave 1. Next to it, you see nothing.": Observation("facing", "microwave 1", listed=()),
    "You are facing the desk 1, and desk 2. Next to it, you see a pen 1.": Observation(
        "facing", "desk 1", listed=("pen 1",)
    ),
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see a "
    "bed 1, a cabinet 15, and a toaster 1.\n\nYour task is to: put a cup in bed.": Observation(
        "room", listed=("bed 1", "cabinet 15", "toaster 1")
    ),
}


@pytest.mark.parametrize("text", OBSERVATIONS)
def test_observations(text: str) -> None:
    assert parse_observation(text) == OBSERVATIONS[text]


@pytest.mark.parametrize("text", ["", "On the desk", "The desk is nice.", "Hello.", "You arrive", "x" * 20_000])
def test_other_texts_are_no_observation(text: str) -> None:
    assert parse_observation(text) == Observation("")


@given(st.text())
def test_any_text_can_be_parsed(text: str) -> None:
    assert isinstance(parse_command(text), Command)
    assert isinstance(parse_observation(text), Observation)
    parse_task(text)
    split_name(text)


@given(st.sampled_from(OBJECT_TYPES), st.integers(1, 99), st.sampled_from(RECEPTACLE_TYPES), st.integers(1, 99))
def test_both_grammars_mean_the_same(kind: str, number: int, place: str, its: int) -> None:
    thing, where = f"{kind} {number}", f"{place} {its}"
    assert parse_command(f"move {thing} to {where}") == parse_command(f"put {thing} in/on {where}")
    seen = f"On the {where}, you see a {thing}, and a pen 1."
    assert parse_observation(f"You arrive at loc 3. {seen}") == parse_observation(f"You arrive at {where}. {seen}")
    moved = parse_observation(f"You move the {thing} to the {where}.")
    assert moved == parse_observation(f"You put the {thing} in/on the {where}.")
    assert (moved.object, moved.place) == (thing, where)


def test_vocabularies_are_sorted_and_without_doubles() -> None:
    for types in (OBJECT_TYPES, RECEPTACLE_TYPES):
        assert list(types) == sorted(set(types))


@pytest.mark.parametrize(
    "text", ["a" * 100_000 + "!", "go to " * 20_000, "take " + "from " * 20_000, "a, and " * 15_000]
)
@pytest.mark.parametrize("parse", [parse_command, parse_observation, parse_task])
def test_long_texts_take_no_time(text: str, parse: Any) -> None:
    start = time.process_time()
    parse(text)
    assert time.process_time() - start < 0.05
