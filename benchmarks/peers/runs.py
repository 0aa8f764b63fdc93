"""Running one contestant through one scenario, and the server they all talk to.

Invariant: whatever ends a run, an error or Ctrl-C too, ends every process that it started.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

from .commands import command, environment
from .contestants import Contestant
from .figures import Figures, Record, figures

__all__ = ["Ran", "RunFailed", "Server", "run"]

PATIENCE = 1_800.0
"""Seconds after which a run counts as failed."""
TOLD = (
    *("threads_s", "mb_each", "alone_cpu_ms", "together_cpu_ms"),
    *("new_cpu_ms", "resumed_cpu_ms"),
)
"""What contestants tell of themselves where no request shows it."""
PLACES = re.compile(r"(?<![\w.])/[\w.+-]+(/[\w.+-]+)+(?=/)")
"""Directories of this machine, which are nobody's business."""


class RunFailed(Exception):
    """A contestant did not get through a scenario."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run showed."""

    figures: Figures
    version: str | None


@dataclass(slots=True)
class Server:
    """The instant server, in a process of its own."""

    address: str
    _keys: Iterator[int] = field(default_factory=count)

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[Server]:
        """A server that runs as long as the block."""
        server = [sys.executable, "-m", "benchmarks.peers.server"]
        with _process(server, stdout=subprocess.PIPE) as process:
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


def run(server: Server, contestant: Contestant, scenario: str, sizes: dict[str, int]) -> Ran:
    """One run; raises `RunFailed`."""
    key = server.key()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        scratch, address = Path(place), f"{server.address}/{key}"
        line = command(contestant, scenario, address, scratch, sizes)
        variables = environment(contestant, address, scratch)
        started = time.monotonic_ns()
        report = _report(line, variables, scratch)
    try:
        found = figures(scenario, started, server.records(key), report)
    except (LookupError, ValueError) as error:
        raise RunFailed(f"what it asked for is not what was to be measured: {error}") from error
    also = ("process_cpu_ms",) if scenario == "cold_start" else TOLD
    told = {name: report[name] for name in also if name in report}
    return Ran(found | told | {"peak_mb": report["peak_kb"] / 1024}, report.get("version"))


def _report(line: list[str], variables: dict[str, str], scratch: Path) -> dict[str, Any]:
    """What a contestant reports once it is done, and at least what the kernel says of it."""
    with (
        (scratch / "told").open("w+b") as told,
        (scratch / "complaint").open("w+b") as complaint,
        _process(
            line,
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=complaint,
            env=variables,
            cwd=scratch,
        ) as process,
    ):
        used = _waited(process)
        if process.returncode != 0:
            last = PLACES.sub("…", " ".join(_lines(complaint)[-1:]))
            raise RunFailed(f"exit code {process.returncode}: {last[:300]}")
        with suppress(IndexError, ValueError):
            return {**used, **json.loads(_lines(told)[-1])}
    return used


def _waited(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The kilobytes that a process had at most, and its time on a processor, once it has ended."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            process.returncode = os.waitstatus_to_exitcode(status)
            busy = (usage.ru_utime + usage.ru_stime) * 1e3
            return {"peak_kb": usage.ru_maxrss, "process_cpu_ms": busy}
        time.sleep(0.01)
    raise RunFailed(f"not done within {PATIENCE:.0f} s")


def _lines(file: Any) -> list[str]:
    file.seek(0)
    text: bytes = file.read()
    return text.decode(errors="replace").strip().splitlines()


@contextmanager
def _process(line: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, which does not outlive the block."""
    with ExitStack() as stack:
        with _undisturbed():
            process = subprocess.Popen(line, start_new_session=True, **options)
            stack.callback(_ended, process)
        yield process


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C and its like wait, so that no process starts that nobody knows of."""
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    usual = [signal.signal(number, lambda got, _: came.append(got)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, usual, strict=True):
            signal.signal(number, handler)
    for held in came:
        signal.raise_signal(held)


def _ended(process: subprocess.Popen[bytes]) -> None:
    """End a process with its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
