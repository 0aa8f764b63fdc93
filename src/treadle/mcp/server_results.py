"""Results of servers as outputs of calls.

Owns how each kind of content is shown to a model. Invariant: nothing is dropped without a word:
what a model cannot read is named with its kind and size.
"""

from __future__ import annotations

import json
from typing import Any

from ..core.items import InputImage, InputText, Output
from ..core.wire import json_bytes
from ..tools.contract import Details, ToolResult

__all__ = ["resource_text", "result_of"]

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MOST_PARTS = 200


def result_of(answer: Any) -> ToolResult:
    """Return the result of a call from what the SDK read."""
    parts = [_part(block) for block in answer.content[:_MOST_PARTS]]
    if len(answer.content) > _MOST_PARTS:
        parts.append(InputText(text=f"[{len(answer.content) - _MOST_PARTS} more parts]"))
    structured = getattr(answer, "structured_content", None)
    if structured is not None:
        text = json_bytes(structured).decode(errors="replace")
        # Servers repeat structured content as text for clients that know no better.
        if not any(isinstance(part, InputText) and _same(part.text, structured) for part in parts):
            parts.append(InputText(text=text))
    failed = bool(answer.is_error)
    details = Details(status="error", error="the server says so") if failed else None
    return ToolResult(_output(parts), success=not failed, details=details)


def _output(parts: list[InputText | InputImage]) -> Output:
    if all(isinstance(part, InputText) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, InputText))
    return tuple(parts)


def _part(block: Any) -> InputText | InputImage:
    match block.type:
        case "text":
            return InputText(text=block.text)
        case "image" if block.mime_type in _IMAGES:
            return InputImage(image_url=f"data:{block.mime_type};base64,{block.data}")
        case "image" | "audio":
            kind = f"{block.type} of the type {block.mime_type}"
            return InputText(text=f"[{kind}, {len(block.data) * 3 // 4} bytes, not shown]")
        case "resource_link":
            return InputText(text=f"[resource {block.uri}: {block.name}]")
        case "resource":
            return InputText(text=resource_text(block.resource))
        case _:
            return InputText(text=f"[content of the kind {block.type!r}, not shown]")


def resource_text(contents: Any) -> str:
    """Return a resource as a model reads it."""
    text = getattr(contents, "text", None)
    if text is not None:
        return f"[resource {contents.uri}]\n{text}"
    kind = contents.mime_type or "unknown type"
    return f"[resource {contents.uri}: {kind}, {len(contents.blob) * 3 // 4} bytes, not shown]"


def _same(text: str, structured: Any) -> bool:
    try:
        return bool(json.loads(text) == structured)
    except (ValueError, RecursionError):
        return False
