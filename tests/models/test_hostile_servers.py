from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from treadle.models.contract import Model, ModelError, StreamCut
from treadle.models.profile import ModelProfile
from treadle.models.providers import Api, ProviderConfig, connect
from treadle.models.transport import AsyncTransport
from treadle.testing.contracts.answers import collect_failed

from .requests import request
from .transport.servers import Peer, serving

APIS: tuple[Api, ...] = ("responses", "chat", "messages")
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
DOCUMENT = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"

ENDLESS = {
    "comments": (STREAM, b": still here\n\n"),
    "a letter at a time": (STREAM + b"data: ", b"x"),
    "a document of spaces": (DOCUMENT, b" "),
}

NONSENSE = {
    "no objects": b"data: 5\n\ndata: null\n\ndata: []\n\n",
    "fields of the wrong kind": b'data: {"type":5,"choices":[5],"index":"a","delta":7}\n\n',
    "half characters": b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n',
    "no end of nesting": b"data: " + b'{"item":' * 50_000 + b"1" + b"}" * 50_000 + b"\n\n",
}


DRIPS: dict[Api, bytes] = {
    "responses": b'data: {"type":"response.output_text.delta","delta":"x"}\n\n',
    "chat": b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
    "messages": b'data: {"type":"ping"}\n\n',
}


@asynccontextmanager
async def lied_to(
    api: Api,
    begun: bytes,
    again: bytes = b"",
    *,
    idle_timeout: float = 0.2,
    answer_timeout: float | None = None,
) -> AsyncIterator[Model]:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(begun)
        while again:
            await peer.send(again)
            await asyncio.sleep(0.01)

    async with serving(handler) as server:
        config = ProviderConfig(
            api=api,
            base_url=server.url(),
            key="key",
            retries=0,
            idle_timeout=idle_timeout,
            answer_timeout=answer_timeout,
        )
        model = connect(ModelProfile(slug="m", provider="p"), config, {}, AsyncTransport())
        try:
            yield model
        finally:
            await model.close()


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("lie", ENDLESS)
async def test_a_stream_that_only_keeps_its_connection_busy_is_cut(api: Api, lie: str):
    async with lied_to(api, *ENDLESS[lie]) as model:
        _, error = await collect_failed(model, request(model))
    assert (type(error), error.code, error.retryable) == (StreamCut, "idle_timeout", True)


@pytest.mark.parametrize("api", APIS)
async def test_an_answer_that_only_drips_ends_with_the_time_for_all_of_it(api: Api):
    async with lied_to(api, STREAM, DRIPS[api], idle_timeout=60.0, answer_timeout=0.3) as model:
        _, error = await collect_failed(model, request(model))
    assert (type(error), error.code, error.retryable) == (StreamCut, "answer_timeout", False)
    assert "not complete after 0.3 s" in str(error)
    assert "`answer_timeout`" in str(error)


@pytest.mark.parametrize("api", APIS)
async def test_an_error_without_end_times_out(api: Api):
    async with lied_to(api, b"HTTP/1.1 500 Broken\r\n\r\n", b"x") as model:
        _, error = await collect_failed(model, request(model))
    assert (type(error), error.code, error.retryable) == (ModelError, "timeout", True)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("lie", NONSENSE)
async def test_events_that_make_no_sense_end_in_a_cut(api: Api, lie: str):
    async with lied_to(api, STREAM + NONSENSE[lie]) as model:
        _, error = await collect_failed(model, request(model))
    assert (type(error), error.retryable) == (StreamCut, True)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", [b"200 OK", b"400 Bad"])
async def test_a_document_nested_without_end_is_a_failure(api: Api, status: bytes):
    body = NONSENSE["no end of nesting"].removeprefix(b"data: ")
    async with lied_to(api, DOCUMENT.replace(b"200 OK", status) + body) as model:
        _, error = await collect_failed(model, request(model))
    assert isinstance(error, ModelError)
