"""Windows, records and judges that the tests of composed judges share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from triage_gym.protocols import Facts, Pair, Window
from triage_gym.records import EpisodeRecord, RoleLabel, Segment


def window(step: int = 0, action: str = "look", **fields: Any) -> Window:
    """A window of a turn that shows something new, unless told otherwise."""
    given = {"observation": f"You are in room {step}.", "next_observation": f"Answer to {action}.", **fields}
    past = tuple(Pair(*pair) for pair in given.pop("past", ()))
    return Window("find the plate", "generic", step, past, future=(), action=action, **given)


def attempt(n: int, name: str = "a", **fields: Any) -> EpisodeRecord:
    segments = tuple(Segment(k, f"o{k}", f"{name}{k}", f"o{k + 1}") for k in range(n))
    return EpisodeRecord("g", segments=segments, start_observation="o0", task="t", **fields)


class Fake:
    """A judge that says what a function of the window says and remembers what it was asked."""

    def __init__(self, say: Callable[[Window], Any] = lambda w: "E", name: str = "fake", **attributes: Any) -> None:
        self.say, self.identity = say, {"name": name}
        self.asked: list[list[Window]] = []
        self.closed = 0
        self.usage: dict[str, float] = {"calls": 0}
        self._lock = threading.Lock()
        for key, value in attributes.items():
            setattr(self, key, value)

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        with self._lock:
            self.asked.append(list(windows))
            self.usage["calls"] += 1
        return [self.label(w) for w in windows]

    def label(self, w: Window) -> RoleLabel:
        said = self.say(w)
        if isinstance(said, RoleLabel):
            return said
        if said is None:
            return RoleLabel(w.step, None, why="no answer", source="fake", status="failed")
        return RoleLabel(w.step, said, 0.75, (0.1, 0.7, 0.1, 0.1), f"said of {w.action}", "fake")

    def close(self) -> None:
        self.closed += 1


class Sampled(Fake):
    """A judge whose answers vary: the n-th of each round says the n-th of ``roles``."""

    def __init__(self, roles: str) -> None:
        super().__init__()
        self.roles = roles

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        return self.sample(windows, 0)

    def sample(self, windows: Sequence[Window], index: int) -> list[RoleLabel]:
        self.asked.append(list(windows))
        return [RoleLabel(w.step, self.roles[index % len(self.roles)]) for w in windows]  # type: ignore[arg-type]


def facts(**known: Any) -> Facts:
    return Facts(**known)


class Silent:
    """A judge that does not say what its labels depend on."""

    def judge(self, windows: Sequence[Window]) -> list[RoleLabel]:
        return [RoleLabel(w.step, "N") for w in windows]
