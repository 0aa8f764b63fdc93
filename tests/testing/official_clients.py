"""Drives a fake server with the official clients, and prints what they made of its answers.

Run as a program: importing both clients takes a second, which no other test should pay.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import anthropic
import openai

PARAMETERS: dict[str, Any] = {"type": "object", "properties": {"cmd": {"type": "string"}}}


def responses(client: openai.OpenAI, said: str, *, stream: bool) -> dict[str, Any]:
    tools: Any = [{"type": "function", "name": "run", "parameters": PARAMETERS, "strict": False}]
    kinds: list[str] = []
    if stream:
        with client.responses.stream(model="m", input=said, tools=tools) as events:
            kinds = [event.type for event in events]
            whole: Any = events.get_final_response()
    else:
        whole = client.responses.create(model="m", input=said, tools=tools)
    calls = [each for each in whole.output if each.type == "function_call"]
    thoughts = [each for each in whole.output if each.type == "reasoning"]
    return {
        "text": whole.output_text,
        "reasoning": "".join(part.text for each in thoughts for part in each.summary),
        "calls": [[each.name, json.loads(each.arguments), each.call_id] for each in calls],
        "end": whole.status,
        "usage": [whole.usage.input_tokens, whole.usage.output_tokens],
        "kinds": len({*kinds}),
    }


def chat(client: openai.OpenAI, said: str, *, stream: bool) -> dict[str, Any]:
    tools: Any = [{"type": "function", "function": {"name": "run", "parameters": PARAMETERS}}]
    asked: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": said}],
        "tools": tools,
    }
    kinds: list[str] = []
    if stream:
        with client.chat.completions.stream(
            **asked, stream_options={"include_usage": True}
        ) as events:
            kinds = [event.type for event in events]
            whole: Any = events.get_final_completion()
    else:
        whole = client.chat.completions.create(**asked)
    message = whole.choices[0].message
    return {
        "text": message.content or "",
        "reasoning": getattr(message, "reasoning_content", ""),
        "calls": [
            [each.function.name, json.loads(each.function.arguments), each.id]
            for each in message.tool_calls or ()
        ],
        "end": whole.choices[0].finish_reason,
        "usage": [whole.usage.prompt_tokens, whole.usage.completion_tokens],
        "kinds": len({*kinds}),
    }


def messages(client: anthropic.Anthropic, said: str, *, stream: bool) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "model": "m",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": said}],
        "tools": [{"name": "run", "input_schema": PARAMETERS}],
    }
    kinds: list[str] = []
    if stream:
        with client.messages.stream(**asked) as events:
            kinds = [event.type for event in events]
            whole: Any = events.get_final_message()
    else:
        whole = client.messages.create(**asked)
    used = [each for each in whole.content if each.type == "tool_use"]
    return {
        "text": "".join(each.text for each in whole.content if each.type == "text"),
        "reasoning": "".join(each.thinking for each in whole.content if each.type == "thinking"),
        "calls": [[each.name, each.input, each.id] for each in used],
        "end": whole.stop_reason,
        "usage": [whole.usage.input_tokens, whole.usage.output_tokens],
        "kinds": len({*kinds}),
    }


def ends(openai_client: openai.OpenAI, said: str) -> dict[str, list[Any]]:
    """How plain streams end, without the helpers that want a whole answer."""
    found: dict[str, list[Any]] = {}
    for event in openai_client.responses.create(model="m", input=said, stream=True):
        if event.type in ("response.incomplete", "response.failed"):
            error = event.response.error
            found["responses"] = [event.type, error.message if error else ""]
    asked: Any = [{"role": "user", "content": said}]
    chunks = openai_client.chat.completions.create(model="m", messages=asked, stream=True)
    try:
        reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
        found["chat"] = [reasons[-1], ""]
    except openai.APIError as error:
        found["chat"] = ["error", error.message]
    return found


def failure(ask: Callable[[], object]) -> list[Any]:
    try:
        ask()
    except (openai.APIError, anthropic.APIError) as error:
        return [type(error).__name__, getattr(error, "status_code", 0), error.message]
    return []


def main(url: str) -> None:
    ours = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
    theirs = anthropic.Anthropic(base_url=url, api_key="x", max_retries=0)
    told: dict[str, Any] = {}
    clients: Any = {"responses": ours, "chat": ours, "messages": theirs}
    for ask in (responses, chat, messages):
        client = clients[ask.__name__]
        for stream in (True, False):
            asked = partial(ask, client, stream=stream)
            found: dict[str, Any] = {said: asked(said) for said in ("say", "call")}
            found["limit"] = failure(partial(asked, "limit"))
            if not stream or client is theirs:
                found["length"] = asked("length")
                found["break"] = failure(partial(asked, "break"))
            told[f"{ask.__name__} {'stream' if stream else 'whole'}"] = found
    told["ends"] = {said: ends(ours, said) for said in ("length", "break")}
    told["models"] = [each.id for each in ours.models.list()]
    told["their models"] = [each.id for each in theirs.models.list()]
    counted = theirs.messages.count_tokens(
        model="m", messages=[{"role": "user", "content": "x" * 400}]
    )
    told["tokens"] = counted.input_tokens
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
