"""The packages of the real engine, kept on a leash: imports, native libraries, PDDL translations.

What they do on their own: ``import alfworld`` creates a folder in the home and sets ``ALFWORLD_DATA``; fast-downward's
translator overwrites ``sys.argv``; each of its libraries is a 34 MB copy that must never be closed (closing one of
several crashes the process). Here the environment is put back, libraries are pooled and reused until the process ends,
and each game is translated once. Not for use from several threads: fast-downward has process-wide state.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib
import os
import shutil
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from triage_gym.envs.alfworld.games import Game
from triage_gym.errors import InputError, MissingDependency, UnsupportedGame

RECENT_TRANSLATIONS: Final = 32
"""How many translated games are kept, one or two megabytes each."""

_free_libraries: list[Any] = []
_translations: OrderedDict[str, Translation] = OrderedDict()


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """Puts back ``sys.argv`` and ``ALFWORLD_DATA``, whatever the packages do to them.

    While nothing else has chosen one, alfworld gets a private data folder, removed when the process ends.
    """
    argv, data = list(sys.argv), os.environ.get("ALFWORLD_DATA")
    if data is None and "alfworld" not in sys.modules:
        os.environ["ALFWORLD_DATA"] = _private_folder()
    try:
        yield
    finally:
        sys.argv = argv
        if data is None:
            os.environ.pop("ALFWORLD_DATA", None)
        else:
            os.environ["ALFWORLD_DATA"] = data


@lru_cache(maxsize=1)
def _private_folder() -> str:
    folder = tempfile.mkdtemp(prefix="triage-gym-alfworld-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def load(module: str) -> Any:
    """The module ``module`` of the real engine.

    Raises:
        MissingDependency: If it is not installed.
    """
    with contained():
        try:
            return importlib.import_module(module)
        except ImportError as error:
            raise MissingDependency(
                f"Expected {module} for the real ALFWorld engine, could not import it ({error}); "
                "install it with `pip install 'triage-gym[alfworld]'` (needs cmake and a C++ compiler)"
            ) from error


def borrow_library() -> Any:
    """A fast-downward library that nobody else uses; hand it back with :func:`return_library`."""
    return _free_libraries.pop() if _free_libraries else load("fast_downward").load_lib()


def return_library(library: Any) -> None:
    """Make ``library`` free for the next borrower."""
    _free_libraries.append(library)


@dataclass(eq=False, slots=True)
class Translation:
    """A game as the real engine plays it: planner input, start facts, names and grammar."""

    sas: bytes
    digest: str
    """Hash of ``sas``: operator numbers mean the same only where it is equal."""
    parameters: dict[str, list[tuple[str, str]]]
    """Action name to its parameters' names and types."""
    types: dict[str, str]
    """Object name to its type."""
    logic: Any
    """textworld's ``GameLogic``, with the domain's types entered."""
    facts: list[Any]
    """Start facts, as textworld's propositions."""
    infos: dict[str, Any]
    """Object name to textworld's ``EntityInfo``, which carries ALFWorld's name."""
    commands: dict[int, tuple[str, str, dict[Any, Any]]] = field(default_factory=dict)
    """Operator number to command, action name and mapping; filled as operators occur."""


def translation(game: Game) -> Translation:
    """The translation of ``game``, made once.

    Raises:
        InputError: If the planner's parser refuses the game.
        MissingDependency: If the packages are not installed.
        UnsupportedGame: If the goal can never be reached, which the planner cannot translate.
    """
    found = _translations.get(game.fingerprint)
    if found is None:
        found = _translations[game.fingerprint] = _translate(game)
    _translations.move_to_end(game.fingerprint)
    if len(_translations) > RECENT_TRANSLATIONS:
        _translations.popitem(last=False)
    return found


def _translate(game: Game) -> Translation:
    fast_downward, pddl_logic = load("fast_downward"), load("textworld.envs.pddl.logic")
    with contained():
        try:
            logic = pddl_logic.GameLogic(domain=game.pddl_domain, grammar=game.grammar)
            task, sas = fast_downward.pddl2sas(game.pddl_domain, game.pddl_problem)
            _enter_types(logic, task)
            types = {o.name: o.type_name for o in task.objects}
            facts = list(_start_facts(task, types))
        except (Exception, SystemExit) as error:
            raise InputError(
                f"Expected a game that the real engine reads, {game.task_id!r} it does not: "
                f"{type(error).__name__}: {str(error)[:300]}"
            ) from error
    facts += _planner_facts(game.task_id, sas.encode(), types)
    return Translation(
        sas=sas.encode(),
        digest=hashlib.sha256(sas.encode()).hexdigest()[:16],
        parameters={a.name: [(p.name.strip("?"), p.type_name) for p in a.parameters] for a in task.actions},
        types=types,
        logic=logic,
        facts=facts,
        infos=_named_infos(facts),
    )


def _enter_types(logic: Any, task: Any) -> None:
    textworld_logic = load("textworld.logic")
    for kind in task.types:
        # `object` is there already.
        with contextlib.suppress(ValueError):
            logic.types.add(textworld_logic.Type(kind.name, kind.supertype_names))


def _start_facts(task: Any, types: dict[str, str]) -> Iterator[Any]:
    """The start facts of the problem, as ``PddlState`` reads them."""
    textworld_logic = load("textworld.logic")
    pddl = load("fast_downward").translate.pddl
    for atom in task.init:
        if isinstance(atom, pddl.conditions.Atom):
            name, arguments = atom.predicate, atom.args
        elif isinstance(atom, pddl.f_expression.Assign):
            name, arguments = str(atom.expression.value), atom.fluent.args
            if atom.fluent.symbol == "total-cost" or name.isdigit():
                continue
        else:
            continue
        if name != "=":
            yield textworld_logic.Proposition(name, [textworld_logic.Variable(x, types[x]) for x in arguments])


def _planner_facts(task_id: str, sas: bytes, types: dict[str, str]) -> list[Any]:
    """What the planner holds true at the start."""
    atom_type = load("textworld.envs.pddl.logic").Atom
    library = borrow_library()
    try:
        library.load_sas(sas)
        atoms = (atom_type * library.get_state_size())()
        library.get_state(atoms)
        facts = [atom.get_fact(types) for atom in atoms]
    except KeyError as error:
        # An unreachable goal makes the translator write a dummy task, whose atoms are about "val1".
        raise UnsupportedGame(
            f"Expected a goal that can be reached, got one of {task_id!r} that never can: no engine plays this game"
        ) from error
    finally:
        return_library(library)
    return [fact for fact in facts if not fact.is_negation]


def _named_infos(facts: list[Any]) -> dict[str, Any]:
    """``EntityInfo`` of everything that occurs in the start facts, named by alfworld's own demangler."""
    entity_info = load("textworld.generator.game").EntityInfo
    infos = {v.name: entity_info(v.name, v.type) for fact in facts for v in fact.arguments}
    demangler = load("alfworld.agents.utils.misc").Demangler(game_infos=infos)
    for info in infos.values():
        info.name = demangler.demangle_alfred_name(info.id)
        info.definite, info.indefinite = "the", "a"
    return infos
