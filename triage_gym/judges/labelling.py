"""Ask a judge about an attempt and check what it says: bad answers become failed labels, never a crash or a guess.

A failed label has ``role=None`` and ``status="failed"``, with the reason in ``why``; credit rules then give the segment
its outcome term only. Segments that a retry copied from the failed attempt are not judged a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final

from triage_gym.protocols import Judge, Window
from triage_gym.records import LABEL_STATUSES, ROLES, EpisodeRecord, RoleLabel
from triage_gym.windows import build_windows

MAX_WHY: Final = 2000
"""Characters kept of a judge's reason."""


def label_record(
    record: EpisodeRecord, judge: Judge, past: int = 5, future: int = 5, outcome_text: Sequence[str] = ()
) -> EpisodeRecord:
    """The attempt with one label a segment; see :func:`label_records`."""
    return label_records([record], judge, past, future, outcome_text)[0]


def label_records(
    records: Sequence[EpisodeRecord],
    judge: Judge,
    past: int = 5,
    future: int = 5,
    outcome_text: Sequence[str] = (),
    *,
    ask: Callable[[Judge, Sequence[Sequence[Window]]], list[list[RoleLabel]]] | None = None,
) -> list[EpisodeRecord]:
    """The attempts, each with one label a segment.

    The judge is called once, with the windows of all segments that these attempts acted anew, so that one which waits for
    an endpoint waits for all of them together. Labels that a record already has for its copied prefix are kept; without
    them the prefix has those of its parent, where that is among ``records``, and is ``unjudged`` otherwise. A judge with a
    method ``select(record)`` is asked only about the steps that it gives; the others are ``unjudged``.

    Args:
        records: The attempts.
        judge: Any judge; what it raises (KeyboardInterrupt and its like apart) and every malformed answer become
            failed labels.
        past: Pairs that the judge sees before each segment.
        future: Pairs that it sees after.
        outcome_text: Literals to redact (:func:`~triage_gym.windows.build_windows`).
        ask: Asks in the place of :func:`judge_attempts`, for one who asks about a part of the attempts at a time.

    Raises:
        InputError: For bad ``past``, ``future`` or ``outcome_text``.
    """
    steps = [range(record.prefix_length, len(record.segments)) for record in records]
    windows = [
        _wanted(record, judge, own, past, future, outcome_text) for record, own in zip(records, steps, strict=True)
    ]
    answers = (ask or judge_attempts)(judge, windows)
    labelled: dict[tuple[str, str, int], EpisodeRecord] = {}
    found = []
    for record, acted, own in zip(records, steps, answers, strict=True):
        parent = labelled.get((record.group_id, record.trial, record.parent))
        whole = record.with_labels([*_prefix_labels(record, parent), *_filled(record, acted, own)])
        labelled[record.group_id, record.trial, record.attempt] = whole
        found.append(whole)
    return found


def label_steps(
    record: EpisodeRecord, judge: Judge, steps: range, past: int, future: int, outcome_text: Sequence[str]
) -> list[RoleLabel]:
    """Labels of the segments at ``steps`` alone; else as :func:`label_records`."""
    windows = _wanted(record, judge, steps, past, future, outcome_text)
    return _filled(record, steps, judge_windows(judge, windows))


def _wanted(
    record: EpisodeRecord, judge: Judge, steps: range, past: int, future: int, outcome_text: Sequence[str]
) -> Sequence[Window]:
    """The windows of the segments at ``steps`` that the judge wants to see."""
    windows = build_windows(record, past, future, outcome_text, steps=steps)
    select = getattr(judge, "select", None)
    if not callable(select):
        return windows
    chosen = {record.segments[at].index for at in select(record) if at in steps}
    return [window for window in windows if window.step in chosen]


def _prefix_labels(record: EpisodeRecord, parent: EpisodeRecord | None) -> Sequence[RoleLabel]:
    prefix = record.prefix_length
    if record.labels[:prefix]:
        return record.labels[:prefix]
    if parent is not None and len(parent.labels) >= prefix:
        return parent.labels[:prefix]
    return [
        RoleLabel(s.index, None, why="copied from an earlier attempt", status="unjudged")
        for s in record.segments[:prefix]
    ]


def _filled(record: EpisodeRecord, steps: range, labels: Sequence[RoleLabel]) -> list[RoleLabel]:
    """One label a segment at ``steps``: those that the judge did not want to see are unjudged."""
    acted = [record.segments[at] for at in steps]
    if len(labels) == len(acted):
        return list(labels)
    by_step = {label.step: label for label in labels}
    return [by_step.get(s.index) or RoleLabel(s.index, None, why="not selected", status="unjudged") for s in acted]


def judge_windows(judge: Judge, windows: Sequence[Window]) -> list[RoleLabel]:
    """One checked label a window, in order; see :func:`label_record` for what happens to bad answers."""
    return judge_attempts(judge, [windows])[0]


def judge_attempts(judge: Judge, attempts: Sequence[Sequence[Window]]) -> list[list[RoleLabel]]:
    """Checked labels of the windows of several attempts, from one call, so that a judge can work on all of them at once.

    A judge that raises, or gives another number of labels, is asked again attempt by attempt: one odd text must not cost
    the labels of a batch. So is one that gives them in another order, since the same steps are in many attempts.
    """
    source = type(judge).__name__
    windows = [window for attempt in attempts for window in attempt]
    if not windows:
        return [[] for _ in attempts]
    several = sum(map(bool, attempts)) > 1
    try:
        # A copy: a judge may work its list off without emptying ours.
        answers: list[Any] = list(islice(judge.judge(list(windows)), len(windows) + 1))
        count = f"at least {len(answers)}" if len(answers) > len(windows) else str(len(answers))
        problem = "" if len(answers) == len(windows) else f"expected {len(windows)} labels, got {count}"
        if not problem and several and _misplaced(answers, windows):
            problem = "expected the labels in the order of the windows"
    except Exception as error:  # noqa: BLE001 - whatever a judge does, the attempt keeps its outcome term
        problem = f"{source} raised {type(error).__name__}: {_safe_text(error)}"
    if problem:
        if several:
            return [judge_windows(judge, attempt) for attempt in attempts]
        return [failed_labels(attempt, problem, source) for attempt in attempts]
    rest = iter(answers)
    return [_in_order(list(islice(rest, len(attempt))), attempt, source) for attempt in attempts]


def _in_order(answers: list[Any], windows: Sequence[Window], source: str) -> list[RoleLabel]:
    """The answers of one attempt, checked, in the order of its windows."""
    steps = [w.step for w in windows]
    if _misplaced(answers, windows):
        given = _steps(answers)
        if None in given or len(set(given)) != len(given) or set(given) != set(steps):
            return failed_labels(windows, "expected a label for each step exactly once", source)
        by_step = dict(zip(given, answers, strict=True))
        answers = [by_step[step] for step in steps]
    return [_checked(a, step, source) for a, step in zip(answers, steps, strict=True)]


def _misplaced(answers: list[Any], windows: Sequence[Window]) -> bool:
    """Whether a label stands where that of another step belongs."""
    return any(given not in (None, w.step) for given, w in zip(_steps(answers), windows, strict=True))


def _steps(answers: list[Any]) -> list[int | None]:
    return [a.step if type(a) is RoleLabel and type(a.step) is int else None for a in answers]


def failed_labels(windows: Sequence[Window], why: str, source: str = "") -> list[RoleLabel]:
    """A failed label for each window, all with the same reason."""
    return [RoleLabel(w.step, None, why=why[:MAX_WHY], source=source, status="failed") for w in windows]


def _checked(answer: Any, step: int, source: str) -> RoleLabel:
    """The answer when it is a well-formed label, else a failed one that says what was wrong."""
    problem = _problem(answer)
    if not problem:
        label: RoleLabel = answer
        return label
    return RoleLabel(step, None, why=f"malformed label: {problem}"[:MAX_WHY], source=source, status="failed")


def _problem(answer: object) -> str:
    """What is wrong with an answer, or "". Types are compared exactly, so nothing foreign is ever run."""
    if type(answer) is not RoleLabel:
        return f"expected a RoleLabel, got {type(answer).__name__}"
    role: object = answer.role
    status: object = answer.status
    confidence: object = answer.confidence
    magnitude: object = answer.magnitude
    p: Any = answer.probabilities
    if type(status) is not str or status not in LABEL_STATUSES:
        return f"expected a status out of {LABEL_STATUSES}, got {_safe_text(status)}"
    if role is None:
        if status == "judged":
            return "no role, yet called judged"
    elif type(role) is not str or role not in ROLES:
        return f"expected a role out of {ROLES}, got {_safe_text(role)}"
    elif status != "judged":
        return f"a role, yet status {status}"
    if type(confidence) is not float or not 0.0 <= confidence <= 1.0:
        return f"expected a confidence in [0, 1], got {_safe_text(confidence)}"
    if type(magnitude) is not float or not 0.0 <= magnitude <= 1.0:
        return f"expected a magnitude in [0, 1], got {_safe_text(magnitude)}"
    if type(answer.why) is not str or len(answer.why) > MAX_WHY or type(answer.source) is not str:
        return f"expected `why` (at most {MAX_WHY} characters) and `source` to be text"
    if type(answer.step) is not int:
        return f"expected an integer step, got {_safe_text(answer.step)}"
    if p is not None and not (type(p) is tuple and len(p) == 4 and all(type(x) is float and 0 <= x <= 1 for x in p)):
        return "expected probabilities to be None or four numbers in [0, 1]"
    return ""


def _safe_text(value: object) -> str:
    """A short text of anything, even of what fails to print."""
    try:
        return str(value)[:200]
    except Exception:  # noqa: BLE001 - a value that cannot print must not hide the failure it came with
        return f"<{type(value).__name__}>"
