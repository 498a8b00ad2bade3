"""``triage-gym judge collect``: plays an environment and writes a label file, each turn labelled by oracle and rules.

The oracle knows the outcome (:mod:`triage_gym.judges.oracle`): what it says is there to hold other judges against, after
a person has looked at it. An environment without an expert has no oracle; its segments come with the rules' labels alone.
Labels of the generic rules are those of ``rule:generic``. A file that is there already is left alone unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import tyro

from triage_gym.cli.output import count, say
from triage_gym.errors import InputError

if TYPE_CHECKING:
    import gymnasium
    import numpy as np

    from triage_gym.audit.labels import LabelledWindow
    from triage_gym.records import EpisodeRecord

PlayerName = Literal["expert", "noisy", "random", "checkpoint"]
ORACLE: Final = "oracle"
RULE: Final = "rule"
GENERIC: Final = "rule:generic"
"""Who labels: the oracle, the rules of the domain, and those that know no task."""
_KINDS: Final = {"admissible": 0.5, "again": 0.8, "words": 0.95}
"""Up to which share noise is an admissible command, an action of the attempt again, and words where a form wants some; the
rest is an action that no environment knows."""
_NONSENSE: Final = "xyzzy"


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeCollect:
    """Play an environment and write a label file: windows with facts, labelled by the oracle and by the rules."""

    env: Annotated[str, tyro.conf.Positional] = "alfworld"
    """A registered name, a Gymnasium id or a module:attr path."""
    out: Path = Path("labels.jsonl")
    """Label file to write; compressed when its name ends in .gz."""
    overwrite: bool = False
    """Write it even where there is a file of that name, which is lost then."""
    players: tuple[PlayerName, ...] | None = None
    """Who plays: the environment's expert, the expert with noise, chance, a checkpoint; each plays all episodes. By
    default noisy, or random where the environment has no expert."""
    noise: float = 0.4
    """Share of the noisy player's turns that the expert does not play."""
    checkpoint: Path | None = None
    """Run directory, checkpoint folder or checkpoint, for the player of that name."""
    episodes: int = 20
    """How many each player plays, each with the next seed."""
    seed: int = 0
    """Seed of the first episode, and of all draws."""
    limit: int = 50
    """Turns an episode may take."""
    split: str | None = None
    """Tasks to draw from: train, valid_seen, valid_unseen for ALFWorld, train, val, test for the others."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the environment: JSON values, or text."""
    explore_first: bool = False
    """Let the oracle call a turn that shows something new E even where it shortens the way."""
    per_cell: int | None = None
    """Keep at most so many segments of each cell (oracle's role x outcome), drawn; all by default."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> int:
        """Play, label and write."""
        from triage_gym.audit.labels import write_labels
        from triage_gym.display import table

        if self.per_cell is not None and self.per_cell < 1:  # before anything is played
            raise InputError(f"Expected --per-cell to be at least 1, got {self.per_cell}")
        if not self.overwrite:
            _check_free(self.out)
        rows = collect(self, say)
        if self.per_cell is not None:
            rows = stratified(rows, self.per_cell, self.seed)
        write_labels(self.out, rows)
        cells = {key: 0 for outcome in (True, False) for key in [(role, outcome) for role in (*"DENR", None)]}
        for row in rows:
            cells[_cell(row)] += 1
        lines = [
            [role or "none", cells[role, True], cells[role, False]]
            for role in (*"DENR", None)
            if role is not None or cells[role, True] + cells[role, False]
        ]
        say(table([_by(rows), "in success", "in failure"], lines, "lrr"))
        say(f"{count(len(rows), 'segment')} in {self.out}")
        return 0


def collect(setting: JudgeCollect, tell: Callable[[str], None] | None = None) -> list[LabelledWindow]:
    """All segments of the episodes that the setting asks for, in order of players, episodes and turns.

    Args:
        setting: What to play; where it is written and what of it is kept is not looked at.
        tell: Is told in a line when an environment without an expert decides who plays.

    Raises:
        InputError: For numbers that are none of an episode, a player without what it needs, or an unknown environment.
    """
    from triage_gym.cli.making import make_env
    from triage_gym.facts import FACT_NAMES
    from triage_gym.reflection.expert import why_no_distance
    from triage_gym.wrappers import SegmentCreditWrapper, StateFactsWrapper

    _check(setting)
    base = make_env(setting.env, limit=setting.limit, split=setting.split, arguments=setting.env_kwargs)
    known = not why_no_distance(base)
    try:
        players = setting.players or _default_players(base, tell)
        _check_expert(players, base)
        env = SegmentCreditWrapper(
            StateFactsWrapper(base, FACT_NAMES if known else ("changed", "learnt")), credit="grpo"
        )
        rows: list[LabelledWindow] = []
        for player in players:
            for episode in range(setting.episodes):
                record = _played(env, player, setting, setting.seed + episode)
                rows += _labelled(record, env, setting, player, setting.seed + episode, known=known)
        return rows
    finally:
        base.close()


def stratified(rows: Sequence[LabelledWindow], per_cell: int, seed: int = 0) -> list[LabelledWindow]:
    """At most ``per_cell`` rows of each cell (role by the oracle, or by the rules without one, x outcome), in their order.

    Raises:
        InputError: For ``per_cell`` below 1.
    """
    from triage_gym.audit.sources import shuffled

    if per_cell < 1:
        raise InputError(f"Expected to keep at least 1 segment a cell, got {per_cell}")
    kept: dict[tuple[str | None, bool], list[str]] = {}
    for row in shuffled(rows, f"cells {seed}"):
        kept.setdefault(_cell(row), []).append(row.id)
    chosen = {name for names in kept.values() for name in names[:per_cell]}
    return [row for row in rows if row.id in chosen]


def _cell(row: LabelledWindow) -> tuple[str | None, bool]:
    said = next((row.labels[name] for name in (ORACLE, RULE, GENERIC) if name in row.labels), None)
    return (None if said is None else said.role), bool(row.success)


def _by(rows: Sequence[LabelledWindow]) -> str:
    return "role by oracle" if any(ORACLE in row.labels for row in rows) else "role by rules"


def _check(setting: JudgeCollect) -> None:
    if setting.episodes < 1 or setting.limit < 1:
        raise InputError(f"Expected episodes and limit of at least 1, got {setting.episodes} and {setting.limit}")
    if not 0.0 <= setting.noise <= 1.0:
        raise InputError(f"Expected --noise to be a share from 0 to 1, got {setting.noise}")
    players = setting.players
    if players is not None and (not players or len(set(players)) < len(players)):
        raise InputError(f"Expected players, each once, got {players}")
    if "checkpoint" in (players or ()) and setting.checkpoint is None:
        raise InputError("Expected --checkpoint with the player of that name; name a run directory")


def _check_free(path: Path) -> None:
    """Raise InputError where a file would be lost, saying whose work is in it."""
    from triage_gym.audit.annotating import people_of
    from triage_gym.audit.labels import GOLD, read_labels

    if not path.exists():
        return
    try:
        rows = read_labels(path)
        held = people_of(rows) + [GOLD] * any(row.gold is not None for row in rows)
    except InputError:  # no label file
        held = []
    lost = f"holds labels of {', '.join(held)}" if held else "is there already"
    raise InputError(
        f"Expected --out to name a new file, got {path}, which {lost}; name another, or lose that one with --overwrite"
    )


def _has_expert(env: gymnasium.Env[Any, Any]) -> bool:
    return callable(getattr(env.unwrapped, "expert_action", None))


def _default_players(env: gymnasium.Env[Any, Any], tell: Callable[[str], None] | None) -> tuple[PlayerName, ...]:
    """The expert with noise, or chance where there is no expert."""
    if _has_expert(env):
        return ("noisy",)
    if tell is not None:
        tell(f"{type(env.unwrapped).__name__} has no expert_action(): the player is random")
    return ("random",)


def _check_expert(players: Sequence[PlayerName], env: gymnasium.Env[Any, Any]) -> None:
    need = [name for name in players if name in ("expert", "noisy")]
    if need and not _has_expert(env):
        raise InputError(
            f"Expected an environment with an expert_action() for the player {need[0]}, got "
            f"{type(env.unwrapped).__name__}; add one, or take --players random"
        )


def _played(env: gymnasium.Env[Any, Any], name: PlayerName, setting: JudgeCollect, seed: int) -> EpisodeRecord:
    """One episode."""
    import numpy as np

    from triage_gym.cli.players import Expert, Learned, Player, Random

    rng = np.random.default_rng([seed, *name.encode()])
    observation, info = env.reset(seed=seed, options={"group_id": f"{name}:{seed}"})
    player: Player
    if name == "noisy":
        player = _Noisy(env, setting.noise, rng)
    elif name == "expert":
        player = Expert(env)
    elif name == "checkpoint" and setting.checkpoint is not None:
        player = Learned(setting.checkpoint, seed)
    else:
        player = Random(seed)
    player.begin(observation, info)
    ended = False
    while not ended:
        commands, forms = list(info.get("admissible_commands", [])), list(info.get("command_templates", []))
        # Where the expert has no way left, chance goes on.
        action = player.act(observation, commands, forms) or _drawn(commands, rng)
        observation, _, terminated, truncated, info = env.step(action)
        player.observe(action, observation)
        ended = terminated or truncated
    record: EpisodeRecord = info["episode_record"]
    return record


def _drawn(commands: Sequence[str], rng: np.random.Generator) -> str:
    return commands[int(rng.integers(len(commands)))] if commands else _NONSENSE


class _Noisy:
    """The environment's expert, who now and then does something else: what an agent under training does.

    Args:
        env: An environment with an expert.
        noise: Share of the turns that are noise.
        rng: For all draws.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], noise: float, rng: np.random.Generator) -> None:
        from triage_gym.cli.players import Expert

        self.task = ""
        self._expert, self._noise, self._rng = Expert(env), noise, rng
        self._actions: list[str] = []

    def begin(self, observation: str, info: Mapping[str, Any]) -> None:
        """A new episode."""
        self._expert.begin(observation, info)
        self.task = self._expert.task
        self._actions.clear()

    def act(self, observation: str, commands: Sequence[str], templates: Sequence[str] = ()) -> str | None:
        """The expert's action, or noise."""
        if self._rng.random() >= self._noise:
            return self._expert.act(observation, commands)
        kind = self._rng.random()
        if kind >= _KINDS["words"]:
            return _NONSENSE
        if kind >= _KINDS["again"] and templates:
            return self._filled(templates[int(self._rng.integers(len(templates)))], observation)
        if kind >= _KINDS["admissible"] and self._actions:
            return self._actions[int(self._rng.integers(len(self._actions)))]
        return _drawn(commands, self._rng)

    def _filled(self, template: str, observation: str) -> str:
        """The form with a few words in a row out of the task or of what is shown."""
        from triage_gym.testing.play import fill

        words = (self.task if self._rng.random() < 0.5 else observation).split() or [_NONSENSE]
        first, most = int(self._rng.integers(len(words))), 1 + int(self._rng.integers(4))
        return fill(template, " ".join(words[first : first + most]).strip(".,:;?()[]<>"))

    def observe(self, action: str, observation: str) -> None:
        """Remember what was done."""
        self._actions.append(action)


def _labelled(
    record: EpisodeRecord,
    env: gymnasium.Env[Any, Any],
    setting: JudgeCollect,
    player: str,
    seed: int,
    *,
    known: bool,
) -> list[LabelledWindow]:
    """A row a segment, labelled."""
    from triage_gym.audit.labels import Annotation, LabelledWindow
    from triage_gym.judges.labelling import judge_windows
    from triage_gym.judges.oracle import OracleJudge
    from triage_gym.judges.rule import RuleJudge
    from triage_gym.windows import build_windows, outcome_text_of

    windows = build_windows(record, outcome_text=outcome_text_of(env.metadata))
    ruled = judge_windows(RuleJudge(warn=False), windows)
    said = [{GENERIC if label.source == GENERIC else RULE: label} for label in ruled]
    if known:
        for row, label in zip(said, judge_windows(OracleJudge(setting.explore_first), windows), strict=True):
            row[ORACLE] = label
    episode = f"{record.domain}/{player}/{seed}/{record.task_id}"
    origin = {
        "env": setting.env,
        "env_kwargs": dict(setting.env_kwargs),
        "split": setting.split,
        "limit": setting.limit,
        "player": player,
        "noise": setting.noise if player == "noisy" else None,
        "seed": seed,
        "task_id": record.task_id,
        "episode": episode,
        "turns": len(record.segments),
    }
    return [
        LabelledWindow(
            f"{episode}/{window.step}",
            window,
            {name: Annotation(label.role, label.why) for name, label in said[at].items()},
            success=record.success,
            origin=origin,
        )
        for at, window in enumerate(windows)
    ]
