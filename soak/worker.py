"""A worker: many threads in one process, until it is told to stop, or struck.

    python -m soak.worker STINT

Writes acknowledgements to its standard output, one line at a time, and reads what the
conductor wants from its standard input. Invariant: the clock is exchanged before
anything of Treadle is imported, so that no part keeps the true one.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time

__all__ = ["SkewedClock", "main"]


class SkewedClock:
    """The wall clock, ahead or behind by what the conductor says; monotonic time is left alone."""

    def __init__(self) -> None:
        self._seconds, self._nanoseconds = time.time, time.time_ns
        self.ahead = 0

    def time(self) -> float:
        """Seconds since 1970, or so it seems."""
        return self._seconds() + self.ahead

    def time_ns(self) -> int:
        """Nanoseconds since 1970, or so it seems."""
        return self._nanoseconds() + self.ahead * 1_000_000_000

    def install(self) -> None:
        """Be the clock of this process."""
        time.time, time.time_ns = self.time, self.time_ns


async def _obey(clock: SkewedClock, stop: asyncio.Event) -> None:
    """Do what the conductor says; when it is gone, stop."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        word, _, rest = line.decode().strip().partition(" ")
        if word == "jump":
            clock.ahead += int(rest)
        elif word == "stop":
            break
    stop.set()


async def _work(stint: str, clock: SkewedClock) -> None:
    from msgspec import json

    from soak.lives import Worker
    from soak.roles import Stint
    from soak.terminal import Terminals

    stop = asyncio.Event()
    told = json.decode(stint, type=Stint)
    kind = Terminals if told.role.terminal and not told.settle else Worker
    worker = kind(told, stop)
    obeying = asyncio.create_task(_obey(clock, stop))
    try:
        await worker.run()
    finally:
        obeying.cancel()


def main(stint: str) -> None:
    """Be a worker."""
    import logging

    # Whoever starts a process in the background lets it ignore this signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    clock = SkewedClock()
    clock.install()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    logging.getLogger("treadle").setLevel(logging.DEBUG)
    asyncio.run(_work(stint, clock))


if __name__ == "__main__":
    main(sys.argv[1])
