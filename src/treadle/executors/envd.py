"""The channel into a sandbox of E2B: a process of its daemon, over Connect and JSON.

Owns the stream of what the process writes, and the requests that type into it. Invariants: what
is typed arrives in its order, one request after the other; what nobody reads is not fetched.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from ..core.redact import one_line
from ..models.transport.client import AsyncTransport, StreamedResponse
from ..models.transport.contract import Timeouts
from ..models.transport.errors import TransportError
from ..tools.pipe.delivery import far_command

__all__ = ["EnvdChannel"]

_log = logging.getLogger(__name__)

_START = "/process.Process/Start"
_INPUT = "/process.Process/SendInput"
_CLOSE = "/process.Process/CloseStdin"
_PIECE = 1 << 16
"""Bytes that are typed in one request."""
_MOST_MESSAGE = 1 << 22
_END = 0b10
"""The flag of the last message of a stream."""
_USUAL = Timeouts(idle=60.0)
_OPEN = Timeouts(idle=None)


class EnvdChannel:
    """The standard streams of a far end in a sandbox."""

    def __init__(
        self,
        transport: AsyncTransport,
        address: str,
        headers: Mapping[str, str],
        *,
        keep_alive: Callable[[], Awaitable[None]] | None,
        every: float,
    ) -> None:
        self._transport, self._address, self._headers = transport, address, dict(headers)
        self._keep_alive, self._every = keep_alive, every
        self._response: StreamedResponse | None = None
        self._events: AsyncIterator[Mapping[str, Any]] | None = None
        self._pid = 0
        self._why = ""
        self._closing = asyncio.Event()
        self._reading: asyncio.Task[bytes] | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start the far end. Raises `OSError`."""
        command, *arguments = far_command()
        wanted = {"process": {"cmd": command, "args": arguments, "cwd": "/"}, "stdin": True}
        kind = {"content-type": "application/connect+json"}
        try:
            response = await self._post(_START, _envelope(wanted), kind, timeouts=_OPEN)
            self._response, self._events = response, _messages(response)
            first = await self._next_message()
            self._pid = (first.get("event") or {})["start"]["pid"]
        except (TransportError, ValueError, KeyError, TypeError, BrokenPipeError) as error:
            await self.end()
            raise OSError(f"the sandbox started nothing: {one_line(str(error))}") from error
        except BaseException:
            await self.end()
            raise
        if self._keep_alive is not None:
            self._keeping = asyncio.create_task(self._keep(self._keep_alive))

    async def read(self) -> bytes:
        """Wait for some bytes; return nothing at the end."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._next_output())
        closing: asyncio.Task[Any] = asyncio.create_task(self._closing.wait())
        await asyncio.wait({self._reading, closing}, return_when=asyncio.FIRST_COMPLETED)
        closing.cancel()
        if not self._reading.done():
            return b""
        done, self._reading = self._reading, None
        return done.result()

    async def _next_output(self) -> bytes:
        try:
            while message := await self._next_message():
                event = message.get("event") or {}
                data = event.get("data") or {}
                if data.get("stderr"):
                    self._why = base64.b64decode(data["stderr"]).decode(errors="replace")
                if data.get("stdout"):
                    return base64.b64decode(data["stdout"])
                if "end" in event:
                    self._why = self._why or str(event["end"].get("error") or "")
        except (TransportError, ValueError, TypeError, AttributeError) as error:
            self._why = self._why or str(error)
        return b""

    async def _next_message(self) -> Mapping[str, Any]:
        """Return the next message of the stream; nothing at its end."""
        assert self._events is not None, "it was opened"
        async for message in self._events:
            return message
        return {}

    async def write(self, data: bytes) -> None:
        """Type all of `data`. Raises `BrokenPipeError` when nobody reads it."""
        for start in range(0, len(data), _PIECE):
            if self._closing.is_set():
                raise BrokenPipeError("the channel is closed")
            piece = base64.b64encode(data[start : start + _PIECE]).decode()
            await self._tell(_INPUT, {"input": {"stdin": piece}})

    def close(self) -> None:
        """Read and write no more."""
        self._closing.set()
        if self._keeping is not None:
            self._keeping.cancel()

    async def end(self) -> None:
        """Close the input of the far end, which ends it, and every connection."""
        if not self._closing.is_set() or self._response is not None:
            self.close()
            if self._pid:
                with suppress(BrokenPipeError):
                    await self._tell(_CLOSE, {})
            if self._reading is not None:
                self._reading.cancel()
                await asyncio.wait({self._reading})
            if self._response is not None:
                await self._response.close()
                self._response = None
        await self._transport.close()

    async def _tell(self, path: str, what: Mapping[str, Any]) -> None:
        """Send a request about the process. Raises `BrokenPipeError`."""
        body = msgspec.json.encode({"process": {"pid": self._pid}, **what})
        try:
            response = await self._post(path, body, {"content-type": "application/json"})
            await response.read(_PIECE)
        except TransportError as error:
            raise BrokenPipeError(one_line(str(error))) from error

    async def _post(
        self, path: str, body: bytes, kind: Mapping[str, str], *, timeouts: Timeouts = _USUAL
    ) -> StreamedResponse:
        headers = {**self._headers, **kind, "connect-protocol-version": "1"}
        response = await self._transport.post(
            self._address + path, body, headers, timeouts=timeouts
        )
        if response.status != 200:
            said = (await response.read(_PIECE)).decode(errors="replace")
            raise BrokenPipeError(f"it refused ({response.status}): {one_line(said)}")
        return response

    async def complaint(self) -> str:
        """Return what the far end wrote on standard error, or why the stream broke off."""
        return one_line(self._why)

    async def _keep(self, keep_alive: Callable[[], Awaitable[None]]) -> None:
        """Extend the sandbox's time while it is in use."""
        while True:
            await asyncio.sleep(self._every)
            try:
                await keep_alive()
            except OSError as error:
                _log.warning("the time of the sandbox was not extended: %s", error)


def _envelope(message: Mapping[str, Any]) -> bytes:
    """Return a message of a stream: its flags, its length and itself."""
    body = msgspec.json.encode(message)
    return b"\0" + len(body).to_bytes(4, "big") + body


async def _messages(response: StreamedResponse) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the messages of a stream. Raises `ValueError` for what is none."""
    buffer = bytearray()
    async for chunk in response.chunks():
        buffer += chunk
        while len(buffer) >= 5:
            size = int.from_bytes(buffer[1:5], "big")
            if size > _MOST_MESSAGE:
                raise ValueError(f"a message of {size} bytes")
            if len(buffer) < 5 + size:
                break
            flags, body = buffer[0], bytes(buffer[5 : 5 + size])
            del buffer[: 5 + size]
            message = msgspec.json.decode(body, type=dict[str, Any])
            if flags & _END:
                if error := message.get("error"):
                    raise ValueError(str(error.get("message") or error.get("code")))
                return
            yield message
