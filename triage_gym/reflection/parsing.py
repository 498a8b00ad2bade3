"""A reflection written by a policy, read strictly: one JSON object with a remark and a pivot, or nothing."""

from __future__ import annotations

import json
from typing import Any

from triage_gym.records import Reflection


def parse_reflection(text: str, source: str = "policy") -> Reflection | None:
    """The reflection in ``text``, or None when it is malformed.

    Only ``{"remark": <text>, "pivot": <whole number>}`` is taken, white space around it allowed: no other keys, none
    twice, no words before or after. The pivot may lie outside of the attempt; whoever retries clamps it.
    """
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or sorted(found) != ["pivot", "remark"]:
        return None
    remark, pivot = found["remark"], found["pivot"]
    if not isinstance(remark, str) or type(pivot) is not int:
        return None
    return Reflection(remark, pivot, source)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key came twice")
    return found
