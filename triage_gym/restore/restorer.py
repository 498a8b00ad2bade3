"""Going back inside an episode, verified.

A :class:`Restorer` steps a stack of environment and wrappers, remembers what each turn answered, and can rewind to any
turn. It takes the first way that holds: the stack's native state, a copy of the stack, a replay of the turns from the
start, a full restart. What it promises:

- the generator, the time limit, the frame stacks and the running statistics between it and the environment come back
  with the point, and the continuation sees the same noise as the first time;
- a rewind is only called ``verified`` after the stack has answered, at the point, what it answered the first time:
  observation, reward, flags, admissible commands, success and score of at least one turn, and its state where it offers
  one. The first, second, fourth, eighth … rewind by native state or by copy must moreover repeat the *whole* recorded
  attempt, from its start and from the kept state, which finds a state that leaves something out once one of these attempts shows it;
- a way that once answered otherwise is not used again, and the reason is kept in :attr:`Restorer.reasons`.

What it leaves to you: environments whose steps change the world outside (a replay does that again).
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import gymnasium as gym
from gymnasium import logger

from triage_gym.errors import InputError, RestoreError
from triage_gym.records import RestoreStatus, RestoreStrategy, Snapshot
from triage_gym.restore.captures import Capture, CopyCapture, NativeCapture, why_not_copy, why_not_native
from triage_gym.restore.stack import episode_attributes, layers, put_layer, put_rng, take_layer, take_rng
from triage_gym.restore.trail import Reset, Start, Turn, admissible_of, invalid_of, observed_state, outcome_of, portable
from triage_gym.restore.values import fingerprint, independent, same

Choice = Literal["auto", "native", "copy", "replay", "restart"]
CHOICES: Final[tuple[Choice, ...]] = ("auto", "native", "copy", "replay", "restart")


class _Mismatch(Exception):
    """A restored stack answered something else than the first time."""


def _brief(observation: Any) -> str:
    return reprlib.repr(observation)


@dataclass(frozen=True, slots=True)
class Rewound:
    """Where a rewind led."""

    status: RestoreStatus
    strategy: RestoreStrategy
    prefix_length: int
    """Number of turns that stand before the point."""
    observation: Any
    info: dict[str, Any]
    """Info with the keys of a reset; what belongs to steps alone is left out."""


class Restorer:
    """Steps a stack and goes back to any turn of the running or just finished attempt, verified.

    Args:
        env: The stack, from the outermost layer that must come back.
        strategy: ``"auto"`` takes the first that holds; the name of a strategy takes only it, then the full restart.
        every: Turns between two states that are kept. Larger costs less a step and more a rewind (at most ``every``
            turns are walked again).

    Raises:
        InputError: If ``strategy`` is unknown or the stack cannot do it, or ``every`` is not positive.
    """

    def __init__(self, env: gym.Env[Any, Any], strategy: Choice = "auto", every: int = 8) -> None:
        if strategy not in CHOICES:
            raise InputError(f"Expected restore to be one of {CHOICES}, got {strategy!r}")
        if every < 1:
            raise InputError(f"Expected at least 1 turn between kept states, got {every}")
        self.env = env
        self.strategy: Final = strategy
        self.every: Final = every
        self.reasons: dict[str, str] = {}
        """Strategies that cannot be used here, with the reason."""
        for name, reason in (("native", why_not_native(env)), ("copy", why_not_copy(env))):
            if reason:
                self.reasons[name] = reason
        if strategy in self.reasons:
            raise InputError(f'Expected a stack that can do restore="{strategy}", but {self.reasons[strategy]}')
        self.turns: list[Turn] = []
        """The turns of the running attempt, those of its prefix included."""
        self.walked = 0
        """Turns that were taken again by rewinds, those of proofs included."""
        self._start: Start | None = None
        self._capture: Capture | None = None
        self._kept: list[tuple[int, Any]] = []
        self._held: dict[str, int] = {}

    @property
    def start(self) -> Start:
        """How the running attempt began; raises ResetNeeded before the first reset."""
        if self._start is None:
            raise gym.error.ResetNeeded("Cannot go back before env.reset() was called; call it first")
        return self._start

    @property
    def drew(self) -> bool:
        """Whether the environment's generator has moved since the episode began: its steps draw random numbers."""
        return repr(take_rng(self.env)) != repr(self.start.rng_after)

    def reset(self, *, seed: int | None, options: dict[str, Any] | None) -> Reset:
        """Begin a fresh episode and a fresh trail."""
        # Read through the property: an environment that never drew gets its generator here, not at its first draw.
        rng = None if seed is not None else dict(self.env.unwrapped.np_random.bit_generator.state)
        kept_options = None if options is None else independent(options)
        # What wrappers carry from episode to episode, such as a running mean, is part of how this one began.
        carried = [(layer, take_layer(layer)) for layer in layers(self.env) if episode_attributes(layer)]
        observation, info = self.env.reset(seed=seed, options=None if options is None else dict(options))
        self._start = Start(
            seed, kept_options, rng, independent(observation), independent(info), take_rng(self.env), carried
        )
        self._capture = self._pick()
        self._begin()
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the stack and record the turn."""
        kept_action = independent(action)
        result = self.env.step(action)
        observation, reward, terminated, truncated, info = result
        turns = self.turns
        turns.append(
            Turn(
                kept_action,
                independent(observation),
                float(reward),
                bool(terminated),
                bool(truncated),
                admissible_of(info),
                invalid_of(info),
                outcome_of(info),
            )
        )
        if self._capture is not None and len(turns) % self.every == 0 and not (terminated or truncated):
            self._kept.append((len(turns), self._capture.take()))
        return result

    def snapshot(self) -> Snapshot:
        """The point where the stack stands now, in the portable form (see :func:`triage_gym.restore.restore`).

        Raises:
            ResetNeeded: Before the first reset.
            InputError: If an action is neither text nor a whole number.
        """
        start = self.start
        observation = self.turns[-1].observation if self.turns else start.observation
        return Snapshot(
            fingerprint(observation, observed_state(self.env)), "replay", portable(start, self.turns).to_json()
        )

    def visit(self, pivot: int) -> Rewound | None:
        """Bring the stack to the point after the first ``pivot`` turns and forget no turn, to look at something there.

        Whoever looks may step :attr:`env`; :meth:`rewind` then begins an attempt, or another visit looks elsewhere.

        Returns:
            Where the stack stands, or None when no way led there.

        Raises:
            InputError: If ``pivot`` is not in ``[0, len(turns)]``.
        """
        found = self._go(pivot)
        if found is None and pivot == 0:
            try:
                observation, info = self._start_again()
            except Exception as error:  # noqa: BLE001 - whatever the reset raises, the start did not come back
                self._give_up("restart", 0, error)
                return None
            return Rewound("verified", "restart", 0, observation, self._as_reset_info(info))
        return found

    def rewind(self, pivot: int, visited: Rewound | None = None) -> Rewound:
        """Go back to the point after the first ``pivot`` turns; the turns from there on are forgotten.

        Args:
            pivot: Number of turns to keep.
            visited: What the last :meth:`visit` of this point gave, when the stack still stands there.

        Raises:
            InputError: If ``pivot`` is not in ``[0, len(turns)]``.
            RestoreError: If not even a reset succeeds.
        """
        found = visited or self._go(pivot)
        if found is None:
            return self._restart(pivot)
        del self.turns[pivot:]
        self._kept = [(index, state) for index, state in self._kept if index <= pivot]
        return found

    def _go(self, pivot: int) -> Rewound | None:
        """Go to a turn by the first way that holds, a full restart not among them."""
        if not 0 <= pivot <= len(self.turns):
            raise InputError(f"Expected a turn in [0, {len(self.turns)}] to go back to, got {pivot}")
        for name, way in self._ways(pivot):
            try:
                observation, info = way(pivot)
            except Exception as error:  # noqa: BLE001 - whatever a restored stack raises, the next way may still hold
                self._give_up(name, pivot, error)
                continue
            return Rewound("verified", name, pivot, observation, self._as_reset_info(info))
        return None

    def _ways(self, pivot: int) -> Iterator[tuple[RestoreStrategy, Callable[[int], Reset]]]:
        capture = self._capture
        if capture is not None:
            yield capture.name, self._from_kept
        if self.strategy in ("auto", "replay") and pivot > 0:
            yield "replay", self._replayed

    def _give_up(self, name: RestoreStrategy, pivot: int, error: Exception) -> None:
        reason = f"going back to turn {pivot} by {name} failed: {type(error).__name__}: {error}"
        known = name in self.reasons
        self.reasons[name] = reason
        if name in ("native", "copy"):
            self._capture, self._kept = None, []
        if not known:
            # An argument of its own: Gymnasium formats the message with %, which foreign text may hold.
            logger.warn("%s", f"{reason}. Another way is taken; what follows is still verified")

    def _from_kept(self, pivot: int) -> Reset:
        capture = self._capture
        assert capture is not None
        # Strictly before the pivot, so that the stack itself shows the observation at the pivot.
        at, state = max((x for x in self._kept if x[0] < pivot or x[0] == 0), key=lambda x: x[0])
        held = self._held.get(capture.name, 0)
        # What a state leaves out need not show in the first attempt; at powers of two the proofs cost next to nothing.
        if (held + 1) & held == 0:
            for first, kept in dict([self._kept[0], (at, state)]).items():
                self._put(capture, kept, first)
                self._walk(first, len(self.turns))
        elif pivot == 0 and self.turns:
            self._put(capture, state, at)
            self._walk(0, 1)
        self._put(capture, state, at)
        self._held[capture.name] = held + 1
        return self._walk(at, pivot)

    @staticmethod
    def _put(capture: Capture, state: Any, at: int) -> None:
        capture.put(state)
        if not capture.agrees(state):
            raise _Mismatch(f"get_state after set_state differs from the state that was recorded at turn {at}")

    def _replayed(self, pivot: int) -> Reset:
        self._start_again()
        return self._walk(0, pivot)

    def _walk(self, first: int, last: int) -> Reset:
        """Take the recorded turns ``first`` … ``last - 1`` again and hold every answer against the recorded one."""
        if first == last:
            start = self.start
            return independent(start.observation), {key: independent(value) for key, value in start.info.items()}
        for number in range(first, last):
            turn = self.turns[number]
            self.walked += 1
            observation, reward, terminated, truncated, info = self.env.step(independent(turn.action))
            now = (float(reward), bool(terminated), bool(truncated), admissible_of(info))
            if not same(observation, turn.observation):
                raise _Mismatch(f"turn {number} now shows {_brief(observation)} instead of {_brief(turn.observation)}")
            if now != (turn.reward, turn.terminated, turn.truncated, turn.admissible):
                raise _Mismatch(f"turn {number} shows the same, but reward, flags or admissible commands differ")
            if (invalid_of(info), outcome_of(info)) != (turn.invalid, turn.outcome):
                raise _Mismatch(f"turn {number} shows the same, but its success, score or invalid_action differ")
        return observation, info

    def _start_again(self) -> Reset:
        """Begin the recorded episode anew; its start must be the recorded one."""
        start = self.start
        calls = [start.options]
        if start.task_id and not (start.options and "task_id" in start.options):
            calls.append({**(start.options or {}), "task_id": start.task_id})
        for options in calls:
            if start.seed is None:
                put_rng(self.env, start.rng)
            for layer, state in start.carried:
                put_layer(layer, state)
            observation, info = self.env.reset(seed=start.seed, options=independent(options))
            if same(observation, start.observation) and admissible_of(info) == admissible_of(start.info):
                put_rng(self.env, start.rng_after)
                return observation, info
        raise _Mismatch(f"the episode began with {_brief(observation)} instead of {_brief(start.observation)}")

    def _restart(self, pivot: int) -> Rewound:
        start = self.start
        status: RestoreStatus = "verified" if pivot == 0 else "restarted"
        try:
            observation, info = self._start_again()
        except _Mismatch as error:
            self._give_up("restart", pivot, error)
            status = "mismatch"
            observation, info = self._reset_once(start)
        except Exception as error:
            raise RestoreError(f"No way led back to turn {pivot} of {self.env}, and its reset failed too") from error
        self._begin()
        return Rewound(status, "restart", 0, observation, self._as_reset_info(info))

    def _reset_once(self, start: Start) -> Reset:
        observation, info = self.env.reset(seed=start.seed, options=independent(start.options))
        start.observation, start.info = independent(observation), independent(info)
        start.rng_after = take_rng(self.env)
        return observation, info

    def _pick(self) -> Capture | None:
        if self.strategy in ("auto", "native") and "native" not in self.reasons:
            return NativeCapture(self.env)
        if self.strategy in ("auto", "copy") and "copy" not in self.reasons:
            return CopyCapture(self.env)
        return None

    def _begin(self) -> None:
        """Forget all turns and keep the state at the start, if the stack can give it."""
        self.turns = []
        self._kept = []
        while self._capture is not None:
            try:
                self._kept = [(0, self._capture.take())]
                return
            except Exception as error:  # noqa: BLE001 - a handle that cannot be copied, say: another way is left
                self.reasons[self._capture.name] = f"taking the state failed: {type(error).__name__}: {error}"
                self._capture = self._pick()

    def _as_reset_info(self, info: dict[str, Any]) -> dict[str, Any]:
        """Only the keys that a reset of this environment has: from ``info`` where it has them, else from the start."""
        return {key: info[key] if key in info else independent(value) for key, value in self.start.info.items()}
