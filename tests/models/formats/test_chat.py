from __future__ import annotations

from typing import Any

import msgspec
from inline_snapshot import snapshot
from msgspec import Raw

from treadle.core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Item,
    Message,
    ToolSearchCall,
    ToolSearchOutput,
    WebSearchCall,
)
from treadle.models.formats.chat import ChatFormat
from treadle.models.formats.function_calls import call_item, flat_tools

from .samples import ENCODED, PIXEL, body, call, head, output, payload, said, thought, user

CHAT = ChatFormat()


def messages(*items: Item, **fields: Any) -> Any:
    return payload(CHAT, head("chat", **fields), items)["messages"]


def test_a_body_has_its_parameters_then_tools_then_messages():
    asked = head(
        "chat",
        provider="openai",
        effort="high",
        verbosity="low",
        output_schema=Raw(b'{"type":"object"}'),
        schema_name="treadle_output",
        parallel_tool_calls=False,
        tools=ENCODED[:1],
    )
    told = msgspec.json.decode(body(CHAT, asked, [user("hi")], "key"))
    assert list(told.items()) == snapshot(
        [
            ("model", "m"),
            ("stream", True),
            ("stream_options", {"include_usage": True}),
            ("reasoning_effort", "high"),
            ("store", False),
            ("verbosity", "low"),
            ("prompt_cache_key", "key"),
            (
                "response_format",
                {
                    "type": "json_schema",
                    "json_schema": {
                        "name": "treadle_output",
                        "strict": True,
                        "schema": {"type": "object"},
                    },
                },
            ),
            ("tool_choice", "auto"),
            ("parallel_tool_calls", False),
            (
                "tools",
                [
                    {
                        "type": "function",
                        "function": {
                            "name": "read",
                            "description": "Reads.",
                            "parameters": {
                                "type": "object",
                                "properties": {"path": {"type": "string"}},
                                "required": ["path"],
                                "additionalProperties": False,
                            },
                        },
                    }
                ],
            ),
            (
                "messages",
                [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
            ),
        ]
    )


def test_small_servers_get_no_field_they_may_not_know():
    asked = head("chat", provider="ollama", verbosity="low", tools=())
    assert list(payload(CHAT, asked, [user("hi")])) == [
        "model",
        "stream",
        "stream_options",
        "messages",
    ]


def test_freeform_and_namespaced_tools_become_functions():
    assert payload(CHAT, head("chat"), [])["tools"] == snapshot(
        [
            {
                "type": "function",
                "function": {
                    "name": "read",
                    "description": "Reads.",
                    "parameters": {
                        "type": "object",
                        "properties": {"path": {"type": "string"}},
                        "required": ["path"],
                        "additionalProperties": False,
                    },
                },
            },
            {
                "type": "function",
                "function": {
                    "name": "patch",
                    "description": """\
Patches.

`input` must follow this lark grammar:
start: "x"\
""",
                    "parameters": {
                        "type": "object",
                        "properties": {
                            "input": {"type": "string", "description": "The whole input as text."}
                        },
                        "required": ["input"],
                        "additionalProperties": False,
                    },
                },
            },
            {
                "type": "function",
                "function": {
                    "name": "notes__find",
                    "description": "Finds.",
                    "parameters": {
                        "type": "object",
                        "properties": {"path": {"type": "string"}},
                        "required": ["path"],
                        "additionalProperties": False,
                    },
                    "strict": True,
                },
            },
        ]
    )


def test_what_one_step_thought_said_and_called_is_one_message():
    told = messages(
        user("go"), thought("hm"), said("looking"), call("c1"), call("c2"), output("c1"),
        output("c2"), said("done"),
    )  # fmt: skip
    assert told == snapshot(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "reasoning_content": "hm",
                "content": "looking",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "read", "arguments": '{"path":"a"}'},
                    },
                    {
                        "id": "c2",
                        "type": "function",
                        "function": {"name": "read", "arguments": '{"path":"a"}'},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
            {"role": "tool", "tool_call_id": "c2", "content": "done"},
            {"role": "assistant", "content": "done"},
        ]
    )


def test_developer_items_stay_in_place_in_the_role_the_provider_knows():
    items = (user("a"), Message(role="developer", content=(InputText("b"),)))
    assert [each["role"] for each in messages(*items)] == ["system", "user", "user"]
    openai = messages(*items, provider="openai")
    assert [each["role"] for each in openai] == ["system", "user", "developer"]


def test_images_of_outputs_follow_the_outputs_of_the_step():
    picture = (InputText("seen"), InputImage(PIXEL, detail="original"))
    told = messages(
        user("look"), call("c1"), call("c2"),
        FunctionCallOutput(call_id="c1", output=picture), output("c2"), said("a cat"),
    )  # fmt: skip
    assert told[2:] == snapshot(
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "read", "arguments": '{"path":"a"}'},
                    },
                    {
                        "id": "c2",
                        "type": "function",
                        "function": {"name": "read", "arguments": '{"path":"a"}'},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "seen"},
            {"role": "tool", "tool_call_id": "c2", "content": "done"},
            {
                "role": "user",
                "content": [
                    {
                        "type": "image_url",
                        "image_url": {
                            "url": "data:image/png;base64,iVBORw0KGgo=",
                            "detail": "high",
                        },
                    }
                ],
            },
            {"role": "assistant", "content": "a cat"},
        ]
    )


def test_a_body_that_ends_with_an_image_starts_the_next_one():
    items: list[Item] = [
        user("look"),
        call("c1"),
        FunctionCallOutput(call_id="c1", output=(InputImage(PIXEL),)),
    ]
    asked = head("chat")
    shorter = body(CHAT, asked, items).removesuffix(b"]}")
    assert body(CHAT, asked, [*items, said("a cat")]).startswith(shorter)


def test_freeform_calls_and_searches_are_told_as_function_calls():
    told = messages(
        CustomToolCall(name="patch", input="*** Begin", call_id="c1"),
        CustomToolCallOutput(call_id="c1", output="ok"),
        ToolSearchCall(call_id="c2", execution="client", arguments=Raw(b'{"query":"x"}')),
        ToolSearchOutput(call_id="c2", status="completed", execution="client", tools=()),
    )
    assert told[1:] == snapshot(
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "patch", "arguments": '{"input":"*** Begin"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c2",
                        "type": "function",
                        "function": {"name": "tool_search", "arguments": '{"query":"x"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c2", "content": "[]"},
        ]
    )


def test_what_was_said_while_calls_ran_stands_behind_their_outputs():
    told = messages(call("c1"), user("wait"), output("c1"))
    assert [each["role"] for each in told] == ["system", "assistant", "tool", "user"]


def test_items_that_chat_cannot_say_add_nothing():
    assert messages(WebSearchCall(status="completed"), said(""), thought("")) == [
        {"role": "system", "content": "Be brief."}
    ]


def test_reasoning_that_led_to_nothing_is_left_out():
    assert messages(thought("hm"), user("go on"))[1:] == [{"role": "user", "content": "go on"}]


def test_reasoning_of_two_attempts_is_told_together():
    assert messages(thought("a"), thought("b"), call("c1"), output("c1"))[1] == {
        "role": "assistant",
        "reasoning_content": "a\n\nb",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "read", "arguments": '{"path":"a"}'},
            }
        ],
    }


def test_an_output_without_a_call_is_told_by_name():
    told = messages(FunctionCallOutput(name="alarm", output="rings"))
    assert told[1] == {"role": "user", "content": "Output of alarm:\nrings"}


def test_ids_too_long_for_the_api_are_shortened_alike_on_both_sides():
    long = "call_" + "x" * 60
    told = messages(call(long), output(long))
    assert told[1]["tool_calls"][0]["id"] == told[2]["tool_call_id"]
    assert len(told[2]["tool_call_id"]) <= 40


def test_a_call_by_its_flat_name_finds_the_tool_that_was_meant():
    tools = {tool.name: tool for tool in flat_tools(ENCODED)}
    assert [
        call_item(tools, "read", "{}", "1"),
        call_item(tools, "patch", '{"input":"x"}', "2"),
        call_item(tools, "patch", "not json", "3"),
        call_item(tools, "notes__find", "{}", "4"),
        call_item(tools, "made_up", "{}", "5"),
    ] == [
        FunctionCall(name="read", arguments="{}", call_id="1"),
        CustomToolCall(name="patch", input="x", call_id="2"),
        CustomToolCall(name="patch", input="not json", call_id="3"),
        FunctionCall(name="find", namespace="notes", arguments="{}", call_id="4"),
        FunctionCall(name="made_up", arguments="{}", call_id="5"),
    ]
