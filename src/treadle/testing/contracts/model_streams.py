"""The contract of a model.

Give a subclass a method `open_model` that makes a model out of a server's base URL:

    class TestMyModel(ModelContract):
        def open_model(self, base_url, *, idle):
            return MyModel(base_url, ...)

and run it under pytest-asyncio's auto mode. Every sentence of `Model` is a test, against
a real server on the loopback interface.
"""
# ruff: noqa: D102 - a test's name is its sentence

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

import pytest
from msgspec import Raw, structs

from ...core.entries import Head
from ...core.items import (
    CustomToolCall,
    FunctionCall,
    InputText,
    Item,
    Message,
    Reasoning,
    encode_item,
    text_of,
)
from ...core.specs import SPECS, CustomTool, FunctionTool, TextFormat, ToolSpec, parameters
from ...core.stream import (
    OutputItemAdded,
    OutputItemDone,
    OutputTextDelta,
    ResponseCompleted,
    ResponseIncomplete,
    UnknownEvent,
)
from ...core.usage import TokenUsage
from ...models.contract import (
    AuthFailed,
    Connected,
    ContextOverflow,
    InvalidRequest,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    RateLimited,
    StreamCut,
)
from ..fake import FakeServer
from ..script import Answer, Break, Call, Script, ScriptedError, Tokens
from .answers import (
    collect,
    collect_any,
    collect_failed,
    completion_of,
    done_items,
    done_messages,
    wait_until,
)

__all__ = ["ModelContract"]

_TOOLS: tuple[ToolSpec, ...] = (
    FunctionTool(name="read", description="Reads.", parameters=parameters({})),
    CustomTool(name="patch", description="Patches.", format=TextFormat()),
)


class ModelContract(ABC):
    """What every `Model` must do. Subclass it and say how one is opened."""

    provider = "contract"

    @abstractmethod
    def open_model(self, base_url: str, *, idle: float) -> Model:
        """Open a model at `base_url` with this idle timeout in seconds."""

    async def test_text_is_streamed_and_then_given_whole(self) -> None:
        async with self.open_with_answers(Answer(text="one two three")) as (model, _):
            events = await self.ask(model)
        deltas = [event.delta for event in events if isinstance(event, OutputTextDelta)]
        assert isinstance(events[0], Connected)
        assert events[0].request_id
        assert len(deltas) > 1
        assert "".join(deltas) == "one two three"
        assert [text_of(item.content) for item in done_messages(events)] == ["one two three"]
        assert isinstance(events[-1], ResponseCompleted)

    async def test_items_begin_before_they_are_done(self) -> None:
        answer = Answer(text="a", calls=(Call(name="read"),))
        async with self.open_with_answers(answer) as (model, _):
            events = await self.ask(model)
        order = [type(e) for e in events if isinstance(e, OutputItemAdded | OutputItemDone)]
        assert order == [OutputItemAdded, OutputItemDone] * 2

    async def test_calls_come_in_order_with_their_arguments_whole(self) -> None:
        answer = Answer(
            calls=(
                Call(name="read", arguments={"path": "a b.txt"}, id="call_1"),
                Call(name="read", arguments={}, id="call_2"),
                Call(name="patch", input='add "é"\n\\ 😀', id="call_3"),
            )
        )
        async with self.open_with_answers(answer) as (model, _):
            events = await self.ask(model)
        calls = [
            item for item in done_items(events) if isinstance(item, FunctionCall | CustomToolCall)
        ]
        assert [structs.replace(call, id=None) for call in calls] == [
            FunctionCall(name="read", arguments='{"path":"a b.txt"}', call_id="call_1"),
            FunctionCall(name="read", arguments="{}", call_id="call_2"),
            CustomToolCall(name="patch", input='add "é"\n\\ 😀', call_id="call_3"),
        ]

    async def test_reasoning_comes_before_the_answer_and_can_be_sent_back(self) -> None:
        answers = Answer(reasoning="first this", text="then that"), Answer(text="ok")
        async with self.open_with_answers(*answers) as (model, server):
            items = done_items(await self.ask(model))
            await collect(model, self.request(model, items))
        assert [type(item) for item in items] == [Reasoning, Message]
        assert b"first this" in server.requests[-1].body

    async def test_usage_counts_cached_tokens_in(self) -> None:
        tokens = Tokens(input=100, cached=60, output=20, reasoning=5)
        async with self.open_with_answers(Answer(text="x", usage=tokens)) as (model, _):
            events = await self.ask(model)
        usage = completion_of(events).usage
        assert usage is not None
        assert structs.replace(usage, cache_write_input_tokens=None) == TokenUsage(
            input_tokens=100,
            cached_input_tokens=60,
            output_tokens=20,
            reasoning_output_tokens=5,
            total_tokens=120,
        )

    async def test_a_request_too_large_is_an_overflow(self) -> None:
        failure = ScriptedError(
            status=400,
            code="invalid_request_error",
            message="prompt is too long: 9 tokens > 5 maximum",
        )
        await self._fails(Answer(error=failure), ContextOverflow)

    async def test_an_overflow_inside_the_stream_is_one_too(self) -> None:
        failure = ScriptedError(code="context_length_exceeded", message="too much")
        await self._fails(Answer(error=failure), ContextOverflow)

    async def test_a_rate_limit_may_pass_and_is_left_to_who_asks(self) -> None:
        failure = ScriptedError(status=429, code="rate_limit_exceeded", message="slow down")
        error = await self._fails(Answer(error=failure), RateLimited)
        assert (error.retryable, error.retry_after, error.status) == (True, None, 429)

    async def test_a_rate_limit_says_when_to_ask_again(self) -> None:
        failure = ScriptedError(status=429, message="slow down", headers={"retry-after": "7"})
        error = await self._fails(Answer(error=failure), RateLimited)
        assert (error.retryable, error.retry_after) == (True, 7.0)

    async def test_a_server_error_is_raised_after_one_request(self) -> None:
        failure = ScriptedError(status=500, message="oops", headers={"retry-after": "0"})
        error = await self._fails(Answer(error=failure, times=0), ModelError)
        assert (error.retryable, error.status) == (True, 500)

    async def test_a_refused_key_is_told_without_being_shown(self) -> None:
        failure = ScriptedError(
            status=401, code="invalid_api_key", message="Incorrect key: sk-verysecretkey123"
        )
        error = await self._fails(Answer(error=failure), AuthFailed)
        assert "verysecret" not in str(error)
        assert "verysecret" not in repr(error)

    async def test_a_refused_request_is_not_tried_again(self) -> None:
        failure = ScriptedError(status=400, code="invalid_request_error", message="no such field")
        error = await self._fails(Answer(error=failure), InvalidRequest)
        assert "no such field" in str(error)

    async def test_a_cut_anywhere_keeps_the_items_that_were_complete(self) -> None:
        calls = (Call(name="read", id="call_1"), Call(name="read", id="call_2"))
        answer = Answer(reasoning="hm", text="one two", calls=calls)
        async with self.open_with_answers(answer) as (model, _):
            whole = done_items(await self.ask(model))
        kept: set[int] = set()
        for at in itertools.count(1, 61):
            cut = structs.replace(answer, cut=Break(bytes=at))
            async with self.open_with_answers(cut) as (model, server):
                events, error = await collect_any(model, self.request(model))
            items = done_items(events)
            assert items == whole[: len(items)]
            kept.add(len(items))
            if error is None:
                break
            assert (type(error), error.retryable, len(server.requests)) == (StreamCut, True, 1)
        assert kept == {0, 1, 2, 3, 4}

    async def test_silence_is_a_cut(self) -> None:
        answer = Answer(text="one two three", stall=Break(events=3))
        async with self.open_with_answers(answer, idle=0.2) as (model, server):
            _, error = await collect_failed(model, self.request(model))
            await wait_until(lambda: server.hung_up == 1)
        assert isinstance(error, StreamCut)
        assert (error.retryable, error.code) == (True, "idle_timeout")

    async def test_cancelling_closes_the_connection(self) -> None:
        answer = Answer(text="one two three", stall=Break(events=3))
        async with self.open_with_answers(answer) as (model, server):
            task = asyncio.ensure_future(self.ask(model))
            await wait_until(lambda: bool(server.requests))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await wait_until(lambda: server.hung_up == 1)

    async def test_closing_the_iterator_closes_the_connection(self) -> None:
        answer = Answer(text="one two three", stall=Break(events=3))
        async with self.open_with_answers(answer) as (model, server):
            async with aclosing(model.stream(self.request(model))) as batches:
                assert await anext(batches)
            await wait_until(lambda: server.hung_up == 1)

    async def test_an_answer_cut_short_is_told_with_what_it_said(self) -> None:
        async with self.open_with_answers(Answer(text="half an ans", stop="length")) as (model, _):
            events, error = await collect_failed(model, self.request(model))
        assert isinstance(events[-1], ResponseIncomplete)
        assert (events[-1].reason, error.code, error.retryable) == (
            "max_output_tokens",
            "max_output_tokens",
            False,
        )
        assert [text_of(item.content) for item in done_messages(events)] == ["half an ans"]

    async def test_events_of_unknown_kind_change_nothing(self) -> None:
        strange = {"type": "from.the.future", "choices": "many", "delta": 7, "index": "x"}
        answer = Answer(text="still here", events=(strange,))
        async with self.open_with_answers(answer) as (model, _):
            events = await self.ask(model)
        assert any(isinstance(event, UnknownEvent) for event in events)
        assert [text_of(item.content) for item in done_messages(events)] == ["still here"]

    async def test_connections_are_kept_between_requests(self) -> None:
        async with self.open_with_answers(Answer(text="x", times=0)) as (model, server):
            for _ in range(5):
                await self.ask(model)
        assert server.connections == 1

    async def test_200_streams_at_once_all_arrive(self) -> None:
        answer = Answer(text="a few words in a row", pace=0.005, times=0)
        async with self.open_with_answers(answer) as (model, server):
            answers = await asyncio.gather(*(self.ask(model) for _ in range(200)))
        assert len(server.requests) == 200
        assert {text_of(done_messages(events)[0].content) for events in answers} == {
            "a few words in a row"
        }

    async def _fails(self, answer: Answer, kind: type[ModelError]) -> ModelError:
        async with self.open_with_answers(answer) as (model, server):
            _, error = await collect_failed(model, self.request(model))
        assert isinstance(error, kind)
        assert error.request_id
        assert len(server.requests) == 1, "whoever asks decides about asking again"
        return error

    @asynccontextmanager
    async def open_with_answers(
        self, *answers: Answer, idle: float = 30.0
    ) -> AsyncIterator[tuple[Model, FakeServer]]:
        """Open a model, and the server that answers it."""
        async with FakeServer(Script(answers=answers)) as server:
            model = self.open_model(server.base_url, idle=idle)
            try:
                yield model, server
            finally:
                await model.close()

    async def ask(self, model: Model) -> list[ModelEvent]:
        """Return every event of the answer to a small request."""
        return await collect(model, self.request(model))

    def request(self, model: Model, items: Sequence[Item] = ()) -> ModelRequest:
        """Return a small request in the model's format."""
        tools = tuple(Raw(SPECS.encode(tool)) for tool in _TOOLS)
        head = Head(provider=self.provider, api=model.format.name, model="m", tools=tools)
        opening = b"".join(part for _, part in model.format.head_parts(head, "key"))
        writer = model.format.writer(head)
        asked = Message(role="user", content=(InputText("hello"),))
        put = b"".join(writer.write(encode_item(item)) for item in (asked, *items))
        return ModelRequest(head=head, body=opening + put + writer.closing(), thread="thr_1")
