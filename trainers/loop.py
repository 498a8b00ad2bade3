"""Training one arm: collect groups, credit segments, learn, log, evaluate, save; and go on from where it stopped.

It promises: two runs of equal configs on the same machine (CPU, one thread) have equal weights, metrics and traces, byte
for byte; a run that was killed and resumed equals one that was not; SIGTERM and SIGINT let the update finish, save, and
leave with 143 and 130, but for one that waits for a judge, which is left undone. The glossary, from large to small: a *run* is ``turns`` environment turns; an *update* plays
``groups_per_update`` tasks ``group_size`` times each and passes over that batch ``epochs`` times; a *gradient step* takes
one minibatch.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

import triage_gym
from triage_gym import traces
from triage_gym.errors import CheckpointError, InputError, JudgeOutage
from triage_gym.protocols import ReflectionCredit
from triage_gym.records import POLICY
from triage_gym.trainers import auditing, checkpoint, metrics, randomness, resuming
from triage_gym.trainers.advantages import newly_acted
from triage_gym.trainers.config import TrainConfig
from triage_gym.trainers.crediting import Crediting
from triage_gym.trainers.evaluation import Evaluation, Evaluator, Mode, load_start, load_weights, posthoc_judge
from triage_gym.trainers.grpo import Extra, Learner
from triage_gym.trainers.policies import make_policy
from triage_gym.trainers.pretraining import make_start
from triage_gym.trainers.probing import probe
from triage_gym.trainers.progress import Clock, Progress, Update
from triage_gym.trainers.rollout import Batch, Rollouts
from triage_gym.trainers.run_dir import TIMINGS, RunDir, read_json, write_json
from triage_gym.trainers.scalars import Scalars
from triage_gym.trainers.signals import CutShort, Interrupted, Signals
from triage_gym.trainers.sweeping import Collector
from triage_gym.trainers.watching import Watching

told = logging.getLogger(__name__)
"""For what no update tells."""
UNUSED: Final = (
    "This run makes no retries, so these settings of them do nothing: %s. Set `attempts`, or `eval_attempts`, above 1, or "
    "choose a credit rule across attempts"
)
UNTRAINED_POINTER: Final = (
    "The credit rule %s gives reflections no worth, so the policy never learns to point at its wrong turns and names any of "
    "them: choose pivoarl, metarl or r3l, or another reflector"
)


def train(
    config: TrainConfig,
    run_dir: str | os.PathLike[str],
    *,
    resume: bool = False,
    progress: Progress | None = None,
    start: str | os.PathLike[str] | None = None,
    allow: Sequence[str] = (),
    on_signal: Callable[[int], None] | None = None,
) -> Evaluation:
    """Train one arm and write its run directory (:mod:`triage_gym.trainers.run_dir`).

    Args:
        config: The run.
        run_dir: Where to write; must hold no checkpoint unless ``resume``.
        resume: Go on from the newest checkpoint that verifies.
        progress: Called after each update.
        start: Checkpoint of the start policy (see ``pretrain``); None clones one.
        allow: Names of config fields that may differ from those of the checkpoint, such as ``turns``, beside those that
            always may (:mod:`triage_gym.trainers.resuming`).
        on_signal: Called with the number of the first SIGTERM or SIGINT as it comes; the update then goes on to its end,
            unless a judge other than the rule judge is being asked: then it is dropped, and the run saved as it was before.

    Returns:
        The evaluation at the end, with commands drawn from the policy.

    Raises:
        InputError: For a config that does not fit the environment, or a directory that is in use.
        CheckpointError: When there is nothing to resume, or it was another run.
        TrainingError: After three gradient steps in a row that were not finite.
        JudgeOutage: When the judge failed too often; the run was saved as it was before that update.
        Interrupted: (a SystemExit) after SIGTERM or SIGINT, when the run was saved.
    """
    config = config.resolved()
    torch.set_num_threads(config.threads)
    probe(config)
    with Signals(on_signal) as signals, Collector() as collector, contextlib.closing(_Run(config, run_dir)) as run:
        run.rollouts.judging.cuttable = signals.cuttable
        if resume:
            run.restore(allow)
        else:
            run.begin(start)
        collector.sweep()
        clock = Clock(run.turns, config.turns)
        while run.turns < config.turns:
            row, timing = run.update(clock)
            run.evaluate_if_due(run.turns - timing["batch_turns"])
            if progress is not None:
                eta = clock.eta(run.turns)
                progress(Update(run.dir.path.name, run.number, run.turns, config.turns, row, timing, eta))
            caught = signals.caught  # read once: what comes after a save that did not know of it waits for the next
            if caught is not None or run.number % config.checkpoint_every == 0:
                run.save()
                collector.sweep()
            if caught is not None:
                raise Interrupted(caught)
        return run.finish()


class _Run:
    """The state of a run, and the steps it is made of."""

    def __init__(self, config: TrainConfig, run_dir: str | os.PathLike[str]) -> None:
        self.config = config
        self.crediting = Crediting(config)
        self.policy = make_policy(config)
        self.learner = Learner(self.policy, config, Path(run_dir) / "skipped")
        self.rollouts = Rollouts(config, self.policy)
        self.evaluator = Evaluator(config, posthoc_judge(config))
        self.dir = RunDir(run_dir)
        self.scalars: Scalars | None = None
        self.order = randomness.TaskOrder(config.seed, len(self.rollouts.tasks), config.groups_per_update)
        self.streams = {name: randomness.stream(config.seed, name) for name in ("actions", "minibatches")}
        self.watching = Watching(config, self.rollouts.judging, self.crediting.rule, self.rollouts.outcome_text)
        self.retries = (config.attempts or 1) > 1
        if self.retries and POLICY in config.signals and not isinstance(self.crediting.rule, ReflectionCredit):
            metrics.logger.warning(UNTRAINED_POINTER, config.credit)
        self._warn_of_unused()
        self.number = self.turns = self.episodes = 0
        self.evaluations: list[dict[str, Any]] = []

    def _warn_of_unused(self) -> None:
        """Say so when settings of retries were given to a run that makes none."""
        c, plain = self.config, TrainConfig()
        if max(c.attempts or 1, c.eval_attempts or 1) == 1:
            given = [n for n in ("reflector", "verify", "retries", "distill") if getattr(c, n) != getattr(plain, n)]
            if given:
                metrics.logger.warning(UNUSED, ", ".join(f"`{name}`" for name in given))

    def close(self) -> None:
        """Close environments and writers."""
        self.rollouts.close()
        self.evaluator.close()
        if self.scalars is not None:
            self.scalars.close()

    # Begin and go on --------------------------------------------------------------------------------------------------

    def begin(self, start: str | os.PathLike[str] | None) -> None:
        """A new run from a start policy."""
        if any(self.dir.checkpoints.glob("step_*")):
            raise InputError(
                f"Expected a directory without checkpoints, got {self.dir.path}; resume that run or choose another one"
            )
        self.dir.cut({}, 0)
        randomness.seed_globals(self.config.seed)
        if start is None:
            made, facts = make_start(self.config)
            weights = made.net.state_dict()
            write_json(self.dir.path / "pretrain.json", facts)
        else:
            weights = checkpoint.find(start).weights
        load_start(self.policy, weights)
        self.learner.keep_start()
        self._open_scalars()
        self.evaluate("sampled")
        if auditing.is_needed(self.config, self.crediting.rule):
            with self.rollouts.judging.cuttable():  # there is nothing to save yet
                audited = auditing.audit_start(self.config, self.crediting.rule, self.policy)
            write_json(self.dir.path / "audit.json", audited.to_json())
            self.crediting.take(audited)
            self.turns = audited.turns
            self._leave_out()
        # Beside the first checkpoint: a directory with settings is one that can be resumed.
        write_json(self.dir.path / "config.json", self.config.to_json())
        self.save()

    def _leave_out(self) -> None:
        """Ask no judge that costs where an audit has switched roles off."""
        if self.crediting.audited is not None and self.crediting.audited.roles_off:
            self.rollouts.judging.leave_out()

    def restore(self, allow: Sequence[str]) -> None:
        """Go on from the newest checkpoint that verifies."""
        found = checkpoint.newest(self.dir.checkpoints)
        if found is None:
            raise CheckpointError(f"Expected a checkpoint to resume in {self.dir.path}, found none; start a new run")
        state = found.state
        before = TrainConfig.from_json(state.get("config")).resolved()
        changed, refused = before.changed(self.config), resuming.refused(before, self.config, allow)
        if refused:
            hint = f" ({resuming.HINT})" if "judge" in refused else ""
            raise CheckpointError(
                f"Expected the config of the run in {self.dir.path}, got other values of {refused}{hint}; "
                "give the old values, name the fields in `allow`, or start a new run"
            )
        load_weights(self.policy, found.weights)
        self.learner.load_state(found.optim)
        randomness.restore(state["rng"], self.streams)
        self.order.go_to(state["cursor"])
        self.watching.go_to(state)
        if "second_judge" in changed:
            self.watching.forget_second()
        if looked := [name for name in changed if name in resuming.LOOKS_ON]:
            told.warning("from update %d on with other values of %s", state["update"] + 1, " and ".join(looked))
        self.crediting.go_to(state)
        self._leave_out()
        self.rollouts.judging.breaker.go_to(state.get("breaker", ""))
        self.number, self.turns, self.episodes = state["update"], state["turns"], state["episodes"]
        self.dir.cut(state["logs"], self.number)
        evaluations = read_json(self.dir.path / "eval.json")["evaluations"]
        self.evaluations = [e for e in evaluations if e["update"] <= self.number]
        write_json(self.dir.path / "config.json", self.config.to_json())
        self._open_scalars()

    def _open_scalars(self) -> None:
        if self.config.tensorboard:
            self.scalars = Scalars(self.dir.path / "tensorboard", self.turns)

    def save(self) -> None:
        """Write a checkpoint of everything that the rest of the run depends on."""
        state = {
            "update": self.number,
            "turns": self.turns,
            "episodes": self.episodes,
            "config": self.config.to_json(),
            "config_digest": self.config.digest(),
            **self._drawn(),
            **self.watching.to_json(),
            **self.crediting.to_json(),
            "logs": self.dir.sizes(),
            "versions": {
                "triage_gym": triage_gym.__version__,
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": np.__version__,
            },
        }
        weights = self.policy.net.state_dict()
        checkpoint.save(self.dir.checkpoints, self.number, weights, self.learner.state(), state, keep=self.config.keep)

    def _drawn(self) -> dict[str, Any]:
        """What the collecting of a batch moves on, as JSON."""
        return {
            "rng": randomness.capture(self.streams),
            "cursor": self.order.to_json(),
            "breaker": self.rollouts.judging.breaker.to_json(),
        }

    def _collect(self, times: list[float]) -> Batch:
        """Play and label the groups of an update; when the judge is out or cut short, save the run as it was before."""
        before = self._drawn()
        try:
            tasks = self.order.take(self.config.groups_per_update)
            self.rollouts.tasks.prepare(tasks)
            times.append(time.process_time())
            batch = self.rollouts.collect(tasks, self.number, self.streams["actions"])
            self.watching.ask(self.number, batch.records)
            return batch
        except (JudgeOutage, CutShort) as error:
            self.number -= 1
            randomness.restore(before["rng"], self.streams)
            self.order.go_to(before["cursor"])
            self.rollouts.judging.breaker.go_to(before["breaker"])
            cost = self._unlearnt()
            self.save()
            undone = f"Nothing of update {self.number + 1} was learnt, and the run was saved as it was before, at {self.turns} turns"
            if isinstance(error, CutShort):
                told.warning("the judge was not waited for. %s%s", undone, cost)
                raise
            raise JudgeOutage(
                f"{error}. {undone}: when the judge answers again, --resume goes on from there{cost}"
            ) from error

    def _unlearnt(self) -> str:
        """Log what the judges cost in an update of which nothing was learnt; the same in words.

        Such a line stands in ``timings.jsonl`` alone: other logs are those of a run that was never stopped.
        """
        spent = self.rollouts.judging.spent()
        nothing = dict.fromkeys(("setup_s", "rollout_s", "judge_s", "credit_s", "update_s"), 0.0)
        line = {"update": self.number, "turns": self.turns, "batch_turns": 0, **nothing, **spent, "unlearnt": True}
        self.dir.append(TIMINGS, line)
        shown = (
            ("judge_calls", "{:,.0f} calls"),
            ("judge_prompt_tokens", "{:,.0f} prompt tokens"),
            ("judge_usd", "${:.4f}"),
        )
        said = [text.format(spent[name]) for name, text in shown if spent.get(name)]
        return f"; what the judge did for it ({', '.join(said)}) is in {TIMINGS}" if said else ""

    # One update -------------------------------------------------------------------------------------------------------

    def update(self, clock: Clock) -> tuple[dict[str, Any], dict[str, Any]]:
        """Collect, credit, learn, log; the lines of ``metrics.jsonl`` and ``timings.jsonl``."""
        self.number += 1
        began = time.monotonic()
        times = [time.process_time()]
        batch = self._collect(times)
        times.append(time.process_time())
        move = self.crediting.look(self.number, batch.records)
        if move == "keep":
            self.learner.keep()
        advantages = self.crediting.advantages(batch.records)
        flat = self._tensor(newly_acted(advantages, batch.records))
        extra = self._extra(batch)
        times.append(time.process_time())
        far = self._to_start(batch)
        learnt = {**far, **self.learner.update(batch.steps, flat, self.streams["minibatches"], self.number, extra)}
        if move == "go back":
            self.learner.go_back()
        times.append(time.process_time())
        self.turns += batch.turns
        self.episodes += batch.episodes
        row = self._row(batch, learnt)
        self.dir.append("metrics.jsonl", row)
        self._trace(batch, [tuple(a.tolist()) for a in advantages])
        timing = self._timing(batch, times, clock, time.monotonic() - began)
        self.dir.append(TIMINGS, timing)
        if self.scalars is not None:
            self.scalars.write(row, self.turns)
        return row, timing

    def _to_start(self, batch: Batch) -> dict[str, float | None]:
        """How far the policy has come from the start, when that is due."""
        due = (self.number - 1) % self.config.monitor_every == 0
        return {"kl_start": self.learner.kl_to_start(batch.steps)} if due else {}

    def _tensor(self, values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(values.astype(np.float32)).to(self.config.device)

    def _extra(self, batch: Batch) -> Extra | None:
        """What the batch teaches besides its commands: reflections, when the credit rule values them, and a value head."""
        reflects = len(batch.reflections) > 0 and isinstance(self.crediting.rule, ReflectionCredit)
        values = hasattr(self.policy.net, "value")
        if not (reflects or values):
            return None
        reflections = advantages = outcomes = None
        if reflects:
            assert isinstance(self.crediting.rule, ReflectionCredit)
            worth = np.asarray(self.crediting.rule.reflections(batch.records))[batch.reflections.records]
            reflections, advantages = batch.reflections, self._tensor(worth)
        if values:
            scores = [np.full(len(r) - r.prefix_length, r.score) for r in batch.records]
            outcomes = self._tensor(np.concatenate(scores))
        return Extra(batch.steps, reflections, advantages, outcomes)

    def _row(self, batch: Batch, learnt: Mapping[str, Any]) -> dict[str, Any]:
        row = {
            "update": self.number,
            "turns": self.turns,
            "episodes": self.episodes,
            **metrics.batch_metrics(batch.records),
            **(metrics.trial_metrics(batch.records, self.config.attempts or 1, batch.refused) if self.retries else {}),
            "excluded": batch.excluded,
            **learnt,
            **self.crediting.row(),
        }
        return {**row, **self.watching.look(row, batch.records)}

    def _timing(self, batch: Batch, times: Sequence[float], clock: Clock, wall: float) -> dict[str, Any]:
        setup, _, credit, update = np.diff(times).tolist()
        busy = times[-1] - times[1]
        why = self.watching.second_why
        return {
            "update": self.number,
            "turns": self.turns,
            "batch_turns": batch.turns,
            "cpu_s": clock.cpu(),
            "wall_s": clock.wall(),
            "setup_s": setup,
            "rollout_s": batch.rollout_s,
            "judge_s": batch.judge_s,
            **self.rollouts.judging.spent(),
            **({"second_judge_why": why} if why else {}),
            "credit_s": credit,
            "update_s": update,
            "update_wall_s": wall,
            "turns_per_cpu_s": batch.turns / busy if busy > 0 else None,
        }

    def _trace(self, batch: Batch, advantages: Sequence[tuple[float, ...]]) -> None:
        """Write the first group down, now and then."""
        every = self.config.trace_every
        if every == 0 or (self.number - 1) % every != 0:
            return
        first = batch.records[0].group_id
        lines = [
            traces.encode(traces.Trace(self.number, record, self.config.credit, own))
            for record, own in zip(batch.records, advantages, strict=True)
            if record.group_id == first
        ]
        self.dir.append_bytes("traces.jsonl", b"".join(lines))

    # Evaluation -------------------------------------------------------------------------------------------------------

    def evaluate_if_due(self, before: int) -> None:
        """Evaluate when this update passed one of the turns to evaluate at."""
        if any(before < at <= self.turns for at in self.config.eval_at) and self.turns < self.config.turns:
            self.evaluate("sampled")

    def evaluate(self, mode: Mode) -> Evaluation:
        """Play the held-out tasks, and write ``eval.json``."""
        found = self.evaluator.run(self.policy, mode=mode, update=self.number, turns=self.turns)
        self.evaluations.append(found.to_json())
        write_json(self.dir.path / "eval.json", {"schema": 1, "evaluations": self.evaluations})
        return found

    def finish(self) -> Evaluation:
        """The evaluations at the end, and the last checkpoint; what a run resumed after its end has is not redone."""
        done = {e["mode"]: e for e in self.evaluations if e["update"] == self.number}
        if "sampled" in done and "greedy" in done:
            return Evaluation.from_json(done["sampled"])
        self.evaluations = [e for e in self.evaluations if e["update"] < self.number]
        self.evaluate("greedy")
        found = self.evaluate("sampled")
        self.save()
        return found
