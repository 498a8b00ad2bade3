"""Trials made of records by hand, for tests of what is measured and shown of them."""

from __future__ import annotations

from triage_gym.records import EpisodeRecord, Reflection, Segment


def turns(names: str, first: int = 0) -> tuple[Segment, ...]:
    """One segment a letter."""
    return tuple(Segment(first + i, f"before {n}", f"go {n}", f"after {n}") for i, n in enumerate(names))


def first(names: str, *, trial: str = "t", group: str = "g", success: bool = False) -> EpisodeRecord:
    """A first attempt, a turn a letter."""
    return EpisodeRecord(group, trial=trial, segments=turns(names), success=success, terminated=True)


def retry(
    parent: EpisodeRecord,
    kept: int,
    names: str,
    *,
    pivot: int | None = None,
    oracle: int = -1,
    success: bool = False,
    text: str = "",
    problem: str = "",
    error: str | None = None,
) -> EpisodeRecord:
    """A retry of ``parent`` that keeps its first ``kept`` turns and then acts a turn a letter."""
    return EpisodeRecord(
        parent.group_id,
        trial=parent.trial,
        attempt=parent.attempt + 1,
        parent=parent.attempt,
        pivot=kept,
        prefix_length=kept,
        segments=parent.segments[:kept] + turns(names, kept),
        success=success,
        terminated=True,
        restore_strategy="native",
        restore_status="verified",
        reflection=Reflection("mind the gap", kept if pivot is None else pivot, "role", text, problem),
        oracle_pivot=oracle,
        error=error,
    )
