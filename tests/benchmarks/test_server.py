from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from benchmarks.peers.answers import ANSWER, DELTAS, Api, Call, Reply, answer, reply
from benchmarks.peers.server import Instant, Notes, reading, shared_prefix
from hypothesis import given
from hypothesis import strategies as st


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Notes, int]]:
    notes = Notes()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Instant(notes), "127.0.0.1", 0)
    async with server:
        yield notes, server.sockets[0].getsockname()[1]


def post(path: str, body: bytes) -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: x\r\ncontent-length: %d\r\n\r\n%b" % (
        path.encode(),
        len(body),
        body,
    )


async def asked(port: int, *pieces: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
    writer.write_eof()
    got = await reader.read()
    writer.close()
    await writer.wait_closed()
    return got


def events(api: Api, script: str, number: int) -> list[dict[str, object]]:
    _, _, body = answer(script, number, api).partition(b"\r\n\r\n")
    found = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        chunk, body = rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        data = chunk.partition(b"data: ")[2].strip()
        if data and data != b"[DONE]":
            found.append(json.loads(data))
    return found


def test_a_script_of_calls_ends_in_words():
    called = Reply(calls=(Call("call_2", "tick", '{"number": 1999999}'),))
    assert [reply("tick-2", number) for number in (2, 3)] == [called, Reply((ANSWER,))]


def test_long_answers_come_every_second_time():
    assert [len(reply("deltas", number).pieces) for number in (1, 2, 3, 4)] == [
        1,
        DELTAS,
        1,
        DELTAS,
    ]


def test_an_ending_calls_what_ends_it():
    assert [call.name for call in reply("text.final", 1).calls] == ["final_answer"]
    assert [call.name for call in reply("tick-1.final", 1).calls] == ["tick"]


def test_a_responses_stream_tells_the_item_it_announced():
    told = events("responses", "tick-1", 1)
    done = next(each["item"] for each in told if each["type"] == "response.output_item.done")
    assert [each["sequence_number"] for each in told] == list(range(len(told)))
    assert (told[0]["type"], told[-1]["type"]) == ("response.created", "response.completed")
    assert told[-1]["response"]["output"] == [done]  # type: ignore[index]


def test_a_chat_stream_says_the_same_words():
    told = events("chat", "deltas", 2)
    said = "".join(
        choice["delta"].get("content", "")
        for each in told
        for choice in each["choices"]  # type: ignore[attr-defined]
    )
    assert said == "".join(reply("deltas", 2).pieces)


@pytest.mark.parametrize("cut", [1, 30, 75, 90])
async def test_a_request_in_pieces_is_answered_once_it_is_whole(cut: int):
    request = post("/k/text/v1/responses", b'{"input":[{"a":1}]}')
    async with served() as (notes, port):
        got = await asked(port, request[:cut], request[cut:])
    assert got == answer("text", 1, "responses")
    assert [each.body for each in notes.under("k")] == [b'{"input":[{"a":1}]}']


async def test_requests_of_one_connection_are_counted_by_their_key():
    requests = [
        post(f"/{key}/tick-1/v1/chat/completions", b'{"messages":[]}') for key in ("a", "a", "b")
    ]
    async with served() as (_, port):
        got = [await asked(port, request) for request in requests]
    assert got == [answer("tick-1", number, "chat") for number in (1, 2, 1)]


async def test_notes_tell_what_requests_share_and_are_handed_out_once():
    bodies = [b'{"input":[{"a":1}],"tools":[]}', b'{"input":[{"a":1},{"b":2}],"tools":[]}']
    async with served() as (notes, port):
        for body in bodies:
            await asked(port, post("/k/text/v1/responses", body))
        first, second = notes.handed_out("k")
        assert notes.handed_out("k") == []
    assert first["arrived"] <= first["began"] <= first["done"] < second["arrived"]
    assert (second["bytes"], second["shared"]) == (len(bodies[1]), len(b'{"input":[{"a":1}'))
    assert second["kept"] == first["read"]


async def test_notes_tell_how_many_results_a_request_brings():
    body = b'{"input":[{"output":"2000000"},{"output":"unknown tool"}]}'
    async with served() as (notes, port):
        await asked(port, post("/k/tick-2/v1/responses", body))
        await asked(port, post("/l/text/v1/responses", body))
        assert [notes.handed_out(key)[0]["results"] for key in ("k", "l")] == [1, 0]


def test_a_model_reads_tools_and_instructions_before_the_items():
    body = b'{"input":[{"x":1},{"y":2}],"model":"m","instructions":"i","tools":[]}'
    assert reading(body) == b'[]\n"i"\n{"x":1}\n{"y":2}'


@given(st.binary(max_size=40_000), st.binary(max_size=9), st.binary(max_size=9))
def test_a_shared_prefix_is_the_longest(common: bytes, first: bytes, second: bytes):
    a, b = common + first, common + second
    shared = shared_prefix(a, b)
    assert a[:shared] == b[:shared]
    assert shared == min(len(a), len(b)) or a[shared] != b[shared]
