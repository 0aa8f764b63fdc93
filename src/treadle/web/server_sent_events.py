"""The stream of events, as a browser reads it.

Owns the form of `text/event-stream`. Invariant: whoever listens is forgotten with the answer,
also one who was gone before it began.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from .home_changes import Following, News, Reader

__all__ = ["event_stream"]

_SIGN_OF_LIFE = 15.0
"""Seconds after which a silent stream says that it is there."""


async def event_stream(request: Request, following: Following) -> Response:
    """Answer with the news of a thread, or of all of them, until the reader goes."""
    stack = AsyncExitStack()
    # Before the answer begins: one too many is refused, and a thread may not be there.
    listening = following.listen(request.query_params.get("thread", ""))
    reader = await stack.enter_async_context(listening)
    return _Stream(reader, stack)


class _Stream(StreamingResponse):
    """An answer that goes on for as long as somebody reads it."""

    def __init__(self, reader: Reader, stack: AsyncExitStack) -> None:
        super().__init__(_send_news(reader), media_type="text/event-stream")
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the news."""
        async with self._stack:
            await super().__call__(scope, receive, send)


async def _send_news(reader: Reader) -> AsyncGenerator[bytes]:
    yield b"retry: 2000\n\n"
    while not reader.ended:
        taken = await reader.take(_SIGN_OF_LIFE)
        yield b"".join(map(_event, taken)) or b": still here\n\n"


def _event(news: News) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (news.name.encode(), msgspec.json.encode(news.data))
