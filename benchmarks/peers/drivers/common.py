"""What every driver shares: its job, the scenarios, and the report at the end.

A driver brings a way to open a conversation; the scenarios are the same for all. Standard
library only, for a driver runs in the environment of its peer.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

__all__ = [
    "ANSWER",
    "INSTRUCTIONS",
    "MODEL",
    "QUESTION",
    "Conversation",
    "Job",
    "Scenarios",
    "Seeded",
    "busy",
    "drive",
    "run_command",
    "status",
    "tick",
]

MODEL = "gpt-5.5"
INSTRUCTIONS = "You are a coding agent. Be brief."
QUESTION = "Mend the failing test in the module, then run all tests again, please"
ANSWER = "All of it is done and every test passes; nothing else is left to do."
STOPS = (10, 100, 500, 1_000)
NEAR = 11
"""Turns that are run at each stop where the history before it was handed over."""
ALONE = 21
"""Turns of one thread, before there are many."""
OPENED = 5
"""Times that a thread is made, and resumed."""


@dataclass(slots=True)
class Job:
    """A scenario, where the server is, and how much of it."""

    scenario: str
    address: str
    scratch: Path
    sizes: dict[str, int]
    told: dict[str, Any] = field(default_factory=dict)
    """What a driver has to tell beside the peak of its memory."""

    def base(self, script: str) -> str:
        """The base URL under which the server follows a script."""
        return f"{self.address}/{script}/v1"


class Conversation(Protocol):
    """Turns of one thread."""

    async def turn(self, said: str, /) -> None:
        """Say something, and hear the answer out."""


@runtime_checkable
class Seeded(Protocol):
    """A conversation that can be handed a past through the peer's own API."""

    async def seed(self, turns: int, /) -> None:
        """Put turns of question and answer behind what there is."""


Opened: TypeAlias = Callable[[Job, str, str], AbstractAsyncContextManager[Conversation]]
"""Opens a conversation: the job, the script the server follows, and the thread's name.

The same name in the same job is the same thread, where a peer can take one up again.
"""


def status(name: str, process: str = "self") -> int:
    """Kilobytes that a process has (`VmRSS`), or had at most (`VmHWM`)."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise LookupError(name)


def busy() -> int:
    """Nanoseconds that this process, and commands that it ran, spent on a processor."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time_ns() + int((usage.ru_utime + usage.ru_stime) * 1e9)


@dataclass(slots=True)
class Calls:
    """When the trivial tool was called, by the time on a processor."""

    processor: Callable[[], int] = busy
    times: list[int] = field(default_factory=list)


CALLS = Calls()


def tick(number: int) -> int:
    """The trivial tool."""
    CALLS.times.append(CALLS.processor())
    return number + 1


def run_command(command: str) -> str:
    """A real command."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    return f"exit code {done.returncode}\n{done.stdout}{done.stderr}"


@dataclass(slots=True)
class Scenarios:
    """The scenarios, over a way to open conversations."""

    opened: Opened
    tool: str = "tick"
    command: str = "run_command"
    ending: str = ""
    """What scripts are to end their answers with."""
    memory: Callable[[str], int] = status
    """Kilobytes that whoever is measured has."""
    processor: Callable[[], int] = busy
    """Nanoseconds that it spent on a processor so far."""
    spent: list[float] = field(default_factory=list)
    """Milliseconds on a processor of each turn."""

    async def cold_start(self, job: Job) -> None:
        """One turn of a fresh process."""
        await self._turns(job, "text", 1)

    async def tool_loop(self, job: Job) -> None:
        """One turn of many rounds with a trivial tool."""
        CALLS.processor = self.processor
        await self._turns(job, f"{self.tool}-{job.sizes['rounds']}", 1)

    async def command_loop(self, job: Job) -> None:
        """One turn of many rounds with a real command."""
        await self._turns(job, f"{self.command}-{job.sizes['rounds']}", 1)

    async def deltas(self, job: Job) -> None:
        """Short answers and long ones in turn."""
        await self._turns(job, "deltas", 2 * job.sizes["answers"] + 1)

    async def turns(self, job: Job) -> None:
        """Many turns, or those around the stops where a past can be handed over."""
        async with self.opened(job, f"text{self.ending}", "long") as conversation:
            if not isinstance(conversation, Seeded):
                await self.said(conversation, job.sizes["turns"])
                return
            past = 0
            for stop in STOPS:
                await conversation.seed(max(0, stop - NEAR // 2 - 1 - past))
                await self.said(conversation, NEAR)
                past = stop - NEAR // 2 - 1 + NEAR
            job.told["stops"] = [[stop, NEAR] for stop in STOPS]

    async def threads(self, job: Job) -> None:
        """Many threads at once; all are open until the last is done."""
        await self._at_once(job, job.sizes["threads"])

    async def threads_many(self, job: Job) -> None:
        """As `threads`, with so many that few can."""
        await self._at_once(job, job.sizes["many_threads"])

    async def _at_once(self, job: Job, count: int) -> None:
        await self._turns(job, "text", ALONE)
        job.told["alone_cpu_ms"] = statistics.median(self.spent[1:])
        before, started = self.memory("VmRSS"), time.monotonic()
        async with AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(
                    self.opened(job, f"text{self.ending}", f"thread{number}")
                )
                for number in range(count)
            ]
            await asyncio.gather(*(self.said(conversation, 1) for conversation in opened))
            more, busy = job.sizes["turns_each"] - 1, self.processor()
            await asyncio.gather(*(self.said(conversation, more) for conversation in opened))
            job.told["together_cpu_ms"] = (self.processor() - busy) / 1e6 / (count * more)
            job.told["threads_s"] = time.monotonic() - started
            grown = self.memory("VmHWM") - before
        job.told["mb_each"] = grown / 1024 / count

    async def resume(self, job: Job) -> None:
        """A turn of new threads, and of one with a past; from opening it to its request."""
        async with self.opened(job, f"text{self.ending}", "long") as conversation:
            assert isinstance(conversation, Seeded)
            await self.said(conversation, 1)
            await conversation.seed(job.sizes["past"])
        await self.reopened(job)

    async def reopened(self, job: Job) -> None:
        """New threads in turn with the one that has a past."""
        opened: list[tuple[str, int]] = []
        spent: dict[str, list[float]] = {"new": [], "resumed": []}
        for number in range(OPENED):
            for kind, name in (("new", f"new{number}"), ("resumed", "long")):
                opened.append((kind, time.monotonic_ns()))
                before = self.processor()
                await self._turns(job, "text", 1, name)
                spent[kind].append((self.processor() - before) / 1e6)
        job.told["opened"] = opened
        job.told |= {f"{kind}_cpu_ms": statistics.median(each) for kind, each in spent.items()}

    async def closed(self) -> None:
        """Let go of what outlives conversations."""

    async def said(self, conversation: Conversation, count: int) -> None:
        """Turns, one after the other."""
        for number in range(count):
            before = self.processor()
            await conversation.turn(f"{QUESTION} ({number}).")
            self.spent.append((self.processor() - before) / 1e6)

    async def _turns(self, job: Job, script: str, count: int, name: str = "first") -> None:
        async with self.opened(job, f"{script}{self.ending}", name) as conversation:
            await self.said(conversation, count)


async def _whole(scenarios: Scenarios, job: Job) -> None:
    work: Callable[[Job], Awaitable[None]] = getattr(scenarios, job.scenario)
    await work(job)
    await scenarios.closed()


def drive(package: str, scenarios: Scenarios) -> None:
    """Do the job on the command line, and print a report."""
    scenario, address, scratch, sizes = sys.argv[1:]
    job = Job(scenario, address, Path(scratch), json.loads(sizes))
    asyncio.run(_whole(scenarios, job))
    report = {"version": version(package), "peak_kb": status("VmHWM"), "spent_ms": scenarios.spent}
    told = report | {"called_ns": CALLS.times} | job.told
    print(f"\n{json.dumps(told)}")  # some write to standard output, too
