"""An expert that knows only what it has read: it searches, fetches, treats and delivers.

It sees what an agent sees (task, observations, admissible commands) and looks for the object in the receptacle types
where such things usually lie (:mod:`~triage_gym.envs.alfworld.placements`), likeliest first. That makes it a fair
teacher: its demonstrations hold nothing that a policy could not do from text. :func:`demonstrate` collects successful
episodes of it under noise. Full knowledge is in :mod:`~triage_gym.envs.alfworld.expert`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import gymnasium
import numpy as np

from triage_gym.domains.alfworld import Command, Goal, parse_command, split_name
from triage_gym.envs.alfworld import layouts, placements
from triage_gym.envs.alfworld.memory import Memory
from triage_gym.errors import InputError


@cache
def _typical(kind: str, place: str) -> float:
    """Chance that text type ``place`` holds an object of text type ``kind``, where the room has such a place."""
    place_names, kind_names = _names()
    receptacle, known = place_names.get(place), kind_names.get(kind)
    if receptacle is None or known is None:
        return 0.01
    return placements.rate(known, receptacle) if layouts.may_lie(known, receptacle) else 0.005


@cache
def _names() -> tuple[dict[str, str], dict[str, str]]:
    """Text types to ALFRED's: of receptacles, of objects."""
    return {r.lower(): r for r in layouts.receptacle_kinds()}, {o.lower(): o for o in layouts.object_kinds()}


class SearchingExpert:
    """Plays one episode from its text.

    Args:
        observation: The first observation.
        task: The instruction, when the observation does not hold it.

    Raises:
        InputError: If the task is none of the sentences of the six task types.
    """

    def __init__(self, observation: str, task: str = "") -> None:
        self.memory = Memory(observation, task)
        goal = self.memory.goal
        if goal is None:
            raise InputError(
                "Expected a task in one of the sentences of ALFWorld's six task types, got "
                f"{(task or observation)[-200:]!r}; the searching expert reads no other"
            )
        self.goal: Goal = goal
        self._refused: set[tuple[str, str]] = set()

    def observe(self, command: str, observation: str) -> None:
        """Take in an answer, whoever gave the command."""
        self.memory.update(command, observation)

    def act(self, admissible: Sequence[str]) -> str:
        """The next command, one of ``admissible``."""
        turn = _Turn(admissible)
        held = self.memory.holding
        if not held:
            return self._fetch(turn)
        if split_name(held)[0] != self.goal.object:
            return self._drop(turn, held)
        if self.goal.lamp is not None:
            return self._light(turn, self.goal.lamp)
        if self.goal.treatment is not None and not self.memory.ready(held):
            return self._treat(turn)
        return self._deliver(turn, held)

    def _fetch(self, turn: _Turn) -> str:
        known = [(o, p) for o, p in self.memory.where(self.goal.object) if self._wanted(o, p)]
        known.sort(key=lambda pair: (not self.memory.ready(pair[0]), pair[1] not in turn.here))
        for thing, place in known:
            take = turn.find("take", thing, place)
            if take:
                return take
            if place not in turn.here or place in self.memory.closed:
                return self._approach(turn, place)
        return self._search(turn, self.goal.object)

    def _wanted(self, thing: str, place: str) -> bool:
        """Whether ``thing`` must be fetched from ``place``: not when it lies ready at the goal."""
        if split_name(place)[0] != self.goal.receptacle:
            return True
        if self.goal.count > 1:
            return place != self._target()
        return not self.memory.ready(thing)

    def _target(self) -> str:
        """The receptacle to fill: the one that holds most of what is asked for, the first of them in the text."""
        counts = dict.fromkeys(self.memory.of_kind(self.goal.receptacle or ""), 0)
        for _, place in self.memory.where(self.goal.object):
            if place in counts:
                counts[place] += 1
        return max(counts, key=counts.__getitem__, default="")

    def _search(self, turn: _Turn, kind: str) -> str:
        """Look where ``kind`` usually lies; once everything is seen, look through it again."""
        unseen = self.memory.unseen()
        if not unseen:
            self.memory.contents.clear()
            unseen = list(self.memory.places)
        number: dict[str, int] = {}
        for place in self.memory.places:
            number[split_name(place)[0]] = number.get(split_name(place)[0], 0) + 1

        def worth(place: str) -> float:
            place_kind = split_name(place)[0]
            turns = (place not in turn.here) + (place in self.memory.closed)
            return _typical(kind, place_kind) / number[place_kind] / max(turns, 0.5)

        return self._approach(turn, max(unseen, key=worth))

    def _approach(self, turn: _Turn, place: str) -> str:
        """One step towards having ``place`` open in view."""
        if place in turn.here:
            return turn.find("open", "", place) or turn.find("examine", place, "") or turn.any()
        return turn.find("go", "", place) or turn.any()

    def _light(self, turn: _Turn, lamp: str) -> str:
        use = next((text for text, did in turn.commands if did.verb == "use" and did.object_type == lamp), "")
        if use:
            return use
        known = self.memory.where(lamp)
        lit = [pair for pair in known if pair[0] in self.memory.lit]
        return self._approach(turn, (lit or known)[0][1]) if known else self._search(turn, lamp)

    def _treat(self, turn: _Turn) -> str:
        treat = next((text for text, did in turn.commands if did.verb == self.goal.treatment), "")
        if treat:
            return treat
        places = self.memory.of_kind(self.goal.treatment_place or "")
        return self._approach(turn, places[0]) if places else turn.any()

    def _deliver(self, turn: _Turn, held: str) -> str:
        target = self._target()
        near = [p for p in self.memory.of_kind(self.goal.receptacle or "") if p in turn.here]
        if near and self.goal.count == 1:
            target = near[0]
        return turn.find("put", held, target) or self._approach(turn, target)

    def _drop(self, turn: _Turn, held: str) -> str:
        """Get rid of what is of no use, here if anything here takes it."""
        put = next((text for text, did in turn.commands if did.verb == "put"), "")
        if put:
            return put
        shut = [place for place in turn.here if turn.find("open", "", place)]
        if shut and _typical(split_name(held)[0], split_name(shut[0])[0]) > 0.005:
            return turn.find("open", "", shut[0])
        self._refused.update((held, place) for place in turn.here)
        open_to = [p for p in self.memory.places if (held, p) not in self._refused]
        if not open_to:
            return turn.any()
        kind = split_name(held)[0]
        return self._approach(
            turn, max(open_to, key=lambda p: _typical(kind, split_name(p)[0]) / (1 + (p in self.memory.closed)))
        )


class _Turn:
    """The admissible commands of one turn, taken apart."""

    def __init__(self, admissible: Sequence[str]) -> None:
        self.commands: list[tuple[str, Command]] = [(text, parse_command(text)) for text in admissible]
        seen = [did.object for _, did in self.commands if did.verb == "examine"]
        seen += [did.receptacle for _, did in self.commands if did.verb in ("open", "close", "put")]
        self.here = tuple(dict.fromkeys(seen))
        """Names of what can be reached without moving, in the order of the commands: a set's would be another in each
        process, and the first of them decides."""

    def find(self, verb: str, thing: str, place: str) -> str:
        """The admissible command of this form; empty when there is none."""
        for text, did in self.commands:
            if did.verb == verb and did.object == thing and did.receptacle == place:
                return text
        return ""

    def any(self) -> str:
        """Some admissible command: the first that goes anywhere, else the first."""
        return next((text for text, did in self.commands if did.verb == "go"), self.commands[0][0])


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a demonstration."""

    observation: str
    admissible: tuple[str, ...]
    command: str
    expert: bool
    """False when the command was drawn at random."""
    next_observation: str


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A successful episode of the searching expert under noise."""

    task_id: str
    task: str
    task_type: str
    turns: tuple[Turn, ...]

    def __len__(self) -> int:
        return len(self.turns)


def demonstrate(
    env: gymnasium.Env[str, str],
    rng: np.random.Generator,
    count: int = 30,
    noise: float = 0.4,
    max_attempts: int | None = None,
) -> list[Demonstration]:
    """Collect successful episodes; failed ones are thrown away.

    Args:
        env: An ALFWorld environment with a time limit on it.
        rng: Draws the seed of each episode and the noise.
        count: How many successes to return.
        noise: Chance, in [0, 1), that a turn's command is drawn evenly from the admissible ones but ``help``.
        max_attempts: Episodes to try before giving up; ``20 * count + 20`` when None.

    Raises:
        InputError: If ``noise`` or ``count`` is out of range, or ``max_attempts`` episodes did not hold ``count``
            successes.
    """
    if not 0 <= noise < 1:
        raise InputError(f"Expected noise in [0, 1), got {noise!r}")
    if count < 1:
        raise InputError(f"Expected count to be at least 1, got {count!r}")
    limit = 20 * count + 20 if max_attempts is None else max_attempts
    found: list[Demonstration] = []
    for _ in range(limit):
        demonstration = _episode(env, rng, noise)
        if demonstration is not None:
            found.append(demonstration)
        if len(found) == count:
            return found
    raise InputError(
        f"Expected {count} successful demonstrations, got {len(found)} in {limit} episodes; "
        "give more turns, less noise or more attempts"
    )


def _episode(env: gymnasium.Env[str, str], rng: np.random.Generator, noise: float) -> Demonstration | None:
    """One episode; None when it failed."""
    observation, start = env.reset(seed=int(rng.integers(2**31)))
    info: dict[str, Any] = start
    expert = SearchingExpert(observation, str(start["task"]))
    turns: list[Turn] = []
    terminated = truncated = False
    while not (terminated or truncated):
        admissible: tuple[str, ...] = tuple(info["admissible_commands"])
        choices = [c for c in admissible if c != "help"]
        by_expert = rng.random() >= noise
        command = expert.act(admissible) if by_expert else choices[int(rng.integers(len(choices)))]
        answer, _, terminated, truncated, info = env.step(command)
        expert.observe(command, answer)
        turns.append(Turn(observation, admissible, command, by_expert, answer))
        observation = answer
    if not info.get("success", False):
        return None
    return Demonstration(str(start["task_id"]), str(start["task"]), str(start["task_type"]), tuple(turns))
