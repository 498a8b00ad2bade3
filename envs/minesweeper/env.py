"""``triage/Minesweeper-v0``: Minesweeper in text, by default as LaMer plays it.

What it promises: the first cell is open, safe and does not win; the task id alone makes the board again; splits never
share a layout of mines. ``terminated`` means won or lost, ``truncated`` is the turn limit. The state is two small entries
of JSON. The mine that ends a game is shown as ``*``, which judges do not get to see.

What it leaves to you: prompts, and patience: some boards need more clicks than LaMer's seven turns, even of someone who
knows the mines (``solvable_only=True`` leaves these out).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from typing import Any, ClassVar

from triage_gym.cards import EnvCard
from triage_gym.envs.minesweeper import board as boards
from triage_gym.envs.minesweeper.board import Recipe, bits
from triage_gym.envs.minesweeper.game import MinesweeperGame
from triage_gym.envs.task_env import TaskEnv
from triage_gym.errors import InputError
from triage_gym.windows import Instead


class MinesweeperEnv(TaskEnv[MinesweeperGame]):
    """Minesweeper.

    Args:
        height: Rows.
        width: Columns.
        mines: Hidden mines.
        split: ``"train"``, ``"val"`` or ``"test"``.
        max_turns: Turns after which the episode is truncated; None for no limit.
        solvable_only: Only boards that someone who knows the mines can open within ``max_turns``; LaMer takes all.
        render_mode: ``"ansi"`` or None.

    Raises:
        InputError: For an argument of the wrong form.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "render_modes": ["ansi"],
        "render_fps": 1,
        "domain": "minesweeper",
        # Shown once a mine was opened, and never before.
        "outcome_text": (Instead("*", "?"),),
    }

    expert_knows: ClassVar[str] = "what it was shown"

    def __init__(
        self,
        height: int = 6,
        width: int = 6,
        mines: int = 3,
        *,
        split: str = "train",
        max_turns: int | None = 7,
        solvable_only: bool = False,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(split=split, max_turns=max_turns, render_mode=render_mode)
        if type(solvable_only) is not bool:
            raise InputError(f"Expected solvable_only to be True or False, got {solvable_only!r}")
        if solvable_only and max_turns is None:
            raise InputError("Expected max_turns with solvable_only, got None; without a limit every board is solvable")
        self.recipe = Recipe(height, width, mines, max_turns if solvable_only else None)

    @classmethod
    def card(cls) -> EnvCard:
        """What ``triage-gym envs list`` says about this environment."""
        return EnvCard("Minesweeper as in LaMer", "boards from a seed, any size", "yes", "none needed")

    def task_ids(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Ids of the tasks of this split from ``start`` to before ``stop``.

        Raises:
            InputError: If ``start`` is negative or there is no such ``stop``.
        """
        self._check_range(start, stop)
        if stop is None or stop > boards.MAX_NUMBER:
            raise InputError(f"Expected a `stop` of at most {boards.MAX_NUMBER}: boards are without end")
        return [self.recipe.name(self.split, number) for number in range(start, stop)]

    def mine_probabilities(self) -> dict[str, float] | None:
        """Exact probability of a mine in every closed cell, by the action that opens it, from what the board shows.

        None for a large board that is opened so raggedly that counting its layouts would take too long.

        Raises:
            ResetNeeded: Before the first reset.
        """
        game = self.game
        known = game.probabilities()
        return None if known is None else {game.name(cell): probability for cell, probability in known.items()}

    def expert_action(self) -> str | None:
        """The closed cell that is least likely a mine; None when the game is over.

        This expert knows what the board shows, and no more. Of several such cells it takes the one with the fewest mines
        to expect around it, which opens more at once, and of these the first. Where :meth:`mine_probabilities` is None it
        goes by the largest share of mines that a number beside the cell sees.

        Raises:
            ResetNeeded: Before the first reset.
        """
        game = self.game
        if game.won or game.lost:
            return None
        known = game.probabilities()
        probabilities = game.estimates() if known is None else known
        safest = min(probabilities.values())
        cells = [cell for cell, probability in probabilities.items() if probability == safest]
        near = game.board.near
        # The exact sum: `sum` rounds otherwise since Python 3.12, and so would break ties otherwise.
        return game.name(
            min(cells, key=lambda cell: (fsum(probabilities.get(other, 0.0) for other in bits(near[cell])), cell))
        )

    def expert_plan(self) -> list[str] | None:
        """Fewest actions that win from here, for someone who knows the mines; None when the game is lost.

        Raises:
            ResetNeeded: Before the first reset.
        """
        game = self.game
        return None if game.lost else [game.name(cell) for cell in game.board.clicks(game.open_cells)]

    def expert_distance(self) -> int | None:
        """Turns of :meth:`expert_plan`; 0 when won, None when lost.

        Raises:
            ResetNeeded: Before the first reset.
        """
        plan = self.expert_plan()
        return None if plan is None else len(plan)

    def task_state(self) -> dict[str, Any]:
        """The open cells and the mine that was opened (:mod:`triage_gym.facts`).

        Raises:
            ResetNeeded: Before the first reset.
        """
        return self.game.get_state()

    def belief(self) -> list[int]:
        """The numbers of the open cells, whose mines around them are known (:mod:`triage_gym.facts`).

        Raises:
            ResetNeeded: Before the first reset.
        """
        return list(bits(self.game.open_cells))

    def _draw(self) -> str:
        return self.recipe.name(self.split, int(self.np_random.integers(boards.MAX_NUMBER)))

    def _new(self, task_id: str) -> MinesweeperGame:
        return MinesweeperGame(task_id, boards.generate(task_id))

    def _restored(self, task_id: str, state: Mapping[str, Any]) -> MinesweeperGame:
        return MinesweeperGame(task_id, boards.generate(task_id), state)
