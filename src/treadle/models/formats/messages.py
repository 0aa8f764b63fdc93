"""The Anthropic Messages format: items as content blocks.

Owns the body and its cache marks. Invariant: blocks of one role share a message that
stays open until the role changes, so that nothing that was written changes; what the
runtime says later stands in place, never in `system`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import UNSET, Raw

from ...core.entries import Head
from ...core.wire import json_bytes
from ..format import HeadPart
from .claude import most_tokens, thinking
from .message_blocks import MessageBlocks
from .tools import FlatTool, flat_tools

__all__ = ["MARK", "MOST_MARKS", "MessagesFormat"]

MARK = b',"cache_control":{"type":"ephemeral"}'
"""What a marked block ends with."""

MOST_MARKS = 4
"""Marks a request may have; of more, the last ones are set."""

_TIERS = ("auto", "standard_only")
_BEHIND_A_BLOCK = (b"", b"]", b'],"messages":[')


@dataclass(frozen=True, slots=True)
class MessagesFormat:
    """Writes bodies for the Messages API."""

    name: str = "messages"

    def head_parts(self, head: Head, _cache_key: str, /) -> Iterator[tuple[HeadPart, bytes]]:
        """Parameters, tools, the system text, and the start of the messages."""
        tools = flat_tools(head.tools)
        yield "params", json_bytes(_params(head, tools))[:-1]
        yield "tools", b',"tools":' + json_bytes([_tool(tool) for tool in tools]) if tools else b""
        system = json_bytes([{"type": "text", "text": head.instructions}])
        said = b',"system":' + system if head.instructions.strip() else b""
        yield "instructions", said + b',"messages":['

    def writer(self, _head: Head, /) -> MessageBlocks:
        """A writer of blocks."""
        return MessageBlocks()

    def with_cache_marks(self, body: bytes, ends: tuple[int, ...]) -> bytes:
        """`body` with a cache mark in the block that ends at each offset.

        An offset behind no block is passed over. Thinking, which cannot be marked, is
        never the last block of what an item adds.
        """
        braces = sorted({brace for end in ends if (brace := _brace(body, end)) is not None})
        pieces, at = [], 0
        for brace in braces[-MOST_MARKS:]:
            pieces += [body[at:brace], MARK]
            at = brace
        return b"".join((*pieces, body[at:]))


def _brace(body: bytes, end: int) -> int | None:
    """Where the block that ends at `end` has its closing brace."""
    brace = body.rfind(b"}", 0, end)
    if brace < 0 or body[brace + 1 : end] not in _BEHIND_A_BLOCK:
        return None
    return brace


def _params(head: Head, tools: tuple[FlatTool, ...]) -> dict[str, object]:
    asked = thinking(head.model, head.effort, shown=head.summary is not None)
    fields: dict[str, object] = {
        "model": head.model,
        "max_tokens": most_tokens(head.model),
        **asked,
    }
    if head.output_schema is not UNSET:
        output = asked.get("output_config")
        kept = output if isinstance(output, dict) else {}
        schema = {"type": "json_schema", "schema": Raw(head.output_schema)}
        fields["output_config"] = {**kept, "format": schema}
    if tools:
        fields["tool_choice"] = _tool_choice(head)
    if head.service_tier in _TIERS:
        fields["service_tier"] = head.service_tier
    # A plain value comes last, so that no brace of a parameter looks like a block's.
    return {**fields, "stream": True}


def _tool_choice(head: Head) -> dict[str, object]:
    kinds = {"auto": "auto", "none": "none", "required": "any"}
    kind = kinds.get(head.tool_choice)
    choice: dict[str, object] = {"type": kind or "tool"}
    if kind is None:
        choice["name"] = head.tool_choice
    if not head.parallel_tool_calls and kind != "none":
        choice["disable_parallel_tool_use"] = True
    return choice


def _tool(tool: FlatTool) -> dict[str, object]:
    told: dict[str, object] = {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    }
    if tool.strict:
        told["strict"] = True
    return told
