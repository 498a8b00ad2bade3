"""Judges made of judges: what every wrapper of the protocol has in common.

A composed judge takes another under ``of``, as a spec (``"rule"``, ``{"name": "cache", "of": {"name": "llm", …}}``) or as an
object, so that whole trees are written in a config. Beside ``judge(windows)`` a judge may have, and a wrapper passes on:

- ``needs_facts``: which of :data:`~triage_gym.facts.FACT_NAMES` its windows must carry (:mod:`triage_gym.facts`);
- ``usage``: numbers of what it cost since it was made, such as ``calls``, ``cached``, ``prompt_tokens``, ``usd``;
- ``identity``: JSON values that say everything its labels depend on but the windows; a cache keys by it;
- ``close()``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from triage_gym import registry
from triage_gym.errors import InputError
from triage_gym.facts import FACT_NAMES, FactName
from triage_gym.protocols import Judge

Spec = str | Mapping[str, Any] | Judge


def inner(of: Spec) -> Judge:
    """The judge that a spec stands for; an object is taken as it is.

    Raises:
        InputError: For a spec that names none.
    """
    judge = of if isinstance(of, Judge) and not isinstance(of, type) else registry.make("judges", _spec(of))
    if not isinstance(judge, Judge):
        raise InputError(f"Expected a judge, got {type(judge).__name__}; give it a method judge(windows)")
    return judge


def _spec(of: Any) -> str | Mapping[str, Any]:
    if not isinstance(of, str | Mapping):
        raise InputError(f"Expected `of` to be the name, the config or the object of a judge, got {type(of).__name__}")
    return of


def facts_needed(*judges: object) -> tuple[FactName, ...]:
    """The facts that ``judges`` need of their windows, each once.

    Raises:
        InputError: When one asks for a fact that there is not.
    """
    found: list[FactName] = []
    for judge in judges:
        for name in getattr(judge, "needs_facts", ()):
            if name not in FACT_NAMES:
                raise InputError(f"Expected `needs_facts` of {type(judge).__name__} out of {FACT_NAMES}, got {name!r}")
            if name not in found:
                found.append(name)
    return tuple(found)


def usage_of(judges: Sequence[object], **own: float) -> dict[str, float]:
    """What ``judges`` say they cost, summed by name, with the numbers of who asks added."""
    total = dict(own)
    for judge in judges:
        for name, value in getattr(judge, "usage", {}).items():
            total[name] = total.get(name, 0) + value
    return total


def identity_of(judge: object) -> Any:
    """Everything the labels of ``judge`` depend on but the windows, as JSON values.

    Raises:
        InputError: When it does not say.
    """
    found = getattr(judge, "identity", None)
    if found is None:
        raise InputError(
            f"Expected {type(judge).__name__} to have an `identity`, JSON values of all that its labels depend on (name, "
            "version, options); give it one, or use it without a cache"
        )
    return found


def close(*judges: object) -> None:
    """Let go of what ``judges`` hold open."""
    for judge in judges:
        closing = getattr(judge, "close", None)
        if callable(closing):
            closing()
