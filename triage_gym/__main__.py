"""``triage-gym`` and ``python -m triage_gym``: the command line.

With :mod:`triage_gym.cli` this is the roof of the house: the only part of the core that reaches the environments, the
wrappers and the trainer, inside functions, so that ``--help`` imports none of them. One module is taken at import:
:mod:`triage_gym.trainers.config`, plain fields without torch, which are the flags of ``train``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and exit with its status.

    Args:
        argv: Arguments without the program's name; those of the process by default.
    """
    from triage_gym.cli.app import run

    sys.exit(run(list(sys.argv[1:] if argv is None else argv)))


if __name__ == "__main__":
    main()
