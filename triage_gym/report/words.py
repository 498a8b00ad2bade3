"""The report's sentences, made from its numbers: what is shown is said, and what is not shown is said too."""

from __future__ import annotations

from triage_gym.report.arms import describe
from triage_gym.report.model import Difference, Report, Row
from triage_gym.report.view import plain


def _chosen(report: Report) -> str | None:
    """The arm that the first sentence is about: TRIAGE where there is one, else the first arm compared."""
    names = [d.arm for d in report.differences]
    if "triage" in names:
        return "triage"
    return names[0] if names else None


def _label(report: Report, name: str) -> str:
    return next((arm.label for arm in report.arms if arm.name == name), describe(name).label)


def _row(report: Report, name: str) -> Row | None:
    return next((row for row in report.rows if row.arm == name), None)


def headline(report: Report) -> str:
    """One line: what was compared, or what was trained."""
    chosen = _chosen(report)
    if chosen is None or report.reference is None:
        return report.title
    difference = next(d for d in report.differences if d.arm == chosen)
    success = difference.success
    if success is None:
        return report.title
    name, other = _label(report, chosen), _label(report, report.reference)
    if success.half_width is None:
        return f"{name} against {other}: one seed, no interval"
    if not success.excludes_zero:
        return f"No difference shown between {name} and {other}"
    return f"{name} solves {'more' if success.mean > 0 else 'fewer'} held-out games than {other}"


def lead(report: Report) -> str:
    """The two or three sentences under the headline."""
    chosen = _chosen(report)
    if chosen is None or report.reference is None:
        return _lead_alone(report)
    difference = next(d for d in report.differences if d.arm == chosen)
    parts = [_success(report, chosen, difference), _length(difference), _controls(report)]
    return " ".join(part for part in parts if part)


def _success(report: Report, chosen: str, difference: Difference) -> str:
    mine, theirs = _row(report, chosen), _row(report, report.reference or "")
    success = difference.success
    if success is None or mine is None or theirs is None or mine.success is None or theirs.success is None:
        return "The held-out success of the two was not measured in any common seed."
    text = (
        f"{_label(report, chosen)} solves {100 * mine.success.mean:.1f} % of the held-out games, "
        f"{_label(report, report.reference or '')} {100 * theirs.success.mean:.1f} %: "
        f"{plain(success, 100.0, 1, sign=True)} points ({success.positive} of {len(success.values)} seeds above zero)."
    )
    if success.half_width is not None and not success.excludes_zero:
        text += " The 95 % interval holds zero, so no difference is shown."
    return text


def _length(difference: Difference) -> str:
    length = difference.length_percent
    if length is None:
        return ""
    if length.excludes_zero:
        word = "shorter" if length.mean < 0 else "longer"
        return f"On games that both solve its solutions are {abs(length.mean):.1f} ± {length.half_width or 0.0:.1f} % {word}."
    return f"Length on games that both solve: {plain(length, 1.0, 1, sign=True)} %, no difference shown."


def _controls(report: Report) -> str:
    said = []
    for name in ("triage-shuffled", "roles-only"):
        row = _row(report, name)
        if row is not None and row.success is not None:
            said.append(f"{_label(report, name)} {100 * row.success.mean:.1f} %")
    return f"Controls: {', '.join(said)}." if said else ""


def _lead_alone(report: Report) -> str:
    said = [f"Not finished: {report.unfinished}."] if report.unfinished else []
    measured = False
    for row in report.rows:
        if row.success is None:
            continue
        measured = True
        text = f"{_label(report, row.arm)} solves {100 * row.success.mean:.1f} % of the held-out games"
        if row.length is not None:
            text += f", in {row.length.mean:.1f} turns when it does"
        said.append(text + ".")
    if not measured:
        said.append(
            "There is no held-out result of training yet."
            if "evaluation" in report.unfinished
            else "No held-out evaluation has been written yet."
        )
    return " ".join(said)
