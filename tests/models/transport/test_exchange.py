from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.models.transport import (
    AsyncTransport,
    BodyTooLarge,
    ConnectionClosed,
    HttpProtocolError,
    Redirected,
    Transport,
    TransportClosed,
    TransportError,
)

from .servers import Peer, echo, serving

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def seam(transport: Transport) -> Transport:
    return transport


async def ask(*pieces: bytes, close: bool = True) -> tuple[int, bytes]:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(*pieces)
        if not close:
            await peer.gone()

    async with (
        serving(handler) as server,
        AsyncTransport() as transport,
        await seam(transport).post(server.url(), b"{}", {}) as response,
    ):
        return response.status, await response.read(1 << 24)


async def failure(*pieces: bytes, close: bool = True) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await ask(*pieces, close=close)
    return caught.value


async def test_a_request_carries_what_was_asked_and_nothing_hidden():
    heads: list[tuple[str, bytes]] = []

    async def handler(peer: Peer) -> None:
        heads.append(await peer.request())
        await peer.answer(b"fine", b"X-Twice: 1", b"x-twice: 2")

    async with serving(handler) as server, AsyncTransport() as transport:
        url = server.url("/v1/chat täst?q=1 2".replace(" ", "%20"))
        async with await transport.post(url, b"body", {"Authorization": "Bearer s"}) as response:
            assert (response.status, await response.read(10)) == (200, b"fine")
            assert response.headers["x-twice"] == "1, 2"
    expected = (
        "POST /v1/chat%20t%C3%A4st?q=1%202 HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{server.port}\r\n"
        "Accept-Encoding: identity\r\n"
        "Content-Length: 4\r\n"
        "Authorization: Bearer s\r\n"
        "\r\n"
    )
    assert heads == [(expected, b"body")]


async def test_a_get_has_no_body():
    heads: list[tuple[str, bytes]] = []

    async def handler(peer: Peer) -> None:
        heads.append(await peer.request())
        await peer.answer(b"[]")

    async with (
        serving(handler) as server,
        AsyncTransport() as transport,
        await transport.get(server.url("/models"), {"Accept": "*/*"}) as response,
    ):
        assert await response.read(10) == b"[]"
    head, body = heads[0]
    assert head.startswith("GET /models HTTP/1.1\r\n")
    assert "content-length" not in head.lower()
    assert body == b""


async def test_chunks_arrive_while_the_answer_is_still_open():
    go_on = asyncio.Event()

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, b"3\r\none\r\n")
        await go_on.wait()
        await peer.send(b"3\r\ntwo\r\n0\r\n\r\n")

    async with (
        serving(handler) as server,
        AsyncTransport() as transport,
        await transport.post(server.url(), b"", {}) as response,
    ):
        chunks = response.chunks()
        assert await anext(chunks) == b"one"
        go_on.set()
        assert [chunk async for chunk in chunks] == [b"two"]


BODY = bytes(range(256))
WIRE = (
    b"HTTP/1.1 102 Wait\r\nX: 1\r\n\r\n"
    + CHUNKED
    + b"".join(b"%x;note=1\r\n%b\r\n" % (16, BODY[i : i + 16]) for i in range(0, 256, 16))
    + b"0\r\nTrailer: x\r\n\r\n"
)


@given(st.lists(st.integers(0, len(WIRE)), max_size=20))
def test_any_cut_of_the_wire_gives_the_same_answer(cuts: list[int]):
    edges = [0, *sorted(cuts), len(WIRE)]
    pieces = [WIRE[a:b] for a, b in pairwise(edges)]

    async def run() -> tuple[int, bytes]:
        return await ask(*pieces, close=False)

    assert asyncio.run(run()) == (200, BODY)


@st.composite
def damaged(draw):
    start, end = sorted((draw(st.integers(0, len(WIRE))), draw(st.integers(0, len(WIRE)))))
    return WIRE[:start] + draw(st.binary(max_size=20)) + WIRE[end:]


@given(st.one_of(st.binary(max_size=200), damaged()))
def test_whatever_comes_is_an_answer_or_a_typed_failure(wire: bytes):
    async def run() -> None:
        with suppress(TransportError):
            status, _ = await ask(wire)
            assert 200 <= status <= 999

    asyncio.run(run())


async def test_interim_answers_are_skipped():
    heralds = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    assert await ask(heralds, b"HTTP/1.1 201 Made\r\nContent-Length: 2\r\n\r\nok") == (201, b"ok")


async def test_a_body_without_a_length_ends_with_the_connection():
    assert await ask(b"HTTP/1.1 200 OK\r\n\r\nuntil", b" the end") == (200, b"until the end")


async def test_an_answer_may_have_no_body():
    assert await ask(b"HTTP/1.1 204 No Content\r\n\r\n", close=False) == (204, b"")


async def test_an_offer_to_upgrade_is_ignored():
    offer = b"Connection: Upgrade\r\nUpgrade: h2,h2c\r\n"
    wire = b"HTTP/1.1 200 OK\r\n" + offer + b"Content-Length: 2\r\n\r\nok"
    assert await ask(wire, close=False) == (200, b"ok")


async def test_an_error_status_is_an_answer():
    wire = b"HTTP/1.1 429 Slow\r\nRetry-After: 3\r\nContent-Length: 4\r\n\r\nslow"
    assert await ask(wire) == (429, b"slow")


@pytest.mark.parametrize(
    ("wire", "answered"),
    [
        pytest.param(b"", False, id="before the status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Le", True, id="in the head"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", True, id="too short"),
        pytest.param(CHUNKED + b"ff\r\nonly some", True, id="in a chunk"),
        pytest.param(CHUNKED + b"3\r\none\r\n", True, id="between chunks"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", True, id="after a herald"),
    ],
)
async def test_a_server_that_closes_too_early_is_told_apart(wire: bytes, answered: bool):
    error = await failure(wire)
    assert isinstance(error, ConnectionClosed)
    assert (error.answered, error.retryable) == (answered, True)


async def test_everything_that_came_is_given_before_the_failure():
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, b"3\r\none\r\n", b"5\r\ntw")

    got = bytearray()

    async def collect(chunks: AsyncIterator[bytes]) -> None:
        async for chunk in chunks:
            got.extend(chunk)

    async with (
        serving(handler) as server,
        AsyncTransport() as transport,
        await transport.post(server.url(), b"", {}) as response,
    ):
        with pytest.raises(ConnectionClosed):
            await collect(response.chunks())
    assert bytes(got) == b"onetw"


@pytest.mark.parametrize(
    "wire",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nBad\x00Name: 1\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        CHUNKED + b"zz\r\n",
        CHUNKED + b"ffffffffffffffffff\r\n",
        CHUNKED + b"2\r\nabc\r\n",
    ],
)
async def test_what_is_no_http_is_refused(wire: bytes):
    error = await failure(wire, close=False)
    assert isinstance(error, HttpProtocolError)
    assert error.retryable is wire.startswith(CHUNKED)


async def test_a_head_that_never_ends_is_cut_off():
    error = await failure(b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 1_000_000, close=False)
    assert "headers are larger than 65536 bytes" in str(error)
    heralds = await failure(b"HTTP/1.1 100 Continue\r\n\r\n" * 5_000, close=False)
    assert "headers are larger than 65536 bytes" in str(heralds)


@pytest.mark.parametrize("endless", [b"0\r\nX: ", b"3;x="], ids=["trailer", "chunk extension"])
async def test_bytes_that_carry_nothing_are_cut_off(endless: bytes):
    error = await failure(CHUNKED + b"1\r\na\r\n" + endless + b"y" * 2_000_000, close=False)
    assert isinstance(error, HttpProtocolError)


async def test_a_large_body_may_follow_its_head_in_one_write():
    body = bytes(1_000_000)
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert await ask(wire + body, close=False) == (200, body)


async def test_a_promise_of_a_huge_body_costs_nothing():
    error = await failure(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\nabc" % (1 << 60))
    assert isinstance(error, ConnectionClosed)


async def test_a_body_past_the_limit_is_not_collected():
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.answer(bytes(100_000))

    async with serving(handler) as server, AsyncTransport() as transport:
        response = await transport.post(server.url(), b"", {})
        with pytest.raises(BodyTooLarge) as caught:
            await response.read(10)
    assert (caught.value.limit, caught.value.start) == (10, bytes(10))


@pytest.mark.parametrize(
    ("header", "coding"),
    [
        (b"Content-Encoding: gzip\r\nContent-Length: 2", "gzip"),
        (b"Content-Encoding: br\r\nTransfer-Encoding: chunked", "br"),
        (b"Transfer-Encoding: gzip, chunked", "gzip, chunked"),
        (b"Transfer-Encoding: deflate", "deflate"),
    ],
)
async def test_a_compressed_body_is_refused_but_its_status_can_be_read(header: bytes, coding: str):
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n" + header + b"\r\n\r\n")
        await peer.gone()

    async with (
        serving(handler) as server,
        AsyncTransport() as transport,
        await transport.post(server.url(), b"", {}) as response,
    ):
        assert response.status == 200
        with pytest.raises(HttpProtocolError, match=f"encoded as '{coding}'"):
            await response.read(10)


async def test_a_redirect_is_told_and_not_followed():
    wire = b"HTTP/1.1 307 Moved\r\nLocation: https://u:pw@other.example/v2?key=s#x\r\n"
    error = await failure(wire + b"Content-Length: 0\r\n\r\n")
    assert isinstance(error, Redirected)
    assert (error.status, error.location) == (307, "https://other.example/v2")
    assert "pw" not in str(error)
    assert "key" not in str(error)


async def test_a_closed_transport_sends_nothing():
    async with serving(echo) as server:
        transport = AsyncTransport()
        await transport.close()
        await transport.close()
        with pytest.raises(TransportClosed):
            await transport.post(server.url(), b"", {})
    assert server.accepted == 0


async def test_closing_the_transport_ends_the_answers_that_are_still_read():
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, b"3\r\none\r\n")
        await peer.gone()

    async with serving(handler) as server:
        transport = AsyncTransport()
        response = await transport.post(server.url(), b"", {})
        chunks = response.chunks()
        assert await anext(chunks) == b"one"
        reading = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        await transport.close()
        with pytest.raises(TransportClosed):
            await reading
