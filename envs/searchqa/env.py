"""SearchQAEnv: Search-R1's question answering with a search engine as a Gymnasium environment.

What it promises: actions, observations and turns of Search-R1's loop, from :mod:`.protocol`; the same passages for the same
query where the passages are local; a state of a few hundred bytes that restores at every turn.

What it leaves to you: real questions and their corpus (the embedded ones are the Factbook's); cutting observations to a
number of tokens, masking them out of the loss, and Search-R1's own prompt; what a server answers, which a state does not
hold (within a process the last few thousand answers are kept, and a restored episode gets the same ones again).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from triage_gym.cards import EnvCard
from triage_gym.envs.searchqa.corpus import Retriever, open_corpus
from triage_gym.envs.searchqa.embedded import FactbookRetriever, factbook, factbook_tasks
from triage_gym.envs.searchqa.game import SearchGame, Setting
from triage_gym.envs.searchqa.layout import PLACES
from triage_gym.envs.searchqa.protocol import RULES, Preset
from triage_gym.envs.searchqa.scoring import METRICS, Metric
from triage_gym.envs.searchqa.server import Dialect, HTTPRetriever
from triage_gym.envs.searchqa.tasks import Task, Tasks, check_names, load_tasks
from triage_gym.envs.task_env import TaskEnv
from triage_gym.errors import InputError, StateError

MOST_PASSAGES: Final = 50
_STATE_KEYS: Final = ("turn", "answer", "place", "retrieved", "searched")
_NO_CORPUS: Final = (
    "Expected a corpus or a server for questions of your own, got neither: the embedded Factbook does not answer them. "
    "Pass server= (a running retrieval server) or corpus= (a jsonl file of passages, such as wiki-18.jsonl.gz of "
    "https://huggingface.co/datasets/PeterGriffinJin/wiki-18-corpus, prepared once with "
    "triage_gym.envs.searchqa.prepare(FILE, FOLDER))"
)


class SearchQAEnv(TaskEnv[SearchGame]):
    """Questions, a search engine, and an answer.

    Args:
        split: ``"train"``, ``"val"`` or ``"test"``.
        questions: A file of questions or a folder with such files (:mod:`.question_files`); None for the embedded questions
            on the World Factbook.
        datasets: Which data sets of ``questions``, a name or several; None for those of Search-R1 that are there (to train,
            NQ and HotpotQA), or for all where none of them is.
        corpus: A corpus file or a prepared folder (:mod:`.corpus`) to search in; None for the embedded Factbook.
        server: Address of a retrieval server to ask instead.
        dialect: What that server speaks, ``"search-r1"`` or ``"verl-agent"``.
        retriever: One of your own (:class:`.corpus.Retriever`) instead of both.
        topk: Passages that a search gives.
        metric: What score and reward are: ``"em"``, ``"subem"`` or ``"f1"``.
        preset: ``"search-r1"``: four turns that search and one last turn that does not. ``"verl-agent"``: three and one.
        layout_reward: Whether the reward is Search-R1's for the layout of the episode (:mod:`.layout`), from 0.0 to 1.0,
            in place of the metric; score and success stay as they are.
        max_turns: Another number of turns, the last one included; None for the preset's.
        render_mode: ``"ansi"`` or None.

    Raises:
        InputError: For an argument of the wrong form, missing files, or questions of your own without a corpus.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "render_modes": ["ansi"],
        "render_fps": 1,
        "domain": "searchqa",
        "outcome_text": (),
    }
    declares: ClassVar[Mapping[str, Any]] = {"turns_change_commands": True}
    """The last turn is for the answer alone, whatever was done before."""

    expert_knows: ClassVar[str] = "what it was shown"

    def __init__(
        self,
        *,
        split: str = "train",
        questions: str | os.PathLike[str] | None = None,
        datasets: str | Sequence[str] | None = None,
        corpus: str | os.PathLike[str] | None = None,
        server: str | None = None,
        dialect: Dialect = "search-r1",
        retriever: Retriever | None = None,
        topk: int = 3,
        metric: Metric = "em",
        preset: Preset = "search-r1",
        layout_reward: bool = False,
        max_turns: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if preset not in RULES:
            raise InputError(f"Expected preset to be one of {tuple(RULES)}, got {preset!r}")
        if metric not in METRICS:
            raise InputError(f"Expected metric to be one of {METRICS}, got {metric!r}")
        if type(topk) is not int or not 1 <= topk <= MOST_PASSAGES:
            raise InputError(f"Expected topk to be an integer from 1 to {MOST_PASSAGES}, got {topk!r}")
        if type(layout_reward) is not bool or (layout_reward and preset != "search-r1"):
            raise InputError(
                f"Expected layout_reward to be False, or True with the preset search-r1, got {layout_reward!r} with {preset!r}"
            )
        if max_turns is None:
            max_turns = RULES[preset].turns
        super().__init__(split=split, max_turns=max_turns, render_mode=render_mode)
        if sum(given is not None for given in (corpus, server, retriever)) > 1:
            raise InputError("Expected one of corpus, server and retriever, got several; drop the others")
        if retriever is not None and not (
            isinstance(getattr(retriever, "fingerprint", None), str) and callable(getattr(retriever, "search", None))
        ):
            raise InputError(
                f"Expected retriever to have search(query, k) and a text fingerprint, got {retriever!r:.80}"
            )
        if questions is None and datasets is not None:
            raise InputError("Expected questions= with datasets=: a file, or the folder that the files are in")
        if questions is not None and not any(given is not None for given in (corpus, server, retriever)):
            raise InputError(_NO_CORPUS)
        self._folder = None if questions is None else Path(questions).expanduser().absolute()
        self._datasets = check_names(datasets)
        self._table = self._tasks(split)
        self._ids = tuple(self._table)
        self._corpus = None if corpus is None else Path(corpus).expanduser().absolute()
        self._retriever = retriever if server is None else HTTPRetriever(server, dialect)
        self._rules = replace(RULES[preset], turns=max_turns)
        self._topk, self._metric, self._layout = topk, metric, layout_reward
        self._setting = self._made_setting()

    @classmethod
    def card(cls) -> EnvCard:
        """What ``triage-gym envs list`` says about this environment."""
        return EnvCard(
            source="Search-R1 (Jin et al. 2025)",
            size="2,592 train, 668 val, 482 test questions embedded",
            restorable="yes",
            data="World Factbook embedded; questions= and corpus= or server= for NQ, HotpotQA and the others",
        )

    def task_ids(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Ids of the questions of this split from ``start`` to before ``stop`` (all when None); each is good for ``reset``.

        Raises:
            InputError: If ``start`` or ``stop`` is negative or no integer.
        """
        self._check_range(start, stop)
        return list(self._ids[start:stop])

    def gold_passages(self) -> list[str]:
        """The passages that the embedded question can be answered from, one for each hop; none for a question of a file.

        Raises:
            ResetNeeded: Before the first reset.
        """
        return [factbook().contents[passage] for _, passage in self.game.definition.hops]

    def expert_plan(self) -> list[str]:
        """What an oracle does from here: the searches of an embedded question that are left, then the right answer.

        It knows the answer, so it is for tests and for measuring regret. For a question of a file, which comes without
        searches, it answers at once. Empty after the end.

        Raises:
            ResetNeeded: Before the first reset.
        """
        game, task = self.game, self.game.definition
        if self._done:
            return []
        left = max(self._rules.turns - 1 - game.turn, 0)
        searches = [f"<search>{query}</search>" for query, _ in task.hops[game.turn :][:left]]
        return [*searches, f"<answer>{task.answers[0]}</answer>"]

    def expert_distance(self) -> int | None:
        """Turns of :meth:`expert_plan`, of its answer alone where the turns have run out; None after a wrong answer.

        Raises:
            ResetNeeded: Before the first reset.
        """
        if self.game.answer is not None:
            return 0 if self.game.outcome()[0] else None
        return max(len(self.expert_plan()), 1)

    def task_state(self) -> dict[str, Any]:
        """The answer that was given: no search changes the task (:mod:`triage_gym.facts`).

        Raises:
            ResetNeeded: Before the first reset.
        """
        return {"answer": self.game.answer}

    def belief(self) -> list[str]:
        """The passages that the last search showed (:mod:`triage_gym.facts`).

        Raises:
            ResetNeeded: Before the first reset.
        """
        _ = self.game
        return self._rules.shown(self._text)

    def expert_action(self) -> str | None:
        """What an expert does that knows only what it has read: it searches, follows a title, answers; None after the end.

        Raises:
            ResetNeeded: Before the first reset.
        """
        game = self.game
        return None if self._done else game.advice()

    def _tasks(self, split: str) -> Tasks:
        if self._folder is None:
            return factbook_tasks(split)
        return load_tasks(self._folder, split, self._datasets)

    def _made_setting(self) -> Setting:
        found = self._retriever or (FactbookRetriever() if self._corpus is None else open_corpus(self._corpus))
        return Setting(found.fingerprint, self._rules, self._topk, self._metric, self._layout, found)

    def _find(self, task_id: str) -> Task:
        """The task of an id, in whatever split it is."""
        if task_id in self._table:
            return self._table[task_id]
        if self._folder is None:
            others = [factbook_tasks(split) for split in self.SPLITS]
        else:
            others = list(self._other_splits(self._folder))
        for tasks in others:
            if task_id in tasks:
                return tasks[task_id]
        raise InputError(f"Expected the id of a question, such as {self._ids[0]!r}, got {task_id!r}")

    def _other_splits(self, folder: Path) -> Sequence[Tasks]:
        found = []
        for split in self.SPLITS:
            try:
                found.append(load_tasks(folder, split, self._datasets))
            except InputError:  # this split has no files, which is no fault here
                continue
        return found

    def _draw(self) -> str:
        return self._ids[int(self.np_random.integers(len(self._ids)))]

    def _new(self, task_id: str) -> SearchGame:
        game = SearchGame(self._find(task_id), self._setting)
        if isinstance(self._setting.retriever, FactbookRetriever):
            factbook()  # a second or so of the first reset of a process, and no surprise in a step
        return game

    def _checked(self, state: Any) -> Any:
        rng = super()._checked(state)
        turn, answer = (state["game"].get(key) for key in ("turn", "answer"))
        if state["turns"] != turn or state["done"] != (answer is not None or turn >= self._rules.turns):
            raise StateError(
                f"Expected turns and end of the state to be those of its game, got {state['turns']!r} turns and "
                f"done={state['done']!r} with {str(state['game'])[:80]}"
            )
        return rng

    def _restored(self, task_id: str, state: Mapping[str, Any]) -> SearchGame:
        turn, answer, place, retrieved, searched = (state.get(key) for key in _STATE_KEYS)
        if (
            len(state) != len(_STATE_KEYS)
            or type(turn) is not int
            or not 0 <= turn <= self._rules.turns
            or not isinstance(answer, str | None)
            or place not in PLACES
            or type(retrieved) is not bool
            or not isinstance(searched, list)
            or len(searched) > turn
            or not all(isinstance(query, str) for query in searched)
        ):
            raise StateError(f"Expected {', '.join(_STATE_KEYS)} of a search game, got {str(dict(state))[:80]}")
        return SearchGame(self._find(task_id), self._setting, turn, answer, place, retrieved, searched)

    def __getstate__(self) -> dict[str, Any]:
        """Without questions and passages: a copy finds them again, which takes time once a process."""
        saved = super().__getstate__()
        for name in ("_table", "_ids", "_setting"):
            del saved["held"][name]
        return saved

    def __setstate__(self, saved: Mapping[str, Any]) -> None:
        vars(self).update(saved["held"])
        self._table = self._tasks(self.split)
        self._ids = tuple(self._table)
        self._setting = self._made_setting()
        super().__setstate__(saved)
