from __future__ import annotations

import json
from typing import Any

from treadle.models.providers import ProviderConfig
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script

from .provider_turns import chat_answer, chat_call, provider_thread, say

SIGNATURE = {"google": {"thought_signature": "c2lnbmVk"}}
OTHER_SIGNATURE = {"google": {"thought_signature": "dGV4dA=="}}
CLAUDE = "openrouter:anthropic/claude-sonnet-5"


def text_detail(text: str | None = None, **fields: Any) -> dict[str, Any]:
    told = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, **fields}
    return told if text is None else {**told, "text": text}


ENCRYPTED = {
    "type": "reasoning.encrypted",
    "data": "c2VhbGVk",
    "id": "call_0",
    "format": "google-gemini-v1",
    "index": 0,
}


def assistants(server: FakeServer, request: int = -1) -> list[dict[str, Any]]:
    messages = json.loads(server.requests[request].body)["messages"]
    return [message for message in messages if message["role"] == "assistant"]


async def test_gemini_gets_the_signatures_of_its_calls_and_texts_back(tmp_path):
    calls = chat_answer(
        {"content": "Looking."},
        chat_call(0, "look", extra_content=SIGNATURE),
        chat_call(1, "look"),
        finish="tool_calls",
    )
    final = chat_answer({"content": "Done."}, {"content": "", "extra_content": OTHER_SIGNATURE})
    model = "gemini:gemini-3-pro-preview"
    async with provider_thread(tmp_path, model, calls, final, Answer(text="x")) as (thread, server):
        await say(thread, "look")
        (said,) = assistants(server)
        assert [call.get("extra_content") for call in said["tool_calls"]] == [SIGNATURE, None]
        await say(thread, "and now?")
        first, second = assistants(server)
        assert first == said
        assert second == {
            "role": "assistant",
            "content": "Done.",
            "extra_content": OTHER_SIGNATURE,
        }


async def test_signatures_go_to_nobody_but_the_provider_that_made_them(tmp_path):
    calls = chat_answer(chat_call(0, "look", extra_content=SIGNATURE), finish="tool_calls")
    async with FakeServer(Script(answers=(Answer(text="x"),))) as other:
        both = {"groq": ProviderConfig(base_url=other.base_url, key="sk-other")}
        model = "gemini:gemini-3-pro"
        async with provider_thread(tmp_path, model, calls, Answer(text="seen"), providers=both) as (
            thread,
            server,
        ):
            await say(thread, "look")
            assert b"thought_signature" in server.requests[-1].body
            thread.use("groq:some")
            await say(thread, "go on")
        (said, _) = assistants(other)
    assert [call["function"]["name"] for call in said["tool_calls"]] == ["look"]
    assert b"extra_content" not in other.requests[-1].body


async def test_reasoning_details_return_joined_and_in_order(tmp_path):
    first = chat_answer(
        {"reasoning": "Let me ", "reasoning_details": [text_detail("Let me ")]},
        {"reasoning": "look.", "reasoning_details": [text_detail("look.")]},
        {"reasoning_details": [text_detail(signature="SIG")]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "red", "index": 1}]},
        chat_call(0, "look"),
        finish="tool_calls",
    )
    async with provider_thread(tmp_path, CLAUDE, first, Answer(text="done")) as (thread, server):
        await say(thread, "look")
        (said,) = assistants(server)
    assert said["reasoning_details"] == [
        text_detail("Let me look.", signature="SIG"),
        {"type": "reasoning.encrypted", "data": "red", "index": 1},
    ]
    assert "reasoning_content" not in said
    assert [call["id"] for call in said["tool_calls"]] == ["call_0"]


async def test_details_that_come_behind_a_call_stay_with_it(tmp_path):
    first = chat_answer(
        {"content": "Looking."},
        {"reasoning_details": [{**ENCRYPTED, "id": "text"}]},
        chat_call(0, "look"),
        {"reasoning_details": [ENCRYPTED]},
        finish="tool_calls",
    )
    model = "openrouter:google/gemini-3-pro"
    answers = (first, chat_answer({"content": "done"}), Answer(text="x"))
    async with provider_thread(tmp_path, model, *answers) as (thread, server):
        await say(thread, "look")
        (said,) = assistants(server)
        assert said["reasoning_details"] == [{**ENCRYPTED, "id": "text"}, ENCRYPTED]
        assert (said["content"], len(said["tool_calls"])) == ("Looking.", 1)
        await say(thread, "on")
        assert assistants(server) == [said, {"role": "assistant", "content": "done"}]


async def test_details_of_another_vendor_and_unsigned_ones_are_left_out(tmp_path):
    unsigned = chat_answer(
        {"reasoning": "hm", "reasoning_details": [text_detail("hm")]},
        {"content": "half"},
    )
    signed = chat_answer(
        {"reasoning": "hm", "reasoning_details": [text_detail("hm", signature="SIG")]},
        {"content": "whole"},
    )
    answers = (unsigned, signed, Answer(text="x"), Answer(text="y"))
    async with provider_thread(tmp_path, CLAUDE, *answers) as (thread, server):
        await say(thread, "one")
        await say(thread, "two")
        await say(thread, "three")
        assert assistants(server) == [
            {"role": "assistant", "content": "half"},
            {
                "role": "assistant",
                "content": "whole",
                "reasoning_details": [text_detail("hm", signature="SIG")],
            },
        ]
        thread.use("openrouter:google/gemini-3-pro")
        await say(thread, "four")
        assert b"reasoning_details" not in server.requests[-1].body


async def test_a_claude_behind_openrouter_gets_cache_marks(tmp_path):
    first = chat_answer(chat_call(0, "look"), finish="tool_calls")
    marks: list[list[str]] = []
    params = {CLAUDE: {"cache_ttl": "1h"}}
    async with provider_thread(tmp_path, CLAUDE, first, Answer(text="x"), params=params) as (
        thread,
        server,
    ):
        await say(thread, "look")
        for request in server.requests:
            messages = json.loads(request.body)["messages"]
            marks.append([m["role"] for m in messages if "cache_control" in json.dumps(m)])
        system, result = messages[0], messages[-1]
    assert marks == [["system", "user", "user"], ["system", "user", "user", "tool"]]
    hour = {"type": "ephemeral", "ttl": "1h"}
    assert system["content"][-1]["cache_control"] == result["cache_control"] == hour
    assert result["content"] == "seen"


async def test_other_models_behind_openrouter_get_no_marks(tmp_path):
    model = "openrouter:google/gemini-3-pro"
    async with provider_thread(tmp_path, model, Answer(text="x")) as (thread, server):
        await say(thread, "look")
        assert b"cache_control" not in server.requests[-1].body
