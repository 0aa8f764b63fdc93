"""The conductor: starts everything, strikes by the plan, lets all recover, asks the auditor.

Owns the run. Invariant: it outlives whatever it strikes, so that what was acknowledged
is known when the worker that heard it is gone.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from soak.memory import Sample, slope
from soak.places import Disk, Place, Stranger
from soak.plan import plan_strikes
from soak.player import Player
from soak.provider import Sent
from soak.roles import Role
from soak.strikes import Strikes
from soak.verdict import Result, evidence_of, summarise_strikes
from treadle.testing.audit import Finding, Report, audit
from treadle.testing.audit.remains import processes_marked

__all__ = ["Conductor"]

_SECONDS_TO_SETTLE = 600.0
_SECONDS_TO_VANISH = 20.0
_SECONDS_BETWEEN_WORDS = 15
_PROVIDERS = ("openai", "local", "anthropic")


@dataclass(slots=True)
class Conductor:
    """One run in one place."""

    place: Place
    roles: Sequence[Role]
    seconds: float
    seed: str
    players: dict[str, Player] = field(default_factory=dict)
    disks: dict[str, Disk] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    strikes: Strikes = field(init=False)

    def __post_init__(self) -> None:
        self.strikes = Strikes(self.players, self.disks)

    async def run(self) -> Result:
        """Play, settle, audit."""
        provider = await self._provider()
        assert provider.stdin is not None
        assert provider.stdout is not None
        base_url = (await provider.stdout.readline()).decode().strip()
        remembering = asyncio.create_task(self._remember(provider.stdout))
        try:
            self._cast(base_url)
            await self._chaos()
            await asyncio.to_thread(_calm, base_url)
            report = await self._recover_threads()
        finally:
            for player in self.players.values():
                player.strike(signal.SIGKILL)
            provider.stdin.close()
            await provider.wait()
            await remembering
        return self._result(report.merge(await self._audit()))

    async def _provider(self) -> asyncio.subprocess.Process:
        mark = self.place.root.name[-6:]
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "soak.provider", self.seed, mark),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )

    async def _remember(self, lines: asyncio.StreamReader) -> None:
        async for line in lines:
            self.sent.append(msgspec.json.decode(line, type=Sent))

    def _cast(self, base_url: str) -> None:
        """Make homes and players."""
        nobody = Stranger(self.place.root)
        for role in self.roles:
            stranger = nobody if role.stranger else None
            home = self.place.root / "homes" / role.home
            if "fill the disk" in role.blows and role.home not in self.disks:
                home.mkdir(mode=0o700)
                self.disks[role.home] = Disk(home)
            self.place.home(role.home, stranger)
            self.place.project(role.name, stranger)
            self.players[role.name] = Player(
                role=role,
                place=self.place,
                seed=self.seed,
                base_url=base_url,
                keys={name: self._key(name, role) for name in _PROVIDERS},
                home=home,
                prefix=stranger.command if stranger is not None else (),
            )

    def _key(self, provider: str, role: Role) -> str:
        """A secret that stands nowhere else."""
        return f"sk-{provider}-{self.place.root.name}-{role.name}-0123456789ab"

    async def _chaos(self) -> None:
        playing = [asyncio.create_task(player.play()) for player in self.players.values()]
        await asyncio.gather(*(player.wait_for_start() for player in self.players.values()))
        begin = time.monotonic()
        watching = asyncio.create_task(self._watch(begin))
        striking: list[asyncio.Task[None]] = []
        for stroke in plan_strikes(self.seed, self.roles, self.seconds):
            await asyncio.sleep(max(0.0, begin + stroke.at - time.monotonic()))
            striking.append(asyncio.create_task(self.strikes.deal(stroke)))
        await asyncio.sleep(max(0.0, begin + self.seconds - time.monotonic()))
        await asyncio.gather(*striking)
        watching.cancel()
        await asyncio.gather(*(player.end() for player in self.players.values()))
        await asyncio.gather(*playing)

    async def _watch(self, begin: float) -> None:
        """Measure the steady worker, and say now and then how it goes."""
        steady = [player for player in self.players.values() if player.role.steady]
        for count in itertools.count(1):
            await asyncio.sleep(1)
            passed = time.monotonic() - begin
            for player in steady:
                if player.process is not None:
                    with suppress(OSError):
                        self.samples.append(Sample.of(player.process.pid, passed))
            if count % _SECONDS_BETWEEN_WORDS == 0:
                self._tell(passed)

    def _tell(self, passed: float) -> None:
        turns = sum(sum(player.turns.values()) for player in self.players.values())
        blows = ", ".join(f"{count} {blow}" for blow, count in sorted(self.strikes.dealt.items()))
        surprises = sum(len(player.surprises) for player in self.players.values())
        words = f"{passed:5.0f} s  {turns} turns  {len(self.sent)} answers  {blows}"
        print(f"{words}  {surprises} surprises", flush=True)

    async def _recover_threads(self) -> Report:
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
            return Report.of([Finding("stuck", ", ".join(before), "recovery took too long")])
        return Report.of(
            Finding(_row(at >= before[player.role.name]), player.role.name, what)
            for player in players
            for at, what in enumerate(player.surprises)
        )

    async def _audit(self) -> Report:
        await asyncio.to_thread(_alone, self.place.root.name)
        print("      the auditor reads everything", flush=True)
        return await audit(evidence_of(self.place.root, [*self.players.values()], self.sent))

    def _result(self, report: Report) -> Result:
        mounted = any(disk.mounted for disk in self.disks.values())
        return Result(
            seed=self.seed,
            seconds=self.seconds,
            report=report,
            done=summarise_strikes([*self.players.values()], self.sent, self.strikes.dealt),
            memory_per_hour=slope(self.samples),
            memory=tuple((round(each.at), each.megabytes) for each in self.samples[::30]),
            disk="a small tmpfs" if mounted else "a limit on the size of files",
        )


def _alone(mark: str) -> None:
    """Wait a while for all processes to be gone."""
    until = time.monotonic() + _SECONDS_TO_VANISH
    while time.monotonic() < until and processes_marked(mark):
        time.sleep(0.1)


def _row(settling: bool) -> str:
    return "stuck" if settling else "surprises"


def _calm(base_url: str) -> None:
    """Let the provider behave from now on."""
    address = base_url.removesuffix("/v1") + "/calm"
    request = urllib.request.Request(address, data=b"{}", method="POST")
    urllib.request.urlopen(request).close()
