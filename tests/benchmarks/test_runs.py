from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.peers.contestants import CONTESTANTS, Contestant
from benchmarks.peers.runs import RunFailed, Server, run
from benchmarks.peers.scenarios import SIZES

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server.started() as started:
        yield started


@pytest.mark.parametrize("scenario", ["cold_start", "tool_loop"])
def test_treadle_goes_through_a_scenario(server: Server, scenario: str):
    ran = run(server, CONTESTANTS["treadle"], scenario, SIZES)
    assert all(figure > 0 for figure in ran.figures.values())
    assert ran.figures.get("prefix_share", 1.0) == 1.0


def test_a_turn_of_the_command_line_is_measured_too(server: Server):
    assert set(run(server, CONTESTANTS["treadle_exec"], "cold_start", SIZES).figures) == {
        "first_request_ms",
        "process_cpu_ms",
        "peak_mb",
    }


def test_a_contestant_that_fails_says_why(server: Server):
    missing = Contestant("missing", "Missing", "missing", None, ("cold_start",))
    with pytest.raises(RunFailed, match=r"exit code 2: .*…/missing\.py") as failed:
        run(server, missing, "cold_start", SIZES)
    assert str(ROOT) not in str(failed.value)


def test_an_unknown_scenario_is_refused_by_name():
    line = [sys.executable, "-m", "benchmarks.peers", "--only", "naps"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "'naps' is none of cold_start" in done.stderr) == (2, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_breaking_off_leaves_no_process_behind(number: signal.Signals):
    line = [sys.executable, "-m", "benchmarks.peers", "--only", "turns", "--peers", "treadle"]
    with subprocess.Popen(
        line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        while len(started := children(process.pid)) < 2:  # the server and the driver
            time.sleep(0.05)
        process.send_signal(number)
        _, told = process.communicate()
    assert b"interrupted" in told
    assert [each for each in started if alive(each)] == []


def children(process: int) -> list[int]:
    told = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    return [int(each) for each in told.split()]


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
