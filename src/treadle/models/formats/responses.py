"""The Responses format: items as they are.

Owns the field order of the body. `input` comes last, so that the bytes of one
request, up to its closing brackets, start the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import UNSET, Raw, Struct

from ...core.entries import Head
from ...core.wire import json_bytes
from ..contract import HeadPart

__all__ = ["ResponsesFormat"]


class ResponsesFormat(Struct, frozen=True):
    """Writes bodies for the Responses API."""

    name: str = "responses"

    def head_parts(self, head: Head, cache_key: str) -> Iterator[tuple[HeadPart, bytes]]:
        """Return the parameters, the tools, the instructions and the start of the input."""
        yield "params", json_bytes(_params(head, cache_key))[:-1]
        yield "tools", b',"tools":[%s]' % b",".join(bytes(tool) for tool in head.tools)
        text = b',"instructions":' + json_bytes(head.instructions) if head.instructions else b""
        yield "instructions", text + b',"input":['

    def writer(self, _head: Head, /) -> _Items:
        """Return a writer of plain items."""
        return _Items()

    def with_cache_marks(self, body: bytes, _ends: tuple[int, ...], /) -> bytes:
        """Return the body unchanged: this API has no marks."""
        return body


class _Items(Struct):
    """Items between commas."""

    first: bool = True

    def write(self, item: bytes) -> bytes:
        lead, self.first = b"" if self.first else b",", False
        return lead + item

    def closing(self) -> bytes:
        return b"]}"

    def copy(self) -> _Items:
        return _Items(self.first)


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
