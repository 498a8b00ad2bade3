"""Reflectors: who names the earliest wrong turn of a failed attempt, in which words, and whether going back there helps."""

from triage_gym.errors import MalformedReflection
from triage_gym.reflection.allocation import allocate
from triage_gym.reflection.expert import expert_distance
from triage_gym.reflection.language_model import LLMReflector
from triage_gym.reflection.parsing import read_reflection, write_reflection
from triage_gym.reflection.policy_signals import EntropyReflector, ValueReflector
from triage_gym.reflection.reflectors import (
    CallableReflector,
    OracleReflector,
    PolicyReflector,
    RandomReflector,
    RestartReflector,
    RoleReflector,
)
from triage_gym.reflection.verification import OracleCheck, PivotCheck, PivotPoint, RolloutCheck, settle_pivot

__all__ = [
    "CallableReflector",
    "EntropyReflector",
    "LLMReflector",
    "MalformedReflection",
    "OracleCheck",
    "OracleReflector",
    "PivotCheck",
    "PivotPoint",
    "PolicyReflector",
    "RandomReflector",
    "RestartReflector",
    "RoleReflector",
    "RolloutCheck",
    "ValueReflector",
    "allocate",
    "expert_distance",
    "read_reflection",
    "settle_pivot",
    "write_reflection",
]
