"""The real engine: alfworld's own ``PddlEnv``, without the waste, behind the interface of the fast one.

:class:`TextWorldEngine` plays through the same fast-downward planner, the same facts and the same grammar as alfworld
does, and plays every game that alfworld plays: it is the fall-back for games that
:class:`~triage_gym.envs.alfworld.engine.FastEngine` refuses and the judge of its faithfulness. It translates a game
once (stock: twice at every load and again at every reset), interprets the grammar without copies, pools the native
libraries and has states that go out and in. :class:`StockEngine` is alfworld's own stack, untouched, as the reference.

Needs the extra ``alfworld`` (GPL parts with it), else :class:`~triage_gym.errors.MissingDependency`. Not for use from
several threads.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from triage_gym.envs.alfworld import textworld_runtime as runtime
from triage_gym.envs.alfworld.games import Game
from triage_gym.envs.alfworld.text import NOTHING_HAPPENS
from triage_gym.envs.alfworld.textworld_grammar import Interpreter, compile_expression
from triage_gym.errors import InputError, StateError

STATE_VERSION: Final = 1


class TextWorldEngine:
    """One play of one game through the real planner.

    Args:
        game: The game; it starts in its first state, as after :meth:`reset`.

    Raises:
        InputError: If the game cannot be read, or its grammar lacks an action (every method may find that out).
        MissingDependency: If the packages are not installed.
        UnsupportedGame: If the goal can never be reached: alfworld does not load such a game either.
    """

    won: bool
    """Whether the goal holds now."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self._game = runtime.translation(game)
        self._library: Any = None
        self._operators: dict[str, Any] = {}
        self._fast_downward = runtime.load("fast_downward")
        self._atom: Any = runtime.load("textworld.envs.pddl.logic").Atom
        self._restart()

    def _restart(self) -> None:
        if self._library is None:
            self._library = runtime.borrow_library()
            self._give_back = weakref.finalize(self, runtime.return_library, self._library)
        self._library.load_sas(self._game.sas)
        self._facts = _Facts(self._game)
        self._grammar = Interpreter(self._facts.state, self._game.logic.grammar, self._game.infos)
        self._history: list[int] = []
        self._observe()

    def reset(self) -> str:
        """Go to the game's first state; the text that starts the game."""
        self._restart()
        return self._grammar.derive("#intro#", {})

    def step(self, command: str) -> str:
        """Do ``command``; the text that answers it, ``Nothing happens.`` when it is not admissible."""
        if self._library is None:
            raise StateError("Expected an open engine, got one after close(); reset() opens it again")
        operator = self._operators.get(command.strip())
        if operator is None:
            return NOTHING_HAPPENS
        _, action, mapping = self._describe(operator)
        self._apply(operator)
        answer = self._grammar.derive(self._game.logic.actions[action].feedback_rule, mapping)
        self._observe()
        return answer

    def admissible_commands(self) -> list[str]:
        """Every command that does something now, sorted; the list is yours."""
        return sorted(self._operators)

    def get_state(self) -> dict[str, Any]:
        """The whole state as JSON-able data: the numbers of the planner's operators since the start."""
        return {
            "version": STATE_VERSION,
            "game": self.game.fingerprint,
            "sas": self._game.digest,
            "operators": list(self._history),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go to a state that :meth:`get_state` gave, of this engine or of any other that plays an equal game.

        Raises:
            StateError: If the state is of another game or of another version of the planner, or no state at all; the
                engine then stays as it is.
        """
        operators = self._check(state)
        before = self._history
        if self._library is not None and operators[: len(before)] == before:
            rest: Sequence[int] = operators[len(before) :]
        else:
            self._restart()
            rest = operators
        try:
            self._replay(rest)
        except StateError:
            self._restart()
            self._replay(before)
            raise

    def close(self) -> None:
        """Give the native library back to the pool (it happens by itself when the engine is gone)."""
        if self._library is not None:
            self._give_back()
            self._library = None
            self._operators = {}

    def _check(self, state: Mapping[str, Any]) -> list[int]:
        if not isinstance(state, Mapping) or state.get("version") != STATE_VERSION or "sas" not in state:
            raise StateError(f"Expected a state of version {STATE_VERSION} from get_state, got {str(state)[:80]}")
        if state.get("game") != self.game.fingerprint:
            raise StateError(
                f"Expected a state of the game {self.game.fingerprint}, got one of {state.get('game')!r}; "
                "make an engine for that game"
            )
        if state["sas"] != self._game.digest:
            raise StateError("Expected a state made with the installed version of the planner, got another's; replay")
        operators = state.get("operators")
        if not isinstance(operators, list) or any(type(i) is not int for i in operators):
            raise StateError(f"Expected a list of numbers as operators of the state, got {str(operators)[:80]}")
        return operators

    def _replay(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            # The native code trusts what it is given, so what is not applicable must not reach it.
            operator = next((o for o in self._applicable() if o.id == number), None)
            if operator is None:
                raise StateError(f"Expected operators that can follow each other, got {number} where it cannot be")
            self._apply(operator)
        self._observe()

    def _applicable(self) -> Any:
        operators = (self._fast_downward.Operator * self._library.get_applicable_operators_count())()
        self._library.get_applicable_operators(operators)
        return operators

    def _apply(self, operator: Any) -> None:
        effects = (self._atom * operator.nb_effect_atoms)()
        self._library.apply_operator(operator.id, effects)
        self._facts.change(effects)
        self._history.append(operator.id)

    def _observe(self) -> None:
        self.won = bool(self._library.check_goal())
        self._operators = {}
        for operator in self._applicable():
            self._operators.setdefault(self._describe(operator)[0], operator)

    def _describe(self, operator: Any) -> tuple[str, str, dict[Any, Any]]:
        """Command, action name and mapping of an operator; constant for a game, so made once."""
        known = self._game.commands.get(operator.id)
        if known is None:
            name, *arguments = operator.name.split()
            mapping = self._facts.mapping(self._game.parameters[name], arguments)
            if name not in self._game.logic.actions:
                raise InputError(f"Expected the grammar of {self.game.task_id!r} to have the action {name!r}, got none")
            command = self._grammar.derive(self._game.logic.actions[name].template, mapping)
            known = self._game.commands[operator.id] = command, name, mapping
        return known

    def __deepcopy__(self, memo: dict[int, Any]) -> TextWorldEngine:
        return _rebuild(self.game, self.get_state())

    def __reduce__(self) -> tuple[Callable[[Game, dict[str, Any]], TextWorldEngine], tuple[Game, dict[str, Any]]]:
        return _rebuild, (self.game, self.get_state())


def _rebuild(game: Game, state: dict[str, Any]) -> TextWorldEngine:
    engine = TextWorldEngine(game)
    engine.set_state(state)
    return engine


class _Facts:
    """textworld's state of facts, changed by the planner's effects."""

    def __init__(self, game: runtime.Translation) -> None:
        self._types = game.types
        self._logic = runtime.load("textworld.logic")
        pddl_logic = runtime.load("textworld.envs.pddl.logic")
        # PddlState's own constructor translates the game twice; the base class's refuses PDDL's logic.
        self.state = pddl_logic.PddlState.__new__(pddl_logic.PddlState)
        empty = self._logic.State(self._logic.GameLogic())
        vars(self.state).update(vars(empty))
        self.state._logic = game.logic
        self.state.add_facts(game.facts)

    def change(self, effects: Any) -> None:
        """Make true what ``effects`` say, and false its negation."""
        for effect in effects:
            fact = effect.get_fact(self._types)
            self.state.remove_fact(fact.negate())
            self.state.add_fact(fact)

    def mapping(self, parameters: Sequence[tuple[str, str]], arguments: Sequence[str]) -> dict[Any, Any]:
        """Placeholders of an action to the variables that stand for them."""
        logic = self._logic
        pairs = zip(parameters, arguments, strict=False)
        return {logic.Placeholder(name, kind): logic.Variable(value, kind) for (name, kind), value in pairs}


class StockEngine:
    """alfworld's own stack (``AlfredDemangler(PddlEnv)``), unchanged: the reference for tests and benchmarks.

    It has no states, and no commands before the first :meth:`reset`, which takes about a second. A stack that is no
    longer used is loaded with the next game, because every new one would leave 34 MB behind.

    Raises:
        MissingDependency: From the constructor, when alfworld's packages are not installed.
    """

    _free: Final[list[Any]] = []

    def __init__(self, game: Game) -> None:
        self.game = game
        self._env = self._free.pop() if self._free else _stock_environment()
        weakref.finalize(self, self._free.append, self._env)
        with runtime.contained():
            self._env.load(game.to_dict())
        self._state: Any = None

    def reset(self) -> str:
        """Go to the game's first state; the text that starts the game."""
        with runtime.contained():
            self._state = self._env.reset()
        return str(self._state.feedback)

    def step(self, command: str) -> str:
        """Do ``command``; the text that answers it."""
        self._state, _, _ = self._env.step(command)
        return str(self._state.feedback)

    def admissible_commands(self) -> list[str]:
        """Every command that does something now, sorted."""
        return list(self._state["admissible_commands"])

    @property
    def won(self) -> bool:
        """Whether the goal holds now."""
        return bool(self._state["won"])


def _stock_environment() -> Any:
    core = runtime.load("textworld.core")
    pddl = runtime.load("textworld.envs.pddl")
    demangler = runtime.load("alfworld.agents.environment.alfred_tw_env").AlfredDemangler
    if sys.version_info >= (3, 13):
        _mend_evaluation()
    return demangler(pddl.PddlEnv(core.EnvInfos(won=True, admissible_commands=True)))


def _mend_evaluation() -> None:
    """Python 3.13 no longer lets ``locals().update`` define names, which textworld's ``eval`` of expressions relies on."""
    textgen = runtime.load("textworld.envs.pddl.textgen")

    def derive(self: Any, context: Any = None) -> list[Any]:
        names = dict((context or self.context)["variables"])
        return [textgen.TerminalSymbol(compile_expression(self.expression)(names))]

    textgen.EvalSymbol.derive = derive
