"""The protocol of the pipe: requests, replies, errors, and whole messages over byte streams.

Owns the framing: four bytes of length, then the message as JSON. Invariants: messages arrive
whole and in order, and a length that nobody would send ends the connection; an error arrives as
the same kind of exception with the same text, so callers cannot tell where it happened. Both
ends run this code, the far one with a msgspec in plain Python.
"""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from ...core.errors import SandboxUnavailable
from ..executor import Bounds, ProcessSpec
from ..patch.errors import InvalidPatch, PatchError, PatchFailed, PatchRefused

__all__ = [
    "CHUNK",
    "MAGIC",
    "MOST",
    "VERSION",
    "Apply",
    "Close",
    "Hello",
    "Kill",
    "MessagePipe",
    "Operation",
    "Output",
    "PipeReply",
    "PipeRequest",
    "Read",
    "ReadsBytes",
    "RemoteError",
    "Start",
    "TakeRefusals",
    "Type",
    "Wait",
    "Write",
    "WritesBytes",
    "decode_hello",
    "decode_reply",
    "decode_request",
    "encode",
    "remote_error",
]

VERSION = 1
"""Of the protocol; the archive that is sent always has the same one."""

MAGIC = b"\0treadle far end\n"
"""The first bytes of the far end; what a login prints before them is skipped."""

MOST = 1 << 26
"""The largest message."""

CHUNK = 1 << 16
"""The most output of a process in one reply."""

_LONGEST_TEXT = 4_000
"""Characters of an error that the far end tells."""

_PREFIX = 4
"""Bytes of the length before each message."""


class Hello(Struct, frozen=True, kw_only=True):
    """What the far end says of itself, before anything else."""

    version: int
    python: str
    pid: int
    cwd: str
    """Where the command that started it put it."""
    home: str
    shell: Literal["bash", "sh"]
    """The shell for command lines there."""


class Start(Struct, frozen=True, tag="start"):
    """Start a process under a number that the client chose and never uses again.

    What is asked of the process may be sent without waiting for the reply.
    """

    process: int
    spec: ProcessSpec


class Output(Struct, frozen=True, tag="output"):
    """Read some output of a process, in the order of the requests; empty at its end.

    What nobody requests is not read, so a process that writes has to wait.
    """

    process: int


class Type(Struct, frozen=True, tag="type"):
    """Type into a process."""

    process: int
    data: bytes


class Wait(Struct, frozen=True, tag="wait"):
    """Wait for the exit code of a process."""

    process: int


class Kill(Struct, frozen=True, tag="kill"):
    """Kill a process and forget it; the reply is its exit code."""

    process: int


class TakeRefusals(Struct, frozen=True, tag="refusals"):
    """Take out what the network of a process has refused; the reply has a line for each."""

    process: int


class Read(Struct, frozen=True, tag="read"):
    """Read a file."""

    path: Path
    bounds: Bounds
    limit: int | None = None


class Write(Struct, frozen=True, tag="write"):
    """Replace a file."""

    path: Path
    data: bytes
    bounds: Bounds


class Apply(Struct, frozen=True, tag="apply"):
    """Apply a patch."""

    text: str
    cwd: Path
    bounds: Bounds


class Close(Struct, frozen=True, tag="close"):
    """Kill everything."""


Operation: TypeAlias = (
    Start | Output | Type | Wait | Kill | TakeRefusals | Read | Write | Apply | Close
)


class PipeRequest(Struct, frozen=True):
    """An operation to do."""

    number: int
    operation: Operation


class RemoteError(Struct, frozen=True, kw_only=True):
    """An exception on its way over the pipe."""

    kind: str
    text: str
    code: int | None = None
    path: str | None = None
    place: str | None = None

    def exception(self) -> Exception:
        """Return the exception as it was raised."""
        text = self.text[:_LONGEST_TEXT]
        match self.kind:
            case "SandboxUnavailable":
                return SandboxUnavailable(text)
            case "PatchRefused":
                return PatchRefused(Path(self.path or ""), Path(self.place or ""))
            case "InvalidPatch":
                return InvalidPatch(text, self.code)
            case "PatchFailed":
                return PatchFailed(text, Path(self.path) if self.path else None)
            case "OSError":
                return OSError(self.code, text, self.path)
            case kind:
                return RuntimeError(f"{kind[:80]}: {text}")


class PipeReply(Struct, frozen=True):
    """The result of a request: what its operation has, or a failure."""

    number: int
    data: bytes | None = None
    text: str | None = None
    code: int | None = None
    failure: RemoteError | None = None


def remote_error(error: Exception) -> RemoteError:
    """Return `error` in the form that is sent."""
    match error:
        case PatchRefused():
            return RemoteError(
                kind="PatchRefused", text="", path=str(error.path), place=str(error.place)
            )
        case InvalidPatch():
            return RemoteError(kind="InvalidPatch", text=error.detail, code=error.line)
        case PatchError():
            path = getattr(error, "path", None)
            return RemoteError(kind="PatchFailed", text=str(error), path=path and str(path))
        case SandboxUnavailable():
            return RemoteError(kind="SandboxUnavailable", text=str(error))
        case OSError():
            return _remote_os_error(error)
        case _:
            return RemoteError(kind=type(error).__name__, text=str(error))


def _remote_os_error(error: OSError) -> RemoteError:
    """Return a system error with its number; ours without one are refusals."""
    if error.errno is None:
        code = errno.EACCES if isinstance(error, PermissionError) else errno.EIO
        return RemoteError(kind="OSError", text=str(error), code=code)
    path = None if error.filename is None else str(error.filename)
    return RemoteError(kind="OSError", text=error.strerror or "", code=error.errno, path=path)


def _to_wire(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__!r} cannot be sent")


def _from_wire(type_: type, value: Any) -> Any:
    if type_ is Path:
        return Path(value)
    raise TypeError(f"{type_.__name__!r} cannot be sent")


_requests = msgspec.json.Decoder(PipeRequest, dec_hook=_from_wire)
_replies = msgspec.json.Decoder(PipeReply, dec_hook=_from_wire)
_hellos = msgspec.json.Decoder(Hello)
_encoder = msgspec.json.Encoder(enc_hook=_to_wire)


def encode(message: PipeRequest | PipeReply | Hello) -> bytes:
    """Return a message as bytes."""
    return _encoder.encode(message)


def decode_request(data: bytes) -> PipeRequest:
    """Return the request in `data`. Raises `msgspec.DecodeError`."""
    return _requests.decode(data)


def decode_hello(data: bytes) -> Hello:
    """Return what the far end says of itself. Raises `msgspec.DecodeError`."""
    return _hellos.decode(data)


def decode_reply(data: bytes) -> PipeReply:
    """Return the reply in `data`. Raises `msgspec.DecodeError`."""
    return _replies.decode(data)


class ReadsBytes(Protocol):
    """The end of a stream that is read."""

    async def read(self) -> bytes:
        """Wait for some bytes; return nothing at the end."""
        ...

    def close(self) -> None:
        """Close it. Harmless when called twice."""
        ...


class WritesBytes(Protocol):
    """The end of a stream that is written."""

    async def write(self, data: bytes) -> None:
        """Send all of `data`. Raises `BrokenPipeError` when the other end is gone."""
        ...

    def close(self) -> None:
        """Close it. Harmless when called twice."""
        ...


class MessagePipe:
    """Sends and receives whole messages over two byte streams, which it owns."""

    def __init__(self, reader: ReadsBytes, writer: WritesBytes) -> None:
        self._reader, self._writer = reader, writer
        self._buffer = bytearray()
        self._sending = asyncio.Lock()

    async def receive(self) -> bytes | None:
        """Wait for the next message; None at the end. Raises `ConnectionError` for a bad length."""
        head = await self._read_exactly(_PREFIX)
        if head is None:
            return None
        size = int.from_bytes(head, "big")
        if size > MOST:
            raise ConnectionError(f"a message of {size} bytes is no message")
        return await self._read_exactly(size)

    async def skip_to(self, mark: bytes, most: int) -> bytes:
        """Skip what comes before `mark`, and return it. Raises `ConnectionError` without one."""
        while (found := self._buffer.find(mark)) < 0:
            data = b"" if len(self._buffer) > most else await self._reader.read()
            if not data:
                heard = bytes(self._buffer[:most])
                raise ConnectionError(heard.decode(errors="replace").strip())
            self._buffer += data
        skipped = bytes(self._buffer[:found])
        del self._buffer[: found + len(mark)]
        return skipped

    async def send_raw(self, data: bytes) -> None:
        """Send bytes that are no message. Raises `BrokenPipeError`."""
        await self._writer.write(data)

    async def send(self, message: bytes) -> None:
        """Send one message. Raises `BrokenPipeError` when the other end is closed."""
        if len(message) > MOST:
            raise ValueError(f"a message of {len(message)} bytes is too large to send")
        # A sender that is cancelled must not leave half a message behind.
        await asyncio.shield(asyncio.ensure_future(self._send(message)))

    async def _send(self, message: bytes) -> None:
        async with self._sending:
            await self._writer.write(len(message).to_bytes(_PREFIX, "big"))
            await self._writer.write(message)

    def close(self) -> None:
        """Close both streams."""
        self._reader.close()
        self._writer.close()

    async def _read_exactly(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            data = await self._reader.read()
            if not data:
                return None
            self._buffer += data
        found = bytes(self._buffer[:size])
        del self._buffer[:size]
        return found
