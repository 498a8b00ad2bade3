"""Messages between a vector and its workers: whole in pieces of any size, and taken only by the question they answer."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vector_envs import EchoEnv

from triage_gym.wrappers import _worker_wire as wire
from triage_gym.wrappers._worker_process import WorkerProcess
from triage_gym.wrappers.vector import TextVectorEnv

IDS = st.tuples(*[st.integers(0, (1 << bits) - 1) for bits in (32, 32, 64, 32)])
FRAMES = st.builds(lambda ids, payload: wire.Frame(*ids, payload), IDS, st.text(max_size=200))


@given(st.lists(FRAMES, max_size=6), st.lists(st.integers(1, 60), min_size=1))
def test_frames_survive_any_cutting(frames: list[wire.Frame], sizes: list[int]) -> None:
    data = b"".join(map(wire.pack, frames))
    assembler = wire.Assembler()
    read, start, turn = [], 0, 0
    while start < len(data):
        size = sizes[turn % len(sizes)]
        read += assembler.feed(data[start : start + size])
        start, turn = start + size, turn + 1
    assert [frame._replace(payload=wire.decode(frame.payload)) for frame in read] == frames


@given(st.lists(FRAMES, max_size=4))
def test_a_stream_ends_with_none_even_in_the_middle_of_a_frame(frames: list[wire.Frame]) -> None:
    data = b"".join(map(wire.pack, frames))
    stream = io.BytesIO(data + wire.pack(wire.Frame(1, 2, 3, 4, "cut off"))[:-1])
    assert [wire.read(stream) for _ in range(len(frames) + 2)] == [*frames, None, None]


def test_bytes_that_are_no_frames_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 1073741824 bytes"):
        list(wire.Assembler().feed(b"\xff" * 64))


def test_a_worker_that_talks_nonsense_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with TextVectorEnv("vector_envs:echo", 1, workers=1) as venv:
        twin = EchoEnv()
        assert venv.reset(seed=1)[0] == twin.reset(seed=1)
        real = wire.Assembler.feed
        monkeypatch.setattr(wire.Assembler, "feed", lambda self, data: real(self, b"\xff" * 64))
        generation = []

        def start(self: WorkerProcess, *arguments: Any) -> None:
            monkeypatch.setattr(wire.Assembler, "feed", real)
            generation.append(arguments[1])
            begin(self, *arguments)

        begin = WorkerProcess.__init__
        monkeypatch.setattr(WorkerProcess, "__init__", start)
        assert venv.step({0: "go"})[0] == twin.step("go")
        assert generation == [2]


@pytest.mark.parametrize(
    "foreign",
    [
        lambda frame: frame._replace(worker=frame.worker + 1),
        lambda frame: frame._replace(generation=frame.generation - 1),
        lambda frame: frame._replace(request=frame.request - 1),
        lambda frame: frame._replace(member=frame.member + 7),
    ],
)
def test_a_reply_to_another_question_is_never_taken(foreign: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """AsyncVectorEnv takes the late reply here, and from then on is one step behind."""
    forged = wire.encode(wire.StepResult("the reply to an earlier action", 9.0, False, False, {}))
    receive = WorkerProcess.receive

    def receive_forged(self: WorkerProcess) -> tuple[list[wire.Frame], bool]:
        frames, alive = receive(self)
        return [x for frame in frames for x in (foreign(frame)._replace(payload=forged), frame)], alive

    with TextVectorEnv("vector_envs:echo", 1, workers=1) as venv:
        twin = EchoEnv()
        assert venv.reset(seed=1)[0] == twin.reset(seed=1)
        monkeypatch.setattr(WorkerProcess, "receive", receive_forged)
        for turn in range(5):
            assert venv.step({0: f"go {turn}"})[0] == twin.step(f"go {turn}")
        assert venv._backend.discarded == 10  # type: ignore[attr-defined]


def test_a_trail_tells_every_difference_of_an_episode() -> None:
    def trail(*observations: Any) -> int:
        value = 0
        for observation in observations:
            value = wire.follow(value, observation)
        return value

    assert trail("a", "b") == trail("a", "b")
    trails = [
        trail("a", "b"),
        trail("b", "a"),
        trail("a", "b", "b"),
        trail("ab"),
        trail("a", "\ud800"),
        trail("a", "é"),
    ]
    assert len(set(trails)) == len(trails)
