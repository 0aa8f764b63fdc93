"""The framing of messages: one JSON object per line, JSON-RPC without its version member.

Owns the lines, the members of a message and the meaning of error codes. Invariant: each
byte is scanned once for the end of its line, and nothing inside `params` or `result` is
read here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ...core.redact import one_line
from .errors import CodexProtocolError, Overloaded, RequestFailed, UnknownMethod
from .protocol.types import RequestId

__all__ = [
    "BAD_PARAMETERS",
    "INTERNAL",
    "LONGEST_LINE",
    "NO_SUCH_METHOD",
    "OVERLOADED",
    "ByteReader",
    "ByteWriter",
    "IncomingMessage",
    "LineBuffer",
    "OutgoingMessage",
    "RpcError",
    "decode_message",
    "encode_message",
    "request_error",
]

LONGEST_LINE = 256 << 20
"""Bytes of the longest line that is read; images and long histories are far smaller."""

OVERLOADED = -32001
NO_SUCH_METHOD = -32601
BAD_PARAMETERS = -32602
INTERNAL = -32603


class ByteReader(Protocol):
    """A stream of bytes from the server; empty at the end."""

    async def read(self, n: int = -1, /) -> bytes:
        """Return some bytes."""
        ...


class ByteWriter(Protocol):
    """A stream of bytes to the server."""

    def write(self, data: bytes, /) -> None:
        """Queue bytes to be sent."""
        ...

    async def drain(self) -> None:
        """Wait until the buffer has room."""
        ...

    def close(self) -> None:
        """Close the stream."""
        ...


class LineBuffer:
    """Collects chunks and returns complete lines, without their line ends."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Return the lines that `chunk` completes. Raises `CodexProtocolError` for a long line."""
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            self._add(part)
            line = bytes(self._buffer)
            self._buffer.clear()
            if line.strip():
                yield line
        self._add(rest)

    def _add(self, part: bytes) -> None:
        if len(self._buffer) + len(part) > self._longest:
            raise CodexProtocolError(
                f"the Codex app-server sent a line of more than {self._longest} bytes; "
                "it is stopped, and the next turn starts another"
            )
        self._buffer += part


class RpcError(Struct):
    """An error in place of a result."""

    code: int = 0
    message: str = ""


class IncomingMessage(Struct):
    """A request, a notification or a result from the server; its members show which."""

    id: RequestId | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"{}")
    result: Raw | UnsetType = UNSET
    error: RpcError | UnsetType = UNSET


class OutgoingMessage(Struct):
    """A request, a notification or a reply to the server."""

    id: RequestId | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: object = UNSET
    result: object = UNSET
    error: object = UNSET


decode_message = msgspec.json.Decoder(IncomingMessage).decode
_encode = msgspec.json.Encoder().encode


def encode_message(message: OutgoingMessage) -> bytes:
    """Return a message as a line, with its line end."""
    return _encode(message) + b"\n"


def request_error(method: str, error: RpcError) -> RequestFailed:
    """Return the exception for an error that the server sent as the result of `method`."""
    reason = one_line(error.message)
    if error.code == OVERLOADED:
        return Overloaded(method, error.code, reason)
    # For an unknown method the server sends another code and lists the methods that it knows.
    if error.code == NO_SUCH_METHOD or f"unknown variant `{method}`" in error.message:
        return UnknownMethod(method, error.code, reason)
    return RequestFailed(method, error.code, reason)
