"""Environments for the tests of training with retries: one that counts its steps, one that lies about going back."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from envs_for_tests import Corridor

from triage_gym.records import EpisodeRecord, Reflection


class Counted(Corridor):
    """Counts the steps that all its members were asked for; going back by ``set_state`` repeats some."""

    asked: ClassVar[Counter[str]] = Counter()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Count and step."""
        Counted.asked[action] += 1
        return super().step(action)


class Liar(Corridor):
    """Claims to have gone back, and begins elsewhere whenever it is asked to begin the same episode again."""

    begun: ClassVar[Counter[int]] = Counter()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Another room at each reset of a seed after the first."""
        assert seed is not None
        observation, info = super().reset(seed=seed, options=options)
        Liar.begun[seed] += 1
        return (observation if Liar.begun[seed] <= 4 else f"{observation} It is not the same place."), info

    def get_state(self) -> dict[str, Any]:
        """Some state."""
        return {"nothing": 0}

    def set_state(self, state: dict[str, Any]) -> None:
        """Do nothing."""


class Doubtful:
    """A reflector of one's own: the turn of most doubt among those of little hope."""

    needs_facts = ("entropy", "value")

    def reflect(self, record: EpisodeRecord) -> Reflection:
        """Read both facts of each turn."""
        facts = [(float(s.info["entropy"]), -float(s.info["value"])) for s in record.segments]
        return Reflection("", facts.index(max(facts)), "doubtful")


class Demanding(Doubtful):
    """Asks for what no built-in policy knows."""

    needs_facts = ("regret",)
