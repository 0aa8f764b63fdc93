"""Streams: descriptors that are read and written without blocking the event loop.

Owns waiting for a descriptor. Invariant: nothing is read before the reader asks, so the kernel
holds a writer at the other end back and memory stays flat.
"""

from __future__ import annotations

import asyncio
import errno
import os

__all__ = ["Stream", "wait_readable"]

_CHUNK = 1 << 16


async def wait_readable(descriptor: int) -> None:
    """Wait until `descriptor` can be read."""
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()
    loop.add_reader(descriptor, _wake, waiter)
    try:
        await waiter
    finally:
        loop.remove_reader(descriptor)


class Stream:
    """One end of a pipe or of a terminal. Owns its descriptor."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor: int | None = descriptor
        self._waiters: set[asyncio.Future[None]] = set()
        self._over = False
        self._inserted = bytearray()

    async def read(self) -> bytes:
        """Read what is there, or wait for some; return nothing at the end."""
        while self._descriptor is not None:
            if self._inserted:
                data, self._inserted = bytes(self._inserted), bytearray()
                return data
            try:
                data = os.read(self._descriptor, _CHUNK)
            except BlockingIOError:
                if self._over:
                    return b""
                await self._wait(reading=True)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                # A terminal that nobody holds open any more fails like this.
                return b""
            else:
                # A fast writer must not keep others from running.
                await asyncio.sleep(0)
                return data
        return b""

    async def write(self, data: bytes) -> None:
        """Send all of `data`. Raises `BrokenPipeError` when the other end is gone."""
        rest = memoryview(data)
        while rest:
            if self._descriptor is None or self._over:
                raise BrokenPipeError(errno.EPIPE, "the other end is gone")
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                await self._wait(reading=False)
            except OSError as error:
                raise BrokenPipeError(errno.EPIPE, "the other end is gone") from error

    def insert(self, data: bytes) -> None:
        """Let the reader have `data` next, as if it had come from the other end."""
        self._inserted += data
        for waiter in self._waiters:
            _wake(waiter)

    def end(self) -> None:
        """Let readers have what has arrived, and wait for nothing more."""
        self._over = True
        for waiter in self._waiters:
            _wake(waiter)

    def close(self) -> None:
        """Close the descriptor. Harmless when called twice."""
        self.end()
        if self._descriptor is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._descriptor)
            loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    async def _wait(self, *, reading: bool) -> None:
        loop, descriptor = asyncio.get_running_loop(), self._descriptor
        assert descriptor is not None
        add = loop.add_reader if reading else loop.add_writer
        remove = loop.remove_reader if reading else loop.remove_writer
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.add(waiter)
        add(descriptor, _wake, waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)
            # Once closed, the number may belong to another file.
            if self._descriptor is not None:
                remove(descriptor)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
