"""Canaries: four turns whose roles nobody doubts, asked to find out what an endpoint can do.

:func:`probe` asks them on each rung of the ladder (``json_schema``, ``json_object``, ``text``) and says for each which
answers were sound, which labels were right, how long they took and what they cost; :func:`first_rung` asks one canary a rung
until an answer is sound, for a judge whose mode is ``auto``. What it leaves to you: four right labels do not make a good
judge (``triage-gym judge audit`` measures that), four wrong ones make a bad one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol, get_args

from triage_gym.protocols import Pair, Window
from triage_gym.records import Role

Rung = Literal["json_schema", "json_object", "text"]
RUNGS: Final[tuple[Rung, ...]] = get_args(Rung)
"""The ways to ask for JSON, the strictest first."""

_TASK: Final = "Put a clean apple in the fridge."
_ROOM: Final = "You are in a kitchen. You see a fridge 1, a drawer 1, a drawer 2, a sinkbasin 1 and a countertop 1."
_DRAWER: Final = Pair("open drawer 1", "You open the drawer 1. In it, you see nothing.")


def _canary(observation: str, action: str, answer: str, *past: Pair) -> Window:
    return Window(_TASK, "canary", len(past), past, observation, action, answer, ())


CANARIES: Final[tuple[tuple[Window, Role], ...]] = (
    (
        _canary(
            "You clean the apple 1 using the sinkbasin 1.",
            "move apple 1 to fridge 1",
            "You move the apple 1 to the fridge 1.",
            Pair("take apple 1 from countertop 1", "You pick up the apple 1 from the countertop 1."),
            Pair("clean apple 1 with sinkbasin 1", "You clean the apple 1 using the sinkbasin 1."),
        ),
        "D",
    ),
    (_canary(_ROOM, "go to countertop 1", "On the countertop 1, you see an apple 1 and a knife 1."), "E"),
    (_canary(_ROOM, "sing a song", "Nothing happens."), "N"),
    (
        _canary(
            "You close the drawer 1.",
            "open drawer 1",
            _DRAWER.observation,
            _DRAWER,
            Pair("close drawer 1", "You close the drawer 1."),
        ),
        "R",
    ),
)
"""Windows with their roles: one clear case of each."""


class Reply(NamedTuple):
    """What came of one canary."""

    role: Role | None
    kind: str = ""
    """What kind of failure it was, or ""."""
    why: str = ""
    thought: bool = False
    """Whether the model was seen to think."""
    in_reasoning: bool = False
    """Whether the answer stood in the reasoning field."""
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Asks(Protocol):
    """Asks one question in one way, once."""

    def __call__(self, windows: Sequence[Window], rung: Rung) -> Reply:
        """What came back; never an exception."""
        ...


@dataclass(frozen=True, slots=True)
class Tried:
    """How one rung did."""

    rung: Rung
    replies: tuple[Reply, ...]
    """One a canary, fewer where the first showed that the rest need not be asked."""
    seconds: float
    """All of them together, one after another."""

    @property
    def works(self) -> bool:
        """Whether each canary got a sound answer."""
        return len(self.replies) == len(CANARIES) and all(reply.role for reply in self.replies)

    @property
    def right(self) -> int:
        """How many labels were right."""
        return sum(reply.role == role for reply, (_, role) in zip(self.replies, CANARIES, strict=False))

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        asked = len(self.replies)
        return {
            "mode": self.rung,
            "works": self.works,
            "right": self.right,
            "canaries": len(CANARIES),
            "asked": asked,
            "labels": [reply.role for reply in self.replies],
            "expected": [role for _, role in CANARIES[:asked]],
            "failures": [reply.kind for reply in self.replies if reply.kind],
            "why": next((reply.why for reply in self.replies if reply.kind), ""),
            "thinks": any(reply.thought for reply in self.replies),
            "json_in_reasoning": sum(reply.in_reasoning for reply in self.replies),
            "seconds_a_call": self.seconds / asked if asked else 0.0,
            "prompt_tokens": sum(reply.prompt_tokens for reply in self.replies),
            "completion_tokens": sum(reply.completion_tokens for reply in self.replies),
        }


UNREACHED: Final = ("connection", "timeout", "rate_limited", "server")
"""Failures that may pass. A server that fails on a schema may answer without, so ``server`` is no reason to stop."""
HOPELESS: Final = ("setup", "internal", "key", "budget", "connection", "timeout", "rate_limited")
"""Failures that another rung does not mend."""


def probe(ask: Asks, clock: Callable[[], float] = time.monotonic) -> list[Tried]:
    """How each rung does; the rest is left out once the endpoint cannot be reached at all."""
    found: list[Tried] = []
    for rung in RUNGS:
        begun, replies = clock(), []
        for window, _ in CANARIES:
            replies.append(ask([window], rung))
            if replies[-1].kind in (*HOPELESS, "request", "server"):
                break
        found.append(Tried(rung, tuple(replies), clock() - begun))
        if replies[-1].kind in HOPELESS:
            break
    return found


def best(tried: Sequence[Tried]) -> Tried | None:
    """The rung to use: of those that work the one with most labels right, the strictest of equals; None when none works."""
    works = [one for one in tried if one.works]
    return max(works, key=lambda one: one.right) if works else None


def first_rung(ask: Asks) -> tuple[Rung | None, Reply]:
    """The strictest rung whose answer to one canary is sound, and the last reply; None when there is none.

    Where a rung works after a stricter one that the server failed on, that one is tried once more: the server may have been
    down then, which must not cost a whole run the stricter rung.
    """
    reply = Reply(None)
    failed: list[Rung] = []
    for rung in RUNGS:
        reply = ask([CANARIES[0][0]], rung)
        if reply.role:
            again = ((one, ask([CANARIES[0][0]], one)) for one in failed)
            return next((found for found in again if found[1].role), (rung, reply))
        if reply.kind in HOPELESS:
            break
        if reply.kind in UNREACHED:
            failed.append(rung)
    return None, reply
