from __future__ import annotations

from typing import Any

import msgspec
import pytest
from inline_snapshot import snapshot
from msgspec import Raw

from treadle.core.items import (
    FunctionCallOutput,
    InputImage,
    InputText,
    Item,
    Message,
    Reasoning,
    Unknown,
    encode_item,
)
from treadle.models.formats.messages import MessagesFormat, reasoning_item, thinking_block

from .samples import ENCODED, PIXEL, body, call, head, opening, output, payload, said, signed, user

MESSAGES = MessagesFormat()


def messages(*items: Item, **fields: Any) -> Any:
    return payload(MESSAGES, head("messages", **fields), items)["messages"]


def parameters(**fields: Any) -> Any:
    told = payload(MESSAGES, head("messages", instructions="", tools=(), **fields), [])
    return {name: value for name, value in told.items() if name not in ("stream", "messages")}


def test_a_body_has_its_parameters_then_tools_then_system_then_messages():
    asked = head(
        "messages",
        model="claude-opus-5-5",
        effort="high",
        summary="auto",
        output_schema=Raw(b'{"type":"object"}'),
        parallel_tool_calls=False,
        tools=ENCODED[1:],
    )
    told = msgspec.json.decode(body(MESSAGES, asked, [user("hi")]))
    assert list(told.items()) == snapshot(
        [
            ("model", "claude-opus-5-5"),
            ("max_tokens", 32000),
            ("thinking", {"type": "adaptive", "display": "summarized"}),
            (
                "output_config",
                {"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
            ),
            ("tool_choice", {"type": "auto", "disable_parallel_tool_use": True}),
            ("stream", True),
            (
                "tools",
                [
                    {
                        "name": "patch",
                        "description": """\
Patches.

`input` must follow this lark grammar:
start: "x"\
""",
                        "input_schema": {
                            "type": "object",
                            "properties": {
                                "input": {
                                    "type": "string",
                                    "description": "The whole input as text.",
                                }
                            },
                            "required": ["input"],
                            "additionalProperties": False,
                        },
                    },
                    {
                        "name": "notes__find",
                        "description": "Finds.",
                        "input_schema": {
                            "type": "object",
                            "properties": {"path": {"type": "string"}},
                            "required": ["path"],
                            "additionalProperties": False,
                        },
                        "strict": True,
                    },
                ],
            ),
            ("system", [{"type": "text", "text": "Be brief."}]),
            ("messages", [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]),
        ]
    )


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("claude-3-haiku-20240307", {"max_tokens": 4096}),
        ("claude-3-5-sonnet-20241022", {"max_tokens": 8192}),
        (
            "claude-sonnet-4-20250514",
            {"max_tokens": 32000, "thinking": {"type": "enabled", "budget_tokens": 10000}},
        ),
        (
            "claude-opus-4-6",
            {
                "max_tokens": 32000,
                "thinking": {"type": "adaptive"},
                "output_config": {"effort": "medium"},
            },
        ),
        (
            "claude-mythos-preview",
            {
                "max_tokens": 32000,
                "thinking": {"type": "adaptive"},
                "output_config": {"effort": "medium"},
            },
        ),
    ],
)
def test_each_generation_is_asked_for_thinking_in_its_own_way(model: str, asked: dict[str, Any]):
    assert parameters(model=model, effort="medium") == {"model": model, **asked}


@pytest.mark.parametrize(
    ("model", "effort", "level"),
    [
        ("claude-sonnet-4-6", "minimal", "low"),
        ("claude-sonnet-4-6", "xhigh", "max"),
        ("claude-opus-4-7", "xhigh", "xhigh"),
        ("claude-opus-5", "xhigh", "xhigh"),
    ],
)
def test_an_effort_is_asked_for_at_a_level_the_model_has(model: str, effort: str, level: str):
    assert parameters(model=model, effort=effort)["output_config"] == {"effort": level}


def test_no_effort_asks_for_no_thinking():
    expected = {"model": "claude-opus-5-5", "max_tokens": 32000}
    assert parameters(model="claude-opus-5-5") == expected
    assert parameters(model="claude-opus-5-5", effort="none") == expected


def test_blocks_of_one_role_share_a_message():
    told = messages(
        user("a", "b"), Message(role="developer", content=(InputText("c"),)), signed("hm"),
        said("looking"), call("c1"), call("c2"), output("c1"), output("c2", ""), user("and?"),
    )  # fmt: skip
    assert told == snapshot(
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "text", "text": "b"},
                    {"type": "text", "text": "c"},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    {"type": "text", "text": "looking"},
                    {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
                    {"type": "tool_use", "id": "c2", "name": "read", "input": {"path": "a"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "done"},
                    {"type": "tool_result", "tool_use_id": "c2"},
                    {"type": "text", "text": "and?"},
                ],
            },
        ]
    )


def test_thinking_is_replayed_as_it_came():
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s", "new_field": [1]}
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    hidden = {"type": "thinking", "thinking": "", "signature": "s"}
    for block in (thinking, redacted, hidden):
        kept = thinking_block(reasoning_item(block))
        assert kept is not None
        assert msgspec.json.decode(kept) == block


def test_thinking_that_led_to_nothing_is_left_out():
    assert messages(user("a"), signed("hm"), user("b")) == messages(user("a"), user("b"))
    assert messages(user("a"), signed("hm")) == messages(user("a"))


def test_reasoning_without_a_signature_is_not_sent():
    foreign = Reasoning(encrypted_content="gAAAA")
    unsigned = reasoning_item({"type": "thinking", "thinking": "hm"})
    assert messages(user("a"), foreign, unsigned, Reasoning()) == messages(user("a"))


def test_images_are_sources_and_stay_inside_results():
    picture = (InputText("seen"), InputImage(PIXEL), InputImage("https://x.test/a.png"))
    told = messages(user("look"), call("c1"), FunctionCallOutput(call_id="c1", output=picture))
    assert told[-1]["content"] == snapshot(
        [
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [
                    {"type": "text", "text": "seen"},
                    {
                        "type": "image",
                        "source": {
                            "type": "base64",
                            "media_type": "image/png",
                            "data": "iVBORw0KGgo=",
                        },
                    },
                    {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
                ],
            }
        ]
    )


@pytest.mark.parametrize("arguments", ["broken{", '{"a":' * 3_000 + "1" + "}" * 3_000])
def test_arguments_that_are_no_object_or_nest_without_end_are_wrapped(arguments):
    told = messages(user("a"), call("c1", arguments), output("c1"))
    assert told[1]["content"][0]["input"] == {"arguments": arguments}


def test_blocks_of_unknown_kind_go_back_as_they_came():
    raw = b'{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}'
    told = messages(user("a"), Unknown(Raw(raw)), said("b"))
    assert told[1]["content"] == [msgspec.json.decode(raw), {"type": "text", "text": "b"}]


def test_the_model_never_has_the_last_word():
    told = messages(user("a"), said("b"))
    assert told[-1] == {"role": "user", "content": [{"type": "text", "text": "Go on."}]}


def test_marks_are_set_in_the_blocks_that_end_there_and_change_nothing_else():
    asked = head("messages")
    items: list[Item] = [user("a"), signed("hm"), call("c1"), output("c1"), user("b")]
    ends, data = marks_for(items, asked)
    marked = MESSAGES.with_cache_marks(data, ends, asked)
    assert marked.replace(b',"cache_control":{"type":"ephemeral"}', b"") == data
    told = msgspec.json.decode(marked)
    blocks = [block for each in told["messages"] for block in each["content"]]
    marks = ["cache_control" in block for block in blocks]
    assert marks == [True, False, True, True, True]
    assert blocks[1]["type"] == "thinking"
    assert "cache_control" not in told["system"][0]


def test_tools_and_system_can_be_marked():
    asked = head("messages")
    parts = [part for _, part in MESSAGES.head_parts(asked, "")]
    ends = (len(parts[0]), len(parts[0] + parts[1]), sum(map(len, parts)))
    written = body(MESSAGES, asked, [user("a")])
    told = msgspec.json.decode(MESSAGES.with_cache_marks(written, ends, asked))
    assert [("cache_control" in tool) for tool in told["tools"]] == [False, False, True]
    assert told["system"] == [
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    ]
    assert "cache_control" not in str(told["messages"])


def marks_for(items: list[Item], asked: Any) -> tuple[tuple[int, ...], bytes]:
    """Offsets behind the opening and behind each item, and the body."""
    data, writer = opening(MESSAGES, asked), MESSAGES.writer(asked)
    ends = [len(data)]
    for item in items:
        data += writer.write(encode_item(item))
        ends.append(len(data))
    return tuple(ends), data + writer.closing()
