"""The Responses format: items as they are.

Owns the field order of the body, and the form of searches for tools. `input` comes last, so that
the bytes of one request, up to its closing brackets, start the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import UNSET, Raw, Struct

from ...core.entries import Head
from ...core.found_text import FoundDefinition
from ...core.items import (
    FunctionCall,
    FunctionCallOutput,
    ToolSearchCall,
    ToolSearchOutput,
    decode_item,
    encode_item,
)
from ...core.specs import SPECS, FunctionTool
from ...core.wire import UNREADABLE, Json, json_bytes
from ..contract import HeadPart
from .cache_marks import Element, mark_elements
from .deferral import Searches
from .root_branches import joined_root

__all__ = ["ResponsesFormat"]

_MARKABLE = frozenset(("input_text", "input_image", "input_file"))
"""The parts behind which a request may have a breakpoint."""
_CALLS = b'"function_call'
_SEARCH_ID = "tsc_"
_members = msgspec.json.Decoder(dict[str, Raw])


class ResponsesFormat(Struct, frozen=True):
    """Writes bodies for the Responses API."""

    name: str = "responses"

    def head_parts(self, head: Head, cache_key: str) -> Iterator[tuple[HeadPart, bytes]]:
        """Return the parameters, the tools, the instructions and the start of the input."""
        yield "params", json_bytes(_params(head, cache_key))[:-1]
        yield "tools", b',"tools":[%s]' % b",".join(bytes(tool) for tool in head.tools)
        text = b',"instructions":' + json_bytes(head.instructions) if head.instructions else b""
        yield "instructions", text + b',"input":['

    def writer(self, head: Head, /) -> _Items:
        """Return a writer of plain items."""
        return _Items(searches=Searches.under(head))

    def with_cache_marks(self, body: bytes, ends: tuple[int, ...], head: Head) -> bytes:
        """Return `body` with breakpoints in the messages that end there, if `head` asks for them.

        Without them the provider itself chooses where to cache.
        """
        return mark_elements(body, "input", ends, _mark) if head.cache_breakpoints else body


def _mark(item: Element) -> Element | None:
    """Return a message with a breakpoint in its last part; None for what cannot have one."""
    parts = msgspec.json.decode(item.get("content", b"null"))
    if not isinstance(parts, list) or not parts or parts[-1].get("type") not in _MARKABLE:
        return None
    parts[-1]["prompt_cache_breakpoint"] = {"mode": "explicit"}
    return {**item, "content": Raw(json_bytes(parts))}


class _Items(Struct):
    """Items between commas."""

    first: bool = True
    searches: Searches | None = None

    def write(self, item: bytes) -> bytes:
        lead, self.first = b"" if self.first else b",", False
        if self.searches is not None and _CALLS in item:
            item = _search_form(item, self.searches)
        return lead + item

    def closing(self) -> bytes:
        return b"]}"

    def copy(self) -> _Items:
        searches = None if self.searches is None else self.searches.copy()
        return _Items(self.first, searches)


def _search_form(data: bytes, searches: Searches) -> bytes:
    """Return a search, or what it found, in the words of the API; other items as they are."""
    item = decode_item(data)
    if searches.is_search(item):
        assert isinstance(item, FunctionCall)
        return encode_item(
            ToolSearchCall(
                id=item.id if item.id and item.id.startswith(_SEARCH_ID) else None,
                call_id=item.call_id,
                status="completed",
                execution="client",
                arguments=_object(item.arguments),
            )
        )
    found = searches.found_by(item)
    if found is None:
        return data
    assert isinstance(item, FunctionCallOutput)
    tools = tuple(Raw(SPECS.encode(_deferred(each))) for each in found)
    return encode_item(
        ToolSearchOutput(call_id=item.call_id, status="completed", execution="client", tools=tools)
    )


def _deferred(tool: FoundDefinition) -> FunctionTool:
    return FunctionTool(
        name=tool.name,
        description=tool.description,
        strict=False,
        defer_loading=True,
        parameters=joined_root(tool.parameters),
    )


def _object(arguments: str) -> Json:
    """Return arguments as the object that a search has."""
    try:
        _members.decode(arguments or "{}")
    except UNREADABLE:
        return Raw(json_bytes({"query": arguments}))
    return Raw((arguments or "{}").encode())


def _params(head: Head, cache_key: str) -> dict[str, object]:
    reasoning = _without_none({"effort": head.effort, "summary": head.summary})
    return _without_none(
        {
            "model": head.model,
            "tool_choice": head.tool_choice,
            "parallel_tool_calls": head.parallel_tool_calls,
            "reasoning": reasoning or None,
            "store": False,
            "stream": True,
            "include": list(head.include),
            "service_tier": head.service_tier,
            "prompt_cache_key": cache_key or None,
            "prompt_cache_retention": head.cache_retention,
            "prompt_cache_options": {"ttl": head.cache_ttl} if head.cache_ttl else None,
            "max_output_tokens": head.max_output_tokens,
            "temperature": head.temperature,
            "text": _text(head) or None,
        }
    )


def _text(head: Head) -> dict[str, object]:
    text: dict[str, object] = {"verbosity": head.verbosity}
    if head.output_schema is not UNSET:
        text["format"] = {
            "type": "json_schema",
            "strict": True,
            "schema": Raw(head.output_schema),
            "name": head.schema_name,
        }
    return _without_none(text)


def _without_none(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
