"""Which episodes are on the page, and how they travel to it.

A page holds at most :data:`LIMIT` episodes. When there are more, every arm and outcome gets an equal part, and inside
a part the episodes are spread evenly from the first update to the last; the page says how many it leaves out.
Nothing is drawn at random, so the same run makes the same page.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

from triage_gym.display import sanitize
from triage_gym.records import EpisodeRecord, Reflection
from triage_gym.report.model import Episode

LIMIT: Final = 10_000
"""The most episodes a page can be asked to hold."""
TEXT_LIMIT: Final = 20_000
"""The most characters of one text; longer ones are cut, visibly."""


def _spread(items: Sequence[int], count: int) -> list[int]:
    """``count`` of ``items``, evenly spaced, first and last among them."""
    if count >= len(items):
        return list(items)
    if count == 1:
        return [items[0]]
    return [items[round(i * (len(items) - 1) / (count - 1))] for i in range(count)]


def pick(keys: Sequence[Hashable], limit: int) -> list[int]:
    """Indices of the episodes to keep, in their order.

    Args:
        keys: The part that each episode belongs to, such as ``(arm, success)``; episodes come in order of training.
        limit: How many to keep at most.

    Returns:
        Sorted indices. Parts are filled equally; a part that is smaller than its share leaves room to the others.
    """
    parts: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        parts.setdefault(key, []).append(index)
    kept: list[int] = []
    room = limit
    by_size = sorted(parts.values(), key=len)
    for done, part in enumerate(by_size):
        share = room // (len(by_size) - done)
        chosen = _spread(part, share) if share else []
        kept += chosen
        room -= len(chosen)
    return sorted(kept)


def _text(value: str) -> str:
    safe = sanitize(value)
    if len(safe) <= TEXT_LIMIT:
        return safe
    return safe[:TEXT_LIMIT] + f"… ({len(safe) - TEXT_LIMIT} more characters)"


def showpiece(episodes: Sequence[Episode]) -> int:
    """Index of the episode to open first: the last solved one with a regression in it, of TRIAGE where there is one.

    Returns:
        -1 for no episodes.
    """
    solved = [i for i, e in enumerate(episodes) if e.record.success and "R" in e.record.roles]
    best = [i for i in solved if episodes[i].arm == "triage"] or solved
    return best[-1] if best else len(episodes) - 1


def trial_numbers(episodes: Sequence[Episode]) -> list[int]:
    """For each episode the number of its trial; -1 for one whose record names none."""
    found: dict[Hashable, int] = {}
    out = []
    for e in episodes:
        key = (e.arm, e.seed, e.update, e.record.group_id, e.record.trial)
        out.append(found.setdefault(key, len(found)) if e.record.trial else -1)
    return out


def _lineage(record: EpisodeRecord) -> list[Any] | None:
    """What a retry began with; None for a first attempt."""
    if record.attempt == 0:
        return None
    said = record.reflection or Reflection("", -1)
    return [
        record.parent,
        _text(record.restore_strategy),
        _text(record.restore_status),
        _text(said.remark),
        said.pivot,
        _text(said.source),
        _text(said.text),
        _text(said.problem),
        record.oracle_pivot,
    ]


def encode(episode: Episode, arms: Sequence[str]) -> dict[str, Any]:
    """The JSON of one episode, with short keys (the page's script names them)."""
    record = episode.record
    labels = record.labels or (None,) * len(record)
    advantages = episode.advantages or (None,) * len(record)
    steps = [
        [
            _text(segment.action),
            _text(segment.next_observation),
            None if label is None else label.role,
            None if advantage is None else round(advantage, 4),
            "" if label is None else _text(label.why),
            "unjudged" if label is None else label.status,
        ]
        for segment, label, advantage in zip(record.segments, labels, advantages, strict=True)
    ]
    return {
        "a": arms.index(episode.arm),
        "s": episode.seed,
        "u": episode.update,
        "t": episode.turns,
        "k": _text(record.task_id),
        "g": _text(record.task),
        "y": _text(episode.task_type),
        "o": _text(record.start_observation),
        "n": record.attempt,
        "p": record.prefix_length,
        "h": _lineage(record),
        "c": record.score,
        "w": record.success,
        "e": None if record.error is None else _text(record.error),
        "x": steps,
    }
