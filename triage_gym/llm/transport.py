"""Two ways to send a request to an endpoint and read what comes back.

:class:`Packaged` is the ``openai`` package: TLS, proxies, redirects, and whatever its environment variables say.
:class:`Plain` is for servers that are reached by ``http`` with nothing in between, such as one's own: connections of the
standard library that are kept open, a sixth of the work a request, and a deadline that holds over every byte, so that
hundreds of requests a second leave the processor to the rest. :func:`~triage_gym.llm.address.plain` says when it will do;
what it meets that is not plain (a redirect, an encoding that it cannot read) it leaves to the other (:class:`NotPlain`).
"""

from __future__ import annotations

import http.client
import json
import socket
import time
import weakref
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from triage_gym.errors import InputError, MissingDependency

MOST_BYTES: Final = 4_000_000
"""Longest body that is read."""
_CHUNK: Final = 1 << 16
_SHORTEST: Final = 0.001
_ZIPPED: Final = ("gzip", "x-gzip", "deflate")
_ANY_FRAME: Final = 47
"""What zlib calls a body in the frame of gzip or in its own."""


class Late(Exception):
    """There was no reply in time."""


class Lost(Exception):
    """The connection failed; the text says how."""


class Untrusted(Lost):
    """The server's certificate is none to trust, now or later."""


class TooLarge(Exception):
    """The body is longer than :data:`MOST_BYTES`."""


class NotPlain(Exception):
    """:class:`Plain` cannot handle this reply."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Sending:
    """A request: its fields, and their JSON, made once for all tries."""

    fields: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def body(self) -> bytes:
        """The fields as JSON.

        Raises:
            InputError: If they are none.
        """
        try:
            # Half a surrogate pair, as a game may print, becomes a question mark.
            return json.dumps(self.fields, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        except (TypeError, ValueError) as error:
            raise InputError(f"Expected the fields of a request to be JSON values, got {error}") from None


class Transport(Protocol):
    """A way to one endpoint; any number of threads may use it at once."""

    def post(self, sending: Sending, until: float) -> Reply:
        """The reply, whatever its status, before the time ``until`` of the monotonic clock.

        Raises:
            Late: If there was none by then.
            Lost: If the connection failed; :class:`Untrusted` where trying again is of no use.
            TooLarge: If the body is too long.
            NotPlain: If another transport must send the request.
        """

    def close(self) -> None:
        """Let go of the connections."""


class Plain:
    """HTTP/1.1 over connections that are kept open.

    Args:
        base_url: Such as ``"http://localhost:8000/v1"``.
        key: What goes into ``Authorization: Bearer``.
        connect: Seconds after which a connection that does not come about is given up.
    """

    def __init__(self, base_url: str, key: str, connect: float = 30.0) -> None:
        parts = urlsplit(base_url)
        self._host, self._port, self._connect = parts.hostname or "", parts.port or 80, connect
        self._path = f"{parts.path.rstrip('/')}/chat/completions"
        self._headers = {
            "Accept": "application/json",
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "User-Agent": "triage-gym",
        }
        self._idle: deque[_Connection] = deque()
        self._end = weakref.finalize(self, _close_all, self._idle)

    def post(self, sending: Sending, until: float) -> Reply:
        """See :meth:`Transport.post`."""
        body = sending.body
        connection = self._taken()
        try:
            reply, kept = self._exchanged(connection, body, until)
        except TimeoutError:
            connection.close()
            raise Late from None
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Lost(f"{type(error).__name__}: {error}") from None
        except BaseException:
            connection.close()
            raise
        if kept:
            self._idle.append(connection)
        else:
            connection.close()
        return reply

    def close(self) -> None:
        """See :meth:`Transport.close`."""
        _close_all(self._idle)

    def _taken(self) -> _Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return _Connection(self._host, self._port, self._connect)
            if connection.fresh():
                return connection
            connection.close()

    def _exchanged(self, connection: _Connection, body: bytes, until: float) -> tuple[Reply, bool]:
        connection.begin(until)
        connection.request("POST", self._path, body, self._headers)
        response = connection.getresponse()
        headers = response.headers
        encoding = headers.get("Content-Encoding", "").strip().lower()
        if 300 <= response.status < 400 or encoding not in ("", "identity", *_ZIPPED):
            raise NotPlain
        found = _read(response)
        if encoding in _ZIPPED:
            # What was answered was paid for: it must not be asked for anew by one who can unpack it.
            found = _unzipped(found)
        reply = Reply(response.status, {name.lower(): value for name, value in headers.items()}, found)
        return reply, not response.will_close


def _close_all(connections: deque[_Connection]) -> None:
    while connections:
        connections.pop().close()


def _read(response: http.client.HTTPResponse) -> bytes:
    found = bytearray()
    while chunk := response.read(_CHUNK):
        found += chunk
        if len(found) > MOST_BYTES:
            raise TooLarge
    if response.length:
        raise http.client.IncompleteRead(bytes(found[:0]), response.length)
    return bytes(found)


def _unzipped(body: bytes) -> bytes:
    """The body unpacked, as far as it goes."""
    try:
        found = zlib.decompressobj(_ANY_FRAME).decompress(body, MOST_BYTES + 1)
    except zlib.error as error:
        raise http.client.HTTPException(f"a body that cannot be unpacked: {error}") from None
    if len(found) > MOST_BYTES:
        raise TooLarge
    return found


class _Connection(http.client.HTTPConnection):
    """A connection whose every wait ends at a time."""

    _until = 0.0
    sock: _TimedSocket | None

    def begin(self, until: float) -> None:
        """The next request has time up to ``until``."""
        self._until = until
        if self.sock is not None:
            self.sock.until = until

    def connect(self) -> None:
        """Connect, once, with as much time as there is."""
        left = max(min(self._until - time.monotonic(), float(self.timeout or 0)), _SHORTEST)
        made = socket.create_connection((self.host, self.port), left)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = _TimedSocket(fileno=made.detach())
        self.sock.until = self._until

    def fresh(self) -> bool:
        """Whether the server has neither closed it nor sent what nobody asked for."""
        if self.sock is None:
            return False
        try:
            self.sock.setblocking(False)
            self.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False


class _TimedSocket(socket.socket):
    """A socket that sets the time that is left before it waits for bytes."""

    until = 0.0

    def recv_into(self, *args: Any) -> int:
        self._limit()
        return super().recv_into(*args)

    def sendall(self, *args: Any) -> None:
        self._limit()
        super().sendall(*args)

    def _limit(self) -> None:
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.settimeout(left)


class Packaged:
    """The ``openai`` package.

    Args:
        base_url: Where the endpoint is; None for what the package takes then.
        key: The key.
        timeout: Seconds of the longest wait for bytes.

    Raises:
        InputError: If a proxy is set that the package cannot use.
        MissingDependency: Without the extra ``judge``.
    """

    def __init__(self, base_url: str | None, key: str, timeout: float) -> None:
        try:
            import openai
        except ImportError as error:
            raise missing() from error
        self._errors: Any = openai
        self._closed = False
        try:
            self._client: Any = openai.OpenAI(api_key=key, base_url=base_url, max_retries=0, timeout=timeout)
        except (ImportError, ValueError) as error:
            raise InputError(
                f"Expected settings that the package openai can use, got {error}; look at the variables of proxies"
            ) from None

    def post(self, sending: Sending, until: float) -> Reply:
        """See :meth:`Transport.post`."""
        fields = dict(sending.fields)
        named = {name: fields.pop(name) for name in ("model", "messages")}
        ask = self._client.chat.completions.with_streaming_response.create
        left = max(until - time.monotonic(), _SHORTEST)
        try:
            with ask(**named, extra_body=fields, timeout=left) as response:
                body = self._read(response, until)
                return Reply(200, {}, body)
        except self._errors.APIStatusError as error:
            return Reply(error.status_code, error.response.headers, error.response.content)
        except self._errors.APITimeoutError:
            raise Late from None
        except self._errors.APIConnectionError as error:
            cause = error.__cause__ or error
            kind = Untrusted if "CERTIFICATE_VERIFY_FAILED" in str(cause) else Lost
            raise kind(f"{type(cause).__name__}: {cause}") from None
        except RuntimeError as error:
            if not self._closed:
                raise
            raise Lost(f"closed while it was in use: {error}") from None

    def close(self) -> None:
        """See :meth:`Transport.close`."""
        self._closed = True
        self._client.close()

    def _read(self, response: Any, until: float) -> bytes:
        body = bytearray()
        try:
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise TooLarge
                if time.monotonic() > until:
                    raise Late
        except (TooLarge, Late):
            raise
        except Exception as error:  # noqa: BLE001 - what a body fails with belongs to one of two HTTP libraries
            failure = Late() if "Timeout" in type(error).__name__ else Lost(f"{type(error).__name__}: {error}")
            raise failure from None
        return bytes(body)


def missing() -> MissingDependency:
    """The error for an absent ``openai``."""
    return MissingDependency("Expected the package openai, got none; install it with: pip install 'triage-gym[judge]'")
