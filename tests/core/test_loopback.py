from __future__ import annotations

import asyncio

from inline_snapshot import snapshot

from treadle.core.items import Message, OutputText
from treadle.core.loopback import (
    LoopbackRequest,
    LoopbackResponse,
    LoopbackServer,
    stream_response,
    text_response,
)
from treadle.core.stream import OutputItemDone, ResponseCompleted, ResponseCreated, decode_event


async def exchange(server: LoopbackServer, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    if not request:
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def post(body: bytes) -> bytes:
    head = b"POST /v1/responses?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body)
    return head + body


async def test_a_post_is_recorded_and_gets_the_scripted_stream():
    async with LoopbackServer(
        lambda _: stream_response([{"type": "a", "n": 1}, {"type": "b"}])
    ) as server:
        answer = await exchange(server, post(b'{"model":"m"}'))
    assert answer.decode() == snapshot("""\
HTTP/1.1 200 Scripted\r
content-type: text/event-stream\r
connection: close\r
\r
event: a
data: {"type":"a","n":1}

event: b
data: {"type":"b"}

""")
    assert server.requests == [
        LoopbackRequest(
            "POST", "/v1/responses", {"host": "h", "content-length": "13"}, b'{"model":"m"}'
        )
    ]
    assert server.requests[0].payload == {"model": "m"}


async def test_a_script_may_take_its_time():
    async def script(request: LoopbackRequest) -> LoopbackResponse:
        await asyncio.sleep(0)
        return LoopbackResponse(status=503, headers={"retry-after": request.payload["after"]})

    async with LoopbackServer(script) as server:
        answer = await exchange(server, post(b'{"after":"7"}'))
    assert answer.startswith(b"HTTP/1.1 503 Scripted\r\nretry-after: 7\r\n")


async def test_other_paths_are_recorded_and_not_found():
    async with LoopbackServer(lambda _: LoopbackResponse()) as server:
        answer = await exchange(server, b"GET /v1/models HTTP/1.1\r\nhost: h\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert [(r.method, r.path) for r in server.requests] == [("GET", "/v1/models")]


async def test_a_client_that_leaves_does_not_stop_the_server():
    async with LoopbackServer(lambda _: text_response("hi")) as server:
        assert await exchange(server, b"") == b""
        assert b"hi" in await exchange(server, post(b"{}"))


async def test_closing_does_not_wait_for_a_script_that_hangs():
    asked = asyncio.Event()

    async def script(_: LoopbackRequest) -> LoopbackResponse:
        asked.set()
        await asyncio.Event().wait()
        return LoopbackResponse()

    async with LoopbackServer(script) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(post(b"{}"))
        await asked.wait()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


def test_a_text_answer_is_a_whole_response():
    chunks = text_response("hello", response_id="r", total_tokens=9).chunks
    events = [decode_event(chunk.split(b"data: ")[1]) for chunk in chunks]
    assert [type(event) for event in events] == [ResponseCreated, OutputItemDone, ResponseCompleted]
    _, done, completed = events
    assert isinstance(done, OutputItemDone)
    assert done.item == Message(id="msg_r", role="assistant", content=(OutputText("hello"),))
    assert isinstance(completed, ResponseCompleted)
    assert completed.usage is not None
    assert (completed.response.id, completed.usage.total_tokens) == ("r", 9)
