"""The fast engine by itself: ALFWorld's quirks in a small household, states out and in, refusals."""

from __future__ import annotations

import copy
import json
import pickle
import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage_gym.envs.alfworld import wheel
from triage_gym.envs.alfworld.engine import FastEngine
from triage_gym.envs.alfworld.games import Game
from triage_gym.envs.alfworld.lockstep import pick
from triage_gym.errors import InputError, StateError, UnsupportedGame

NOTHING = "Nothing happens."
PROBLEM = """(define (problem plan_small)
(:domain alfred)
(:objects
  agent1 - agent
  CabinetType SinkBasinType SinkType MicrowaveType FridgeType DeskType - rtype
  CupType KnifeType AppleType DeskLampType PencilType - otype
  Cabinet_bar_1 Cabinet_bar_2 SinkBasin_bar_1 Sink_bar_1 Microwave_bar_1 Fridge_bar_1 Desk_bar_1 - receptacle
  Cup_bar_1 Cup_bar_2 Knife_bar_1 Apple_bar_1 DeskLamp_bar_1 Pencil_bar_1 - object
  loc_bar_0 loc_bar_1 loc_bar_2 loc_bar_3 loc_bar_4 loc_bar_5 loc_bar_9 - location
)
(:init
  (atLocation agent1 loc_bar_0)
  (receptacleType Cabinet_bar_1 CabinetType) (receptacleType Cabinet_bar_2 CabinetType)
  (receptacleType SinkBasin_bar_1 SinkBasinType) (receptacleType Sink_bar_1 SinkType)
  (receptacleType Microwave_bar_1 MicrowaveType) (receptacleType Fridge_bar_1 FridgeType)
  (receptacleType Desk_bar_1 DeskType)
  (openable Cabinet_bar_1) (openable Microwave_bar_1) (openable Fridge_bar_1)
  (receptacleAtLocation Cabinet_bar_1 loc_bar_1) (receptacleAtLocation Cabinet_bar_2 loc_bar_1)
  (receptacleAtLocation SinkBasin_bar_1 loc_bar_2) (receptacleAtLocation Sink_bar_1 loc_bar_2)
  (receptacleAtLocation Microwave_bar_1 loc_bar_3) (receptacleAtLocation Fridge_bar_1 loc_bar_4)
  (receptacleAtLocation Desk_bar_1 loc_bar_5)
  (objectType Cup_bar_1 CupType) (objectType Cup_bar_2 CupType) (objectType Knife_bar_1 KnifeType)
  (objectType Apple_bar_1 AppleType) (objectType DeskLamp_bar_1 DeskLampType) (objectType Pencil_bar_1 PencilType)
  (pickupable Cup_bar_1) (pickupable Cup_bar_2) (pickupable Knife_bar_1) (pickupable Apple_bar_1)
  (cleanable Cup_bar_1) (cleanable Cup_bar_2) (cleanable Knife_bar_1) (cleanable Apple_bar_1)
  (heatable Cup_bar_1) (heatable Cup_bar_2) (heatable Apple_bar_1)
  (coolable Cup_bar_1) (coolable Cup_bar_2) (coolable Apple_bar_1)
  (isReceptacleObject Cup_bar_1) (isReceptacleObject Cup_bar_2) (inReceptacleObject Pencil_bar_1 Cup_bar_1)
  (sliceable Apple_bar_1) (toggleable DeskLamp_bar_1)
  (canContain CabinetType CupType) (canContain CabinetType KnifeType) (canContain CabinetType AppleType)
  (canContain SinkBasinType CupType) (canContain SinkType CupType) (canContain FridgeType CupType)
  (canContain FridgeType AppleType) (canContain MicrowaveType CupType)
  (inReceptacle Cup_bar_1 Cabinet_bar_2) (inReceptacle Knife_bar_1 Cabinet_bar_2)
  (inReceptacle Cup_bar_2 SinkBasin_bar_1) (inReceptacle Cup_bar_2 Sink_bar_1)
  (inReceptacle Apple_bar_1 Fridge_bar_1) (inReceptacle DeskLamp_bar_1 Desk_bar_1)
  (objectAtLocation Cup_bar_1 loc_bar_1) (objectAtLocation Knife_bar_1 loc_bar_1)
  (objectAtLocation Cup_bar_2 loc_bar_2) (objectAtLocation Apple_bar_1 loc_bar_4)
  (objectAtLocation DeskLamp_bar_1 loc_bar_5) (objectAtLocation Pencil_bar_1 loc_bar_9)
)
(:goal (and (exists (?r - receptacle) (exists (?o - object) (and
  (heatable ?o) (objectType ?o CupType) (receptacleType ?r CabinetType) (isHot ?o) (inReceptacle ?o ?r))))))
)
"""


def small(problem: str = PROBLEM, **changes: Any) -> Game:
    grammar = wheel.grammar().replace("UNKNOWN GOAL", "put a hot cup in cabinet")
    fields = {"task_id": "small", "task_type": "pick_heat_then_place_in_recep", "split": ""}
    return Game(**{**fields, "pddl_domain": wheel.domain(), "grammar": grammar, "pddl_problem": problem, **changes})


@pytest.fixture
def engine() -> FastEngine:
    return FastEngine(small())


def play(engine: FastEngine, *commands: str) -> str:
    """Answer to the last of ``commands``, all of which must be admissible."""
    answer = ""
    for command in commands:
        assert command in engine.admissible_commands()
        answer = engine.step(command)
    return answer


def test_the_first_text_names_the_room_in_the_order_of_pddl_ids(engine: FastEngine) -> None:
    assert engine.reset() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\n"
        "You are in the middle of a room. Looking quickly around you, you see a cabinet 2, a cabinet 1, a desk 1, "
        "a fridge 1, a microwave 1, a sink 1, and a sinkbasinbasin 1.\n\n"
        "Your task is to: put a hot cup in cabinet."
    )
    assert engine.admissible_commands() == [
        "go to cabinet 1", "go to cabinet 2", "go to desk 1", "go to fridge 1", "go to microwave 1", "go to sink 1",
        "go to sinkbasinbasin 1", "help", "inventory", "look",
    ]  # fmt: skip


def test_looking_around_away_from_receptacles_sees_nothing_after_the_first_text(engine: FastEngine) -> None:
    assert engine.step("look") == "You are in the middle of a room. Looking quickly around you, you see nothing."


def test_help_begins_without_the_empty_line_of_the_grammar(engine: FastEngine) -> None:
    assert engine.step("help").startswith("Available commands:\n  look: ")


def test_a_receptacle_at_the_same_spot_needs_and_allows_no_walk(engine: FastEngine) -> None:
    assert (
        play(engine, "go to cabinet 1") == "You arrive at cabinet 1. On the cabinet 1, you see a cup 2, and a knife 1."
    )
    assert engine.step("go to cabinet 2") == NOTHING
    assert "go to cabinet 2" not in engine.admissible_commands()
    assert play(engine, "open cabinet 2") == "You open the cabinet 2. The cabinet 2 is open. In it, you see nothing."
    assert engine.step("look") == "You are facing the cabinet 2, and cabinet 1. Next to it, you see nothing."


def test_a_thing_is_next_to_the_receptacle_it_was_taken_from(engine: FastEngine) -> None:
    play(engine, "go to cabinet 1", "take cup 2 from cabinet 1", "open cabinet 2", "move cup 2 to cabinet 2")
    assert engine.step("look") == "You are facing the cabinet 2, and cabinet 1. Next to it, you see a cup 2."
    play(engine, "take cup 2 from cabinet 2", "move cup 2 to cabinet 1")
    assert engine.step("examine cabinet 2") == "The cabinet 2 is open. In it, you see nothing."
    assert engine.step("close cabinet 2") == "You close the cabinet 2."


def test_a_thing_in_a_sink_and_its_basin_leaves_one_of_them(engine: FastEngine) -> None:
    play(engine, "go to sink 1", "take cup 1 from sink 1")
    assert engine.step("examine sinkbasinbasin 1") == "On the sinkbasinbasin 1, you see a cup 1."
    assert engine.view().held == "cup 1"
    assert engine.view().contents["sinkbasinbasin 1"] == ("cup 1",)


def test_only_the_thing_in_hand_can_be_examined(engine: FastEngine) -> None:
    play(engine, "go to cabinet 1")
    assert engine.step("examine cup 2") == NOTHING
    play(engine, "take cup 2 from cabinet 1")
    assert play(engine, "examine cup 2") == "This is a normal cup 2. In it, you see a pencil 1."


def test_heat_cool_and_clean_show_on_what_is_no_container(engine: FastEngine) -> None:
    play(engine, "go to fridge 1", "open fridge 1", "take apple 1 from fridge 1")
    said = [play(engine, "examine apple 1")]
    said.append(play(engine, "cool apple 1 with fridge 1", "examine apple 1"))
    said.append(play(engine, "go to sinkbasinbasin 1", "clean apple 1 with sinkbasinbasin 1", "examine apple 1"))
    said.append(play(engine, "go to microwave 1", "heat apple 1 with microwave 1", "examine apple 1"))
    assert said == [
        "There's nothing special about apple 1.",
        "This is a cold apple 1.",
        "This is a cool and clean apple 1.",
        "This is a hot and clean apple 1.",
    ]


def test_treating_needs_no_open_door_and_keeps_the_thing_in_hand(engine: FastEngine) -> None:
    play(engine, "go to cabinet 1", "take cup 2 from cabinet 1", "go to microwave 1")
    assert play(engine, "heat cup 2 with microwave 1") == "You heat the cup 2 using the microwave 1."
    assert engine.step("inventory") == "You are carrying: a cup 2."


def test_a_plain_sink_cleans_nothing_in_the_newer_domain(engine: FastEngine) -> None:
    play(engine, "go to cabinet 1", "take cup 2 from cabinet 1", "go to sink 1")
    assert engine.step("clean cup 2 with sink 1") == NOTHING
    assert play(engine, "clean cup 2 with sinkbasinbasin 1") == "You clean the cup 2 using the sinkbasinbasin 1."


def test_slicing_reaches_into_closed_receptacles_at_the_spot(engine: FastEngine) -> None:
    play(engine, "go to cabinet 1", "take knife 1 from cabinet 1", "go to fridge 1")
    assert play(engine, "slice apple 1 with knife 1") == "You sliced the apple 1 with the knife 1."


def test_a_lamp_only_ever_turns_on(engine: FastEngine) -> None:
    play(engine, "go to desk 1")
    assert [play(engine, "use desklamp 1") for _ in range(2)] == ["You turn on the desklamp 1."] * 2
    assert engine.view().toggled == ("desklamp 1",)


def test_the_goal_is_read_at_every_step_and_can_be_lost_again(engine: FastEngine) -> None:
    play(engine, "go to cabinet 1", "take cup 2 from cabinet 1", "go to microwave 1", "heat cup 2 with microwave 1")
    assert not engine.won
    play(engine, "go to cabinet 1", "move cup 2 to cabinet 1")
    assert engine.won
    play(engine, "take cup 2 from cabinet 1")
    assert not engine.won
    engine.reset()
    assert not engine.won


def test_space_around_a_command_is_ignored_and_other_spelling_is_not(engine: FastEngine) -> None:
    assert engine.step("  go to desk 1\n") == "You arrive at desk 1. On the desk 1, you see a desklamp 1."
    for command in ("", " ", "Use desklamp 1", "use  desklamp 1", "use desklamp 1.", "examine", "go to desk 1"):
        assert engine.step(command) == NOTHING


def test_the_list_of_commands_is_the_callers_own(engine: FastEngine) -> None:
    before = engine.admissible_commands()
    engine.admissible_commands().clear()
    assert engine.admissible_commands() == before


# States -----------------------------------------------------------------------------------------------------------------


def observed(engine: FastEngine) -> tuple[object, ...]:
    """Everything that can be seen of an engine without changing it."""
    return engine.view(), engine.won, engine.admissible_commands(), engine.get_state()


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), before=st.integers(0, 30), after=st.integers(0, 30))
def test_a_state_brings_back_the_whole_future(seed: int, before: int, after: int) -> None:
    rng = random.Random(seed)
    engine, other = FastEngine(small()), FastEngine(small())
    for _ in range(before):
        engine.step(pick(engine.admissible_commands(), rng))
        other.step(pick(other.admissible_commands(), rng))
    state = json.loads(json.dumps(engine.get_state()))
    here = observed(engine)
    commands = []
    answers = []
    for _ in range(after):
        commands.append(pick(engine.admissible_commands(), rng))
        answers.append((engine.step(commands[-1]), observed(engine)))
    for restored in (other, engine, FastEngine(small())):
        restored.set_state(state)
        assert observed(restored) == here
        assert [(restored.step(c), observed(restored)) for c in commands] == answers


def test_a_state_does_not_change_with_the_engine_it_came_from(engine: FastEngine) -> None:
    play(engine, "go to cabinet 1", "take cup 2 from cabinet 1")
    state = engine.get_state()
    kept = copy.deepcopy(state)
    play(engine, "move cup 2 to cabinet 1", "go to desk 1")
    assert state == kept


def test_copies_and_pickles_go_on_from_where_the_engine_is(engine: FastEngine) -> None:
    play(engine, "go to cabinet 1", "take cup 2 from cabinet 1")
    for twin in (copy.deepcopy(engine), pickle.loads(pickle.dumps(engine))):  # noqa: S301 - our own bytes
        assert observed(twin) == observed(engine)
        assert twin.world is engine.world
        twin.step("move cup 2 to cabinet 1")
        assert engine.view().held == "cup 2"


def test_engines_of_equal_games_share_all_that_is_constant() -> None:
    assert FastEngine(small()).world is FastEngine(small(task_id="another name")).world


WRONG: list[tuple[str, Any]] = [
    ("version", 2),
    ("game", "0123456789abcdef"),
    ("location", 99),
    ("location", "kitchen"),
    ("location", True),
    ("held", -2),
    ("held", 6),
    ("opened", [99]),
    ("opened", [2]),
    ("opened", None),
    ("hot", [0, "1"]),
    ("hot", [-1]),
    ("contents", [[0]]),
    ("contents", {"0": [1]}),
    ("contents", [[0, [17]]]),
    ("floor", [[99, []]]),
    ("removed", [[1, [4]]]),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_a_state_that_is_none_is_refused_and_changes_nothing(engine: FastEngine, key: str, value: Any) -> None:
    play(engine, "go to cabinet 1", "take cup 2 from cabinet 1")
    before = observed(engine)
    with pytest.raises(StateError, match="Expected"):
        engine.set_state({**engine.get_state(), key: value})
    assert observed(engine) == before


@pytest.mark.parametrize("state", [None, [], "state", {}, {"version": 1}])
def test_what_is_no_state_at_all_is_refused(engine: FastEngine, state: Any) -> None:
    with pytest.raises(StateError, match="Expected a state"):
        engine.set_state(state)


# Games that it does not play --------------------------------------------------------------------------------------------


def changed(old: str, new: str) -> str:
    assert old in PROBLEM
    return PROBLEM.replace(old, new)


UNSUPPORTED = {
    "another predicate": changed("(:init", "(:init (slippery Cup_bar_1)"),
    "a receptacle where an object belongs": changed("(:init", "(:init (inReceptacle Sink_bar_1 Desk_bar_1)"),
    "a receptacle at two places": changed("(:init", "(:init (receptacleAtLocation Desk_bar_1 loc_bar_1)"),
    "two agents": changed("agent1 - agent", "agent1 agent2 - agent").replace(
        "(:init", "(:init (atLocation agent2 loc_bar_1)"
    ),
    "two things in hand": changed("(:init", "(:init (holds agent1 Cup_bar_1) (holds agent1 Cup_bar_2)"),
    "distances": changed("(:init", "(:init (= (distance loc_bar_0 loc_bar_1) 3)"),
    "a goal with or": changed("(isHot ?o)", "(or (isHot ?o) (isCool ?o))"),
    "a goal that forbids": changed("(isHot ?o)", "(not (isHot ?o))"),
    "a goal for all": changed("(exists (?r - receptacle)", "(forall (?r - receptacle)"),
    "a goal out of reach": changed("(receptacleType ?r CabinetType)", "(receptacleType ?r DeskType)"),
    "a goal with one variable twice": changed("(exists (?o - object)", "(exists (?r - object)"),
    "a goal with a variable of no type": changed("(exists (?o - object)", "(exists (?o)"),
    "a goal about what never changes": changed("(isHot ?o) (inReceptacle ?o ?r)", "(openable ?r)"),
    "a goal about two receptacles": changed("(isHot ?o)", "(inReceptacle ?o Sink_bar_1)"),
    "a goal about two things in hand": changed("(isHot ?o)", "(holds agent1 ?o) (holds agent1 Apple_bar_1)"),
    "a goal about a stranger": changed("(isHot ?o)", "(isHot Ghost_bar_1)"),
    "a goal with an argument too few": changed("(isHot ?o)", "(isHot)"),
    "a goal with an argument too many": changed("(isHot ?o)", "(isHot ?o ?r)"),
    "a goal with a fixed argument too few": changed("(receptacleType ?r CabinetType)", "(receptacleType ?r)"),
    "a goal with a list for a variable": changed("(exists (?o - object)", "(exists ((?o) - object)"),
    "a goal with too many instances": changed(
        "(:goal (and (exists (?r - receptacle)",
        "(:goal (and (exists (?r - receptacle " + " ".join(f"?t{i} - rtype ?u{i} - otype" for i in range(6)) + ")",
    ).replace("(isHot ?o)", "(isHot ?o) " + " ".join(f"(canContain ?t{i} ?u{i})" for i in range(6))),
    "an empty goal": PROBLEM.partition("(:goal")[0] + "(:goal (and)))",
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_game_it_cannot_play_faithfully_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedGame, match="Expected"):
        FastEngine(small(UNSUPPORTED[name]))


def test_a_domain_with_other_actions_is_refused() -> None:
    domain = wheel.domain()
    for old, new in (
        ("(not (opened ?r))\n            )\n    :effect", "(opened ?r)\n            )\n    :effect"),
        ("(:action look", "(:action stare"),
        ("  rtype\n  otype\n", "  rtype\n  otype\n  robot\n"),
        ("(isHot ?o - object)", "(isHot ?o - object ?p - object)"),
        ("?l - location, ?r", "?l - location ?r"),
    ):
        assert old in domain
        with pytest.raises(UnsupportedGame, match="Expected"):
            FastEngine(small(pddl_domain=domain.replace(old, new, 1)))


def test_a_game_without_an_agent_is_malformed() -> None:
    with pytest.raises(InputError, match="agent at a location"):
        FastEngine(small(changed("(atLocation agent1 loc_bar_0)", "")))


TRANSCRIPT = """
import hashlib, random, sys
from triage_gym.envs.alfworld import generator
from triage_gym.envs.alfworld.engine import FastEngine
from triage_gym.envs.alfworld.lockstep import pick
digest = hashlib.sha256()
for number in range(6):
    engine, rng = FastEngine(generator.generate(number)), random.Random(number)
    digest.update(engine.reset().encode())
    for _ in range(40):
        command = pick(engine.admissible_commands(), rng)
        digest.update(repr((command, engine.step(command), engine.won, engine.get_state())).encode())
print(digest.hexdigest())
"""


def test_a_play_repeats_bit_for_bit_under_any_hash_seed() -> None:
    def transcript(hash_seed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", TRANSCRIPT],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert transcript("0") == transcript("12345")
