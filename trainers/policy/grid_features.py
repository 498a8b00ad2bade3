"""Boards as numbers: Minesweeper and Sokoban read as what each command would do, for a network too small to see boards.

The facts are counted on the text that the agent is shown, by :mod:`triage_gym.trainers.policy.minefield` and
:mod:`triage_gym.trainers.policy.rooms`; which facts are good is left to be learnt. Texts that show neither board are read
as hashed words, a coarse fallback that keeps an episode going; :class:`HashedFeatures` does better on those.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from triage_gym.trainers.policy.features import PATTERN_BITS, Encoded, Register
from triage_gym.trainers.policy.grid_words import STATE, STATE_WORDS, TOKEN, TOKEN_WORDS, TURNS, bucket, row
from triage_gym.trainers.policy.hashed_features import HashedMemory, words_of
from triage_gym.trainers.policy.minefield import mines_of, read_minefield
from triage_gym.trainers.policy.remarks import PRIORS
from triage_gym.trainers.policy.rooms import MOST_TOKENS, plan_of, read_board

_OWN_BITS: Final = 3
"""Candidate features besides those of remarks: those that every policy has."""
_TURNS: Final = row(STATE, "turn", TURNS)


class GridMemory(HashedMemory):
    """Task, last action and observation, how often each command was sent, and the turns so far.

    Args:
        task: The instruction, "" when there is none.
        observation: First observation.
    """

    __slots__ = ("mines", "turn")

    def __init__(self, task: str, observation: str) -> None:
        super().__init__(task, observation)
        self.mines = mines_of(task)
        self.turn = 0

    def observe(self, action: str, observation: str) -> None:
        """Take in the answer to the action just sent."""
        super().observe(action, observation)
        self.turn += 1


class GridFeatures:
    """Features of boards.

    Args:
        remarks: Whether there are features of remarks.
    """

    states: Final = len(STATE_WORDS)
    tokens: Final = len(TOKEN_WORDS)
    tokens_per_command: Final = MOST_TOKENS

    def __init__(self, *, remarks: bool = False) -> None:
        self.priors = PRIORS if remarks else ()
        self.candidate_features = _OWN_BITS + len(self.priors)

    def begin(self, task: str, observation: str) -> GridMemory:
        """The memory of a new episode."""
        return GridMemory(task, observation)

    def encode(self, memory: GridMemory, admissible: Sequence[str], register: Register) -> Encoded:
        """The situation of an episode; every admissible command is a candidate."""
        commands = list(admissible)
        words, tokens = _read(memory, commands)
        number, tried = register.number, memory.bits.get
        keys = [number(t) << PATTERN_BITS | tried(text, 0) for text, t in zip(commands, tokens, strict=True)]
        if self.priors and memory.remarks:
            keys = memory.remarks.mark(keys, commands, memory.observation, _OWN_BITS)
        return Encoded([_TURNS[min(memory.turn, TURNS - 1)], *words], commands, keys)


def _read(memory: GridMemory, commands: list[str]) -> tuple[Sequence[int], Sequence[tuple[int, ...]]]:
    """State words, and the tokens of each command."""
    text = memory.observation
    field = read_minefield(text, memory.mines)
    if field is not None:
        known = field.tokens.get
        return field.words, [known(command) or _other_tokens(command) for command in commands]
    room = _played(text, tuple(commands))
    if room is not None:
        return room
    words = [STATE["other"], *bucket(STATE, words_of(text), "see")]
    return words, [_other_tokens(command) for command in commands]


@lru_cache(maxsize=4096)
def _played(observation: str, commands: tuple[str, ...]) -> tuple[Sequence[int], Sequence[tuple[int, ...]]] | None:
    """State words and tokens of a Sokoban board; None when it is none, or a command is no list of moves."""
    board = read_board(observation)
    plan = None if board is None else plan_of(commands)
    return None if board is None or plan is None else (board.words(), board.tokens(plan))


@lru_cache(maxsize=16_384)
def _other_tokens(command: str) -> tuple[int, ...]:
    return (TOKEN["other"], *bucket(TOKEN, words_of(command)[: MOST_TOKENS - 1], "word"))
