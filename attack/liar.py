"""A lying provider: a real server on the loopback interface that sends whatever it was given.

Owns its answers and what it was asked. Invariant: behind its lies it gives good answers, so
that the next turn shows whether the thread is as good as new.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from treadle.models.providers import Api

__all__ = ["Liar", "Lie", "call", "events", "fine", "item", "message", "serve", "whole"]

Lie: TypeAlias = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
_DONE = {"type": "response.completed", "response": {"id": "r1", "usage": {"input_tokens": 9}}}


def events(*payloads: object) -> bytes:
    """Return server-sent events; bytes are sent as they are."""
    lines = (each if isinstance(each, bytes) else json.dumps(each).encode() for each in payloads)
    return b"".join(b"data: %b\n\n" % line for line in lines)


def whole(body: bytes, more: bytes = b"") -> bytes:
    """Return an answer with the right length."""
    return HEAD + more + b"content-length: %d\r\n\r\n" % len(body) + body


def item(*items: object) -> bytes:
    """Return an answer of the Responses API with these items."""
    done = ({"type": "response.output_item.done", "item": each} for each in items)
    return whole(events(*done, _DONE))


def message(text: str, **more: Any) -> dict[str, Any]:
    """Return a message of the assistant."""
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content, **more}


def call(call_id: object, **more: Any) -> dict[str, Any]:
    """Return a call of the tool `act`."""
    base = {"type": "function_call", "name": "act", "arguments": '{"what":"x"}'}
    return {**base, "call_id": call_id, **more}


_FINE: dict[Api, bytes] = {
    "responses": item(message("fine")),
    "chat": whole(
        events(
            {"id": "c", "choices": [{"delta": {"content": "fine"}, "finish_reason": "stop"}]},
            b"[DONE]",
        )
    ),
    "messages": whole(
        events(
            {"type": "message_start", "message": {"id": "m"}},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": "fine"},
            },
            {"type": "content_block_stop", "index": 0},
            {"type": "message_stop"},
        )
    ),
}


def fine(api: Api) -> bytes:
    """Return an answer that says "fine"."""
    return _FINE[api]


@dataclass(slots=True)
class Liar:
    """Gives its answers in turn, and good ones behind them."""

    api: Api
    answers: Sequence[Lie]
    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                await self._hear(reader)
                number = len(self.bodies) - 1
                lies = number < len(self.answers)
                answer = self.answers[number] if lies else fine(self.api)
                if callable(answer):
                    await answer(writer)
                else:
                    writer.write(answer)
                    await writer.drain()
                if lies:
                    break
        writer.close()

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        ]
        self.heads.append(head)
        self.bodies.append(await reader.readexactly(lengths[0] if lengths else 0))


@asynccontextmanager
async def serve(api: Api, *answers: Lie) -> AsyncIterator[Liar]:
    """Serve lies until the block ends."""
    liar = Liar(api, answers)
    server = await asyncio.start_server(liar.talk, "127.0.0.1", 0, limit=1 << 26)
    liar.port = server.sockets[0].getsockname()[1]
    try:
        yield liar
    finally:
        server.close()
