"""Results: values as clients read them.

Owns the only way out. Invariant: nothing that is sent holds a known secret.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from mcp import types

from ..core.redact import blank_json, redact, redact_known
from ..core.wire import json_bytes
from .agent_home import TurnReport

__all__ = ["error_result", "report_result", "value_result"]


def value_result(value: Struct) -> types.CallToolResult:
    """Return a value as structured content, and as text for clients that read only that."""
    data = blank_json(json_bytes(value))
    structured: Any = msgspec.json.decode(data)
    return types.CallToolResult(content=[_text(data.decode())], structured_content=structured)


def report_result(report: TurnReport) -> types.CallToolResult:
    """Return how a turn ended: as text, the agent's last message or what went wrong."""
    structured: Any = msgspec.json.decode(blank_json(json_bytes(report)))
    if report.status == "completed":
        return types.CallToolResult(
            content=[_text(redact_known(report.text))], structured_content=structured
        )
    why = redact(report.error or f"the turn is {report.status}")
    onward = f"; `reply` goes on with thread {report.thread}" if report.thread else ""
    return types.CallToolResult(
        content=[_text(why + onward)], structured_content=structured, is_error=True
    )


def error_result(error: Exception) -> types.CallToolResult:
    """Return a refusal that the calling model reads."""
    return types.CallToolResult(content=[_text(redact(str(error)))], is_error=True)


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)
