"""Playing trials without torch: players that are functions, a loop over tasks, and what a turn costs by the clock.

Every trial draws from a generator of its own, named by seed, task and attempt, so the first attempts of two ways to retry
are the same, turn by turn. None of these players reads a remark: a retry differs from the attempt before it by where it
begins and by chance.

The clock looks afterwards: it takes the recorded turns again, in a stack without reflector and expert, and times the
player, the environment and the way back apart. What an oracle costs is thus no part of a turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from triage_gym.errors import InputError
from triage_gym.trials import Key, Trial, key_of, trials_of

if TYPE_CHECKING:
    import gymnasium
    import numpy as np

Player = Callable[[Any, Mapping[str, Any], "np.random.Generator"], Any]
"""Gives an action for an observation and its info; what is left to chance comes from the generator."""
MakePlayer = Callable[["gymnasium.Env[Any, Any]"], Player]
CLOCKED: Final = 100
"""Trials whose turns are timed."""


def random_player(env: gymnasium.Env[Any, Any]) -> Player:
    """Draws from the admissible commands, all alike."""

    def play(observation: Any, info: Mapping[str, Any], rng: np.random.Generator) -> Any:
        commands = info.get("admissible_commands")
        if not commands:
            raise InputError("Expected admissible commands in info, got none: this environment has no random player")
        return commands[int(rng.integers(len(commands)))]

    return play


def clumsy_expert(noise: float) -> MakePlayer:
    """The environment's expert, who draws a command instead with probability ``noise``, and where it knows no way."""

    def make(env: gymnasium.Env[Any, Any]) -> Player:
        ask = getattr(env.unwrapped, "expert_action", None)
        if not callable(ask):
            raise InputError(f"Expected an environment with expert_action() for this player, got {env.unwrapped}")
        draw = random_player(env)

        def play(observation: Any, info: Mapping[str, Any], rng: np.random.Generator) -> Any:
            action = None if rng.random() < noise else ask()
            return draw(observation, info, rng) if action is None else action

        return play

    return make


def player_of(name: str, noise: float) -> MakePlayer:
    """The player that a word names: ``random``, ``expert`` or the ``module:attr`` path of one.

    Raises:
        InputError: When there is nothing at the path, or it cannot be called.
    """
    if name == "random":
        return random_player
    if name == "expert":
        return clumsy_expert(noise)
    from triage_gym import registry

    found = registry.load(name)
    player = found() if isinstance(found, type) else found
    if not callable(player):
        raise InputError(f"Expected a player that can be called (observation, info, rng), got {found!r}")
    return lambda env: player


@dataclass(frozen=True, slots=True)
class Setting:
    """Who plays what, and how failures are retried."""

    env: str
    env_kwargs: Mapping[str, Any]
    split: str | None
    limit: int
    tasks: int
    attempts: int
    reflector: str | Mapping[str, Any]
    verify: str | Mapping[str, Any] | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Played:
    """Trials and what was noted besides."""

    trials: list[Trial]
    checks: dict[Key, str]
    """What the test of each retry's pivot said."""


def play_trials(setting: Setting, make_player: MakePlayer, retry_from: str) -> Played:
    """Play a trial at each task.

    Args:
        setting: The tasks and the rules.
        make_player: Makes the player of an environment.
        retry_from: ``pivot`` or ``start``.

    Raises:
        InputError: For a setting that does not fit the environment.
    """
    from triage_gym.trainers import tasks as numbered
    from triage_gym.wrappers import SegmentCreditWrapper

    config, base, measure = _base(setting)
    # Where everything begins anew there is no pivot to test.
    verify = None if retry_from == "start" else setting.verify
    rules = replace(config, reflector=setting.reflector, verify=verify, retry_from=retry_from)
    env = SegmentCreditWrapper(numbered.retrying(rules, base, setting.attempts, measure=measure), credit="grpo")
    try:
        player = make_player(env)
        tasks = numbered.Tasks(config, setting.split, setting.tasks, numbered.EVAL_SEED)
        records, checks = [], {}
        for number in range(len(tasks)):
            for attempt in range(setting.attempts):
                record, said = _attempt(env, player, tasks.start(number), number, attempt, setting.seed)
                records.append(record)
                if attempt and said["pivot_check"] != "none":
                    checks[key_of(record)] = str(said["pivot_check"])
                if record.success or record.error is not None:
                    break
    finally:
        env.close()
    return Played(trials_of(records), checks)


def _base(setting: Setting) -> tuple[Any, gymnasium.Env[Any, Any], bool]:
    """The config, the environment with its time limit, and whether its expert can name pivots."""
    from triage_gym.reflection.expert import why_no_distance
    from triage_gym.trainers import tasks
    from triage_gym.trainers.config import TrainConfig

    config = TrainConfig(env=setting.env, env_kwargs=setting.env_kwargs, limit=setting.limit).resolved()
    env = tasks.make_env(config, setting.split)
    # An expert that walks its way costs a whole episode a turn; only one that knows the distance is asked.
    knows = env.has_wrapper_attr("expert_distance") and not why_no_distance(env)
    return config, env, knows


def _attempt(
    env: gymnasium.Env[Any, Any],
    player: Player,
    start: tuple[int | None, dict[str, Any]],
    task: int,
    number: int,
    seed: int,
) -> tuple[Any, dict[str, Any]]:
    """One attempt: its record and what its reset said."""
    import numpy as np

    if number:
        observation, began = env.reset(options={"retry": True})
    else:
        observation, began = env.reset(seed=start[0], options={**start[1], "group_id": f"eval:{task}"})
    rng = np.random.default_rng([seed, task, number])
    info, ended = began, False
    while not ended:
        observation, _, terminated, truncated, info = env.step(player(observation, info, rng))
        ended = terminated or truncated
    return info["episode_record"], began


@dataclass(frozen=True, slots=True)
class Clock:
    """Time of some trials, taken again."""

    turns: int
    """Turns that the player acted."""
    turn_s: float
    """Seconds of the player and the environment in all of them."""
    retries: int
    replayed: int
    """Turns of prefixes that retries began with."""
    restore_s: float
    """Seconds of bringing the environment to where retries began, prefixes and checks of them included."""

    @property
    def a_turn(self) -> float:
        """Seconds of a generated turn."""
        return self.turn_s / self.turns

    @property
    def a_restore(self) -> float | None:
        """Seconds of bringing the environment to where a retry begins; None without retries."""
        return self.restore_s / self.retries if self.retries else None

    @property
    def a_replayed_turn(self) -> float | None:
        """The whole way back, laid on the turns of the prefix, in seconds; None where nothing was replayed."""
        return self.restore_s / self.replayed if self.replayed else None


def clock(
    setting: Setting,
    make_player: MakePlayer,
    trials: Sequence[Trial],
    now: Callable[[], float] = time.perf_counter,
) -> Clock | None:
    """What the turns of ``trials`` cost, the first :data:`CLOCKED` of them; None if they do not happen again as recorded.

    Args:
        setting: As they were played.
        make_player: The player is asked again at each turn, and its answer is put aside.
        trials: Played in this setting, task by task.
        now: The clock, in seconds: of the wall, unless another is given.
    """
    import numpy as np

    from triage_gym.trainers import tasks as numbered
    from triage_gym.wrappers import PivotRetryWrapper

    config, base, _ = _base(setting)
    env = PivotRetryWrapper(base, None, setting.attempts)
    turns = retries = replayed = 0
    turn_s = restore_s = 0.0
    try:
        player = make_player(env)
        tasks = numbered.Tasks(config, setting.split, setting.tasks, numbered.EVAL_SEED)
        for number, trial in enumerate(trials[:CLOCKED]):
            seed, options = tasks.start(number)
            for record in trial.records:
                rng = np.random.default_rng([setting.seed, number, record.attempt])
                begin = now()
                if record.attempt:
                    observation, info = env.reset(options={"retry": record.prefix_length})
                    restore_s += now() - begin
                    retries, replayed = retries + 1, replayed + record.prefix_length
                else:
                    observation, info = env.reset(seed=seed, options=options)
                for segment in record.segments[record.prefix_length :]:
                    if observation != segment.observation:
                        return None
                    begin = now()
                    player(observation, info, rng)
                    observation, _, _, _, info = env.step(segment.action)
                    turn_s += now() - begin
                    turns += 1
    finally:
        env.close()
    return Clock(turns, turn_s, retries, replayed, restore_s) if turns else None
