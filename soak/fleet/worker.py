"""A worker of the fleet.

    python -m soak.fleet.worker STINT

Writes what it heard to its standard output, as every host of a soak, and news of itself to
standard error. Invariant: its clock is wrong before anything of Treadle is imported.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from soak.fleet.stint import FleetStint
    from treadle import Thread
    from treadle.hosts.news import News
    from treadle.store.contract import Store, ThreadInfo

__all__ = ["main"]


async def _open_store(stint: FleetStint) -> Store:
    if stint.database:
        from treadle.core.errors import StoreError
        from treadle.store import PostgresStore

        while True:
            try:
                return await PostgresStore.open(
                    stint.database, lease_seconds=4.0, patience_seconds=stint.patience
                )
            except StoreError:
                await asyncio.sleep(0.3)  # the database is away; whoever restarts it comes back
    from treadle.store import SqliteStore

    return await SqliteStore.open(Path(stint.home).parent / "shared")


async def _work(stint: FleetStint) -> None:
    from msgspec import json

    from soak.acting import acting
    from soak.lives import MODELS
    from treadle import Rights, Routing, Thread
    from treadle.harness.loop import LoopHarness
    from treadle.hosts import LiveFeed, Worker, WorkerBounds
    from treadle.models.providers import ProviderConfig
    from treadle.models.retry import Backoff
    from treadle.testing.audit import AckRecorder

    recorder = AckRecorder(lambda line: os.write(1, line))

    class Heard(LiveFeed):
        """Writes down what a host would hear."""

        def publish(self, thread: str, event: Any) -> None:
            recorder.record_event(thread, event)

    provider = ProviderConfig(
        api="responses", base_url=stint.base_url, key="sk-fleet-0123456789", retries=1,
        idle_timeout=2.0,
    )  # fmt: skip
    store = await _open_store(stint)

    @asynccontextmanager
    async def opened(info: ThreadInfo) -> AsyncIterator[Thread]:
        async with Thread.open(
            info.id,
            model=MODELS["openai"],
            home=Path(stint.home),
            store=store,
            rights=Rights(sandbox="danger-full-access", approval="never"),
            tools=acting(Path(info.cwd) / "effects" / "acts.txt"),
            harness=LoopHarness(backoff=Backoff(retries=2, base=0.05)),
            routing=Routing(environ={}, providers={"openai": provider}),
            engine=info.title,
        ) as thread:
            yield thread

    def tell(news: News) -> None:
        os.write(2, json.encode(news) + b"\n")

    bounds = WorkerBounds(turns=stint.turns, attempts=10_000, sweep=(0.2, 1.0), grace=3.0)
    worker = Worker(
        store,
        opened,
        bounds=bounds,
        report=tell,
        live=Heard(),
    )
    threading.Thread(target=_end_with_the_fleet, daemon=True).start()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.drain)
    try:
        await worker.run()
    finally:
        await store.close()


def _end_with_the_fleet() -> None:
    """Leave when whoever started this process is gone."""
    os.read(0, 1)
    os._exit(1)


def main(told: str) -> None:
    """Be a worker."""
    from soak.worker import SkewedClock

    clock = SkewedClock()
    clock.install()

    from msgspec import json

    from soak.fleet.stint import FleetStint

    stint = json.decode(told, type=FleetStint)
    clock.ahead = stint.ahead
    asyncio.run(_work(stint))


if __name__ == "__main__":
    main(sys.argv[1])
