"""Messages between a vector and its workers: what they say and how they cross the socket.

Every message is a frame: the ids of its worker, generation, request and member, then a payload. A reply is taken only
when all four ids are those of the question that is open; anything else (a late reply, a reply to an interrupted call)
is dropped, so that an action is never paired with another action's result.

Payloads are encoded by multiprocessing's own transport (``ForkingPickler``), which is pickle. That is safe here and
only here: each socket is an unnamed pair between a process and the child it started, no third party can write to it,
and nothing of it reaches a disk.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any, BinaryIO, Final, Literal, NamedTuple

import numpy as np

_HEADER: Final = struct.Struct("!IIQII")
_LONGEST: Final = 1 << 30
HELLO: Final = 0xFFFFFFFF
"""Member id of a worker's first message: it is up, and has run nothing of any environment yet."""
TURNED: Final = 0xFFFFFFFE
"""Member id of the message that a worker has read a request and turns to its first job."""


class Frame(NamedTuple):
    """One message."""

    worker: int
    generation: int
    """How many processes this worker had before this one."""
    request: int
    member: int
    payload: Any


class StepResult(NamedTuple):
    """What one environment answered to one action; unpacks like the result of ``env.step``."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class ResetResult(NamedTuple):
    """How one environment's episode begins; unpacks like the result of ``env.reset``."""

    observation: str
    info: dict[str, Any]


def step_result(answer: Any) -> StepResult:
    """What ``env.step`` answered, checked before anyone relies on it.

    Raises:
        TypeError: If it is not what Gymnasium asks for; so does whatever takes its five parts apart.
    """
    observation, reward, terminated, truncated, info = answer
    if not (terminated is True or terminated is False) or not (truncated is True or truncated is False):
        terminated, truncated = _flag("terminated", terminated), _flag("truncated", truncated)
    if not isinstance(info, dict):
        raise TypeError(f"Expected a dict as the info of a step, got {type(info).__name__}")
    return StepResult(observation, float(reward), terminated, truncated, info)


def reset_result(answer: Any) -> ResetResult:
    """What ``env.reset`` answered, checked like :func:`step_result`."""
    observation, info = answer
    if not isinstance(info, dict):
        raise TypeError(f"Expected a dict as the info of a reset, got {type(info).__name__}")
    return ResetResult(observation, info)


def _flag(name: str, value: Any) -> bool:
    """NumPy's truth values count; anything else (an array, None, a text) would be read as one or the other by luck."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"Expected True or False as {name}, got {value!r:.80}")
    return bool(value)


class Failure(NamedTuple):
    """What stands in the place of a result that an environment could not give."""

    reason: str


class Episode(NamedTuple):
    """What brings a freshly built environment through one episode."""

    seed: int | None
    options: dict[str, Any] | None
    actions: list[Any]


class Replay(NamedTuple):
    """Everything since the last seeded reset, and the checksum of all that was observed on the way."""

    episodes: list[Episode]
    trail: int


class Job(NamedTuple):
    """What a worker is to do with one of its environments."""

    member: int
    operation: Literal["build", "reset", "step"]
    seed: int | None = None
    options: dict[str, Any] | None = None
    action: Any = None
    replay: Replay | None = None
    """Played first, when the environment has been lost with an earlier process."""


def encode(value: Any) -> bytes:
    """A value as bytes; raises whatever its pickling raises."""
    return bytes(ForkingPickler.dumps(value))


def decode(data: bytes) -> Any:
    """The value that :func:`encode` wrote, in this process or in its direct child or parent."""
    return ForkingPickler.loads(data)


def follow(trail: int, observation: Any) -> int:
    """The checksum of an episode's observations, one observation further."""
    return zlib.crc32(repr(observation).encode("utf-8", "backslashreplace"), trail)


def pack(frame: Frame) -> bytes:
    """A frame as bytes; raises whatever pickling its payload raises."""
    payload = encode(frame.payload)
    if len(payload) > _LONGEST:
        raise ValueError(f"Expected a message of at most {_LONGEST} bytes, got {len(payload)}")
    return _HEADER.pack(frame.worker, frame.generation, frame.request, frame.member, len(payload)) + payload


def read(stream: BinaryIO) -> Frame | None:
    """The next frame of a blocking stream, or None at its end."""
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    worker, generation, request, member, length = _HEADER.unpack(header)
    payload = stream.read(length)
    return Frame(worker, generation, request, member, decode(payload)) if len(payload) == length else None


class Assembler:
    """Puts frames together from pieces of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take more bytes and give the frames that are complete; payloads stay encoded.

        Raises:
            ValueError: If the bytes are no frames; the stream is then beyond repair.
        """
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= _HEADER.size:
            worker, generation, request, member, length = _HEADER.unpack_from(self._buffer, start)
            if length > _LONGEST:
                raise ValueError(f"Expected a message of at most {_LONGEST} bytes, got one that claims {length}")
            end = start + _HEADER.size + length
            if len(self._buffer) < end:
                break
            yield Frame(worker, generation, request, member, bytes(self._buffer[start + _HEADER.size : end]))
            start = end
        del self._buffer[:start]
