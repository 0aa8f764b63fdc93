from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.core.errors import ConfigError
from treadle.harness.events import ToolFinished, ToolStarted, TurnCompleted
from treadle.testing.script import Answer

from .provider_turns import provider_thread, say

FOUND = {"type": "web_search_call", "id": "ws_1", "status": "completed",
         "action": {"type": "search", "query": "looms"}}  # fmt: skip
USE = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "looms"}}
RESULT = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv_1",
    "content": [
        {
            "type": "web_search_result",
            "url": "https://looms.example",
            "title": "Looms",
            "encrypted_content": "c2VhbGVk",
        }
    ],
}
ON = {"web_search": True}
NEWER = [
    {"type": "search", "query": "looms", "sources": [{"type": "url", "url": "https://a.b"}]},
    {"type": "dream", "of": "looms"},
]
"""What searches did in words that this version does not know."""


def searched(events: list[Any]) -> list[tuple[str, str]]:
    started = [event for event in events if isinstance(event, ToolStarted)]
    finished = [event.call_id for event in events if isinstance(event, ToolFinished)]
    assert finished == [event.call_id for event in started]
    return [(event.name, event.arguments) for event in started]


async def test_openai_searches_where_the_settings_say_so_and_its_search_is_kept_and_shown(tmp_path):
    first = Answer(events=({"type": "response.output_item.done", "item": FOUND},), text="Looms.")
    async with provider_thread(
        tmp_path, "openai:gpt-5.5", first, Answer(text="x"), params={"openai": ON}
    ) as (thread, server):
        events = await say(thread, "what are looms?")
        await say(thread, "more")
        tools = server.requests[0].payload["tools"]
        assert tools[-1] == {"type": "web_search"}
        kept = [item for item in server.requests[1].payload["input"] if item.get("id") == "ws_1"]
    assert kept == [FOUND]
    assert searched(events) == [("web_search", '{"query":"looms"}')]


async def test_a_search_in_words_of_a_newer_server_is_kept_and_shown(tmp_path):
    found = [FOUND | {"id": f"ws_{number}", "action": each} for number, each in enumerate(NEWER)]
    done = tuple({"type": "response.output_item.done", "item": item} for item in found)
    async with provider_thread(
        tmp_path, "openai:gpt-5.5", Answer(events=done, text="Looms."), Answer(text="x")
    ) as (thread, server):
        events = await say(thread, "what are looms?")
        await say(thread, "more")
        sent = server.requests[1].payload["input"]
    assert [item for item in sent if item["type"] == "web_search_call"] == found
    assert [name for name, _ in searched(events)] == ["web_search"] * 2
    assert [json.loads(arguments) for _, arguments in searched(events)] == [
        {"query": "looms", "sources": [{"type": "url", "url": "https://a.b"}]},
        {"of": "looms"},
    ]


async def test_claude_searches_in_its_own_words(tmp_path):
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": [USE, RESULT, {"type": "text", "text": "Looms."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    first = Answer(body=json.dumps(message), headers={"content-type": "application/json"})
    async with provider_thread(
        tmp_path, "anthropic:claude-opus-5", first, Answer(text="x"), params={"anthropic": ON}
    ) as (thread, server):
        events = await say(thread, "what are looms?")
        await say(thread, "more")
        assert server.requests[0].payload["tools"][-1] == {
            "type": "web_search_20250305",
            "name": "web_search",
        }
        said = server.requests[1].payload["messages"][1]["content"]
    assert said[:2] == [USE, RESULT]
    assert searched(events) == [("web_search", '{"query":"looms"}')]


@pytest.mark.parametrize("model", ["groq:some", "openai:gpt-4.1"])
async def test_a_model_without_a_search_is_offered_none(tmp_path, model):
    params = {model.partition(":")[0]: ON}
    async with provider_thread(tmp_path, model, Answer(text="x"), params=params) as (
        thread,
        server,
    ):
        events = await say(thread, "hello")
        assert isinstance(events[-1], TurnCompleted)
        assert b"web_search" not in server.requests[0].body


async def test_nobody_searches_unasked_and_a_wrong_wish_is_refused(tmp_path):
    async with provider_thread(tmp_path, "openai:gpt-5.5", Answer(text="x")) as (thread, server):
        await say(thread, "hello")
        assert b"web_search" not in server.requests[0].body
    wrong = {"openai": {"web_search": "yes"}}
    async with provider_thread(tmp_path, "openai:gpt-5.5", params=wrong) as (thread, server):
        with pytest.raises(ConfigError, match="'web_search' cannot be 'yes'; use true or false"):
            await say(thread, "hello")
        assert server.requests == []
