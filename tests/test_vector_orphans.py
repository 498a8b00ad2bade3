"""No worker, and nothing that an environment started, outlives the process that made the vector."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from triage_gym.wrappers.vector import TextVectorEnv

TESTS = Path(__file__).parent
PREAMBLE = """
import multiprocessing, sys, threading, time
from triage_gym.wrappers.vector import TextVectorEnv

def say_pids():
    print(*[process.pid for process in multiprocessing.active_children()], flush=True)
"""


def start(script: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", PREAMBLE + script]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def running(pid: int) -> bool:
    """Whether the process runs; one that ended and waits for its parent to notice does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (ProcessLookupError, FileNotFoundError):
        return False


def gone_within(pids: list[int], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(running(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def first_line_of(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    pids = [int(word) for word in process.stdout.readline().split()]
    assert pids, process.communicate()[1]
    return pids


def end(process: subprocess.Popen[str]) -> str:
    """Kill the process and wait for its workers to let go of its standard error."""
    process.kill()
    return process.communicate(timeout=60)[1]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
@pytest.mark.parametrize("fault", ["idle", "sleep", pytest.param("hold", marks=pytest.mark.slow)])
def test_workers_end_with_a_parent_that_is_killed(fault: str) -> None:
    process = start(f"""
venv = TextVectorEnv("vector_envs:echo", 2, workers=2, step_timeout=2.0, reset_timeout=3.0)
venv.reset(seed=1)
if "{fault}" == "idle":
    say_pids()
    time.sleep(3600)
threading.Timer(1.0, say_pids).start()
venv.step({{0: "{fault}", 1: "go"}})
""")
    pids = first_line_of(process)
    assert len(pids) == 2
    assert all(running(pid) for pid in pids)
    process.kill()
    assert gone_within(pids, 40.0 if fault == "hold" else 10.0)
    errors = end(process)
    assert ("Timeout" in errors) == (fault == "hold")


def test_a_script_that_forgets_to_close_ends_with_its_workers() -> None:
    process = start("""
venv = TextVectorEnv("vector_envs:echo", 2, workers=2)
venv.reset(seed=1)
say_pids()
""")
    pids = first_line_of(process)
    assert process.wait(timeout=30) == 0
    assert not any(running(pid) for pid in pids)
    assert end(process) == ""


def test_a_script_that_fails_ends_with_its_workers() -> None:
    process = start("""
venv = TextVectorEnv("vector_envs:echo", 2, workers=2)
say_pids()
raise SystemExit("enough")
""")
    pids = first_line_of(process)
    assert process.wait(timeout=30) == 1
    assert not any(running(pid) for pid in pids)
    assert end(process) == "enough\n"


def test_a_script_without_a_main_guard_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PREAMBLE + 'TextVectorEnv("vector_envs:echo", 1, workers=1)\n', encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment, check=False, timeout=120
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("triage_gym.errors.EnvironmentFailure: Environment 0 could not be built in a worker")
    assert 'under `if __name__ == "__main__":`' in last


@pytest.mark.parametrize("end_of_worker", ["closed", "killed", "hung"])
def test_what_an_environment_started_goes_with_its_worker(end_of_worker: str) -> None:
    with TextVectorEnv("vector_envs:ParentEnv", 1, workers=1, step_timeout=1.0) as venv:
        info = venv.reset(seed=1)[0].info
        assert running(info["child"])
        if end_of_worker == "killed":
            os.kill(info["pid"], signal.SIGKILL)
            assert "turn 1 " in venv.step({0: "go"})[0].observation
        elif end_of_worker == "hung":
            assert venv.step({0: "sleep"})[0].truncated
        else:
            venv.close()
        assert gone_within([info["child"], info["pid"]], 5.0)
    assert multiprocessing.active_children() == []
