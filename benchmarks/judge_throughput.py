"""Bar, on an unloaded machine of 2 cores: with answers after 50 ms and 32 requests at once, one segment a request, ChatPool
gets >= 90 % of the 640 segments/s that this allows. Exit code 1 when missed.

Run it from the root of a checkout: ``python benchmarks/judge_throughput.py [--json FILE]``; it takes about a minute and
needs the extra ``judge``. The server is this file in a process of its own. All ways of asking are measured in turns, and of
each the best turn counts, since other work on the machine can only slow it down; the median and the CPU time that a request
costs this process stand beside it. Without a bar: bytes to and fro over 32 sockets and nothing else (what the machine allows
at the moment), 8 segments a request, the pool when the ``openai`` package sends for it (as over TLS), and the package alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from triage_gym.llm import ChatClient, ChatPool, Completion
from triage_gym.llm.client import Question

LATENCY: Final = 0.05
LIMIT: Final = 32
IDEAL: Final = LIMIT / LATENCY
BAR: Final = 0.9 * IDEAL
TURNS: Final = 5
CALLS: Final = 1280
BATCH: Final = 8
SYSTEM: Final = "Name the role of each step. " * 90
WINDOW: Final = "Observation: you see a mug. Action: go to the desk. " * 60


class Stub(asyncio.Protocol):
    """Answers each request after :data:`LATENCY`, in one write."""

    def connection_made(self, transport: Any) -> None:
        """A client is there."""
        self._transport, self._buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        """A part of a request, or several."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            start = head.find(b"content-length:") + len(b"content-length:")
            size = end + 4 + int(head[start:].split(b"\r\n", 1)[0])
            if len(self._buffer) < size:
                return
            labels = BATCH if head.startswith(b"post /batch/") else 1
            self._buffer = self._buffer[size:]
            asyncio.get_running_loop().call_later(LATENCY, self._transport.write, ANSWERS[labels])


def answer(labels: int) -> bytes:
    """A response with so many labels."""
    content = json.dumps({"labels": [{"i": i, "why": "It found the mug.", "label": "D"} for i in range(labels)]})
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 900, "completion_tokens": 30 * labels, "total_tokens": 900 + 30 * labels}
    body = json.dumps(
        {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
    ).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


ANSWERS: Final = {labels: answer(labels) for labels in (1, BATCH)}


async def serve() -> None:
    """Say the port, then answer until killed."""
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def stub() -> Iterator[int]:
    """The port of a server in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def at_once(calls: int, workers: list[Callable[[], object]]) -> None:
    """Call the workers ``calls`` times in all, each in a thread of its own."""
    left = iter(range(calls))

    def work(one: Callable[[], object]) -> None:
        while next(left, None) is not None:
            one()

    threads = [threading.Thread(target=work, args=(one,)) for one in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def bare(port: int) -> Callable[[int], None]:
    """Bytes to and fro, nothing read into them."""
    body = json.dumps({"messages": messages(1)}).encode()
    sent = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(LIMIT)]

    def ask(own: socket.socket) -> None:
        own.sendall(sent)
        got = 0
        while got < len(ANSWERS[1]):
            got += len(own.recv(1 << 16))

    return lambda calls: at_once(calls, [lambda own=own: ask(own) for own in sockets])  # type: ignore[misc]


def pooled(url: str, labels: int) -> Callable[[int], None]:
    """ChatPool."""
    pool = ChatPool(ChatClient("m", url), LIMIT)
    question = Question(messages(labels), {"response_format": {"type": "json_object"}})

    def ask(calls: int) -> None:
        found = pool.ask_all([question] * calls)
        assert all(isinstance(one, Completion) for one in found), found[0]

    return ask


def package(url: str) -> Callable[[int], None]:
    """The openai package as its documentation shows it, in threads."""
    import openai

    client = openai.OpenAI(api_key="none", base_url=url, max_retries=0)
    asked: Any = messages(1)
    return lambda calls: at_once(
        calls, [lambda: client.chat.completions.create(model="m", messages=asked) for _ in range(LIMIT)]
    )


def messages(labels: int) -> list[dict[str, str]]:
    """A prompt about as long as a judge's."""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": WINDOW * max(labels // 4, 1)}]


def ways(port: int) -> dict[str, tuple[Callable[[int], None], int]]:
    """What is measured, with the segments that a request stands for."""
    root = f"http://127.0.0.1:{port}"
    found = {
        "bare sockets": (bare(port), 1),
        "pool": (pooled(f"{root}/v1", 1), 1),
        f"pool, {BATCH} a request": (pooled(f"{root}/batch/v1", BATCH), BATCH),
        "openai alone": (package(f"{root}/v1"), 1),
    }
    os.environ["OPENAI_ORG_ID"] = "one"  # nothing that plain connections know of
    found["pool over openai"] = (pooled(f"{root}/v1", 1), 1)
    found["pool over openai"][0](LIMIT)
    del os.environ["OPENAI_ORG_ID"]
    return found


def measured(port: int) -> dict[str, dict[str, float]]:
    """Segments a second, and CPU time of this process a request, of every way."""
    asked = ways(port)
    rates: dict[str, list[float]] = {name: [] for name in asked}
    costs: dict[str, list[float]] = {name: [] for name in asked}
    for ask, _ in asked.values():
        ask(2 * LIMIT)
    for _ in range(TURNS):
        for name, (ask, labels) in asked.items():
            began, used = time.perf_counter(), time.process_time()
            ask(CALLS)
            rates[name].append(CALLS * labels / (time.perf_counter() - began))
            costs[name].append((time.process_time() - used) / CALLS * 1e3)
    return {
        name: {
            "best": max(rates[name]),
            "median": statistics.median(rates[name]),
            "of_ideal": max(rates[name]) / (IDEAL * asked[name][1]),
            "cpu_ms_a_request": statistics.median(costs[name]),
        }
        for name in asked
    }


def main() -> int:
    """Measure, print, and compare with the bar; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        # select() waits to the microsecond, epoll to the millisecond: the answer comes after 50 ms, not 51.
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
            runner.run(serve())
    import openai

    os.environ.pop("OPENAI_API_KEY", None)
    print(f"openai {openai.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores")
    print(
        f"load before: {os.getloadavg()[0]:.1f}; {LIMIT} at once, {LATENCY * 1e3:.0f} ms: {IDEAL:.0f} requests/s at best"
    )
    with stub() as port:
        found = measured(port)
    print(f"{'segments a second':22}  {'best':>6}  {'median':>6}  {'of ideal':>8}  {'CPU ms a request':>16}")
    for name, row in found.items():
        share = f"{row['of_ideal']:.0%}"
        print(f"{name:22}  {row['best']:6.0f}  {row['median']:6.0f}  {share:>8}  {row['cpu_ms_a_request']:16.2f}")
    met = found["pool"]["best"] >= BAR
    print(f"bar: pool >= {BAR:.0f}: {'met' if met else 'missed'}")
    if args.json is not None:
        args.json.write_text(json.dumps({"measures": found, "bar": BAR, "met": met}, indent=2) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
