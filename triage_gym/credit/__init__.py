"""Credit: from the records of a batch to per-segment advantages.

``make("triage", lam=0.4)`` builds a rule by name; ``"grpo+whiten"`` and ``"triage+guard"`` switch options on. Rules are
in :mod:`triage_gym.credit.rules`, their controls in :mod:`triage_gym.credit.controls`, tokens in
:mod:`triage_gym.credit.tokens`, groups in :mod:`triage_gym.credit.ledger`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

from triage_gym import registry
from triage_gym.credit.rules import CONSTANTS, RoleOptions, RuleOptions, Scalar, worth_of
from triage_gym.credit.sums import rules_named
from triage_gym.credit.terms import CreditTerms, explain
from triage_gym.protocols import CreditRule
from triage_gym.records import Role

__all__ = ["CreditTerms", "explain", "make", "may_read_labels", "needs_labels", "needs_values", "parse", "worths"]


def parse(spec: str | Mapping[str, Any]) -> dict[str, Any]:
    """The config dict that a spec stands for: ``"grpo+whiten"`` is ``{"name": "grpo", "whiten": True}``.

    What stands behind a name is an option of it, or else another rule: ``"triage+gigpo"`` is their sum
    (:mod:`triage_gym.credit.sums`), ``{"name": "sum", "rules": [{"name": "triage"}, {"name": "gigpo"}]}``. Options of a sum
    that are no field of it go to the first of its rules that has them.

    Raises:
        InputError: For a spec that is neither a name nor a config with one, or a suffix that is neither option nor rule.
    """
    config = registry.config("credit", spec)
    name = spec if isinstance(spec, str) else str(spec["name"])
    first, *flags = name.split("+")
    if ":" in first or not flags:
        return config
    accepted = inspect.signature(registry.factory("credit", first)).parameters
    if any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        return config
    more = rules_named(first, flags, registry.names("credit"), list(accepted))
    if not more:
        return config
    of_sum: dict[str, Any] = {key: config[key] for key in SUM if key in config}
    rules: list[dict[str, Any]] = [{"name": config["name"]}, *({"name": rule} for rule in more)]
    having = [inspect.signature(registry.factory("credit", rule["name"])).parameters for rule in rules]
    for key, value in config.items():
        if key not in ("name", *more, *SUM):
            # One that none has goes to the first too, which refuses it.
            rules[next((at for at, known in enumerate(having) if key in known), 0)][key] = value
    return {"name": "sum", "rules": rules, "whiten": _whitens(rules), **of_sum}


SUM: Final = ("whiten", "eps", "dtype")
"""Options that a sum has itself."""


def _whitens(rules: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of the rules whitens by default: then the sum does."""
    return any(
        inspect.signature(registry.factory("credit", rule["name"])).parameters["whiten"].default for rule in rules
    )


def options_of(spec: str | Mapping[str, Any]) -> frozenset[str] | None:
    """Names of the options that the rule of ``spec`` has, those of a sum's rules included; None for one that takes any."""
    config = parse(spec)
    rules = [config["name"], *(rule["name"] for rule in config.get("rules", ()) if isinstance(rule, Mapping))]
    found = [inspect.signature(registry.factory("credit", name)).parameters for name in rules]
    if any(p.kind is p.VAR_KEYWORD for parameters in found for p in parameters.values()):
        return None
    return frozenset(name for parameters in found for name in parameters)


def make(spec: str | Mapping[str, Any], **defaults: Any) -> CreditRule:
    """The credit rule that ``spec`` names.

    Args:
        spec: A registered name or ``module:attr`` path, with ``+option`` or ``+rule`` suffixes, or a config dict.
        **defaults: Options for when the spec says nothing; those that the rule does not have are left out, so that
            ``make(spec, lam=0.2)`` serves rules with and without roles.

    Raises:
        InputError: For an unknown rule, or an option in ``spec`` that the rule does not have.
    """
    config = parse(spec)
    if config["name"] == "sum":
        rules = config.get("rules", ())
        config = {**config, "rules": tuple(make(r, **defaults) if isinstance(r, str | Mapping) else r for r in rules)}
    accepted = inspect.signature(registry.factory("credit", config["name"])).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
    known = {name: value for name, value in defaults.items() if anything or name in accepted}
    rule: CreditRule = registry.make("credit", config, **known)
    return rule


def needs_labels(rule: CreditRule) -> bool:
    """Whether ``rule`` reads role labels. One of your own says so by an attribute ``needs_labels``."""
    return isinstance(rule, RoleOptions) or bool(getattr(rule, "needs_labels", False))


def needs_values(rule: CreditRule) -> bool:
    """Whether ``rule`` reads ``info["value"]`` of segments, the outcome expected before each (:mod:`triage_gym.credit.value`)."""
    return bool(getattr(rule, "needs_values", False))


def may_read_labels(rule: CreditRule) -> bool:
    """Whether labels may make a difference to ``rule``; one of your own that does not say counts as one that reads them."""
    return needs_labels(rule) or not (isinstance(rule, RuleOptions) or hasattr(rule, "needs_labels"))


def worths(rule: CreditRule) -> dict[Role, float]:
    """What each role is worth to ``rule``; TRIAGE's numbers for a rule that does not say."""
    if isinstance(rule, Scalar):
        return worth_of((rule.good, rule.good, rule.bad, rule.bad))
    return worth_of(getattr(rule, "constants", ()) or CONSTANTS)
