"""The files of a run directory, and appending to them so that a resumed run equals a straight one byte for byte.

::

    config.json        the resolved TrainConfig; enough to repeat the run
    metrics.jsonl      one line an update; no clock in it, so two equal runs have equal bytes
    timings.jsonl      one line an update; everything that a clock says
    traces.jsonl       episode records to read, with ``update`` and ``advantages`` (triage_gym.traces)
    eval.json          every evaluation, with the result of each task
    audit.json         what the judge's roles were worth before training, where that was asked for (trainers.auditing)
    pretrain.json      what the start policy was cloned from (absent when the start was handed in)
    checkpoints/       step_00000020/…, latest.json for readers outside (triage_gym.trainers.checkpoint)
    tensorboard/       scalars, when the config asks for them
    skipped/           minibatches that gave no finite gradient, when there were any

``metrics.jsonl``: ``update`` (from 1), ``turns`` (so far), ``episodes`` (so far), of this batch: ``success``,
``score``, ``length`` (turns an episode), ``length_success`` (null when none), ``role_D``, ``role_E``, ``role_N``,
``role_R``, ``role_unjudged`` (shares of its segments; the last is of all without a role, whatever the reason),
``role_failed`` and ``role_unsure`` (of those in ``role_unjudged`` whom the judge was asked about: it failed, or what it said
was withheld), ``role_fallback`` (share of the segments with a role whose label stands in for a failed one),
``judge_confidence`` (mean over segments with a role), ``outcome_variance`` (share of groups whose outcomes differ),
``excluded`` (rollouts with an error), and of its gradient steps: ``loss``, ``policy_loss``, ``entropy``, ``kl`` (to
the start policy, null when its weight is 0), ``kl_start`` (the same before the update, over a sample; only in every
``monitor_every``-th update from the first on), ``approx_kl`` (to the policy that acted), ``clip_fraction``,
``grad_norm``, ``skipped`` (steps dropped by the NaN guard); ``roles_off`` after an audit (whether roles were left out); where roles can be
farmed ``guard`` (whether the farming guard leaves them out) and ``guard_since`` (update, null while it watches); ``warnings`` (a list of the names in
:data:`triage_gym.trainers.metrics.WARNINGS`, each only when the condition begins). Where the
credit rule reads labels also ``role_credit`` (mean worth of a segment with a role), and where another judge was asked about a
sample ``second_failed`` (share of it that the second judge gave no label), ``rule_agreement`` and ``second_agreement`` (share of segments on which it agrees with the run's judge) and
``rule_surplus`` and ``second_surplus`` (by how much the run's judge is more generous, in worth a segment). Numbers are null where nothing was measured. A run that
retries tells success, score and lengths of first attempts, and also ``pass@1``, ``pass@2``, … (shares of trials solved
within so many attempts), ``retries`` (attempts begun by one), ``retries_verified``, ``retries_restarted`` (whose point did
not come back), ``retries_refused`` (not played, since the pivot did not pass its check), ``malformed_reflections``,
``pivot`` (mean share of the failed attempt that was kept), ``generated_turns`` and ``replayed_turns`` of this batch, and
where the policy reflects itself ``reflection_loss`` and ``reflection_entropy``; with a value head ``value_loss``.

``timings.jsonl``: ``update``, ``turns``, ``cpu_s`` and ``wall_s`` (so far, this process), of this update in CPU
seconds ``setup_s`` (making games that this process met for the first time), ``rollout_s`` (acting, environments,
records; without the judge), ``judge_s``, ``credit_s``, ``update_s``; ``update_wall_s`` (wall seconds of this update),
``turns_per_cpu_s`` (this update, without set-up); what the judges say it cost, each number of their ``usage`` as it grew,
``judge_calls``, ``judge_usd``, ``second_judge_…``, the wall seconds that they were waited for (``judge_wall_s``) and why the second one gave no label
(``second_judge_why``). A line with ``unlearnt`` tells what the judges cost in an update that came to nothing, since the judge
failed or was not waited for; it has the number of the update before.

``eval.json``: ``{"schema": 1, "evaluations": [...]}``, each ``update``, ``turns``, ``split``, ``mode`` (``sampled``
or ``greedy``), ``limit``, ``n``, ``success``, ``score``, ``length`` (mean of all), ``length_success`` (mean of successes or
null), ``tasks``: list of ``{"task": id, "task_type", "success", "length", "r_posthoc", "score"}``; ``r_posthoc`` counts the
turns that the rule judge, asked after the evaluation was over whatever the run's own judge is, calls R (null where none was asked), and
``r_per_success_posthoc`` is their mean over successes. Also ``attempts`` (most at a task), ``pass_at`` (a list:
solved within 1, 2, … attempts), ``trials`` (cost and gain of retries as ``triage_gym.trials.TrialSummary`` says, null
without any), ``e_posthoc`` (turns that the rule judge calls E), and ``solved_at`` of each task (number of the attempt that solved it, null when none did).

A comparison directory holds ``comparison.json``, ``starts/s<seed>/`` (a checkpoint of the cloned start, shared by all
arms of the seed) and one run directory ``<credit>-s<seed>/`` an arm and seed. ``comparison.json``:

- ``schema`` 1, ``config`` (of the arms, less ``credit`` and ``seed``), ``baseline`` (a credit), ``credits``, ``seeds``,
  ``milestones`` (turns at which arms are compared, the last being the end of the run), ``complete`` (bool);
- ``runs``: list of ``{"credit", "seed", "dir", "status"}``, ``status`` being ``done``, ``failed`` (then ``error``) or
  ``missing``; a done one has ``metrics``: ``start`` (success of the start policy), ``success@<turns>`` for each
  milestone, ``pass@2``, ``pass@3``, … where failures are retried, ``success_greedy``, ``length_success``, ``r_per_success``, ``auc`` (mean training success over turns),
  ``share_D`` … ``share_R`` (of the whole run's training segments), ``turns``, ``cpu_s``;
- ``summary``: list of ``{"credit", "metric", "mean", "half_width", "n"}``, the 95 % t interval over seeds;
- ``paired``: list of ``{"credit", "baseline", "metric", "mean", "half_width", "n", "positive", "values"}``, differences
  of the same seed, ``values`` by seed (as text); metrics as above and ``length_both_solved`` (percent by which
  successes on tasks that both solve are longer).

``half_width`` is null with fewer than two seeds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from triage_gym.errors import CheckpointError, InputError
from triage_gym.files import replacing

LOGS: Final = ("metrics.jsonl", "traces.jsonl")
"""Append-only files whose length is part of a checkpoint."""
TIMINGS: Final = "timings.jsonl"
"""Its length depends on what the clock said, so it is cut by the number of the update."""


def write_json(path: Path, data: Any) -> None:
    """Replace ``path`` by ``data`` as JSON, so that a reader sees the old file or the new one, never half of one."""
    with replacing(path) as file:
        file.write(json.dumps(data, indent=1, allow_nan=False).encode() + b"\n")


def read_json(path: Path) -> Any:
    """The JSON document at ``path``.

    Raises:
        InputError: When the file is missing or no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"Expected a file at {path}, found none") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"Expected {path} to be JSON, got: {error}") from error


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a ``.jsonl`` file; a last line without newline (a crash while writing) is left out."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith("\n"):
                return
            try:
                yield json.loads(line)
            except ValueError as error:
                raise InputError(f"Expected line {number} of {path} to be JSON, got: {error}") from error


class RunDir:
    """Writes the files of one run.

    Args:
        path: The directory; made when missing.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self.checkpoints.mkdir(parents=True, exist_ok=True)

    def append(self, name: str, row: Mapping[str, Any]) -> None:
        """Add one JSON line to the log ``name``."""
        self.append_bytes(name, (json.dumps(row, allow_nan=False, separators=(",", ":")) + "\n").encode("ascii"))

    def append_bytes(self, name: str, lines: bytes) -> None:
        """Add whole lines to the log ``name``."""
        with (self.path / name).open("ab") as file:
            file.write(lines)

    def sizes(self) -> dict[str, int]:
        """Bytes of each log, safe on disk, for a checkpoint."""
        out = {}
        for name in LOGS:
            path = self.path / name
            if path.exists():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
            out[name] = path.stat().st_size if path.exists() else 0
        return out

    def cut(self, sizes: Mapping[str, int], update: int) -> None:
        """Drop what was logged after the checkpoint of ``update`` with these ``sizes``.

        Raises:
            CheckpointError: When a log is shorter than it was.
        """
        for name in LOGS:
            path, size = self.path / name, sizes.get(name, 0)
            have = path.stat().st_size if path.exists() else 0
            if have < size:
                raise CheckpointError(
                    f"Expected {path} to have at least the {size} bytes it had at the checkpoint, got {have}: "
                    "the file was changed by hand; put it back or start a new run"
                )
            if path.exists():
                os.truncate(path, size)
        kept = [row for row in read_lines(self.path / TIMINGS) if row["update"] <= update]
        (self.path / TIMINGS).unlink(missing_ok=True)
        for row in kept:
            self.append(TIMINGS, row)
