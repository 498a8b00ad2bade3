"""Checkpoints that are whole or not there: written aside, verified by a manifest, put in place by one rename.

::

    checkpoints/
      latest.json              {"directory": "step_00000040"}
      step_00000040/
        weights.safetensors    tensors of the policy
        optim.safetensors      tensors of the optimiser, of the start policy (``start.``…) and of the best weights so far
                               (``kept.``…, where these are others)
        state.json             update, turns, RNG states, data cursor, config, log sizes, versions
        MANIFEST.json          size and SHA-256 of each of these; written last

Saving writes into ``.tmp-step_…``, flushes each file and the folder to disk, writes the manifest, renames, then repoints
``latest.json``; so a crash at any moment leaves the checkpoint before. What is there already is not written again; only a
checkpoint of the same number with other content (a resume with other settings) is replaced, and is missing for that
moment. Older ones go only after the new one is in place.
Loading takes the newest whose manifest verifies, and warns for each that does not; ``latest.json``, and the hash
``config_digest`` in ``state.json``, are for readers outside and are not read here. No pickle is ever read: ``.pt`` files
are refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from triage_gym.errors import CheckpointError

SCHEMA: Final = 1
_TENSOR_FILES: Final = ("weights.safetensors", "optim.safetensors")
_FILES: Final = (*_TENSOR_FILES, "state.json")
_PICKLES: Final = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".zip")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose manifest verified."""

    path: Path
    weights: dict[str, Tensor]
    optim: dict[str, Tensor]
    state: dict[str, Any]


def save(
    folder: Path,
    number: int,
    weights: Mapping[str, Tensor],
    optim: Mapping[str, Tensor],
    state: Mapping[str, Any],
    *,
    keep: int = 2,
) -> Path:
    """Write checkpoint ``number`` into ``folder`` and drop all but the newest ``keep``.

    Args:
        folder: The ``checkpoints`` folder of a run.
        number: Number of the update.
        weights: Tensors of the policy.
        optim: Tensors of the optimiser.
        state: JSON object.
        keep: Checkpoints that stay.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"step_{number:08d}"
    tmp = folder / f".tmp-{target.name}"
    for stale in sorted(folder.glob(".tmp-step_*")):
        shutil.rmtree(stale)
    contents = {
        "weights.safetensors": save_tensors({k: v.detach().cpu().contiguous() for k, v in weights.items()}),
        "optim.safetensors": save_tensors({k: v.detach().cpu().contiguous() for k, v in optim.items()}),
        "state.json": _json({"schema": SCHEMA, **state}),
    }
    manifest = {n: {"bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in contents.items()}
    contents["MANIFEST.json"] = _json({"schema": SCHEMA, "files": manifest})
    if all((target / name).is_file() and (target / name).read_bytes() == data for name, data in contents.items()):
        return target
    tmp.mkdir()
    for name, data in contents.items():
        _write(tmp / name, data)
    _sync_folder(tmp)
    if target.exists():
        shutil.rmtree(target)
    os.replace(tmp, target)
    _sync_folder(folder)
    _write(folder / ".latest.tmp", _json({"directory": target.name}))
    os.replace(folder / ".latest.tmp", folder / "latest.json")
    _sync_folder(folder)
    for old in _directories(folder)[keep:]:
        shutil.rmtree(old)
    return target


def load(path: Path) -> Checkpoint:
    """The checkpoint in the directory ``path``.

    Raises:
        CheckpointError: When a file is missing, torn, changed or of another version.
    """
    manifest = _read_json(path / "MANIFEST.json").get("files")
    if not isinstance(manifest, dict) or sorted(manifest) != sorted(_FILES):
        raise CheckpointError(f"Expected {path / 'MANIFEST.json'} to list {list(_FILES)}, got {manifest!r:.200}")
    contents = {name: _verified(path / name, manifest[name]) for name in _FILES}
    try:
        weights, optim = (load_tensors(contents[name]) for name in _TENSOR_FILES)
    except SafetensorError as error:
        raise CheckpointError(f"Expected safetensors in {path}, got: {error}") from error
    return Checkpoint(path, weights, optim, _object(contents["state.json"], path / "state.json"))


def newest(folder: Path) -> Checkpoint | None:
    """The newest checkpoint in ``folder`` that verifies; None when there is none at all.

    Raises:
        CheckpointError: When there are checkpoints but none verifies.
    """
    failures = []
    for path in _directories(folder):
        try:
            return load(path)
        except CheckpointError as error:
            failures.append(str(error))
            warnings.warn(f"Skipped the checkpoint {path.name}: {error}", RuntimeWarning, stacklevel=2)
    if failures:
        raise CheckpointError(f"Expected a checkpoint that verifies in {folder}, got none: {'; '.join(failures)}")
    return None


def find(path: str | os.PathLike[str]) -> Checkpoint:
    """The checkpoint that a user means by ``path``: its directory, a run directory, or its ``checkpoints`` folder.

    Raises:
        CheckpointError: When there is none, or ``path`` is a pickle.
    """
    where = Path(path)
    if where.suffix.lower() in _PICKLES and not where.is_dir():
        raise CheckpointError(
            f"Expected a checkpoint directory, got {where}: files of this kind are pickles, which can run any code. "
            "Save the weights as safetensors (safetensors.torch.save_file) and give the run directory"
        )
    if (where / "MANIFEST.json").is_file():
        return load(where)
    for folder in (where / "checkpoints", where):
        found = newest(folder) if folder.is_dir() else None
        if found is not None:
            return found
    inside = sorted(str(path.parent) for path in where.glob("*/checkpoints") if any(path.glob("step_*")))
    raise CheckpointError(
        f"Expected a run or checkpoint directory with a checkpoint in it, found none at {where}"
        + (f"; name one of the runs in it: {', '.join(inside)}" if inside else "")
    )


def _directories(folder: Path) -> list[Path]:
    """Checkpoint directories, newest first."""
    return sorted((p for p in folder.glob("step_*") if p.is_dir()), key=lambda p: p.name, reverse=True)


def _verified(path: Path, entry: Any) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"Expected the file {path}: {error}") from error
    if not isinstance(entry, dict) or entry.get("bytes") != len(data):
        raise CheckpointError(f"Expected {path} as its manifest says ({entry!r:.100}), got {len(data)} bytes")
    if entry.get("sha256") != hashlib.sha256(data).hexdigest():
        raise CheckpointError(f"Expected {path} with the SHA-256 of its manifest, got another: the file was changed")
    return data


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return _object(path.read_bytes(), path)
    except OSError as error:
        raise CheckpointError(f"Expected the file {path}: {error}") from error


def _object(data: bytes, path: Path) -> dict[str, Any]:
    try:
        out = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"Expected {path} to be JSON, got: {error}") from error
    if not isinstance(out, dict) or out.get("schema") != SCHEMA:
        raise CheckpointError(f'Expected {path} to be an object with "schema": {SCHEMA}; another version wrote it')
    return out


def _json(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(data, allow_nan=False, separators=(",", ":")) + "\n").encode()


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
