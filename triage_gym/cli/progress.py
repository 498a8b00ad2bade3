"""Live progress of training: a rich display on a terminal, plain lines otherwise (and with ``NO_COLOR`` no colour).

One run has a plain line for every update. A comparison runs many at once, so there each run has a line for every tenth
of its turns.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from triage_gym.cli.output import console
from triage_gym.display import sanitize_line
from triage_gym.records import ROLES

if TYPE_CHECKING:
    from triage_gym.trainers.progress import Update


STOPPING: Final = "stopping after this update, or without it while its judge is asked (again: at once)"


def duration(seconds: float) -> str:
    """``4:07`` or ``1:02:03``."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"


def _share(metrics: Mapping[str, Any], key: str) -> str:
    value = metrics.get(key)
    return "  –" if value is None else f"{100 * float(value):3.0f}"


def line(update: Update) -> str:
    """One update in one line: turns, success, length, role mix, speed, time to go."""
    m = update.metrics
    length = m.get("length")
    roles = " ".join(f"{role}{_share(m, f'role_{role}')}" for role in ROLES)
    return (
        f"{sanitize_line(update.run)}  update {update.update:4d}  {update.turns:7d}/{update.total_turns} turns  "
        f"success {_share(m, 'success')} %  length {f'{length:4.1f}' if length is not None else '   –'}  "
        f"roles {roles}  {_judge(update)}{_speed(update)}  to go {duration(update.eta_s)}"
    )


def _speed(update: Update) -> str:
    """Turns a CPU second, or what the clock says where most of the time goes by waiting for a judge."""
    t = update.timings
    wall, waited = float(t.get("update_wall_s") or 0.0), float(t.get("judge_wall_s") or 0.0)
    if wall > 0 and waited > max(1.0, 0.5 * wall):
        return f"{float(t.get('batch_turns') or 0.0) / wall:.1f} turns/s, {waited:.0f} of {wall:.0f} s for the judge"
    return f"{float(t.get('turns_per_cpu_s') or 0.0) / 1000:4.1f}k turns/CPU-s"


def _judge(update: Update) -> str:
    """How many segments have no role or a stand-in, and what the update's labels cost, where there is something to say."""
    m, t = update.metrics, update.timings
    said = [
        f"{word} {_share(m, key).strip()} %"
        for word, key in (("unjudged", "role_unjudged"), ("fallback", "role_fallback"))
        if m.get(key)
    ]
    tokens, segments, usd = (float(t.get(f"judge_{name}") or 0.0) for name in ("prompt_tokens", "segments", "usd"))
    if tokens and segments:
        said.append(f"{tokens / segments:,.0f} prompt tokens/turn")
    if usd:
        said.append(f"judge ${usd:.4f}")
    return "".join(f"{text}  " for text in said)


def warnings(update: Update) -> list[str]:
    """What the trainer warns of with this update, in its own words."""
    from triage_gym.trainers.metrics import worded

    why = str(update.timings.get("second_judge_why") or "")
    return [
        f"warning: {sanitize_line(update.run)}, update {update.update}: {sanitize_line(worded(name, update.metrics, why))}"
        for name in update.metrics.get("warnings") or ()
    ]


def _is_not_shown(record: logging.LogRecord) -> bool:
    """Whether a log record is other than the warnings that come with an update, which are shown once already."""
    return record.module != "metrics"


class Progress:
    """A context manager that is called with every update; meanwhile the trainer's log does not repeat its warnings.

    Args:
        runs: How many runs there will be.
        quiet: Whether to print warnings only.
    """

    def __init__(self, runs: int, quiet: bool = False) -> None:
        self._runs, self._quiet = runs, quiet
        self._console = console(stderr=True)
        self._live: Any = None
        self._latest: dict[str, Update] = {}
        self._printed: dict[str, int] = {}

    def __enter__(self) -> Self:
        logging.getLogger("triage_gym.trainers").addFilter(_is_not_shown)
        if self._console.is_terminal and not self._quiet:
            from rich.live import Live

            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger("triage_gym.trainers").removeFilter(_is_not_shown)
        if self._live is not None:
            self._live.stop()

    def stopping(self, number: int) -> None:
        """Say that a signal was heard; made for the handler of it."""
        # Whatever the signal broke into may hold the stream: it must not be entered twice.
        if self._live is not None:
            with contextlib.suppress(RuntimeError):
                self._print(STOPPING)
        else:
            os.write(2, f"{STOPPING}\n".encode())

    def __call__(self, update: Update) -> None:
        """Show ``update``."""
        for text in warnings(update):
            self._print(text)
        self._latest[update.run] = update
        if self._quiet:
            return
        if self._live is not None:
            if update.done:
                self._print(line(update))
            self._live.update(self._picture())
        elif self._is_due(update):
            self._print(line(update))

    def _print(self, text: str) -> None:
        if self._live is not None:
            from rich.text import Text

            self._console.print(Text(text))
        else:
            print(text, file=sys.stderr, flush=True)

    def _is_due(self, update: Update) -> bool:
        if self._runs == 1 or update.done:
            return True
        tenth = 10 * update.turns // update.total_turns
        due = tenth > self._printed.get(update.run, 0)
        self._printed[update.run] = tenth
        return due

    def _picture(self) -> Any:
        """The running runs, each with a bar, and how many are done."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        done = sum(u.done for u in self._latest.values())
        for update in self._latest.values():
            if update.done:
                continue
            m = update.metrics
            grid.add_row(
                Text(sanitize_line(update.run), style="bold"),
                ProgressBar(total=update.total_turns, completed=update.turns, width=24),
                Text(f"{_share(m, 'success')} %"),
                Text(f"{m['length']:4.1f} turns" if m.get("length") is not None else ""),
                _mix(m),
                Text(f"to go {duration(update.eta_s)}", style="dim"),
            )
        if self._runs > 1:
            left = self._left(done)
            grid.add_row(Text(f"{done} of {self._runs} runs done", style="dim"), *[""] * 4, Text(left, style="dim"))
        return grid

    def _left(self, done: int) -> str:
        running = [u for u in self._latest.values() if not u.done]
        if not running:
            return ""
        pace = [u.eta_s * u.total_turns / max(1, u.total_turns - u.turns) for u in running]
        waiting = self._runs - done - len(running)
        seconds = max(u.eta_s for u in running) + waiting * sum(pace) / len(pace) / len(running)
        return f"all in {duration(seconds)}"


_STYLES = {"D": "green", "E": "blue", "N": "bright_black", "R": "red"}


def _mix(metrics: Mapping[str, Any]) -> Any:
    from rich.text import Text

    text = Text()
    for role in ROLES:
        text.append(f"{role}{_share(metrics, f'role_{role}')} ", style=_STYLES[role])
    return text
