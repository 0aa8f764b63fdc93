from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import Raw

from treadle.core.entries import Head
from treadle.core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Item,
    Message,
    OutputText,
    Reasoning,
    ReasoningText,
    encode_item,
)
from treadle.core.specs import SPECS as TOOLS
from treadle.core.specs import CustomTool, FunctionTool, Grammar, Namespace, ToolSpec, parameters
from treadle.models.contract import WireFormat
from treadle.models.formats.messages import reasoning_item

PIXEL = "data:image/png;base64,iVBORw0KGgo="

PATH = parameters({"path": {"type": "string"}}, ("path",))
SPECS: tuple[ToolSpec, ...] = (
    FunctionTool(name="read", description="Reads.", parameters=PATH),
    CustomTool(
        name="patch",
        description="Patches.",
        format=Grammar(syntax="lark", definition='start: "x"'),
    ),
    Namespace(
        name="notes",
        description="Notes.",
        tools=(FunctionTool(name="find", description="Finds.", strict=True, parameters=PATH),),
    ),
)
ENCODED = tuple(Raw(TOOLS.encode(spec)) for spec in SPECS)


def head(api: str, **fields: Any) -> Head:
    named = {"model": "m", "instructions": "Be brief.", "tools": ENCODED, "provider": "p"}
    return Head(**{**named, "api": api, **fields})


def opening(wire: WireFormat, asked: Head, key: str = "") -> bytes:
    return b"".join(part for _, part in wire.head_parts(asked, key))


def body(wire: WireFormat, asked: Head, items: Sequence[Item], key: str = "") -> bytes:
    writer = wire.writer(asked)
    written = b"".join(writer.write(encode_item(item)) for item in items)
    return opening(wire, asked, key) + written + writer.closing()


def payload(wire: WireFormat, asked: Head, items: Sequence[Item]) -> Any:
    return msgspec.json.decode(body(wire, asked, items))


def user(*texts: str) -> Message:
    return Message(role="user", content=tuple(map(InputText, texts)))


def said(text: str) -> Message:
    return Message(role="assistant", content=(OutputText(text),))


def thought(text: str) -> Reasoning:
    return Reasoning(content=(ReasoningText(text),))


def signed(text: str) -> Reasoning:
    return reasoning_item({"type": "thinking", "thinking": text, "signature": "sig"})


def call(call_id: str, arguments: str = '{"path":"a"}') -> FunctionCall:
    return FunctionCall(name="read", arguments=arguments, call_id=call_id)


def output(call_id: str, text: str = "done") -> FunctionCallOutput:
    return FunctionCallOutput(call_id=call_id, output=text)


texts = st.text(st.characters(codec="utf-8"), max_size=8)


@st.composite
def steps(draw: st.DrawFn) -> list[list[Item]]:
    # Each ends with every call answered; outputs come in any order.
    made: list[list[Item]] = []
    for number in range(draw(st.integers(1, 5))):
        made.append(draw(_inputs()))
        made.append(draw(_answer(number)))
    return made


@st.composite
def _inputs(draw: st.DrawFn) -> list[Item]:
    role = st.sampled_from(("user", "developer"))
    image = st.builds(InputImage, st.sampled_from((PIXEL, "https://x.test/i.png")))
    part = st.one_of(st.builds(InputText, texts), image)
    content = st.lists(part, min_size=1, max_size=3).map(tuple)
    first: list[Item] = [user("u")]
    more = st.lists(st.builds(Message, role=role, content=content), max_size=2)
    return first + draw(more)


@st.composite
def _answer(draw: st.DrawFn, number: int) -> list[Item]:
    words = st.one_of(texts.map(said), texts.map(thought), texts.map(signed))
    talk: list[Item] = list(draw(st.lists(words, max_size=3)))
    calls: list[Item] = []
    outputs: list[Item] = []
    for index in range(draw(st.integers(0, 3))):
        name = f"call_{number}_{index}"
        if draw(st.booleans()):
            calls.append(call(name, draw(st.sampled_from(('{"path":"a"}', "{}", "", "broken{")))))
            outputs.append(output(name, draw(texts)))
        else:
            calls.append(CustomToolCall(name="patch", input=draw(texts), call_id=name))
            parts = (InputText(draw(texts)), InputImage(PIXEL))
            outputs.append(CustomToolCallOutput(call_id=name, output=parts))
    between: list[Item] = [*talk, *calls]
    if draw(st.booleans()):
        between = list(draw(st.permutations(between)))
    late: list[Item] = list(draw(st.permutations(outputs)))
    if draw(st.booleans()) and calls:
        late.insert(draw(st.integers(0, len(late) - 1)), user("meanwhile"))
    return [*between, *late]
