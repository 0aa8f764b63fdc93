from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from treadle.harness.codex.errors import (
    CodexProtocolError,
    Disconnected,
    Overloaded,
    RequestFailed,
    RequestTimeout,
    UnknownMethod,
)
from treadle.harness.codex.framing import LineBuffer
from treadle.harness.codex.protocol.client_requests import InjectItems, StartThread
from treadle.harness.codex.protocol.notifications import (
    Notification,
    RawItemNotification,
    ThreadStatusNotification,
    TurnDiffNotification,
    WarningNotification,
)
from treadle.harness.codex.protocol.server_requests import (
    ApprovalReply,
    ClientReply,
    ServerRequest,
    ToolCallReply,
    ToolCallRequest,
    ToolTextPart,
)
from treadle.harness.codex.protocol.types import CodexThreadStatus
from treadle.harness.codex.server_connection import MAX_IN_FLIGHT, IgnoredMessages
from treadle.models.retry import Backoff

from .peer import Peer, connect_peer

FOUND = ToolCallReply(content_items=(ToolTextPart(text="found"),), success=True)
REFUSED = {"code": -32603, "message": "the client could not answer"}


async def found(_: ServerRequest) -> ClientReply:
    return FOUND


def call(request: int | str = 0, thread: str = "t", turn: str = "u") -> dict[str, object]:
    params = {"threadId": thread, "turnId": turn, "callId": "c", "tool": "f", "arguments": {}}
    return {"id": request, "method": "item/tool/call", "params": params}


def diff(text: str, thread: str = "t") -> dict[str, object]:
    params = {"threadId": thread, "turnId": "u", "diff": text}
    return {"method": "turn/diff/updated", "params": params}


async def test_answers_find_their_requests_in_any_order():
    async with connect_peer() as (connection, peer):
        asked = [asyncio.create_task(connection.request("m", n, int)) for n in range(3)]
        heard = [await peer.hear() for _ in asked]
        for message in reversed(heard):
            peer.say({"id": message["id"], "result": message["params"] * 10})
        assert await asyncio.gather(*asked) == [0, 10, 20]


async def test_a_request_without_an_answer_fails_by_name_and_its_late_answer_is_ignored():
    async with connect_peer() as (connection, peer):
        with pytest.raises(RequestTimeout, match=r"did not answer 'slow/method' within 0\.01 s"):
            await connection.request("slow/method", {}, dict, seconds=0.01)
        await peer.answer()
        after = asyncio.create_task(connection.request("m", {}, dict))
        await peer.answer()
        assert await after == {}
        assert connection.ignored == IgnoredMessages(unknown_results=1)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": -32600, "message": "thread not found: t"}, RequestFailed),
        ({"code": -32601, "message": "no such method"}, UnknownMethod),
        (
            {"code": -32600, "message": "Invalid request: unknown variant `m`, expected"},
            UnknownMethod,
        ),
    ],
)
async def test_an_error_answer_is_raised_with_its_code(error, kind):
    async with connect_peer() as (connection, peer):
        asked = asyncio.create_task(connection.request("m", {}, dict))
        request = await peer.hear()
        peer.say({"id": request["id"], "error": error})
        with pytest.raises(RequestFailed) as raised:
            await asked
        assert (type(raised.value), raised.value.code) == (kind, error["code"])


async def test_an_answer_in_another_shape_is_a_protocol_error():
    async with connect_peer() as (connection, peer):
        asked = asyncio.create_task(connection.request("m", {}, int))
        await peer.answer("text")
        with pytest.raises(CodexProtocolError, match="answered 'm' in another shape"):
            await asked


class Waits:
    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def backoff(self, retries: int) -> Backoff:
        return Backoff(retries=retries, base=1.0, jitter=0.0, sleep=self)


async def overloaded(peer: Peer, times: int) -> None:
    for _ in range(times):
        request = await peer.hear()
        peer.say({"id": request["id"], "error": {"code": -32001, "message": "busy"}})


async def test_overload_is_backed_off_with_growing_waits():
    waits = Waits()
    async with connect_peer(backoff=waits.backoff(5)) as (connection, peer):
        asked = asyncio.create_task(connection.request("m", {}, dict))
        await overloaded(peer, 3)
        await peer.answer({"done": True})
        assert await asked == {"done": True}
        assert waits.seconds == [1.0, 2.0, 4.0]


async def test_overload_that_does_not_pass_is_told():
    waits = Waits()
    async with connect_peer(backoff=waits.backoff(2)) as (connection, peer):
        asked = asyncio.create_task(connection.request("m", {}, dict))
        await overloaded(peer, 3)
        with pytest.raises(Overloaded, match=r"refused 'm' \(-32001\): busy"):
            await asked


async def test_no_more_than_a_hundred_requests_are_in_flight():
    async with connect_peer() as (connection, peer):
        asked = [asyncio.create_task(connection.request("m", {}, dict)) for _ in range(250)]
        most = answered = 0
        held: list[int] = []
        while answered < len(asked):
            held.append((await peer.hear())["id"])
            most = max(most, len(held))
            if len(held) + answered == len(asked) or len(held) == MAX_IN_FLIGHT:
                for request in held:
                    peer.say({"id": request, "result": {}})
                answered += len(held)
                held.clear()
        await asyncio.gather(*asked)
        assert most == MAX_IN_FLIGHT


async def test_the_end_of_the_stream_fails_what_is_unanswered_and_what_comes_later():
    async with connect_peer() as (connection, peer):
        asked = [asyncio.create_task(connection.request("m", {}, dict)) for _ in range(3)]
        for _ in asked:
            await peer.hear()
        peer.writer.close()
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(end) for end in ends] == [Disconnected] * 3
        with pytest.raises(Disconnected, match="closed the connection"):
            await connection.request("m", {}, dict)


async def test_what_cannot_be_read_is_counted_and_passed_over():
    async with connect_peer() as (connection, peer):
        peer.say(
            b"no json",
            b'{"cut":',
            b"",
            [{"method": "batch"}],
            {"nothing": "known"},
            {"id": 99, "result": {}},
            {"method": "thing/unheard", "params": {}},
            {"method": "turn/started", "params": {"threadId": 7}},
            {"method": "turn/started"},
        )
        asked = asyncio.create_task(connection.request("m", {}, dict))
        await peer.answer()
        assert await asked == {}
        assert connection.ignored == IgnoredMessages(
            malformed=5, batches=1, unknown_notifications=1, unknown_results=1
        )


async def test_lines_of_many_megabytes_pass_both_ways():
    async with connect_peer() as (connection, peer):
        text = "ü" * 3_000_000
        item = Raw(b'{"text":"%s"}' % text.encode())
        asked = asyncio.create_task(
            connection.call(InjectItems(thread_id="t", items=(item,)), seconds=60)
        )
        request = await peer.answer()
        await asked
        assert request["params"]["items"] == [{"text": text}]
        events = connection.subscribe("t", found)
        peer.say(diff(text))
        assert await anext(events) == TurnDiffNotification(thread_id="t", turn_id="u", diff=text)


async def test_a_line_beyond_the_maximum_ends_the_connection():
    async with connect_peer(longest_line=1000) as (connection, peer):
        asked = asyncio.create_task(connection.request("m", {}, dict))
        await peer.hear()
        peer.say(b"x" * 1001)
        with pytest.raises(CodexProtocolError, match="a line of more than 1000 bytes"):
            await asked


async def test_a_call_begins_only_when_all_before_it_was_taken():
    log: list[str] = []

    async def handler(ask: ServerRequest) -> ClientReply:
        assert isinstance(ask, ToolCallRequest)
        log.append("call")
        return FOUND

    async with connect_peer() as (connection, peer):
        events = connection.subscribe("t", handler)
        raw = {"threadId": "t", "turnId": "u", "item": {"type": "function_call"}}
        peer.say({"method": "rawResponseItem/completed", "params": raw}, call(), diff("after"))
        first = await anext(events)
        assert isinstance(first, RawItemNotification)
        await asyncio.sleep(0)
        log.append("raw item written")
        assert await anext(events) == TurnDiffNotification(thread_id="t", turn_id="u", diff="after")
        assert await peer.hear() == {
            "id": 0,
            "result": {"contentItems": [{"type": "inputText", "text": "found"}], "success": True},
        }
        assert log == ["raw item written", "call"]


async def test_calls_of_one_thread_run_side_by_side():
    both = asyncio.Barrier(2)

    async def handler(_: ServerRequest) -> ClientReply:
        await both.wait()
        return FOUND

    async with connect_peer() as (connection, peer):
        events = connection.subscribe("t", handler)
        peer.say(call(0), call("one"), diff("end"))
        await anext(events)
        assert {(await peer.hear())["id"] for _ in range(2)} == {0, "one"}


async def test_threads_do_not_hear_of_each_other():
    async with connect_peer() as (connection, peer):
        one, two = connection.subscribe("one", found), connection.subscribe("two", found)
        for n in range(50):
            peer.say(diff(f"a{n}", "one"), diff(f"b{n}", "two"), diff("lost", "three"))
        first = [await anext(one) for _ in range(50)]
        second = [await anext(two) for _ in range(50)]
        assert [each.diff for each in first if isinstance(each, TurnDiffNotification)] == [
            f"a{n}" for n in range(50)
        ]
        assert [each.diff for each in second if isinstance(each, TurnDiffNotification)] == [
            f"b{n}" for n in range(50)
        ]


async def test_what_a_handler_raises_is_answered_without_its_text():
    async def handler(_: ServerRequest) -> ClientReply:
        raise ValueError("the password is hunter2")

    async with connect_peer() as (connection, peer):
        events = connection.subscribe("t", handler)
        peer.say(call(), diff("end"))
        await anext(events)
        assert await peer.hear() == {"id": 0, "error": REFUSED}


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"id": 1, "method": "some/thing", "params": {"threadId": "t"}}, -32601),
        ({"id": 1, "method": "item/tool/call", "params": {"threadId": "t"}}, -32602),
        (call(1, thread="nobody"), -32603),
    ],
)
async def test_what_nobody_can_answer_is_answered_with_an_error(request_, code):
    async with connect_peer() as (connection, peer):
        connection.subscribe("t", found)
        peer.say(request_)
        answer = await peer.hear()
        assert (answer["id"], answer["error"]["code"]) == (1, code)


async def test_closing_a_subscription_answers_what_is_still_asked():
    begun = asyncio.Event()
    ended: list[str] = []

    async def handler(_: ServerRequest) -> ClientReply:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return FOUND

    async with connect_peer() as (connection, peer):
        async with connection.subscribe("t", handler) as events:
            peer.say(call(0), diff("one"), call(1), diff("two"))
            await anext(events)
            await begun.wait()
            answer = asyncio.create_task(connection.request("m", {}, dict))
            await peer.answer()
            await answer
        assert ended == ["cancelled"]
        heard = [await peer.hear() for _ in range(2)]
        assert {message["id"] for message in heard} == {0, 1}
        assert [message["error"] for message in heard] == [REFUSED, REFUSED]
        with pytest.raises(StopAsyncIteration):
            await anext(events)


@pytest.mark.parametrize(
    "settling",
    [
        {"method": "serverRequest/resolved", "params": {"threadId": "t", "requestId": 0}},
        {
            "method": "turn/completed",
            "params": {"threadId": "t", "turn": {"id": "u", "status": "interrupted"}},
        },
    ],
)
async def test_a_settled_ask_is_withdrawn_and_not_answered(settling):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def handler(_: ServerRequest) -> ClientReply:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return FOUND

    async with connect_peer() as (connection, peer):
        events = connection.subscribe("t", handler)
        peer.say(call(), diff("one"))
        await anext(events)
        await begun.wait()
        peer.say(settling)
        await anext(events)
        await ended.wait()
        after = asyncio.create_task(connection.request("next", {}, dict))
        assert (await peer.answer())["method"] == "next"
        await after


async def test_no_handler_outlives_its_closed_subscription_when_the_connection_is_gone():
    begun = asyncio.Event()
    ended: list[str] = []

    async def handler(_: ServerRequest) -> ClientReply:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.append("tidied up")
        return FOUND

    async with connect_peer() as (connection, peer):
        events = connection.subscribe("t", handler)
        peer.say(call(), diff("one"))
        await anext(events)
        await begun.wait()
        peer.writer.close()
        await connection.wait_ended()
        await events.close()
        assert ended == ["tidied up"]


async def test_what_is_about_no_thread_goes_to_the_listener_even_if_it_fails_once():
    heard: list[Notification] = []

    def listener(notification: Notification) -> None:
        heard.append(notification)
        if len(heard) == 1:
            raise RuntimeError("no")

    async with connect_peer(listener=listener) as (connection, peer):
        events = connection.subscribe("t", found)
        about = {"method": "warning", "params": {"message": "mine", "threadId": "t"}}
        peer.say(*({"method": "warning", "params": {"message": m}} for m in ("a", "b")), about)
        assert await anext(events) == WarningNotification(message="mine", thread_id="t")
        assert heard == [WarningNotification(message="a"), WarningNotification(message="b")]


async def test_an_opened_thread_is_heard_from_its_first_event_on():
    async with connect_peer() as (connection, peer):
        opening = asyncio.create_task(connection.open_thread(StartThread(), found))
        request = await peer.hear()
        # One write, so that both are read before the opener runs.
        peer.writer.write(
            b'{"id":%d,"result":{"thread":{"id":"new"}}}\n'
            b'{"method":"thread/status/changed","params":'
            b'{"threadId":"new","status":{"type":"idle"}}}\n' % request["id"]
        )
        opened, events = await opening
        assert opened.thread.id == "new"
        expected = ThreadStatusNotification(thread_id="new", status=CodexThreadStatus(type="idle"))
        assert await anext(events) == expected


async def test_a_newer_subscription_takes_the_place_of_the_older():
    async with connect_peer() as (connection, peer):
        older = connection.subscribe("t", found)
        newer = connection.subscribe("t", found)
        peer.say(diff("one"))
        assert await anext(newer) == TurnDiffNotification(thread_id="t", turn_id="u", diff="one")
        with pytest.raises(StopAsyncIteration):
            await anext(older)
        await older.close()
        peer.say(diff("two"))
        assert await anext(newer) == TurnDiffNotification(thread_id="t", turn_id="u", diff="two")


async def test_events_before_the_end_are_taken_before_the_end_is_told():
    async with connect_peer() as (connection, peer):
        events = connection.subscribe("t", found)
        peer.say(diff("one"), diff("two"))
        await peer.writer.drain()
        peer.writer.close()
        await connection.wait_ended()
        taken = [await anext(events), await anext(events)]
        assert [each.diff for each in taken if isinstance(each, TurnDiffNotification)] == [
            "one",
            "two",
        ]
        for _ in range(2):
            with pytest.raises(Disconnected):
                await anext(events)
        with pytest.raises(Disconnected):
            await anext(connection.subscribe("late", found))


async def test_a_cancelled_request_leaves_nothing_behind():
    async with connect_peer() as (connection, peer):
        asked = asyncio.create_task(connection.request("m", {}, dict))
        await peer.hear()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        after = asyncio.create_task(connection.request("m", {}, int))
        await peer.answer(7)
        assert await after == 7


async def test_a_decision_is_sent_as_codex_spells_it():
    async def handler(_: ServerRequest) -> ClientReply:
        return ApprovalReply(decision="acceptForSession")

    async with connect_peer() as (connection, peer):
        events = connection.subscribe("t", handler)
        params = {"threadId": "t", "turnId": "u", "itemId": "i", "command": "ls"}
        method = "item/commandExecution/requestApproval"
        peer.say({"id": 5, "method": method, "params": params}, diff("end"))
        await anext(events)
        assert await peer.hear() == {"id": 5, "result": {"decision": "acceptForSession"}}


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(0, 200)))
def test_lines_are_the_same_however_they_are_cut(parts, cuts):
    stream = b"".join(part.replace(b"\n", b"") + b"\n" for part in parts)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    buffer = LineBuffer()
    lines = [line for a, b in pairwise(edges) for line in buffer.feed(stream[a:b])]
    assert lines == [line for line in stream.split(b"\n") if line.strip()]
