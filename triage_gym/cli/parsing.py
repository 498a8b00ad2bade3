"""What tyro has to be told: ``KEY=VALUE`` mappings, and a config file under the flags.

Layers, each over the one before: the defaults, ``config.json`` of the run that ``--resume`` continues, the file given
with ``--config``, the flags.
"""

from __future__ import annotations

import ast
import difflib
import json
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin

import tyro

from triage_gym.errors import InputError

if TYPE_CHECKING:
    from triage_gym.trainers.config import TrainConfig

EXTRA = ("credits", "seeds", "baseline")
"""Keys of a config file that are no fields of the training config: those of a comparison."""


def _value(text: str) -> Any:
    """What a word of a command line stands for: JSON, or else a Python literal that JSON can hold, or else itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    # Numbers are JSON's only: Python's 1_000 is more likely a name.
    if text not in ("None", "True", "False") and not text.startswith(("[", "(", "{", "'")):
        return text
    try:
        # What it warns of (an escape that is none) is no concern of the user's: then the word is text.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return json.loads(json.dumps(ast.literal_eval(text), allow_nan=False))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _word(value: Any) -> str:
    """The word that :func:`_value` reads as ``value``."""
    return value if isinstance(value, str) and _value(value) == value else json.dumps(value)


def plugin(text: str) -> str | dict[str, Any]:
    """The judge, reflector or check that a word of a command line names: a name, or the JSON object it holds.

    Raises:
        ValueError: For a broken object.
    """
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"""expected a name, or JSON such as '{{"name": "rule"}}' in single quotes: {error}"""
        ) from error
    if not isinstance(found, dict):
        raise ValueError(f"""expected a name, or JSON such as '{{"name": "rule"}}', got {text:.80}""")  # noqa: TRY004 - tyro shows ValueErrors
    return found


def _pairs(texts: list[str]) -> dict[str, Any]:
    out = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ValueError(f"expected KEY=VALUE, got {text!r}")
        out[key] = _value(value)
    return out


def registry() -> tyro.constructors.ConstructorRegistry:
    """A context in which tyro reads mappings from ``KEY=VALUE`` words, with values as in JSON, and a plug-in from a word."""
    made = tyro.constructors.ConstructorRegistry()

    @made.primitive_rule
    def mapping(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
        if get_origin(info.type) is not Mapping:
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs="*",
            metavar="KEY=VALUE",
            instance_from_str=_pairs,
            is_instance=lambda x: isinstance(x, Mapping),
            str_from_instance=lambda d: [f"{k}={_word(v)}" for k, v in d.items()],
        )

    @made.primitive_rule
    def spec(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
        if info.type not in (str | Mapping[str, Any], str | Mapping[str, Any] | None):
            return None
        nothing = info.type == str | Mapping[str, Any] | None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="NAME|JSON|none" if nothing else "NAME|JSON",
            instance_from_str=lambda texts: None if nothing and texts == ["none"] else plugin(texts[0]),
            is_instance=lambda x: isinstance(x, str | Mapping) or (nothing and x is None),
            str_from_instance=lambda x: [x if isinstance(x, str) else "none" if x is None else json.dumps(x)],
        )

    return made


def option(argv: Sequence[str], name: str) -> str | None:
    """The last value of ``--name`` in a command line that is not parsed yet."""
    found = None
    for word, following in zip(argv, [*argv[1:], None], strict=True):
        flag, equals, value = word.partition("=")
        if flag.replace("_", "-") == f"--{name}":
            found = value if equals else following
    return found


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a ``.toml`` or ``.json`` file.

    Raises:
        InputError: If the file is missing, does not parse, or has a key that is no setting.
    """
    from triage_gym.trainers.config import TrainConfig

    data = _parse(path)
    known = [*EXTRA, *(f.name for f in fields(TrainConfig))]
    for key in data:
        if key not in known:
            close = difflib.get_close_matches(key, known)
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            raise InputError(f"Expected the settings of a training run in {path}, got {key!r}{hint}")
    return data


def _parse(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Expected a readable config file at {path}, got: {error}") from error
    try:
        data = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise InputError(f"Expected {path} to be {kind}, got: {error}") from error
    if not isinstance(data, dict):
        raise InputError(f"Expected {path} to hold settings by name, got {type(data).__name__}")
    return data


class Base:
    """The settings under the flags.

    Args:
        settings: From a config file or a run that is continued.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        from triage_gym.trainers.config import TrainConfig

        rest = {key: value for key, value in settings.items() if key not in EXTRA}
        self.training: TrainConfig = TrainConfig.from_json(rest)
        self.credits = _texts(settings, "credits")
        self.seeds = _numbers(settings, "seeds")
        self.baseline = settings.get("baseline")
        if self.baseline is not None and not isinstance(self.baseline, str):
            raise InputError(f"Expected `baseline` to name a credit rule, got {self.baseline!r}")


def _texts(settings: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = settings.get(key, [])
    if not isinstance(value, list) or not all(isinstance(x, str) for x in value):
        raise InputError(f"Expected `{key}` to be a list of names, got {value!r}")
    return tuple(value)


def _numbers(settings: Mapping[str, Any], key: str) -> tuple[int, ...]:
    value = settings.get(key, [])
    if not isinstance(value, list) or not all(type(x) is int for x in value):
        raise InputError(f"Expected `{key}` to be a list of integers, got {value!r}")
    return tuple(value)


def latest_run() -> Path | None:
    """The run or comparison below ``runs/`` that was written to last."""

    def written(path: Path) -> float:
        files = [path / name for name in ("config.json", "metrics.jsonl", "comparison.json")]
        return max(file.stat().st_mtime for file in files if file.exists())

    found = [path.parent for path in Path("runs").glob("*/config.json")]
    return max(found, key=written, default=None)


def _saved(run_dir: Path) -> dict[str, Any]:
    """The settings of a run that is to go on; none where there is no run."""
    comparison = run_dir / "comparison.json"
    if comparison.is_file():
        data = _parse(comparison)
        return {**data.get("config", {}), **{key: data[key] for key in EXTRA if key in data}}
    return read_config(run_dir / "config.json") if (run_dir / "config.json").is_file() else {}


def saved(run_dir: Path) -> Base:
    """The settings of the run or comparison in ``run_dir``.

    Raises:
        InputError: When they cannot be read.
    """
    return Base(_saved(run_dir))


def refuse_both(argv: Sequence[str], base: Base | None) -> None:
    """Refuse a single value beside the list that is for a comparison, of which one would have to be passed over.

    Raises:
        InputError: For ``--credit`` with ``--credits`` or ``--seed`` with ``--seeds``.
    """
    for one, many in (("credit", "credits"), ("seed", "seeds")):
        from_file = () if base is None else getattr(base, many)
        if option(argv, one) is not None and (option(argv, many) is not None or from_file):
            where = f"--{many}" if option(argv, many) is not None else f"the {many} of the settings it is laid over"
            raise InputError(f"Expected --{one} (a single run) or --{many} (a comparison), got --{one} beside {where}")


def base_config(argv: Sequence[str]) -> Base | None:
    """The settings that the flags of ``argv`` are laid over, or None for the defaults.

    Raises:
        InputError: For a config file that cannot be used.
    """
    settings: dict[str, Any] = {}
    if "--resume" in argv:
        run_dir = option(argv, "run-dir") or latest_run()
        settings |= _saved(Path(run_dir)) if run_dir else {}
    file = option(argv, "config")
    if file:
        settings |= read_config(Path(file))
    return Base(settings) if settings else None
