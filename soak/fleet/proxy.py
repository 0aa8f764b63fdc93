"""A proxy between a worker and its database: it delays, swallows and cuts.

Owns the connections of one worker. Invariant: what it passes on, it passes on in order and
unchanged; a connection that lost a byte is never used again.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

__all__ = ["Proxy"]


class Proxy:
    """Listens on loopback, and passes on to another port there."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self.delay = 0.0
        """Seconds that everything takes longer."""
        self.mute = False
        """Nothing comes through, and nobody is told."""
        self.port = 0

    async def start(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> int:
        """Close every connection, in the middle of whatever it says; return how many."""
        count = len(self._writers)
        for writer in list(self._writers):
            with suppress(OSError):
                writer.transport.abort()
        return count // 2

    async def close(self) -> None:
        """End."""
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._passing):
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        for source, sink in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._pass(source, sink, (writer, back)))
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)

    async def _pass(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        both: tuple[asyncio.StreamWriter, ...],
    ) -> None:
        self._writers.update(both)
        try:
            while data := await source.read(1 << 16):
                if self.delay:
                    await asyncio.sleep(self.delay)
                if self.mute:
                    break  # the byte is lost, and with it the connection
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            while self.mute:  # noqa: ASYNC110 - until somebody lets it speak again
                await asyncio.sleep(0.05)
            for writer in both:
                self._writers.discard(writer)
                writer.transport.abort()
