"""A chat endpoint on loopback that fails in the ways that endpoints fail in; a mode a request, the last one for the rest.

What a request is answered with is ``text``, or what a test's ``answer`` makes of it: a function that takes the request's
JSON (``request["messages"]`` …) and returns the content, or a whole message such as ``{"content": "…", "reasoning": "…"}``.
The modes in :data:`SPOILT` spoil that answer, where its content is JSON with ``{"labels": [{"i": 0, "label": "D", …}, …]}``:
the first label becomes none of the four, an id is left out, added or given twice, the JSON stands in the thoughts, behind
thoughts that never end, or with a NaN inside. :data:`FAULTS` names every mode that a client and a judge must survive.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], "str | dict[str, Any]"]

STATUS = {
    "429": (429, {}),
    "429-now": (429, {"Retry-After": "0"}),
    "429-soon": (429, {"Retry-After-Ms": "300"}),
    "429-late": (429, {"Retry-After": "90"}),
    "408": (408, {}),
    "409": (409, {}),
    "500": (500, {}),
    "503": (503, {}),
    "529": (529, {}),
    "400": (400, {}),
    "401": (401, {}),
    "404": (404, {}),
}
SPOILT = ("wrong-enum", "missing-id", "extra-id", "duplicate-id", "json-in-reasoning", "unclosed-think", "nan")
FAULTS = (
    *("ok", "429", "429-now", "500", "529", "hang", "drop", "half", "drip", "html200", "empty", "truncated"),
    *SPOILT,
    *("refusal", "huge", "nan-usage"),
)
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


class Endpoint(ThreadingHTTPServer):
    """Answers by ``modes``; keeps what it was sent in ``requests``."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, modes: Sequence[str], text: str, target: str = "", answer: Answer | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.modes, self.text, self.target = list(modes), text, target
        self.written: Answer = answer or (lambda request: self.text)
        self.usage: dict[str, Any] = dict(USAGE)
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.now, self.most_at_once, self.connections = 0, 0, 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def mode(self) -> str:
        with self.lock:
            return self.modes.pop(0) if len(self.modes) > 1 else self.modes[0]

    def busier(self, by: int) -> None:
        with self.lock:
            self.now += by
            self.most_at_once = max(self.most_at_once, self.now)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is no news."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    """Headers and body go out in one write: two would wait 40 ms for a delayed acknowledgement."""
    server: Endpoint
    asked: dict[str, Any]

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def do_POST(self) -> None:
        self.asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.keys.append(self.headers.get("Authorization", ""))
            self.server.requests.append(self.asked)
        self.server.busier(1)
        try:
            self.respond(self.server.mode())
        finally:
            self.server.busier(-1)

    def respond(self, mode: str) -> None:
        if mode in STATUS:
            status, headers = STATUS[mode]
            key = self.headers.get("Authorization", "")
            self.send(json.dumps({"error": {"message": f"no, {key}"}}).encode(), status, headers)
        else:
            getattr(self, mode.replace("-", "_"))()

    def message(self) -> dict[str, Any]:
        """What the test would have said."""
        found = self.server.written(self.asked)
        return {"content": found} if isinstance(found, str) else found

    def labels(self) -> list[dict[str, Any]]:
        return list(json.loads(self.message()["content"])["labels"])

    def spoil(self, labels: list[dict[str, Any]]) -> None:
        self.answer({"content": json.dumps({"labels": labels})})

    def ok(self) -> None:
        self.answer(self.message())

    def slow(self) -> None:
        self.server.over.wait(0.05)
        self.ok()

    def wrong_enum(self) -> None:
        first, *rest = self.labels()
        self.spoil([{**first, "label": "GREAT"}, *rest])

    def missing_id(self) -> None:
        self.spoil(self.labels()[:-1])

    def extra_id(self) -> None:
        labels = self.labels()
        self.spoil([*labels, {**labels[-1], "i": labels[-1]["i"] + 1}])

    def duplicate_id(self) -> None:
        labels = self.labels()
        self.spoil([*labels, labels[0]])

    def json_in_reasoning(self) -> None:
        self.answer({"content": None, "reasoning": self.message()["content"]})

    def unclosed_think(self) -> None:
        self.answer({"content": "<think>It may well be " + self.message()["content"]})

    def nan(self) -> None:
        first, *rest = self.labels()
        self.spoil([{**first, "confidence": float("nan")}, *rest])

    def nan_usage(self) -> None:
        self.server.usage = {**self.server.usage, "completion_tokens": float("nan")}
        self.answer(self.message())

    def empty(self) -> None:
        self.answer({"content": None, "reasoning_content": "So, so."})

    def truncated(self) -> None:
        self.answer({"content": (self.message()["content"] or "")[:10]}, "length")

    def refusal(self) -> None:
        self.answer({"content": None, "refusal": "I would rather not."})

    def html200(self) -> None:
        self.send(b"<html>Welcome to the hotel's network</html>", kind="text/html")

    def echo_page(self) -> None:
        page = "<html>" + "." * 30 + self.headers.get("Authorization", "")
        self.send(page.encode(), kind="text/html")

    def echo_answer(self) -> None:
        escaped = "".join(f"\\u{ord(c):04x}" for c in self.headers.get("Authorization", ""))
        self.send(f'{{"choices": [{{"message": {{"content": "{escaped}", "refusal": "{escaped}"}}}}]}}'.encode())

    def no_choices(self) -> None:
        self.send(b'{"object": "chat.completion"}')

    def odd_content(self) -> None:
        self.answer({"content": 7})

    def huge(self) -> None:
        self.start(50_000_000)
        while not self.server.over.is_set():
            self.wfile.write(b" " * 100_000)
            self.wfile.flush()

    def hang(self) -> None:
        self.server.over.wait(30)
        self.close_connection = True

    def drop(self) -> None:
        self.close_connection = True
        self.connection.close()

    def half(self) -> None:
        self.start(1000)
        self.wfile.write(b'{"choices"')
        self.close_connection = True

    def drip(self) -> None:
        self.start(10_000)
        self.trickle(lambda: b" ")

    def drip_headers(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        self.wfile.flush()
        self.trickle(lambda: b"x")

    def chunked(self) -> None:
        body = self.completion({"content": self.server.text})
        self.send(
            b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:9], body[9:], b"")),
            headers={"Transfer-Encoding": "chunked", "Content-Length": None},
        )

    def zipped(self) -> None:
        body = gzip.compress(self.completion({"content": self.server.text}))
        self.send(body, headers={"Content-Encoding": "gzip"})

    def closing(self) -> None:
        body = self.completion({"content": self.server.text})
        self.send(body, headers={"Connection": "close", "Content-Length": None})

    def leaving(self) -> None:
        """Answers, promises to stay, and goes."""
        self.ok()
        self.close_connection = True

    def redirect(self) -> None:
        self.send(b"", 307, {"Location": self.server.target + "/chat/completions"})

    def trickle(self, byte: Any) -> None:
        while not self.server.over.is_set():
            self.wfile.write(byte())
            self.wfile.flush()
            time.sleep(0.02)

    def answer(self, message: dict[str, Any], finish: str = "stop") -> None:
        self.send(self.completion(message, finish))

    def completion(self, message: dict[str, Any], finish: str = "stop") -> bytes:
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        return json.dumps({"id": "x", "choices": [choice], "usage": self.server.usage}).encode()

    def send(self, body: bytes, status: int = 200, headers: Any = None, kind: str = "application/json") -> None:
        self.start(len(body), status, headers, kind)
        self.wfile.write(body)

    def start(self, length: int, status: int = 200, headers: Any = None, kind: str = "application/json") -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(length), **(headers or {})}.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing goes to the terminal."""


@contextmanager
def endpoint(*modes: str, text: str = "hello", target: str = "", answer: Answer | None = None) -> Iterator[Endpoint]:
    """A running endpoint; ``answer`` makes an answer of a request, where ``text`` is not to answer all of them."""
    server = Endpoint(modes or ("ok",), text, target, answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
