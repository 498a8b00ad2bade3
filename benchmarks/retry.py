"""Bar: retries from the pivot that the oracle names take <= 0.65 of the generated turns of full restarts, on Minesweeper
(clumsy expert) and on ALFWorld (trained policy); each replayed turn adds < 2 % of a generated turn to a retry, with either
player on both. Exit code 1 when missed.

Run it from the root of a checkout: ``python benchmarks/retry.py [--json FILE]``. One process, some two minutes, the half of
it training; needs the extra ``train``. Both sides have the same policy, tasks, reflector, remark and number of attempts,
and for the clumsy expert the same first attempts. Shown are, for every reflector: pass@1 and pass@3, since a pivot that is
late is cheap and of no use; generated turns of the retries alone and of whole trials (their first attempts are common to
both sides, which no way to retry can change). The bar takes the retries alone. Both players are shown on both
environments, and what is no bar is not met everywhere: a policy that fails by bad luck at its first turn, or strays at
once, has little to keep.

Times are of this process, of turns that are taken again one environment at a time. Two costs are told apart. A replayed
turn *adds* what going back to it takes more than going back to the start of the same attempt, which a full restart does as
well; the two are timed in turn on the same attempts, the best of several. And the *whole* way back, some tenths of a
millisecond however long the prefix, is laid on the replayed turns: its share of a generated turn is a matter of how slow
the agent is. Our players take less than a millisecond a turn, and for them it is far above 2 %; shown is also from what
time a turn on it is less, which agents that write with a language model are far above.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from triage_gym.cli.trial_play import MakePlayer, Setting, clock, clumsy_expert, play_trials
from triage_gym.display import table
from triage_gym.restore import Restorer
from triage_gym.trainers import TrainConfig, evaluate, tasks, train
from triage_gym.trials import Trial, paired_pass, summary, trials_of

# Python puts the folder of a script first on its path, where alfworld.py hides the package of the same name.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]

ATTEMPTS = 3
TURNS = "generated turns of retries, pivot / start"
WHOLE = "generated turns of whole trials, pivot / start"
SHARE = "way back, laid on replayed turns, % of a generated turn"
ADDS = "a replayed turn adds to a retry, % of a generated turn"
ENOUGH = "turn from which on that is < 2 %, ms"
BARS = {
    f"minesweeper, clumsy expert, oracle: {TURNS}": 0.65,
    f"alfworld, trained policy, oracle: {TURNS}": 0.65,
    **{
        f"{env}, {player}: {ADDS}": 2.0
        for env in ("minesweeper", "alfworld")
        for player in ("clumsy expert", "trained policy")
    },
}
"""At most."""
TIMED = 60
"""Failed attempts that are gone back in,"""
TIMES = 9
"""and how often each."""
PLAYERS = ("clumsy expert", "trained policy")
ENVS: dict[str, dict[str, Any]] = {
    "minesweeper": {"split": "test", "noise": 0.5, "turns": 4_000, "credit": "grpo"},
    "alfworld": {"split": "valid_unseen", "noise": 0.7, "turns": 60_000, "credit": "triage"},
}
REFLECTORS: dict[str, str | dict[str, Any]] = {
    "oracle": "oracle",
    "oracle, 8 turns forgiven": {"name": "oracle", "tolerance": 8},
    "role": "role",
    "random": "random",
}


def compared(name: str, reflector: str, pivot: Sequence[Trial], start: Sequence[Trial]) -> dict[str, float]:
    """The numbers of one comparison, by name."""
    ours, theirs = summary(pivot, ATTEMPTS), summary(start, ATTEMPTS)
    again = [sum(s.generated.by_attempt[1:]) for s in (ours, theirs)]
    found = {
        TURNS: again[0] / again[1],
        WHOLE: ours.generated.total / theirs.generated.total,
        "pass@1, pivot": ours.solved[0].estimate,
        "pass@1, start": theirs.solved[0].estimate,
        "pass@3, pivot": ours.solved[-1].estimate,
        "pass@3, start": theirs.solved[-1].estimate,
        "solved per 1,000 generated turns, pivot": ours.per_thousand,
        "solved per 1,000 generated turns, start": theirs.per_thousand,
        "pass@3 pivot less start, half width of the 95 % interval over tasks": paired_pass(
            pivot, start, ATTEMPTS
        ).half_width
        or 0.0,
        "turns kept, mean": 0.0 if ours.gain is None else ours.gain.kept,
    }
    return {f"{name}, {reflector}: {key}": value for key, value in found.items()}


def by_expert(env: str, tasks: int) -> dict[str, float]:
    """The clumsy expert with every reflector."""
    setting = setting_of(env, tasks)
    player = clumsy_expert(ENVS[env]["noise"])
    # It reads no remark, so its full restarts are the same whoever reflects.
    start = play_trials(setting, player, "start").trials
    found: dict[str, float] = {}
    for name, spec in REFLECTORS.items():
        pivot = play_trials(replace(setting, reflector=spec), player, "pivot").trials
        found |= compared(f"{env}, clumsy expert", name, pivot, start)
        if name == "oracle":
            found |= costs(f"{env}, clumsy expert", setting, player, pivot, start)
    return found


def setting_of(env: str, tasks: int) -> Setting:
    """The held-out tasks of an environment, with its own limit or 30 turns."""
    return Setting(env, {}, ENVS[env]["split"], 30, tasks, ATTEMPTS, "oracle")


class Learned:
    """A checkpoint's policy that plays one environment alone.

    Args:
        path: Run directory.
    """

    def __init__(self, path: Path) -> None:
        from triage_gym.trainers.evaluation import load_policy

        self._policy, _, _ = load_policy(path)
        self._memory: Any = None
        self._action = ""

    def __call__(self, observation: str, info: Mapping[str, Any], rng: np.random.Generator) -> str:
        """A command; the info of a reset begins a new memory."""
        if "prefix_length" in info:
            self._memory = self._policy.begin(str(info.get("task", "")), observation)
        else:
            self._memory.observe(self._action, observation)
        self._action = self._policy.act([self._memory], [list(info["admissible_commands"])], rng).commands[0]
        return self._action


def by_policy(env: str, tasks: int, directory: Path) -> dict[str, float]:
    """A policy that is trained here, with every reflector."""
    case, path = ENVS[env], directory / env
    config = TrainConfig(env=env, credit=case["credit"], turns=case["turns"], eval_at=(), eval_tasks=50)
    begin = time.process_time()
    train(config, path)
    found = {f"{env}, trained policy: training, CPU seconds": time.process_time() - begin}

    def trials(spec: str | dict[str, Any], way: Any) -> list[Trial]:
        played = evaluate(
            path, tasks=tasks, attempts=ATTEMPTS, reflector=spec, retry_from=way, judge=None, keep_records=True
        )
        return trials_of(played.records)

    for name, spec in REFLECTORS.items():
        pivot, start = trials(spec, "pivot"), trials(spec, "start")
        found |= compared(f"{env}, trained policy", name, pivot, start)
        if name == "oracle":
            found |= costs(f"{env}, trained policy", setting_of(env, tasks), lambda _: Learned(path), pivot, start)
    return found


def costs(
    who: str, setting: Setting, player: MakePlayer, pivots: Sequence[Trial], starts: Sequence[Trial]
) -> dict[str, float]:
    """What going back costs, by the clock."""
    pivot, start = (clock(setting, player, trials, time.process_time) for trials in (pivots, starts))
    assert pivot is not None, "the turns did not happen again"
    assert start is not None, "the turns did not happen again"
    back, reset = pivot.restore_s / pivot.retries, start.restore_s / start.retries
    more, timed = added(setting, pivots)
    return {
        f"{who}: generated turn, ms": 1e3 * pivot.a_turn,
        f"{who}: going back to a pivot, ms": 1e3 * back,
        f"{who}: going back to the start, ms": 1e3 * reset,
        f"{who}: {SHARE}": 100 * pivot.restore_s / pivot.replayed / pivot.a_turn,
        f"{who}: {ADDS}": 100 * more / pivot.a_turn,
        f"{who}: failed attempts timed for that": timed,
        f"{who}: {ENOUGH}": 1e3 * pivot.restore_s / pivot.replayed / 0.02,
    }


def added(setting: Setting, trials: Sequence[Trial]) -> tuple[float, int]:
    """Seconds that a replayed turn adds to a retry, and the number of first attempts that it was timed on."""
    config = TrainConfig(env=setting.env, limit=setting.limit).resolved()
    numbered = tasks.Tasks(config, setting.split, setting.tasks, tasks.EVAL_SEED)
    restorer = Restorer(tasks.make_env(config, setting.split))
    turns, more, timed = 0, 0.0, 0
    for number, trial in enumerate(trials):
        pivot = trial.records[1].prefix_length if len(trial.records) > 1 else 0
        if pivot == 0 or timed == TIMED:
            continue
        seed, options = numbered.start(number)
        restorer.reset(seed=seed, options=options)
        for segment in trial.records[0].segments:
            restorer.step(segment.action)
        for _ in range(8):  # the first ways back prove themselves by walking the whole attempt
            restorer.visit(pivot)
        best = {turn: min(way_back(restorer, turn) for _ in range(TIMES)) for turn in (pivot, 0)}
        turns, more, timed = turns + pivot, more + best[pivot] - best[0], timed + 1
    restorer.env.close()
    return more / turns, timed


def way_back(restorer: Restorer, turn: int) -> float:
    """Seconds of one way back to ``turn``."""
    begin = time.perf_counter()
    found = restorer.visit(turn)
    took = time.perf_counter() - begin
    assert found is not None, "the point did not come back"
    assert found.status == "verified", "the point did not come back"
    return took


def shown(found: Mapping[str, float], who: str) -> str:
    """The comparisons of one player on one environment as a table."""
    rows = []
    for name in REFLECTORS:
        at = {key.partition(": ")[2]: v for key, v in found.items() if key.startswith(f"{who}, {name}: ")}
        half = at["pass@3 pivot less start, half width of the 95 % interval over tasks"]
        rows.append(
            [
                name,
                f"{at[TURNS]:.3f}",
                f"{at[WHOLE]:.3f}",
                f"{100 * at['pass@1, pivot']:.1f} {100 * at['pass@1, start']:.1f}",
                f"{100 * at['pass@3, pivot']:.1f} {100 * at['pass@3, start']:.1f}",
                f"{100 * (at['pass@3, pivot'] - at['pass@3, start']):+.1f} ± {100 * half:.1f}",
                f"{at['solved per 1,000 generated turns, pivot']:.1f} {at['solved per 1,000 generated turns, start']:.1f}",
                f"{at['turns kept, mean']:.1f}",
            ]
        )
    head = [who, "retries", "whole trials", "pass@1, %", "pass@3, %", "difference", "per 1,000 turns", "kept"]
    return table(head, rows)


def main() -> int:
    """Print the tables; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    parser.add_argument("--tasks", type=int, default=400, help="tasks for each comparison")
    arguments = parser.parse_args()
    print(f"Python {platform.python_version()}, {platform.machine()}, load {os.getloadavg()[0]:.1f}")
    print("generated turns are from the pivot / full restart; pairs of numbers are from the pivot and full restart\n")
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for env in ENVS:
            found |= by_expert(env, arguments.tasks)
            print(shown(found, f"{env}, clumsy expert"), flush=True)
            found |= by_policy(env, arguments.tasks, Path(folder))
            print(f"\n{shown(found, f'{env}, trained policy')}\n", flush=True)
    for name, value in found.items():
        if name.partition(": ")[0] in {f"{env}, {player}" for env in ENVS for player in PLAYERS} and name not in BARS:
            print(f"{name:84s} {value:9.3f}")
    good = True
    for name, bar in BARS.items():
        met = found[name] <= bar
        good = good and met
        print(f"{name:84s} {found[name]:9.3f}   bar <= {bar:g}: {'met' if met else 'MISSED'}")
    if arguments.json:
        text = json.dumps({"measures": found, "bars": BARS, "met": good}, indent=2)
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
