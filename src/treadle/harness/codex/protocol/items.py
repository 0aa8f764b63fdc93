"""Items of a turn, as the app-server shows them to people.

Owns the shapes of those that Treadle tells its host about. Invariant: an item of a type
or a shape we do not know is an `OtherItem`, never an error.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Raw

from ....core.wire import NULL
from .base import WireStruct

__all__ = [
    "AgentMessageItem",
    "CommandItem",
    "CompactionItem",
    "DynamicToolItem",
    "FileChangeInfo",
    "FileChangeItem",
    "McpToolItem",
    "OtherItem",
    "PlanItem",
    "ReasoningItem",
    "TurnItem",
    "UserMessageItem",
    "WebSearchItem",
    "parse_item",
]


class _Item(WireStruct, frozen=True, kw_only=True):
    id: str


class UserMessageItem(_Item, frozen=True, kw_only=True, tag="userMessage"):
    """What was put into the turn; `client_id` is the id we gave it."""

    content: tuple[Raw, ...] = ()
    client_id: str | None = None


class AgentMessageItem(_Item, frozen=True, kw_only=True, tag="agentMessage"):
    """What the model said."""

    text: str = ""
    phase: str | None = None


class PlanItem(_Item, frozen=True, kw_only=True, tag="plan"):
    """A plan the model wrote."""

    text: str = ""


class ReasoningItem(_Item, frozen=True, kw_only=True, tag="reasoning"):
    """What the model thought, in summaries and, rarely, in full."""

    summary: tuple[str, ...] = ()
    content: tuple[str, ...] = ()


class CommandItem(_Item, frozen=True, kw_only=True, tag="commandExecution"):
    """A command: `inProgress`, `completed`, `failed` or `declined`."""

    command: str
    cwd: str = ""
    status: str = ""
    source: str = ""
    process_id: str | None = None
    aggregated_output: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None


class FileChangeInfo(WireStruct, frozen=True, kw_only=True):
    """What a patch does to one file."""

    path: str
    diff: str = ""
    kind: Raw = NULL


class FileChangeItem(_Item, frozen=True, kw_only=True, tag="fileChange"):
    """A patch."""

    changes: tuple[FileChangeInfo, ...] = ()
    status: str = ""


class DynamicToolItem(_Item, frozen=True, kw_only=True, tag="dynamicToolCall"):
    """A call of one of our tools."""

    tool: str
    namespace: str | None = None
    arguments: Raw = NULL
    status: str = ""
    success: bool | None = None
    duration_ms: int | None = None


class McpToolItem(_Item, frozen=True, kw_only=True, tag="mcpToolCall"):
    """A call of an MCP server's tool."""

    server: str
    tool: str
    arguments: Raw = NULL
    status: str = ""
    result: Raw = NULL
    error: Raw = NULL
    duration_ms: int | None = None


class WebSearchItem(_Item, frozen=True, kw_only=True, tag="webSearch"):
    """A search on the web."""

    query: str = ""
    action: Raw = NULL


class CompactionItem(_Item, frozen=True, kw_only=True, tag="contextCompaction"):
    """The app-server compacted natively."""


class OtherItem(WireStruct, frozen=True, kw_only=True):
    """An item we have no shape for."""

    type: str = ""
    id: str = ""


_Known: TypeAlias = (
    UserMessageItem
    | AgentMessageItem
    | PlanItem
    | ReasoningItem
    | CommandItem
    | FileChangeItem
    | DynamicToolItem
    | McpToolItem
    | WebSearchItem
    | CompactionItem
)
TurnItem: TypeAlias = _Known | OtherItem

_known: msgspec.json.Decoder[_Known] = msgspec.json.Decoder(_Known)
_other = msgspec.json.Decoder(OtherItem)


def parse_item(payload: bytes | Raw) -> TurnItem:
    """The item in `payload`."""
    try:
        return _known.decode(payload)
    except msgspec.ValidationError:
        pass
    try:
        return _other.decode(payload)
    except msgspec.ValidationError:
        return OtherItem()
