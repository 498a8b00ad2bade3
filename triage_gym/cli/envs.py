"""``triage-gym envs``: which environments there are, and what one looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from triage_gym.cli.output import say
from triage_gym.display import table


@dataclass(frozen=True, kw_only=True, slots=True)
class List:
    """List the registered environments."""

    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> int:
        """Print a line for each environment."""
        from triage_gym import registry
        from triage_gym.windows import domain_of

        rows = []
        for name in registry.names("envs"):
            make = registry.factory("envs", name)
            metadata = getattr(make, "metadata", {})
            first = (make.__doc__ or "").strip().partition("\n")[0]
            rows.append([name, domain_of(metadata), first])
        say(table(["name", "domain", "what it is"], rows, "lll"))
        return 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Show:
    """Show an environment: its arguments, spaces, and a first observation."""

    name: Annotated[str, tyro.conf.Positional] = "alfworld"
    """A registered name, a Gymnasium id or a module:attr path."""
    seed: int = 0
    """Seed of the reset."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> int:
        """Make the environment, reset it once, print what came."""
        from triage_gym.cli.making import make_env

        env = make_env(self.name, limit=50, split=None, arguments={})
        try:
            observation, info = env.reset(seed=self.seed)
            inner = env.unwrapped
            commands = info.get("admissible_commands", [])
            say(f"{self.name}: {type(inner).__module__}:{type(inner).__qualname__}")
            say((type(inner).__doc__ or "").strip())
            say()
            say(f"observation space  {inner.observation_space}")
            say(f"action space       {inner.action_space}")
            for key in sorted(inner.metadata):
                say(f"{key:<18} {inner.metadata[key]}")
            say(f"info of reset      {', '.join(sorted(info))}")
            say()
            say(f"seed {self.seed}: {info.get('task_id', '')} {info.get('task_type', '')}")
            say(observation)
            say()
            say(f"{len(commands)} admissible commands: {', '.join(commands)}")
        finally:
            env.close()
        return 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Envs:
    """List the environments, or show one."""

    action: Annotated[List, tyro.conf.subcommand("list")] | Annotated[Show, tyro.conf.subcommand("show")]

    def run(self) -> int:
        """Run the chosen action."""
        return self.action.run()
