"""Reflectors: who names the earliest wrong turn of a failed attempt."""

from triage_gym.reflection.parsing import parse_reflection
from triage_gym.reflection.reflectors import (
    CallableReflector,
    OracleReflector,
    RandomReflector,
    RestartReflector,
    RoleReflector,
)

__all__ = [
    "CallableReflector",
    "OracleReflector",
    "RandomReflector",
    "RestartReflector",
    "RoleReflector",
    "parse_reflection",
]
