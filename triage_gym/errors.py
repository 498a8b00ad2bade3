"""Every error that triage_gym raises on purpose.

Each message says what was expected, what came, and what to do. A judge failure is *not* here: it is a
:class:`~triage_gym.records.RoleLabel` with ``role=None``, because a failed call is data, not a crash and not a guess.
Only where a run has had too many of them it stops, with :class:`JudgeOutage`.
"""

from typing import ClassVar


class TriageGymError(Exception):
    """Base of every error raised by triage_gym."""

    exit_status: ClassVar[int] = 1
    """What the command line exits with."""


class InputError(TriageGymError, ValueError):
    """A file, a JSON document or an argument from outside does not have the form it must have."""


class MalformedReflection(InputError):
    """A text is no reflection in the form that was asked for.

    Args:
        kind: What is wrong, one of :data:`triage_gym.reflection.parsing.PROBLEMS`.
        message: The same in words.
        text: The whole text, word for word, where who wrote it is to be told apart from who reads it.
    """

    def __init__(self, kind: str, message: str, text: str = "") -> None:
        super().__init__(kind, message, text)
        self.kind, self.text = kind, text

    def __str__(self) -> str:
        return str(self.args[1])


class EndpointError(TriageGymError, RuntimeError):
    """A language model's endpoint gave no answer.

    Args:
        kind: What kind of failure, one of :data:`triage_gym.llm.client.FAILURES`.
        message: The same in words, without the key.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind

    def __str__(self) -> str:
        return str(self.args[1])


class MissingDependency(TriageGymError, ImportError):
    """An optional package is needed; the message names the extra that installs it."""


class UnsupportedGame(TriageGymError):
    """A game uses a feature that the chosen engine cannot play faithfully."""


class GroupError(TriageGymError, ValueError):
    """Members of one group do not belong together, so their outcomes must not be compared."""


class EnvironmentFailure(TriageGymError, RuntimeError):
    """Environments of a vector cannot be built, or failed more often than they may."""


class RestoreError(TriageGymError):
    """No strategy could bring the environment back to a recorded point."""


class StateError(TriageGymError, ValueError):
    """A state handed to ``set_state`` does not fit the environment or the game."""


class CheckpointError(TriageGymError):
    """A checkpoint is missing, torn or does not fit the run."""


class TrainingError(TriageGymError, RuntimeError):
    """Training cannot go on, for instance after three non-finite updates in a row."""


class JudgeOutage(TrainingError):
    """The judge failed too often to learn from; the run was saved as it was before the update, and can be resumed."""

    exit_status = 75
    """EX_TEMPFAIL of sysexits.h: the same may work later."""
