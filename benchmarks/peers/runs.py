"""Running one contestant through one scenario, and the server they all talk to.

Invariant: whatever ends a run, an error or Ctrl-C too, ends every process that it started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

from .contestants import HERE, Contestant, python_of
from .figures import Figures, Record, figures

__all__ = ["RunFailed", "Server", "run"]

PATIENCE = 900.0
"""Seconds after which a run counts as failed."""
QUIET = {
    "NO_PROXY": "*",
    "OPENAI_API_KEY": "none",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LANGSMITH_TRACING": "false",
    "OTEL_SDK_DISABLED": "true",
    "PYTHONDONTWRITEBYTECODE": "",
}
"""No contestant reports to anyone; measured is the agent, not its telemetry."""


class RunFailed(Exception):
    """A contestant did not get through a scenario."""


@dataclass(slots=True)
class Server:
    """The instant server, in a process of its own."""

    address: str
    _keys: Iterator[int] = field(default_factory=count)

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Server]:
        """A server that runs as long as the block."""
        command = [sys.executable, "-m", "benchmarks.peers.server"]
        with _process(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            yield cls(f"http://127.0.0.1:{int(process.stdout.readline())}")

    def key(self) -> str:
        """A name for a run, under which the server notes its requests."""
        return f"run{next(self._keys)}"

    def records(self, key: str) -> list[Record]:
        """What the server noted, which it forgets by that."""
        opener = build_opener(ProxyHandler({}))
        with opener.open(f"{self.address}/control/{key}", timeout=60) as answer:
            records: list[Record] = json.load(answer)
        return records


def run(server: Server, contestant: Contestant, scenario: str, sizes: dict[str, int]) -> Figures:
    """The figures of one run; raises `RunFailed`."""
    key = server.key()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        scratch = Path(place)
        address = f"{server.address}/{key}"
        command, extra = _command(contestant, scenario, address, scratch, sizes)
        environment = {"PATH": os.environ["PATH"], "HOME": place, **QUIET, **extra}
        started = time.monotonic_ns()
        report = _finished(command, environment, scratch)
    try:
        found = figures(scenario, started, server.records(key))
    except (ValueError, IndexError) as error:
        raise RunFailed(str(error)) from error
    told = {name: value for name, value in report.items() if isinstance(value, int | float)}
    peak = told.pop("peak_kb", 0)
    return found | told | ({"peak_mb": peak / 1024} if peak else {})


def _command(
    contestant: Contestant, scenario: str, address: str, scratch: Path, sizes: dict[str, int]
) -> tuple[list[str], dict[str, str]]:
    python = python_of(contestant)
    if contestant.driver:
        driver = HERE / "drivers" / f"{contestant.driver}.py"
        told = [scenario, address, str(scratch), json.dumps(sizes)]
        return [str(python), str(driver), *told], {}
    weft = [str(python.with_name("weft")), "exec", "--engine", "lossless", "Say hello."]
    home = {"WEFT_HOME": str(scratch / "home"), "OPENAI_BASE_URL": f"{address}/text/v1"}
    return weft, home


def _finished(command: list[str], environment: dict[str, str], scratch: Path) -> dict[str, Any]:
    """What a contestant reports once it is done."""
    files: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with (
        (scratch / "told").open("w+b") as told,
        _process(command, **files, stdout=told, env=environment, cwd=scratch) as process,
    ):
        try:
            _, complaint = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise RunFailed(f"not done within {PATIENCE:.0f} s") from error
        if process.returncode != 0:
            last = complaint.decode(errors="replace").strip().splitlines()[-1:]
            raise RunFailed(f"exit code {process.returncode}: {' '.join(last)[:300]}")
        told.seek(0)
        lines = told.read().decode(errors="replace").strip().splitlines()
    try:
        report = json.loads(lines[-1])
    except (IndexError, ValueError):
        return {}
    return report if isinstance(report, dict) else {}


@contextmanager
def _process(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, which does not outlive the block."""
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
