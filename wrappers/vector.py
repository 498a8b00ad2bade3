"""A small vector of text environments that steps only the active ones, for groups of rollouts.

It promises: an episode that is over costs nothing until it is reset; an environment that raises, hangs or takes its
process down loses its own episode and disturbs no other; no result is ever paired with another action; and whatever
happens, a call comes back.

It is not a :class:`gymnasium.vector.VectorEnv`, and not by oversight. That interface steps *all* members on every
call and offers, for a member that is done, an automatic reset (which starts another task in its place) or the
``DISABLED`` mode, where ``SyncVectorEnv`` asserts that no one is done and ``AsyncVectorEnv`` steps the dead. A group
whose members end at different turns fits none of these. Its batching of infos also turns a 0.75 that follows a 0 into
0, and ``AsyncVectorEnv`` with its default shared memory returns text that never changes. So members are addressed by
index, in dicts, and infos arrive as the environment made them.

``AsyncVectorEnv`` is also what ``workers`` is measured against. After a time-out its late reply stays in the pipe, and
every later step returns the result of the action before, without an error; a worker that is killed leaves it in a
state that no call leads out of (``benchmarks/vector.py`` shows both with Gymnasium 1.4).

What is sent to worker processes and back is pickled by multiprocessing, through socket pairs that only these
processes hold; nothing is read from a file or from anyone else.

It leaves to you: which members to reset with what, and what to do with an episode whose last info has ``env_error``
(nothing can be learned from it). It is not safe to use from several threads at once.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

import gymnasium
from gymnasium.error import ClosedEnvironmentError, ResetNeeded

from triage_gym.errors import EnvironmentFailure, InputError
from triage_gym.wrappers._worker_failures import FailureCount
from triage_gym.wrappers._worker_local import Backend, LocalEnvs, Start
from triage_gym.wrappers._worker_pool import WorkerPool
from triage_gym.wrappers._worker_source import EnvSource, as_sources
from triage_gym.wrappers._worker_wire import Failure, Job, ResetResult, StepResult

__all__ = ["EnvSource", "ResetResult", "StepResult", "TextVectorEnv"]

logger = logging.getLogger(__name__)

STEP_TIMEOUT: Final = 60.0
"""Default of ``step_timeout`` with workers."""
RESET_TIMEOUT: Final = 300.0
"""Default of ``reset_timeout`` with workers."""


class TextVectorEnv:
    """Text environments side by side; each call names the members it means and touches no other.

    Example::

        with TextVectorEnv("triage/ALFWorld-v0", 8) as venv:
            observations = {i: r.observation for i, r in venv.reset(seed=[3] * 8).items()}  # a group: one task, 8 times
            while venv.active:
                results = venv.step({i: policy(observations[i]) for i in venv.active})
                observations |= {i: r.observation for i, r in results.items()}
            outcomes = [venv.final_infos[i] for i in range(venv.num_envs)]

    An environment that raises ends its episode: ``truncated`` is True, the reward 0.0, the observation empty and
    ``info["env_error"]`` says what happened; the others go on. The same holds for one that hangs or kills its process,
    when it lives in a worker. (``SystemExit`` and ``KeyboardInterrupt`` in this process are the caller's, whose signal
    handlers raise them, and pass; in a worker they are the environment's.) At its next reset it is built anew. With workers, the members that shared the process
    are brought back by replaying seed, options and actions, and the replay must show every observation again
    (otherwise that member's episode ends with ``env_error`` too); so is a member whose process died while it was
    stepped, up to ``max_restarts`` times.

    Args:
        env: One source for all members, or a sequence of one source each: a Gymnasium id, a registered name, a
            ``"module:attr"`` path, a config dict, an EnvSpec or a function that makes the environment. With workers
            a function must be picklable, that is, stand at the top of a module.
        num_envs: Number of members, with a single source.
        workers: 0 keeps the environments in this process (the fast way: about a microsecond a step). n spreads them
            over n supervised processes, for environments that are slow, may hang, or may crash.
        step_timeout: Seconds that one member's step may take, counted from when its worker turns to it; a worker that
            takes longer is killed. None means 60 with workers; ``math.inf`` waits for ever. Larger values suffer slow
            steps, smaller ones lose less time to a hang.
        reset_timeout: The same for one member's reset, and as many again to build it or bring it back. None means 300
            with workers.
        max_restarts: How many times in a row a member may fail (or be tried again after its process died) before it
            is retired. An episode that ends by itself starts the count anew.

    Raises:
        InputError: If an argument does not make sense or a source makes no environment.
        EnvironmentFailure: If a worker's environment cannot be built.
        Exception: Whatever the constructor of an environment in this process raises.
    """

    def __init__(
        self,
        env: EnvSource | Sequence[EnvSource],
        num_envs: int | None = None,
        *,
        workers: int = 0,
        step_timeout: float | None = None,
        reset_timeout: float | None = None,
        max_restarts: int = 3,
    ) -> None:
        sources = as_sources(env, num_envs)
        if workers < 0:
            raise InputError(f"Expected `workers` to be 0 (in this process) or more, got {workers}")
        if max_restarts < 0:
            raise InputError(f"Expected `max_restarts` to be 0 or more, got {max_restarts}")
        step_timeout = _timeout("step_timeout", step_timeout, STEP_TIMEOUT, workers)
        reset_timeout = _timeout("reset_timeout", reset_timeout, RESET_TIMEOUT, workers)
        self.num_envs = len(sources)
        self.workers = min(workers, self.num_envs)
        self.max_restarts = max_restarts
        self._closed = False
        self._active = [False] * self.num_envs
        self._failures = FailureCount(self.num_envs, max_restarts)
        self._final_infos: dict[int, dict[str, Any]] = {}
        self._backend: Backend
        if self.workers:
            pool = WorkerPool(sources, self.workers, step_timeout, reset_timeout, self._failures)
            self._backend = pool
            self.single_observation_space, self.single_action_space, self.metadata = self._build_all(pool)
        else:
            local = LocalEnvs(sources)
            self._backend = local
            first = local.envs[0]
            assert first is not None
            self.single_observation_space, self.single_action_space = first.observation_space, first.action_space
            self.metadata = copy.deepcopy(dict(first.metadata))

    def _build_all(self, pool: WorkerPool) -> tuple[Any, Any, dict[str, Any]]:
        try:
            built = pool.call({index: Job(index, "build") for index in range(self.num_envs)})
            for index, result in sorted(built.items()):
                if isinstance(result, Failure):
                    raise EnvironmentFailure(f"Environment {index} could not be built in a worker: {result.reason}")
        except BaseException:
            pool.close()
            raise
        observation_space, action_space, metadata = built[0]
        return observation_space, action_space, metadata

    @property
    def active(self) -> tuple[int, ...]:
        """Indices of the members whose episode goes on, ascending."""
        return tuple(index for index, active in enumerate(self._active) if active)

    @property
    def retired(self) -> tuple[int, ...]:
        """Indices of the members that failed more than ``max_restarts`` times in a row, ascending; they stay out."""
        return tuple(index for index in range(self.num_envs) if self._failures.retired(index))

    @property
    def final_infos(self) -> Mapping[int, dict[str, Any]]:
        """Last info of each member whose episode is over, kept until its next reset. A read-only view."""
        return MappingProxyType(self._final_infos)

    @property
    def envs(self) -> tuple[gymnasium.Env[Any, Any] | None, ...]:
        """The environments themselves, when they live in this process; None for one that awaits its rebuilding.

        Raises:
            InputError: With workers: what lives in another process cannot be handed out.
        """
        if not isinstance(self._backend, LocalEnvs):
            raise InputError(f"Expected `workers=0` to reach the environments, got workers={self.workers}")
        return tuple(self._backend.envs)

    def reset(
        self,
        members: Mapping[int, Start] | Iterable[int] | None = None,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
    ) -> dict[int, ResetResult]:
        """Begin a new episode of some members, or of all; a running one is given up.

        A member that cannot be reset stays inactive and its info has ``env_error``.

        Args:
            members: ``{index: (seed, options)}``, or the indices that ``seed`` and ``options`` are for, or None for
                all. Retired members may be among them.
            seed: A list with one seed for each of them, or, as in Gymnasium's vectors, an int that gives member i the
                seed ``seed + i``. A *group* plays one task, so it needs ``[seed] * n``. None goes on with each
                environment's random stream.
            options: Options of each of them, or one mapping for all. They are handed on, never changed.

        Returns:
            Index → observation and info, in the order of ``members``.

        Raises:
            InputError: If an index, a number of seeds or a combination of arguments is wrong; nothing is reset then.
            EnvironmentFailure: If every member of the vector is retired.
            ClosedEnvironmentError: After :meth:`close`.
        """
        requests = self._requests(members, seed, options)
        if len(self.retired) == self.num_envs:
            raise EnvironmentFailure(
                f"Expected an environment that works, got {self.num_envs} that failed more than max_restarts="
                f"{self.max_restarts} times; the last is {self._failures.verdict(self.num_envs - 1)}; mend it and make "
                "a new vector"
            )
        asked = {index: start for index, start in requests.items() if not self._failures.retired(index)}
        answers = self._ask(self._backend.reset, asked)
        results = {}
        for index in requests:
            self._final_infos.pop(index, None)
            answer = answers.get(index)
            if isinstance(answer, ResetResult):
                self._active[index] = True
            else:
                answer = ResetResult("", self._fail(index, answer))
            results[index] = answer
        return results

    def step(self, actions: Mapping[int, Any]) -> dict[int, StepResult]:
        """Send each named member its action. Members that are not named do not move and cost nothing.

        Args:
            actions: Index → action, of active members only.

        Returns:
            Index → observation, reward, terminated, truncated and info, in the order of ``actions``.

        Raises:
            InputError: If ``actions`` is no mapping or an index names no member; nothing is stepped then.
            ResetNeeded: If a member is not active; nothing is stepped then.
            ClosedEnvironmentError: After :meth:`close`.
        """
        if type(actions) is not dict and not isinstance(actions, Mapping):
            raise InputError(f"Expected actions as {{index: action}}, got {type(actions).__name__}")
        active = self._active
        for index in actions:
            if type(index) is not int or not 0 <= index < self.num_envs or not active[index]:
                self._refuse(actions)
        if self._closed:
            self._refuse(actions)
        answers = self._ask(self._backend.step, actions)
        results = {}
        for index in actions:
            answer = answers[index]
            if isinstance(answer, Failure):
                answer = StepResult("", 0.0, False, True, self._fail(index, answer))
            elif answer.terminated or answer.truncated:
                active[index] = False
                self._failures.clear(index)
                self._final_infos[index] = answer.info
            results[index] = answer
        return results

    def close(self) -> None:
        """Close every environment and end every worker, within seconds; repeating it is safe."""
        if not self._closed:
            self._closed = True
            self._active = [False] * self.num_envs
            self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = f"workers={self.workers}" if self.workers else "in this process"
        return f"<TextVectorEnv of {self.num_envs}, {len(self.active)} active, {where}>"

    def _ask(self, what: Callable[[Mapping[int, Any]], dict[int, Any]], of: Mapping[int, Any]) -> dict[int, Any]:
        try:
            return what(of)
        except InputError:
            # Refused before anything was done; an environment's own errors are among the answers.
            raise
        except BaseException:
            # What was done is unknown, so the episodes cannot go on.
            for index in of:
                self._active[index] = False
            raise

    def _fail(self, index: int, failure: Failure | None) -> dict[str, Any]:
        """The last info of a member that failed now, or that is retired and was not asked (``None``)."""
        if failure is None:
            reason = self._failures.verdict(index)
        else:
            reason = failure.reason
            self._failures.add(index, reason)
            logger.warning("Environment %d failed: %s", index, reason)
        self._active[index] = False
        self._final_infos[index] = {"env_error": reason}
        return {"env_error": reason}

    def _refuse(self, actions: Mapping[int, Any]) -> None:
        self._check_open()
        self._check_indices(actions)
        done = [index for index in actions if not self._active[index]]
        raise ResetNeeded(
            f"Expected actions for active members only, got one for {done}, whose episodes are over or never began; "
            "step the members in `active`, or reset these first"
        )

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedEnvironmentError("Expected an open TextVectorEnv, got one that was closed; make a new one")

    def _check_indices(self, indices: Iterable[Any]) -> None:
        for index in indices:
            if type(index) is not int or not 0 <= index < self.num_envs:
                raise InputError(f"Expected indices that are ints from 0 to {self.num_envs - 1}, got {index!r}")

    def _requests(
        self,
        members: Mapping[int, Start] | Iterable[int] | None,
        seed: int | Sequence[int | None] | None,
        options: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None,
    ) -> dict[int, Start]:
        self._check_open()
        if isinstance(members, Mapping):
            if seed is not None or options is not None:
                raise InputError("Expected seeds and options inside `members`, got them as arguments as well; drop one")
            self._check_indices(members)
            return {index: _start(index, start) for index, start in members.items()}
        indices = list(range(self.num_envs)) if members is None else list(members)
        self._check_indices(indices)
        if len(set(indices)) < len(indices):
            raise InputError(f"Expected each member once, got {indices}")
        seeds: Sequence[int | None]
        if seed is None:
            seeds = [None] * len(indices)
        elif isinstance(seed, Sequence):
            seeds = seed
        else:
            seeds = [seed + index for index in indices]
        each = options if isinstance(options, Sequence) else [options] * len(indices)
        for name, values in (("seed", seeds), ("options", each)):
            if len(values) != len(indices):
                raise InputError(f"Expected `{name}` to have one entry for each of {len(indices)}, got {len(values)}")
        return {
            index: _start(index, start) for index, start in zip(indices, zip(seeds, each, strict=True), strict=True)
        }


def _start(index: int, start: Any) -> Start:
    if not isinstance(start, tuple) or len(start) != 2:
        raise InputError(f"Expected (seed, options) for member {index}, got {start!r}")
    seed, options = start
    if not (seed is None or (isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0)):
        raise InputError(f"Expected the seed of member {index} to be None or an int from 0, got {seed!r}")
    if not (options is None or isinstance(options, Mapping)):
        raise InputError(f"Expected the options of member {index} to be None or a mapping, got {options!r}")
    return seed, options


def _timeout(name: str, value: float | None, default: float, workers: int) -> float:
    if value is None:
        return default if workers else math.inf
    if not workers:
        raise InputError(f"Expected no `{name}` without workers, got {value}: only another process can be interrupted")
    if not value > 0:
        raise InputError(f"Expected `{name}` to be positive, got {value}")
    return float(value)
