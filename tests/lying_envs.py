"""Corridors that lie about their state, each in another way, for tests of what a retry is checked by.

Every text shows the noise of the environment's generator, and where one stands. A lie begins with the ``honest``-th
use of ``set_state`` and goes on until the next reset.
"""

from __future__ import annotations

import random
from typing import Any, Final

from envs_for_tests import Corridor, StatelessCorridor

FAR: Final = -100
"""No pit within reach: attempts end by the time limit, or at the exit."""


class Shown(StatelessCorridor):
    """Every text shows where one stands, and in which task."""

    def __init__(self) -> None:
        super().__init__(4, pit=FAR)

    def _noise(self) -> str:
        return f"{super()._noise()} Door {self.position} of {self.exit}."


class Liar(Shown, Corridor):
    """Honest itself; the first ``honest`` restores are honest in every subclass."""

    def __init__(self, honest: int = 0) -> None:
        super().__init__()
        self.honest, self.restores, self.since = honest, 0, -1
        self.lied = False
        """Whether a lie made a difference."""

    def reset(self, **arguments: Any) -> Any:
        self.since = -1
        return super().reset(**arguments)

    def set_state(self, state: dict[str, Any]) -> None:
        self.restores += 1
        self.since = -1
        if self.restores <= self.honest:
            self.go(state)
        else:
            self.since = 0
            self.lie(state)

    def go(self, state: dict[str, Any]) -> None:
        """Go there, honestly."""
        Corridor.set_state(self, state)

    def lie(self, state: dict[str, Any]) -> None:
        """Lie about going there."""
        self.lied = True
        self.go(state)

    def step(self, action: str) -> Any:
        answer = super().step(action)
        if self.since >= 0:
            self.since += 1
            answer = self.told(*answer)
        return answer

    def told(self, observation: str, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]) -> Any:
        return observation, reward, terminated, truncated, info


class StandsStill(Liar):
    """Does not go to the state at all, and says that it did."""

    said: dict[str, Any] | None = None

    def reset(self, **arguments: Any) -> Any:
        self.said = None
        return super().reset(**arguments)

    def lie(self, state: dict[str, Any]) -> None:
        self.lied |= (self.position, self.furthest) != (state["position"], state["furthest"])
        self.said = state

    def get_state(self) -> dict[str, Any]:
        return self.said or super().get_state()

    def step(self, action: str) -> Any:
        self.said, self.ended = None, False
        return super().step(action)


class StandsStillUnseen(StandsStill):
    """The same, but most texts do not show where one stands."""

    def _noise(self) -> str:
        return Corridor._noise(self).partition(" Door")[0]


class LiesLate(Liar):
    """Shows a text of its own only two turns after the point."""

    def told(self, observation: str, *rest: Any) -> Any:
        return (observation if self.since < 3 else f"{observation} It smells.", *rest)


class LiesInCommands(Liar):
    """Admits one command less."""

    def told(self, observation: str, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]) -> Any:
        commands = info["admissible_commands"][:-1]
        return observation, reward, terminated, truncated, {**info, "admissible_commands": commands}


class LiesInRewards(Liar):
    """Pays a little more."""

    def told(self, observation: str, reward: float, *rest: Any) -> Any:
        return (observation, reward + 2**-20, *rest)


class LiesInScores(Liar):
    """Tells another score."""

    def told(self, *answer: Any) -> Any:
        answer[-1]["score"] = 0.5
        return answer


class LiesOfSuccess(Liar):
    """Says that the exit was reached."""

    def told(self, *answer: Any) -> Any:
        answer[-1]["success"] = True
        return answer


class LiesOfValidity(Liar):
    """Calls its own commands invalid."""

    def told(self, *answer: Any) -> Any:
        answer[-1]["invalid_action"] = not answer[-1]["invalid_action"]
        return answer


class LosesItsGenerator(Liar):
    """Goes on with noise from elsewhere."""

    def _noise(self) -> str:
        return super()._noise() if self.since < 0 else f"You hear {random.SystemRandom().randrange(10**12)} drips."


class OpensASibling(Liar):
    """Goes to the same point of another task."""

    def lie(self, state: dict[str, Any]) -> None:
        self.lied = True
        self.go({**state, "exit": state["exit"] + 1})


class Crashes(Liar):
    """Raises."""

    def lie(self, state: dict[str, Any]) -> None:
        self.lied = True
        raise RuntimeError("no way back")


class Outside(Shown):
    """Keeps its position outside of itself, where no copy reaches."""

    outside: Final[dict[str, int]] = {}

    def __init__(self) -> None:
        self.outside["lied"] = False
        super().__init__()

    @property
    def lied(self) -> bool:
        return bool(self.outside["lied"])

    @property
    def position(self) -> int:
        self.outside["lied"] |= self.inside != self.outside["position"]
        return self.outside["position"]

    @position.setter
    def position(self, value: int) -> None:
        self.inside = self.outside["position"] = value


class HidesItsGenerator(Corridor):
    """Draws its noise from the machine: no point of an episode comes back, however it is gone to."""

    def __init__(self) -> None:
        super().__init__(4, pit=FAR)
        self.quiet = False

    def _noise(self) -> str:
        return "Silence." if self.quiet else f"You hear {random.SystemRandom().randrange(10**12)} drips."

    def reset(self, **arguments: Any) -> Any:
        self.quiet = True
        answer = super().reset(**arguments)
        self.quiet = False
        return answer
