"""The expert's plans win and are shortest, from any state, in both grammars."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from triage_gym.envs.alfworld import games, generator
from triage_gym.envs.alfworld.engine import FastEngine
from triage_gym.envs.alfworld.expert import Expert
from triage_gym.envs.alfworld.games import TASK_TYPES, Game
from triage_gym.errors import UnsupportedGame

REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "alfworld"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="needs ../shared/data/alfworld")
BUSY = ("take ", "move ", "put ", "open ", "clean ", "heat ", "cool ", "use ")


def real_games() -> Iterator[Game]:
    """The real games that the fast engine plays."""
    for split in ("valid_seen", "valid_unseen"):
        for file in games.find(REAL, split):
            yield games.load(file)


def wander(engine: FastEngine, rng: random.Random, moves: int) -> None:
    """Random moves, half of them changes of the household."""
    for _ in range(moves):
        commands = engine.admissible_commands()
        busy = [c for c in commands if c.startswith(BUSY)]
        engine.step(rng.choice(busy if busy and rng.random() < 0.5 else commands))
        if engine.won:
            return


def check_shortest(game: Game, rng: random.Random, states: int) -> int:
    """No command brings the goal nearer by more than one turn, and the expert's by exactly one: the plan is shortest.

    Returns:
        How many transitions were checked.
    """
    expert, engine, checked = Expert(), FastEngine(game), 0
    for _ in range(states):
        if engine.won:
            break
        distance, advice, state = expert.distance(engine), expert.next_command(engine), engine.get_state()
        for command in engine.admissible_commands():
            engine.step(command)
            after = expert.distance(engine)
            checked += 1
            if distance is None:
                assert after is None
            else:
                assert after is None or after >= distance - 1, (game.task_id, command)
                assert command != advice or after == distance - 1, (game.task_id, command)
            engine.set_state(state)
        wander(engine, rng, 1)
    return checked


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_plans_are_shortest(task_type: str) -> None:
    rng = random.Random(7)
    assert sum(check_shortest(generator.generate(seed, task_type), rng, 12) for seed in range(4)) > 800


@needs_real
def test_plans_are_shortest_in_real_games() -> None:
    rng = random.Random(8)
    for game in real_games():
        assert check_shortest(game, rng, 3) > 0


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_it_wins_after_noise(task_type: str) -> None:
    rng = random.Random(3)
    for seed in range(25):
        engine = FastEngine(generator.generate(seed, task_type, "valid_unseen"))
        wander(engine, rng, rng.randrange(20))
        plan = Expert().solve(engine)
        for left in range(len(plan), 0, -1):
            assert Expert().distance(engine) == left
            assert engine.step(plan[len(plan) - left]) != "Nothing happens."
        assert engine.won
        assert Expert().distance(engine) == 0
        assert Expert().next_command(engine) is None


@needs_real
def test_it_wins_every_real_game_in_its_own_grammar() -> None:
    played = 0
    for game in real_games():
        engine = FastEngine(game)
        for command in Expert().solve(engine):
            assert engine.step(command) != "Nothing happens."
        assert engine.won
        played += any(" in/on " in c for c in Expert().solve(FastEngine(game)))
    assert played > 20


def test_a_dead_end_has_no_distance() -> None:
    game = generator.generate(0, "pick_and_place_simple")
    world = FastEngine(game).world
    wanted = {o for _, _, instances in world.goal.clauses[0] for i in instances for o in range(64) if i.inside >> o & 1}
    stuck_engine = FastEngine(game)
    kinds = {kind: o for o, types in enumerate(world.object_types) for kind in types}
    kind = next(k for k, o in kinds.items() if o not in wanted and world.pickupable >> o & 1)
    lines = [x for x in game.pddl_problem.split("\n") if not (x.startswith("(canContain") and kind in x.lower())]
    trapped = replace(game, pddl_problem="\n".join(lines))
    stuck_engine = FastEngine(trapped)
    view = stuck_engine.view()
    thing = stuck_engine.world.objects[kinds[kind]]
    place = next(r for r, held in view.contents.items() if thing in held)
    assert Expert().distance(stuck_engine) == len(game.walkthrough)
    for command in (f"go to {place}", f"open {place}", f"take {thing} from {place}"):
        stuck_engine.step(command)
    assert stuck_engine.view().held == thing
    assert Expert().distance(stuck_engine) is None
    assert Expert().plan(stuck_engine) is None
    assert Expert().next_command(stuck_engine) is None
    with pytest.raises(UnsupportedGame, match="out of reach"):
        Expert().solve(stuck_engine)
