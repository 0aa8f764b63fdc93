"""The fleet in play: workers, their proxies and their store, and what strikes them.

Owns the processes. Invariant: it outlives whatever it strikes; what was posted is known to it
before any worker can have seen it.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from soak.fleet.proxy import Proxy
from soak.fleet.stint import FleetStint
from soak.provider import Sent
from treadle.core.errors import StoreError
from treadle.core.ids import new_id
from treadle.store import PostgresStore, SqliteStore
from treadle.testing.postgres import PostgresServer
from treadle.thread.thread import Thread

__all__ = ["Fleet", "Member"]

_PROJECT = Path(__file__).parents[2]
_MOST_WAITING = 30
_SKEW = 3_600


@dataclass(slots=True)
class Member:
    """A worker, through all its lives."""

    number: int
    stint: FleetStint
    place: Path
    proxy: Proxy | None = None
    process: asyncio.subprocess.Process | None = None
    starts: int = 0
    surprises: list[str] = field(default_factory=list)
    _struck: bool = False
    _ending: bool = False

    async def play(self) -> None:
        """Run one process after the other until told to end."""
        while not self._ending:
            self.starts += 1
            self._struck = False
            with (
                (self.place / "heard" / f"{self.number}.jsonl").open("ab") as heard,
                (self.place / "logs" / f"{self.number}.log").open("ab") as log,
            ):
                self.process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "soak.fleet.worker"),
                    msgspec.json.encode(self.stint).decode(),
                    cwd=_PROJECT,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=heard,
                    stderr=log,
                )
                code = await self.process.wait()
            if code and not self._struck:
                self.surprises.append(f"worker {self.number} ended by itself with {code}")
                await asyncio.sleep(0.5)

    def strike(self, how: signal.Signals) -> None:
        """Send it a signal."""
        if self.process is not None and self.process.returncode is None:
            # One that is asked to end before it can listen ends all the same.
            self._struck = self._struck or how in (signal.SIGKILL, signal.SIGTERM)
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, how)

    async def end(self, seconds: float = 40.0) -> None:
        """Ask it to end, and see that it does."""
        self._ending = True
        process = self.process
        if process is None:
            return
        self.strike(signal.SIGTERM)
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            self.surprises.append(f"worker {self.number} would not end")
            self.strike(signal.SIGKILL)


@dataclass(slots=True)
class Fleet:
    """One run in one place."""

    place: Path
    kind: str
    seconds: float
    seed: str
    workers: int = 3
    threads: int = 60
    members: list[Member] = field(default_factory=list)
    posted: dict[str, list[str]] = field(default_factory=dict)
    """What was said to each thread."""
    sent: list[Sent] = field(default_factory=list)
    dealt: Counter[str] = field(default_factory=Counter)
    surprises: list[str] = field(default_factory=list)
    server: PostgresServer | None = None
    engines: dict[str, str] = field(default_factory=dict)

    async def play(self) -> None:
        """Let the fleet work under chaos, and come to rest."""
        for name in ("heard", "logs", "homes", "project/effects"):
            (self.place / name).mkdir(parents=True, exist_ok=True)
        provider = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "soak.provider", self.seed, self.place.name[-6:]),
            cwd=_PROJECT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert provider.stdin is not None
        assert provider.stdout is not None
        base_url = (await provider.stdout.readline()).decode().strip()
        remembering = asyncio.create_task(self._remember(provider.stdout))
        try:
            await self._run(base_url)
        finally:
            for member in self.members:
                member.strike(signal.SIGCONT)
                member.strike(signal.SIGKILL)
            provider.stdin.close()
            await provider.wait()
            await remembering

    async def _remember(self, lines: asyncio.StreamReader) -> None:
        async for line in lines:
            self.sent.append(msgspec.json.decode(line, type=Sent))

    async def open_store(self) -> PostgresStore | SqliteStore:
        """Open the store of the fleet, without a proxy in between."""
        if self.server is not None:
            return await PostgresStore.open(self.server.url("fleet"), patience_seconds=60)
        return await SqliteStore.open(self.place / "homes" / "shared")

    async def _run(self, base_url: str) -> None:
        if self.kind == "postgres":
            self.server = await asyncio.to_thread(PostgresServer)
            await asyncio.to_thread(self.server.create, "fleet")
        store = await self.open_store()
        playing: list[asyncio.Task[None]] = []
        try:
            for number in range(self.threads):
                engine = "lossless" if number % 2 else "linear"
                made = await store.create(cwd=str(self.place / "project"), title=engine)
                self.posted[made.id], self.engines[made.id] = [], engine
            for number in range(self.workers):
                self.members.append(await self._member(number, base_url))
            playing = [asyncio.create_task(member.play()) for member in self.members]
            await self._chaos(store)
            await asyncio.to_thread(_calm, base_url)
            await self._settle(store)
            await asyncio.gather(*(member.end() for member in self.members))
            await asyncio.gather(*playing)
        finally:
            for task in playing:
                task.cancel()
            await asyncio.gather(*playing, return_exceptions=True)
            for member in self.members:
                if member.proxy is not None:
                    await member.proxy.close()
            await store.close()

    async def _member(self, number: int, base_url: str) -> Member:
        home = self.place / "homes" / f"worker{number}"
        home.mkdir(mode=0o700, exist_ok=True)
        proxy, database = None, ""
        if self.server is not None:
            proxy = Proxy(self.server.port)
            await proxy.start()
            database = self.server.url("fleet", port=proxy.port)
        # The last one has a clock that is an hour off.
        ahead = _SKEW if number == self.workers - 1 else 0
        stint = FleetStint(home=str(home), base_url=base_url, database=database, ahead=ahead)
        return Member(number, stint, self.place, proxy)

    async def _chaos(self, store: PostgresStore | SqliteStore) -> None:
        chance = random.Random(f"fleet {self.seed}")
        begin = time.monotonic()
        posting = asyncio.create_task(self._post(store, random.Random(f"post {self.seed}")))
        striking: set[asyncio.Task[None]] = set()
        # Time for the workers to begin: who has nothing yet loses nothing.
        pause = min(3.0, self.seconds / 6)
        while (left := begin + self.seconds - time.monotonic()) > 0:
            await asyncio.sleep(min(left, pause))
            pause = chance.uniform(0.3, 2.5)
            striking.add(asyncio.create_task(self._strike(chance)))
        posting.cancel()
        await asyncio.gather(*striking, return_exceptions=False)
        await asyncio.gather(posting, return_exceptions=True)

    async def _post(self, store: PostgresStore | SqliteStore, chance: random.Random) -> None:
        while True:
            try:
                if len(await store.waiting(limit=_MOST_WAITING)) < _MOST_WAITING:
                    thread = chance.choice([*self.posted])
                    text = f"Please do {new_id('input')} now."
                    self.posted[thread].append(text)
                    await Thread.post(thread, text, store=store, key=text)
            except StoreError:
                # It may have been posted or not; said again under its key, it is posted once.
                await asyncio.sleep(0.2)
                await self._post_again(store, thread, text)
            await asyncio.sleep(chance.uniform(0.0, 0.15))

    async def _post_again(self, store: PostgresStore | SqliteStore, thread: str, text: str) -> None:
        while True:
            try:
                await Thread.post(thread, text, store=store, key=text)
            except StoreError:
                await asyncio.sleep(0.2)
            else:
                return

    async def _strike(self, chance: random.Random) -> None:
        blows = {"kill": 5, "pause": 3, "drain": 1}
        if self.server is not None:
            blows |= {"cut": 4, "delay": 2, "mute": 2, "pause and cut": 3, "crash": 1}
        (blow,) = chance.choices([*blows], [*blows.values()])
        member, lasts = chance.choice(self.members), chance.uniform(0.5, 3.0)
        self.dealt[blow] += 1
        match blow:
            case "kill":
                member.strike(signal.SIGKILL)
            case "drain":
                member.strike(signal.SIGTERM)
            case "pause" | "pause and cut":
                member.strike(signal.SIGSTOP)
                await asyncio.sleep(0.2)
                if blow == "pause and cut" and member.proxy is not None:
                    member.proxy.cut()
                await asyncio.sleep(lasts * 2)
                member.strike(signal.SIGCONT)
            case "crash":
                assert self.server is not None
                await asyncio.to_thread(self.server.restart, how="immediate")
            case _:
                await self._disturb(member, blow, lasts)

    async def _disturb(self, member: Member, blow: str, lasts: float) -> None:
        proxy = member.proxy
        assert proxy is not None
        if blow == "cut":
            proxy.cut()
        elif blow == "delay":
            proxy.delay = 0.1
            await asyncio.sleep(lasts)
            proxy.delay = 0.0
        else:
            proxy.mute = True
            await asyncio.sleep(lasts)
            proxy.mute = False

    async def _settle(self, store: PostgresStore | SqliteStore) -> None:
        """Wait until everything that was posted is answered."""
        for member in self.members:
            member.strike(signal.SIGCONT)
            if member.proxy is not None:
                member.proxy.mute, member.proxy.delay = False, 0.0
        until = time.monotonic() + 60 + self.seconds / 2
        while time.monotonic() < until:
            with suppress(StoreError):
                if not await self._left(store):
                    return
            await asyncio.sleep(0.3)
        self.surprises.append(f"these never came to rest: {await self._left(store)}")

    async def _left(self, store: PostgresStore | SqliteStore) -> list[str]:
        return [
            thread
            for thread in self.posted
            if await store.inbox(thread)
            or any(
                turn.state in ("admitted", "running") for turn in await store.turns(thread, limit=1)
            )
        ]


def _calm(base_url: str) -> None:
    """Let the provider behave from now on."""
    import urllib.request

    address = base_url.removesuffix("/v1") + "/calm"
    urllib.request.urlopen(urllib.request.Request(address, data=b"{}", method="POST")).close()
