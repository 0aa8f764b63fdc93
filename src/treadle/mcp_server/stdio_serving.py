"""Serving on standard input and output, for the process that started us.

Owns how lines become messages of the protocol. Invariants: a line longer than `LONGEST_LINE` is
refused, one that is no message is answered with an error, and the end of the input ends the
server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TypeAlias

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types.jsonrpc import jsonrpc_message_adapter
from pydantic import ValidationError

from mcp import types

from ..core.own_streams import OwnStreams, take_streams
from .agent_server import AgentServer

__all__ = ["LONGEST_LINE", "serve_stdio"]

LONGEST_LINE = 4 << 20
"""Bytes of the largest message."""

_Received: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]
_Sent: TypeAlias = MemoryObjectSendStream[SessionMessage]


async def serve_stdio(server: AgentServer) -> None:
    """Serve the process that started us, until it closes our input."""
    protocol = server.protocol
    try:
        with take_streams() as streams:
            async with _messages(streams) as (received, sent):
                await protocol.run(received, sent, protocol.create_initialization_options())
    finally:
        await server.turns.close()


@asynccontextmanager
async def _messages(streams: OwnStreams) -> AsyncIterator[tuple[_Received, _Sent]]:
    """Yield the messages that come in, and where to put those that go out."""
    arrived, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_take_lines, streams, arrived)
        tasks.start_soon(_write_messages, streams, leaving)
        yield received, sent
        tasks.cancel_scope.cancel()


async def _take_lines(
    streams: OwnStreams, arrived: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    async with arrived, aclosing(streams.lines(LONGEST_LINE)) as lines:
        async for line in lines:
            message = _parse(line)
            if isinstance(message, types.JSONRPCError):
                await _write(streams, SessionMessage(message))
            elif message is not None:
                await arrived.send(SessionMessage(message))


async def _write_messages(
    streams: OwnStreams, leaving: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    async with leaving:
        async for message in leaving:
            await _write(streams, message)


def _parse(line: bytes) -> types.JSONRPCMessage | None:
    """Return the message of a line; for one that is none, the error to answer with."""
    if not line.strip():
        return None
    if len(line) > LONGEST_LINE:
        return _refusal(types.INVALID_REQUEST, f"the message has more than {LONGEST_LINE:,} bytes")
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValidationError, ValueError, RecursionError):
        return _refusal(types.PARSE_ERROR, "the line is not a message of JSON-RPC 2.0")


def _refusal(code: int, message: str) -> types.JSONRPCError:
    error = types.ErrorData(code=code, message=message)
    return types.JSONRPCError(jsonrpc="2.0", id=None, error=error)


async def _write(streams: OwnStreams, message: SessionMessage) -> None:
    data = message.message.model_dump_json(by_alias=True, exclude_unset=True)
    await streams.write(data.encode() + b"\n")
