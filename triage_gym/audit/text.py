"""An audit as tables for the terminal, the numbers that matter most first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from triage_gym.audit.annotating import annotators_of
from triage_gym.audit.auditing import KEY_CELLS, OUTCOMES, Audit, Outcome, Rater
from triage_gym.audit.benefit import Benefit
from triage_gym.audit.verdict import verdicts
from triage_gym.display import cut, sanitize_line, table
from triage_gym.records import ROLES, Role
from triage_gym.statistics import Interval

NONE: Final = "–"
_REASONS: Final = 3
_REASON: Final = 160
"""Reasons of failures that are shown, and characters of each."""


def shown(interval: Interval | None) -> str:
    """``0.86 [0.79, 0.92]``."""
    if interval is None:
        return NONE
    return f"{interval.estimate:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def number(value: float | None) -> str:
    """``0.86``."""
    return NONE if value is None else f"{value:.2f}"


def share(count: int, of: int) -> str:
    """``97 %``, exactly ``0 %`` or ``100 %`` only where it is none or all."""
    if of == 0:
        return NONE
    percent = 100 * count / of
    return f"{percent:.0f} %" if count in (0, of) or 0.5 <= percent < 99.5 else f"{percent:.1f} %"


def amount(value: float) -> str:
    """A cost, short: ``12,346``, ``3.14``, ``0.004``."""
    if value == round(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def summary(found: Audit) -> str:
    """The whole audit, a block a subject."""
    return "\n\n".join(blocks(found))


def blocks(found: Audit) -> Iterator[str]:
    """The blocks of :func:`summary`, in order."""
    yield head(found)
    if found.settled:
        yield "Key numbers\n" + table(*key_numbers(found))
        for role, outcome in KEY_CELLS if len(found.families) > 1 else ():
            yield table(*by_family(found, role, outcome))
    judges = [rater for rater in found.raters if rater.judge]
    for rater in judges or found.raters:
        yield from details(rater, found)
    if len(found.raters) > 1 or found.settled:
        yield "Agreement (Cohen's kappa)\n" + table(*agreements(found))
    if found.settled and judges:
        yield "Verdict\n" + "\n".join(f"  {line}" for line in verdicts(found))


def head(found: Audit) -> str:
    """What was audited, and how its intervals are made."""
    names = ", ".join(map(sanitize_line, annotators_of(found.rows)))
    hint = (
        "" if found.settled or not names else f"\nno gold role: take one's labels for it with --reference NAME: {names}"
    )
    return (
        f"{found.source or 'labels'}: {len(found.rows)} segments of {found.attempts} attempts, {found.settled} with a "
        f"gold role{hint}\nintervals: {100 * found.confidence:g} %, {found.method} (Wilson's where all are alike)\n"
        "precision is of the labels given; recall is of all segments, one without a label being missed"
    )


def key_numbers(found: Audit) -> tuple[list[str], list[list[str]]]:
    """Title and rows of the table that says how good each rater is."""
    rows = []
    for role, outcome in KEY_CELLS:
        cells = [rater.cell(role, outcome) for rater in found.raters]
        rows.append([f"{role} in {outcome}, F1", str(cells[0].support), *(shown(cell.f1) for cell in cells)])
    n = str(found.settled)
    rows.append(["mean F1 of the roles", n, *(number(rater.macro_f1) for rater in found.raters)])
    rows.append(["right, of labels given", n, *(shown(rater.right) for rater in found.raters)])
    rows.append(["kappa with gold", n, *(shown(found.with_gold(rater.name).kappa) for rater in found.raters)])
    labelled = [share(rater.statuses["judged"], len(rater.labels)) for rater in found.raters]
    rows.append(["labelled", str(len(found.rows)), *labelled])
    return ["", "n", *(rater.name for rater in found.raters)], rows


def by_family(found: Audit, role: Role, outcome: Outcome) -> tuple[list[str], list[list[str]]]:
    """Title and rows of the table of a cell's F1, family by family of environments."""
    rows = []
    for family in found.families:
        cells = [rater.cell(role, outcome, family) for rater in found.raters]
        rows.append([family, str(cells[0].support), *(shown(cell.f1) for cell in cells)])
    return [f"{role} in {outcome}, F1", "n", *(rater.name for rater in found.raters)], rows


def cells(rater: Rater) -> tuple[list[str], list[list[str]]]:
    """Title and rows of the table role by role and cell by cell."""
    title = ["among", "role", "n", "given", "precision", "recall", "of labelled", "F1"]
    rows = []
    for outcome in OUTCOMES:
        for score in rater.scores[outcome]:
            rows.append(
                [
                    outcome,
                    score.role,
                    str(score.support),
                    str(score.given),
                    shown(score.precision),
                    shown(score.recall),
                    number(score.recall_judged),
                    shown(score.f1),
                ]
            )
    return title, rows


def matrix(rater: Rater) -> tuple[list[str], list[list[str]]]:
    """Title and rows of the confusion matrix."""
    rows = [[f"gold {role}", *map(str, counts)] for role, counts in zip(ROLES, rater.confusion.tolist(), strict=True)]
    return ["", *(f"said {role}" for role in ROLES), "no label"], rows


def details(rater: Rater, found: Audit) -> Iterator[str]:
    """Everything about one rater."""
    name = f"{'judge' if rater.judge else 'annotator'} {rater.name}"
    if found.settled:
        yield f"{name}: roles and cells\n" + table(*cells(rater), align="ll" + "r" * 6)
        yield f"{name}: confusion\n" + table(*matrix(rater))
    rest = [f"labels: {statuses(rater)}", *failures(rater), *confidence(rater), *cost(rater)]
    if rater.benefit is not None:
        rest += foretold(rater.benefit)
    yield f"{name}\n" + "\n".join(f"  {line}" for line in rest)


def statuses(rater: Rater) -> str:
    """How many labels were given, and why not the others."""
    total = len(rater.labels)
    said = [f"{rater.statuses['judged']} of {total} given"]
    said += [
        f"{rater.statuses[name]} {name} ({share(rater.statuses[name], total)})"
        for name in ("failed", "unsure", "unjudged")
        if rater.statuses[name] or rater.judge
    ]
    return ", ".join(said)


def failures(rater: Rater) -> list[str]:
    """Why labels failed, the commonest reasons first."""
    counted = Counter(cut(label.why, _REASON) for label in rater.labels if label.status == "failed")
    return [f"  {n} failed: {sanitize_line(why)}" for why, n in counted.most_common(_REASONS)]


def muteness(rater: Rater) -> str:
    """That a judge gave no label, and the commonest reason."""
    whys = Counter(label.why for label in rater.labels if label.status == "failed").most_common(1)
    why, n = whys[0]
    total = rater.statuses["failed"]
    which = "all" if n == total else f"{n} of them"
    return f"judge {rater.name} gave no label: {total} failed, {which} with: {sanitize_line(why)}"


def confidence(rater: Rater) -> list[str]:
    """What is said of a judge's calibration."""
    found = rater.calibration
    if found is None or not found.n:
        return []
    if not found.stated:
        sure = found.bins[0].confidence
        return [
            f"calibration: the same confidence throughout, {sure:.2f}, and {shown(rater.right)} right: none to speak of"
        ]
    brier = "" if found.brier is None else f", Brier score {found.brier:.3f}"
    lines = [f"calibration: expected error {shown(found.ece)}{brier}"]
    head = ["  confidence", "labels", "mean", "right"]
    rows = [[f"  {b.low:.1f}–{b.high:.1f}", str(b.n), f"{b.confidence:.2f}", shown(b.right)] for b in found.bins]
    return lines + table(head, rows).splitlines()


def cost(rater: Rater) -> list[str]:
    """What 1,000 segments cost, without what was counted and did not happen."""
    if rater.cost is None:
        return []
    parts = [f"{name} {amount(value)}" for name, value in rater.cost.per_thousand().items() if value]
    return [f"cost of 1,000 segments: {', '.join(parts)}"]


def foretold(found: Benefit) -> list[str]:
    """What correcting by the roles would bring."""
    lines = [
        f"benefit, from {found.n} segments with δ = A* - A_i (mean {found.mean_delta:+.3f}):",
        f"  Cov(c, δ) {_signed(found.covariance)}, λ* {number(found.best_weight)}",
        "  change of the mean squared error: " + ", ".join(f"{c:+.4f} at λ {w:.2g}" for w, c in found.change),
        "  E[δ | role]: " + ", ".join(f"{g.role} {_signed(g.gain)} (n {g.n})" for g in found.gains),
    ]
    if found.monotone is not None:
        lines.append(f"  it {'falls' if found.monotone else 'does not fall'} from D over E and N to R")
    if found.foretold is not None:
        lines.append(
            f"  corr(c, A*) {_signed(found.correction_corr)} against corr(A_i, A*) {_signed(found.outcome_corr)}: "
            f"{'gain' if found.foretold else 'no gain'} foretold"
        )
    return lines


def _signed(interval: Interval | None) -> str:
    if interval is None:
        return NONE
    return f"{interval.estimate:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"


def agreements(found: Audit) -> tuple[list[str], list[list[str]]]:
    """Title and rows of the table of agreement."""
    rows = [[f"{a.first} – {a.second}", str(a.n), number(a.share), shown(a.kappa)] for a in found.agreements if a.n]
    return ["", "both labelled", "agree", "kappa"], rows
