"""Two engines held against each other, step by step: the check that the fast engine is the real one.

Promises: every observation, ``won`` and the whole list of admissible commands are compared at every step of a play that
leans to commands that change something, with inadmissible ones among them. Leaves to you: which games and how many.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

IDLE: Final = frozenset({"go", "look", "inventory", "help", "examine"})
"""First words of commands that change nothing but the agent's place."""
INTERESTING: Final = 0.6
"""Share of steps that take a command that changes something, where there is one."""
INADMISSIBLE: Final = 0.04
_NONSENSE: Final = ("", "xyzzy", "go to nowhere 1", "take", "look around", "open fridge 1 now")


class Player(Protocol):
    """What is compared."""

    @property
    def won(self) -> bool:
        """Whether the goal holds now."""
        ...

    def reset(self) -> str:
        """Go to the first state; its text."""
        ...

    def step(self, command: str) -> str:
        """Do ``command``; the text that answers it."""
        ...

    def admissible_commands(self) -> list[str]:
        """Every command that does something now."""
        ...


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two engines part."""

    step: int
    """0 for the start."""
    command: str
    what: str
    """``observation``, ``won`` or ``admissible commands``."""
    first: object
    second: object


def compare(
    first: Player, second: Player, rng: random.Random, steps: int, plan: Sequence[str] = ()
) -> Difference | None:
    """The first difference in one play from the start, or None.

    Args:
        first: An engine; its admissible commands are played.
        second: Another, of an equal game.
        rng: Picks the commands.
        steps: How many.
        plan: Commands to play first, such as a walkthrough, so that games are also won.
    """
    answers = first.reset(), second.reset()
    command = ""
    for step in range(steps + 1):
        for what, a, b in _observed(first, second, answers):
            if a != b:
                return Difference(step, command, what, a, b)
        command = plan[step] if step < len(plan) else pick(first.admissible_commands(), rng)
        if step < steps:
            answers = first.step(command), second.step(command)
    return None


def pick(admissible: Sequence[str], rng: random.Random) -> str:
    """A command to play: mostly one that changes something, sometimes one that is not admissible."""
    if rng.random() < INADMISSIBLE:
        return rng.choice(_NONSENSE)
    changing = [c for c in admissible if c.partition(" ")[0] not in IDLE]
    return rng.choice(changing if changing and rng.random() < INTERESTING else admissible)


def _observed(first: Player, second: Player, answers: tuple[str, str]) -> Iterator[tuple[str, object, object]]:
    yield ("observation", *answers)
    yield "won", first.won, second.won
    yield "admissible commands", first.admissible_commands(), second.admissible_commands()
