"""The runner: tries attempts as one user, each in a process of its own, and tells of each.

Owns the attempts under way and the directory that they take place in. Invariants: an attempt
that takes too long is ended with all that it started, and did not hold; one that could not be
tried is told as such; what is left behind at the end is told too, and removed.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from attack.areas import find_attempts
from attack.attempt import Attempt
from attack.ground import SEARCH, Ground
from attack.leftovers import Before
from attack.processes import become, fork, preload, reap_orphans

__all__ = ["Job", "Tried", "main", "try_attempt"]

_KEPT = 2_000
"""Characters of evidence that are told."""


class Job(Struct, frozen=True, kw_only=True):
    """What to try, and as whom."""

    uid: int
    top: str
    """A directory of that user's."""
    tools: str
    """Where that user finds `bwrap`."""
    keys: list[str]
    weak: bool = False
    at_once: int = 2


class Tried(Struct, frozen=True, kw_only=True):
    """What an attempt came to."""

    area: str
    name: str
    evidence: str = ""
    """What proves that it got through; empty when Treadle held."""
    error: str = ""
    """Why it could not be tried."""
    seconds: float = 0.0

    @property
    def held(self) -> bool:
        """Return whether Treadle held, for sure."""
        return not (self.evidence or self.error)


@dataclass(slots=True)
class _UnderWay:
    attempt: Attempt
    top: Path
    pid: int
    started: float
    received: bytes = b""


def try_attempt(attempt: Attempt, ground: Ground) -> Tried:
    """Try one thing in this process; its environment becomes that of the ground."""
    os.environ.clear()
    os.environ.update(ground.environ)
    tempfile.tempdir = None
    started, evidence, error = time.monotonic(), "", ""
    try:
        ground.settle()
        os.chdir(ground.workspace)
        evidence = _evidence(attempt, ground)
    except Exception:  # noqa: BLE001 - whatever it is, it is told
        error = traceback.format_exc()
    return Tried(
        area=attempt.area,
        name=attempt.name,
        evidence=evidence[-_KEPT:],
        error=error[-_KEPT:],
        seconds=round(time.monotonic() - started, 2),
    )


def _evidence(attempt: Attempt, ground: Ground) -> str:
    given = attempt.attack(ground)
    if inspect.isawaitable(given):
        return asyncio.run(_bounded(given, attempt.seconds))  # type: ignore[arg-type]
    return given


async def _bounded(given: asyncio.Future[str], seconds: float) -> str:
    try:
        async with asyncio.timeout(seconds):
            return await given
    except TimeoutError:
        return f"it did not end within {seconds:g} seconds"


class Runner:
    """Tries attempts, some of them at once."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.waiting = find_attempts(job.keys)
        self.under_way: dict[int, _UnderWay] = {}
        self.selector = selectors.DefaultSelector()
        self.number = 0

    def run(self) -> Iterator[Tried]:
        """Yield what each attempt comes to, as it ends."""
        while self.waiting or self.under_way:
            while self.waiting and len(self.under_way) < self.job.at_once:
                self._start(self.waiting.pop(0))
            for key, _ in self.selector.select(0.1):
                if (tried := self._receive(key.fd)) is not None:
                    yield tried
            self._end_late()
            self._reap()

    def _start(self, attempt: Attempt) -> None:
        self.number += 1
        top = Path(self.job.top) / f"{self.number}-{attempt.area}"
        top.mkdir()
        ours, theirs = os.pipe()
        python = shutil.which("python3", path=SEARCH) or sys.executable
        search = f"{self.job.tools}:{SEARCH}"
        ground = Ground(top, search=search, python=python, weak=self.job.weak)

        def work() -> None:
            os.close(ours)
            nothing = os.open(os.devnull, os.O_RDWR)
            for standard in range(3):
                os.dup2(nothing, standard)
            os.write(theirs, msgspec.json.encode(try_attempt(attempt, ground)))

        pid = fork(work)
        os.close(theirs)
        self.selector.register(ours, selectors.EVENT_READ)
        self.under_way[ours] = _UnderWay(attempt, top, pid, time.monotonic())

    def _receive(self, descriptor: int) -> Tried | None:
        each = self.under_way[descriptor]
        if data := os.read(descriptor, 1 << 16):
            each.received += data
            return None
        self.selector.unregister(descriptor)
        os.close(descriptor)
        del self.under_way[descriptor]
        with suppress(ChildProcessError):
            os.waitpid(each.pid, 0)
        _remove(each.top)
        try:
            return msgspec.json.decode(each.received, type=Tried)
        except msgspec.DecodeError:
            lasted = round(time.monotonic() - each.started, 2)
            return Tried(
                area=each.attempt.area,
                name=each.attempt.name,
                evidence="its process ended, or had to be ended, without an answer",
                seconds=lasted,
            )

    def _end_late(self) -> None:
        now = time.monotonic()
        for each in self.under_way.values():
            if now - each.started > each.attempt.seconds + 20:
                with suppress(ProcessLookupError):
                    os.killpg(each.pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Collect the orphans that have become ours; attempts are waited for by name."""
        ours = {each.pid for each in self.under_way.values()}
        for entry in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            if int(entry) not in ours:
                with suppress(ChildProcessError):
                    os.waitpid(int(entry), os.WNOHANG)


def _remove(top: Path) -> None:
    """Remove what an attempt made, also where it took its own rights away."""
    for directory, _, _ in os.walk(top):
        with suppress(OSError):
            Path(directory).chmod(0o700)
    shutil.rmtree(top, ignore_errors=True)


def main(arguments: Sequence[str]) -> None:
    """Try what a job names; print a line of JSON for each."""
    job = msgspec.json.decode(arguments[0], type=Job)
    preload()
    reap_orphans()
    become(job.uid)
    os.umask(0o022)
    # Whoever runs Treadle can read its Python; a list of hosts needs one within the sandbox.
    if not os.access(sys.executable, os.X_OK):
        sys.executable = shutil.which("python3", path=SEARCH) or ""
    before = Before.look()
    runner = Runner(job)
    for tried in runner.run():
        _tell(tried)
    for name, evidence in before.compare(Path(job.top)).items():
        _tell(Tried(area="leftovers", name=name, evidence=evidence))


def _tell(tried: Tried) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(tried) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
