"""Parses a command line, runs the command, and turns errors into one line and an exit status."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import tyro

from triage_gym.cli import parsing
from triage_gym.cli.credit import ACTIONS as CREDIT_ACTIONS
from triage_gym.cli.credit import Credit
from triage_gym.cli.envs import Envs
from triage_gym.cli.evaluate import Eval
from triage_gym.cli.judge import ACTIONS as JUDGE_ACTIONS
from triage_gym.cli.judge import Judge
from triage_gym.cli.making import TRAINER_NEEDS, missing_trainer
from triage_gym.cli.play import Play
from triage_gym.cli.pretrain import Pretrain
from triage_gym.cli.report import Report
from triage_gym.cli.reproduce import Reproduce
from triage_gym.cli.retry import Retry
from triage_gym.cli.scaling import Scaling
from triage_gym.cli.train import Train
from triage_gym.display import sanitize, sanitize_line
from triage_gym.errors import TriageGymError
from triage_gym.origin import users_line

_GYMNASIUM = re.compile(r"\x1b\[33mWARN: (.*)\x1b\[0m", re.DOTALL)
"""What Gymnasium's logger puts around a warning: a colour, and that it is one."""
DESCRIPTION = (
    "Role-typed credit (TRIAGE) and pivotal retry (PivoARL) for agents in text environments. "
    "Every command has --help; --debug shows the traceback of an error."
)

NAMES = ("train", "pretrain", "eval", "play", "retry", "scaling", "report", "envs", "judge", "credit", "reproduce")
ACTIONS = {"envs": ("list", "show", "check", "prepare"), "judge": JUDGE_ACTIONS, "credit": CREDIT_ACTIONS}
"""Of the commands that are groups."""


def parse(argv: Sequence[str]) -> Any:
    """The command of a command line.

    Raises:
        SystemExit: With status 0 after ``--help`` and 2 for a command line that does not parse.
        InputError: For a config file or a value that cannot be used.
    """
    arguments = list(argv)
    name = arguments[0] if arguments else ""
    base = parsing.base_config(arguments) if name in ("train", "pretrain") else None
    if name == "train":
        parsing.refuse_both(arguments, base)
    train = Train.over(base) if base and name == "train" else Train()
    pretrain = Pretrain.over(base) if base and name == "pretrain" else Pretrain()
    subcommand = tyro.conf.subcommand
    commands = (
        Annotated[Train, subcommand("train", default=train)]
        | Annotated[Pretrain, subcommand("pretrain", default=pretrain)]
        | Annotated[Eval, subcommand("eval")]
        | Annotated[Play, subcommand("play")]
        | Annotated[Retry, subcommand("retry")]
        | Annotated[Scaling, subcommand("scaling")]
        | Annotated[Report, subcommand("report")]
        | Annotated[Envs, subcommand("envs")]
        | Annotated[Judge, subcommand("judge")]
        | Annotated[Credit, subcommand("credit")]
        | Annotated[Reproduce, subcommand("reproduce")]
    )
    try:
        with parsing.registry():
            return tyro.cli(
                commands,
                prog="triage-gym",
                description=DESCRIPTION,
                args=arguments,
                config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitSubcommandPrefixes, tyro.conf.OmitArgPrefixes),
            )
    except SystemExit as stop:
        if stop.code == 2 and name in NAMES:
            action = f" {arguments[1]}" if set(arguments[1:2]) & set(ACTIONS.get(name, ())) else ""
            print(f"The flags of this command: triage-gym {name}{action} --help", file=sys.stderr)
        raise


def run(argv: Sequence[str]) -> int:
    """Parse and run a command line.

    Returns:
        The exit status.

    Raises:
        SystemExit: From parsing, and from a trainer that was asked to stop (status 143).
        Exception: Whatever went wrong, when ``--debug`` is among the arguments.
    """
    if list(argv) == ["--version"]:
        from triage_gym import __version__

        print(f"triage-gym {__version__}")
        return 0
    debug = "--debug" in argv
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # for module:attr paths of the user's own, behind everything installed
    try:
        with contextlib.nullcontext() if debug else _plain_warnings():
            status: int = parse([a for a in argv if a != "--debug"]).run()
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone; keep the interpreter from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if debug:
            raise
        print(_message(error), file=sys.stderr)
        return getattr(error, "exit_status", 1) if isinstance(error, TriageGymError) else 1


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Meanwhile a warning is one line without Python's frame, which points into this package."""

    def line(message: Warning | str, *_: object, **__: object) -> str:
        framed = _GYMNASIUM.fullmatch(str(message))
        return f"warning: {sanitize_line(framed[1] if framed else message)}\n"

    before = warnings.formatwarning
    warnings.formatwarning = line
    try:
        yield
    finally:
        warnings.formatwarning = before


def _message(error: Exception) -> str:
    if isinstance(error, TriageGymError):
        return f"error: {sanitize(error)}"
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"error: {sanitize(error.strerror)}{sanitize(where)}"
    line = users_line(error)
    if line:
        return (
            f"error: {sanitize(type(error).__name__)}: {sanitize(error)}, at {sanitize(line)}\n"
            "This comes from code outside triage_gym; run again with --debug for the traceback."
        )
    if isinstance(error, ModuleNotFoundError) and error.name in TRAINER_NEEDS:
        return f"error: {missing_trainer(error.name)}"
    return (
        f"error: unexpected {type(error).__name__}: {sanitize(error)}\n"
        "This is a fault of triage_gym; run again with --debug for the traceback."
    )
