"""Strikes: how each blow of the plan is dealt.

Owns the disks, the doors and what has fallen so far. A blow that finds nobody to strike
is not counted.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from soak.places import Disk, Door
from soak.plan import Stroke
from soak.player import Player
from soak.roles import Blow

__all__ = ["Strikes", "app_servers"]

_SIGNALS: dict[Blow, signal.Signals] = {
    "kill": signal.SIGKILL,
    "interrupt": signal.SIGINT,
    "hang up": signal.SIGHUP,
}


@dataclass(slots=True)
class Strikes:
    """Deals blows to players."""

    players: Mapping[str, Player]
    disks: Mapping[str, Disk]
    dealt: Counter[str] = field(default_factory=Counter)

    async def deal(self, stroke: Stroke) -> None:
        """Deal one blow, and take it back where it is one that passes."""
        player = self.players[stroke.role]
        process = player.process
        if process is None or process.returncode is not None:
            return
        self.dealt[stroke.blow] += await self._dealt(stroke, player, process.pid)

    async def _dealt(self, stroke: Stroke, player: Player, worker: int) -> bool:
        match stroke.blow:
            case "kill" | "interrupt" | "hang up":
                player.strike(_SIGNALS[stroke.blow])
            case "kill the app-server":
                return _killed_one(app_servers(worker), stroke.pick)
            case "jump":
                await player.tell(f"jump {stroke.jump}")
            case "fill the disk":
                disk = self.disks[player.role.home]
                disk.fill(worker)
                await asyncio.sleep(stroke.lasts)
                disk.free(worker)
            case "forbid":
                door = Door(player.home)
                door.shut(stroke.pick)
                await asyncio.sleep(stroke.lasts)
                door.open()
        return True


def app_servers(worker: int) -> list[int]:
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


def _killed_one(found: list[int], pick: int) -> bool:
    if found:
        with suppress(ProcessLookupError):
            os.kill(found[pick % len(found)], signal.SIGKILL)
    return bool(found)
