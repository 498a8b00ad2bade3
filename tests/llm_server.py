"""A chat endpoint on loopback that fails in the ways that endpoints fail in; a mode a request, the last one for the rest."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

STATUS = {
    "429": (429, {}),
    "429-now": (429, {"Retry-After": "0"}),
    "429-soon": (429, {"Retry-After-Ms": "300"}),
    "429-late": (429, {"Retry-After": "90"}),
    "408": (408, {}),
    "409": (409, {}),
    "500": (500, {}),
    "529": (529, {}),
    "400": (400, {}),
    "401": (401, {}),
    "404": (404, {}),
}


class Endpoint(ThreadingHTTPServer):
    """Answers by ``modes``; keeps what it was sent in ``requests``."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, modes: Sequence[str], text: str, target: str = "") -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.modes, self.text, self.target = list(modes), text, target
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def mode(self) -> str:
        return self.modes.pop(0) if len(self.modes) > 1 else self.modes[0]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is no news."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Endpoint

    def do_POST(self) -> None:
        self.server.keys.append(self.headers.get("Authorization", ""))
        self.server.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        mode = self.server.mode()
        if mode in STATUS:
            status, headers = STATUS[mode]
            key = self.headers.get("Authorization", "")
            self.send(json.dumps({"error": {"message": f"no, {key}"}}).encode(), status, headers)
        else:
            getattr(self, mode.replace("-", "_"))()

    def ok(self, **message: Any) -> None:
        self.answer({"content": self.server.text, **message})

    def empty(self) -> None:
        self.answer({"content": None, "reasoning_content": self.server.text})

    def truncated(self) -> None:
        self.answer({"content": self.server.text[:10]}, "length")

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
        self.trickle(lambda: b"x")

    def redirect(self) -> None:
        self.send(b"", 307, {"Location": self.server.target + "/chat/completions"})

    def trickle(self, byte: Any) -> None:
        while not self.server.over.is_set():
            self.wfile.write(byte())
            self.wfile.flush()
            time.sleep(0.02)

    def answer(self, message: dict[str, Any], finish: str = "stop") -> None:
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
        self.send(json.dumps({"id": "x", "choices": [choice], "usage": usage}).encode())

    def send(self, body: bytes, status: int = 200, headers: Any = None, kind: str = "application/json") -> None:
        self.start(len(body), status, headers, kind)
        self.wfile.write(body)

    def start(self, length: int, status: int = 200, headers: Any = None, kind: str = "application/json") -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(length), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing goes to the terminal."""


@contextmanager
def endpoint(*modes: str, text: str = "hello", target: str = "") -> Iterator[Endpoint]:
    """A running endpoint."""
    server = Endpoint(modes or ("ok",), text, target)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
