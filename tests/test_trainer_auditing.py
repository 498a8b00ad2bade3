"""A run that first measures whether roles will help."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from trainer_runs import contents

from triage_gym.credit import make
from triage_gym.credit.audited import TriageAudited
from triage_gym.errors import CheckpointError, InputError, JudgeOutage
from triage_gym.trainers import TrainConfig, auditing
from triage_gym.trainers.loop import train
from triage_gym.trainers.progress import Update
from triage_gym.trainers.signals import Interrupted

AGAINST = {"name": "distorted", "of": "rule", "read_as": {"D": "R", "E": "R", "R": "D", "N": "D"}}
"""A judge that praises what is bad."""


def small(**changes: Any) -> TrainConfig:
    plain: dict[str, Any] = {
        "env": "minesweeper",
        "limit": 7,
        "turns": 5000,
        "audit_turns": 3000,
        "groups_per_update": 2,
        "group_size": 4,
        "tasks": 40,
        "width": 16,
        "eval_tasks": 10,
        "eval_at": (),
        "checkpoint_every": 3,
        "credit": "triage-audited",
    }
    return TrainConfig(**{**plain, **changes})


def rows(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audited") / "run"
    train(small(), path)
    return path


def test_the_turns_of_the_audit_are_turns_of_the_run(audited: Path) -> None:
    found = json.loads((audited / "audit.json").read_text())
    assert 3000 <= found["turns"] < 5000
    first, last = rows(audited)[0], rows(audited)[-1]
    assert found["turns"] < first["turns"] <= found["turns"] + 2 * 4 * 7
    assert 5000 <= last["turns"] < 5000 + 2 * 4 * 7
    assert first["roles_off"] is False


def test_constants_are_those_that_were_fitted(audited: Path) -> None:
    found = auditing.Audited.from_json(json.loads((audited / "audit.json").read_text()))
    rule = auditing.applied(make("triage-audited"), found)
    assert isinstance(rule, TriageAudited)
    assert found.fit is not None
    assert list(rule.constants) == found.fit["constants"]
    assert rule.lam == found.fit["lam"]
    given = auditing.applied(make("triage"), found)
    assert given == make("triage")


def test_where_nothing_can_be_fitted_it_says_so_and_takes_the_papers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No household task is solved in two turns."""
    hopeless = {"env": "alfworld", "limit": 2, "demos": 0}
    train(small(**hopeless, turns=400, audit_turns=100, groups_per_update=1, group_size=2), tmp_path / "run")
    found = auditing.Audited.from_json(json.loads((tmp_path / "run" / "audit.json").read_text()))
    assert found.fit is None
    assert "no constants could be fitted" in found.verdict
    assert "the paper's are taken" in caplog.text
    applied = auditing.applied(make("triage-audited"), found)
    assert (applied.constants, applied.lam) == (make("triage").constants, make("triage").lam)
    assert len(rows(tmp_path / "run")) > 1


def test_a_run_that_was_stopped_does_not_measure_again(audited: Path, tmp_path: Path, monkeypatch: Any) -> None:
    def stop(update: Update) -> None:
        if update.update == 7:
            raise Interrupted(15)

    with pytest.raises(Interrupted):
        train(small(), tmp_path / "run", progress=stop)
    monkeypatch.setattr(auditing, "measure", None)
    train(small(), tmp_path / "run", resume=True)
    assert contents(tmp_path / "run") == contents(audited)


def test_roles_that_would_hurt_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    train(small(credit="triage", audit=True, judge=AGAINST, audit_turns=3500), tmp_path / "run")
    found = json.loads((tmp_path / "run" / "audit.json").read_text())
    assert found["finding"]["answer"] == "no"
    assert found["roles_off"]
    assert "training with grpo+whiten" in caplog.text
    first = rows(tmp_path / "run")[0]
    assert "roles_off" in first["warnings"]
    assert first["role_unjudged"] == 1.0, "a judge that costs is not asked any more"
    from triage_gym.report import build_report

    page = build_report(tmp_path / "run").read_text()
    assert "audit of the start policy" in page


def test_roles_off_is_grpo_with_whitening_from_there_on(tmp_path: Path) -> None:
    """The same steps as a run of grpo+whiten, which has no audit and so so many turns more."""
    train(small(credit="triage", audit=True, judge=AGAINST, audit_turns=3500), tmp_path / "off")
    train(small(credit="grpo+whiten", judge=AGAINST), tmp_path / "plain")
    keys = ("success", "length", "loss", "entropy", "grad_norm")
    off, plain = rows(tmp_path / "off"), rows(tmp_path / "plain")
    assert [[row[k] for k in keys] for row in off] == [[row[k] for k in keys] for row in plain[: len(off)]]


def test_an_audit_must_leave_turns_to_train(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"more `turns` than the audit takes.*or lower `audit_turns`"):
        train(small(turns=3000), tmp_path / "run")
    with pytest.raises(InputError, match="one round of 64 episodes, the least there is"):
        train(small(turns=300, audit_turns=50), tmp_path / "least")
    with pytest.raises(InputError, match="audit_turns"):
        small(audit_turns=0)
    with pytest.raises(InputError, match="`audit`"):
        small(audit=1)


def test_without_constants_the_rule_says_how_to_get_some() -> None:
    rule = make("triage-audited")
    with pytest.raises(InputError, match="triage-gym credit fit"):
        rule([])
    assert make({"name": "triage-audited", "constants": [1, 0.1, 0, -0.3]})([]) == []
    with pytest.raises(InputError, match="constants"):
        make({"name": "triage-audited", "constants": [1, 2]})
    with pytest.raises(CheckpointError):
        auditing.Audited.from_json({"turns": 3})


def test_an_audit_weighs_roles_as_the_run_does() -> None:
    """With every constant's sign turned, the correlation's turns too."""
    from triage_gym.trainers.policies import make_policy

    def corr(**changes: Any) -> float:
        config = small(audit=True, credit="triage", **changes).resolved()
        rule = make({"name": "triage", **config.credit_kwargs}, lam=config.lam)
        torch.manual_seed(0)
        estimate = auditing.audit_start(config, rule, make_policy(config)).finding["corr_role"]["estimate"]
        return float(estimate)

    assert corr(credit_kwargs={"constants": [-1.0, -0.5, 0.1, 0.5]}) == pytest.approx(-corr())


def test_a_rule_without_roles_has_nothing_to_audit(caplog: pytest.LogCaptureFixture) -> None:
    assert not auditing.is_needed(small(audit=True, credit="grpo"), make("grpo"))
    assert "nothing to audit: grpo reads no roles" in caplog.text
    assert auditing.is_needed(small(audit=True, credit="triage"), make("triage"))


class Silent:
    """A judge that fails always."""

    def judge(self, windows: object) -> list[object]:
        raise RuntimeError("no answer today")


def test_no_verdict_comes_of_a_judge_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(JudgeOutage, match=r"in the audit.*no answer today"):
        train(small(credit="triage", audit=True, judge="test_trainer_auditing:Silent"), tmp_path / "run")
    assert not (tmp_path / "run" / "audit.json").exists()


def test_too_few_turns_are_told_before_anything_is_measured(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(auditing, "measure", None)
    with pytest.raises(InputError, match="more `turns` than the audit takes"):
        train(small(turns=3000), tmp_path / "run")


def test_a_signal_ends_an_audit_and_the_run_can_begin_again(tmp_path: Path, monkeypatch: Any) -> None:
    measure = auditing.measure

    def stopped(*args: Any, **more: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal was not heeded")

    monkeypatch.setattr(auditing, "measure", stopped)
    with pytest.raises(Interrupted) as stop:
        train(small(turns=4000), tmp_path / "run")
    assert stop.value.code == 143
    monkeypatch.setattr(auditing, "measure", measure)
    train(small(turns=4000), tmp_path / "run")
    train(small(turns=4000), tmp_path / "whole")
    assert contents(tmp_path / "run") == contents(tmp_path / "whole")
