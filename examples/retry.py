"""Pivotal retry on ALFWorld: a clumsy player fails, and tries again from the turn where it went wrong.

Run it with ``python examples/retry.py``. With ``auto=True`` any loop retries by itself: a bare ``reset()`` after a failed
attempt begins the next one at the pivot, here the earliest turn that the rule judge calls a regression. What is restored
is verified against what was seen the first time.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from triage_gym.envs.alfworld.env import ALFWorldEnv
from triage_gym.wrappers import PivotRetryWrapper

LIMIT = 25


def clumsy_action(game: ALFWorldEnv, commands: list[str], rng: np.random.Generator) -> str:
    """The expert's command, or half the time any other."""
    expert = game.expert_action()
    return str(rng.choice(commands)) if expert is None or rng.random() < 0.5 else expert


def main() -> None:
    """Play three tasks with up to three attempts each."""
    rng = np.random.default_rng(0)
    game = ALFWorldEnv(split="valid_unseen")
    env = PivotRetryWrapper(gym.wrappers.TimeLimit(game, LIMIT), reflector="role", max_attempts=3, auto=True)
    for task in range(3):
        observation, info = env.reset(seed=task)
        print(f"\n{info['task']}")
        while True:
            done, turns = False, info["prefix_length"]
            start = f"attempt {info['attempt'] + 1}"
            if info["attempt"] > 0:
                start += f" from turn {info['pivot_step'] + 1} ({info['restore_strategy']}, {info['restore_status']})"
            while not done:
                observation, _, terminated, truncated, info = env.step(
                    clumsy_action(game, info["admissible_commands"], rng)
                )
                done, turns = terminated or truncated, turns + 1
            print(f"  {start}: {'won' if terminated else 'lost'} after {turns} turns, {observation.splitlines()[-1]}")
            if terminated:
                break
            observation, info = env.reset()
            if info["attempt"] == 0:
                print("  no attempts left")
                break
    print(f"\n{env.counts}")


if __name__ == "__main__":
    main()
