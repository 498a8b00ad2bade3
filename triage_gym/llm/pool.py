"""ChatPool: many questions to one endpoint, as many at once as it can take, each answered or failed by its deadline.

What it promises: for every question, in order, a :class:`~triage_gym.llm.completion.Completion` or an
:class:`~triage_gym.errors.EndpointError`, and none is lost. A question that waits for another try holds no place, so that
it delays no other. How many are under way follows what the endpoint takes (:class:`~triage_gym.llm.limit.AdaptiveLimit`).
Requests that the endpoint did not take (429, 5xx, no connection) are repeated up to the deadline, however many that are:
no outage that is shorter loses a question. What ends a question after ``tries`` are time-outs and bodies that are no
completion, which may have been paid for, and 5xx and dropped connections while others are answered, so that one question
that a server cannot bear is not tried for ever. An endpoint that has answered nothing for a whole deadline is asked nothing new. Caps on
requests, money and time are looked at before each request; what is under way then is still paid for.

What it leaves to you: what the answers mean, and to :meth:`~ChatPool.close` it.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from triage_gym.errors import EndpointError, InputError
from triage_gym.llm.client import ChatClient, Question, check_positive, with_all
from triage_gym.llm.clock import Clock
from triage_gym.llm.completion import Billed, Completion
from triage_gym.llm.failures import MOST_GARBLED, Failed, pause
from triage_gym.llm.forks import renew_after_fork
from triage_gym.llm.limit import AdaptiveLimit
from triage_gym.llm.transport import Sending
from triage_gym.llm.worker import Worker, dismiss

Asked = Question | Sequence[Mapping[str, str]]
Told = Completion | EndpointError
_GRACE: Final = 0.25
"""Seconds that a request has to tell by itself that it is late."""
_LONGEST: Final = 3600.0
"""Seconds of the longest wait for news."""
_COUNTED: Final = ("timeout", "garbled")
"""Failures of requests that the endpoint may have worked on."""
_COUNTED_ALONE: Final = ("server", "connection")
"""Failures that are the question's own when others are answered meanwhile."""


class ChatPool:
    """Asks many questions at once.

    Args:
        client: Who asks; its ``timeout`` and ``backoff`` hold for each request, its own ``deadline`` and ``tries`` do not.
        limit: Most requests at once, at first.
        least: The limit never falls below.
        most: The limit never grows above; ``limit``, if None.
        deadline: Seconds from a question's first request after which it is answered or has failed.
        tries: Most requests of a question, of those that count (see above).
        patient: Whether an endpoint that takes no request is waited for up to the deadline; if not, every request counts.
        max_calls: Most requests of the client in all.
        max_usd: Dollars after which nothing is asked any more; the client must have ``prices``.
        max_seconds: Seconds of asking, over all calls, after which nothing is asked any more.

    Raises:
        InputError: For arguments of the wrong form.
    """

    def __init__(
        self,
        client: ChatClient,
        limit: int = 32,
        *,
        least: int = 1,
        most: int | None = None,
        deadline: float = 900.0,
        tries: int = 15,
        patient: bool = True,
        max_calls: int | None = None,
        max_usd: float | None = None,
        max_seconds: float | None = None,
    ) -> None:
        caps = {"max_calls": max_calls, "max_usd": max_usd, "max_seconds": max_seconds}
        check_positive(deadline=deadline, tries=tries, **caps)
        if max_usd is not None and not client.accounts.priced:
            raise InputError("Expected a client with `prices` to keep to max_usd, got one without; give it prices")
        self._client = client
        self._limit = AdaptiveLimit(limit, least, limit if most is None else most)
        self._deadline, self._tries, self._patient = deadline, tries, patient
        self._max_calls, self._max_usd, self._max_seconds = max_calls, max_usd, max_seconds
        self._seconds = 0.0
        self.after_fork()

    def after_fork(self) -> None:
        """Begin anew, as in the child of a fork: what threads have a part in, and pickles and children have not."""
        self._clock: Clock = self._client.clock
        self._lock = threading.Lock()
        self._batches: set[_Batch] = set()
        self._since = 0.0
        self._silent_since: float | None = None
        self._fresh: deque[Item] = deque()
        self._ready: deque[Item] = deque()
        self._waiting: list[tuple[float, int, Item]] = []
        self._alarms: list[tuple[float, int, Item, int]] = []
        self._numbers = itertools.count()
        self._running = self._successes = 0
        self._idle: list[Worker] = []
        weakref.finalize(self, dismiss, self._idle)
        renew_after_fork(self)

    @property
    def usage(self) -> dict[str, float]:
        """The client's: answers, failures by kind, requests, tokens, dollars, seconds of answers."""
        return self._client.usage

    @property
    def latency(self) -> dict[str, float]:
        """Of answered requests: count, sum, max, p50, p95; seconds."""
        return self._client.accounts.latency

    @property
    def limit(self) -> int:
        """Most requests at once, at present."""
        return self._limit.value

    def ask_all(self, questions: Iterable[Asked]) -> list[Told]:
        """What each question is answered with, in order; a failure is an item and is not raised.

        Raises:
            InputError: If a key is needed and the environment has none, or fields of a question are not its own.
            MissingDependency: Without the extra ``judge``.
        """
        self._client.open()
        asked = [one if isinstance(one, Question) else Question(one) for one in questions]
        batch = _Batch(asked)
        with self._lock:
            self._enter(batch)
            self._fresh.extend(batch.items)
        try:
            while self._goes_on(batch):
                pass
        finally:
            with self._lock:
                self._leave(batch)
        if batch.error is not None:
            raise batch.error
        return [result for result in batch.results if result is not None]

    def close(self) -> None:
        """Let go of threads and connections; the next question makes new ones."""
        with self._lock:
            dismiss(self._idle)
        self._client.close()

    def __getstate__(self) -> dict[str, Any]:
        kept = ("client", "limit", "deadline", "tries", "patient", "max_calls", "max_usd", "max_seconds", "seconds")
        return {f"_{name}": getattr(self, f"_{name}") for name in kept}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self.after_fork()

    def _enter(self, batch: _Batch) -> None:
        if not self._batches:
            self._since, self._silent_since = self._clock.now(), None
        self._batches.add(batch)

    def _leave(self, batch: _Batch) -> None:
        batch.over = True
        self._batches.discard(batch)
        for item in batch.items:  # some are under way when the caller was interrupted
            if item.worker is not None:
                self._return(item).lost = True
        if not self._batches:
            self._seconds += self._clock.now() - self._since
            self._fresh.clear()
            self._ready.clear()
            self._waiting.clear()
            self._alarms.clear()

    def _goes_on(self, batch: _Batch) -> bool:
        """One turn of who waits for ``batch``: what is due is done, then wait for news."""
        with self._lock:
            now = self._clock.now()
            self._ring(now)
            self._feed(now)
            if not batch.open or batch.error is not None:
                return False
            until, busy = self._next_event(), self._running > 0
        self._clock.wait(batch.news, min(max(until - now, 0.0), _LONGEST), busy)
        return True

    def _next_event(self) -> float:
        times = [heap[0][0] for heap in (self._waiting, self._alarms) if heap]
        if self._max_seconds is not None:
            times.append(self._since + self._max_seconds - self._seconds)
        return min(times, default=float("inf"))

    def _ring(self, now: float) -> None:
        """Give up what is late: requests that do not come back, and questions that wait for a place."""
        while self._alarms and self._alarms[0][0] <= now:
            _, _, item, number = heapq.heappop(self._alarms)
            if item.done or item.batch.over:
                continue
            if number == item.tries and item.worker is not None:
                item.worker.lost = True
                self._tried(item, self._client.late(), now)
            elif number == Item.WHOLE and item.worker is None:
                self._settle(item, (item.failure or self._client.late()).told(item.tries))

    def _feed(self, now: float) -> None:
        """Send what may be sent: what is to be tried again first."""
        while self._waiting and self._waiting[0][0] <= now:
            self._ready.append(heapq.heappop(self._waiting)[2])
        if (why := self._spent(now)) is not None:
            self._refuse(why)
        while self._running < self._limit.value and (self._ready or self._fresh):
            item = (self._ready or self._fresh).popleft()
            if item.done or item.batch.over:
                continue
            silent = self._silent_since
            if silent is not None and not item.tries and now - silent >= self._deadline:
                failure = item.batch.failure or self._client.late()
                told = f"{failure}; not asked, since nothing was answered for {now - silent:.0f} seconds"
                self._settle(item, EndpointError(failure.kind, told))
                continue
            if not self._idle and not self._hired():
                self._ready.appendleft(item)
                return
            self._start(item, now)
            if (why := self._spent(now)) is not None:
                self._refuse(why)

    def _hired(self) -> bool:
        """One more thread; False when the system has none left, and those at work must do."""
        try:
            self._idle.append(Worker())
        except RuntimeError:
            if not self._running:
                raise
            return False
        return True

    def _start(self, item: Item, now: float) -> None:
        worker = self._idle.pop()
        if not item.tries:
            item.until, item.successes = now + self._deadline, self._successes
            heapq.heappush(self._alarms, (item.until, next(self._numbers), item, Item.WHOLE))
        item.tries += 1
        item.sent = now
        item.seconds = max(min(item.until - now, self._client.timeout), 0.001)
        alarm = now + item.seconds + _GRACE
        heapq.heappush(self._alarms, (alarm, next(self._numbers), item, item.tries))
        self._running += 1
        item.worker = worker
        self._client.accounts.requested()
        worker.inbox.put((self, item))

    def _spent(self, now: float) -> str | None:
        """Which cap is reached, in words; None while none is."""
        accounts = self._client.accounts
        if self._max_calls is not None and accounts.get("requests") >= self._max_calls:
            return f"max_calls={self._max_calls}"
        if self._max_usd is not None and accounts.get("usd") >= self._max_usd:
            return f"max_usd={self._max_usd}"
        if self._max_seconds is not None and self._seconds + now - self._since >= self._max_seconds:
            return f"max_seconds={self._max_seconds}"
        return None

    def _refuse(self, why: str) -> None:
        """Fail everything that is not under way."""
        told = f"Expected room in the budget for a request, but {why} is reached; raise it to ask more"
        for item in (*self._ready, *self._fresh, *(entry[2] for entry in self._waiting)):
            if not (item.done or item.batch.over):
                self._settle(item, EndpointError("budget", told))
        self._ready.clear()
        self._fresh.clear()
        self._waiting.clear()

    def answer(self, item: Item) -> Completion | Exception:
        """In a worker's thread: one request of ``item``."""
        try:
            sending = item.sending = item.sending or self._client.prepared(item.question)
            return self._client.once(sending, item.seconds, counted=True)
        except Failed as failure:
            return failure.with_traceback(None)  # whose frames hold the pool
        except Exception as error:  # noqa: BLE001 - carried to the caller's thread and raised there
            return error

    def answered(self, worker: Worker, item: Item, found: Completion | Exception) -> bool:
        """In a worker's thread: what came of it. False when nobody waits for this worker any more."""
        with self._lock:
            if worker.lost:
                return False
            now = self._clock.now()
            self._idle.append(worker)
            if isinstance(found, Completion | Failed):
                self._tried(item, found, now)
            else:
                self._return(item)
                item.batch.error = found
                item.batch.news.put(None)
            self._feed(now)
            if not self._running:
                for batch in self._batches:
                    batch.news.put(None)
            return True

    def _return(self, item: Item) -> Worker:
        """The place that the request of ``item`` held."""
        worker, item.worker = item.worker, None
        assert worker is not None
        self._running -= 1
        return worker

    def _tried(self, item: Item, found: Completion | Failed, now: float) -> None:
        self._return(item)
        if isinstance(found, Completion):
            self._silent_since = None
            self._successes += 1
            self._limit.succeeded()
            self._settle(item, with_all(found, item.billed, item.tries))
            return
        item.billed += found.billed
        item.garbled += bool(found.billed)
        if found.kind == "timeout" and item.failure is not None and item.seconds < self._client.timeout:
            found = item.failure  # the question's own time was over, which is no news of the endpoint
        elif found.slows:
            self._limit.slowed(item.sent, now)
        item.batch.failure = item.failure = found
        alone = found.kind in _COUNTED_ALONE and self._successes > item.successes
        item.counted += found.kind in _COUNTED or alone or not self._patient
        item.successes = self._successes
        seconds = pause(found, item.tries, self._client.backoff)
        over = item.counted >= self._tries or item.garbled >= MOST_GARBLED or now + seconds >= item.until
        if found.again and self._silent_since is None:
            self._silent_since = now
        if over or not found.again:
            self._settle(item, found.told(item.tries))
        else:
            heapq.heappush(self._waiting, (now + seconds, next(self._numbers), item))
            item.batch.news.put(None)

    def _settle(self, item: Item, result: Told) -> None:
        item.done, item.sending = True, None
        item.batch.results[item.index] = result
        item.batch.open -= 1
        if isinstance(result, EndpointError):
            self._client.accounts.failed(result.kind)
        else:
            self._client.accounts.answered()
        if not item.batch.open:
            item.batch.news.put(None)


class _Batch:
    """The questions of one call."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self.items = [Item(self, index, question) for index, question in enumerate(questions)]
        self.results: list[Told | None] = [None] * len(questions)
        self.open = len(questions)
        self.over = False
        self.error: Exception | None = None
        self.failure: Failed | None = None
        self.news: queue.SimpleQueue[None] = queue.SimpleQueue()


class Item:
    """One question on its way."""

    WHOLE: Final = 0
    """Number of the alarm for the question, where those of its requests count from 1."""

    def __init__(self, batch: _Batch, index: int, question: Question) -> None:
        self.batch, self.index, self.question = batch, index, question
        self.sending: Sending | None = None
        self.worker: Worker | None = None
        self.failure: Failed | None = None
        self.billed = Billed()
        self.done = False
        self.tries = self.counted = self.garbled = self.successes = 0
        self.until = self.sent = self.seconds = 0.0
