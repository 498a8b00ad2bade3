"""Probes: tiny environments whose right answers are known, for whoever tests a judge, a credit rule or a trainer.

Each isolates one difficulty and says what is right about it: ``optimal_return``, ``expert_action()``,
``expected_roles(actions)``, and ``telling_actions()``, an episode that shows the difficulty. All are drawn by the seed,
go out and in as JSON-able state, and pass :func:`~triage_gym.testing.check_text_env`, except :class:`SeedIgnoring`,
:class:`CrashAt` and :class:`HangAt`, which break exactly the promises named in ``breaks``.

The roles are those of a :class:`~triage_gym.records.RoleLabel`: D brings the goal nearer, E finds something out, R does
harm, N changes nothing. An invalid action is N.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from triage_gym.records import Role
from triage_gym.testing.probe import Effect, Probe


class OneTurn(Probe):
    """One turn decides: say the word of the task. A bandit with a context, for the first look at any learner."""

    WORDS: ClassVar[tuple[str, ...]] = ("apple", "pear", "plum", "quince")

    def opening(self, variant: int) -> tuple[str, str]:
        return f"Say {self.WORDS[variant]}.", f"The word is {self.WORDS[variant]}."

    def commands(self, variant: int, played: Sequence[str]) -> list[str]:
        return list(self.WORDS)

    def effect(self, variant: int, played: Sequence[str], action: str) -> Effect:
        won = action == self.WORDS[variant]
        return Effect(f"You said {action}.", "D" if won else "R", won)

    def best(self, variant: int, played: Sequence[str]) -> str | None:
        return self.WORDS[variant]


class DelayedCredit(Probe):
    """The first turn decides, the reward comes five turns later: credit must reach turn 0, and no other turn."""

    KEYS: ClassVar[tuple[str, ...]] = ("red", "blue", "green", "white")
    delay: ClassVar[int] = 5
    """Turns from the decision to the reward."""
    decisive_turn: ClassVar[int] = 0

    def opening(self, variant: int) -> tuple[str, str]:
        key = self.KEYS[variant]
        return f"Open the {key} door.", f"Keys hang on the wall. The door at the end of the corridor is {key}."

    def commands(self, variant: int, played: Sequence[str]) -> list[str]:
        return ["walk on"] if played else [f"take the {key} key" for key in self.KEYS]

    def effect(self, variant: int, played: Sequence[str], action: str) -> Effect:
        right = self.best(variant, ())
        if not played:
            return Effect("You take the key. The others are gone.", "D" if action == right else "R")
        if len(played) < self.delay:
            return Effect(f"You walk on: {self.delay - len(played)} steps to the door.", "N")
        return Effect("You try the key.", "N", played[0] == right)

    def best(self, variant: int, played: Sequence[str]) -> str | None:
        if not played:
            return f"take the {self.KEYS[variant]} key"
        return "walk on" if played[0] == self.best(variant, ()) else None


class PivotNeeded(Probe):
    """Six junctions, one wrong turn is fatal and shows at the end only: a retry must go back to just that turn.

    By chance 1 of 64 attempts gets through from the start; from :meth:`pivot` of :meth:`telling_actions`, 1 of 4.
    """

    variants: ClassVar[int] = 64
    junctions: ClassVar[int] = 6

    def opening(self, variant: int) -> tuple[str, str]:
        way = ", ".join(self.way(variant))
        return f"Find the way out: {way}.", f"You stand at the first junction. A note says: {way}."

    def way(self, variant: int) -> list[str]:
        """The right turns of a task."""
        return ["right" if variant >> k & 1 else "left" for k in range(self.junctions)]

    def commands(self, variant: int, played: Sequence[str]) -> list[str]:
        return ["left", "right"]

    def effect(self, variant: int, played: Sequence[str], action: str) -> Effect:
        way = self.way(variant)
        lost = list(played) != way[: len(played)]
        role: Role = "N" if lost else "D" if action == way[len(played)] else "R"
        number = len(played) + 1
        if number < self.junctions:
            return Effect(f"You go {action} and come to junction {number + 1}.", role)
        return Effect(f"You go {action} and see daylight or a wall.", role, role == "D")

    def best(self, variant: int, played: Sequence[str]) -> str | None:
        way = self.way(variant)
        return way[len(played)] if list(played) == way[: len(played)] else None

    def telling_actions(self) -> list[str]:
        """A failed episode: the fifth of the six turns is wrong."""
        way = self.way(self._begun())
        return [*way[:4], "left" if way[4] == "right" else "right", way[5]]

    def pivot(self, actions: Sequence[str]) -> int | None:
        """The turn to go back to: the first wrong one; None where none is wrong."""
        roles = self.expected_roles(actions)
        return roles.index("R") if "R" in roles else None


class DistractorTurn(Probe):
    """A bell that rings loudest and does nothing: credit for it is wrong, however often it comes before a success."""

    variants: ClassVar[int] = 2

    def opening(self, variant: int) -> tuple[str, str]:
        return f"Pull the {self.lever(variant)} lever, then leave.", "You see two levers, a golden bell, and the exit."

    def lever(self, variant: int) -> str:
        """The lever that opens the exit."""
        return ("left", "right")[variant]

    def commands(self, variant: int, played: Sequence[str]) -> list[str]:
        return ["pull the left lever", "pull the right lever", "ring the bell", "leave"]

    def effect(self, variant: int, played: Sequence[str], action: str) -> Effect:
        needed = f"pull the {self.lever(variant)} lever"
        if action == "leave":
            return Effect("You try the exit.", "D" if needed in played else "R", needed in played)
        if action == "ring the bell":
            return Effect("Hurrah! A fanfare sounds, and confetti rains on you!", "N")
        return Effect("Click.", "D" if action == needed and needed not in played else "N")

    def best(self, variant: int, played: Sequence[str]) -> str | None:
        needed = f"pull the {self.lever(variant)} lever"
        return "leave" if needed in played else needed

    def telling_actions(self) -> list[str]:
        """A success with the bell in it."""
        return ["ring the bell", f"pull the {self.lever(self._begun())} lever", "ring the bell", "leave"]


class RegressionInSuccess(Probe):
    """A success with harm on the way: the cup is dropped once. The turn must not be rewarded with the rest."""

    PLACES: ClassVar[tuple[str, ...]] = ("shelf", "table", "tray", "sill")

    def opening(self, variant: int) -> tuple[str, str]:
        return f"Put the cup on the {self.PLACES[variant]}.", f"A cup lies here. You see a {self.PLACES[variant]}."

    def commands(self, variant: int, played: Sequence[str]) -> list[str]:
        return ["drop the cup", "put the cup down", "look"] if self._held(played) else ["take the cup", "look"]

    def effect(self, variant: int, played: Sequence[str], action: str) -> Effect:
        place = self.PLACES[variant]
        if action == "take the cup":
            return Effect("You take the cup.", "D")
        if action == "drop the cup":
            return Effect("The cup is on the floor again.", "R")
        if action == "look":
            return Effect(f"You see a {place}, as before.", "N")
        return Effect(f"The cup stands on the {place}.", "D", True)

    def best(self, variant: int, played: Sequence[str]) -> str | None:
        return "put the cup down" if self._held(played) else "take the cup"

    def telling_actions(self) -> list[str]:
        """A success with a regression in it: turn 1."""
        return ["take the cup", "drop the cup", "take the cup", "put the cup down"]

    def _held(self, played: Sequence[str]) -> bool:
        moves = [action for action in played if action != "look"]
        return bool(moves) and moves[-1] == "take the cup"


class ExplorationInFailure(Probe):
    """A failure with good turns in it: boxes are looked into first. The looks must not be punished with the rest."""

    BOXES: ClassVar[tuple[str, ...]] = ("oak", "tin", "clay", "wax")

    def opening(self, variant: int) -> tuple[str, str]:
        return "Take the box with the coin.", "Four boxes stand here: oak, tin, clay and wax. You may take one."

    def commands(self, variant: int, played: Sequence[str]) -> list[str]:
        return [f"{verb} the {box} box" for verb in ("look into", "take") for box in self.BOXES]

    def effect(self, variant: int, played: Sequence[str], action: str) -> Effect:
        coin = self.BOXES[variant]
        if action.startswith("look into"):
            known = action in played or f"look into the {coin} box" in played
            holds = "a coin" if coin in action.split() else "nothing"
            return Effect(f"The box holds {holds}.", "N" if known else "E")
        won = action == f"take the {coin} box"
        return Effect("You take the box.", "D" if won else "R", won)

    def best(self, variant: int, played: Sequence[str]) -> str | None:
        return f"take the {self.BOXES[variant]} box"

    def telling_actions(self) -> list[str]:
        """A failure with two finds in it: two looks, the second at the coin, and then the wrong box."""
        coin = self.BOXES[self._begun()]
        other = self.BOXES[(self.variant + 1) % 4]
        return [f"look into the {other} box", f"look into the {coin} box", f"take the {other} box"]


class EndlessReading(Probe):
    """Books that always hold something new and never help: a judge that pays for news teaches to read, and nothing else.

    Three turns out of eleven commands solve it, in order, whatever is read between them: by chance a few of 100 attempts.
    The rule judge's generic rules call every page E and every step that the task needs N, so that a policy which learns
    from roles goes from some successes to none (role farming).
    """

    SHELVES: ClassVar[tuple[str, ...]] = ("north", "south", "east", "west", "upper", "lower", "inner", "outer")
    STEPS: ClassVar[tuple[str, ...]] = ("take the key", "unlock the door", "open the door")
    KINDS: ClassVar[tuple[str, ...]] = ("amber", "basalt", "copper", "damask", "ebony", "flint", "garnet", "hazel")
    THINGS: ClassVar[tuple[str, ...]] = ("anvils", "beetles", "comets", "dolphins", "engines", "ferns", "glaciers")
    variants: ClassVar[int] = 56
    max_turns: ClassVar[int] = 8

    def opening(self, variant: int) -> tuple[str, str]:
        return (
            "The door is locked, and you hold no key: take the key, unlock the door and open the door. Books tell of this and that.",
            self._place(0),
        )

    def commands(self, variant: int, played: Sequence[str]) -> list[str]:
        return [*(f"read a book of the {shelf} shelf" for shelf in self.SHELVES), *self.STEPS]

    def effect(self, variant: int, played: Sequence[str], action: str) -> Effect:
        done = self._done(played)
        if action not in self.STEPS:
            # Kinds and things come round after 8 and after 7 pages: none of them twice among the turns that a judge sees.
            page = variant + len(played)
            kind, thing = self.KINDS[page % len(self.KINDS)], self.THINGS[page % len(self.THINGS)]
            return Effect(f"The book tells of {kind} {thing}. {self._place(done)}", "N")
        right = action == self.STEPS[done]
        after = done + right
        return Effect(self._place(after), "D" if right else "N", True if after == len(self.STEPS) else None)

    def best(self, variant: int, played: Sequence[str]) -> str | None:
        return self.STEPS[self._done(played)]

    def _done(self, played: Sequence[str]) -> int:
        """How many of the steps were taken, in order."""
        done = 0
        for action in played:
            done += done < len(self.STEPS) and action == self.STEPS[done]
        return done

    @staticmethod
    def _place(done: int) -> str:
        """What is seen after ``done`` steps, in words of the task."""
        return (
            "The door is locked, and you hold no key.",
            "The door is locked, and you hold the key.",
            "You hold the key.",
        )[min(done, 2)]


class Unicode(Probe):
    """Texts of many scripts: what is not passed on code point by code point does not win.

    Two of the commands look alike and differ in their code points (composed and decomposed é).
    """

    WORDS: ClassVar[tuple[str, ...]] = (
        "caf\u00e9 \u2615",
        "cafe\u0301 \u2615",
        "\u5e84\u5b50 \u201c\u8776\u201d",
        "\u05e9\u05dc\u05d5\u05dd \U0001f40d\U0001f468\u200d\U0001f469\u200d\U0001f467",
    )

    def opening(self, variant: int) -> tuple[str, str]:
        word = self.WORDS[variant]
        return f"Say: {word}", f"\u201e{word}\u201c\nsteht da,\tund \u0394\u0395\u039b\u03a4\u0391."

    def commands(self, variant: int, played: Sequence[str]) -> list[str]:
        return list(self.WORDS)

    def effect(self, variant: int, played: Sequence[str], action: str) -> Effect:
        won = action == self.WORDS[variant]
        return Effect(f"\u00ab{action}\u00bb", "D" if won else "R", won)

    def best(self, variant: int, played: Sequence[str]) -> str | None:
        return self.WORDS[variant]


class SeedIgnoring(PivotNeeded):
    """Draws its task from fresh entropy whatever the seed: groups of one seed do not share a task."""

    breaks: ClassVar[frozenset[str]] = frozenset({"test_same_seed_same_episode"})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return super().reset(seed=random.SystemRandom().randrange(1 << 31), options=options)


class CrashAt(DelayedCredit):
    """Raises RuntimeError at step ``at`` (from 1) of every episode: a worker must survive it."""

    breaks: ClassVar[frozenset[str]] = frozenset({"test_episodes_can_be_played"})

    def __init__(self, at: int = 3, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.at = at

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if not self.over and self.turns + 1 == self.at:
            raise RuntimeError(f"the probe crashes at step {self.at}, as it should")
        return super().step(action)


class HangAt(DelayedCredit):
    """Sleeps for ``seconds`` at step ``at`` (from 1) of every episode: a deadline must end it. Sleep can be interrupted."""

    breaks: ClassVar[frozenset[str]] = frozenset({"test_episodes_can_be_played"})

    def __init__(self, at: int = 3, seconds: float = 3600.0, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.at, self.seconds = at, seconds

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if not self.over and self.turns + 1 == self.at:
            time.sleep(self.seconds)
        return super().step(action)


GOOD: Final[tuple[type[Probe], ...]] = (
    OneTurn,
    DelayedCredit,
    PivotNeeded,
    DistractorTurn,
    RegressionInSuccess,
    ExplorationInFailure,
    EndlessReading,
    Unicode,
)
"""Probes that keep every promise."""
BAD: Final[tuple[type[Probe], ...]] = (SeedIgnoring, CrashAt, HangAt)
"""Probes that break the promises named in ``breaks``."""
