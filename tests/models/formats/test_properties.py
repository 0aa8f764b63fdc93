from __future__ import annotations

from itertools import accumulate
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.items import Item, encode_item
from treadle.models.contract import WireFormat
from treadle.models.formats import format_named

from .samples import body, head, opening, steps

APIS = ("responses", "chat", "messages")


@pytest.fixture(params=APIS)
def wire(request: pytest.FixtureRequest) -> WireFormat:
    return format_named(request.param)


def written(wire: WireFormat, items: list[Item]) -> bytes:
    writer = wire.writer(head(wire.name))
    return b"".join(writer.write(encode_item(item)) for item in items)


@pytest.mark.parametrize("api", APIS)
@given(made=steps())
def test_a_longer_conversation_starts_with_the_bytes_of_the_shorter(
    api: str, made: list[list[Item]]
):
    wire, asked = format_named(api), head(api)
    start = opening(wire, asked)
    for shorter, longer in zip(
        list(accumulate(made, lambda a, b: [*a, *b]))[:-1],
        list(accumulate(made, lambda a, b: [*a, *b]))[1:],
        strict=True,
    ):
        assert body(wire, asked, longer).startswith(start + written(wire, shorter))


@pytest.mark.parametrize("api", APIS)
@given(made=steps(), at=st.integers(0, 40))
def test_a_copy_goes_on_like_the_writer_it_came_from(api: str, made: list[list[Item]], at: int):
    wire = format_named(api)
    items = [encode_item(item) for step in made for item in step]
    writer = wire.writer(head(api))
    before = b"".join(map(writer.write, items[:at]))
    copy = writer.copy()
    alone = before + b"".join(map(copy.write, items[at:])) + copy.closing()
    closed_before = writer.closing()
    assert writer.closing() == closed_before
    assert before + b"".join(map(writer.write, items[at:])) + writer.closing() == alone


@pytest.mark.parametrize("api", APIS)
@given(made=steps())
def test_every_body_is_json_with_the_items_last(api: str, made: list[list[Item]]):
    wire = format_named(api)
    data = msgspec.json.decode(body(wire, head(api), [item for step in made for item in step]))
    assert list(data)[-1] == ("input" if api == "responses" else "messages")


@given(made=steps())
def test_chat_has_the_results_of_calls_directly_behind_them(made: list[list[Item]]):
    items = [item for step in made for item in step]
    messages = msgspec.json.decode(body(format_named("chat"), head("chat"), items))["messages"]
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert waiting == []
            waiting = [each["id"] for each in message.get("tool_calls", ())]
            assert "content" in message
    assert waiting == []


@given(made=steps())
def test_messages_has_results_first_behind_their_calls_and_roles_that_alternate(
    made: list[list[Item]],
):
    items = [item for step in made for item in step]
    asked = head("messages")
    messages = msgspec.json.decode(body(format_named("messages"), asked, items))["messages"]
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    waiting: list[str] = []
    for message in messages:
        results = _results(message)
        assert sorted(results) == sorted(waiting)
        kinds = [block["type"] for block in message["content"]]
        assert kinds[: len(results)] == ["tool_result"] * len(results)
        waiting = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    assert waiting == []


@given(made=steps())
def test_no_call_and_no_output_is_lost(made: list[list[Item]]):
    items = [item for step in made for item in step]
    calls = sum(getattr(item, "call_id", None) is not None for item in items)
    chat = msgspec.json.decode(body(format_named("chat"), head("chat"), items))["messages"]
    told = sum(len(message.get("tool_calls", ())) for message in chat)
    assert told + sum(message["role"] == "tool" for message in chat) == calls


def _results(message: Any) -> list[str]:
    return [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
