"""Lines of an app-server: whatever it says, the connection lives until its stream ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fuzz.cutting import chunks, head_and_rest
from treadle.core.items import decode_item
from treadle.core.wire import json_bytes
from treadle.harness.codex.errors import CodexError
from treadle.harness.codex.harness import reported_limits, seconds_until_reset
from treadle.harness.codex.protocol.notifications import (
    NOTIFICATIONS,
    ItemCompletedNotification,
    ItemStartedNotification,
    Notification,
    RateLimitsNotification,
    RawItemNotification,
    RawResponseNotification,
)
from treadle.harness.codex.protocol.server_requests import ClientReply, ServerRequest
from treadle.harness.codex.protocol.types import parse_item
from treadle.harness.codex.server_connection import AppServerConnection
from treadle.harness.codex.turn_events import response_usage

__all__ = ["WORDS", "check"]

WORDS = (
    *(b'{"id":1,"result":', b'{"id":1,"error":{"code":-32001,"message":"', b"{}", b"}", b"]", b"["),
    *(b'{"method":"', b'","params":{"threadId":"t","turnId":"u",', b'"item":{"type":"', b'"id":'),
    *(b'"thread":{"id":"t"}', b'"status":{"type":"', b'"turn":{"id":"u","status":"completed"}'),
    *(b'{"id":7,"method":"item/tool/call","params":', b'"callId":"c","tool":"f","arguments":'),
    *(b"\n", b"\xff", b"1e999", b"9" * 310, b"\\ud800", b"null", b'"usage":{"totalTokens":', b"\r"),
    *(b'"rateLimits":{"primary":{"usedPercent":100,"resetsAt":', b'"itemId":"i","delta":"'),
    *(name.encode() for name in NOTIFICATIONS),
)
_LONGEST = 2048


class _Pipe:
    """Both ends of what a test says to a connection."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = iter(parts)
        self.written: list[bytes] = []

    async def read(self, n: int = -1, /) -> bytes:  # noqa: ARG002 - the protocol's name
        return next(self._parts, b"")

    def write(self, data: bytes, /) -> None:
        self.written.append(data)

    async def drain(self) -> None: ...

    def close(self) -> None: ...


def check(data: bytes) -> None:
    """A request that waits ends in its answer or a typed error, and every event can be used."""
    pattern, stream = head_and_rest(data, 2)
    asyncio.run(_connected(chunks(stream, pattern)))


async def _connected(parts: list[bytes]) -> None:
    pipe, heard = _Pipe(parts), list[Notification]()
    connection = AppServerConnection(
        pipe, pipe, listener=heard.append, longest_line=_LONGEST, request_seconds=5
    )
    subscription = connection.subscribe("t", _refuse)
    with suppress(CodexError):
        await connection.request("m", {}, dict[str, object])
    await connection.wait_ended()
    assert isinstance(connection.ended, CodexError)
    with suppress(CodexError):
        async for event in subscription:
            heard.append(event)
    await connection.close()
    for event in heard:
        _use(event)


async def _refuse(ask: ServerRequest) -> ClientReply:
    raise PermissionError(ask.method)


def _use(event: Notification) -> None:
    match event:
        case RawItemNotification():
            decode_item(event.item)
        case ItemStartedNotification() | ItemCompletedNotification():
            parse_item(event.item)
        case RawResponseNotification():
            json_bytes(response_usage(event))
        case RateLimitsNotification() if (limits := reported_limits(event)) is not None:
            seconds_until_reset(limits.limits, 0.0)
        case _:
            json_bytes(event)
