"""Tables of trials: ways to retry side by side, and the same at equal turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from triage_gym.display import table

if TYPE_CHECKING:
    from triage_gym.cli.trial_play import Clock
    from triage_gym.statistics import Interval
    from triage_gym.trials import Trial, TrialSummary

LABELS: Final = {"pivot": "from the pivot", "start": "full restart"}
"""What the ways to retry are called in tables, by the value of ``retry_from``."""
BUDGETS: Final = 6
"""Turn budgets that a comparison at equal turns shows."""
NONE: Final = "–"


def percent(interval: Interval) -> str:
    """``57.0 (50.1–63.7)``, in per cent."""
    return f"{100 * interval.estimate:.1f} ({100 * interval.low:.1f}–{100 * interval.high:.1f})"


def measures(arms: Mapping[str, TrialSummary]) -> str:
    """Every measure of a summary, a row each, with a column for each arm."""
    attempts = max(s.attempts for s in arms.values())
    rows: list[tuple[str, Callable[[TrialSummary], object]]] = [
        (f"pass@{k}, % (95 %)", lambda s, k=k: percent(s.solved[k - 1]))  # type: ignore[misc]
        for k in range(1, attempts + 1)
    ]
    rows += [
        ("turns generated", lambda s: s.generated.total),
        ("… by attempt", lambda s: " ".join(map(str, s.generated.by_attempt))),
        ("… a trial", lambda s: f"{s.generated.per_trial:.2f}"),
        ("turns replayed", lambda s: s.replayed.total),
        ("… by attempt", lambda s: " ".join(map(str, s.replayed.by_attempt))),
        ("solved per 1,000 generated turns", lambda s: f"{s.per_thousand:.1f}"),
        ("attempts made", lambda s: " ".join(map(str, s.made))),
        ("given up with attempts left", lambda s: s.unfinished),
        ("attempts with an error", lambda s: s.broken),
        ("{unit} of actions", lambda s: s.written.actions),
        ("{unit} of reflections", lambda s: s.written.reflections),
        ("restored by", lambda s: _counts(s.strategies)),
        ("restore check", lambda s: _counts(s.statuses)),
        ("pivot check", lambda s: _counts(s.checks)),
        ("reflections that named no turn", lambda s: _counts(s.problems)),
        ("pivot as the expert's, %", lambda s: percent(s.accuracy.equal) if s.accuracy else NONE),
        ("… within one turn, %", lambda s: percent(s.accuracy.within_one) if s.accuracy else NONE),
        ("… turns apart, mean", lambda s: f"{s.accuracy.distance:.2f}" if s.accuracy else NONE),
        ("turns T of a retry, kept k", lambda s: f"{s.gain.turns:.2f}, {s.gain.kept:.2f}" if s.gain else NONE),
        ("concentration T/(T-k)", lambda s: f"{s.gain.concentration:.3f}" if s.gain else NONE),
        ("bits a reflection", lambda s: _number(s.gain.bits if s.gain else None)),
        ("… spread, bits/T", lambda s: _number(s.gain.bits_per_turn if s.gain else None)),
        ("… at the pivot, bits/(T-k)", lambda s: _number(s.gain.bits_per_generated_turn if s.gain else None)),
    ]
    unit = next(iter(arms.values())).written.unit
    cells = [(name.format(unit=unit), [get(s) for s in arms.values()]) for name, get in rows]
    # What nobody measured would only fill the screen.
    shown = [[name, *found] for name, found in cells if any(cell not in (NONE, 0) for cell in found)]
    return table(["", *(LABELS.get(arm, arm) for arm in arms)], shown)


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in found.items()) or NONE


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def budgets(arms: Mapping[str, Sequence[Trial]]) -> list[int]:
    """Turn budgets from the longest first attempt to the longest trial, evenly spaced."""
    trials = [t for arm in arms.values() for t in arm]
    low, high = max(t.generated[0] for t in trials), max(sum(t.generated) for t in trials)
    count = min(BUDGETS, high - low + 1)
    return [low] if count == 1 else [round(low + i * (high - low) / (count - 1)) for i in range(count)]


def equal_turns(arms: Mapping[str, Sequence[Trial]]) -> str:
    """The share solved within equal turn budgets, a row each, with a column for each arm."""
    from triage_gym.trials import solved_within

    limits = budgets(arms)
    columns = [solved_within(trials, limits) for trials in arms.values()]
    rows = [[limit, *(percent(column[i]) for column in columns)] for i, limit in enumerate(limits)]
    return table(["turns a trial", *(LABELS.get(arm, arm) for arm in arms)], rows, "r" * (len(arms) + 1))


def against(pivot: Sequence[Trial], start: Sequence[Trial], attempts: int) -> list[str]:
    """What retrying from the pivot saves and brings against full restarts, in sentences."""
    from triage_gym.trials import paired_pass

    whole = [sum(sum(t.generated) for t in arm) for arm in (pivot, start)]
    again = [sum(sum(t.generated[1:]) for t in arm) for arm in (pivot, start)]
    ratios = [f"{a / b:.3f}" if b else NONE for a, b in (whole, again)]
    lines = [f"generated turns, from the pivot / full restart: {ratios[0]} of whole trials, {ratios[1]} of the retries"]
    found = paired_pass(pivot, start, attempts)
    half = "" if found.half_width is None else f" ± {100 * found.half_width:.1f}"
    lines.append(
        f"pass@{attempts}, from the pivot less full restart, task by task: {100 * found.mean:+.1f}{half} points"
    )
    return lines


def times(arms: Mapping[str, Clock]) -> str:
    """What turns and restores cost, a row for each arm."""
    rows = []
    for arm, clock in arms.items():
        restore, replayed = clock.a_restore, clock.a_replayed_turn
        rows.append(
            [
                LABELS.get(arm, arm),
                f"{1e3 * clock.a_turn:.3f}",
                NONE if restore is None else f"{1e3 * restore:.3f}",
                NONE if replayed is None else f"{1e3 * replayed:.3f}",
                NONE if replayed is None else f"{100 * replayed / clock.a_turn:.1f}",
            ]
        )
    head = ["wall time", "generated turn, ms", "way back, ms", "… ÷ replayed turns, ms", "… of a generated one, %"]
    note = "The way back costs about the same to any turn, the start included."
    return f"{table(head, rows)}\n{note}"
