"""``triage-gym judge collect``: what it writes, that a seed decides it, and what it refuses."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from audit_rows import row as label_row
from envs_for_tests import StatelessCorridor

from triage_gym.audit.labels import read_labels, write_labels
from triage_gym.cli.judge_collect import GENERIC, ORACLE, RULE, JudgeCollect, collect, stratified
from triage_gym.errors import InputError
from triage_gym.judges.labelling import judge_windows
from triage_gym.judges.oracle import OracleJudge

SOKOBAN = {"env": "sokoban", "limit": 8, "episodes": 3, "split": "val"}


class NoExpert(StatelessCorridor):
    expert_distance = None  # type: ignore[assignment]


def test_it_writes_windows_with_facts_labelled_by_oracle_and_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "labels.jsonl.gz"
    assert JudgeCollect(**SOKOBAN, out=out).run() == 0
    rows = read_labels(out)
    assert f"{len(rows)} segments in" in capsys.readouterr().out
    assert {row.origin["seed"] for row in rows} == {0, 1, 2}
    for row in rows:
        assert row.window.facts is not None
        assert set(row.labels) == {ORACLE, RULE}
        assert row.gold is None
        (label,) = judge_windows(OracleJudge(), [row.window])
        assert (label.role, label.why) == tuple(row.labels[ORACLE])
    with pytest.raises(InputError, match="is there already; name another, or lose that one with --overwrite"):
        JudgeCollect(**SOKOBAN, out=out).run()
    again = tmp_path / "again.jsonl.gz"
    JudgeCollect(**SOKOBAN, out=again).run()
    assert again.read_bytes() == out.read_bytes()
    JudgeCollect(**{**SOKOBAN, "episodes": 1}, out=again, overwrite=True).run()
    assert len(read_labels(again)) < len(rows)


def test_labels_by_hand_are_not_written_over(tmp_path: Path) -> None:
    out = tmp_path / "mine.jsonl"
    for held, said in ({"ann": "D", "rule": "D"}, "ann"), ({"gold": "D"}, "gold"):
        write_labels(out, [label_row("a", **held)])
        before = out.read_bytes()
        with pytest.raises(InputError, match=f"holds labels of {said}; name another"):
            JudgeCollect(env="no_such_module:Env", out=out).run()
        assert out.read_bytes() == before
    out.write_text("no labels")
    with pytest.raises(InputError, match="is there already"):
        JudgeCollect(**SOKOBAN, out=out).run()


def test_each_player_plays_and_the_expert_without_noise_makes_only_progress() -> None:
    rows = collect(JudgeCollect(**{**SOKOBAN, "limit": 30}, players=("expert", "random", "noisy"), noise=0.0))
    by_player: dict[str, list[Any]] = {}
    for row in rows:
        by_player.setdefault(row.origin["player"], []).append(row)
    for name in ("expert", "noisy"):
        assert {row.labels[ORACLE].role for row in by_player[name]} == {"D"}
        assert all(row.success for row in by_player[name])
    assert {row.labels[ORACLE].role for row in by_player["random"]} != {"D"}


def test_all_noise_is_all_kinds_of_noise() -> None:
    rows = collect(JudgeCollect(env="webshop", episodes=8, noise=1.0, limit=15, split="val"))
    actions = [row.window.action for row in rows]
    assert "xyzzy" in actions
    assert any(row.window.action in row.window.earlier_actions for row in rows)
    assert any(action.startswith("search[") for action in actions)
    assert any(action.startswith("click[") for action in actions)


def test_cells_are_cut_to_size_in_order() -> None:
    rows = collect(JudgeCollect(env="minesweeper", episodes=12, noise=0.5, env_kwargs={"max_turns": 20}))
    kept = stratified(rows, 3, seed=1)
    counts = Counter((row.labels[ORACLE].role, row.success) for row in kept)
    assert max(counts.values()) == 3
    assert counts.keys() == {(row.labels[ORACLE].role, row.success) for row in rows}
    assert [row for row in rows if row in kept] == kept
    assert stratified(rows, 3, seed=2) != kept
    assert stratified(rows, 10_000) == rows


def test_without_an_expert_the_rules_label_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triage_gym.judges.rule._warned", set())  # a warning would be an error here
    setting: dict[str, Any] = {"env": "test_cli_judge_collect:NoExpert", "episodes": 2, "limit": 6}
    rows = collect(JudgeCollect(**setting))
    assert {tuple(row.labels) for row in rows} == {(GENERIC,)}
    assert {row.origin["player"] for row in rows} == {"random"}
    assert rows == collect(JudgeCollect(**setting, players=("random",)))
    assert {row.window.facts.before for row in rows if row.window.facts} == {None}
    JudgeCollect(**setting, out=tmp_path / "labels.jsonl", per_cell=2).run()
    out = capsys.readouterr().out
    assert out.startswith("NoExpert has no expert_action(): the player is random\n")
    assert "role by rules" in out


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"episodes": 0}, "episodes"),
        ({"limit": 0}, "limit"),
        ({"noise": 1.5}, "--noise"),
        ({"players": ()}, "players"),
        ({"players": ("random", "random")}, "each once"),
        ({"players": ("checkpoint",)}, "--checkpoint"),
        ({"env": "nowhere"}, "nowhere"),
        ({"env": "test_cli_judge_collect:NoExpert", "players": ("noisy",)}, "expert"),
    ],
)
def test_what_cannot_be_played_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        collect(JudgeCollect(**{**SOKOBAN, **wrong, **({"split": None} if "env" in wrong else {})}))


def test_a_cell_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="at least 1"):
        stratified([], 0)


def test_what_cannot_be_collected_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    out = tmp_path / "labels.jsonl"
    with pytest.raises(InputError, match="take --players random"):
        JudgeCollect(env="test_cli_judge_collect:NoExpert", players=("random", "noisy"), out=out).run()
    with pytest.raises(InputError, match="--per-cell"):
        JudgeCollect(env="no_such_module:Env", per_cell=0, out=out).run()
    assert not out.exists()
