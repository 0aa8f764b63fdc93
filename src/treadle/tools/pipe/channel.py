"""A channel: whole messages over two byte streams.

Owns framing: four bytes of length, then the message. Invariant: messages arrive
whole and in order, and a length that nobody would send ends the channel.
"""

from __future__ import annotations

import asyncio

from ..local.streams import Stream

__all__ = ["MOST", "Channel"]

MOST = 1 << 28
"""The largest message."""

_PREFIX = 4


class Channel:
    """Sends and receives messages. Owns both streams."""

    def __init__(self, reader: Stream, writer: Stream) -> None:
        self._reader, self._writer = reader, writer
        self._buffer = bytearray()
        self._sending = asyncio.Lock()

    async def receive(self) -> bytes | None:
        """The next message; None at the end. Raises `ConnectionError` for nonsense."""
        head = await self._exactly(_PREFIX)
        if head is None:
            return None
        size = int.from_bytes(head, "big")
        if size > MOST:
            raise ConnectionError(f"a message of {size} bytes is no message; is a login text sent?")
        return await self._exactly(size)

    async def send(self, message: bytes) -> None:
        """Send one message. Raises `BrokenPipeError` when nobody listens any more."""
        if len(message) > MOST:
            raise ValueError(f"a message of {len(message)} bytes is too large to send")
        # A sender that is cancelled must not leave half a message behind.
        await asyncio.shield(asyncio.ensure_future(self._send(message)))

    async def _send(self, message: bytes) -> None:
        async with self._sending:
            await self._writer.write(len(message).to_bytes(_PREFIX, "big"))
            await self._writer.write(message)

    def close(self) -> None:
        """Let go of both streams."""
        self._reader.close()
        self._writer.close()

    async def _exactly(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            data = await self._reader.read()
            if not data:
                return None
            self._buffer += data
        found = bytes(self._buffer[:size])
        del self._buffer[:size]
        return found
