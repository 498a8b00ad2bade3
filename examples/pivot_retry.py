"""Pivotal retry on an environment of your own: by a plain loop, and under stable-baselines3's DummyVecEnv while PPO learns.

Run it with ``python examples/pivot_retry.py``; the second half needs the extra ``sb3``. With ``auto=True`` a bare ``reset()``
after a failure begins the next attempt at the first wrong turn, so neither loop knows of retries; the records tell.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from triage_gym.records import EpisodeRecord
from triage_gym.wrappers import PivotRetryWrapper, SegmentCreditWrapper


class Forks(gym.Env[Any, Any]):
    """Six forks with a sign at each; whoever goes against a sign is in the mud and never comes out of it."""

    observation_space = gym.spaces.Box(0.0, 1.0, (3,), np.float32)
    """The fork as a share of the way, whether the sign points to the right, whether there is mud."""
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Put up new signs."""
        super().reset(seed=seed)
        self.signs, self.fork, self.mud = self.np_random.integers(2, size=7), 0, False
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Go left (0) or right (1)."""
        self.mud = self.mud or int(action) != self.signs[self.fork]
        self.fork += 1
        won = self.fork == 6 and not self.mud
        return self._look(), float(won), self.fork == 6, False, {"success": won, "score": float(won)}

    def _look(self) -> Any:
        return np.array([self.fork / 6, self.signs[self.fork], self.mud], np.float32)


def first_mud(record: EpisodeRecord) -> int:
    """A reflector: the turn that led into the mud."""
    return next(s.index for s in record.segments if s.next_observation.endswith("1.0]"))


def stack() -> gym.Env[Any, Any]:
    """Up to three attempts at the same signs, each recorded."""
    limited = gym.wrappers.TimeLimit(Forks(), 10)
    return SegmentCreditWrapper(PivotRetryWrapper(limited, first_mud, max_attempts=3, auto=True), credit="grpo")


def told(record: EpisodeRecord) -> str:
    """One line on an attempt."""
    kept = f"{record.prefix_length} turns kept ({record.restore_strategy}, {record.restore_status})"
    return f"{record.trial} attempt {record.attempt + 1}: {'won' if record.success else 'lost'}, {kept}"


def plain_loop(episodes: int = 6) -> list[EpisodeRecord]:
    """Any loop retries by itself."""
    env, records = stack(), []
    env.action_space.seed(0)
    env.reset(seed=0)
    while len(records) < episodes:
        _, _, terminated, truncated, info = env.step(env.action_space.sample())
        if terminated or truncated:
            records.append(info["episode_record"])
            env.reset()
    return records


def under_sb3(steps: int = 2560) -> list[EpisodeRecord]:
    """So does stable-baselines3, whose PPO learns here to follow the signs."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    records: list[EpisodeRecord] = []

    def collect(names: dict[str, Any], _: dict[str, Any]) -> bool:
        records.extend(info["episode_record"] for info in names["infos"] if "episode_record" in info)
        return True

    model = PPO(
        "MlpPolicy", DummyVecEnv([stack] * 4), n_steps=128, batch_size=256, learning_rate=3e-3, seed=0, device="cpu"
    )
    model.learn(steps, callback=collect)
    return records


if __name__ == "__main__":
    print("\n".join(map(told, plain_loop())))
    played = under_sb3()
    for name, part in (("first", played[:100]), ("last", played[-100:])):
        firsts = [record.success for record in part if record.attempt == 0]
        print(
            f"sb3, {name} 100 attempts: {len(part) - len(firsts)} retries, {np.mean(firsts):.0%} of first attempts won"
        )
