"""The conductor: starts everything, strikes by the plan, lets all recover, asks the auditor.

Owns the run. Invariant: it outlives whatever it strikes, so that what was acknowledged
is known when the worker that heard it is gone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct

from soak.answers import WORDS
from soak.memory import Sample, slope
from soak.places import Disk, Door, Place, Stranger
from soak.plan import Stroke, planned
from soak.player import Player
from soak.provider import Sent
from soak.roles import Role
from weft.testing.audit import Evidence, Finding, Report, audit, read_acks
from weft.testing.audit.remains import processes_marked

__all__ = ["Conductor", "Result"]

_SECONDS_TO_SETTLE = 300.0
_SECONDS_TO_VANISH = 20.0


class Result(Struct, frozen=True, kw_only=True):
    """What a soak came to."""

    seed: str
    seconds: float
    report: Report
    done: dict[str, int]
    """What happened, so that the zeros mean something."""
    memory_per_hour: float | None = None
    """Megabytes by which the steady worker grew, per hour; None where it was too short to tell."""
    disk: str = ""
    evidence: str = ""


@dataclass(slots=True)
class Conductor:
    """One run in one place."""

    place: Place
    roles: Sequence[Role]
    seconds: float
    seed: str
    say: object = print
    players: dict[str, Player] = field(default_factory=dict)
    disks: dict[str, Disk] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    struck: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)
    _provider: asyncio.subprocess.Process | None = None
    _keys: dict[str, dict[str, str]] = field(default_factory=dict)
    _settled_badly: list[str] = field(default_factory=list)

    @property
    def mark(self) -> str:
        """Part of every path, and so of every process."""
        return self.place.root.name

    async def run(self) -> Result:
        """Play, settle, audit."""
        base_url, remembering = await self._start_provider()
        try:
            self._cast(base_url)
            await self._chaos()
            await self._calm(base_url)
            report = await self._settled()
        finally:
            await self._close(remembering)
        report = report.with_(await self._audited())
        return self._result(report)

    async def _start_provider(self) -> tuple[str, asyncio.Task[None]]:
        short = self.mark[-6:]
        self._provider = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "soak.provider",
            self.seed,
            short,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._provider.stdout is not None
        base_url = (await self._provider.stdout.readline()).decode().strip()
        return base_url, asyncio.create_task(self._remember())

    async def _remember(self) -> None:
        assert self._provider is not None
        assert self._provider.stdout is not None
        async for line in self._provider.stdout:
            self.sent.append(msgspec.json.decode(line, type=Sent))

    def _cast(self, base_url: str) -> None:
        nobody = Stranger()
        for role in self.roles:
            stranger = nobody if role.stranger else None
            home = self.place.root / "homes" / role.home
            if "fill the disk" in role.blows and role.home not in self.disks:
                home.mkdir(mode=0o700)
                self.disks[role.home] = Disk(home)
            self.place.home(role.home, stranger)
            self.place.project(role.name, stranger)
            keys = {
                name: f"sk-{name}-{self.mark}-{role.name}-{index}{'x' * 12}"
                for index, name in enumerate(("openai", "local", "anthropic"))
            }
            self._keys[role.name] = keys
            prefix = stranger.command if stranger is not None else ()
            self.players[role.name] = Player(
                role, self.place, self.seed, base_url, keys, home, prefix
            )

    async def _chaos(self) -> None:
        playing = [asyncio.create_task(player.play()) for player in self.players.values()]
        begin = time.monotonic()
        watching = asyncio.create_task(self._watch(begin))
        striking: set[asyncio.Task[None]] = set()
        for stroke in planned(self.seed, self.roles, self.seconds):
            await asyncio.sleep(max(0.0, begin + stroke.at - time.monotonic()))
            task = asyncio.create_task(self._strike(stroke))
            striking.add(task)
        await asyncio.sleep(max(0.0, begin + self.seconds - time.monotonic()))
        await asyncio.gather(*striking)
        watching.cancel()
        await asyncio.gather(*(player.end() for player in self.players.values()))
        await asyncio.gather(*playing)

    async def _strike(self, stroke: Stroke) -> None:
        player = self.players[stroke.role]
        process = player.process
        if process is None or process.returncode is not None:
            return
        self.struck[stroke.blow] += 1
        match stroke.blow:
            case "kill":
                player.strike(signal.SIGKILL)
            case "interrupt":
                player.strike(signal.SIGINT)
            case "hang up":
                player.strike(signal.SIGHUP)
            case "kill the app-server":
                self._strike_app_server(process.pid, stroke)
            case "jump":
                await player.tell(f"jump {stroke.jump}")
            case "fill the disk":
                disk = self.disks[player.role.home]
                disk.fill(process.pid)
                await asyncio.sleep(stroke.lasts)
                disk.free(process.pid)
            case "forbid":
                door = Door(player.home)
                door.shut(stroke.pick)
                await asyncio.sleep(stroke.lasts)
                door.open()

    def _strike_app_server(self, worker: int, stroke: Stroke) -> None:
        found = _app_servers(worker)
        if not found:
            self.struck[stroke.blow] -= 1
            return
        with suppress(ProcessLookupError):
            os.kill(found[stroke.pick % len(found)], signal.SIGKILL)

    async def _watch(self, begin: float) -> None:
        """Measure the steady worker, and say now and then how it goes."""
        count = 0
        while True:
            await asyncio.sleep(1)
            count += 1
            for player in self.players.values():
                if player.role.steady and player.process is not None:
                    with suppress(OSError):
                        self.samples.append(Sample.of(player.process.pid, time.monotonic() - begin))
            if count % 15 == 0:
                self._tell(time.monotonic() - begin)

    def _tell(self, passed: float) -> None:
        turns = sum(sum(player.turns.values()) for player in self.players.values())
        blows = ", ".join(f"{count} {blow}" for blow, count in sorted(self.struck.items()))
        surprises = sum(len(player.surprises) for player in self.players.values())
        words = f"{passed:5.0f} s  {turns} turns  {len(self.sent)} answers  {blows}"
        print(f"{words}  {surprises} surprises", flush=True)

    async def _calm(self, base_url: str) -> None:
        address = base_url.removesuffix("/v1") + "/calm"
        request = urllib.request.Request(address, data=b"{}", method="POST")
        await asyncio.to_thread(lambda: urllib.request.urlopen(request).close())

    async def _settled(self) -> Report:
        """Reopen every thread once; who cannot go on is a finding."""
        print("      all threads recover", flush=True)
        players = self.players.values()
        before = {player.role.name: len(player.surprises) for player in players}
        at_once = asyncio.Semaphore(2)

        async def settle(player: Player) -> None:
            async with at_once:
                await player.settle()

        try:
            async with asyncio.timeout(_SECONDS_TO_SETTLE):
                await asyncio.gather(*(settle(player) for player in players))
        except TimeoutError:
            for player in players:
                player.strike(signal.SIGKILL)
            players_ = ", ".join(before)
            return Report.of([Finding("stuck", players_, "recovery took too long")])
        found = [
            Finding(
                "stuck" if at >= before[player.role.name] else "surprises", player.role.name, what
            )
            for player in players
            for at, what in enumerate(player.surprises)
        ]
        return Report.of(found)

    async def _close(self, remembering: asyncio.Task[None]) -> None:
        for player in self.players.values():
            player.strike(signal.SIGKILL)
        if self._provider is not None:
            assert self._provider.stdin is not None
            self._provider.stdin.close()
            await self._provider.wait()
        await remembering

    async def _audited(self) -> Report:
        for _ in range(int(_SECONDS_TO_VANISH * 10)):
            if not await asyncio.to_thread(processes_marked, self.mark):
                break
            await asyncio.sleep(0.1)
        print("      the auditor reads everything", flush=True)
        return await audit(self._evidence())

    def _evidence(self) -> Evidence:
        lines = (
            line
            for file in sorted((self.place.root / "heard").iterdir())
            for line in file.read_bytes().splitlines()
        )
        threads = [life for player in self.players.values() for life in player.threads.values()]
        names = Counter[str]()
        strays: set[str] = set()
        for sent in self.sent:
            for name in (*sent.words, *sent.calls, *sent.strays):
                names[name] += sent.times
            strays.update(sent.strays)
        # Ids of items are made of the same names.
        names.update({f"msg_{word.removeprefix('word')}": n for word, n in names.items()})
        keys = tuple(key for keys in self._keys.values() for key in keys.values())
        return Evidence(
            homes=tuple(sorted({player.home for player in self.players.values()})),
            acks=tuple(read_acks(lines)),
            words=WORDS,
            sent=names,
            strays=frozenset(strays),
            effects=self._effects(),
            engines={life.thread: life.engine for life in threads},
            secrets=keys,
            foreign=("/codex/home/",),
            files=tuple(self.place.root / name for name in ("projects", "heard", "logs")),
            mark=self.mark,
        )

    def _effects(self) -> Counter[str]:
        files = self.place.root.glob("projects/*/effects/*.txt")
        return Counter(line for file in files for line in file.read_text().split())

    def _result(self, report: Report) -> Result:
        players = self.players.values()
        turns = sum((player.turns for player in players), Counter[str]())
        troubles = Counter(sent.trouble for sent in self.sent if sent.trouble != "none")
        done = {
            **{f"turns {status}": count for status, count in sorted(turns.items())},
            "worker starts": sum(player.starts for player in players),
            **{f"blow: {blow}": count for blow, count in sorted(self.struck.items())},
            "answers": len(self.sent),
            **{f"answer: {name}": count for name, count in sorted(troubles.items())},
            **{
                f"refused: {name}": count
                for name, count in sorted(
                    sum((player.troubles for player in players), Counter[str]()).items()
                )
            },
        }
        mounted = any(disk.mounted for disk in self.disks.values())
        return Result(
            seed=self.seed,
            seconds=self.seconds,
            report=report,
            done=done,
            memory_per_hour=slope(self.samples),
            disk="a small tmpfs" if mounted else "a limit on the size of files",
        )


def _app_servers(worker: int) -> list[int]:
    """The app-servers below a process."""
    parents: dict[int, int] = {}
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            status = (place / "stat").read_text().rpartition(")")[2].split()
            parents[int(place.name)] = int(status[1])
            if b"\0app-server" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
    return [pid for pid in found if _descends(pid, worker, parents)]


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != ancestor:
        pid = parents[pid]
    return pid == ancestor
