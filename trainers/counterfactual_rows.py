"""Measured turns as rows of a label file, with what judges say of them: for ``triage-gym credit`` and ``judge audit``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from triage_gym.audit.auditing import ask
from triage_gym.audit.labels import Annotation, LabelledWindow
from triage_gym.judges import nesting
from triage_gym.judges.labelling import label_records
from triage_gym.protocols import Judge
from triage_gym.records import RoleLabel
from triage_gym.trainers.counterfactual import Measured, Turn
from triage_gym.windows import build_windows

JUDGES = "judges"
"""The key of an origin under which the names of those stand that are judges."""


def rows_of(measured: Measured, env: str, window: int = 5) -> list[LabelledWindow]:
    """A row for each turn, in the order in which they were measured.

    Args:
        measured: The turns.
        env: Name of the environment, for the ids.
        window: Pairs of action and observation before and after the turn.
    """
    episodes: dict[int, str] = {}
    rows = []
    for turn in measured.turns:
        record = turn.record
        episode = episodes.setdefault(id(record), f"{env}/{record.group_id}/{len(episodes)}")
        (seen,) = build_windows(record, window, window, measured.outcome_text, steps=range(turn.step, turn.step + 1))
        rows.append(
            LabelledWindow(
                f"{episode}/{turn.step}",
                seen,
                success=record.success,
                delta=turn.a_star / measured.scale - turn.advantage,
                origin=_origin(turn, episode, measured.scale),
            )
        )
    return rows


def _origin(turn: Turn, episode: str, scale: float) -> dict[str, Any]:
    return {
        "episode": episode,
        "task_id": turn.record.task_id or turn.record.group_id.partition(":")[2],
        "advantage": turn.advantage,
        "a_star": turn.a_star,
        "error": turn.error,
        "scale": scale,
        "own": list(turn.own),
        "drawn": [list(pair) for pair in turn.drawn],
    }


def labelled(
    rows: list[LabelledWindow], judges: Mapping[str, Judge], measured: Measured | None = None
) -> list[LabelledWindow]:
    """The rows with what each judge says of its window; without a role where it failed or would not say.

    Args:
        rows: As :func:`rows_of` gives them, or as they were read from a file.
        judges: By the name that their labels are to have.
        measured: What the rows were made of. A judge that selects turns then sees whole episodes, as in training, and
            labels those that it wants; without it, it is asked about every row.
    """
    for name, judge in judges.items():
        rows = with_labels(rows, name, labels_of(judge, rows, measured))
    return rows


def labels_of(
    judge: Judge, rows: Sequence[LabelledWindow], measured: Measured | None = None, window: int = 5
) -> list[RoleLabel]:
    """What a judge says of each row; see :func:`labelled`. ``window`` as in :func:`rows_of`."""
    if measured is None or nesting.selection_of(judge) is None:
        return ask(judge, rows)[0]
    episodes = {id(turn.record): turn.record for turn in measured.turns}
    records = label_records(list(episodes.values()), judge, window, window, measured.outcome_text)
    whole = dict(zip(episodes, records, strict=True))
    return [whole[id(turn.record)].labels[turn.step] for turn in measured.turns]


def with_labels(rows: Sequence[LabelledWindow], name: str, labels: Sequence[RoleLabel]) -> list[LabelledWindow]:
    """The rows with ``labels``, one each, as those of the judge ``name``."""
    return [
        replace(
            row,
            labels={**row.labels, name: Annotation(label.role, label.why)},
            origin={**row.origin, JUDGES: sorted({*row.origin.get(JUDGES, ()), name})},
        )
        for row, label in zip(rows, labels, strict=True)
    ]
