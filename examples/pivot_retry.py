"""Pivotal retry on an environment of your own: a plain loop, and stable-baselines3 (extra ``sb3``) whose PPO learns.

With ``auto=True`` a bare ``reset()`` after a failure begins the next attempt at the first wrong turn: no loop knows of it.
"""

import gymnasium as gym
import numpy as np

from triage_gym.wrappers import PivotRetryWrapper, SegmentCreditWrapper


class Forks(gym.Env):
    """Six forks with a sign at each; whoever goes against a sign is in the mud and never comes out of it."""

    observation_space = gym.spaces.Box(0.0, 1.0, (3,), np.float32)  # how far, what the sign says, mud or not
    action_space = gym.spaces.Discrete(2)  # left, right

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.signs, self.fork, self.mud = self.np_random.integers(2, size=7), 0, False
        return self.look(), {}

    def step(self, action):
        self.mud = self.mud or int(action) != self.signs[self.fork]
        self.fork += 1
        won = self.fork == 6 and not self.mud
        return self.look(), float(won), self.fork == 6, False, {"success": won, "score": float(won)}

    def look(self):
        return np.array([self.fork / 6, self.signs[self.fork], self.mud], np.float32)


def first_mud(record):  # the reflector: the turn that led into the mud
    return next(s.index for s in record.segments if s.next_observation.endswith("1.0]"))


def stack():
    limited = gym.wrappers.TimeLimit(Forks(), 10)
    return SegmentCreditWrapper(PivotRetryWrapper(limited, first_mud, max_attempts=3, auto=True), credit="grpo")


def plain_loop(episodes=6):
    env, records = stack(), []
    env.action_space.seed(0)
    env.reset(seed=0)
    while len(records) < episodes:
        _, _, terminated, truncated, info = env.step(env.action_space.sample())
        if terminated or truncated:
            records.append(info["episode_record"])
            env.reset()  # a retry from the pivot after a failure, a new task otherwise
    return records


def under_sb3(steps=2560):
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    records = []

    def collect(names, _):
        records.extend(info["episode_record"] for info in names["infos"] if "episode_record" in info)
        return True

    vector = DummyVecEnv([stack] * 4)
    PPO("MlpPolicy", vector, n_steps=128, batch_size=256, learning_rate=3e-3, seed=0).learn(steps, callback=collect)
    return records


if __name__ == "__main__":
    for r in plain_loop():
        print(
            f"attempt {r.attempt + 1}: {'won' if r.success else 'lost'}, {r.prefix_length} turns kept, {r.restore_status}"
        )
    for part in np.array_split(np.array([r.success for r in under_sb3() if r.attempt == 0]), 4):
        print(f"sb3: {part.mean():.0%} of {len(part)} first attempts won")
