"""The command line: one dataclass a subcommand, parsed by tyro, each with a ``run`` that returns the exit status.

Exit status: 0 for success, 1 for an error that the user can mend (``error: …`` on standard error), 2 for a command line
that does not parse, 130 after Ctrl-C, 143 when SIGTERM ended a training run. Results go to standard output, progress
and errors to standard error; every text from outside passes :mod:`triage_gym.display`. Modules here import the other
rooms inside functions alone, but for :mod:`triage_gym.trainers.config`, which is plain fields: the flags of ``train``.
"""
