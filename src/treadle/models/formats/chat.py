"""The Chat Completions format: items as messages.

Owns how calls, outputs and reasoning are told to servers that know messages only.
Invariant: a message is closed by what comes after it, so that nothing that was
written changes; what one step said and called is one assistant message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import UNSET, Raw

from ...core.entries import Head
from ...core.wire import json_bytes
from ..format import HeadPart
from .chat_items import ChatItems
from .tools import FlatTool, flat_tools

__all__ = ["ChatFormat"]


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """Writes bodies for Chat Completions."""

    name: str = "chat"

    def head_parts(self, head: Head, cache_key: str) -> Iterator[tuple[HeadPart, bytes]]:
        """Parameters, tools, and the messages up to the system message."""
        tools = flat_tools(head.tools)
        yield "params", json_bytes(_params(head, cache_key, tools))[:-1]
        yield "tools", b',"tools":' + json_bytes([_tool(tool) for tool in tools]) if tools else b""
        system = {"role": "system", "content": head.instructions}
        yield "instructions", b',"messages":[' + (json_bytes(system) if head.instructions else b"")

    def writer(self, head: Head) -> ChatItems:
        """A writer of messages behind the system message."""
        developer = "developer" if head.provider == "openai" else "user"
        return ChatItems(developer=developer, first=not head.instructions)

    def with_cache_marks(self, body: bytes, _ends: tuple[int, ...], /) -> bytes:
        """The body as it is: this API has no marks."""
        return body


def _params(head: Head, cache_key: str, tools: tuple[FlatTool, ...]) -> dict[str, object]:
    fields: dict[str, object] = {
        "model": head.model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "reasoning_effort": head.effort,
        "service_tier": head.service_tier,
    }
    if head.provider == "openai":
        # Smaller servers refuse fields they have not heard of.
        fields |= {
            "store": False,
            "verbosity": head.verbosity,
            "prompt_cache_key": cache_key or None,
        }
    if head.output_schema is not UNSET:
        schema = {"name": head.schema_name, "strict": True, "schema": Raw(head.output_schema)}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    if tools:
        fields["tool_choice"] = _tool_choice(head.tool_choice)
        fields["parallel_tool_calls"] = head.parallel_tool_calls
    return {name: value for name, value in fields.items() if value is not None}


def _tool_choice(choice: str) -> object:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _tool(tool: FlatTool) -> dict[str, object]:
    function: dict[str, object] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}
