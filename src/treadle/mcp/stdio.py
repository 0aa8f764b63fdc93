"""The wire to a stdio server: a message on each line.

Owns reading and writing lines for the SDK, which knows messages only. Invariants: a message
longer than `LONGEST_MESSAGE`, or one that cannot be read, fails the request that it answers
and nothing else; what a server prints beside messages is passed over.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from .message_mending import mend
from .server_process import ServerProcess

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

__all__ = ["LONGEST_MESSAGE", "open_stdio"]

LONGEST_MESSAGE = 32 << 20
"""Bytes of one message; its reader holds several copies of it for a moment."""

_log = logging.getLogger(__name__)
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")')
_ENDS = 4096
"""Bytes at both ends of a message in which its id is looked for."""


@asynccontextmanager
async def open_stdio(process: ServerProcess) -> AsyncIterator[TransportStreams]:
    """Let the SDK talk to a running server. The process itself is the caller's to stop."""
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        try:
            async with to_session:
                async for line in _lines(process):
                    message = _message(line)
                    if message is not None:
                        await to_session.send(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the session is gone

    async def write() -> None:
        try:
            async with from_session:
                async for each in from_session:
                    text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.stdin.write(text.encode() + b"\n")
        except (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            # Requests that wait would wait for ever.
            await to_session.aclose()

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        try:
            yield from_server, to_server
        finally:
            group.cancel_scope.cancel()
            for stream in (to_session, from_server, to_server, from_session):
                stream.close()


async def _lines(process: ServerProcess) -> AsyncIterator[bytes]:
    """Yield the lines; of one that is too long only its two ends."""
    parts: list[bytes] = []
    size = 0
    while data := await process.stdout.read():
        process.has_spoken = True
        *ended, rest = data.split(b"\n")
        for end in ended:
            yield _join(parts, end, size)
            parts, size = [], 0
        size += len(rest)
        if rest:
            parts.append(rest)
        if size > LONGEST_MESSAGE:
            parts = [parts[0], parts[-1]]


def _join(parts: list[bytes], end: bytes, size: int) -> bytes:
    if size + len(end) <= LONGEST_MESSAGE:
        return b"".join((*parts, end))
    return _TOO_LONG + b"".join((*parts, end))


_TOO_LONG = b"\0"
"""Stands before what is left of a message that is too long; no message begins so."""


def _message(line: bytes) -> Any:
    """Return the message of a line, an error for the request that it answers, or None."""
    if not line.strip():
        return None
    reason = f"sent a message of more than {LONGEST_MESSAGE >> 20} MiB, which was not read"
    if not line.startswith(_TOO_LONG):
        try:
            return mend(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError as error:
            detail = str(error).partition("\n")[0]
            reason = f"sent a message that cannot be read ({detail})"
    found = _ID.search(line[:_ENDS]) or _ID.search(line[-_ENDS:])
    if found is None or not line.lstrip(_TOO_LONG).lstrip().startswith(b"{"):
        _log.debug("an MCP server wrote a line that is no message: %r", line[:200])
        return None
    id_ = found[1].decode()
    request = id_[1:-1] if id_.startswith('"') else int(id_)
    error_data = types.ErrorData(code=types.INTERNAL_ERROR, message=reason)
    return types.JSONRPCError(jsonrpc="2.0", id=request, error=error_data)
