from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from treadle.core.entries import Head
from treadle.core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputText,
    Item,
    Message,
    encode_item,
)
from treadle.core.specs import SPECS, CustomTool, FunctionTool, TextFormat, parameters
from treadle.models.contract import ModelRequest
from treadle.testing.contracts.answers import collect, completion_of, done_items
from treadle.testing.script import Answer, Api, Call, Script
from treadle.testing.scripted import ScriptedModel

STEPS = 300
TOOLS = (
    FunctionTool(name="read", description="Reads.", parameters=parameters({})),
    CustomTool(name="patch", description="Patches.", format=TextFormat()),
)
ANSWER = Answer(
    reasoning="what next",
    text="reading",
    calls=(Call(name="read", arguments={"path": "a"}), Call(name="patch", input="x\ny")),
    times=0,
)


def outputs(items: list[Item]) -> list[Item]:
    made: list[Item] = []
    for item in items:
        if isinstance(item, FunctionCall):
            made.append(FunctionCallOutput(call_id=item.call_id, output="done " * 10))
        elif isinstance(item, CustomToolCall):
            made.append(CustomToolCallOutput(call_id=item.call_id, output="patched"))
    return made


@pytest.mark.parametrize("api", ["responses", "chat", "messages"])
async def test_300_steps_reuse_every_byte_of_the_request_before(api: Api):
    model = ScriptedModel(Script(api=api, answers=(ANSWER,)))
    tools = tuple(Raw(SPECS.encode(tool)) for tool in TOOLS)
    head = Head(provider="scripted", api=api, model="m", instructions="Work.", tools=tools)
    writer = model.format.writer(head)
    written = b"".join(part for _, part in model.format.head_parts(head, "thr_1"))
    new: list[Item] = [Message(role="user", content=(InputText("go"),))]
    before, missed = b"", []
    for _ in range(STEPS):
        written += b"".join(writer.write(encode_item(item)) for item in new)
        body = model.format.with_cache_marks(written + writer.closing(), (len(written),), head)
        events = await collect(model, ModelRequest(head=head, body=body, thread="thr_1"))
        usage = completion_of(events).usage
        assert usage is not None
        missed.append((usage.cached_input_tokens or 0) < len(before) // 4)
        assert written.startswith(before)
        items = done_items(events)
        before, new = written, [*items, *outputs(items)]
    last = msgspec.json.decode(model.requests[-1].body)
    await model.close()
    assert missed == [False] * STEPS
    assert len(model.requests) == STEPS
    told = last["input" if api == "responses" else "messages"]
    per_step = {"responses": 6, "chat": 3, "messages": 2}[api]
    assert len(told) == 1 + (api == "chat") + per_step * (STEPS - 1)
