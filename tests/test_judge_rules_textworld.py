"""Each rule of the TextWorld judge on written-out games, and the wordings of tasks that are read."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage_gym.domains.textworld import Step, parse_command, parse_recipe, parse_task
from triage_gym.judges.rule import RuleJudge
from triage_gym.judges.textworld import TextWorldRules
from triage_gym.judges.textworld_way import answers
from triage_gym.protocols import Pair, Window
from triage_gym.records import EpisodeRecord, Segment
from triage_gym.windows import build_windows

COIN = (
    "Welcome to TextWorld! First of all, you could, like, go to the east. After that, try to go to the south. And then, "
    "take a trip east. Next, lift the coin from the floor of the chamber. Got that? Good!"
)
DINNER = (
    "Welcome to TextWorld! First off, make it so that the antique trunk within the bedroom is open. Then, pick up the old "
    "key from the antique trunk. After picking up the old key, insert the old key into the wooden door in the bedroom's "
    "lock to unlock it. And then, ensure that the wooden door is open. And then, venture east. Then, sit the lettuce on the "
    "stove. Then, open the fridge. That's it!"
)
COOKING = "You are hungry! Let's cook a delicious meal. Check the cookbook in the kitchen for the recipe. Once done, enjoy your meal!"
BOOK = (
    'You open the copy of "Cooking" and start reading:\n\nRecipe #1\n---------\n\nIngredients:\n  red carrot\n\n'
    "Directions:\n  dice the red carrot\n  roast the red carrot\n  prepare meal"
)
NOTHING = "You can't see any such thing."
Turn = tuple[str, str]


def room(name: str, more: str = "There is an exit to the west.") -> str:
    return f"\n-= {name} =-\nYou are in a {name.lower()}.\n\n{more}\n"


def windows(task: str, turns: list[Turn], refused: tuple[int, ...] = ()) -> list[Window]:
    texts = [room("Start"), *[answer for _, answer in turns]]
    segments = [
        Segment(i, texts[i], action, answer, 0.0, {"invalid_action": True} if i in refused else {})
        for i, (action, answer) in enumerate(turns)
    ]
    record = EpisodeRecord("t", segments=segments, task=task, domain="textworld", start_observation=texts[0])
    return build_windows(record)


def judge(task: str, *turns: Turn, refused: tuple[int, ...] = ()) -> tuple[str, str] | None:
    """What the last turn is called."""
    return TextWorldRules().verdict(windows(task, list(turns), refused)[-1])


EAST, SOUTH, EAST2 = ("go east", room("Study")), ("go south", room("Hall")), ("go east", room("Chamber"))
TAKE = ("take coin", "You pick up the coin from the ground.")
WEST = ("go west", room("Start"))
NORTH = ("go north", room("Attic"))
OPEN = ("open antique trunk", "You open the antique trunk, revealing an old key.")
KEY = ("take old key from antique trunk", "You take the old key from the antique trunk.")
UNLOCK = ("unlock wooden door with old key", "You unlock wooden door.")
DOOR = ("open wooden door", "You open wooden door.")
CARROT = ("take red carrot from counter", "You take the red carrot from the counter.")
KNIFE = ("take knife from table", "You take the knife from the table.")
READ = ("examine cookbook", BOOK)
DICE = ("dice red carrot with knife", "You dice the red carrot.")


@pytest.mark.parametrize(
    ("turns", "role", "why"),
    [
        ([EAST], "D", "goes east as the task says"),
        ([EAST, SOUTH, EAST2, TAKE], "D", "takes coin as the task says"),
        ([NORTH], "E", "first look at Attic, off the way that the task names"),
        ([NORTH, ("go south", room("Start"))], "N", "back to the way that the task names"),
        ([NORTH, ("go south", room("Start")), EAST], "D", "goes east as the task says"),
        ([EAST, WEST], "R", "Start again, off the way that the task names: nothing new"),
        ([EAST, WEST, EAST], "N", "back to the way that the task names"),
        ([EAST, SOUTH, ("go north", room("Study")), SOUTH], "N", "back to the way that the task names"),
        ([EAST, ("take cane", "You pick up the cane from the ground.")], "R", "takes cane, and the task asks for coin alone"),
        ([("go up", NOTHING)], "N", "refused, or without effect"),
        ([("go west", "You can't go that way."), EAST], "D", "goes east as the task says"),
        ([("look", room("Start"))], "N", "changes nothing that the task needs"),
        ([("look", room("Start")), ("look", room("Start"))], "R", "repeated: the answer was known"),
        ([("go up", NOTHING), ("go up", NOTHING)], "R", "repeated: the answer was known"),
        ([("inventory", "You are carrying nothing.")], "N", "changes nothing that the task needs"),
        ([("inventory", "You are carrying: a raw egg.")], "E", "finds raw egg in hand"),
        ([("examine coin", "The coin shines.")], "E", "first close look at coin"),
    ],
)  # fmt: skip
def test_the_way_that_a_task_names(turns: list[Turn], role: str, why: str) -> None:
    assert judge(COIN, *turns) == (role, why)


def test_another_way_to_the_same_place_counts_too() -> None:
    around = [("go south", room("Cellar")), ("go east", room("Hall")), EAST2]
    assert judge(COIN, *around[:1]) == ("E", "first look at Cellar, off the way that the task names")
    assert judge(COIN, *around[:2]) == ("D", "goes east as the task says")
    assert judge(COIN, *around) == ("D", "goes east as the task says")


@pytest.mark.parametrize(
    ("turns", "role", "why"),
    [
        ([OPEN], "D", "opens antique trunk as the task says"),
        ([("open chest", "You open the chest, revealing a sock.")], "E", "first look into chest"),
        ([("open gate", "You open gate.")], "N", "changes nothing that the task needs"),
        ([OPEN, ("close antique trunk", "You close the antique trunk.")], "R", "closes antique trunk, which must be open next"),
        ([OPEN, ("close antique trunk", "You close the antique trunk."), OPEN], "N", "opens antique trunk again"),
        ([OPEN, KEY], "D", "takes old key as the task says"),
        ([OPEN, KEY, ("drop old key", "You drop the old key on the ground.")], "R", "puts old key down, which is still needed"),
        ([OPEN, KEY, ("drop old key", "You drop the old key on the ground."), ("take old key", "You pick up the old key.")], "N", "picks old key up again"),
        ([OPEN, KEY, UNLOCK], "D", "unlocks wooden door as the task says"),
        ([OPEN, KEY, UNLOCK, ("lock wooden door with old key", "You lock wooden door.")], "R", "locks wooden door, which must be open next"),
        ([OPEN, KEY, UNLOCK, DOOR, ("close wooden door", "You close wooden door.")], "R", "closes wooden door, which must be open next"),
        ([OPEN, KEY, UNLOCK, DOOR, EAST], "D", "goes east as the task says"),
        ([OPEN, KEY, UNLOCK, DOOR, EAST, ("put lettuce on stove", "You put the lettuce on the stove.")], "D", "puts lettuce where the task says"),
        ([OPEN, KEY, UNLOCK, DOOR, EAST, ("put lettuce on stove", "You put the lettuce on the stove."), ("take lettuce from stove", "You take the lettuce.")], "R", "takes lettuce away from where it belongs"),
        ([("eat lettuce", "You eat the lettuce. Not bad.")], "R", "eats lettuce, which is still needed"),
    ],
)  # fmt: skip
def test_the_things_that_a_task_names(turns: list[Turn], role: str, why: str) -> None:
    assert judge(DINNER, *turns) == (role, why)


@pytest.mark.parametrize(
    ("turns", "role", "why"),
    [
        ([READ], "E", "reads the recipe"),
        ([READ, READ], "R", "repeated: the answer was known"),
        ([READ, CARROT], "D", "takes red carrot, an ingredient"),
        ([READ, CARROT, KNIFE], "D", "takes the knife that the recipe needs"),
        ([READ, CARROT, KNIFE, DICE], "D", "dice red carrot: as the recipe says"),
        ([READ, CARROT, KNIFE, ("chop red carrot with knife", "You chop the red carrot.")], "R", "chop red carrot: not as the recipe says"),
        ([READ, CARROT, ("cook red carrot with oven", "You roasted the red carrot.")], "D", "roast red carrot: as the recipe says"),
        ([READ, CARROT, ("cook red carrot with stove", "You fried the red carrot.")], "R", "fry red carrot: not as the recipe says"),
        ([READ, CARROT, ("cook red carrot with oven", "You burned the red carrot!")], "R", "burns red carrot"),
        ([READ, CARROT, ("put red carrot on table", "You put the red carrot on the table.")], "R", "puts red carrot down, an ingredient"),
        ([READ, CARROT, ("eat red carrot", "You eat the red carrot. Not bad.")], "R", "eats red carrot, which the meal may need"),
        ([READ, KNIFE, ("drop knife", "You drop the knife on the ground.")], "R", "puts down the knife that the recipe needs"),
        ([("prepare meal", "You still miss something.")], "N", "refused, or without effect"),
        ([("prepare meal", "Adding the meal to your inventory.")], "D", "prepares the meal"),
        ([("eat meal", "You eat the meal. Not bad.")], "D", "eats the meal"),
        ([("drop meal", "You drop the meal on the ground.")], "R", "puts meal down, which is still needed"),
        ([CARROT, ("drop red carrot", "You drop the red carrot on the ground.")], "R", "puts red carrot down again without having used it"),
        ([NORTH], "E", "first look at Attic"),
        ([NORTH, ("go south", room("Start"))], "N", "Start again"),
    ],
)  # fmt: skip
def test_cooking_goes_by_the_recipe_in_the_window(turns: list[Turn], role: str, why: str) -> None:
    assert judge(COOKING, *turns) == (role, why)


def test_into_a_known_room_and_straight_back_is_a_walk_for_nothing() -> None:
    turns = [NORTH, ("go south", room("Start")), ("look", room("Start")), NORTH]
    assert TextWorldRules().verdict(windows(COOKING, turns)[1]) == (
        "R",
        "Start again, and straight back: a walk for nothing",
    )
    turns[2] = ("take egg", "You pick up the egg from the ground.")
    assert TextWorldRules().verdict(windows(COOKING, turns)[1]) == ("N", "Start again")


def test_a_task_without_a_way_still_names_what_to_put_where() -> None:
    task = "The dinner is almost ready! It's only missing a grilled red apple."
    assert parse_task(task).steps == (Step("take", "red apple"), Step("put", "red apple", "stove"))  # type: ignore[union-attr]
    assert judge(task, ("take red apple", "You pick up the red apple.")) == ("D", "takes red apple as the task says")


@pytest.mark.parametrize(
    ("sentence", "step"),
    [
        ("First, it would be a great idea if you could attempt to travel west.", Step("go", "west")),
        ("Then, make an effort to venture through the north wooden door.", Step("go", "north")),
        ("Once you get around to doing that, take a trip south.", Step("go", "south")),
        ("And then, retrieve the half of a bag of chips from the fridge inside the kitchen.", Step("take", "half of a bag of chips", "fridge")),
        ("With the old key, check that the safe is unlocked with the old key.", Step("unlock", "safe", "old key")),
        ("Then, doublecheck that the wooden door in the bedroom is unlocked.", Step("unlock", "wooden door")),
        ("After unlocking the safe, insert the old key into the safe to lock it.", Step("lock", "safe", "old key")),
        ("After that, make absolutely sure that the chest drawer is ajar.", Step("open", "chest drawer")),
        ("Then, look and see that the gate is shut.", Step("close", "gate")),
        ("And then, you can deposit the coin into the box within the hall.", Step("put", "coin", "box")),
        ("Then, ditch the shoe on the floor of the hall.", Step("drop", "shoe")),
        ("After stealing the pie, eat the pie.", Step("eat", "pie")),
    ],
)  # fmt: skip
def test_wordings_of_a_step(sentence: str, step: Step) -> None:
    quest = parse_task(f"Welcome to TextWorld! {sentence} That's it!")
    assert quest is not None
    assert quest.steps == (step,)


def test_commands_and_recipes_are_taken_apart() -> None:
    assert parse_command("take the old key from the antique trunk") == Step("take", "old key", "antique trunk")
    assert parse_command("n") == Step("go", "north") == parse_command("Go North.")
    assert parse_command("dance") == Step("") == parse_command("go " * 200)
    recipe = parse_recipe(BOOK)
    assert recipe is not None
    assert recipe.ingredients == {"red carrot"}
    assert recipe.steps == (Step("cut", "red carrot", how="dice"), Step("cook", "red carrot", how="roast"))


def test_a_refused_command_is_not_taken_for_the_same_one_that_worked() -> None:
    pairs = (Pair(*KEY), Pair(KEY[0], NOTHING), Pair(*UNLOCK))
    assert answers((OPEN[0], KEY[0], UNLOCK[0]), pairs) == {1: KEY[1], 2: UNLOCK[1]}
    turns = [OPEN, KEY, (KEY[0], NOTHING), UNLOCK, ("drop old key", "You drop the old key on the ground.")]
    assert judge(DINNER, *turns, refused=(2,)) == ("N", "changes nothing that the task needs")


def test_at_once_and_one_by_one_are_the_same() -> None:
    turns = [NORTH, ("go south", room("Start")), EAST, WEST, EAST, SOUTH, ("look", room("Hall")), EAST2, TAKE]
    cut = windows(COIN, turns)
    at_once = RuleJudge().judge(cut)
    assert at_once == [RuleJudge().judge([w])[0] for w in cut]
    assert [label.role for label in at_once] == ["E", "N", "D", "R", "N", "D", "N", "D", "D"]
    assert {label.source for label in at_once} == {"rule"}


_TEXT = st.one_of(
    st.text(max_size=80),
    st.sampled_from([COIN, DINNER, COOKING, BOOK, room("A"), "go east", "take coin", OPEN[1], KEY[0]]),
)


@given(_TEXT, st.lists(st.tuples(_TEXT, _TEXT), max_size=4), _TEXT, _TEXT, _TEXT)
def test_any_text_is_judged_without_an_exception(
    task: str, pairs: list[Turn], before: str, action: str, after: str
) -> None:
    past = tuple(Pair(*pair) for pair in pairs)
    earlier = tuple(action for action, _ in pairs)
    window = Window(task, "textworld", len(past), past, before, action, after, past, earlier)
    assert TextWorldRules().verdict(window) == TextWorldRules().verdict(window)


def test_long_texts_are_bounded() -> None:
    texts = [
        "take the take the " * 5_000,
        "open the a. " * 8_000,
        "go east. " * 3_600,
        "-= A =-\n" * 12_000,
        "Ingredients:" + "a\n" * 50_000 + "Directions:",
        "\n>" + " " * 100_000,
    ]
    long = tuple(["go east", "go west", "take coin"] * 300)
    began = time.process_time()
    for task in texts:
        for text in texts:
            TextWorldRules().verdict(Window(task, "textworld", 0, (), text, "go east", text, (), long))
    assert time.process_time() - began < 6
    assert TextWorldRules().verdict(Window("x" * 100_000, "textworld", 0, (), "", "look", "", ())) is None
