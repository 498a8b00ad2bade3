"""An environment in which A* of every turn under the even player is known, and that player."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any, ClassVar, NamedTuple

import gymnasium as gym
import numpy as np

from triage_gym.spaces import UnicodeText

TURNS, NEEDED = 4, 3


class Majority(gym.Env[str, str]):
    """Four turns of "left" or "right"; who went left three times or more has succeeded."""

    metadata: ClassVar[dict[str, Any]] = {"domain": "generic", "render_modes": []}

    def __init__(self) -> None:
        self.observation_space = UnicodeText(200)
        self.action_space = UnicodeText(20)
        self._sent: list[str] = []
        self._seed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self._seed = self._seed if seed is None else seed
        self._sent = []
        return self._seen(), self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._sent.append(action)
        over = len(self._sent) == TURNS
        won = over and self._sent.count("left") >= NEEDED
        info = {**self._info(), **({"success": won, "score": float(won)} if over else {})}
        return self._seen(), float(won), over, False, info

    def get_state(self) -> dict[str, Any]:
        return {"sent": list(self._sent), "seed": self._seed}

    def set_state(self, state: dict[str, Any]) -> None:
        self._sent, self._seed = list(state["sent"]), state["seed"]

    def _seen(self) -> str:
        return f"task {self._seed}, so far {' '.join(self._sent) or 'nothing'}"

    def _info(self) -> dict[str, Any]:
        return {"admissible_commands": ("left", "right"), "task": "go left", "task_id": f"t{self._seed}"}


class Noisy(Majority):
    """Draws a number in each step."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.np_random.random()
        return super().step(action)


class Forgetful(Majority):
    """Comes back elsewhere whatever the way."""

    begun: ClassVar[int] = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise TypeError("cannot be copied")

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        self._sent = ["?"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        _, info = super().reset(seed=seed, options=options)
        Forgetful.begun += 1
        return f"start {Forgetful.begun}", info


class Short(Majority):
    """Over after one turn, with outcomes that are no 0 and 1."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._sent.append(action)
        won = action == "left"
        info = {**self._info(), "success": won, "score": 5.5 if won else -1.5}
        return self._seen(), float(won), True, False, info


class Lost(Forgetful):
    """Over after one turn, and never again where it began."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        seen, reward, _, cut, info = super().step(action)
        return seen, reward, True, cut, {**info, "success": True, "score": 1.0}


class Even10(Majority):
    """Every outcome is 0.1."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        seen, reward, over, cut, info = super().step(action)
        return seen, reward, over, cut, {**info, **({"score": 0.1} if over else {})}


class Brittle(Majority):
    """Fails at every fortieth step."""

    taken: ClassVar[int] = 0

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        Brittle.taken += 1
        if Brittle.taken % 40 == 0:
            raise RuntimeError("it broke")
        return super().step(action)


class Nameless(Majority):
    """Gives its tasks no names."""

    def _info(self) -> dict[str, Any]:
        return {name: value for name, value in super()._info().items() if name != "task_id"}


class Loud(Majority):
    """Shouts how it ended."""

    metadata: ClassVar[dict[str, Any]] = {**Majority.metadata, "outcome_text": ("HOORAY",)}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        seen, reward, over, cut, info = super().step(action)
        return f"{seen} HOORAY" if over else seen, reward, over, cut, info


class Telling(Majority):
    """Says of itself that the first turn of all changed its task, and no other."""

    def task_state(self) -> bool:
        return len(self._sent) > 0


def chance(lefts: int, turns_left: int) -> float:
    """Of success for the even player with so many lefts and turns left."""
    return sum(comb(turns_left, k) for k in range(turns_left + 1) if lefts + k >= NEEDED) / 2**turns_left


def known(sent: Sequence[str], action: str) -> tuple[float, float]:
    """Q and V of ``action`` after ``sent``."""
    lefts, rest = list(sent).count("left"), TURNS - len(sent) - 1
    return chance(lefts + (action == "left"), rest), chance(lefts, rest + 1)


class Said(NamedTuple):
    """Decided commands."""

    commands: list[str]


class Nothing:
    """A memory of nothing."""

    def observe(self, action: str, observation: str) -> None:
        """Forget it."""

    def advise(self, remark: str, observation: str, action: str) -> None:
        """Forget it."""


class Recalling(Nothing):
    """Holds what it is told against what the observation says of it."""

    def __init__(self, observation: str) -> None:
        self._told: list[str] = []
        self._hold(observation)

    def observe(self, action: str, observation: str) -> None:
        self._told.append(action)
        self._hold(observation)

    def _hold(self, observation: str) -> None:
        assert observation.endswith(f"so far {' '.join(self._told) or 'nothing'}"), (observation, self._told)
        self.lefts = self._told.count("left")


class Even:
    """Draws evenly from the commands."""

    def begin(self, task: str, observation: str) -> Nothing:
        return Nothing()

    def act(
        self,
        memories: Sequence[Any],
        admissible: Sequence[Sequence[str]],
        rng: np.random.Generator | None,
        forced: Sequence[str] | None = None,
    ) -> Said:
        assert rng is not None
        return Said([commands[int(rng.integers(len(commands)))] for commands in admissible])


class Rising(Even):
    """Goes left the likelier the oftener it remembers to have gone left."""

    def begin(self, task: str, observation: str) -> Nothing:
        return Recalling(observation)

    def act(
        self,
        memories: Sequence[Any],
        admissible: Sequence[Sequence[str]],
        rng: np.random.Generator | None,
        forced: Sequence[str] | None = None,
    ) -> Said:
        assert rng is not None
        return Said(["left" if rng.random() < 0.3 + 0.2 * memory.lefts else "right" for memory in memories])
