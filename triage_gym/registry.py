"""Plug-ins by name: judges, reflectors, checks of pivots, credit rules and environments, from config that serialises.

A *spec* is a registered name (``"rule"``), a path (``"package.module:attribute"``) or a config dict
(``{"name": "rule", "domain": "alfworld"}``) whose other keys are keyword arguments. Specs deep-copy, pickle and go
through JSON, which live objects do not; that is why wrappers take specs and resolve them late.
Third parties register through the entry-point groups ``triage_gym.judges``, ``triage_gym.reflectors``,
``triage_gym.checks``, ``triage_gym.credit`` and ``triage_gym.envs``.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any, Final, Literal

from triage_gym.errors import InputError, TriageGymError
from triage_gym.origin import described, users_line

Kind = Literal["judges", "reflectors", "checks", "credit", "envs"]
_FUNCTIONS: Final[dict[Kind, str]] = {"credit": "rule", "reflectors": "reflector"}
"""Kinds whose plug-ins may be plain functions, and what such a function is."""

BUILTIN: Final[dict[Kind, dict[str, str]]] = {
    "judges": {
        "rule": "triage_gym.judges.rule:RuleJudge",
        "oracle": "triage_gym.judges.oracle:OracleJudge",
        "llm": "triage_gym.judges.llm:LLMJudge",
        "lm": "triage_gym.judges.local:LocalJudge",
        "cache": "triage_gym.judges.cache:CachedJudge",
        "ensemble": "triage_gym.judges.ensemble:EnsembleJudge",
        "threshold": "triage_gym.judges.threshold:ThresholdJudge",
        "selective": "triage_gym.judges.selective:SelectiveJudge",
        "magnitude": "triage_gym.judges.magnitude:MagnitudeJudge",
        "checked": "triage_gym.judges.checked:CheckedJudge",
        "distorted": "triage_gym.judges.distorted:DistortedJudge",
    },
    "reflectors": {
        "policy": "triage_gym.reflection.reflectors:PolicyReflector",
        "llm": "triage_gym.reflection.language_model:LLMReflector",
        "role": "triage_gym.reflection.reflectors:RoleReflector",
        "entropy": "triage_gym.reflection.policy_signals:EntropyReflector",
        "value": "triage_gym.reflection.policy_signals:ValueReflector",
        "oracle": "triage_gym.reflection.reflectors:OracleReflector",
        "random": "triage_gym.reflection.reflectors:RandomReflector",
        "restart": "triage_gym.reflection.reflectors:RestartReflector",
    },
    "checks": {
        "oracle": "triage_gym.reflection.verification:OracleCheck",
        "rollouts": "triage_gym.reflection.verification:RolloutCheck",
    },
    "credit": {
        "grpo": "triage_gym.credit.rules:GRPO",
        "rloo": "triage_gym.credit.rules:RLOO",
        "drgrpo": "triage_gym.credit.rules:DrGRPO",
        "value": "triage_gym.credit.value:Value",
        "sum": "triage_gym.credit.sums:Sum",
        "scalar": "triage_gym.credit.rules:Scalar",
        "triage": "triage_gym.credit.rules:Triage",
        "triage-soft": "triage_gym.credit.rules:TriageSoft",
        "triage-audited": "triage_gym.credit.audited:TriageAudited",
        "triage-online": "triage_gym.credit.online:TriageOnline",
        "triage-shuffled": "triage_gym.credit.controls:ShuffledTriage",
        "roles-only": "triage_gym.credit.controls:RolesOnly",
        "gigpo": "triage_gym.credit.trials:GiGPO",
        "pivoarl": "triage_gym.credit.trials:PivoARL",
        "metarl": "triage_gym.credit.trials:MetaRL",
        "r3l": "triage_gym.credit.trials:R3L",
    },
    "envs": {
        "alfworld": "triage_gym.envs.alfworld.env:ALFWorldEnv",
        "textworld": "triage_gym.envs.textworld.env:TextWorldEnv",
        "minesweeper": "triage_gym.envs.minesweeper.env:MinesweeperEnv",
        "searchqa": "triage_gym.envs.searchqa.env:SearchQAEnv",
        "webshop": "triage_gym.envs.webshop.env:WebShopEnv",
        "sokoban": "triage_gym.envs.sokoban.env:SokobanEnv",
        "gem": "triage_gym.envs.adapters.gem:GemEnv",
        "jericho": "triage_gym.envs.adapters.jericho:JerichoEnv",
        "minigrid": "triage_gym.envs.adapters.minigrid:MiniGridEnv",
        "openenv": "triage_gym.envs.adapters.openenv:OpenEnvClient",
        "textarena": "triage_gym.envs.adapters.textarena:TextArenaEnv",
    },
}
ENV_IDS: Final[dict[str, str]] = {
    "alfworld": "triage/ALFWorld-v0",
    "textworld": "triage/TextWorld-v0",
    "minesweeper": "triage/Minesweeper-v0",
    "webshop": "triage/WebShop-v0",
    "searchqa": "triage/SearchQA-v0",
    "sokoban": "triage/Sokoban-v0",
    "gem": "triage/GEM-v0",
    "jericho": "triage/Jericho-v0",
    "minigrid": "triage/MiniGrid-v0",
    "openenv": "triage/OpenEnv-v0",
    "textarena": "triage/TextArena-v0",
}
"""Gymnasium ids of the built-in environments, by registered name; ``import triage_gym`` registers them."""
_registered: dict[Kind, dict[str, str | Callable[..., Any]]] = {
    "judges": {},
    "reflectors": {},
    "checks": {},
    "credit": {},
    "envs": {},
}


def register(kind: Kind, name: str, target: str | Callable[..., Any]) -> None:
    """Make ``name`` known for this process.

    Args:
        kind: ``"judges"``, ``"reflectors"``, ``"checks"``, ``"credit"`` or ``"envs"``.
        name: What a user writes in a config.
        target: A factory, or its ``"module:attr"`` path (needed when configs travel to other processes).

    Raises:
        InputError: If ``name`` is taken by another target.
    """
    known = {**BUILTIN[kind], **_registered[kind]}
    if name in known and known[name] != target:
        raise InputError(f"Expected a new name for {kind}, got {name!r} which is {known[name]!r}; choose another name")
    _registered[kind][name] = target


@lru_cache
def _from_entry_points(kind: Kind) -> dict[str, str]:
    return {e.name: e.value for e in entry_points(group=f"triage_gym.{kind}")}


def env_name(name: str) -> str:
    """The registered name of a built-in environment that is named by its Gymnasium id; any other name as it is.

    ``"triage/ALFWorld-v0"`` and ``"triage_gym:triage/ALFWorld-v0"`` both are ``"alfworld"``.
    """
    env_id = name.removeprefix("triage_gym:")
    return next((own for own, known in ENV_IDS.items() if known == env_id), name)


def names(kind: Kind) -> list[str]:
    """Every registered name of ``kind``, sorted."""
    return sorted({**_from_entry_points(kind), **BUILTIN[kind], **_registered[kind]})


def load(path: str) -> Any:
    """The object at ``"package.module:attribute"``.

    Raises:
        InputError: When there is none, or a module of the user's own fails while it is imported; its line is named.
    """
    module, colon, attribute = path.partition(":")
    if not colon or not module or not attribute:
        raise InputError(f'Expected a path like "package.module:attribute", got {path!r}')
    try:
        found: Any = importlib.import_module(module)
    except TriageGymError:
        raise
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (module == missing or module.startswith(missing + ".")):
            raise InputError(f"No module named {missing!r} (from {path!r})") from error
        if _is_ours(module):
            raise
        raise InputError(f"Importing {module} failed: {described(error)}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise InputError(f"Module {module!r} has no attribute {attribute!r}")
        found = getattr(found, part)
    return found


def factory(kind: Kind, name: str) -> Callable[..., Any]:
    """The factory registered as ``name``, or found at the path ``name``.

    Raises:
        InputError: With the known names and the closest ones, when there is no such factory.
    """
    known: dict[str, str | Callable[..., Any]] = {**_from_entry_points(kind), **BUILTIN[kind], **_registered[kind]}
    target = known.get(name)
    if target is None:
        if ":" not in name:
            close = difflib.get_close_matches(name, known)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise InputError(f"Expected one of {sorted(known)} or a module:attr path for {kind}, got {name!r}{hint}")
        target = name
    made = load(target) if isinstance(target, str) else target
    if not callable(made):
        raise InputError(f"Expected {name!r} to name a class or a function, got {type(made).__name__}")
    return made


def _is_ours(module: str) -> bool:
    """Whether a failure in ``module`` is this package's."""
    return module.partition(".")[0] == "triage_gym"


def config(kind: Kind, spec: str | Mapping[str, Any]) -> dict[str, Any]:
    """The config dict that a spec stands for: ``"grpo+whiten"`` is ``{"name": "grpo", "whiten": True}``.

    Raises:
        InputError: For a spec that is neither a name nor a dict with a ``name``, an empty suffix, or one that another
            key of the dict contradicts.
    """
    if not isinstance(spec, str | Mapping):
        raise InputError(f"Expected a name, a module:attr path or a config dict for {kind}, got {type(spec).__name__}")
    rest = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = rest.get("name")
    if not isinstance(name, str):
        raise InputError(f'Expected a config with a "name" for {kind}, got {rest!r}')
    name, *flags = name.split("+")
    if not name or not all(flags):
        raise InputError(f"Expected a name with +option suffixes for {kind}, got {rest['name']!r}")
    contradicted = [flag for flag in flags if rest.get(flag, True) is not True]
    if contradicted:
        raise InputError(f"Expected +{contradicted[0]} or another value for it, got both in {rest!r}; drop one of them")
    return {**rest, **dict.fromkeys(flags, True), "name": name}


def _is_plugin(kind: Kind, target: Callable[..., Any]) -> bool:
    """Whether ``target`` is the rule or reflector itself: no class, and it cannot be called without an argument."""
    if kind not in _FUNCTIONS or isinstance(target, type):
        return False
    try:
        inspect.signature(target).bind()
    except TypeError:
        return True
    except ValueError:  # no signature, as some functions in C
        return False
    return False


def _check_options(kind: Kind, name: str, target: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise InputError for an option that the target does not have, or one that it needs and did not get."""
    try:
        known = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):  # no signature, as some functions in C: the call itself will tell
        return
    named = [p.name for p in known if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if any(p.kind is p.POSITIONAL_ONLY and p.default is p.empty for p in known):
        return
    unknown = [] if any(p.kind is p.VAR_KEYWORD for p in known) else [key for key in options if key not in named]
    if unknown:
        close = difflib.get_close_matches(unknown[0], named, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        told = f"its options are {', '.join(named)}" if named else "it has no options"
        raise InputError(f"Could not build {kind} {name!r}: it has no option {unknown[0]!r}; {hint}{told}")
    needed = [p.name for p in known if p.name in named and p.default is p.empty and p.name not in options]
    if needed:
        example = ", ".join(f'"{key}": …' for key in needed)
        raise InputError(
            f'Could not build {kind} {name!r}: it needs {" and ".join(needed)}; write {{"name": "{name}", {example}}}'
        )


def make(kind: Kind, spec: str | Mapping[str, Any], **defaults: Any) -> Any:
    """Build a plug-in from its spec.

    A class, or a function that needs no argument, is called and gives the plug-in. A function that needs one is, without
    options, the plug-in itself: ``def my_rule(records)`` a credit rule, ``def my_reflector(record)`` a reflector.

    Args:
        kind: Which registry.
        spec: A name or ``"module:attr"`` path, each with ``+option`` suffixes that set an option to True, or
            ``{"name": …, **keyword arguments}``.
        **defaults: Keyword arguments that the spec may override.

    Raises:
        InputError: For an unknown name, a dict without ``name``, arguments that do not fit, or a plug-in of the user's
            own that raises while it is built; its line is named.
    """
    rest = config(kind, spec)
    name = rest.pop("name")
    kwargs = {**defaults, **rest}
    make_it = factory(kind, name)
    if not kwargs and _is_plugin(kind, make_it):
        return make_it
    if isinstance(make_it, type):
        _check_options(kind, name, make_it, kwargs)
    try:
        return make_it(**kwargs)
    except TypeError as error:
        wanted = ""
        if not isinstance(make_it, type):
            wanted = "; the path must name a class or a function that returns the plug-in"
            if kind in _FUNCTIONS:
                wanted += f", or (without options) the {_FUNCTIONS[kind]} itself"
        line = users_line(error)
        at = f", at {line}" if line else ""
        raise InputError(f"Could not build {kind} {name!r} with {sorted(kwargs)}: {error}{at}{wanted}") from error
    except TriageGymError:
        raise
    except Exception as error:
        if _is_ours(getattr(make_it, "__module__", None) or ""):
            raise
        raise InputError(f"Could not build {kind} {name!r} with {sorted(kwargs)}: {described(error)}") from error
