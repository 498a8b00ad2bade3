"""Where label rows come from: a label file, the gold set that comes along, or the attempts of a run.

Attempts are cut into windows as a judge would get them, outcome text redacted as their environments declare it. Turns
that a retry copied are left out. The labels that the run's own judge gave become those of an annotator of its name, and the
origin says that this is a judge.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from triage_gym import registry, strict_json
from triage_gym.audit.gold import gold_rows
from triage_gym.audit.labels import GOLD, JUDGES, Annotation, LabelledWindow, check_name, read_labels
from triage_gym.errors import InputError, TriageGymError
from triage_gym.records import EpisodeRecord
from triage_gym.traces import MAX_LINE, Trace, read_traces
from triage_gym.windows import build_windows, domain_of, outcome_text_of

TRACES: Final = "traces.jsonl"


def load(source: str) -> list[LabelledWindow]:
    """The rows that ``source`` names: ``gold``, a label file, a run's ``traces.jsonl`` or its directory.

    Raises:
        InputError: For a file that is none of these.
    """
    if source == GOLD:
        return gold_rows()
    path = _file(source)
    return from_traces(path) if is_run(source) else read_labels(path)


def _file(source: str) -> Path:
    path = Path(source)
    return path / TRACES if path.is_dir() else path


def is_run(source: str) -> bool:
    """Whether ``source`` names the attempts of a run: its directory, or a file whose first line is an attempt."""
    if source == GOLD or source.endswith(".gz"):
        return False
    try:
        with _file(source).open("rb") as file:
            first = strict_json.loads(file.readline(MAX_LINE))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and "segments" in first


def from_traces(path: Path) -> list[LabelledWindow]:
    """A row for each segment that the attempts of a run acted anew, in order."""
    declared: dict[str, tuple[str, ...]] = {}
    rows = []
    for number, trace in enumerate(read_traces(path)):
        domain = trace.record.domain
        if domain not in declared:
            declared[domain] = outcome_text_of_domain(domain)
        rows += _cut(trace, number, declared[domain])
    return rows


def _cut(trace: Trace, number: int, outcome_text: Sequence[str]) -> list[LabelledWindow]:
    record = trace.record
    steps = range(record.prefix_length, len(record.segments))
    episode = f"{record.task_id or record.group_id}/u{trace.update}/{number}"
    origin: dict[str, Any] = {"episode": episode, "task_id": record.task_id, "attempt": record.attempt}
    windows = build_windows(record, outcome_text=outcome_text, steps=steps)
    return [
        LabelledWindow(
            f"{episode}/{window.step}",
            window,
            labels,
            success=None if record.error is not None else record.success,
            origin={**origin, JUDGES: sorted(labels)} if labels else origin,
        )
        for window, labels in ((window, _judged(record, at)) for at, window in zip(steps, windows, strict=True))
    ]


def _judged(record: EpisodeRecord, at: int) -> dict[str, Annotation]:
    label = record.labels[at] if record.labels else None
    if label is None or label.status == "unjudged":
        return {}
    try:
        name = check_name(label.source)
    except InputError:
        name = "judge"
    return {name: Annotation(label.role, label.why)}


def outcome_text_of_domain(domain: str) -> tuple[str, ...]:
    """What the registered environments of a family declare as telling the outcome; nothing for an unknown family."""
    found: list[str] = []
    for name in registry.names("envs"):
        try:
            metadata = getattr(registry.factory("envs", name), "metadata", {})
        except (TriageGymError, ImportError):  # an environment of an extra that is not installed
            continue
        if domain_of(metadata) == domain:
            found += outcome_text_of(metadata)
    return tuple(dict.fromkeys(found))


def in_turn(rows: Iterable[LabelledWindow]) -> list[LabelledWindow]:
    """The rows in the order in which they are asked about: by their ids alone, so the same for every annotator."""
    return shuffled(rows, "turn")


def shuffled(rows: Iterable[LabelledWindow], key: str) -> list[LabelledWindow]:
    """The rows in an order that ``key`` alone decides, so that their order in a file tells an annotator nothing."""
    return sorted(rows, key=lambda row: hashlib.sha256(f"{key}\0{row.id}".encode(errors="backslashreplace")).digest())


def sample(rows: Sequence[LabelledWindow], n: int, seed: int = 0) -> list[LabelledWindow]:
    """At most ``n`` rows, taken in turns from each stratum: family, outcome, gold and what annotators said.

    Args:
        rows: To draw from.
        n: How many.
        seed: Decides which.

    Raises:
        InputError: For ``n`` below 1.
    """
    if n < 1:
        raise InputError(f"Expected to draw at least 1 segment, got {n}")
    strata: dict[str, list[LabelledWindow]] = {}
    for row in shuffled(rows, f"sample {seed}"):
        said = sorted((name, label.role or "") for name, label in row.labels.items())
        strata.setdefault(repr((row.window.domain, row.success, row.gold, said)), []).append(row)
    queues = [iter(strata[name]) for name in sorted(strata)]
    random.Random(seed).shuffle(queues)
    found: list[LabelledWindow] = []
    while queues and len(found) < n:
        for queue in list(queues):
            taken = list(islice(queue, 1))
            found += taken
            if not taken:
                queues.remove(queue)
    return found[:n]
