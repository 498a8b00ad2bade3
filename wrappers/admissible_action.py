"""AdmissibleActionWrapper: a command by its number, for agents whose actions are numbers.

The number is an index into ``info["admissible_commands"]`` of the observation that the agent sees. An index of the space
that stands for no command now is an invalid action, told as such, never another command; so every action of the space can
be taken, as Gymnasium asks. What it leaves to you: to choose with the mask.
"""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from triage_gym.errors import InputError


class AdmissibleActionWrapper(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Turns a text action space into ``Discrete(max_actions)`` over the admissible commands.

    ``action_masks()`` (bool, shape ``(max_actions,)``) is what sb3-contrib and vector environments ask for;
    ``info["action_mask"]`` (int8, the same shape) is what ``action_space.sample(mask=…)`` wants. Put it outermost:
    judges and records below then see the commands' text.

    Args:
        env: An environment whose infos carry ``admissible_commands``.
        max_actions: Size of the action space; more admissible commands than this are an error.
        invalid_command: Text that the environment gets for an index that stands for no command now. The info of that step
            says ``invalid_action`` True.

    Raises:
        InputError: If ``max_actions`` is not positive, or ``invalid_command`` is no text.
    """

    def __init__(
        self, env: gym.Env[Any, Any], max_actions: int = 128, invalid_command: str = "(no such command)"
    ) -> None:
        if max_actions < 1:
            raise InputError(f"Expected `max_actions` to be at least 1, got {max_actions}")
        if not isinstance(invalid_command, str):
            raise InputError(f"Expected `invalid_command` to be text, got {invalid_command!r}")
        RecordConstructorArgs.__init__(self, max_actions=max_actions, invalid_command=invalid_command)
        gym.Wrapper.__init__(self, env)
        self.action_space = Discrete(max_actions)
        self._max_actions = max_actions
        self._invalid_command = invalid_command
        self._commands: tuple[str, ...] = ()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset; the info carries the first mask."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, self._with_mask(info)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step with the command of that index.

        Args:
            action: An int or a NumPy integer of the action space.

        Raises:
            InputError: If it is no integer, or outside the action space.
            ResetNeeded: Before the first reset.
        """
        command = self.command(action)
        invalid = int(action) >= len(self._commands)
        observation, reward, terminated, truncated, info = self.env.step(command)
        if invalid:
            info = {**info, "invalid_action": True}
        return observation, reward, terminated, truncated, self._with_mask(info)

    def command(self, action: Any) -> str:
        """The command that an index stands for now, or ``invalid_command``; raises as :meth:`step` does."""
        if isinstance(action, np.ndarray) and action.ndim == 0:
            action = action[()]
        if not isinstance(action, int | np.integer) or isinstance(action, bool):
            raise InputError(f"Expected an action that is a whole number, got {action!r}")
        if not self._commands:
            raise gym.error.ResetNeeded("There are no admissible commands before env.reset() or after the end; call it")
        if not 0 <= action < self._max_actions:
            raise InputError(
                f"Expected an action in [0, {self._max_actions - 1}], got {action}; choose one of the "
                f"{len(self._commands)} that action_masks() and info['action_mask'] allow"
            )
        return self._commands[int(action)] if action < len(self._commands) else self._invalid_command

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions stand for a command now, shape ``(max_actions,)``."""
        return np.arange(self._max_actions) < len(self._commands)

    def get_layer_state(self) -> list[str]:
        """The commands that indices stand for now."""
        return list(self._commands)

    def set_layer_state(self, state: list[str]) -> None:
        """Go back to a state of :meth:`get_layer_state`."""
        self._commands = tuple(state)

    def _with_mask(self, info: dict[str, Any]) -> dict[str, Any]:
        if "admissible_commands" not in info:
            raise InputError(
                'Expected an environment whose infos carry "admissible_commands", got one without; '
                "AdmissibleActionWrapper needs them"
            )
        commands = tuple(info["admissible_commands"])
        if len(commands) > self._max_actions:
            raise InputError(
                f"Expected at most max_actions={self._max_actions} admissible commands, got {len(commands)}; "
                f"make the wrapper with max_actions={len(commands)} or more"
            )
        self._commands = commands
        return {**info, "action_mask": self.action_masks().astype(np.int8)}
