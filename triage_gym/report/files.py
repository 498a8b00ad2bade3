"""Reading a run directory without trusting it: every mistake is an InputError that names the file and the field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from triage_gym import strict_json
from triage_gym.errors import InputError


def parse(text: str, where: str) -> Any:
    """JSON without NaN or infinity.

    Raises:
        InputError: For anything else.
    """
    try:
        return strict_json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"Expected {where} to be JSON, got: {error}") from error


def read_json(path: Path) -> Mapping[str, Any]:
    """The JSON object in ``path``.

    Raises:
        InputError: If the file is missing, unreadable or holds no JSON object.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Expected a readable JSON file at {path}, got: {error}") from error
    return mapping(parse(text, str(path)), str(path))


def mapping(data: Any, where: str) -> Mapping[str, Any]:
    """``data``, which must be a JSON object."""
    if not isinstance(data, Mapping):
        raise InputError(f"Expected {where} to be a JSON object, got {type(data).__name__}")
    return data


def read_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Each line of a ``.jsonl`` file with the byte offset where it starts; none when there is no file.

    A last line without a newline was torn by a crash or is still being written: it is left out.

    Raises:
        InputError: For a line that is no JSON object.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        offset = 0
        for count, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            yield offset, _line(line, f"line {count} of {path}")
            offset += len(line)


def read_line(path: Path, offset: int) -> Mapping[str, Any]:
    """The line of ``path`` that starts at byte ``offset``."""
    with path.open("rb") as file:
        file.seek(offset)
        return _line(file.readline(), f"the line at byte {offset} of {path}")


def _line(line: bytes, where: str) -> Mapping[str, Any]:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"Expected {where} to be UTF-8, got: {error}") from error
    return mapping(parse(text, where), where)


def number(data: Mapping[str, Any], key: str, where: str) -> float | None:
    """A number, or None where it is null or left out.

    Raises:
        InputError: For anything else.
    """
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"Expected {where}.{key} to be a number or null, got {value!r}")
    return float(value)


def need(data: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    """A field that must be there and be a ``kind``.

    Raises:
        InputError: If it is not.
    """
    value = data.get(key)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"Expected {where}.{key} to be {kind.__name__}, got {value!r:.80}")
    return value


def inside(root: Path, name: str) -> Path:
    """``root / name``, which must stay below ``root``.

    Raises:
        InputError: If it leads elsewhere.
    """
    path = (root / name).resolve()
    if not path.is_relative_to(root.resolve()):
        raise InputError(f"Expected a run below {root}, got {name!r}; a comparison only names its own folders")
    return path
