"""What the instant server answers: whole HTTP answers, made before a clock starts.

Owns the bytes of Responses and Chat Completions streams. A script, a name in the path of a
request, says what its *n*-th request gets; one chunk carries one event, as real servers do it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = ["ANSWER", "DELTAS", "RESULTS", "Api", "Reply", "answer", "empty_answer", "reply"]

Api: TypeAlias = Literal["responses", "chat"]

ANSWER = "All of it is done and every test passes; nothing else is left to do."
DELTAS = 5_000
"""Pieces of the long answer."""
ARGUMENTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "tick": lambda number: {"number": number * 1_000_000 - 1},
    "run_command": lambda number: {"command": f"true {number}"},
    "exec_command": lambda number: {"cmd": f"true {number}"},
}
"""The tools that scripts call, and with what: never twice with the same, as a stuck model does …"""
RESULTS = {
    "tick": b"000000",
    "run_command": b"exit code 0",
    "exec_command": b"exited with code 0",
}
"""… and what stands in the request that brings a result of theirs."""
FINAL = "final_answer"
"""A tool by which some peers want to hear that it is done."""

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Call(NamedTuple):
    """A call of a tool."""

    id: str
    name: str
    arguments: str


class Reply(NamedTuple):
    """What the model says: pieces of text, and calls."""

    pieces: Sequence[str] = ()
    calls: Sequence[Call] = ()


@lru_cache(maxsize=8_192)
def answer(script: str, number: int, api: Api) -> bytes:
    """The whole HTTP answer to the `number`-th request of a script, from 1."""
    said = reply(script, number)
    events = _responses(said, number) if api == "responses" else _chat(said, number)
    return _HEAD + b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in events) + b"0\r\n\r\n"


def empty_answer() -> bytes:
    """To whatever else is asked, such as a list of models."""
    return plain(b'{"object":"list","data":[],"models":[]}')


def plain(body: bytes) -> bytes:
    """An HTTP answer with a JSON body."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


def reply(script: str, number: int) -> Reply:
    """What a script says to its `number`-th request.

    ``text`` always answers in words; ``deltas`` does so at length every second time;
    ``TOOL-N`` calls the tool N times first. With ``.final`` words come with a call that ends it.
    """
    name, _, ending = script.partition(".")
    last = (Call(f"call_f{number}", FINAL, json.dumps({"answer": ANSWER})),) if ending else ()
    if name == "deltas" and number % 2 == 0:
        return Reply(tuple(f" word{each}" for each in range(DELTAS)), last)
    tool, _, rounds = name.partition("-")
    if rounds and number <= int(rounds):
        return Reply(calls=(Call(f"call_{number}", tool, json.dumps(ARGUMENTS[tool](number))),))
    return Reply((ANSWER,), last)


def _responses(said: Reply, number: int) -> Iterable[bytes]:
    """The events of the Responses API."""
    base = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_790_000_000,
        "model": "gpt-5.5",
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
    }
    events: list[dict[str, Any]] = [_response("created", base, "in_progress", [])]
    output: list[dict[str, Any]] = []
    if said.pieces:
        message = _message(f"msg_{number}", said.pieces)
        events += _spoken(message, said.pieces, len(output))
        output.append(message)
    for call in said.calls:
        item = _called(call)
        events += _calling(item, len(output))
        output.append(item)
    events.append(_response("completed", base, "completed", output))
    for place, event in enumerate(events):
        event["sequence_number"] = place
        yield f"event: {event['type']}\ndata: {_json(event)}\n\n".encode()


def _response(
    name: str, base: dict[str, Any], status: str, output: list[dict[str, Any]]
) -> dict[str, Any]:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 110,
    }
    counted = {"usage": usage} if name == "completed" else {}
    response = {**base, "status": status, "output": output, **counted}
    return {"type": f"response.{name}", "response": response}


def _message(name: str, pieces: Sequence[str]) -> dict[str, Any]:
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [_part("".join(pieces))],
    }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _spoken(message: dict[str, Any], pieces: Sequence[str], place: int) -> list[dict[str, Any]]:
    where = {"item_id": message["id"], "output_index": place, "content_index": 0}
    item = {"output_index": place}
    empty = {**message, "status": "in_progress", "content": []}
    kind = "response.output_text"
    return [
        {"type": "response.output_item.added", **item, "item": empty},
        {"type": "response.content_part.added", **where, "part": _part("")},
        *({"type": f"{kind}.delta", **where, "delta": piece, "logprobs": []} for piece in pieces),
        {"type": f"{kind}.done", **where, "text": "".join(pieces), "logprobs": []},
        {"type": "response.content_part.done", **where, "part": message["content"][0]},
        {"type": "response.output_item.done", **item, "item": message},
    ]


def _called(call: Call) -> dict[str, Any]:
    return {
        "id": f"fc_{call.id}",
        "type": "function_call",
        "status": "completed",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    }


def _calling(item: dict[str, Any], place: int) -> list[dict[str, Any]]:
    where = {"item_id": item["id"], "output_index": place}
    kind, arguments = "response.function_call_arguments", item["arguments"]
    begun = {**item, "status": "in_progress", "arguments": ""}
    return [
        {"type": "response.output_item.added", "output_index": place, "item": begun},
        {"type": f"{kind}.delta", **where, "delta": arguments},
        {"type": f"{kind}.done", **where, "name": item["name"], "arguments": arguments},
        {"type": "response.output_item.done", "output_index": place, "item": item},
    ]


def _chat(said: Reply, number: int) -> Iterable[bytes]:
    """The chunks of Chat Completions."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += ({"content": piece} for piece in said.pieces)
    for place, call in enumerate(said.calls):
        function = {"name": call.name, "arguments": call.arguments}
        told = {"index": place, "id": call.id, "type": "function", "function": function}
        deltas.append({"tool_calls": [told]})
    reason = "tool_calls" if said.calls else "stop"
    choices: list[list[dict[str, Any]]] = [
        [{"index": 0, "delta": each, "finish_reason": None}] for each in deltas
    ]
    choices.append([{"index": 0, "delta": {}, "finish_reason": reason}])
    base = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": 1_790_000_000,
        "model": "gpt-5.5",
    }
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    for each in choices:
        yield f"data: {_json({**base, 'choices': each})}\n\n".encode()
    yield f"data: {_json({**base, 'choices': [], 'usage': usage})}\n\n".encode()
    yield b"data: [DONE]\n\n"


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
