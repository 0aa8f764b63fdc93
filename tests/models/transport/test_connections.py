from __future__ import annotations

import asyncio
import socket

import pytest

from treadle.models.transport import (
    AsyncTransport,
    ConnectionClosed,
    ConnectRefused,
    NameNotFound,
    TimedOut,
    Timeouts,
)

from .servers import Peer, echo, post, serving

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_one_connection_serves_one_request_after_another():
    async with serving(echo) as server, AsyncTransport() as transport:
        answers = [await post(transport, server.url(), b"%d" % n) for n in range(20)]
    assert answers == [b"%d" % n for n in range(20)]
    assert server.accepted == 1


async def test_a_connection_is_free_again_once_its_answer_was_read_even_inside_the_block():
    async with (
        serving(echo) as server,
        AsyncTransport() as transport,
        await transport.post(server.url(), b"a", {}) as first,
    ):
        assert await first.read(10) == b"a"
        assert await post(transport, server.url(), b"b") == b"b"
    assert server.accepted == 1


async def test_requests_at_the_same_time_get_connections_of_their_own():
    async with serving(echo) as server, AsyncTransport(spare=2) as transport:
        bodies = [b"%d" % n for n in range(5)]
        answers = await asyncio.gather(*(post(transport, server.url(), body) for body in bodies))
        assert answers == bodies
        assert server.accepted == 5
        again = await asyncio.gather(*(post(transport, server.url(), body) for body in bodies))
    assert again == bodies
    assert server.accepted == 8


async def test_an_idle_connection_is_closed_after_its_time():
    closed = asyncio.Event()

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"")
        await peer.gone()
        closed.set()

    async with serving(handler) as server, AsyncTransport(keep_seconds=0.01) as transport:
        await post(transport, server.url())
        await closed.wait()
        assert await post(transport, server.url()) == b""
    assert server.accepted == 2


@pytest.mark.parametrize("header", [b"Connection: close", b"Connection: Close, x"])
async def test_a_connection_that_the_server_means_to_close_is_not_kept(header: bytes):
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"ok", header)
        await peer.gone()

    async with serving(handler) as server, AsyncTransport() as transport:
        assert await post(transport, server.url()) == b"ok"
        assert await post(transport, server.url()) == b"ok"
    assert server.accepted == 2


async def test_a_kept_connection_that_died_is_replaced_and_the_request_sent_again():
    seen: list[tuple[int, bytes]] = []

    async def handler(peer: Peer) -> None:
        _, body = await peer.request()
        seen.append((peer.number, body))
        await peer.answer(body)
        # The first connection takes the second request and hangs up without a word.
        _, body = await peer.request()
        seen.append((peer.number, body))

    async with serving(handler) as server, AsyncTransport() as transport:
        assert await post(transport, server.url(), b"one") == b"one"
        assert await post(transport, server.url(), b"two") == b"two"
    assert seen == [(1, b"one"), (1, b"two"), (2, b"two")]


async def test_a_request_is_not_sent_again_once_any_of_an_answer_came():
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"")
        await peer.request()
        await peer.send(b"HTTP/1.1 2")

    async with serving(handler) as server, AsyncTransport() as transport:
        await post(transport, server.url())
        with pytest.raises(ConnectionClosed):
            await post(transport, server.url())
    assert server.accepted == 1


async def test_a_fresh_connection_that_dies_is_not_tried_again():
    async def handler(peer: Peer) -> None:
        await peer.request()

    async with serving(handler) as server, AsyncTransport() as transport:
        with pytest.raises(ConnectionClosed) as caught:
            await post(transport, server.url())
    assert caught.value.answered is False
    assert server.accepted == 1


async def test_a_connection_with_more_on_it_than_was_asked_for_is_not_used_again():
    async def handler(peer: Peer) -> None:
        await peer.request()
        forged = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + forged)
        await peer.gone()

    async with serving(handler) as server, AsyncTransport() as transport:
        assert await post(transport, server.url()) == b"ok"
        assert await post(transport, server.url()) == b"ok"
    assert server.accepted == 2


async def test_a_late_word_on_an_idle_connection_closes_it():
    speak, heard = asyncio.Event(), asyncio.Event()

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"ok")
        await speak.wait()
        await peer.send(b"HTTP/1.1 408 Too slow\r\nContent-Length: 0\r\n\r\n")
        await peer.gone()
        heard.set()

    async with serving(handler) as server, AsyncTransport() as transport:
        assert await post(transport, server.url()) == b"ok"
        speak.set()
        await heard.wait()
        assert await post(transport, server.url()) == b"ok"
    assert server.accepted == 2


async def test_leaving_an_answer_early_closes_its_connection():
    gone = asyncio.Event()

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, b"3\r\none\r\n")
        await peer.gone()
        gone.set()

    async with serving(handler) as server, AsyncTransport() as transport:
        async with await transport.post(server.url(), b"", {}) as response:
            assert await anext(response.chunks()) == b"one"
        await gone.wait()


@pytest.mark.parametrize("started", [True, False], ids=["while reading", "while waiting"])
async def test_cancelling_closes_the_connection(started: bool):
    asked, gone = asyncio.Event(), asyncio.Event()

    async def handler(peer: Peer) -> None:
        await peer.request()
        if started:
            await peer.send(CHUNKED, b"3\r\none\r\n")
        asked.set()
        await peer.gone()
        gone.set()

    async with serving(handler) as server, AsyncTransport() as transport:
        task = asyncio.create_task(post(transport, server.url()))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gone.wait()


async def test_cancelling_an_upload_closes_the_connection():
    asked, read_on, gone = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        asked.set()
        await read_on.wait()
        await peer.gone()
        gone.set()

    async with serving(handler) as server, AsyncTransport() as transport:
        task = asyncio.create_task(post(transport, server.url(), bytes(64 << 20)))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        read_on.set()
        await gone.wait()


async def test_a_slow_reader_stops_the_server():
    size = 64 << 20
    sent = 0

    async def handler(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size >> 16):
            await peer.send(bytes(1 << 16))
            sent += 1 << 16

    async with (
        serving(handler) as server,
        AsyncTransport() as transport,
        await transport.post(server.url(), b"", {}, timeouts=Timeouts(idle=60)) as response,
    ):
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.05)
        assert sent < size // 2
        taken = sum([len(chunk) async for chunk in response.chunks()])
    assert taken == size


async def test_a_large_request_waits_for_a_slow_server():
    body = bytes(range(256)) * (1 << 16)
    read_on = asyncio.Event()
    got: list[bytes] = []

    async def handler(peer: Peer) -> None:
        await read_on.wait()
        got.append((await peer.request())[1])
        await peer.answer(b"ok")

    async with serving(handler) as server, AsyncTransport() as transport:
        task = asyncio.create_task(post(transport, server.url(), body))
        await asyncio.sleep(0.05)
        assert not task.done()
        read_on.set()
        assert await task == b"ok"
        assert await post(transport, server.url(), b"") == b"ok"
    assert got == [body, b""]


async def test_a_server_that_answers_before_it_has_read_everything_is_heard():
    async def handler(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.answer(b"too much", status=b"413 Too Large")
        await peer.gone()

    body = bytes(32 << 20)
    async with serving(handler) as server, AsyncTransport() as transport:
        async with await transport.post(server.url(), body, {}) as response:
            assert (response.status, await response.read(100)) == (413, b"too much")
        assert await post(transport, server.url()) == b"too much"
    assert server.accepted == 2


async def test_a_server_that_answers_while_it_reads_gets_all_of_the_request():
    body = bytes(range(256)) * (1 << 15)

    async def handler(peer: Peer) -> None:
        head = await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(CHUNKED, b"3\r\none\r\n")
        assert b"Content-Length: %d" % len(body) in head
        assert await peer.reader.readexactly(len(body)) == body
        await peer.send(b"3\r\ntwo\r\n0\r\n\r\n")

    async with serving(handler) as server, AsyncTransport() as transport:
        assert await post(transport, server.url(), body) == b"onetwo"


async def test_two_hundred_streams_run_side_by_side():
    arrived = 0
    everyone = asyncio.Event()

    async def handler(peer: Peer) -> None:
        nonlocal arrived
        _, body = await peer.request()
        arrived += 1
        if arrived == 200:
            everyone.set()
        await everyone.wait()
        await peer.send(CHUNKED)
        for n in range(20):
            piece = b"%b:%d," % (body, n)
            await peer.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        await peer.send(b"0\r\n\r\n")

    async with serving(handler) as server, AsyncTransport() as transport:
        names = [b"%d" % n for n in range(200)]
        answers = await asyncio.gather(*(post(transport, server.url(), name) for name in names))
    assert answers == [b"".join(b"%b:%d," % (name, n) for n in range(20)) for name in names]


async def test_small_packets_leave_at_once():
    async with serving(echo) as server, AsyncTransport() as transport:
        response = await transport.post(server.url(), b"x", {})
        sock = response._connection.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        await response.close()


async def test_an_ipv6_address_works_as_a_host():
    hosts: list[str] = []

    async def handler(peer: Peer) -> None:
        hosts.append((await peer.request())[0].split("\r\n")[1])
        await peer.answer(b"six")

    async with serving(handler, host="::1") as server, AsyncTransport() as transport:
        assert await post(transport, server.url()) == b"six"
    assert hosts == [f"Host: [::1]:{server.port}"]


async def test_a_silent_server_times_out_before_it_answers():
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.gone()

    async with serving(handler) as server, AsyncTransport() as transport:
        with pytest.raises(TimedOut) as caught:
            await transport.post(server.url(), b"", {}, timeouts=Timeouts(idle=0.05))
    assert (caught.value.phase, caught.value.seconds, caught.value.retryable) == (
        "idle",
        0.05,
        True,
    )


async def test_a_silence_in_the_middle_of_an_answer_times_out_and_closes():
    gone = asyncio.Event()

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, b"3\r\none\r\n")
        await peer.gone()
        gone.set()

    async with (
        serving(handler) as server,
        AsyncTransport() as transport,
        await transport.post(server.url(), b"", {}, timeouts=Timeouts(idle=0.4)) as response,
    ):
        chunks = response.chunks()
        assert await anext(chunks) == b"one"
        with pytest.raises(TimedOut, match=r"silent for 0\.4 s"):
            await anext(chunks)
        await gone.wait()


async def test_a_server_that_stops_reading_times_out():
    async def handler(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await asyncio.Event().wait()

    async with serving(handler) as server, AsyncTransport() as transport:
        with pytest.raises(TimedOut) as caught:
            await transport.post(server.url(), bytes(32 << 20), {}, timeouts=Timeouts(idle=0.2))
    assert caught.value.phase == "idle"


@pytest.mark.parametrize("begun", [b"HTTP/1.1 200 OK\r\nx: ", CHUNKED + b"1;x="])
async def test_dripping_what_is_no_answer_is_silence(begun: bytes):
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(begun)
        while True:
            await peer.send(b"x")
            await asyncio.sleep(0.01)

    async with serving(handler) as server, AsyncTransport() as transport:
        with pytest.raises(TimedOut) as caught:
            async with await transport.post(
                server.url(), b"", {}, timeouts=Timeouts(idle=0.2)
            ) as response:
                await response.read(1)
    assert caught.value.phase == "idle"


async def test_steady_drops_are_no_silence_but_end_at_the_total():
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        while True:
            await peer.send(b"1\r\n.\r\n")
            await asyncio.sleep(0.01)

    limits = Timeouts(idle=0.5, total=0.9)
    async with (
        serving(handler) as server,
        AsyncTransport() as transport,
        await transport.post(server.url(), b"", {}, timeouts=limits) as response,
    ):
        with pytest.raises(TimedOut) as caught:
            await response.read(1 << 20)
    assert caught.value.phase == "total"


async def test_a_reader_that_takes_its_time_does_not_time_out():
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, b"3\r\none\r\n")
        await asyncio.sleep(0.7)
        await peer.send(b"3\r\ntwo\r\n0\r\n\r\n")
        await peer.gone()

    async with (
        serving(handler) as server,
        AsyncTransport() as transport,
        await transport.post(server.url(), b"", {}, timeouts=Timeouts(idle=0.5)) as response,
    ):
        await asyncio.sleep(1.1)
        assert await response.read(10) == b"onetwo"


@pytest.mark.parametrize(
    ("limits", "phase"),
    [(Timeouts(connect=0.1), "connect"), (Timeouts(connect=9, total=0.1), "total")],
)
async def test_a_connection_that_does_not_come_about_times_out(limits: Timeouts, phase: str):
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex(address)
        async with AsyncTransport() as transport:
            with pytest.raises(TimedOut) as caught:
                await transport.get(f"http://127.0.0.1:{address[1]}/", {}, timeouts=limits)
        for sock in waiting:
            sock.close()
    assert (caught.value.phase, caught.value.seconds, caught.value.retryable) == (phase, 0.1, True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_port_where_nobody_listens_is_named(host: str):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    async with AsyncTransport() as transport:
        with pytest.raises(ConnectRefused) as caught:
            await transport.get(f"http://{host}:{port}/secret?key=1", {})
    assert not caught.value.retryable
    assert str(caught.value) == (
        f"http://{host}:{port}: no server listens on {host!r}; start it, or check the port"
    )


async def test_a_name_without_an_address_is_named():
    async with AsyncTransport() as transport:
        with pytest.raises(NameNotFound) as caught:
            await transport.get("http://nowhere.invalid/", {})
    assert caught.value.host == "nowhere.invalid"
