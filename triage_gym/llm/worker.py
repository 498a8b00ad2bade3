"""Threads that send requests."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triage_gym.llm.pool import ChatPool, Item


class Worker:
    """A thread that sends one request after another, of whichever pool; it holds on to none while it waits."""

    def __init__(self) -> None:
        self.inbox: queue.SimpleQueue[tuple[ChatPool, Item] | None] = queue.SimpleQueue()
        self.lost = False
        threading.Thread(target=self._work, name="triage_gym.llm", daemon=True).start()

    def _work(self) -> None:
        while (task := self.inbox.get()) is not None:
            pool, item = task
            goes_on = pool.answered(self, item, pool.answer(item))
            del task, pool, item
            if not goes_on:
                return


def dismiss(workers: list[Worker]) -> None:
    """Let the threads of ``workers``, which are idle, end."""
    while workers:
        workers.pop().inbox.put(None)
