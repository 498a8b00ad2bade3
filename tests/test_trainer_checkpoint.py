"""Checkpoints: whole or not there, whatever is killed, torn or tampered with."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from triage_gym.errors import CheckpointError
from triage_gym.trainers import checkpoint

WEIGHTS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1.5])}
OPTIM = {"a.exp_avg": torch.ones(2, 3)}


def save(folder: Path, number: int, keep: int = 2) -> Path:
    return checkpoint.save(folder, number, WEIGHTS, OPTIM, {"update": number, "turns": 10 * number}, keep=keep)


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    path = save(tmp_path, 3)
    assert path == tmp_path / "step_00000003"
    found = checkpoint.load(path)
    assert all(torch.equal(found.weights[k], v) for k, v in WEIGHTS.items())
    assert sorted(found.optim) == ["a.exp_avg"]
    assert (found.state["update"], found.state["turns"]) == (3, 30)
    assert json.loads((tmp_path / "latest.json").read_text()) == {"directory": "step_00000003"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["latest.json", "step_00000003"]


def test_equal_contents_have_equal_bytes(tmp_path: Path) -> None:
    a, b = save(tmp_path / "a", 1), save(tmp_path / "b", 1)
    for file in sorted(a.iterdir()):
        assert file.read_bytes() == (b / file.name).read_bytes()


def test_the_newest_are_kept(tmp_path: Path) -> None:
    for number in (1, 2, 30, 4):
        save(tmp_path, number, keep=2)
    assert sorted(p.name for p in tmp_path.glob("step_*")) == ["step_00000004", "step_00000030"]
    found = checkpoint.newest(tmp_path)
    assert found is not None
    assert found.state["update"] == 30


def test_what_is_there_already_is_not_written_again_and_what_is_harmed_is(tmp_path: Path) -> None:
    path = save(tmp_path, 1, keep=1)
    before = path.stat().st_ino
    assert save(tmp_path, 1, keep=1).stat().st_ino == before
    (path / "MANIFEST.json").write_text("{}")
    save(tmp_path, 1, keep=1)
    assert checkpoint.load(path).state["update"] == 1


@pytest.mark.parametrize("file", ["weights.safetensors", "optim.safetensors", "state.json", "MANIFEST.json"])
@pytest.mark.parametrize("harm", ["cut", "flip", "remove", "empty"])
def test_a_harmed_checkpoint_is_passed_over_with_a_warning(tmp_path: Path, file: str, harm: str) -> None:
    save(tmp_path, 1)
    path = save(tmp_path, 2) / file
    data = path.read_bytes()
    if harm == "remove":
        path.unlink()
    else:
        flipped = bytearray(data)
        flipped[len(data) // 2] ^= 1
        path.write_bytes({"cut": data[:-3], "flip": bytes(flipped), "empty": b""}[harm])
    with pytest.warns(RuntimeWarning, match="Skipped the checkpoint step_00000002"):
        found = checkpoint.newest(tmp_path)
    assert found is not None
    assert found.state["update"] == 1


def test_none_at_all_is_none_and_none_that_verifies_is_an_error(tmp_path: Path) -> None:
    assert checkpoint.newest(tmp_path) is None
    (save(tmp_path, 1) / "state.json").write_text("{}")
    with pytest.warns(RuntimeWarning, match="Skipped"), pytest.raises(CheckpointError, match="got none"):
        checkpoint.newest(tmp_path)


def test_a_half_written_one_is_not_seen_and_cleared_by_the_next(tmp_path: Path) -> None:
    save(tmp_path, 1)
    shutil.copytree(tmp_path / "step_00000001", tmp_path / ".tmp-step_00000002")
    found = checkpoint.newest(tmp_path)
    assert found is not None
    assert found.state["update"] == 1
    save(tmp_path, 2)
    assert not list(tmp_path.glob(".tmp*"))


def test_find_takes_a_run_its_folder_or_a_checkpoint(tmp_path: Path) -> None:
    path = save(tmp_path / "checkpoints", 5)
    for where in (tmp_path, tmp_path / "checkpoints", path):
        assert checkpoint.find(where).state["update"] == 5
    with pytest.raises(CheckpointError, match="found none"):
        checkpoint.find(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["policy.pt", "policy.pth", "policy.ckpt", "policy.pkl", "POLICY.PT"])
def test_pickles_are_refused_unread(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"cposix\nsystem\n(S'touch " + str(tmp_path / "ran").encode() + b"'\ntR.")
    with pytest.raises(CheckpointError, match="safetensors"):
        checkpoint.find(path)
    assert not (tmp_path / "ran").exists()


def test_a_manifest_cannot_point_outside(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    manifest = json.loads((path / "MANIFEST.json").read_text())
    manifest["files"]["../../secret"] = manifest["files"].pop("state.json")
    (path / "MANIFEST.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="to list"):
        checkpoint.load(path)


def test_another_version_is_named(tmp_path: Path) -> None:
    path = save(tmp_path, 1)
    manifest = json.loads((path / "MANIFEST.json").read_text())
    (path / "MANIFEST.json").write_text(json.dumps({**manifest, "schema": 99}))
    with pytest.raises(CheckpointError, match="another version"):
        checkpoint.load(path)


SAVER = """
import os, signal, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from triage_gym.trainers import checkpoint

folder = Path(sys.argv[1])

def save_for_ever(told):
    number = max([int(p.name[5:]) for p in folder.glob("step_*")], default=0)
    while True:
        number += 1
        weights = {"w": torch.full((200, 500), float(number))}
        checkpoint.save(folder, number, weights, {"m": weights["w"]}, {"update": number}, keep=2)
        os.write(told, f"{number}\\n".encode())

for kill in range(50):
    reading, writing = os.pipe()
    child = os.fork()  # a fork, since fifty fresh imports of torch would take minutes
    if child == 0:
        save_for_ever(writing)
    os.close(writing)
    first = os.read(reading, 100)
    time.sleep(0.0007 * (kill % 25))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    rest = os.read(reading, 1 << 16)
    os.close(reading)
    told = int((first + rest).split()[-1])
    found = checkpoint.newest(folder)
    assert found is not None and found.state["update"] >= told
    assert (found.weights["w"] == found.state["update"]).all()
    print(kill, told, found.state["update"], flush=True)
"""


def test_fifty_kills_while_saving_leave_no_unreadable_checkpoint(tmp_path: Path) -> None:
    """Each kill comes at another moment of a save that takes some milliseconds; what stands afterwards must verify."""
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", SAVER, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [[int(x) for x in line.split()] for line in done.stdout.splitlines()]
    assert [line[0] for line in lines] == list(range(50))
    assert len({line[2] for line in lines}) == 50  # each of the fifty got further
