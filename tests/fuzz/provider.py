"""A malicious provider: a real socket that sends whatever it was given, and a thread beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.models.transport.servers import Peer, serving
from treadle import Rights, Thread
from treadle.harness.events import TurnCompleted
from treadle.harness.loop import LoopHarness
from treadle.models.contract import Model
from treadle.models.profile import ModelProfile
from treadle.models.providers import Api, ProviderConfig, connect
from treadle.models.retry import Backoff
from treadle.models.transport import AsyncTransport

APIS: tuple[Api, ...] = ("responses", "chat", "messages")
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"

_FINE = {
    "responses": (
        b'data: {"type":"response.output_item.done","item":{"type":"message","role":"assistant",'
        b'"content":[{"type":"output_text","text":"fine"}]}}\n\n'
        b'data: {"type":"response.completed","response":{"id":"r"}}\n\n'
    ),
    "chat": (
        b'data: {"id":"c","choices":[{"delta":{"content":"fine"},"finish_reason":"stop"}]}\n\n'
        b"data: [DONE]\n\n"
    ),
    "messages": (
        b'data: {"type":"message_start","message":{"id":"m"}}\n\n'
        b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'
        b'\n\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text":"fine"}}\n\n'
        b'data: {"type":"content_block_stop"}\n\ndata: {"type":"message_stop"}\n\n'
    ),
}


def fine(api: Api) -> bytes:
    """An answer that says "fine" and nothing else."""
    return STREAM + _FINE[api]


@dataclass
class Villain:
    """Gives its answers in turn, one for each request, and good ones behind them."""

    api: Api
    answers: Sequence[bytes]
    holds: bool = False
    """Whether it keeps the connections of its answers open behind them."""
    asked: list[bytes] = field(default_factory=list)

    async def __call__(self, peer: Peer) -> None:
        """Answer one request on one connection."""
        _, body = await peer.request()
        self.asked.append(body)
        number = len(self.asked) - 1
        if number >= len(self.answers):
            await peer.send(fine(self.api))
            return
        await peer.send(self.answers[number])
        if self.holds:
            await peer.gone()


@asynccontextmanager
async def modelled(villain: Villain, *, idle: float = 2.0) -> AsyncIterator[Model]:
    """The model that asks `villain`."""
    async with serving(villain) as server:
        config = ProviderConfig(
            api=villain.api, base_url=server.url(), key="key", idle_timeout=idle, retries=0
        )
        model = connect(ModelProfile(slug="m", provider="p"), config, {}, AsyncTransport())
        try:
            yield model
        finally:
            await model.close()


async def turns(place: Path, villain: Villain, *said: str, idle: float = 2.0) -> list[str]:
    """How each turn ended; the thread is opened anew for each."""
    for directory in (place / "home", place / "project"):
        directory.mkdir(exist_ok=True)
    ends: list[str] = []
    name: str | None = None
    async with modelled(villain, idle=idle) as model:
        for words in said:
            async with Thread.open(
                name,
                model=model,
                home=place / "home",
                cwd=place / "project",
                rights=Rights(sandbox="danger-full-access", approval="never"),
                harness=LoopHarness(backoff=Backoff(retries=0)),
            ) as thread:
                name = thread.id
                heard = [event async for event in thread.run(words)]
            ends += [_end(event) for event in heard if isinstance(event, TurnCompleted)]
    return ends


def _end(event: TurnCompleted) -> str:
    return event.text if event.status == "completed" else event.status
