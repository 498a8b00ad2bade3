"""Each rule of the ALFWorld judge on written-out episodes, in both grammars."""

from __future__ import annotations

from dataclasses import replace

import pytest

from triage_gym.judges.labelling import label_record
from triage_gym.judges.rule import RuleJudge
from triage_gym.records import EpisodeRecord, RoleLabel, Segment
from triage_gym.windows import build_windows

NO = "Nothing happens."
START = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see a "
    "cabinet 2, a cabinet 1, a countertop 1, a desk 1, a drawer 2, a drawer 1, a fridge 1, a garbagecan 1, a "
    "microwave 1, a shelf 1, a sidetable 1, and a sinkbasin 1.\n\nYour task is to: "
)
Turn = tuple[str, str, str]
"""Action, answer, expected role."""


def go(place: str, role: str, *things: str) -> Turn:
    return f"go to {place}", f"You arrive at {place}. On the {place}, you see {listing(things)}.", role


def go_closed(place: str, role: str) -> Turn:
    return f"go to {place}", f"You arrive at {place}. The {place} is closed.", role


def go_open(place: str, role: str, *things: str) -> Turn:
    return f"go to {place}", f"You arrive at {place}. The {place} is open. In it, you see {listing(things)}.", role


def opens(place: str, role: str, *things: str) -> Turn:
    return f"open {place}", f"You open the {place}. The {place} is open. In it, you see {listing(things)}.", role


def closes(place: str, role: str) -> Turn:
    return f"close {place}", f"You close the {place}.", role


def take(thing: str, place: str, role: str) -> Turn:
    return f"take {thing} from {place}", f"You pick up the {thing} from the {place}.", role


def put(thing: str, place: str, role: str) -> Turn:
    return f"move {thing} to {place}", f"You move the {thing} to the {place}.", role


def treat(verb: str, thing: str, place: str, role: str) -> Turn:
    return f"{verb} {thing} with {place}", f"You {verb} the {thing} using the {place}.", role


def use(lamp: str, role: str) -> Turn:
    return f"use {lamp}", f"You turn on the {lamp}.", role


def listing(things: tuple[str, ...]) -> str:
    if not things:
        return "nothing"
    named = [f"a {t}" for t in things]
    return named[0] if len(named) == 1 else ", ".join(named[:-1]) + f", and {named[-1]}"


def old_grammar(action: str, answer: str) -> tuple[str, str]:
    """The same turn in the grammar of json_2.1.1."""
    if action.startswith("move "):
        thing, _, place = action[5:].partition(" to ")
        return f"put {thing} in/on {place}", f"You put the {thing} in/on the {place}." if answer != NO else NO
    if answer.startswith("You arrive at "):
        return action, "You arrive at loc 7. " + answer.partition(". ")[2]
    return action, answer


def attempt(task: str, turns: list[Turn], old: bool = False) -> EpisodeRecord:
    seen, segments = START + task + ".", []
    for k, (action, answer, _) in enumerate(turns):
        if old:
            action, answer = old_grammar(action, answer)
        segments.append(Segment(k, seen, action, answer, info={"invalid_action": answer == NO}))
        seen = answer
    return EpisodeRecord("g", task=task, domain="alfworld", start_observation=START + task, segments=tuple(segments))


PICK, HEAT, COOL = "put some mug on desk", "heat some mug and put it in cabinet", "put a cool mug in cabinet"
CLEAN, LOOK, TWO = (
    "put a clean mug in cabinet",
    "look at mug under the desklamp",
    "find two mug and put them in cabinet",
)

EPISODES: dict[str, tuple[str, list[Turn]]] = {
    "pick and place, straight": (
        PICK,
        [
            go("shelf 1", "E", "pen 1"),
            go_closed("drawer 1", "E"),
            opens("drawer 1", "E", "mug 2"),
            take("mug 2", "drawer 1", "D"),
            go("desk 1", "D", "pen 2"),
            put("mug 2", "desk 1", "D"),
        ],
    ),
    "heat, straight": (
        HEAT,
        [
            go("countertop 1", "E", "mug 1", "egg 1"),
            take("mug 1", "countertop 1", "D"),
            go_closed("microwave 1", "D"),
            treat("heat", "mug 1", "microwave 1", "D"),
            go_closed("cabinet 1", "D"),
            opens("cabinet 1", "D"),
            put("mug 1", "cabinet 1", "D"),
        ],
    ),
    "clean, straight": (
        CLEAN,
        [
            go("sinkbasin 1", "E", "mug 3"),
            take("mug 3", "sinkbasin 1", "D"),
            treat("clean", "mug 3", "sinkbasin 1", "D"),
            go("cabinet 2", "D"),
            put("mug 3", "cabinet 2", "D"),
        ],
    ),
    "cool, straight": (
        COOL,
        [
            go("shelf 1", "E", "mug 1"),
            take("mug 1", "shelf 1", "D"),
            go_closed("fridge 1", "D"),
            treat("cool", "mug 1", "fridge 1", "D"),
            go("cabinet 1", "D"),
            put("mug 1", "cabinet 1", "D"),
        ],
    ),
    "look, straight": (
        LOOK,
        [
            go("desk 1", "E", "mug 1"),
            take("mug 1", "desk 1", "D"),
            go("shelf 1", "E", "pen 1"),
            go("sidetable 1", "D", "desklamp 1"),
            use("desklamp 1", "D"),
        ],
    ),
    "look: the lamp was used before, so arriving with the object is what is needed": (
        LOOK,
        [
            go("sidetable 1", "E", "desklamp 1"),
            use("desklamp 1", "N"),
            use("desklamp 1", "R"),
            go_closed("drawer 1", "E"),
            opens("drawer 1", "E", "mug 1"),
            take("mug 1", "drawer 1", "D"),
            ("look", "You are facing the drawer 1. Next to it, you see nothing.", "N"),
            ("inventory", "You are carrying: a mug 1.", "N"),
            ("help", "Available commands", "N"),
            ("examine mug 1", "There's nothing special about mug 1.", "N"),
            # The lamp left the window long ago; where it stands is read off the actions.
            go_closed("sidetable 1", "D"),
        ],
    ),
    "look: a place without the lamp is explored once, and not when the lamp is known": (
        LOOK,
        [
            go("desk 1", "E", "mug 1"),
            take("mug 1", "desk 1", "D"),
            go("shelf 1", "E", "pen 1"),
            go("desk 1", "R"),
            go_closed("drawer 1", "E"),
            opens("drawer 1", "E", "desklamp 1"),
            go("shelf 1", "R", "pen 1"),
            go("countertop 1", "N", "egg 1"),
            go_open("drawer 1", "N", "desklamp 1"),
            use("desklamp 1", "D"),
            use("desklamp 1", "R"),
        ],
    ),
    "look: the wrong lamp and putting the object down": (
        LOOK,
        [
            go("desk 1", "E", "mug 1", "floorlamp 1"),
            take("mug 1", "desk 1", "D"),
            use("floorlamp 1", "N"),
            put("mug 1", "desk 1", "R"),
            take("mug 1", "desk 1", "N"),
        ],
    ),
    "two, straight: the second goes where the first went": (
        TWO,
        [
            go("shelf 1", "E", "mug 1"),
            take("mug 1", "shelf 1", "D"),
            go("cabinet 1", "D", "pen 1"),
            put("mug 1", "cabinet 1", "D"),
            go("sidetable 1", "E", "mug 2"),
            take("mug 2", "sidetable 1", "D"),
            go("cabinet 2", "N"),
            go("cabinet 1", "D", "mug 1", "pen 1"),
            put("mug 2", "cabinet 1", "D"),
        ],
    ),
    "two: damage and detours with the second": (
        TWO,
        [
            go("shelf 1", "E", "mug 2", "mug 1"),
            take("mug 1", "shelf 1", "D"),
            go_closed("cabinet 1", "D"),
            opens("cabinet 1", "D", "pen 1"),
            put("mug 1", "cabinet 1", "D"),
            take("mug 1", "cabinet 1", "R"),
            put("mug 1", "cabinet 1", "N"),
            closes("cabinet 1", "N"),
            go("shelf 1", "E", "mug 2"),  # what was seen there left the window
            take("mug 2", "shelf 1", "D"),
            go("cabinet 2", "N"),
            put("mug 2", "cabinet 2", "N"),
            go("sidetable 1", "R"),  # mug 2 lies in cabinet 2
            go("cabinet 2", "N", "mug 2"),
            take("mug 2", "cabinet 2", "N"),
            go_closed("cabinet 1", "D"),
            opens("cabinet 1", "D", "pen 1", "mug 1"),
            put("mug 2", "cabinet 1", "D"),
        ],
    ),
    "searching: revisits and re-examinations": (
        PICK,
        [
            go("shelf 1", "E", "pen 1"),
            ("examine shelf 1", "On the shelf 1, you see a pen 1.", "R"),
            go_closed("drawer 1", "E"),
            ("examine drawer 1", "The drawer 1 is closed.", "R"),
            opens("drawer 1", "E"),
            go("shelf 1", "R", "pen 1"),
            go_open("drawer 1", "R"),
            closes("drawer 1", "N"),
            opens("drawer 1", "R"),
            go("countertop 1", "E", "egg 1"),
        ],
    ),
    "searching: news at a known place": (
        PICK,
        [
            go_closed("drawer 1", "E"),
            go("shelf 1", "E", "pen 1"),
            go_open("drawer 1", "E", "egg 1"),
            go("shelf 1", "R", "pen 1"),
        ],
    ),
    "searching: what left the window is new again": (
        PICK,
        [
            go("shelf 1", "E"),
            go("countertop 1", "E"),
            go("sidetable 1", "E"),
            go("garbagecan 1", "E"),
            go("sinkbasin 1", "E"),
            go("desk 1", "E"),
            go("shelf 1", "E"),
        ],
    ),
    "searching: a receptacle at the same place is examined without going": (
        PICK,
        [
            go("shelf 1", "E", "pen 1"),
            ("examine sidetable 1", "On the sidetable 1, you see a mug 1.", "E"),
            ("examine sidetable 1", "On the sidetable 1, you see a mug 1.", "N"),
            take("mug 1", "sidetable 1", "D"),
            ("examine countertop 1", "On the countertop 1, you see nothing.", "N"),
            ("examine countertop 1", "On the countertop 1, you see nothing.", "R"),
        ],
    ),
    "searching: something lies on the floor": (
        PICK,
        [
            go("shelf 1", "E", "pen 1"),
            ("look", "You are facing the shelf 1. Next to it, you see a mug 1.", "E"),
            ("look", "You are facing the shelf 1. Next to it, you see a mug 1.", "R"),
        ],
    ),
    "what has been seen is looked for elsewhere": (
        PICK,
        [
            go("shelf 1", "E", "mug 1"),
            go("countertop 1", "R", "egg 1"),
            go_closed("drawer 1", "R"),
            opens("drawer 1", "R"),
            ("examine sidetable 1", "On the sidetable 1, you see nothing.", "R"),
            go("shelf 1", "N", "mug 1"),
            take("mug 1", "shelf 1", "D"),
        ],
    ),
    "shutting away what is sought": (
        PICK,
        [go_closed("drawer 1", "E"), opens("drawer 1", "E", "mug 1"), closes("drawer 1", "R"), opens("drawer 1", "N")],
    ),
    "something irrelevant": (
        PICK,
        [
            go("shelf 1", "E", "pen 1", "cup 1"),
            take("pen 1", "shelf 1", "R"),
            go("countertop 1", "E", "egg 1"),
            put("pen 1", "countertop 1", "N"),
            take("pen 1", "countertop 1", "R"),
        ],
    ),
    "an irrelevant thing in hand makes nothing decisive": (
        HEAT,
        [
            go("shelf 1", "E", "egg 1"),
            take("egg 1", "shelf 1", "R"),
            go_closed("microwave 1", "E"),
            treat("heat", "egg 1", "microwave 1", "N"),
            treat("heat", "egg 1", "microwave 1", "R"),
            go_closed("cabinet 1", "E"),
            opens("cabinet 1", "E"),
            put("egg 1", "cabinet 1", "N"),
        ],
    ),
    "a mug is no mugholder: names are compared whole": (
        "put some pen on desk",
        [go("shelf 1", "E", "pencil 1"), take("pencil 1", "shelf 1", "R"), go("countertop 1", "E")],
    ),
    "detours with the object in hand": (
        PICK,
        [
            go("shelf 1", "E", "mug 1"),
            take("mug 1", "shelf 1", "D"),
            go("countertop 1", "N", "egg 1"),
            go_closed("drawer 1", "N"),
            opens("drawer 1", "N"),
            closes("drawer 1", "N"),
            opens("drawer 1", "R"),
            go("countertop 1", "R", "egg 1"),
            go("desk 1", "D"),
            go("shelf 1", "N"),  # took place more than a window ago
            go("desk 1", "N"),
            put("mug 1", "desk 1", "D"),
        ],
    ),
    "detours with the object in hand, to what was shown otherwise": (
        PICK,
        [
            go("shelf 1", "E", "mug 1"),
            take("mug 1", "shelf 1", "D"),
            go_open("drawer 1", "N", "pen 1"),
            closes("drawer 1", "N"),
            opens("drawer 1", "R", "pen 1"),
            go("countertop 1", "N", "egg 1"),
            ("examine countertop 1", "On the countertop 1, you see a egg 1.", "R"),
        ],
    ),
    "putting it down, and up again": (
        PICK,
        [
            go("shelf 1", "E", "mug 1"),
            take("mug 1", "shelf 1", "D"),
            put("mug 1", "shelf 1", "R"),
            take("mug 1", "shelf 1", "N"),
            put("mug 1", "shelf 1", "R"),
            go("countertop 1", "R", "mug 2"),
            take("mug 2", "countertop 1", "D"),
            go("desk 1", "D"),
            go("shelf 1", "R", "mug 1"),
            go("desk 1", "N"),
        ],
    ),
    "another receptacle of the target type counts, once": (
        "put a mug in cabinet",
        [
            go("shelf 1", "E", "mug 1"),
            take("mug 1", "shelf 1", "D"),
            go_closed("cabinet 1", "D"),
            go_closed("cabinet 2", "D"),
            go_closed("cabinet 1", "N"),
            opens("cabinet 1", "D"),
            closes("cabinet 1", "R"),
            opens("cabinet 1", "N"),
            put("mug 1", "cabinet 1", "D"),
        ],
    ),
    "treatments: wrong, repeated, undone, done again": (
        COOL,
        [
            go("shelf 1", "E", "mug 1"),
            take("mug 1", "shelf 1", "D"),
            go("sinkbasin 1", "N"),
            treat("clean", "mug 1", "sinkbasin 1", "N"),
            treat("clean", "mug 1", "sinkbasin 1", "R"),
            go_closed("fridge 1", "D"),
            treat("cool", "mug 1", "fridge 1", "D"),
            treat("cool", "mug 1", "fridge 1", "R"),
            go_closed("microwave 1", "N"),
            treat("heat", "mug 1", "microwave 1", "R"),
            go_closed("fridge 1", "N"),
            treat("cool", "mug 1", "fridge 1", "N"),
            go("cabinet 1", "D"),
            put("mug 1", "cabinet 1", "D"),
        ],
    ),
    "put away before it is treated, though it is the right place": (
        HEAT,
        [
            go("cabinet 1", "E", "mug 1"),
            take("mug 1", "cabinet 1", "D"),
            put("mug 1", "cabinet 1", "R"),
            take("mug 1", "cabinet 1", "N"),
            go_closed("microwave 1", "D"),
            put("mug 1", "microwave 1", "R"),
        ],
    ),
    "what the start already has in the target is fetched for treatment": (
        "cool some mug and put it in fridge",
        [
            go_closed("fridge 1", "E"),
            opens("fridge 1", "E", "mug 1"),
            take("mug 1", "fridge 1", "D"),
            treat("cool", "mug 1", "fridge 1", "D"),
            put("mug 1", "fridge 1", "D"),
        ],
    ),
    "refused actions: N, then R, and they change nothing": (
        PICK,
        [
            ("take mug 1 from shelf 1", NO, "N"),
            ("take mug 1 from shelf 1", NO, "R"),
            ("dance", NO, "N"),
            ("go to desk 1", NO, "N"),
            go("desk 1", "E"),
            go("shelf 1", "E", "mug 1"),
            ("put mug 1 in/on shelf 1", NO, "N"),
            take("mug 1", "shelf 1", "D"),
            ("move mug 1 to desk 1", NO, "N"),
            go("desk 1", "D"),
            put("mug 1", "desk 1", "D"),
        ],
    ),
    "harmless no-ops: N, then R": (
        PICK,
        [
            ("inventory", "You are not carrying anything.", "N"),
            ("look", "You are in the middle of a room. Looking quickly around you, you see nothing.", "N"),
            ("inventory", "You are not carrying anything.", "R"),
            ("look", "You are in the middle of a room. Looking quickly around you, you see nothing.", "R"),
            ("help", "Available commands: ...", "N"),
            ("sing", "You sing.", "N"),
            ("sing", "You sing.", "R"),
            go("shelf 1", "E", "knife 1", "apple 1"),
            ("slice apple 1 with knife 1", "You sliced the apple 1 with the knife 1.", "N"),
        ],
    ),
}


@pytest.mark.parametrize("old", [False, True], ids=["0.4", "2.1.1"])
@pytest.mark.parametrize("name", EPISODES)
def test_roles(name: str, old: bool) -> None:
    task, turns = EPISODES[name]
    record = label_record(attempt(task, turns, old), RuleJudge())
    got = [f"{s.action} -> {x.role} ({x.why})" for s, x in zip(record.segments, record.labels, strict=True)]
    want = [role for _, _, role in turns]
    assert [x.role for x in record.labels] == want, got
    assert all(x.why and x.source == "rule" and x.status == "judged" and x.confidence == 1.0 for x in record.labels)


@pytest.mark.parametrize("name", EPISODES)
def test_a_window_alone_decides(name: str) -> None:
    task, turns = EPISODES[name]
    windows = build_windows(attempt(task, turns))
    at_once = RuleJudge().judge(windows)
    assert [RuleJudge().judge([w])[0] for w in windows] == at_once
    assert RuleJudge().judge(windows[::-1])[::-1] == at_once
    mixed = [
        w for pair in zip(windows, build_windows(attempt(*EPISODES["cool, straight"])), strict=False) for w in pair
    ]
    assert RuleJudge().judge(mixed)[::2] == at_once[: len(mixed[::2])]


def test_a_truncated_history_does_no_harm() -> None:
    """Windows of others may come without earlier actions: labels stay sensible, nothing raises."""
    task, turns = EPISODES["heat, straight"]
    bare = [w._replace(earlier_actions=()) for w in build_windows(attempt(task, turns))]
    assert [x.role for x in RuleJudge().judge(bare)][:2] == ["E", "D"]
    assert RuleJudge().judge(bare)[3].role == "D"


def test_without_a_past_what_is_in_sight_is_still_known() -> None:
    turns = [go("shelf 1", "", "mug 1"), go_open("drawer 1", "", "pen 1"), opens("drawer 1", "", "pen 1")]
    assert label_record(attempt(PICK, turns), RuleJudge(), past=0).roles == ("E", "R", "R")


def test_undoing_and_doing_again_never_pays() -> None:
    """A loop of any two turns after the first round has no positive sum of the paper's constants."""
    worth = {"D": 1.0, "E": 0.5, "N": -0.1, "R": -0.5}
    start = [go("shelf 1", "", "mug 1"), take("mug 1", "shelf 1", ""), go_closed("cabinet 1", "")]
    held = [*start, opens("cabinet 1", "")]
    loops = [
        ("put a mug in cabinet", held, [closes("cabinet 1", ""), opens("cabinet 1", "")]),
        ("put a mug in cabinet", held, [go("desk 1", ""), go_closed("cabinet 1", "")]),
        (TWO, [*held, put("mug 1", "cabinet 1", "")], [take("mug 1", "cabinet 1", ""), put("mug 1", "cabinet 1", "")]),
        (PICK, start[:2], [put("mug 1", "shelf 1", ""), take("mug 1", "shelf 1", "")]),
        (HEAT, start[:2], [treat("heat", "mug 1", "microwave 1", ""), treat("cool", "mug 1", "fridge 1", "")]),
        (LOOK, start[:2], [use("desklamp 1", ""), ("inventory", "You are carrying: a mug 1.", "")]),
        (PICK, [], [go("desk 1", ""), go("shelf 1", "", "pen 1")]),
        (PICK, [], [go_closed("drawer 1", ""), opens("drawer 1", ""), closes("drawer 1", "")]),
    ]
    for task, begin, loop in loops:
        labels = label_record(attempt(task, [*begin, *loop * 6]), RuleJudge()).labels[len(begin) + len(loop) :]
        rounds = [labels[i : i + len(loop)] for i in range(0, len(labels), len(loop))]
        assert all(sum(worth[x.role or "N"] for x in round_) < 0 for round_ in rounds[1:]), (task, loop)


def test_other_tasks_go_to_the_generic_rules() -> None:
    record = replace(attempt(*EPISODES["cool, straight"]), task="Please cool a mug for me.")
    roles = label_record(record, RuleJudge()).roles
    assert "D" not in roles
    assert roles == label_record(record, RuleJudge("generic")).roles
    assert "D" in label_record(replace(record, task=COOL, domain="x"), RuleJudge("alfworld")).roles


def test_labels_are_the_same_in_a_longer_future() -> None:
    task, turns = EPISODES["treatments: wrong, repeated, undone, done again"]
    whole = label_record(attempt(task, turns), RuleJudge()).labels
    for n in range(len(turns)):
        assert label_record(attempt(task, turns[:n]), RuleJudge()).labels == whole[:n]


def test_why_is_in_words() -> None:
    [label] = RuleJudge().judge(build_windows(attempt(PICK, [go("shelf 1", "")])))
    assert label == RoleLabel(0, "E", why="first look at shelf 1", source="rule")
