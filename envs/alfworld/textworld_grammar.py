"""textworld's text grammar, interpreted without copying the world for every word.

The rules are parsed by textworld, the queries are answered by textworld's state; only the walk from a start symbol to
the text is done here: textworld's own copies its whole context at each symbol, parses each query anew, and fails on
Python 3.13. Expressions in a grammar are Python code that textworld hands to ``eval``; here names, their attributes,
texts, ``+`` and ``or`` are computed and anything else is refused, so that a game file cannot run code.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from triage_gym.envs.alfworld import textworld_runtime as runtime
from triage_gym.errors import UnsupportedGame

MAX_EXPRESSION: Final = 500

_Names = Mapping[str, Any]


class Interpreter:
    """Derives texts in one state.

    Args:
        state: textworld's state of facts; read at each call.
        grammar: textworld's parsed grammar.
        infos: Object name to textworld's ``EntityInfo``.
    """

    def __init__(self, state: Any, grammar: Any, infos: Mapping[str, Any]) -> None:
        self._state = state
        self._rules = grammar._rules
        self._infos = infos
        self._textgen = runtime.load("textworld.envs.pddl.textgen")

    def derive(self, start: str, mapping: Mapping[Any, Any]) -> str:
        """The text of ``start``, a mix of words and ``#symbols#``; ``mapping`` is from placeholders to variables."""
        return "".join(self._expand(_symbols(start), mapping))

    def _expand(self, symbols: list[Any], mapping: Mapping[Any, Any]) -> Iterator[str]:
        kinds = self._textgen
        for symbol in symbols:
            if isinstance(symbol, kinds.TerminalSymbol):
                yield str(symbol)
            elif isinstance(symbol, kinds.NonterminalSymbol):
                yield from self._expand(self._choose(str(symbol), mapping), mapping)
            elif isinstance(symbol, kinds.EvalSymbol):
                yield str(compile_expression(symbol.expression)(self._names(mapping)))
            elif isinstance(symbol, kinds.ListSymbol):
                yield from self._list(symbol.symbol, mapping)
            else:
                for found in self._answers(symbol, mapping):
                    yield from self._expand([symbol.expression], found)

    def _list(self, conditional: Any, mapping: Mapping[Any, Any]) -> Iterator[str]:
        items = ["".join(self._expand([conditional.expression], m)) for m in self._answers(conditional, mapping)]
        if not items:
            yield self.derive("#list_empty#", mapping)
        for i, item in enumerate(items):
            if i:
                yield self.derive("#list_last_separator#" if i == len(items) - 1 else "#list_separator#", mapping)
            yield item

    def _answers(self, conditional: Any, mapping: Mapping[Any, Any]) -> list[Mapping[Any, Any]]:
        if not conditional.given:
            return [mapping]
        return [{**mapping, **found} for found in self._state.all_assignments(_query(conditional.given), mapping)]

    def _choose(self, name: str, mapping: Mapping[Any, Any]) -> list[Any]:
        """The first case of the rule ``name`` whose condition holds."""
        for rule in self._rules.get(name) or ():
            if not rule.condition or any(True for _ in self._state.all_assignments(_query(rule.condition), mapping)):
                found: list[Any] = rule.rhs
                return found
        raise UnsupportedGame(f"Expected the grammar to have a case of the rule {name!r} for every state, got none")

    def _names(self, mapping: Mapping[Any, Any]) -> dict[str, Any]:
        return {placeholder.name: self._infos[variable.name] for placeholder, variable in mapping.items()}


@lru_cache(maxsize=4096)
def _symbols(text: str) -> list[Any]:
    found: list[Any] = runtime.load("textworld.envs.pddl.textgen")._parse_and_convert(text, rule_name="symbols")
    return found


@lru_cache(maxsize=1024)
def _query(expression: str) -> Any:
    return runtime.load("textworld.logic").Rule.parse_conjunctive_query(expression)


@lru_cache(maxsize=1024)
def compile_expression(expression: str) -> Callable[[_Names], Any]:
    """A grammar's expression as a function of the names it may use; raises UnsupportedGame for one that runs code."""
    if len(expression) > MAX_EXPRESSION:
        raise UnsupportedGame(f"Expected expressions of at most {MAX_EXPRESSION} characters, got {len(expression)}")
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, RecursionError, ValueError) as error:
        raise UnsupportedGame(f"Expected an expression in the grammar, got {expression!r}: {error}") from error
    return _evaluator(tree, expression)


def _evaluator(node: ast.expr, expression: str) -> Callable[[_Names], Any]:
    if isinstance(node, ast.Name):
        name = node.id
        return lambda names: _lookup(names, name)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and not node.attr.startswith("_"):
        name, attribute = node.value.id, node.attr
        return lambda names: _attribute(_lookup(names, name), attribute)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
        return lambda names: text
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _evaluator(node.left, expression), _evaluator(node.right, expression)
        return lambda names: left(names) + right(names)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        options = [_evaluator(value, expression) for value in node.values]
        return lambda names: next((v for v in (o(names) for o in options[:-1]) if v), None) or options[-1](names)
    raise UnsupportedGame(
        f"Expected names, attributes, texts, + and `or` in the grammar's expressions, got {expression!r}; "
        "expressions that run code are refused"
    )


def _lookup(names: _Names, name: str) -> Any:
    if name not in names:
        raise UnsupportedGame(f"Expected one of {sorted(names)} in the grammar's expression, got {name!r}")
    return names[name]


def _attribute(info: Any, attribute: str) -> Any:
    value = getattr(info, attribute, None)
    if not isinstance(value, str | None):
        raise UnsupportedGame(f"Expected a text in the grammar's expression, got the attribute {attribute!r}")
    return value
