"""A player: the processes of one role, one after the other, and what they told.

Owns the pipe to a worker. Invariant: every whole line that a worker wrote is kept,
however it ended, and a worker that ends by itself before it should is a surprise.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from soak.places import Place
from soak.roles import Life, Role, Stint

__all__ = ["Player"]

_SECONDS_TO_BEGIN = 60.0
_SECONDS_TO_END = 45.0
_LINE = 1 << 20
_ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}
"""So that gaps between the arenas of threads are not taken for growth."""
_PROJECT = Path(__file__).parents[1]


@dataclass(slots=True)
class Player:
    """A role in play."""

    role: Role
    place: Place
    seed: str
    base_url: str
    keys: dict[str, str]
    home: Path
    prefix: tuple[str, ...] = ()
    """What the command of a worker begins with."""
    process: asyncio.subprocess.Process | None = None
    lives: dict[int, Life] = field(default_factory=dict)
    threads: dict[str, Life] = field(default_factory=dict)
    surprises: list[str] = field(default_factory=list)
    troubles: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    turns: Counter[str] = field(default_factory=Counter)
    _at_work: asyncio.Event = field(default_factory=asyncio.Event)
    _ending: bool = False
    _expected: bool = False
    """The next death was ours."""

    async def play(self) -> None:
        """Run one worker after the other until told to end."""
        while not self._ending:
            await self._worker(self._stint())

    async def wait_for_start(self) -> None:
        """Wait, but not for ever, until the first worker has opened a thread."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_BEGIN):
                await self._at_work.wait()

    async def settle(self) -> None:
        """Let every thread of the role recover."""
        self._expected = False
        await self._worker(structs.replace(self._stint(), lives=self._all(), settle=True))

    async def end(self) -> None:
        """Ask the worker to stop, and see that it does."""
        self._ending = True
        process = self.process
        if process is None or process.stdin is None:
            return
        with suppress(ConnectionError):
            process.stdin.write(b"stop\n")
            await process.stdin.drain()
        try:
            async with asyncio.timeout(_SECONDS_TO_END):
                await process.wait()
        except TimeoutError:
            self.surprises.append(f"a worker of {self.role.name} would not end")
            self.strike(signal.SIGKILL)

    def strike(self, how: signal.Signals) -> None:
        """Send the worker a signal that it is not asked about."""
        if self.process is not None and self.process.returncode is None:
            self._expected = True
            # Its own way to send a signal would take the end of the process from asyncio.
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, how)

    async def tell(self, words: str) -> None:
        """Say something to the worker."""
        if self.process is not None and self.process.stdin is not None:
            with suppress(ConnectionError):
                self.process.stdin.write(words.encode() + b"\n")
                await self.process.stdin.drain()

    def _stint(self) -> Stint:
        self.starts += 1
        return Stint(
            role=self.role,
            seed=f"{self.seed} {self.role.name} {self.starts}",
            home=str(self.home),
            project=str(self.place.root / "projects" / self.role.name),
            base_url=self.base_url,
            keys=self.keys,
            lives=dict(self.lives),
        )

    def _all(self) -> dict[int, Life]:
        return dict(enumerate(self.threads.values()))

    async def _worker(self, stint: Stint) -> None:
        command = [
            *self.prefix,
            sys.executable,
            "-m",
            "soak.worker",
            msgspec.json.encode(stint).decode(),
        ]
        log = self.place.root / "logs" / f"{self.role.name}.log"
        heard = self.place.root / "heard" / f"{self.role.name}.jsonl"
        self._expected = False
        with log.open("ab") as errors, heard.open("ab") as acks:
            self.process = await asyncio.create_subprocess_exec(
                *command,
                cwd=_PROJECT,
                env={**os.environ, **(_ONE_ARENA if self.role.steady else {})},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=_LINE,
            )
            if self._ending and not stint.settle:
                await self.tell("stop")  # `end` has spoken to the one before
            await self._listen(self.process, acks.write)
            code = await self.process.wait()
        killed = self.role.reckless and code == -signal.SIGKILL
        if code and not self._expected and not killed:
            self.surprises.append(f"a worker of {self.role.name} ended by itself with {code}")

    async def _listen(
        self, process: asyncio.subprocess.Process, keep: Callable[[bytes], object]
    ) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            keep(line)
            with suppress(msgspec.DecodeError):
                self._take(msgspec.json.decode(line))

    def _take(self, told: dict[str, Any]) -> None:
        match told["type"]:
            case "opened":
                self._note_thread(told)
            case "said":
                self._change(told["thread"], asked=(told["turn"], told["text"]))
            case "ended":
                self.turns[told["status"]] += 1
                self._change(told["thread"], asked=None)
            case "trouble":
                self.troubles[told["kind"]] += 1
            case "surprised":
                self.surprises.append(told["what"])

    def _note_thread(self, told: dict[str, Any]) -> None:
        life = Life(
            thread=told["thread"],
            engine=told["engine"],
            harness=told["harness"],
            model=told["model"],
        )
        life = self.threads.setdefault(life.thread, life)
        self._at_work.set()
        slot = int(told["slot"])
        if slot >= 0 and (slot not in self.lives or self.lives[slot].thread != life.thread):
            self.lives[slot] = life

    def _change(self, thread: str, asked: tuple[str, str] | None) -> None:
        for slot, life in self.lives.items():
            if life.thread == thread:
                turns = life.turns + (asked is None)
                self.lives[slot] = structs.replace(life, asked=asked, turns=turns)
